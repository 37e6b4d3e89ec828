// One request in the hands of a user's library: what the calls of cellbatch_unfolder.h say, checked, on
// its way into a CellGraph. One thread, for one call of unfold.
#ifndef CELLBATCH_CELLS_UNFOLD_LIBRARY_BUILDER_H_
#define CELLBATCH_CELLS_UNFOLD_LIBRARY_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cells/cell_graph.h"
#include "cells/unfold/cellbatch_unfolder.h"
#include "cells/unfold/library_unfolder.h"
#include "cells/unfold/request_input.h"

namespace cellbatch {

// The text behind a pointer of the library's, of a length that can be shown.
std::string TextOf(const char* text);

class LibraryBuilder {
 public:
  // All are borrowed.
  LibraryBuilder(const LibraryModel& model, const RequestInput& input, CellGraph& graph);

  const CellbatchTensor* FindTensor(const char* name) const;
  int32_t AddInput(int32_t type, int32_t input, int32_t rows, const void* data);
  int32_t AddNodes(int32_t type, int32_t length, const CellbatchLink* links, int32_t num_links);
  int32_t AddOutput(const char* name, int32_t rank, const int64_t* dims);
  int32_t ReturnRows(int32_t subgraph, int32_t column, int32_t first, int32_t count, int32_t output,
                     int64_t offset, int64_t stride);
  void Reject(const char* why);
  int32_t Fail(std::string_view function, std::string_view what);  // the library's fault

  // After unfold: the first error, or what the library left out.
  absl::Status Finish(int32_t answered);

 private:
  struct Made {
    int32_t type = -1;  // -1: rows of the request
    TableId table;
    int32_t length = 0;
  };
  struct Output {
    std::string name;
    WireType type = WireType::kFp32;
    int64_t elements = 0;
    int32_t tensor = 0;
  };

  bool failed() const { return !status_.ok(); }
  int32_t TooMuch(std::string_view function, std::string_view what);
  const NodeType* TypeAt(std::string_view function, int32_t type);
  // Empty: the link is good.
  std::string CheckLink(const NodeType& type, int32_t length, const CellbatchLink& link) const;
  bool CheckCounts(const NodeType& type);
  const std::byte* RowsOf(const void* data, int64_t bytes);
  const std::byte* Known(const Port& port, const std::byte* rows, int64_t elements);

  const LibraryModel& model_;
  const RequestInput& input_;
  CellGraph& graph_;
  absl::Status status_;
  std::vector<CellbatchTensor> tensors_;  // of the request, in its order
  std::vector<Made> made_;                // by SubgraphId
  std::vector<Output> outputs_;           // by their numbers
  std::vector<Link> links_;               // of one call
  int64_t nodes_ = 0, num_links_ = 0, returns_ = 0, kept_bytes_ = 0, answer_bytes_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_LIBRARY_BUILDER_H_

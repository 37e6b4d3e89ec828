// One request in the hands of a user's library: what the calls of cellbatch_unfolder.h say, checked, on
// its way into a CellGraph. One thread, for one call of unfold or extend; what a request whose graph grows has become is
// kept between them (LibraryRequest).
#ifndef CELLBATCH_CELLS_UNFOLD_LIBRARY_BUILDER_H_
#define CELLBATCH_CELLS_UNFOLD_LIBRARY_BUILDER_H_

#include <cstdint>
#include <memory>
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

// What the calls for one request have made so far. A value.
struct LibraryRequest {
  struct Made {
    int32_t type = -1;  // -1: rows of the request
    TableId table;
    int32_t length = 0;
  };
  struct Output {
    std::string name;  // empty: not sent
    WireType type = WireType::kFp32;
    int64_t elements = 0;
    int32_t tensor = 0;
  };
  std::vector<Made> made;       // by SubgraphId
  std::vector<Output> outputs;  // by their numbers
  int64_t nodes = 0, links = 0, returns = 0, kept_bytes = 0, answer_bytes = 0;
  // What may follow.
  int32_t pieces = 0;              // 0: nothing, the graph does not grow
  bool closed = false;             // nor after the pieces that there are
  int64_t more_nodes = 0;          // not added yet
  std::vector<int64_t> more_rows;  // by TableId, as was said
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, nullptr};  // the library's
};

class LibraryBuilder {
 public:
  // The first piece of a graph, or (`extends`) another. All are borrowed.
  LibraryBuilder(const LibraryModel& model, const RequestInput& input, CellGraph& graph,
                 LibraryRequest& so_far, bool extends);

  const CellbatchTensor* FindTensor(const char* name) const;
  int32_t AddInput(int32_t type, int32_t input, int32_t rows, const void* data);
  int32_t AddNodes(int32_t type, int32_t length, const CellbatchLink* links, int32_t num_links);
  int32_t AddOutput(const char* name, int32_t rank, const int64_t* dims);
  int32_t ReturnRows(int32_t subgraph, int32_t column, int32_t first, int32_t count, int32_t output,
                     int64_t offset, int64_t stride);
  int32_t Grow(int32_t pieces);
  int32_t GrowNodes(int32_t type, int32_t nodes, int32_t rows);
  int32_t GrowInput(int32_t type, int32_t input, int32_t rows);
  int32_t KeepRows(int32_t subgraph);
  int32_t AddUnsent(int32_t type, int32_t rank, const int64_t* dims);
  void* OutputData(int32_t output) const;
  int32_t Remember(void* memory, void (*forget)(void*));
  void* Remembered() const { return so_far_.memory.get(); }
  int32_t Close();
  void Reject(const char* why);
  int32_t Fail(std::string_view function, std::string_view what);  // the library's fault
  void Broke(std::string_view what) { Fail(Caller(), what); }

  // After unfold or extend: the first error, or what the library left out.
  absl::Status Finish(int32_t answered);

 private:
  using Made = LibraryRequest::Made;
  using Output = LibraryRequest::Output;

  const char* Caller() const { return extends_ ? "extend" : "unfold"; }
  // False: it failed, or was called where it may not be.
  bool InUnfold(std::string_view function);
  bool Growing(std::string_view function);
  int32_t GrowRows(TableId table, int32_t rows);
  // Its tensor, within the bounds. CELLBATCH_FAILED: it is not.
  int32_t AddTensor(std::string_view function, const std::string& name, WireType type, int32_t rank,
                    const int64_t* dims);
  bool CountNodes(int32_t length, int32_t num_links);

  bool failed() const { return !status_.ok(); }
  int32_t TooMuch(std::string_view function, std::string_view what);
  const NodeType* TypeAt(std::string_view function, int32_t type);
  // That the request brings. Null: it is none of those.
  const Port* BroughtPort(std::string_view function, const NodeType& type, int32_t input);
  // Empty: the link is good.
  std::string CheckLink(const NodeType& type, int32_t length, const CellbatchLink& link) const;
  bool CheckCounts(const NodeType& type);
  const std::byte* RowsOf(const void* data, int64_t bytes);
  const std::byte* Known(const Port& port, const std::byte* rows, int64_t elements);

  const LibraryModel& model_;
  const RequestInput& input_;
  CellGraph& graph_;
  absl::Status status_;
  LibraryRequest& so_far_;
  const bool extends_;
  const int32_t first_;                   // subgraph of this piece
  std::vector<CellbatchTensor> tensors_;  // of the request, in its order
  std::vector<Link> links_;               // of one call
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_LIBRARY_BUILDER_H_

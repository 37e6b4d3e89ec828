// A user's own unfolder (cellbatch_unfolder.h) as an Unfolder: what the library says is checked call by
// call, against the model and the caps below, and becomes a CellGraph.
//
//   LibraryUnfolder::Create --> table->create(host, model, config)     declares inputs and outputs
//   Unfold(request, graph)  --> table->unfold(self, host, builder)     adds nodes, links, returned rows; may say grow
//   Extend(request, graph)  --> table->extend(self, host, builder)     what came so far is the graph's Progress
//
// The first error is kept, and every later call of that request fails. Statuses: what the library
// rejects, and requests that grow beyond a cap, are INVALID_ARGUMENT; what the library gets wrong is
// INTERNAL, "unfolder library NAME: FUNCTION: what". C++ exceptions that it lets out are caught here,
// too. The library is trusted all the same: it can crash the process, or not come back.
//
// Immutable after Create; any thread (as the library's unfold). Unfold and Extend cost what the library does and
// O(links) for the checks.
#ifndef CELLBATCH_CELLS_UNFOLD_LIBRARY_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_LIBRARY_UNFOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "cells/unfold/cellbatch_unfolder.h"
#include "cells/unfold/node_type.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {

// What one request may become. Beyond: INVALID_ARGUMENT, and the text names the bound.
struct LibraryLimits {
  int64_t max_nodes = 0;                       // the model's, pieces to come included
  int32_t max_pieces = 0;                      // that a graph may grow by; the model's
  int64_t max_links_per_node = 16;             // on average: max_nodes times this in all
  int64_t max_returns_per_node = 4;            // likewise
  int64_t max_kept_bytes = int64_t{64} << 20;  // rows that do not lie in the request
  int64_t max_answer_bytes = int64_t{256} << 20;
};

struct LibrarySpec {
  std::string name;  // for error texts
  const CellbatchUnfolder* table = nullptr;
  std::shared_ptr<void> library;  // keeps the code where it is
  std::string config;
  std::vector<CellTypeId> types;  // as the library numbers them
  std::vector<BroughtInput> inputs;
  std::vector<int32_t> phases;  // of types, in their order (CellGraph::SetPhase); empty: all 0
  LibraryLimits limits;
};

// What a library knows and declared of one model version. The builder reads it.
struct LibraryModel {
  std::string name;
  std::vector<NodeType> types;               // by the library's numbers
  std::vector<std::vector<Column>> columns;  // of each
  std::vector<std::string> tables;           // names, by TableId
  Signature signature;
  LibraryLimits limits;
  int32_t phases = 1;
  bool extends = false;  // the library can
};

class LibraryUnfolder : public Unfolder {
 public:
  // INVALID_ARGUMENT: the table is not one of this version, a type does not fit, or the library refused.
  static absl::StatusOr<std::unique_ptr<LibraryUnfolder>> Create(const LibrarySpec& spec,
                                                                 const Model& model);
  ~LibraryUnfolder() override;

  const Signature& signature() const { return model_.signature; }

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  absl::Status Extend(const RequestInput& input, CellGraph& graph) const override;
  int32_t phases() const override { return model_.phases; }
  RequestDescription Describe() const override;

 private:
  LibraryUnfolder() = default;

  LibraryModel model_;
  std::shared_ptr<void> library_;
  const CellbatchUnfolder* table_ = nullptr;
  decltype(CellbatchUnfolder::extend) extend_ = nullptr;  // null: graphs do not grow
  void* self_ = nullptr;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_LIBRARY_UNFOLDER_H_

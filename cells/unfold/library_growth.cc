// What a user's library says of graphs that grow: by how much, what is kept between pieces, and what came out of those
// that are done. The rows that were said are held to by CellGraph::Seal, which knows what each subgraph keeps.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "cells/unfold/library_builder.h"

namespace cellbatch {
namespace {

constexpr size_t kMaxUnsent = 64;
constexpr int32_t kMaxRank = 8;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

bool LibraryBuilder::InUnfold(std::string_view function) {
  if (!failed() && extends_) Fail(function, "called during extend; it belongs into unfold");
  return !failed();
}

bool LibraryBuilder::Growing(std::string_view function) {
  if (!InUnfold(function)) return false;
  if (so_far_.pieces == 0) Fail(function, "called before grow");
  return !failed();
}

int32_t LibraryBuilder::Grow(int32_t pieces) {
  if (!InUnfold("grow")) return CELLBATCH_FAILED;
  if (!model_.extends) return Fail("grow", "the library has no extend");
  if (so_far_.pieces > 0) return Fail("grow", "called a second time");
  if (pieces < 1) return Fail("grow", fmt::format("{} pieces, the least is 1", pieces));
  if (pieces > model_.limits.max_pieces) {
    return TooMuch("grow", fmt::format("{} pieces may follow, the model takes {} (max_pieces)",
                                       pieces, model_.limits.max_pieces));
  }
  so_far_.pieces = pieces;
  so_far_.more_rows.assign(model_.tables.size(), 0);
  return 0;
}

int32_t LibraryBuilder::GrowRows(TableId table, int32_t rows) {
  int64_t& more = so_far_.more_rows[Index(table.value())];
  more += rows;
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (more <= most) return 0;
  return TooMuch("grow", fmt::format("{} more rows of \"{}\", {} fit", more,
                                     model_.tables[Index(table.value())], most));
}

int32_t LibraryBuilder::GrowNodes(int32_t type_number, int32_t nodes, int32_t rows) {
  if (!Growing("grow_nodes")) return CELLBATCH_FAILED;
  const NodeType* type = TypeAt("grow_nodes", type_number);
  if (type == nullptr) return CELLBATCH_FAILED;
  if (nodes < 0 || rows < 0 || rows > nodes) {
    return Fail("grow_nodes",
                fmt::format("{} more cells of type \"{}\" keep {} rows", nodes, type->name, rows));
  }
  so_far_.more_nodes += nodes;
  return GrowRows(type->out, rows);
}

int32_t LibraryBuilder::GrowInput(int32_t type_number, int32_t input, int32_t rows) {
  if (!Growing("grow_input")) return CELLBATCH_FAILED;
  const NodeType* type = TypeAt("grow_input", type_number);
  if (type == nullptr) return CELLBATCH_FAILED;
  const Port* port = BroughtPort("grow_input", *type, input);
  if (port == nullptr) return CELLBATCH_FAILED;
  if (rows < 0) return Fail("grow_input", fmt::format("{} more rows for {}", rows, port->name));
  return GrowRows(port->table, rows);
}

int32_t LibraryBuilder::KeepRows(int32_t subgraph) {
  if (failed()) return CELLBATCH_FAILED;
  const bool there = subgraph >= first_ && Index(subgraph) < so_far_.made.size();
  if (!there || so_far_.made[Index(subgraph)].type < 0) {
    return Fail("keep_rows",
                fmt::format("subgraph {} is none of nodes that this piece added, which begin at {}",
                            subgraph, first_));
  }
  graph_.KeepRows(SubgraphId(subgraph));
  return 0;
}

int32_t LibraryBuilder::AddUnsent(int32_t type, int32_t rank, const int64_t* dims) {
  if (!InUnfold("add_unsent")) return CELLBATCH_FAILED;
  const bool known = type == CELLBATCH_INT32 || type == CELLBATCH_FP32;
  if (!known || rank < 1 || rank > kMaxRank || dims == nullptr) {
    return Fail("add_unsent", fmt::format("a tensor of type {} and {} dimensions", type, rank));
  }
  for (int32_t d = 0; d < rank; ++d) {
    if (dims[d] < 1) return Fail("add_unsent", fmt::format("dimension {} is {}", d, dims[d]));
  }
  size_t unsent = 0;
  for (const Output& output : so_far_.outputs) unsent += output.name.empty() ? 1 : 0;
  if (unsent == kMaxUnsent) {
    return Fail("add_unsent", fmt::format("called more than {} times", kMaxUnsent));
  }
  return AddTensor("add_unsent", "", type == CELLBATCH_FP32 ? WireType::kFp32 : WireType::kInt32,
                   rank, dims);
}

void* LibraryBuilder::OutputData(int32_t output) const {
  if (!extends_ || output < 0 || Index(output) >= so_far_.outputs.size()) return nullptr;
  return graph_.tensors()[Index(so_far_.outputs[Index(output)].tensor)].bytes.data();
}

int32_t LibraryBuilder::Remember(void* memory, void (*forget)(void*)) {
  if (memory == nullptr || forget == nullptr) return Fail("remember", "null");
  std::unique_ptr<void, void (*)(void*)> handed_over(memory, forget);
  if (!InUnfold("remember")) return CELLBATCH_FAILED;
  if (so_far_.memory != nullptr) return Fail("remember", "called a second time");
  so_far_.memory = std::move(handed_over);
  return 0;
}

int32_t LibraryBuilder::Close() {
  if (failed()) return CELLBATCH_FAILED;
  if (so_far_.pieces == 0) return Fail("close", "called before grow");
  so_far_.closed = true;
  return 0;
}

}  // namespace cellbatch

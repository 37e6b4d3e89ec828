#include "cells/cell_graph.h"

#include <limits>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

// Counts that Subgraph keeps in 32 bits.
int32_t Count(size_t n) {
  Check(n < static_cast<size_t>(std::numeric_limits<int32_t>::max()),
        "a graph beyond 2^31 entries");
  return static_cast<int32_t>(n);
}

}  // namespace

void CellGraph::Reserve(const GraphBounds& most) {
  subgraphs_.reserve(static_cast<size_t>(most.inputs) + static_cast<size_t>(most.subgraphs));
  links_.reserve(static_cast<size_t>(most.links));
  returns_.reserve(static_cast<size_t>(most.returns));
  return_owner_.reserve(static_cast<size_t>(most.returns));
  tensors_.reserve(static_cast<size_t>(most.tensors));
}

SubgraphId CellGraph::AddInput(TableId table, int32_t rows, const std::byte* data) {
  Check(!sealed_, "AddInput after Seal");
  const SubgraphId id(Count(subgraphs_.size()));
  Subgraph& s = subgraphs_.emplace_back();
  s.table = table;
  s.length = rows;
  s.first_link = Count(links_.size());
  s.data = data;
  return id;
}

std::byte* CellGraph::Keep(int64_t bytes) {
  kept_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes)));
  return kept_.back().get();
}

SubgraphId CellGraph::Add(CellTypeId type, int32_t length, absl::Span<const Link> links,
                          Stop stop) {
  Check(!sealed_, "Add after Seal");
  // An invalid type means "request input" inside; Seal must still see it as the mistake it is.
  constexpr CellTypeId kNoSuchType(std::numeric_limits<int32_t>::max());
  const SubgraphId id(Count(subgraphs_.size()));
  Subgraph& s = subgraphs_.emplace_back();
  s.type = type.valid() ? type : kNoSuchType;
  s.length = length;
  s.first_link = Count(links_.size());
  s.num_links = Count(links.size());
  s.stop = stop;
  links_.insert(links_.end(), links.begin(), links.end());
  return id;
}

int32_t CellGraph::AddTensor(std::string_view name, WireType type, std::vector<int64_t> dims,
                             const Vocabulary* names) {
  Check(!sealed_, "AddTensor after Seal");
  Check(names == nullptr || type == WireType::kInt32, "what has names is numbered in INT32");
  ReturnedTensor& t = tensors_.emplace_back();
  t.name = name;
  t.type = type;
  t.dims = std::move(dims);
  t.names = names;
  return Count(tensors_.size()) - 1;
}

void CellGraph::Return(SubgraphId from, ColumnId column, NodeRange nodes, Placement where) {
  Check(!sealed_, "Return after Seal");
  returns_.push_back({column, nodes, where});
  return_owner_.push_back(from);
}

}  // namespace cellbatch

#include "cells/cell_graph.h"

#include <algorithm>
#include <cstring>
#include <iterator>
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

void CellGraph::Grow(Growth most) {
  Check(pieces_ == 0, "Grow after Seal");
  growth_ = std::move(most);
  grows_ = true;
}

void CellGraph::KeepRows(SubgraphId chain) {
  Check(chain.value() >= first_subgraph_ && !sealed_, "KeepRows of a chain that is sealed");
  Subgraph& s = subgraphs_[static_cast<size_t>(chain.value())];
  s.ring = s.length;
}

void CellGraph::Open() {
  if (!sealed_) return;
  Check(grows_, "a graph that does not grow is added to after Seal");
  sealed_ = false;
  first_subgraph_ = Count(subgraphs_.size());
  first_return_ = Count(returns_.size());
  earlier_nodes_ = num_nodes_;
}

void CellGraph::SetPhase(int32_t phase) {
  Check(phase >= 0 && phase < kMostPhases, "a phase that there is not");
  phase_ = phase;
}

SubgraphId CellGraph::AddInput(TableId table, int32_t rows, const std::byte* data,
                               ColumnSet brought) {
  Open();
  const SubgraphId id(Count(subgraphs_.size()));
  Subgraph& s = subgraphs_.emplace_back();
  s.table = table;
  s.length = rows;
  s.first_link = Count(links_.size());
  s.data = data;
  s.brought = brought;
  return id;
}

std::byte* CellGraph::Keep(int64_t bytes) {
  kept_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes)));
  return kept_.back().get();
}

void CellGraph::KeepToo(CellGraph&& other) {
  std::move(other.kept_.begin(), other.kept_.end(), std::back_inserter(kept_));
}

SubgraphId CellGraph::Add(CellTypeId type, int32_t length, absl::Span<const Link> links,
                          Stop stop) {
  Open();
  // An invalid type means "request input" inside; Seal must still see it as the mistake it is.
  constexpr CellTypeId kNoSuchType(std::numeric_limits<int32_t>::max());
  const SubgraphId id(Count(subgraphs_.size()));
  Subgraph& s = subgraphs_.emplace_back();
  s.type = type.valid() ? type : kNoSuchType;
  s.length = length;
  s.first_link = Count(links_.size());
  s.num_links = Count(links.size());
  s.stop = stop;
  s.phase = phase_;
  links_.insert(links_.end(), links.begin(), links.end());
  return id;
}

int32_t CellGraph::AddTensor(std::string_view name, WireType type, TensorDims dims,
                             const Vocabulary* names) {
  Check(pieces_ == 0, "AddTensor after Seal: tensors are the first piece's");
  Check(names == nullptr || type == WireType::kInt32, "what has names is numbered in INT32");
  ReturnedTensor& t = tensors_.emplace_back();
  t.name = name;
  t.type = type;
  t.dims = std::move(dims);
  t.names = names;
  return Count(tensors_.size()) - 1;
}

void CellGraph::Return(SubgraphId from, ColumnId column, NodeRange nodes, Placement where) {
  Open();
  returns_.push_back({column, nodes, where});
  return_owner_.push_back(from);
}

void CellGraph::ReturnStop(SubgraphId chain, const StopTensors& tensors) {
  Open();
  Check(chain.valid() && static_cast<size_t>(chain.value()) < subgraphs_.size() &&
            subgraphs_[static_cast<size_t>(chain.value())].stop.column.valid(),
        "ReturnStop of a chain without a stop");
  const Subgraph& s = subgraphs_[static_cast<size_t>(chain.value())];
  StopReport& report = stop_reports_.emplace_back(StopReport{chain, tensors});
  if (tensors.words < 0) report.tensors.words = AddTensor("", WireType::kInt32, {s.length});
  Return(chain, s.stop.column, {0, s.length},
         {.tensor = report.tensors.words, .offset_bytes = 0, .stride_bytes = sizeof(int32_t)});
}

void CellGraph::CloseAnswer() {
  for (const StopReport& report : stop_reports_) {
    const Subgraph& s = subgraphs_[static_cast<size_t>(report.chain.value())];
    ReturnedTensor& words = tensors_[static_cast<size_t>(report.tensors.words)];
    const auto word = [&words](int32_t node) {
      int32_t value = 0;
      std::memcpy(&value, words.bytes.data() + sizeof(value) * static_cast<size_t>(node),
                  sizeof(value));
      return value;
    };
    int32_t length = 0;
    while (length < s.length && word(length) != s.stop.value) ++length;
    words.dims[0] = length;
    words.bytes = words.bytes.first(sizeof(int32_t) * static_cast<size_t>(length));
    const auto say = [this](int32_t tensor, int32_t value) {
      if (tensor < 0) return;
      std::memcpy(tensors_[static_cast<size_t>(tensor)].bytes.data(), &value, sizeof(value));
    };
    say(report.tensors.length, length);
    say(report.tensors.stopped, length < s.length ? 1 : 0);
  }
  stop_reports_.clear();
  tensors_.erase(std::remove_if(tensors_.begin(), tensors_.end(),
                                [](const ReturnedTensor& t) { return t.name.empty(); }),
                 tensors_.end());
}

}  // namespace cellbatch

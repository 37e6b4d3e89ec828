#include "scheduler/offline/typed_graph.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

int32_t TypedGraph::Add(int32_t type, absl::Span<const int32_t> predecessors) {
  Check(type >= 0 && type < num_types_, "a node of a type that the graph does not have");
  const auto from = static_cast<std::ptrdiff_t>(predecessors_.size());
  for (const int32_t p : predecessors) {
    Check(p >= 0 && p < size(), "a predecessor that is not an earlier node");
    if (std::find(predecessors_.begin() + from, predecessors_.end(), p) == predecessors_.end()) {
      predecessors_.push_back(p);
    }
  }
  types_.push_back(type);
  told_.push_back(-1);
  first_.push_back(static_cast<int32_t>(predecessors_.size()));
  return size() - 1;
}

void TypedGraph::Append(const TypedGraph& other) {
  Check(other.num_types_ == num_types_, "graphs with other types side by side");
  const int32_t shift = size();
  const int32_t links = static_cast<int32_t>(predecessors_.size());
  types_.insert(types_.end(), other.types_.begin(), other.types_.end());
  told_.insert(told_.end(), other.told_.begin(), other.told_.end());
  for (size_t i = 1; i < other.first_.size(); ++i) first_.push_back(links + other.first_[i]);
  for (const int32_t p : other.predecessors_) predecessors_.push_back(shift + p);
}

TypedGraph TypedGraph::Reversed() const {
  std::vector<std::vector<int32_t>> behind(
      types_.size());  // by node here: its readers' numbers there
  for (int32_t v = size() - 1; v >= 0; --v) {
    for (const int32_t p : predecessors(v)) {
      behind[static_cast<size_t>(p)].push_back(size() - 1 - v);
    }
  }
  TypedGraph turned(num_types_);
  for (int32_t v = size() - 1; v >= 0; --v) turned.Add(type(v), behind[static_cast<size_t>(v)]);
  return turned;
}

}  // namespace cellbatch

// Trees given by their nodes' parents, turned round: children by parent, numbered as a Forest numbers them. For forest.cc.
// O(nodes), no recursion.
#ifndef CELLBATCH_CELLS_UNFOLD_PARENT_READER_H_
#define CELLBATCH_CELLS_UNFOLD_PARENT_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/unfold/forest.h"

namespace cellbatch {

// "tree 3: " where there are several.
std::string OfTree(const Forest& forest, int64_t tree);

// Its vectors are kept from tree to tree.
class ParentReader {
 public:
  explicit ParentReader(Forest& forest) : forest_(forest) {}

  // Adds a tree: its size, and own_children, own_child_ends and own_numbers.
  absl::Status Read(absl::Span<const int32_t> parents);

 private:
  absl::Status Wrong(std::string_view what) const;
  absl::Span<const int32_t> ChildrenOf(int32_t node) const {
    const auto begin = static_cast<size_t>(first_[static_cast<size_t>(node)]);
    const auto end = static_cast<size_t>(first_[static_cast<size_t>(node) + 1]);
    return absl::MakeConstSpan(children_).subspan(begin, end - begin);
  }
  absl::Status CountChildren(absl::Span<const int32_t> parents, int32_t& root);
  void FillChildren(absl::Span<const int32_t> parents);
  absl::Status Unreached(absl::Span<const int32_t> parents) const;
  void Emit(size_t nodes);

  Forest& forest_;
  int64_t tree_ = 0;
  std::vector<int32_t> first_, next_, children_;  // by the request's numbers
  std::vector<int32_t> order_;                    // nodes with children, parents first
  std::vector<int32_t> rank_;                     // numbers here, by the request's
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_PARENT_READER_H_

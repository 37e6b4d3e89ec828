// The trees of a request in one form, whichever of three it was sent in:
//
//   TOKENS [n], CHILDREN [n - 1, 2]     leaves 0 .. n-1; row k is node n + k, its children come before it
//   TOKENS [N], PARENT [N]              any numbers of children, in the order of their numbers; -1: the root
//   TREE [1]                            bracketed text (bracket_text.h)
//
//   TREE "((a) ((b) (c)))":     node 0 1 2 | 3 4       leaves first, children before parents, the root last
//                               children     3: 1 2    4: 0 3
//
// LENGTHS INT32 [B] says that there are several trees, end to end in every tensor (and in the text): how many leaves
// each has, with PARENT how many nodes; every tree numbers its own nodes from 0. INTERNAL_TYPES INT32 holds a
// number for each node with children, in the order of their numbers.
//
// Pure; any thread. O(nodes), no recursion. Borrows from the request, and from the graph what had to be made anew.
#ifndef CELLBATCH_CELLS_UNFOLD_FOREST_H_
#define CELLBATCH_CELLS_UNFOLD_FOREST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/unfold/request_check.h"
#include "cells/unfold/request_input.h"
#include "cells/vocabulary.h"

namespace cellbatch {

inline constexpr char kChildrenInput[] = "CHILDREN";
inline constexpr char kParentInput[] = "PARENT";
inline constexpr char kTreeInput[] = "TREE";
inline constexpr char kInternalTypesInput[] = "INTERNAL_TYPES";

struct TreeSize {
  int32_t leaves = 0, internals = 0;
  int32_t nodes() const { return leaves + internals; }
};

// Not copied: it points into itself.
struct Forest {
  Forest() = default;
  Forest(Forest&&) = default;
  Forest& operator=(Forest&&) = default;

  std::vector<TreeSize> trees;
  TreeSize all;           // of them
  const char* form = "";  // the tensor that says how nodes hang together, for error texts
  bool several = false;   // LENGTHS was there
  const std::byte* tokens =
      nullptr;  // INT32, for each leaf, or each node: tree by tree, as numbered here
  bool node_tokens = false;
  // By internal node, through all trees. `children` are numbers within the tree.
  absl::Span<const int32_t> children;
  absl::Span<const int32_t> child_ends;  // where in `children` each one's end; empty: two each
  absl::Span<const int32_t> types;       // empty: all 0
  // The request's numbers of the nodes, tree by tree; empty: the same as here.
  absl::Span<const int32_t> numbers;

  // Children of internal node k, counted through all trees.
  absl::Span<const int32_t> ChildrenOf(int64_t k) const {
    const auto at = static_cast<size_t>(k);
    if (child_ends.empty()) return children.subspan(2 * at, 2);
    const int32_t begin = at == 0 ? 0 : child_ends[at - 1];
    return children.subspan(static_cast<size_t>(begin),
                            static_cast<size_t>(child_ends[at] - begin));
  }

  // What spans above point into, where it is not the request.
  std::vector<int32_t> own_children, own_child_ends, own_types, own_numbers;
};

struct ForestRules {
  IdRange words;                                 // tokens that are known
  std::shared_ptr<const Vocabulary> vocabulary;  // for TREE; null: it is refused
  int64_t max_nodes = 0;
  int32_t num_types = 1;    // INTERNAL_TYPES are below it
  bool leaf_tokens = true;  // tokens at leaves alone will do; false: CHILDREN and TREE are refused
};

// Fails with INVALID_ARGUMENT "input PARENT: ..", naming node and values, unless the tensors describe trees in which every
// node is reached from the one root once. The number of children is not judged here.
absl::StatusOr<Forest> ReadForest(const RequestInput& input, const ForestRules& rules,
                                  CellGraph& graph);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_FOREST_H_

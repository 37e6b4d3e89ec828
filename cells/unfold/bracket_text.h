// Trees as bracketed text, the way treebanks are written (a line of the Stanford Sentiment Treebank is one):
//
//   (3 (2 Effective) (2 (1 too-tepid) (2 biopic)))
//
//   tree  =  "(" [label] word ")"               a leaf
//         |  "(" [label] tree tree ... ")"      an internal node, of one child or more
//
// A word is a run of bytes other than brackets and white space (blank, tab, line ends), a label a number: -1, 3, 0.25. Of
// two in front of a closing bracket the first is the label, one alone is the word. Labels are read and left out: what a
// node is, is said by INTERNAL_TYPES. Bytes have no encoding here; UTF-8 passes as it is.
//
// A word where a label stands is refused, because it can be read in two ways: "(a (b c))" may be meant as three leaves,
// which are written ((a) ((b) (c))), or as labels a and b over one leaf.
//
// Pure; any thread. O(bytes), no recursion; memory for `max_nodes` nodes at most, whatever the text says.
#ifndef CELLBATCH_CELLS_UNFOLD_BRACKET_TEXT_H_
#define CELLBATCH_CELLS_UNFOLD_BRACKET_TEXT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

// The trees of a text, end to end. Nodes are numbered within their tree: leaves 0 .. n-1 as they stand in
// the text, then the internal nodes as their brackets close, so that children come before parents.
struct BracketTrees {
  struct Tree {
    int32_t leaves = 0, internals = 0;
  };
  std::vector<Tree> trees;
  std::vector<std::string_view> words;  // of all leaves; they lie in the text
  std::vector<int32_t> children;        // of all internal nodes, end to end
  std::vector<int32_t> child_ends;      // where in `children` each internal node's end
};

// Fails with INVALID_ARGUMENT, naming the byte: no tree at all, brackets that do not match, an empty pair, words beside
// trees or more than one in a leaf, labels that are no numbers, more than `max_nodes` nodes.
absl::StatusOr<BracketTrees> ParseBracketText(std::string_view text, int64_t max_nodes);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_BRACKET_TEXT_H_

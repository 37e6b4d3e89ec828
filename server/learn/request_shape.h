// The shape of a request, without its contents: what decides which cells it becomes. Read from a line of text, or made
// up; unfolded with zeros where a real request has words, by the model's own unfolder.
//
//   sequence      23                       words; what follows (a target's length) is left out
//                 2 0 7 0 0                two words and more numbers, for a model that spells words: characters of each, 0: none
//   translation   18 <TAB> 22              words read, words written
//   binary tree   (3 (2 It) (4 (2 's) (2 .)))          labels and words are not looked at
//   heads         2 0 2                    by word its head from 1, 0 the root; before it, other fields and a tab each
//   lattice       {"n": 26, "words": [[0, 2], [2, 5]], ...}
//   graph         {"types": [0, 0, 1, 2], "edges": [[0, 2, 0], [1, 2, 1], [2, 3, 0]]}   as NODE_TYPES and EDGES have them
//   tensors       {"TOKENS": [4, 1, 7], "HEADS": [[1, 0]], "X": {"dims": [3, 64]}}      for a user's own unfolder: numbers
//                 that it looks at, or, where it does not, how many (of zeros)
//
// The files of the data folder are such lines. Plain values and functions; any thread.
#ifndef CELLBATCH_SERVER_LEARN_REQUEST_SHAPE_H_
#define CELLBATCH_SERVER_LEARN_REQUEST_SHAPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/cell_graph.h"
#include "cells/model.h"

namespace cellbatch {

enum class ShapeKind {
  kSequence,
  kSpelled,
  kTranslation,
  kTree,
  kHeads,
  kLattice,
  kGraph,
  kTensors,
};
const char* Name(ShapeKind kind);

// INT32, or FP32 of the same numbers, as the model has it.
struct ShapeTensor {
  std::string name;
  TensorDims dims;
  std::vector<int32_t> numbers;  // empty: zeros
};

struct RequestShape {
  int32_t length = 0;  // words; characters of a lattice; leaves of a tree; nodes of a graph
  int32_t target = 0;  // kTranslation: words written
  std::vector<int32_t> spelled;                  // kSpelled: characters, by word
  std::vector<std::array<int32_t, 2>> children;  // kTree: of inner nodes, children before parents
  std::vector<int32_t> parents;                  // kHeads: by word; -1: the root
  std::vector<std::array<int32_t, 2>> spans;     // kLattice: of words, by end, then start
  std::vector<int32_t> inner_types;           // kTree: of inner nodes, where the model has several
  std::vector<int32_t> node_types;            // kGraph: by node
  std::vector<std::array<int32_t, 3>> edges;  // kGraph: from, to, input
  std::vector<ShapeTensor> tensors;           // kTensors
};

// What the model's requests are, by the tensors they bring; of a tree kTree, which Unfold refuses where it is kHeads.
ShapeKind ShapeKindOf(const Model& model);

// INVALID_ARGUMENT: what the line is not.
absl::StatusOr<RequestShape> ParseShape(ShapeKind kind, std::string_view line);

// As the server would, and sealed for so many tasks in flight. `outputs` as a request names them; empty: OUTPUT. The graph
// keeps its zeros.
absl::StatusOr<CellGraph> UnfoldShape(const RequestShape& shape, ShapeKind kind, const Model& model,
                                      const std::vector<std::string_view>& outputs,
                                      int max_tasks_in_flight = 2);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_REQUEST_SHAPE_H_

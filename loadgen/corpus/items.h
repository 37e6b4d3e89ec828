// What requests are made of, before any model: sentences, pairs of them, trees and lattices, in words or
// numbers that no vocabulary bounds yet. Plain values.

#ifndef CELLBATCH_LOADGEN_CORPUS_ITEMS_H_
#define CELLBATCH_LOADGEN_CORPUS_ITEMS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch::corpus {

using Words = std::vector<std::string>;

// How long a sentence is, and its translation (0: not said).
struct Lengths {
  int32_t source = 0, target = 0;
};

struct Translation {
  Words source, target;
};

// A binary tree: leaves 0 .. n-1 are the words, internal node k is n + k, children before parents.
struct BinaryTree {
  Words words;
  std::vector<std::array<int32_t, 2>> children;
};

// Every word is a node; parent[i] = -1: the root.
struct DependencyTree {
  Words words;
  std::vector<int32_t> parent;
};

struct Lattice {
  std::vector<int32_t> characters;
  std::vector<std::array<int32_t, 3>> words;  // start, end (half open), id; by end, then start
};

// A whole request as tensors, in KServe's JSON (client/json_request.h).
struct JsonRequest {
  std::string text;
};

// An id below `size`, by hash: how ED-Batch folds a vocabulary, so that a model's speed does not depend
// on its size.
int32_t WordId(const std::string& word, int32_t size);

}  // namespace cellbatch::corpus

#endif  // CELLBATCH_LOADGEN_CORPUS_ITEMS_H_

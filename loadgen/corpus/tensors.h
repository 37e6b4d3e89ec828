// Items as the tensors that ModelInfer takes, their words folded into a model's vocabulary. Pure.

#ifndef CELLBATCH_LOADGEN_CORPUS_TENSORS_H_
#define CELLBATCH_LOADGEN_CORPUS_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/tensor.h"
#include "loadgen/corpus/items.h"

namespace cellbatch::corpus {

std::vector<int32_t> WordIds(const Words& words, int64_t vocabulary);

// <*> c h a r s <*> of a word, folded; 0 is the mark at both ends. `characters`: at least 2.
std::vector<int32_t> Spelled(const std::string& word, int64_t characters);

// INT32 [n].
Tensor IntsTensor(const std::string& name, const std::vector<int32_t>& values);

// CHAR_IDS and CHAR_LENGTHS: `spelled` has an entry for each word, empty where it is read by its number.
// None where no word is spelled.
std::vector<Tensor> CharacterTensors(const std::vector<std::vector<int32_t>>& spelled);

// TOKENS, CHILDREN and, where `types` is not empty, INTERNAL_TYPES.
std::vector<Tensor> TreeTensors(const BinaryTree& tree, const std::vector<int32_t>& tokens,
                                const std::vector<int32_t>& types);

// TOKENS, PARENT.
std::vector<Tensor> TreeTensors(const DependencyTree& tree, const std::vector<int32_t>& tokens);

// CHARS and, where there are any, WORDS.
std::vector<Tensor> LatticeTensors(const Lattice& lattice);

// Ids folded below the tables' sizes.
Lattice Folded(Lattice lattice, int64_t characters, int64_t words);

}  // namespace cellbatch::corpus

#endif  // CELLBATCH_LOADGEN_CORPUS_TENSORS_H_

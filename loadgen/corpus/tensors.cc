#include "loadgen/corpus/tensors.h"

#include <utility>

namespace cellbatch::corpus {

std::vector<int32_t> WordIds(const Words& words, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (const std::string& word : words) {
    ids.push_back(WordId(word, static_cast<int32_t>(vocabulary)));
  }
  return ids;
}

std::vector<int32_t> Spelled(const std::string& word, int64_t characters) {
  std::vector<int32_t> ids = {0};
  for (const unsigned char byte : word) {
    ids.push_back(static_cast<int32_t>(1 + byte % (characters - 1)));
  }
  ids.push_back(0);
  return ids;
}

Tensor IntsTensor(const std::string& name, const std::vector<int32_t>& values) {
  return Int32Tensor(name, {static_cast<int64_t>(values.size())}, values);
}

std::vector<Tensor> CharacterTensors(const std::vector<std::vector<int32_t>>& spelled) {
  std::vector<int32_t> ids, lengths;
  for (const std::vector<int32_t>& word : spelled) {
    ids.insert(ids.end(), word.begin(), word.end());
    lengths.push_back(static_cast<int32_t>(word.size()));
  }
  if (ids.empty()) {
    return {};
  }
  return {IntsTensor("CHAR_IDS", ids), IntsTensor("CHAR_LENGTHS", lengths)};
}

std::vector<Tensor> TreeTensors(const BinaryTree& tree, const std::vector<int32_t>& tokens,
                                const std::vector<int32_t>& types) {
  std::vector<int32_t> children;
  for (const auto& [one, two] : tree.children) {
    children.push_back(one);
    children.push_back(two);
  }
  const auto internal = static_cast<int64_t>(tree.children.size());
  std::vector<Tensor> tensors = {IntsTensor("TOKENS", tokens),
                                 Int32Tensor("CHILDREN", {internal, 2}, children)};
  if (!types.empty()) {
    tensors.push_back(IntsTensor("INTERNAL_TYPES", types));
  }
  return tensors;
}

std::vector<Tensor> TreeTensors(const DependencyTree& tree, const std::vector<int32_t>& tokens) {
  return {IntsTensor("TOKENS", tokens), IntsTensor("PARENT", tree.parent)};
}

std::vector<Tensor> LatticeTensors(const Lattice& lattice) {
  std::vector<int32_t> words;
  for (const auto& word : lattice.words) {
    words.insert(words.end(), word.begin(), word.end());
  }
  std::vector<Tensor> tensors = {IntsTensor("CHARS", lattice.characters)};
  if (!words.empty()) {
    tensors.push_back(Int32Tensor("WORDS", {static_cast<int64_t>(lattice.words.size()), 3}, words));
  }
  return tensors;
}

Lattice Folded(Lattice lattice, int64_t characters, int64_t words) {
  for (int32_t& id : lattice.characters) {
    id %= static_cast<int32_t>(characters);
  }
  for (auto& word : lattice.words) {
    word[2] %= static_cast<int32_t>(words);
  }
  return lattice;
}

}  // namespace cellbatch::corpus

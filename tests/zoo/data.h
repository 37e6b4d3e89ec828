// The real inputs of the zoo: sentences, parse trees, lattices and sentence pairs from the data folder
// (CELLBATCH_DATA, or shared/data beside the checkout), as its README describes them; where the folder
// is absent, synthetic ones of the same statistics, and `source` and a line on stdout say so.
//
// Plain functions and values; one thread. A file that is there and does not parse ends the program: it
// is not the file we know. Nothing recurses: a tree may be a chain.
#ifndef CELLBATCH_TESTS_ZOO_DATA_H_
#define CELLBATCH_TESTS_ZOO_DATA_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch::zoo {

template <typename Item>
struct Data {
  std::vector<Item> items;
  std::string source;  // the file's name, or "synthetic, ..."
};

using Words = std::vector<std::string>;

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

Data<Words> WikigoldSentences();    // wikigold_en.txt, without its tags
Data<Words> WikinerSentences();     // wikiner_en_sample.txt: what word counts come from
Data<Translation> EuroparlPairs();  // europarl_de_en_tok.tsv: German, English
Data<BinaryTree> SstTrees();        // sst_test.ptb
Data<DependencyTree> EwtTrees();    // ud_ewt_test.tsv
Data<Lattice> WeiboLattices();      // weibo_lattices.jsonl

// One bracketed tree, "(3 (2 It) (4 (2 's) (2 .)))": a leaf is (label word), an inner node
// (label left right). False: it is none.
bool ParseBracketed(const std::string& text, BinaryTree& tree);

// `count` of them, from the smallest to the largest in even steps of rank; all, where there are no more.
template <typename Item, typename Size>
std::vector<Item> Spread(std::vector<Item> items, size_t count, Size size) {
  if (items.size() <= count) return items;
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& a, const Item& b) { return size(a) < size(b); });
  std::vector<Item> some;
  for (size_t i = 0; i < count; ++i) {
    some.push_back(items[count == 1 ? 0 : i * (items.size() - 1) / (count - 1)]);
  }
  return some;
}

// An id below `size`, by hash: how ED-Batch folds a vocabulary, so that a model's speed does not depend
// on its size.
int32_t WordId(const std::string& word, int32_t size);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_DATA_H_

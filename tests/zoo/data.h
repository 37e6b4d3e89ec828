// The real inputs of the zoo: sentences, parse trees, lattices and sentence pairs from the data folder
// (CELLBATCH_DATA, or shared/data beside the checkout), as its README describes them; where the folder
// is absent, the load generator's built-in ones of the same statistics (loadgen/corpus/like.h), and `source`
// and a line on stdout say so.
//
// Plain functions and values; one thread. A file that is there and does not parse ends the program: it
// is not the file we know.
#ifndef CELLBATCH_TESTS_ZOO_DATA_H_
#define CELLBATCH_TESTS_ZOO_DATA_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/corpus/items.h"
#include "loadgen/corpus/parse.h"

namespace cellbatch::zoo {

using corpus::BinaryTree;
using corpus::DependencyTree;
using corpus::Lattice;
using corpus::Lengths;
using corpus::ParseBracketed;
using corpus::Translation;
using corpus::WordId;
using corpus::Words;

std::string DataFolder();

template <typename Item>
struct Data {
  std::vector<Item> items;
  std::string source;   // the file's name, or "synthetic, ..."
  bool is_real = true;  // it is the file
};

Data<Words> WikigoldSentences();    // wikigold_en.txt, without its tags
Data<Words> WikinerSentences();     // wikiner_en_sample.txt: what word counts come from
Data<Translation> EuroparlPairs();  // europarl_de_en_tok.tsv: German, English
Data<Lengths> IwsltLengths();       // iwslt15_lengths_tst2012.txt
Data<BinaryTree> SstTrees();        // sst_test.ptb
Data<BinaryTree> SstTrainTrees();   // sst_train.ptb
Data<DependencyTree> EwtTrees();    // ud_ewt_test.tsv
Data<Lattice> WeiboLattices();      // weibo_lattices.jsonl
Data<Lattice> EdbatchLattices();    // edbatch_lattices_train.jsonl; absent: like Weibo's

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

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_DATA_H_

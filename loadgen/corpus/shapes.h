// Sizes and shapes of items, and the statistics by which two sets of them are compared. Pure.

#ifndef CELLBATCH_LOADGEN_CORPUS_SHAPES_H_
#define CELLBATCH_LOADGEN_CORPUS_SHAPES_H_

#include <vector>

#include "loadgen/corpus/items.h"

namespace cellbatch::corpus {

// The longest way from a leaf to the root, in edges.
int32_t Height(const BinaryTree& tree);
// The longest way from a word to the root, in edges.
int32_t Depth(const DependencyTree& tree);
// Of any word.
int32_t MostChildren(const DependencyTree& tree);

struct Statistics {
  double mean = 0;
  int32_t p50 = 0, p90 = 0, p99 = 0, max = 0;  // by nearest rank
};
Statistics StatisticsOf(std::vector<int32_t> sizes);  // not empty

// Of a number that `size` tells of each item.
template <typename Item, typename Size>
Statistics StatisticsOf(const std::vector<Item>& items, Size size) {
  std::vector<int32_t> sizes;
  for (const Item& item : items) {
    sizes.push_back(static_cast<int32_t>(size(item)));
  }
  return StatisticsOf(std::move(sizes));
}

}  // namespace cellbatch::corpus

#endif  // CELLBATCH_LOADGEN_CORPUS_SHAPES_H_

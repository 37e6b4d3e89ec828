#include "loadgen/corpus/shapes.h"

#include <algorithm>
#include <numeric>

namespace cellbatch::corpus {

int32_t Height(const BinaryTree& tree) {
  std::vector<int32_t> height(tree.words.size() + tree.children.size(), 0);
  for (size_t k = 0; k < tree.children.size(); ++k) {
    const auto& [one, two] = tree.children[k];
    height[tree.words.size() + k] = 1 + std::max(height[one], height[two]);
  }
  return height.back();
}

int32_t Depth(const DependencyTree& tree) {
  int32_t deepest = 0;
  for (size_t i = 0; i < tree.parent.size(); ++i) {
    int32_t depth = 0;
    for (int32_t above = tree.parent[i]; above >= 0; above = tree.parent[above]) {
      ++depth;
    }
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

int32_t MostChildren(const DependencyTree& tree) {
  std::vector<int32_t> children(tree.parent.size(), 0);
  for (const int32_t above : tree.parent) {
    if (above >= 0) {
      ++children[above];
    }
  }
  return *std::max_element(children.begin(), children.end());
}

Statistics StatisticsOf(std::vector<int32_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  const size_t n = sizes.size();
  const auto beyond = [&](size_t part) { return sizes[n - 1 - n / part]; };
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  return {sum / static_cast<double>(n), sizes[n - 1 - n / 2], beyond(10), beyond(100),
          sizes.back()};
}

}  // namespace cellbatch::corpus

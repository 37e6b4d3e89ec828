#include "tests/zoo/synthetic.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace cellbatch::zoo {
namespace {

constexpr int kItems = 1500;
constexpr int kVocabulary = 5000;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Sizes of text: log-normal around `median`, within [1, most].
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int32_t Size(double median, double sigma, int32_t most) {
    std::lognormal_distribution<double> draw(std::log(median), sigma);
    return std::clamp(static_cast<int32_t>(draw(random_)), 1, most);
  }
  int32_t Below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); }
  // Frequent words are short numbers: the square of a uniform draw.
  std::string Word() {
    const double u = static_cast<double>(random_() >> 11) * 0x1p-53;
    return "w" + std::to_string(static_cast<int>(u * u * kVocabulary));
  }
  Words Sentence(int32_t length) {
    Words words;
    for (int32_t i = 0; i < length; ++i) words.push_back(Word());
    return words;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

std::vector<Words> SyntheticSentences() {
  Draw draw(1);
  std::vector<Words> items;
  for (int i = 0; i < kItems; ++i) items.push_back(draw.Sentence(draw.Size(21, 0.5, 144)));
  return items;
}

std::vector<Translation> SyntheticTranslations() {
  Draw draw(2);
  std::vector<Translation> items;
  for (int i = 0; i < kItems; ++i) {
    const int32_t source = draw.Size(22, 0.6, 153);
    const int32_t target = source * (90 + draw.Below(40)) / 100;
    items.push_back({draw.Sentence(source), draw.Sentence(std::clamp(target, 1, 147))});
  }
  return items;
}

// Two neighbours at a time become one node: any shape may come out, most are bushy.
std::vector<BinaryTree> SyntheticBinaryTrees() {
  Draw draw(3);
  std::vector<BinaryTree> items;
  for (int i = 0; i < kItems; ++i) {
    BinaryTree tree;
    tree.words = draw.Sentence(draw.Size(17, 0.5, 52));
    std::vector<int32_t> open;
    for (size_t leaf = 0; leaf < tree.words.size(); ++leaf) {
      open.push_back(static_cast<int32_t>(leaf));
    }
    while (open.size() > 1) {
      const size_t at = Index(draw.Below(static_cast<int32_t>(open.size()) - 1));
      tree.children.push_back({open[at], open[at + 1]});
      open[at] = static_cast<int32_t>(tree.words.size() + tree.children.size()) - 1;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    items.push_back(std::move(tree));
  }
  return items;
}

// Each word but the root hangs on one drawn from those nearer to the root, mostly the nearest ones.
std::vector<DependencyTree> SyntheticDependencies() {
  Draw draw(4);
  std::vector<DependencyTree> items;
  for (int i = 0; i < kItems; ++i) {
    DependencyTree tree;
    const int32_t n = draw.Size(9, 0.8, 81);
    tree.words = draw.Sentence(n);
    std::vector<int32_t> order(Index(n));
    for (int32_t k = 0; k < n; ++k) order[Index(k)] = k;
    for (int32_t k = n - 1; k > 0; --k) std::swap(order[Index(k)], order[Index(draw.Below(k + 1))]);
    tree.parent.assign(Index(n), -1);
    for (int32_t k = 1; k < n; ++k) {
      const int32_t above = draw.Below(draw.Below(k) + 1);
      tree.parent[Index(order[Index(k)])] = order[Index(above)];
    }
    items.push_back(std::move(tree));
  }
  return items;
}

std::vector<Lattice> SyntheticLattices() {
  Draw draw(5);
  std::vector<Lattice> items;
  for (int i = 0; i < kItems; ++i) {
    Lattice lattice;
    const int32_t n = draw.Size(46, 0.55, 175);
    for (int32_t k = 0; k < n; ++k) lattice.characters.push_back(draw.Below(3000));
    for (int32_t end = 2; end <= n; ++end) {
      for (int32_t length = std::min(4, end); length >= 2; --length) {
        if (draw.Below(100) >= (length == 2 ? 20 : 6)) continue;
        lattice.words.push_back({end - length, end, draw.Below(100'000)});
      }
    }
    items.push_back(std::move(lattice));
  }
  return items;
}

}  // namespace cellbatch::zoo

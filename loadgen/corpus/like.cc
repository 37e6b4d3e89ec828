#include "loadgen/corpus/like.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <utility>

#include "loadgen/arrivals.h"

namespace cellbatch::corpus {
namespace {

constexpr int32_t kItems = 1500;
constexpr int32_t kVocabulary = 5000;

// What a share of all sizes does not exceed: 0, 5, 10, 25, 50, 75, 90, 95, 99, 100 %. Between them, a
// straight line.
constexpr std::array<double, 10> kShares = {0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};
using Quantiles = std::array<int32_t, kShares.size()>;

constexpr Quantiles kWikigoldTokens = {1, 8, 9, 14, 21, 28, 39, 48, 68, 144};
constexpr Quantiles kEuroparlGermanTokens = {1, 7, 9, 14, 23, 34, 49, 59, 83, 153};
constexpr Quantiles kSstLeaves = {2, 6, 8, 12, 19, 25, 31, 35, 42, 48};
constexpr Quantiles kEwtTokens = {1, 1, 2, 4, 9, 17, 26, 33, 49, 81};
constexpr Quantiles kWeiboCharacters = {10, 13, 16, 24, 44, 74, 116, 133, 145, 175};
// Characters of words that are rare in WikiNER.
constexpr Quantiles kRareWordCharacters = {1, 3, 4, 5, 7, 8, 10, 11, 14, 26};

int32_t AtShare(const Quantiles& sizes, double share) {
  size_t i = 1;
  while (share > kShares[i]) {
    ++i;
  }
  const double part = (share - kShares[i - 1]) / (kShares[i] - kShares[i - 1]);
  return static_cast<int32_t>(std::lround(sizes[i - 1] + part * (sizes[i] - sizes[i - 1])));
}

// Draws that are the same on every machine: the standard library's distributions are not.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  double Share() { return UniformFrom(random_); }
  int32_t Below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log1p(-Share()));
    return radius * std::cos(2 * std::numbers::pi * Share());
  }
  // kItems sizes that have exactly these quantiles, in any order.
  std::vector<int32_t> Sizes(const Quantiles& quantiles) {
    std::vector<int32_t> sizes;
    for (int32_t i = 0; i < kItems; ++i) {
      sizes.push_back(AtShare(quantiles, (i + 0.5) / kItems));
    }
    sizes.back() = quantiles.back();
    for (int32_t left = kItems; left > 1; --left) {
      std::swap(sizes[left - 1], sizes[Below(left)]);
    }
    return sizes;
  }
  // Frequent words are early and short: the square of a uniform draw.
  std::string Word() {
    const double share = Share();
    const auto rank = static_cast<int32_t>(share * share * kVocabulary);
    std::string word;
    for (int32_t rest = rank; rest > 0 || word.empty(); rest /= 26) {
      word += static_cast<char>('a' + rest % 26);
    }
    constexpr int32_t kFrequent = kVocabulary * 6 / 10;  // the rest are 23 % of running words
    const uint32_t noise = static_cast<uint32_t>(rank) * 2654435761u;
    const auto length = static_cast<size_t>(
        rank < kFrequent ? 1 + noise % 6 : AtShare(kRareWordCharacters, (noise >> 8) * 0x1p-24));
    while (word.size() < length) {
      word += static_cast<char>('a' + (noise >> word.size() % 24) % 26);
    }
    return word;
  }
  Words Sentence(int32_t length) {
    Words words;
    for (int32_t i = 0; i < length; ++i) {
      words.push_back(Word());
    }
    return words;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

std::vector<Words> SentencesLikeWikigold() {
  Draw draw(1);
  std::vector<Words> items;
  for (const int32_t size : draw.Sizes(kWikigoldTokens)) {
    items.push_back(draw.Sentence(size));
  }
  return items;
}

std::vector<Translation> PairsLikeEuroparl() {
  constexpr int32_t kLongestTarget = 147;
  Draw draw(2);
  std::vector<Translation> items;
  for (const int32_t source : draw.Sizes(kEuroparlGermanTokens)) {
    // Of long sentences the translations' lengths agree better.
    const double deviation = 0.2 * std::min(1.0, 20.0 / source);
    const double target = source * 1.06 * std::exp(deviation * draw.Normal());
    items.push_back(
        {draw.Sentence(source),
         draw.Sentence(std::clamp(static_cast<int32_t>(std::lround(target)), 1, kLongestTarget))});
  }
  return items;
}

// Two neighbours at a time become one node, most often the last two: English branches to the right.
std::vector<BinaryTree> TreesLikeSst() {
  constexpr double kLastTwo = 0.41;
  Draw draw(3);
  std::vector<BinaryTree> items;
  for (const int32_t leaves : draw.Sizes(kSstLeaves)) {
    BinaryTree tree;
    tree.words = draw.Sentence(leaves);
    std::vector<int32_t> open(tree.words.size());
    for (int32_t leaf = 0; leaf < leaves; ++leaf) {
      open[leaf] = leaf;
    }
    while (open.size() > 1) {
      const auto pairs = static_cast<int32_t>(open.size()) - 1;
      const int32_t at = draw.Share() < kLastTwo ? pairs - 1 : draw.Below(pairs);
      tree.children.push_back({open[at], open[at + 1]});
      open[at] = leaves + static_cast<int32_t>(tree.children.size()) - 1;
      open.erase(open.begin() + at + 1);
    }
    items.push_back(std::move(tree));
  }
  return items;
}

// Each word hangs on one nearer to the root, often on one that others hang on already.
std::vector<DependencyTree> TreesLikeEwt() {
  constexpr double kSameParent = 0.3;
  Draw draw(4);
  std::vector<DependencyTree> items;
  for (const int32_t n : draw.Sizes(kEwtTokens)) {
    DependencyTree tree;
    tree.words = draw.Sentence(n);
    std::vector<int32_t> order(tree.words.size());  // the root first
    for (int32_t k = 0; k < n; ++k) {
      order[k] = k;
    }
    for (int32_t left = n; left > 1; --left) {
      std::swap(order[left - 1], order[draw.Below(left)]);
    }
    tree.parent.assign(tree.words.size(), -1);
    for (int32_t k = 1; k < n; ++k) {
      const bool same = k > 1 && draw.Share() < kSameParent;
      tree.parent[order[k]] =
          same ? tree.parent[order[1 + draw.Below(k - 1)]] : order[draw.Below(k)];
    }
    items.push_back(std::move(tree));
  }
  return items;
}

std::vector<Lattice> LatticesLikeWeibo() {
  constexpr std::array<std::pair<int32_t, double>, 3> kWords = {
      {{4, 0.0096}, {3, 0.0241}, {2, 0.275}}};  // length, share of places where one ends
  Draw draw(5);
  std::vector<Lattice> items;
  for (const int32_t n : draw.Sizes(kWeiboCharacters)) {
    Lattice lattice;
    for (int32_t k = 0; k < n; ++k) {
      lattice.characters.push_back(draw.Below(3000));
    }
    const double rate = std::exp(0.2 * draw.Normal() - 0.02);  // of this sentence; 1 on average
    for (int32_t end = 2; end <= n; ++end) {
      for (const auto& [length, share] : kWords) {
        if (length <= end && draw.Share() < share * rate) {
          lattice.words.push_back({end - length, end, draw.Below(100'000)});
        }
      }
    }
    items.push_back(std::move(lattice));
  }
  return items;
}

}  // namespace cellbatch::corpus

#include "tests/zoo/data.h"

#include <gtest/gtest.h>

#include <numeric>

#include "loadgen/corpus/like.h"
#include "loadgen/corpus/shapes.h"

namespace cellbatch::zoo {
namespace {

using corpus::Statistics;
using corpus::StatisticsOf;

// (What the built-in items are is the test of loadgen/corpus.) Where the folder is absent, both are the same.
void ExpectLike(const Statistics& made, const Statistics& real) {
  EXPECT_NEAR(made.mean, real.mean, 0.05 * real.mean);
  EXPECT_NEAR(made.p50, real.p50, std::max(1.0, 0.1 * real.p50));
  EXPECT_NEAR(made.p99, real.p99, std::max(1.0, 0.15 * real.p99));
}

TEST(DataTest, BuiltInItemsHaveTheStatisticsOfTheFolders) {
  const auto self = [](const Words& words) { return words.size(); };
  const auto words = [](const auto& item) { return item.words.size(); };
  const auto characters = [](const Lattice& lattice) { return lattice.characters.size(); };
  const auto source = [](const Translation& pair) { return pair.source.size(); };
  const auto target = [](const Translation& pair) { return pair.target.size(); };
  ExpectLike(StatisticsOf(corpus::SentencesLikeWikigold(), self),
             StatisticsOf(WikigoldSentences().items, self));
  const auto pairs = EuroparlPairs().items;
  ExpectLike(StatisticsOf(corpus::PairsLikeEuroparl(), source), StatisticsOf(pairs, source));
  ExpectLike(StatisticsOf(corpus::PairsLikeEuroparl(), target), StatisticsOf(pairs, target));
  const auto binary = SstTrees().items;
  ExpectLike(StatisticsOf(corpus::TreesLikeSst(), words), StatisticsOf(binary, words));
  ExpectLike(StatisticsOf(corpus::TreesLikeSst(), corpus::Height),
             StatisticsOf(binary, corpus::Height));
  const auto dependencies = EwtTrees().items;
  ExpectLike(StatisticsOf(corpus::TreesLikeEwt(), words), StatisticsOf(dependencies, words));
  ExpectLike(StatisticsOf(corpus::TreesLikeEwt(), corpus::Depth),
             StatisticsOf(dependencies, corpus::Depth));
  const auto lattices = WeiboLattices().items;
  ExpectLike(StatisticsOf(corpus::LatticesLikeWeibo(), characters),
             StatisticsOf(lattices, characters));
  ExpectLike(StatisticsOf(corpus::LatticesLikeWeibo(), words), StatisticsOf(lattices, words));
}

TEST(DataTest, TheFolderHoldsAsManyItemsAsWorkloadsNeed) {
  EXPECT_GE(EuroparlPairs().items.size(), 1000u);
  EXPECT_GE(WikinerSentences().items.size(), 1000u);
}

TEST(DataTest, ASpreadHoldsTheSmallestAndTheLargest) {
  std::vector<int> items(1000);
  std::iota(items.rbegin(), items.rend(), 0);
  const auto value = [](int i) { return i; };
  EXPECT_EQ(Spread(items, 4, value), (std::vector<int>{0, 333, 666, 999}));
  EXPECT_EQ(Spread(items, 2000, value), items);
}

}  // namespace
}  // namespace cellbatch::zoo

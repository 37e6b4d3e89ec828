// The tiny graphs whose counts are known: reference/algorithms.md 4.1, every deterministic column, forwards and backwards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "scheduler/offline/exact.h"
#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/offline/test_graphs.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/sufficient_policy.h"

namespace cellbatch {
namespace {

using offline_testing::Chains;
using offline_testing::Lattices;
using offline_testing::LeftComb;
using offline_testing::PerfectTree;
using offline_testing::RoleSwap;
using offline_testing::ShortestSupersequence;

struct Row {
  std::string name;
  TypedGraph graph;
  int32_t nodes, bound, fewest, depth, agenda, agenda_dyn, sufficient, sufficient_backwards;
  int32_t lb_greedy = 0, lb_greedy_backwards = 0;  // 0: the fewest
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

std::vector<Row> Rows() {
  return {
      {"ab_ba", Chains({"ab", "ba"}), 4, 2, 3, 4, 3, 3, 3, 3},
      {"abab_baba", Chains({"abab", "baba"}), 8, 4, 5, 8, 5, 5, 5, 5},
      {"aab_abb_bba", Chains({"aab", "abb", "bba"}), 9, 4, 5, 6, 5, 5, 5, 5},
      {"abc_bca_cab", Chains({"abc", "bca", "cab"}), 9, 3, 5, 9, 5, 5, 5, 5},
      {"abcd_dcba", Chains({"abcd", "dcba"}), 8, 4, 7, 8, 7, 7, 7, 7},
      {"abba_baab_aabb", Chains({"abba", "baab", "aabb"}), 12, 4, 6, 8, 7, 7, 6, 6},
      {"abcabc_bacbac", Chains({"abcabc", "bacbac"}), 12, 6, 8, 10, 8, 8, 8, 8},
      {"abacb_cbbac_acabb", Chains({"abacb", "cbbac", "acabb"}), 15, 6, 8, 11, 9, 9, 8, 8, 0, 9},
      {"aaaa_bbbb", Chains({"aaaa", "bbbb"}), 8, 8, 8, 8, 8, 8, 8, 8},
      {"perfect_tree_2", PerfectTree(2), 15, 5, 5, 7, 5, 6, 5, 5},
      {"left_comb_3", LeftComb(3, true), 15, 6, 6, 9, 9, 7, 6, 6},
      {"left_comb_4", LeftComb(4, true), 19, 7, 7, 11, 11, 9, 7, 7},
      {"left_comb_3_root", LeftComb(3, false), 9, 6, 6, 6, 6, 6, 6, 6},
      {"role_swap_2", RoleSwap(2), 10, 8, 8, 10, 9, 9, 8, 8},
      {"role_swap_3", RoleSwap(3), 14, 10, 10, 14, 12, 13, 10, 10},
      {"role_swap_4", RoleSwap(4), 18, 12, 12, 18, 15, 16, 12, 12},
      {"lattice_5", Lattices({{5, {{0, 2}, {2, 4}}}}), 14, 10, 10, 14, 12, 12, 10, 10},
      {"lattices_4_4", Lattices({{4, {{0, 2}}}, {4, {{1, 3}}}}), 19, 7, 8, 14, 10, 10, 9, 8, 9, 8},
  };
}

class TinyGraphTest : public ::testing::TestWithParam<Row> {};

// The batches of a schedule that the checker accepts.
int32_t Batches(const TypedGraph& graph, const ReplayReport& report) {
  EXPECT_EQ(FaultOf(graph, report.schedule), "");
  EXPECT_EQ(report.schedule.size(), static_cast<size_t>(report.batches));
  return report.batches;
}

TEST_P(TinyGraphTest, EveryPolicyTakesAsManyBatchesAsPublished) {
  const Row& row = GetParam();
  const TypedGraph& graph = row.graph;
  ASSERT_EQ(graph.size(), row.nodes);
  const GraphFacts facts(graph);
  const auto forwards = [&](const Policy& p) { return Batches(graph, RunClosed(facts, p)); };
  const auto backwards = [&](const Policy& p) {
    return Batches(graph, RunClosedBackwards(graph, p));
  };
  EXPECT_EQ(LowerBound(graph), row.bound);
  EXPECT_EQ(FewestBatches(graph), row.fewest);
  EXPECT_EQ(forwards(DepthPolicy()), row.depth);
  EXPECT_EQ(forwards(AgendaPolicy(AgendaMean::kWholeGraph)), row.agenda);
  EXPECT_EQ(forwards(AgendaPolicy(AgendaMean::kRemaining)), row.agenda_dyn);
  EXPECT_EQ(forwards(SufficientPolicy()), row.sufficient);
  EXPECT_EQ(backwards(SufficientPolicy()), row.sufficient_backwards);
  EXPECT_EQ(forwards(LbGreedyPolicy()), row.lb_greedy == 0 ? row.fewest : row.lb_greedy);
  EXPECT_EQ(backwards(LbGreedyPolicy()),
            row.lb_greedy_backwards == 0 ? row.fewest : row.lb_greedy_backwards);
}

INSTANTIATE_TEST_SUITE_P(Published, TinyGraphTest, ::testing::ValuesIn(Rows()),
                         [](const auto& info) { return info.param.name; });

// A chain for each word, a type for each letter: the problem that makes batching NP-hard.
TEST(SupersequenceTest, ExactSearchOnChainsFindsTheShortestCommonSupersequence) {
  constexpr uint64_t kSeed = 3;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> words(2 + random() % 2);
    for (std::string& word : words) {
      for (uint64_t n = 1 + random() % 6; n > 0; --n) {
        word.push_back(static_cast<char>('a' + random() % 3));
      }
    }
    const std::vector<std::string_view> views(words.begin(), words.end());
    EXPECT_EQ(FewestBatches(Chains(views)), ShortestSupersequence(views))
        << fmt::format("seed {} round {}: {}", kSeed, round, fmt::join(words, " "));
  }
}

}  // namespace
}  // namespace cellbatch

// The counts of reference/algorithms.md 4.2 on the data folder's first rows, every deterministic column. Where the folder
// is not there, what holds of built-in rows as well.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/sufficient_policy.h"
#include "tests/ordering/paper_graphs.h"

namespace cellbatch::ordering {
namespace {

struct PublishedRow {
  const char* name;
  PaperGraph kind;
  int32_t rows, nodes, bound, depth, agenda, agenda_dyn, sufficient, sufficient_backwards,
      lb_greedy, lb_greedy_backwards;
};

std::ostream& operator<<(std::ostream& out, const PublishedRow& row) {
  return out << row.name << " B " << row.rows;
}

constexpr PublishedRow kPublished[] = {
    {"Tree", PaperGraph::kTree, 1, 147, 15, 27, 27, 22, 15, 15, 15, 15},
    {"Tree", PaperGraph::kTree, 8, 661, 15, 27, 27, 22, 15, 15, 15, 15},
    {"Tree", PaperGraph::kTree, 32, 2617, 23, 43, 43, 34, 23, 23, 23, 23},
    {"Tree", PaperGraph::kTree, 64, 5437, 27, 51, 51, 41, 27, 27, 27, 27},
    {"Tree", PaperGraph::kTree, 256, 19769, 27, 51, 51, 42, 27, 27, 27, 27},
    {"TreeRoot", PaperGraph::kTreeRoot, 32, 1341, 23, 37, 23, 28, 23, 23, 23, 23},
    {"TreeRoot", PaperGraph::kTreeRoot, 256, 10141, 27, 45, 27, 36, 27, 27, 27, 27},
    {"TwoTypes", PaperGraph::kTwoTypes, 8, 661, 16, 38, 37, 26, 19, 19, 19, 17},
    {"TwoTypes", PaperGraph::kTwoTypes, 32, 2617, 23, 60, 59, 37, 27, 27, 25, 24},
    {"TwoTypes", PaperGraph::kTwoTypes, 64, 5437, 28, 71, 69, 44, 31, 33, 30, 30},
    {"TwoTypes", PaperGraph::kTwoTypes, 256, 19769, 29, 72, 77, 45, 35, 33, 32, 32},
    {"BiLstm", PaperGraph::kBiLstm, 8, 643, 112, 159, 112, 128, 112, 112, 112, 112},
    {"BiLstm", PaperGraph::kBiLstm, 32, 2506, 112, 162, 112, 131, 112, 112, 112, 112},
    {"BiLstm", PaperGraph::kBiLstm, 64, 5134, 168, 247, 168, 200, 168, 168, 168, 168},
    {"Seq2Seq", PaperGraph::kSeq2Seq, 8, 667, 217, 450, 217, 280, 217, 217, 217, 217},
    {"Seq2Seq", PaperGraph::kSeq2Seq, 32, 2099, 217, 496, 217, 318, 217, 217, 217, 217},
    {"Lattice", PaperGraph::kLattice, 1, 35, 23, 35, 24, 28, 23, 23, 23, 23},
    {"Lattice", PaperGraph::kLattice, 8, 1028, 142, 396, 213, 264, 180, 165, 168, 170},
    {"Lattice", PaperGraph::kLattice, 32, 3803, 182, 517, 364, 352, 225, 219, 224, 214},
    {"Lattice", PaperGraph::kLattice, 64, 7461, 182, 524, 409, 351, 228, 226, 228, 212},
    {"Lattice", PaperGraph::kLattice, 256, 30333, 222, 661, 702, 452, 295, 270, 278, 270},
    {"Weibo", PaperGraph::kWeiboLattice, 8, 564, 130, 263, 153, 192, 147, 148, 130, 130},
    {"Weibo", PaperGraph::kWeiboLattice, 32, 3521, 162, 453, 364, 329, 203, 197, 205, 192},
    {"Weibo", PaperGraph::kWeiboLattice, 256, 28905, 212, 655, 789, 475, 301, 294, 308, 280},
};

class DataOracleTest : public ::testing::TestWithParam<PublishedRow> {};

int32_t Batches(const TypedGraph& graph, const ReplayReport& report) {
  EXPECT_EQ(FaultOf(graph, report.schedule), "");
  return report.batches;
}

// What holds of any rows: schedules are valid, and none takes fewer batches than the bound.
void ExpectValid(const TypedGraph& graph, const GraphFacts& facts) {
  const int32_t bound = LowerBound(graph);
  const auto expect = [&](const Policy& policy) {
    EXPECT_GE(Batches(graph, RunClosed(facts, policy)), bound);
    EXPECT_GE(Batches(graph, RunClosedBackwards(graph, policy)), bound);
  };
  expect(DepthPolicy());
  expect(AgendaPolicy(AgendaMean::kWholeGraph));
  expect(AgendaPolicy(AgendaMean::kRemaining));
  expect(SufficientPolicy());
  expect(LbGreedyPolicy());
}

TEST_P(DataOracleTest, EveryPolicyTakesAsManyBatchesAsPublished) {
  const PublishedRow& row = GetParam();
  const PaperRows rows(row.kind);
  const TypedGraph graph = rows.Graph(row.rows);
  const GraphFacts facts(graph);
  const auto forwards = [&](const Policy& p) { return Batches(graph, RunClosed(facts, p)); };
  const auto backwards = [&](const Policy& p) {
    return Batches(graph, RunClosedBackwards(graph, p));
  };
  if (!rows.is_real()) {
    ExpectValid(graph, facts);
    return;
  }
  ASSERT_EQ(graph.size(), row.nodes);
  EXPECT_EQ(LowerBound(graph), row.bound);
  EXPECT_EQ(forwards(DepthPolicy()), row.depth);
  EXPECT_EQ(forwards(AgendaPolicy(AgendaMean::kWholeGraph)), row.agenda);
  EXPECT_EQ(forwards(AgendaPolicy(AgendaMean::kRemaining)), row.agenda_dyn);
  EXPECT_EQ(forwards(SufficientPolicy()), row.sufficient);
  EXPECT_EQ(backwards(SufficientPolicy()), row.sufficient_backwards);
  EXPECT_EQ(forwards(LbGreedyPolicy()), row.lb_greedy);
  EXPECT_EQ(backwards(LbGreedyPolicy()), row.lb_greedy_backwards);
}

INSTANTIATE_TEST_SUITE_P(Published, DataOracleTest, ::testing::ValuesIn(kPublished),
                         [](const auto& info) {
                           return fmt::format("{}{}_{}", info.param.name, info.index,
                                              info.param.rows);
                         });

}  // namespace
}  // namespace cellbatch::ordering

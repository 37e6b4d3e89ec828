// What learning makes of the data folder's graphs (algorithms.md 4.2): learned from rows that are not asked about, within
// design.md section 9, and never worse than agenda or depth.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "scheduler/offline/learn/trainer.h"
#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "tests/ordering/paper_graphs.h"

namespace cellbatch::ordering {
namespace {

// Rows asked about lie before those that are learned from and proved on.
constexpr int32_t kAsked = 256;

struct LearnedRow {
  const char* name;
  PaperGraph kind;
  double at_32, at_64;  // of the bound, at most; 1: of any rows, not of the folder's alone
};

std::ostream& operator<<(std::ostream& out, const LearnedRow& row) { return out << row.name; }

constexpr LearnedRow kLearned[] = {
    {"Tree", PaperGraph::kTree, 1, 1},
    {"TreeRoot", PaperGraph::kTreeRoot, 1, 1},
    {"TwoTypes", PaperGraph::kTwoTypes, 1.10, 1.10},
    {"BiLstm", PaperGraph::kBiLstm, 1, 1},
    {"Seq2Seq", PaperGraph::kSeq2Seq, 1, 1},
    {"Lattice", PaperGraph::kLattice, 1.27, 1.27},
    {"Weibo", PaperGraph::kWeiboLattice, 1.30, 1.40},
};

class LearnDataTest : public ::testing::TestWithParam<LearnedRow> {};

TEST_P(LearnDataTest, StaysNearTheBoundAndIsNeverWorseThanAgendaOrDepth) {
  const LearnedRow& row = GetParam();
  const PaperRows data(row.kind);
  std::vector<TypedGraph> requests;
  for (int32_t i = 0; i < 2 * static_cast<int32_t>(kMostLearnedFrom); ++i) {
    requests.push_back(data.Graph(1, kAsked + i));
  }
  const LessonBooks books = DealOut(requests);
  const TrainingResult learned = TrainOrder(books.learn.lessons(), books.prove.lessons(), {});
  ASSERT_TRUE(learned.table_is_best) << learned.published.name;
  const FsmPolicy fsm(*FsmTable::Create(learned.published.encoding, learned.published.rules));
  for (const int32_t rows : {8, 32, 64, 256}) {
    const TypedGraph graph = data.Graph(rows);
    const GraphFacts facts(graph);
    const ReplayReport report = RunClosed(facts, fsm);
    EXPECT_EQ(FaultOf(graph, report.schedule), "");
    const int32_t batches = report.batches;
    EXPECT_LE(batches, RunClosed(facts, AgendaPolicy(AgendaMean::kWholeGraph)).batches) << rows;
    EXPECT_LE(batches, RunClosed(facts, DepthPolicy()).batches) << rows;
    const double most = rows == 32 ? row.at_32 : rows == 64 ? row.at_64 : 100;
    if (data.is_real() || most == 1) {
      EXPECT_LE(batches, most * LowerBound(graph)) << rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LearnDataTest, ::testing::ValuesIn(kLearned),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cellbatch::ordering

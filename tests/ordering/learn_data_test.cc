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
  const char* file;
  double at_32, at_64;  // of the bound, at most
};

std::ostream& operator<<(std::ostream& out, const LearnedRow& row) { return out << row.name; }

constexpr LearnedRow kLearned[] = {
    {"Tree", PaperGraph::kTree, "sst_train.ptb", 1, 1},
    {"TreeRoot", PaperGraph::kTreeRoot, "sst_train.ptb", 1, 1},
    {"TwoTypes", PaperGraph::kTwoTypes, "sst_train.ptb", 1.10, 1.10},
    {"BiLstm", PaperGraph::kBiLstm, "wikigold_en.txt", 1, 1},
    {"Seq2Seq", PaperGraph::kSeq2Seq, "iwslt15_lengths_tst2012.txt", 1, 1},
    {"Lattice", PaperGraph::kLattice, "edbatch_lattices_train.jsonl", 1.27, 1.27},
    {"Weibo", PaperGraph::kLattice, "weibo_lattices.jsonl", 1.30, 1.40},
};

class LearnDataTest : public ::testing::TestWithParam<LearnedRow> {};

TEST_P(LearnDataTest, StaysNearTheBoundAndIsNeverWorseThanAgendaOrDepth) {
  const LearnedRow& row = GetParam();
  std::vector<TypedGraph> requests;
  for (int32_t i = 0; i < 2 * static_cast<int32_t>(kMostLearnedFrom); ++i) {
    std::optional<TypedGraph> request = ReadPaperGraph(row.kind, row.file, 1, kAsked + i);
    if (!request.has_value()) GTEST_SKIP() << row.file << " is not in the data folder";
    requests.push_back(*std::move(request));
  }
  const LessonBooks books = DealOut(requests);
  const TrainingResult learned = TrainOrder(books.learn.lessons(), books.prove.lessons(), {});
  ASSERT_TRUE(learned.table_is_best) << learned.published.name;
  const FsmPolicy fsm(*FsmTable::Create(learned.published.encoding, learned.published.rules));
  for (const int32_t rows : {8, 32, 64, 256}) {
    const TypedGraph graph = *ReadPaperGraph(row.kind, row.file, rows);
    const GraphFacts facts(graph);
    const ReplayReport report = RunClosed(facts, fsm);
    EXPECT_EQ(FaultOf(graph, report.schedule), "");
    const int32_t batches = report.batches;
    EXPECT_LE(batches, RunClosed(facts, AgendaPolicy(AgendaMean::kWholeGraph)).batches) << rows;
    EXPECT_LE(batches, RunClosed(facts, DepthPolicy()).batches) << rows;
    const double most = rows == 32 ? row.at_32 : rows == 64 ? row.at_64 : 100;
    EXPECT_LE(batches, most * LowerBound(graph)) << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LearnDataTest, ::testing::ValuesIn(kLearned),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cellbatch::ordering

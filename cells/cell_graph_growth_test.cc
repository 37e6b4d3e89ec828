// Claims about graphs that grow by pieces.
#include <cstring>
#include <memory>
#include <utility>

#include "cells/cell_graph.h"
#include "cells/cell_graph_test_model.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using namespace cell_graph_testing;  // NOLINT: a test's own words

constexpr int kTasks = 2;

class GrowthTest : public ::testing::Test {
 protected:
  // A chain of 5 over tokens, its last state returned; at most 3 more pieces of 10 cells and 8 states.
  void SealFirst(bool keep_rows = false) {
    Growth most;
    most.pieces = 3;
    most.nodes = 10;
    most.rows = {1, 8, 2};
    graph.Grow(std::move(most));
    tokens = graph.AddInput(kTokens, 5, data);
    chain = graph.Add(kChain, 5, {{.from = tokens, .input = kX, .stride = 1}});
    if (keep_rows) graph.KeepRows(chain);
    state = graph.AddTensor("STATE", WireType::kFp32, {4});
    logits = graph.AddTensor("LOGITS", WireType::kFp32, {2, 3});
    graph.Return(chain, kH, {4, 1}, {.tensor = state});
    ASSERT_EQ(Seal(), "");
  }
  std::string Seal() { return std::string(graph.Seal(model, kTasks).message()); }
  SubgraphId Head(SubgraphId from, int32_t node, int32_t row) {
    const SubgraphId head = graph.Add(kHead, 1, {{.from = from, .input = kX, .first = node}});
    graph.Return(head, ColumnId(0), {}, {.tensor = logits, .offset_bytes = 12 * row});
    return head;
  }

  const Model model = TestModel();
  const std::byte data[20] = {};
  CellGraph graph;
  SubgraphId tokens, chain;
  int32_t state = -1, logits = -1;
};

TEST_F(GrowthTest, RowsOfAllPiecesAreCountedInTheFirstAndAPieceHasItsOwnNodesReturnsAndReaders) {
  SealFirst();
  EXPECT_EQ(graph.pieces(), 1);
  EXPECT_TRUE(graph.grows());
  EXPECT_EQ(graph.row_counts()[0], 5 + 1);
  EXPECT_EQ(graph.row_counts()[1], 2 + 8);
  EXPECT_EQ(graph.row_counts()[2], 0 + 2);
  EXPECT_EQ(graph.num_nodes(), 5);
  EXPECT_EQ(graph.most_nodes(), 15);
  const int64_t device_bytes = graph.device_bytes();
  const std::byte* const answer = graph.tensors()[1].bytes.data();

  const SubgraphId both = graph.Add(kTree, 1, {{.from = chain, .input = kX, .first = kLastNode}});
  EXPECT_TRUE(graph.added());
  Head(both, 0, 1);
  ASSERT_EQ(Seal(), "");
  EXPECT_FALSE(graph.added());
  EXPECT_EQ(graph.pieces(), 2);
  EXPECT_EQ(graph.first_subgraph(), 2);
  ASSERT_EQ(graph.piece().size(), 2u);
  EXPECT_EQ(graph.piece_nodes(), 2);
  EXPECT_EQ(graph.piece()[0].first_row, 2) << "behind the ring of the chain";
  EXPECT_EQ(graph.piece()[0].num_predecessors, 0) << "what it reads is done";
  EXPECT_EQ(graph.piece()[1].num_predecessors, 1);
  EXPECT_EQ(graph.links()[1].first, 4) << "the chain's last node";
  EXPECT_EQ(graph.subgraphs()[1].num_consumers, 0) << "of its own piece";
  EXPECT_EQ(graph.piece()[1].first_return, 1);
  EXPECT_EQ(graph.device_bytes(), device_bytes);
  EXPECT_EQ(graph.tensors()[1].bytes.data(), answer);

  graph.CloseGrowth();
  Head(both, 0, 0);
  ASSERT_EQ(Seal(), "");
  EXPECT_FALSE(graph.grows());
  EXPECT_EQ(graph.most_nodes(), graph.num_nodes());
}

TEST_F(GrowthTest, OfAnEarlierChainTheLastNodeIsThereAndAllOfThemWhereItsRowsAreKept) {
  SealFirst();
  Head(chain, 3, 0);
  EXPECT_EQ(Seal(),
            "subgraph 2 (type \"head\"): link 0: input \"x\" reads nodes 3 to 3 of subgraph 1, an "
            "earlier piece's, which kept its last one (KeepRows)");
}

TEST_F(GrowthTest, KeptRowsAreAllReadable) {
  SealFirst(/*keep_rows=*/true);
  EXPECT_EQ(graph.row_counts()[1], 5 + 8);
  Head(chain, 3, 0);
  EXPECT_EQ(Seal(), "");
}

TEST_F(GrowthTest, WhatGoesBeyondItsPromiseIsRefused) {
  SealFirst();
  graph.Add(kTree, 11, {});
  EXPECT_EQ(Seal(), "the graph grew by 1 pieces of 11 nodes; it said 3 of 10");
}

TEST_F(GrowthTest, RowsBeyondItsPromiseAreRefused) {
  SealFirst();
  graph.Add(kTree, 9, {});
  EXPECT_EQ(Seal(), "the graph needs 11 rows of table \"state\"; it grows to 10");
}

TEST_F(GrowthTest, PiecesBeyondItsPromiseAreRefused) {
  SealFirst();
  for (int i = 0; i < 3; ++i) {
    graph.Add(kTree, 1, {});
    ASSERT_EQ(Seal(), "");
  }
  graph.Add(kTree, 1, {});
  EXPECT_EQ(Seal(), "the graph grew by 4 pieces of 4 nodes; it said 3 of 10");
}

TEST_F(GrowthTest, AnImpossiblePromiseIsRefused) {
  const auto promise = [&](int32_t pieces, int64_t nodes, std::vector<int32_t> rows) {
    CellGraph g;
    Growth most;
    most.pieces = pieces;
    most.nodes = nodes;
    most.rows = std::move(rows);
    g.Grow(std::move(most));
    g.Add(kTree, 1, {});
    return std::string(g.Seal(model, kTasks).message());
  };
  EXPECT_EQ(promise(1, 1, {}), "");
  EXPECT_EQ(promise(1, 1, {0, 0x7ffffffe}), "");
  EXPECT_EQ(promise(0, 1, {}),
            "the graph may grow by 0 pieces (1 to 65536) of 1 nodes (1 to 2147483646)");
  EXPECT_EQ(promise(kMaxPieces + 1, 1, {}),
            "the graph may grow by 65537 pieces (1 to 65536) of 1 nodes (1 to 2147483646)");
  EXPECT_EQ(promise(1, 1, {0, -1}), "the graph may grow by -1 rows");
  EXPECT_EQ(promise(1, 1, {0, 0x7fffffff}),
            "the graph may grow to 2147483648 rows of table \"state\"; 2^31 - 1 fit");
  EXPECT_EQ(promise(1, 1, {0, 0, 0, 0, 0}), "the graph may grow in 5 tables; the model has 4");
}

TEST_F(GrowthTest, APromiseMayBeAsLargeAsItCanBeAndBeKeptToTheLast) {
  const auto promise = [&](int32_t pieces, int64_t nodes) {
    CellGraph g;
    g.Grow({.pieces = pieces, .nodes = nodes, .rows = {0, 0, 0, 0}, .progress = nullptr});
    g.Add(kTree, 1, {});
    return std::string(g.Seal(model, kTasks).message());
  };
  EXPECT_EQ(promise(kMaxPieces, 0x7ffffffe), "");
  EXPECT_EQ(promise(1, 0x7fffffff),
            "the graph may grow by 1 pieces (1 to 65536) of 2147483647 nodes (1 to 2147483646)");
  EXPECT_EQ(promise(1, 0),
            "the graph may grow by 1 pieces (1 to 65536) of 0 nodes (1 to 2147483646)");
  SealFirst();
  EXPECT_EQ(graph.device_bytes(), (5 + 1) * 4 + (2 + 8) * 32 + 2 * 12) << "of what is to come, too";
  graph.Add(kTree, 8, {});
  graph.Add(kHead, 2, {});
  EXPECT_EQ(Seal(), "") << "10 nodes, 8 and 2 rows";
}

// Two pieces whose subgraphs read and return: what belongs to the second lies behind what belongs to the first.
TEST_F(GrowthTest, ReadersAndReturnsOfAPieceLieBehindThoseOfEarlierOnes) {
  SealFirst();
  const SubgraphId tree = graph.Add(kTree, 1, {{.from = chain, .input = kX, .first = kLastNode}});
  const SubgraphId one = Head(tree, 0, 1), other = Head(tree, 0, 0);
  ASSERT_EQ(Seal(), "");
  const Subgraph& first = graph.subgraphs()[0];
  EXPECT_EQ(graph.consumers()[static_cast<size_t>(first.first_consumer)], chain);
  const Subgraph& read = graph.piece()[0];
  ASSERT_EQ(read.num_consumers, 2);
  EXPECT_EQ(graph.consumers()[static_cast<size_t>(read.first_consumer)], one);
  EXPECT_EQ(graph.consumers()[static_cast<size_t>(read.first_consumer) + 1], other);
  const auto returned = [&](SubgraphId of) -> const ReturnPiece& {
    const Subgraph& s = graph.subgraphs()[static_cast<size_t>(of.value())];
    EXPECT_EQ(s.num_returns, 1);
    return graph.returns()[static_cast<size_t>(s.first_return)];
  };
  EXPECT_EQ(returned(chain).where.tensor, state);
  EXPECT_EQ(returned(one).where.offset_bytes, 12);
  EXPECT_EQ(returned(other).where.offset_bytes, 0);
  EXPECT_EQ(returned(other).where.tensor, logits);
}

TEST_F(GrowthTest, WhatIsClosedAtOnceTakesNoRowsForPiecesToCome) {
  graph.Grow({.pieces = 1, .nodes = 1, .rows = {0, 8}, .progress = nullptr});
  graph.Add(kTree, 3, {});
  graph.CloseGrowth();
  ASSERT_EQ(Seal(), "");
  EXPECT_EQ(graph.row_counts()[1], 3);
}

TEST_F(GrowthTest, APieceHasCellsAndLeavesTheAnswerAsItIs) {
  SealFirst();
  graph.AddInput(kTokens, 1, data);
  EXPECT_EQ(Seal(), "the graph has no cells");
  graph = CellGraph();
  SealFirst();
  std::memset(graph.tensors()[0].bytes.data(), 7, 16);
  graph.Add(kTree, 1, {});
  ASSERT_EQ(Seal(), "");
  EXPECT_EQ(graph.tensors()[0].bytes[15], std::byte{7}) << "that came of the first";
}

TEST_F(GrowthTest, ReturnsOfAnEarlierPieceAreRefused) {
  SealFirst();
  Head(chain, kLastNode, 0);
  graph.Return(chain, kH, {4, 1}, {.tensor = state});
  EXPECT_EQ(Seal(), "a returned piece of subgraph 1: it is of an earlier piece");
}

TEST_F(GrowthTest, ProgressLivesWithTheGraphAndMovesAlong) {
  struct Count final : Progress {
    explicit Count(int& alive) : alive(alive) { ++alive; }
    ~Count() override { --alive; }
    int& alive;
  };
  int alive = 0;
  {
    CellGraph one;
    Growth most;
    most.progress = std::make_unique<Count>(alive);
    one.Grow(std::move(most));
    const Progress* const progress = one.progress();
    const CellGraph other = std::move(one);
    EXPECT_EQ(other.progress(), progress);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace cellbatch

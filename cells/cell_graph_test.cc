#include "cells/cell_graph.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cells/cell_graph_test_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using namespace cell_graph_testing;  // NOLINT: a test's own words
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CellGraphTest : public ::testing::Test {
 protected:
  SubgraphId Tokens(int32_t n) { return graph.AddInput(kTokens, n, data); }
  SubgraphId Chain(SubgraphId tokens, int32_t n) {
    return graph.Add(kChain, n, {Link{tokens, kX, 0, 1}});
  }
  std::string Error() { return std::string(graph.Seal(model, 2).message()); }

  Model model = TestModel();
  const std::byte data[1024] = {};
  CellGraph graph;
};

TEST_F(CellGraphTest, ASentenceWithAHeadTakesARingOfTwo) {
  graph.Reserve({.inputs = 1, .subgraphs = 2, .links = 2, .returns = 1, .tensors = 1});
  const SubgraphId tokens = Tokens(24);
  const SubgraphId chain = Chain(tokens, 24);
  const SubgraphId head = graph.Add(kHead, 1, {Link{chain, kX, 23, 0}});
  const int32_t out = graph.AddTensor("OUTPUT", WireType::kFp32, {3});
  graph.Return(head, ColumnId(0), {0, 1}, {out, 0, 0});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_THAT(graph.row_counts(), ElementsAre(24, 2, 1, 0));
  EXPECT_EQ(graph.num_nodes(), 25);
  EXPECT_EQ(graph.device_bytes(), 24 * 4 + 2 * 32 + 12);
  EXPECT_EQ(graph.subgraphs()[1].ring, 2);
  EXPECT_EQ(graph.subgraphs()[2].depth, 24);
  EXPECT_EQ(graph.subgraphs()[2].num_predecessors, 1);
  EXPECT_EQ(graph.subgraphs()[1].num_predecessors, 0);
  EXPECT_THAT(graph.consumers(), ElementsAre(chain, head));
  EXPECT_EQ(graph.tensors()[0].bytes.size(), 12u);
}

TEST_F(CellGraphTest, WhatAnUnfolderMadeLivesWithTheGraphAndMovesAlong) {
  std::byte* rows = graph.Keep(3 * 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(rows) % alignof(int64_t), 0u);
  const int32_t tokens[3] = {4, 5, 6};
  std::memcpy(rows, tokens, sizeof(tokens));
  graph.Keep(1 << 20);
  Chain(graph.AddInput(kTokens, 3, rows), 3);
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  const CellGraph moved = std::move(graph);
  EXPECT_EQ(moved.subgraphs()[0].data, rows);
  EXPECT_EQ(std::memcmp(moved.subgraphs()[0].data, tokens, sizeof(tokens)), 0);
}

//   ((a b) (c d))    rows: 0 the root, 1 2 the pairs, 3 to 6 the leaves
TEST_F(CellGraphTest, ByLevelTheNodesOfALevelHaveNeighbouringRowsAndLeavesTheLast) {
  model.unfold.level_rows = true;
  const auto tree = [&](SubgraphId left, SubgraphId right) {
    return graph.Add(kTree, 1, {Link{left, kX, 0, 0}, Link{right, kPrev, 0, 0}});
  };
  const auto leaf = [&] { return tree(kZeroSource, kZeroSource); };
  const SubgraphId a = leaf(), b = leaf(), low = tree(a, b);
  const SubgraphId c = leaf(), d = leaf(), other = tree(c, d);
  const SubgraphId root = tree(low, other);
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  const auto row = [&](SubgraphId s) {
    return graph.subgraphs()[static_cast<size_t>(s.value())].first_row;
  };
  EXPECT_EQ(row(root), 0);
  EXPECT_EQ(row(low), 1);
  EXPECT_EQ(row(other), 2);
  EXPECT_EQ((std::vector<int32_t>{row(a), row(b), row(c), row(d)}),
            (std::vector<int32_t>{3, 4, 5, 6}));
}

TEST_F(CellGraphTest, AChainWhoseMiddleIsReadByALinkKeepsEveryRow) {
  const SubgraphId lower = Chain(Tokens(5), 5);
  const SubgraphId upper = graph.Add(kStack, 5, {Link{lower, kX, 0, 1}});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_EQ(graph.subgraphs()[1].ring, 5);
  EXPECT_EQ(graph.subgraphs()[2].ring, 2);
  EXPECT_EQ(graph.subgraphs()[2].first_row, 5);
  EXPECT_EQ(upper.value(), 2);
}

TEST_F(CellGraphTest, SoDoesAChainThatIsReadBackwards) {
  const SubgraphId lower = Chain(Tokens(5), 5);
  graph.Add(kStack, 3, {Link{lower, kX, 4, -1}});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_EQ(graph.subgraphs()[1].ring, 5);
}

TEST_F(CellGraphTest, ReturnedMiddleNodesDoNotForceRows) {
  const SubgraphId chain = Chain(Tokens(7), 7);
  const int32_t all = graph.AddTensor("ALL_HIDDEN", WireType::kFp32, {7, 4});
  graph.Return(chain, kH, {0, 7}, {all, 6 * 16, -16});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_EQ(graph.subgraphs()[1].ring, 2);
}

TEST_F(CellGraphTest, AStoppingChainHasRoomForWhatRunsAheadOfTheHost) {
  const SubgraphId chain = Chain(Tokens(3), 3);
  const SubgraphId decoder = graph.Add(kDecoder, 100, {Link{chain, kX, kLastNode, 0}}, {kWord, 7});
  const SubgraphId next = graph.Add(kDecoder, 1, {Link{decoder, kPrev, kLastNode, 0}});
  ASSERT_TRUE(graph.Seal(model, 5).ok());
  EXPECT_EQ(graph.subgraphs()[1].ring, 2) << "that does not stop";
  EXPECT_EQ(graph.subgraphs()[2].ring, 5);
  EXPECT_EQ(graph.subgraphs()[3].ring, 1) << "of one node";
  EXPECT_EQ(graph.links()[1].first, 2) << "of a plain chain the last node is a number";
  EXPECT_EQ(graph.links()[2].first, kLastNode);
  EXPECT_EQ(graph.subgraphs()[static_cast<size_t>(next.value())].depth, 103);
  CellGraph host_waits;
  host_waits.Add(kDecoder, 100, {}, {kWord, 7});
  ASSERT_TRUE(host_waits.Seal(model, 1).ok());
  EXPECT_EQ(host_waits.subgraphs()[0].ring, 2);
}

TEST_F(CellGraphTest, AReaderIsListedOnceAndLinksAreGroupedByInput) {
  const SubgraphId leaves = graph.Add(kTree, 2, {});
  const SubgraphId root = graph.Add(kTree, 1, {Link{leaves, kPrev, 1, 0}, Link{leaves, kX, 0, 0}});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_THAT(graph.consumers(), ElementsAre(root));
  EXPECT_EQ(graph.subgraphs()[1].num_predecessors, 1);
  EXPECT_EQ(graph.links()[0].input, kX);
  EXPECT_EQ(graph.links()[1].input, kPrev);
}

TEST_F(CellGraphTest, SumsKeepTheOrderGiven) {
  const SubgraphId leaves = graph.Add(kTree, 4, {});
  std::vector<Link> links;
  for (int32_t i : {3, 0, 2, 0}) links.push_back({leaves, kX, i, 0});
  graph.Add(kSum, 1, links);
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  std::vector<int32_t> order;
  for (const Link& l : graph.links()) order.push_back(l.first);
  EXPECT_THAT(order, ElementsAre(3, 0, 2, 0));
}

TEST_F(CellGraphTest, AnswersStayInPlaceWhenTheGraphMoves) {
  const SubgraphId chain = Chain(Tokens(1), 1);
  graph.Return(chain, kH, {0, 1}, {graph.AddTensor("OUTPUT", WireType::kFp32, {4}), 0, 0});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  const std::byte* before = graph.tensors()[0].bytes.data();
  const CellGraph moved = std::move(graph);
  EXPECT_EQ(moved.tensors()[0].bytes.data(), before);
}

TEST_F(CellGraphTest, RefusesAnEmptyGraph) {
  Tokens(1);
  EXPECT_THAT(Error(), HasSubstr("no cells"));
}
TEST_F(CellGraphTest, RefusesASubgraphWithoutNodes) {
  graph.Add(kTree, 0, {});
  EXPECT_EQ(Error(), "subgraph 0 has 0 nodes; at least 1 is needed");
}
TEST_F(CellGraphTest, RefusesAnUnknownType) {
  graph.Add(CellTypeId(6), 1, {});
  EXPECT_EQ(Error(), "subgraph 0 is of type 6; the model has 6");
}
TEST_F(CellGraphTest, RefusesAnInvalidType) {
  graph.Add(CellTypeId(), 1, {});
  EXPECT_THAT(Error(), HasSubstr("is of type"));
}
TEST_F(CellGraphTest, RefusesAnInputOfAnUnknownTable) {
  graph.AddInput(TableId(4), 1, data);
  EXPECT_EQ(Error(), "subgraph 0 (request input) is of table 4; the model has 4");
}
TEST_F(CellGraphTest, RefusesAnInputWithoutData) {
  graph.AddInput(kTokens, 1, nullptr);
  EXPECT_THAT(Error(), HasSubstr("has no data"));
}
TEST_F(CellGraphTest, RefusesMoreNodesThan32Bits) {
  graph.Add(kTree, INT32_MAX, {});
  graph.Add(kTree, 1, {});
  EXPECT_THAT(Error(), HasSubstr("2147483648 nodes"));
}
TEST_F(CellGraphTest, RefusesMoreRowsThan32Bits) {
  graph.AddInput(kTokens, INT32_MAX, data);
  Chain(Tokens(2), 2);
  EXPECT_THAT(Error(), HasSubstr("needs 2147483649 rows of table \"tokens\""));
}
TEST_F(CellGraphTest, RefusesALinkForward) {
  graph.Add(kTree, 1, {Link{SubgraphId(0), kX, 0, 0}});
  EXPECT_THAT(Error(), HasSubstr("reads subgraph 0; only earlier ones"));
}
TEST_F(CellGraphTest, RefusesANegativeSourceThatIsNotZero) {
  graph.Add(kTree, 1, {Link{SubgraphId(-2), kX, 0, 0}});
  EXPECT_THAT(Error(), HasSubstr("reads subgraph -2"));
}
TEST_F(CellGraphTest, RefusesAnUnknownInput) {
  graph.Add(kTree, 1, {Link{kZeroSource, InputId(2), 0, 0}});
  EXPECT_THAT(Error(), HasSubstr("link 0: input 2; the cell has 2"));
}
TEST_F(CellGraphTest, RefusesTwoLinksOfAnInputThatReadsOne) {
  graph.Add(kTree, 1, {Link{kZeroSource, kX, 0, 0}, Link{kZeroSource, kX, 0, 0}});
  EXPECT_THAT(Error(), HasSubstr("input \"x\" has 2 links; 1 fit"));
}
TEST_F(CellGraphTest, RefusesASumBeyondItsCap) {
  graph.Add(kSum, 1, std::vector<Link>(kMaxSumLinks + 1, Link{kZeroSource, kX, 0, 0}));
  EXPECT_THAT(Error(), HasSubstr("has 4097 links; 4096 fit"));
}
TEST_F(CellGraphTest, RefusesASetOfSums) {
  graph.Add(kSum, 2, {});
  EXPECT_THAT(Error(), HasSubstr("has 2 nodes; a type that sums"));
}
TEST_F(CellGraphTest, RefusesAnotherTable) {
  const SubgraphId tokens = Tokens(1);
  graph.Add(kTree, 1, {Link{tokens, kX, 0, 0}});
  EXPECT_EQ(Error(),
            "subgraph 1 (type \"tree\"): link 0: input \"x\" reads subgraph 0 in table \"tokens\"; "
            "it reads table \"state\"");
}
TEST_F(CellGraphTest, RefusesNodesOutOfRange) {
  const SubgraphId leaves = graph.Add(kTree, 3, {});
  graph.Add(kTree, 3, {Link{leaves, kX, 1, 1}});
  EXPECT_THAT(Error(), HasSubstr("reads nodes 1 to 3 of subgraph 0, which has 3"));
}
TEST_F(CellGraphTest, RefusesNodesBeforeTheFirst) {
  const SubgraphId leaves = graph.Add(kTree, 3, {});
  graph.Add(kTree, 3, {Link{leaves, kX, 1, -1}});
  EXPECT_THAT(Error(), HasSubstr("reads nodes 1 to -1"));
}
TEST_F(CellGraphTest, RefusesNodesFromBehindTheLast) {
  const SubgraphId leaves = graph.Add(kTree, 3, {});
  graph.Add(kTree, 2, {Link{leaves, kX, 3, -1}});
  EXPECT_THAT(Error(), HasSubstr("reads nodes 3 to 2 of subgraph 0, which has 3"));
}
TEST_F(CellGraphTest, RefusesALongStride) {
  for (const int32_t stride : {2, -2}) {
    graph = CellGraph();
    const SubgraphId leaves = graph.Add(kTree, 9, {});
    graph.Add(kTree, 2, {Link{leaves, kX, 4, stride}});
    EXPECT_THAT(Error(), HasSubstr("stride " + std::to_string(stride) + "; -1, 0 or 1"));
  }
}
// The last node, wherever it is: nothing is walked from there.
TEST_F(CellGraphTest, RefusesAStrideFromTheLastNode) {
  const SubgraphId leaves = graph.Add(kTree, 3, {});
  graph.Add(kTree, 3, {Link{leaves, kX, kLastNode, -1}});
  EXPECT_THAT(Error(),
              HasSubstr("reads node -1 with stride -1 of subgraph 0; of a stopping chain"));
}
// Of the step before a chain's first one node is read, and so is it by who has one node.
TEST_F(CellGraphTest, WhereOneNodeIsReadTheStrideIsNone) {
  const SubgraphId before = Chain(Tokens(3), 3);
  graph.Add(kStack, 4, {Link{before, kPrev, 2, 1}});
  graph.Add(kTree, 1, {Link{before, kX, 2, 1}, Link{kZeroSource, kPrev, 2, 1}});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_EQ(graph.links()[1].stride, 0);
  EXPECT_EQ(graph.links()[2].stride, 0);
  EXPECT_EQ(graph.links()[3].first, 0) << "of zeros there is one";
  EXPECT_EQ(graph.subgraphs()[1].ring, 2);
}
// What the manager writes, then what the answer says.
std::vector<std::vector<int32_t>> Closed(CellGraph& graph, const std::vector<int32_t>& written) {
  std::memcpy(graph.tensors().back().bytes.data(), written.data(), written.size() * 4);
  graph.CloseAnswer();
  std::vector<std::vector<int32_t>> tensors;
  for (const ReturnedTensor& t : graph.tensors()) {
    tensors.emplace_back(t.bytes.size() / 4);
    EXPECT_EQ(t.dims[0], static_cast<int64_t>(tensors.back().size()));
    if (!t.bytes.empty()) std::memcpy(tensors.back().data(), t.bytes.data(), t.bytes.size());
  }
  return tensors;
}

TEST_F(CellGraphTest, AnAnswerIsCutWhereTheStopFell) {
  using Tensors = std::vector<std::vector<int32_t>>;
  const std::vector<std::pair<std::vector<int32_t>, Tensors>> cases = {
      {{7, 4, 3, 0, 0}, {{2}, {1}, {7, 4}}},        // the stop, and nothing behind it
      {{3, 0, 0, 0, 0}, {{0}, {1}, {}}},            // at once
      {{7, 4, 1, 9, 3}, {{4}, {1}, {7, 4, 1, 9}}},  // at the cap
      {{7, 4, 1, 9, 5}, {{5}, {0}, {7, 4, 1, 9, 5}}},
  };
  for (const auto& [written, expected] : cases) {
    CellGraph g;
    const SubgraphId words = g.Add(kDecoder, 5, {}, Stop{kWord, 3});
    const StopTensors to = {.words = 2, .length = 0, .stopped = 1};
    g.AddTensor("LENGTH", WireType::kInt32, {1});
    g.AddTensor("STOPPED", WireType::kInt32, {1});
    g.AddTensor("OUTPUT", WireType::kInt32, {5});
    g.ReturnStop(words, to);
    ASSERT_TRUE(g.Seal(model, 2).ok());
    EXPECT_EQ(g.returns()[0].nodes.count, 5) << "the manager writes every word";
    EXPECT_EQ(Closed(g, written), expected);
  }
  const SubgraphId words = graph.Add(kDecoder, 5, {}, Stop{kWord, 3});
  graph.ReturnStop(words, {.length = graph.AddTensor("LENGTH", WireType::kInt32, {1})});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  EXPECT_EQ(Closed(graph, {7, 3, 0, 0, 0}), Tensors{{1}}) << "words nobody asked for are not sent";
}

TEST_F(CellGraphTest, RefusesAStopReturnedInTensorsOfAnotherShape) {
  const SubgraphId words = graph.Add(kDecoder, 5, {}, Stop{kWord, 3});
  graph.AddTensor("OUTPUT", WireType::kInt32, {5, 1});
  graph.ReturnStop(words, {.words = 0});
  EXPECT_THAT(Error(), HasSubstr("tensors 0, -1, -1; expected are INT32 of [5], [1], [1]"));
}

TEST_F(CellGraphTest, RefusesAStopSaidInTensorsOfAnotherShapeOrType) {
  const auto error = [&](StopTensors to) {
    graph = CellGraph();
    const SubgraphId words = graph.Add(kDecoder, 5, {}, Stop{kWord, 3});
    graph.AddTensor("INT32 of 1", WireType::kInt32, {1});
    graph.AddTensor("INT32 of 2", WireType::kInt32, {2});
    graph.AddTensor("FP32 of 1", WireType::kFp32, {1});
    graph.ReturnStop(words, to);
    return Error();
  };
  EXPECT_EQ(error({.length = 0, .stopped = 0}), "");
  for (const int32_t wrong : {1, 2, 4}) {  // 3 holds the words
    EXPECT_THAT(error({.length = wrong}), HasSubstr("expected are INT32 of [5], [1], [1]"))
        << wrong;
    EXPECT_THAT(error({.stopped = wrong}), HasSubstr("expected are INT32 of [5], [1], [1]"))
        << wrong;
  }
}

TEST_F(CellGraphTest, TensorsBeginAtMultiplesOf64Bytes) {
  Chain(Tokens(1), 1);
  for (const int64_t n : {1, 16, 17, 3}) graph.AddTensor("A", WireType::kFp32, {n});
  ASSERT_TRUE(graph.Seal(model, 2).ok());
  std::vector<ptrdiff_t> begins;
  for (const ReturnedTensor& t : graph.tensors()) {
    begins.push_back(t.bytes.data() - graph.tensors()[0].bytes.data());
  }
  EXPECT_THAT(begins, ElementsAre(0, 64, 128, 256));
  EXPECT_EQ(graph.result_bytes(), 320);
}

TEST_F(CellGraphTest, RefusesAStopOfATypeThatIsNoChain) {
  graph.Add(kTree, 2, {}, {kH, 0});
  EXPECT_THAT(Error(), HasSubstr("has a stop and is no chain"));
}
TEST_F(CellGraphTest, RefusesAStopByAColumnOfFloats) {
  graph.Add(kDecoder, 2, {}, {kH, 0});
  EXPECT_THAT(Error(), HasSubstr("stops by column \"h\", FP32 of 4; it must be INT32 of 1"));
}
TEST_F(CellGraphTest, RefusesAStopByAColumnThatIsNoOneWord) {
  const Column one = {"one", ElementType::kFp32, 1}, two = {"two", ElementType::kInt32, 2};
  const std::vector<Op> ops = {
      {.kind = OpKind::kConstant},
      {.kind = OpKind::kConstant, .shape = Shape::Vector(2), .type = ElementType::kInt32}};
  auto cell = CellDefinition::Create("odd", ops, {{"before", {one}}}, {},
                                     {{"one", ValueId(0)}, {"two", ValueId(1)}}, InputId(0));
  ASSERT_TRUE(cell.ok()) << cell.status();
  model.types[0].definition = std::make_shared<const CellDefinition>(*std::move(cell));
  for (const auto& [column, text] :
       {std::pair(0, "\"one\", FP32 of 1"), {1, "\"two\", INT32 of 2"}}) {
    graph = CellGraph();
    graph.Add(kChain, 2, {}, {ColumnId(column), 0});
    EXPECT_THAT(Error(), HasSubstr(text));
  }
}
TEST_F(CellGraphTest, RefusesAStopByAColumnThatIsNotThere) {
  graph.Add(kDecoder, 2, {}, {ColumnId(2), 0});
  EXPECT_THAT(Error(), HasSubstr("stops by column 2 of 2"));
}
TEST_F(CellGraphTest, RefusesTheMiddleOfAStoppingChain) {
  const SubgraphId d = graph.Add(kDecoder, 4, {}, {kWord, 0});
  graph.Add(kDecoder, 1, {Link{d, kPrev, 3, 0}});
  EXPECT_THAT(Error(), HasSubstr("reads node 3 with stride 0 of subgraph 0; of a stopping chain"));
}

struct BadPiece {
  const char* what;
  int32_t from, column;
  NodeRange nodes;
  Placement where;
};

TEST_F(CellGraphTest, RefusesPiecesThatDoNotFit) {
  // Subgraph 0: tokens, 1: a chain of 3 ({h, c}, 16 bytes each), 2: a stopping decoder of 3.
  // Tensor 0: FP32 [3, 4], 48 bytes; tensor 1: INT32 [3].
  const int64_t far = INT64_MAX - 3;
  const BadPiece pieces[] = {
      {"has 3 subgraphs", 3, 0, {0, 1}, {0, 0, 0}},
      {"has 3 subgraphs", -1, 0, {0, 1}, {0, 0, 0}},
      {"request input", 0, 0, {0, 1}, {0, 0, 0}},
      {"column 2; its rows have 2", 1, 2, {0, 1}, {0, 0, 0}},
      {"column -1", 1, -1, {0, 1}, {0, 0, 0}},
      {"nodes from 1, 3 of them; it has 3", 1, 0, {1, 3}, {0, 0, 16}},
      {"nodes from -1", 1, 0, {-1, 1}, {0, 0, 0}},
      {"0 of them", 1, 0, {0, 0}, {0, 0, 0}},
      {"nodes from 2147483647", 1, 0, {INT32_MAX, INT32_MAX}, {0, 0, 0}},
      {"tensor 2; the answer has 2", 1, 0, {0, 1}, {2, 0, 0}},
      {"takes another type", 1, 0, {0, 1}, {1, 0, 0}},
      {"takes another type", 2, 1, {0, 1}, {0, 0, 0}},
      {"a stopping chain returns INT32", 2, 0, {0, 1}, {0, 0, 0}},
      {"offset 36", 1, 0, {0, 1}, {0, 36, 0}},
      {"offset -4", 1, 0, {0, 1}, {0, -4, 0}},
      {"offset 2 ", 1, 0, {0, 1}, {0, 2, 0}},
      {"stride 18", 1, 0, {0, 2}, {0, 0, 18}},
      {"stride 20", 1, 0, {0, 3}, {0, 0, 20}},
      {"stride -16", 1, 0, {0, 3}, {0, 16, -16}},
      {"stride 9223372036854775804", 1, 0, {0, 3}, {0, 0, far}},
      {"offset 9223372036854775804", 1, 0, {0, 3}, {0, far, 16}},
  };
  for (const BadPiece& bad : pieces) {
    graph = CellGraph();
    const SubgraphId chain = Chain(Tokens(3), 3);
    graph.Add(kDecoder, 3, {Link{chain, kX, 2, 0}}, {kWord, 0});
    graph.AddTensor("A", WireType::kFp32, {3, 4});
    graph.AddTensor("B", WireType::kInt32, {3});
    graph.Return(SubgraphId(bad.from), ColumnId(bad.column), bad.nodes, bad.where);
    EXPECT_THAT(Error(), HasSubstr(bad.what)) << bad.what;
  }
}

TEST_F(CellGraphTest, RefusesAnswersThatAreTooLarge) {
  Chain(Tokens(1), 1);
  graph.AddTensor("A", WireType::kFp32, {1 << 20, 1 << 20, 1 << 20, 1 << 20});
  EXPECT_THAT(Error(), HasSubstr("\"A\": dimension 1048576 takes it beyond"));
}
TEST_F(CellGraphTest, RefusesNegativeDimensions) {
  graph.AddTensor("A", WireType::kFp32, {-1});
  EXPECT_THAT(Error(), HasSubstr("dimension -1"));
}
TEST_F(CellGraphTest, RefusesTensorsOfBytes) {
  graph.AddTensor("A", WireType::kBytes, {1});
  EXPECT_THAT(Error(), HasSubstr("\"A\" is of BYTES"));
}

}  // namespace
}  // namespace cellbatch

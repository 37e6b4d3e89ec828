#include "cells/kernels/reference/graph_interpreter.h"

#include <gtest/gtest.h>

#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::FindTable;
using testing::ModelBuilder;
using testing::RandomFloats;

RowValues Wide(const std::vector<float>& values, int64_t first, int64_t count) {
  return {ColumnValues(values.begin() + first, values.begin() + first + count)};
}

TEST(GraphInterpreterTest, AChainWithAHeadIsItsCellsOneAfterTheOther) {
  ModelBuilder builder;
  const CellTypeId rnn = builder.Add(testing::ElmanCell(3, 4), 1);
  const CellTypeId head = builder.Add(testing::LinearCell(4, 2, "h"), 2);
  builder.Connect(head, "x", rnn);
  const std::shared_ptr<Model> model = builder.Build();
  const std::vector<float> x = RandomFloats(5 * 3, 9);

  CellGraph graph;
  const SubgraphId in =
      graph.AddInput(FindTable(*model, "x"), 5, reinterpret_cast<const std::byte*>(x.data()));
  const SubgraphId chain = graph.Add(rnn, 5, {{{in, InputId(0), 0, 1}}});
  const SubgraphId end = graph.Add(head, 1, {{{chain, InputId(0), 4, 0}}});
  const int32_t out = graph.AddTensor("OUTPUT", WireType::kFp32, {2});
  const int32_t all = graph.AddTensor("ALL_HIDDEN", WireType::kFp32, {5, 4});
  graph.Return(end, ColumnId(0), {0, 1}, {out, 0, 0});
  graph.Return(chain, ColumnId(0), {0, 5}, {all, 0, 16});
  ASSERT_EQ(graph.Seal(*model, 1), absl::OkStatus());

  const std::vector<std::vector<double>> answers = InterpretGraph(*model, graph);
  RowValues h = {ColumnValues(4, 0.0)};
  const CellType& type = model->type(rnn);
  for (int t = 0; t < 5; ++t) {
    h = InterpretNode(*type.definition, type.weights, {Wide(x, t * 3, 3), h});
    for (size_t u = 0; u < 4; ++u) EXPECT_EQ(answers[1][static_cast<size_t>(t) * 4 + u], h[0][u]);
  }
  EXPECT_EQ(answers[0],
            InterpretNode(*model->type(head).definition, model->type(head).weights, {h})[0]);
}

TEST(GraphInterpreterTest, ATreeSumsItsChildren) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::ChildSumCell(2, 3));
  const std::vector<float> x = RandomFloats(3 * 2, 9);
  CellGraph graph;
  const SubgraphId in =
      graph.AddInput(FindTable(*model, "x"), 3, reinterpret_cast<const std::byte*>(x.data()));
  const SubgraphId left = graph.Add(CellTypeId(0), 1, {{{in, InputId(0), 0, 0}}});
  const SubgraphId right = graph.Add(CellTypeId(0), 1, {{{in, InputId(0), 1, 0}}});
  const SubgraphId root =
      graph.Add(CellTypeId(0), 1,
                {{{in, InputId(0), 2, 0}, {right, InputId(1), 0, 0}, {left, InputId(1), 0, 0}}});
  const int32_t out = graph.AddTensor("OUTPUT", WireType::kFp32, {3});
  graph.Return(root, ColumnId(0), {0, 1}, {out, 0, 0});
  ASSERT_EQ(graph.Seal(*model, 1), absl::OkStatus());

  const CellType& type = model->types[0];
  const RowValues zero = {ColumnValues(3, 0.0)};
  const RowValues a = InterpretNode(*type.definition, type.weights, {Wide(x, 0, 2), zero});
  const RowValues b = InterpretNode(*type.definition, type.weights, {Wide(x, 2, 2), zero});
  RowValues sum = b;
  for (size_t u = 0; u < 3; ++u) sum[0][u] += a[0][u];
  EXPECT_EQ(InterpretGraph(*model, graph)[0],
            InterpretNode(*type.definition, type.weights, {Wide(x, 4, 2), sum})[0]);
}

}  // namespace
}  // namespace cellbatch

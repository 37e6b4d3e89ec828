// What of a model may be computed later, and what becomes of its tables and graphs.
#include "cells/deferred_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/recurrent_columns.h"
#include "cells/unfold/unfolder.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;
using testing::ModelBuilder;

constexpr DeferRule kAny = {.least_operations = 0, .limits = kCpuLimits, .stops = false};
constexpr float kRows[] = {0.25f, -1.0f, 0.5f, 2.0f, 0.125f, -0.75f};

// Graphs by a function.
class By : public Unfolder {
 public:
  using Write = std::function<void(CellGraph&)>;
  explicit By(Write write) : write_(std::move(write)) {}
  absl::Status Unfold(const RequestInput&, CellGraph& graph) const override {
    write_(graph);
    return absl::OkStatus();
  }

 private:
  Write write_;
};

CellGraph Unfolded(const Model& model) {
  CellGraph graph;
  EXPECT_EQ(model.unfolder->Unfold({}, graph), absl::OkStatus());
  EXPECT_EQ(graph.Seal(model, 2), absl::OkStatus());
  return graph;
}

std::vector<std::string> Names(const Model& model, const std::vector<CellTypeId>& types) {
  std::vector<std::string> names;
  for (const CellTypeId type : types) names.push_back(model.type(type).name);
  return names;
}

// h of what `before` reads, y by a projection of h.
void LeaveWithHead(CellBuilder& b, ValueId sum) {
  const ValueId h = b.Tanh(sum);
  b.Leave("h", h);
  b.Leave("y", b.MatMul(h, b.Matrix("P", 3, 2)));
}

// Leaves of a row each, and nodes over two of whatever there is; both leave {h, y}.
struct Tree {
  std::shared_ptr<Model> model;
  CellTypeId leaf, node;
};
Tree MakeTree() {
  CellBuilder leaf("leaf"), node("node");
  LeaveWithHead(leaf, leaf.MatMul(leaf.Read("x", "x", 2), leaf.Matrix("W", 2, 2)));
  const ValueId left = node.MatMul(node.Read("left", "h", 2), node.Matrix("L", 2, 2));
  const ValueId right = node.MatMul(node.Read("right", "h", 2), node.Matrix("R", 2, 2));
  LeaveWithHead(node, node.Add(left, right));
  ModelBuilder builder;
  Tree made;
  made.leaf = builder.Add(leaf.Build(), 1);
  made.node = builder.Add(node.Build(), 2);
  builder.Connect(made.node, "left", made.leaf);
  builder.Connect(made.node, "right", made.leaf);
  made.model = builder.Build();
  const TableId x = made.model->type(made.leaf).in[0];
  made.model->unfolder =
      std::make_shared<By>([leaf_type = made.leaf, node_type = made.node, x](CellGraph& graph) {
        const SubgraphId rows = graph.AddInput(x, 3, reinterpret_cast<const std::byte*>(kRows));
        const Link each = {rows, InputId(0), 0, 1};
        const SubgraphId leaves = graph.Add(leaf_type, 3, {&each, 1});
        const Link low[] = {{leaves, InputId(0), 0, 0}, {leaves, InputId(1), 1, 0}};
        const SubgraphId below = graph.Add(node_type, 1, low);
        const Link high[] = {{below, InputId(0), 0, 0}, {leaves, InputId(1), 2, 0}};
        const SubgraphId root = graph.Add(node_type, 1, high);
        graph.Return(root, ColumnId(1), {0, 1}, {graph.AddTensor("OUTPUT", WireType::kFp32, {3})});
        graph.Return(leaves, ColumnId(1), {1, 1}, {graph.AddTensor("LEAF", WireType::kFp32, {3})});
        graph.Return(below, ColumnId(0), {0, 1}, {graph.AddTensor("H", WireType::kFp32, {2})});
      });
  return made;
}

TEST(RecurrentColumnsTest, AreThoseOnACycleAndWhatTheirTypesRead) {
  const Tree tree = MakeTree();
  const auto recurrent = RecurrentColumns(*tree.model, false);
  const auto table = static_cast<size_t>(tree.model->type(tree.leaf).out.value());
  EXPECT_EQ(recurrent[table], (std::vector<bool>{true, false}));
  EXPECT_TRUE(TypesThatMayWait(*tree.model).empty()) << "each leaves h";
}

TEST(RecurrentColumnsTest, WhereNothingIsRecurrentNobodyWaits) {
  ModelBuilder builder;
  const CellTypeId one = builder.Add(testing::LinearCell(2, 3), 1);
  builder.Connect(builder.Add(testing::LinearCell(3, 4, "y"), 2), "x", one);
  EXPECT_TRUE(TypesThatMayWait(*builder.Build()).empty());
}

TEST(RecurrentColumnsTest, HeadsOverHeadsMayWaitAndWhatAnotherChainReadsMayNot) {
  ModelBuilder builder;
  const CellTypeId low = builder.Add(testing::LstmCell(2, 3), 1);
  const CellTypeId between = builder.Add(testing::LinearCell(3, 5, "h"), 2);
  builder.Connect(between, "x", low);
  const CellTypeId high = builder.Add(testing::ElmanCell(5, 4), 3);
  const CellTypeId head = builder.Add(testing::LinearCell(4, 6, "h"), 4);
  builder.Connect(head, "x", high);
  const CellTypeId top = builder.Add(testing::LinearCell(6, 2, "y"), 5);
  builder.Connect(top, "x", head);
  const std::shared_ptr<Model> model = builder.Build();
  EXPECT_EQ(TypesThatMayWait(*model), (std::vector<CellTypeId>{between, head, top}))
      << "as long as `high` reads the request";
  model->types[static_cast<size_t>(high.value())].in[0] = model->type(between).out;
  testing::CellBuilder b("over");
  const ValueId x = b.Read("x", "y", 5), before = b.Carry("before", "h", 4);
  const ValueId sum =
      b.Add(b.MatMul(x, b.Matrix("W", 4, 5)), b.MatMul(before, b.Matrix("U", 4, 4)));
  b.Leave("h", b.Tanh(sum));
  model->types[static_cast<size_t>(high.value())].definition =
      std::make_shared<const CellDefinition>(b.Build());
  EXPECT_EQ(TypesThatMayWait(*model), (std::vector<CellTypeId>{head, top}));
}

TEST(DeferredModelTest, TypesThatShareATableAreTakenApartTogether) {
  const Tree tree = MakeTree();
  const std::shared_ptr<Model> deferred = DeferModel(tree.model, kAny);
  ASSERT_NE(deferred, nullptr);
  ASSERT_TRUE(deferred->Validate().ok()) << deferred->Validate();
  EXPECT_EQ(Names(*deferred, TypesThatMayWait(*deferred)),
            (std::vector<std::string>{tree.model->type(tree.leaf).name + " deferred",
                                      tree.model->type(tree.node).name + " deferred"}));
  EXPECT_EQ(ColumnsText(deferred->type(tree.leaf).definition->columns()), "{h FP32[2]}");
  EXPECT_EQ(ColumnsText(deferred->types.back().definition->columns()), "{y FP32[3]}");
}

TEST(DeferredModelTest, WhatIsNeitherReturnedNorReadIsNotComputed) {
  const Tree tree = MakeTree();
  const std::shared_ptr<Model> deferred = DeferModel(tree.model, kAny);
  ASSERT_NE(deferred, nullptr);
  const CellGraph plain = Unfolded(*tree.model), graph = Unfolded(*deferred);
  EXPECT_EQ(plain.num_nodes(), 5);
  EXPECT_EQ(graph.num_nodes(), 5 + 2) << "y of the root and of one leaf";
  EXPECT_EQ(InterpretGraph(*tree.model, plain), InterpretGraph(*deferred, graph));
}

TEST(DeferredModelTest, WhatIsTooSmallStaysInItsCell) {
  DeferRule rule = kAny;
  rule.least_operations = 2 * 2 * 3;
  EXPECT_NE(DeferModel(MakeTree().model, rule), nullptr);
  ++rule.least_operations;
  EXPECT_EQ(DeferModel(MakeTree().model, rule), nullptr);
}

// A chain that may stop: its last node, wherever that is, has a deferred part.
TEST(DeferredModelTest, OfAChainThatMayStopTheLastNodesPartIsRead) {
  CellBuilder b("words");
  const ValueId embedded =
      b.Lookup(b.Matrix("E", 7, 5), b.Carry("before", "word", 1, ElementType::kInt32));
  const ValueId scores = b.MatMul(embedded, b.Matrix("U", 7, 5));
  b.Leave("word", b.Op1(OpKind::kArgMax, scores));
  b.Leave("y", b.Tanh(b.MatMul(scores, b.Matrix("P", 3, 7))));
  ModelBuilder builder;
  const CellTypeId words = builder.Add(b.Build(), 1);
  const CellTypeId head = builder.Add(testing::LinearCell(3, 2, "y"), 2);
  builder.Connect(head, "x", words);
  const std::shared_ptr<Model> model = builder.Build();
  model->unfolder = std::make_shared<By>([words, head](CellGraph& graph) {
    const SubgraphId chain = graph.Add(words, 6, {}, Stop{ColumnId(0), 3});
    graph.ReturnStop(chain, {.words = graph.AddTensor("words", WireType::kInt32, {6})});
    const Link last = {chain, InputId(0), kLastNode, 0};
    const SubgraphId answer = graph.Add(head, 1, {&last, 1});
    graph.Return(answer, ColumnId(0), {0, 1}, {graph.AddTensor("OUTPUT", WireType::kFp32, {2})});
  });
  DeferRule rule = kAny;
  rule.stops = true;
  const std::shared_ptr<Model> deferred = DeferModel(model, rule);
  ASSERT_NE(deferred, nullptr);
  ASSERT_TRUE(deferred->Validate().ok()) << deferred->Validate();
  const CellGraph plain = Unfolded(*model), graph = Unfolded(*deferred);
  EXPECT_EQ(InterpretGraph(*model, plain), InterpretGraph(*deferred, graph));
  EXPECT_EQ(graph.num_nodes(), plain.num_nodes() + 1);
}

}  // namespace
}  // namespace cellbatch

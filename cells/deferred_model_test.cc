// What of a model may be computed later, and what becomes of its tables and graphs; and what all rewriters of models keep.
#include "cells/deferred_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cells/arity_split.h"
#include "cells/defer.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/exploded_model.h"
#include "cells/hoisted_model.h"
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
  explicit By(Write write, int32_t phases = 1) : write_(std::move(write)), phases_(phases) {}
  absl::Status Unfold(const RequestInput&, CellGraph& graph) const override {
    write_(graph);
    return absl::OkStatus();
  }
  int32_t phases() const override { return phases_; }
  RequestDescription Describe() const override { return {.max_nodes = 77}; }

 private:
  Write write_;
  const int32_t phases_;
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
void LeaveWithHead(CellBuilder& b, ValueId sum, int32_t width = 2) {
  const ValueId h = b.Tanh(sum);
  b.Leave("h", h);
  b.Leave("y", b.MatMul(h, b.Matrix("P", 3, width)));
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

// A cell over x and its own h: `step` makes that, `head` of x and h what is left beside it.
using Step = std::function<ValueId(CellBuilder&, ValueId x, ValueId before)>;
using Head = std::function<ValueId(CellBuilder&, ValueId x, ValueId h)>;

constexpr int32_t kWidth = 16;

ValueId ElmanStep(CellBuilder& b, ValueId x, ValueId before) {
  const ValueId from_x = b.MatMul(x, b.Matrix("W", kWidth, kWidth));
  return b.Tanh(b.Add(from_x, b.MatMul(before, b.Matrix("U", kWidth, kWidth))));
}

bool IsDeferred(const Step& step, const Head& head, int32_t width = kWidth) {
  CellBuilder b("headed");
  const ValueId x = b.Read("x", "x", kWidth), before = b.Carry("before", "h", width);
  const ValueId h = step(b, x, before);
  b.Leave("h", h);
  b.Leave("y", head(b, x, h));
  return Defer(b.Build(), {ColumnPart::kStep, ColumnPart::kDeferred}, kCpuLimits).has_value();
}

// x P + h S is added as x S + h P is: x first. Where both are rows that are read, each is added as it is written, and sums are
// known by P and S alone: x P + h S must not pass for h P + x S.
TEST(DeferTest, ProductsThatShareWeightsStayInTheirCell) {
  const auto head = [](bool two) {
    return [two](CellBuilder& b, ValueId x, ValueId h) {
      const ValueId p = b.Matrix("P", kWidth, kWidth), s = b.Matrix("S", kWidth, kWidth);
      const ValueId one = b.Add(b.MatMul(x, p), b.MatMul(h, s));
      return two ? b.Concat(one, b.Add(b.MatMul(h, p), b.MatMul(x, s))) : one;
    };
  };
  EXPECT_TRUE(IsDeferred(ElmanStep, head(false)));
  EXPECT_FALSE(IsDeferred(ElmanStep, head(true)));
}

// What a sum starts with is one vector, made at load: ((p + q) + r) + t + u, or t + u + ((p + q) + r) where somebody else reads
// p + q, be it as a slice of a longer sum.
TEST(DeferTest, WhatBothPartsComputeOfParametersAloneStaysInItsCell) {
  ValueId p, q;
  const auto scaled = [&](CellBuilder& b, ValueId x, ValueId before) {
    p = b.Vector("p", 2 * kWidth), q = b.Vector("q", 2 * kWidth);
    return b.Mul(ElmanStep(b, x, before), b.Slice(b.Add(p, q), 0, kWidth));
  };
  const auto head = [&](bool same) {
    return [&, same](CellBuilder& b, ValueId, ValueId h) {
      if (!same) p = b.Vector("v", 2 * kWidth), q = b.Vector("w", 2 * kWidth);
      const ValueId sum = b.Add(b.Slice(p, 0, kWidth), b.Slice(q, 0, kWidth));
      const ValueId product = b.MatMul(h, b.Matrix("P", kWidth, kWidth));
      const ValueId t = b.Tanh(b.Vector("t", kWidth)), u = b.Sigmoid(b.Vector("u", kWidth));
      return b.Add(b.Add(b.Add(product, t), u), b.Add(sum, b.Vector("r", kWidth)));
    };
  };
  EXPECT_TRUE(IsDeferred(scaled, head(false)));
  EXPECT_FALSE(IsDeferred(scaled, head(true)));
}

// h of two pieces, which lie side by side, is one segment to who reads it as a row. To the whole it is in fp32, and in bf16
// where the first piece ends where tile registers do.
TEST(DeferTest, WhatIsCutElsewhereInAnotherPrecisionStaysInItsCell) {
  const auto pieces = [](int32_t width) {
    return [width](CellBuilder& b, ValueId x, ValueId before) {
      return b.Concat(b.Tanh(b.MatMul(x, b.Matrix("W", width, kWidth))),
                      b.Tanh(b.MatMul(before, b.Matrix("U", width, 2 * width))));
    };
  };
  const auto head = [](int32_t width) {
    return [width](CellBuilder& b, ValueId, ValueId h) {
      return b.MatMul(h, b.Matrix("P", kWidth, 2 * width));
    };
  };
  EXPECT_TRUE(IsDeferred(pieces(32), head(32), 64));
  EXPECT_FALSE(IsDeferred(pieces(16), head(16), 32));
}

std::vector<std::string> ColumnNames(const CellDefinition& cell) {
  std::vector<std::string> names;
  for (const Column& column : cell.columns()) names.push_back(column.name);
  return names;
}

// A text may call its columns as those are called that the step leaves for the other part: those that stay, and those that do
// not, which would be looked for by their names among those that stay.
TEST(DeferTest, ColumnsMayHaveAnyNames) {
  using Names = std::vector<std::string>;
  const auto defer = [](const std::string& second, ColumnPart part) {
    CellBuilder b("named");
    const ValueId from_x = b.MatMul(b.Read("x", "x", kWidth), b.Matrix("W", kWidth, kWidth));
    const ValueId before = b.Carry("before", "h", kWidth);
    const ValueId sum = b.Add(from_x, b.MatMul(before, b.Matrix("U", kWidth, kWidth)));
    b.Leave("h", b.Tanh(sum));
    b.Leave(second, b.Sigmoid(sum));
    b.Leave("p", b.MatMul(sum, b.Matrix("P", 3, kWidth)));
    return Defer(b.Build(), {ColumnPart::kStep, part, ColumnPart::kDeferred}, kCpuLimits);
  };
  const auto stays = defer("deferred 2", ColumnPart::kStep);
  ASSERT_TRUE(stays.has_value());
  EXPECT_EQ(ColumnNames(*stays->step), (Names{"h", "deferred 2", "deferred 3"}));
  EXPECT_EQ(ColumnNames(*stays->deferred), Names{"p"});
  const auto goes = defer("deferred 1", ColumnPart::kDeferred);
  ASSERT_TRUE(goes.has_value());
  EXPECT_EQ(ColumnNames(*goes->step), (Names{"h", "deferred 2"}));
  EXPECT_EQ(ColumnNames(*goes->deferred), (Names{"deferred 1", "p"}));
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

// A leaf whose y reads x, too, would leave x for it; a node has none.
TEST(DeferredModelTest, TypesOfWhichOneLeavesMoreForLaterStayWhole) {
  CellBuilder leaf("leaf"), node("node");
  const ValueId x = leaf.Read("x", "x", 2);
  const ValueId h = leaf.Tanh(leaf.MatMul(x, leaf.Matrix("W", 2, 2)));
  leaf.Leave("h", h);
  leaf.Leave("y", leaf.Add(leaf.MatMul(x, leaf.Matrix("S", 3, 2)),
                           leaf.MatMul(h, leaf.Matrix("P", 3, 2))));
  LeaveWithHead(node, node.MatMul(node.Read("left", "h", 2), node.Matrix("L", 2, 2)));
  ModelBuilder builder;
  const CellTypeId first = builder.Add(leaf.Build(), 1);
  builder.Connect(builder.Add(node.Build(), 2), "left", first);
  const std::shared_ptr<Model> model = builder.Build();
  model->unfolder = std::make_shared<By>([](CellGraph&) {});
  EXPECT_EQ(DeferModel(model, kAny), nullptr);
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
  b.Leave("y", b.Tanh(b.MatMul(scores, b.Matrix("P", 3, 7))));
  b.Leave("word", b.Op1(OpKind::kArgMax, scores));
  ModelBuilder builder;
  const CellTypeId words = builder.Add(b.Build(), 1);
  const CellTypeId head = builder.Add(testing::LinearCell(3, 2, "y"), 2);
  builder.Connect(head, "x", words);
  const std::shared_ptr<Model> model = builder.Build();
  model->unfolder = std::make_shared<By>([words, head](CellGraph& graph) {
    const SubgraphId chain = graph.Add(words, 6, {}, Stop{ColumnId(1), 3});
    graph.ReturnStop(chain, {.words = graph.AddTensor("words", WireType::kInt32, {6})});
    graph.Return(chain, ColumnId(1), {1, 2},
                 {graph.AddTensor("again", WireType::kInt32, {2}), 0, sizeof(int32_t)});
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

// A chain over rows of the request, of which any rewriter makes something, in all ways.
struct Rewritten {
  explicit Rewritten(By::Write write, Precision precision = Precision::kFp32) {
    CellBuilder b("cell");
    const ValueId x = b.Read("x", "x", kWidth), before = b.Carry("before", "h", kWidth);
    LeaveWithHead(b, ElmanStep(b, x, before), kWidth);
    const std::shared_ptr<Model> made = testing::OneCellModel(b.Build());
    made->types[0].priority = 4;
    made->precision = made->types[0].precision = precision;
    made->unfolder = std::make_shared<By>(std::move(write), 3);
    whole = made;
    deferred = DeferModel(whole, kAny);
    hoisted = HoistModel(whole, {.least_multiply_adds = 0, .limits = kCpuLimits});
    exploded = ExplodeModel(whole);
    split = SplitByArity(whole, 2);
  }
  std::vector<std::shared_ptr<const Model>> All() const {
    return {deferred, hoisted, exploded, split};
  }
  std::shared_ptr<const Model> whole, deferred, hoisted, exploded, split;
};

TEST(RewrittenModelsTest, GraphsThatGrowAreRefused) {
  const Rewritten made([](CellGraph& graph) {
    graph.Grow({.pieces = 1, .nodes = 1, .rows = {}, .progress = nullptr});
    graph.Add(CellTypeId(0), 1, {});
  });
  for (const std::shared_ptr<const Model>& model : made.All()) {
    ASSERT_NE(model, nullptr);
    CellGraph graph;
    EXPECT_EQ(model->unfolder->Unfold({}, graph).code(), absl::StatusCode::kUnimplemented);
  }
}

TEST(RewrittenModelsTest, PhasesPlacesAndDescriptionsArePassedOn) {
  const std::vector<float> rows(3 * kWidth);
  const Rewritten made([&rows](CellGraph& graph) {
    const TableId brought(1);  // behind the cell's own
    const SubgraphId x =
        graph.AddInput(brought, 3, reinterpret_cast<const std::byte*>(rows.data()));
    graph.SetPhase(2);
    const Link each = {x, InputId(0), 0, 1};
    const SubgraphId chain = graph.Add(CellTypeId(0), 3, {&each, 1});
    graph.SetPlace(chain, 5);
    graph.Return(chain, ColumnId(1), {0, 3},
                 {graph.AddTensor("y", WireType::kFp32, {3, 3}), 0, 3 * sizeof(float)});
  });
  using Places = std::vector<std::pair<std::string, int32_t>>;
  const auto places = [](const Model& model) {
    Places found;
    const CellGraph graph = Unfolded(model);
    for (const Subgraph& s : graph.subgraphs()) {
      if (!s.type.valid()) continue;
      EXPECT_EQ(s.phase, 2);
      found.emplace_back(model.type(s.type).name, s.place);
    }
    return found;
  };
  EXPECT_EQ(places(*made.deferred), (Places{{"cell_0", 5}, {"cell_0 deferred", -1}}));
  EXPECT_EQ(
      places(*made.hoisted),
      (Places{{"cell_0 hoisted", -1}, {"cell_0", 5}, {"cell_0 hoisted", -1}, {"cell_0", 5 + 1}}));
  EXPECT_EQ(places(*made.split), (Places{{"cell_0", 5}}));
  const CellGraph pieces = Unfolded(*made.hoisted);
  const Subgraph& later = pieces.subgraphs()[3];  // rows, eager, step, eager, step
  EXPECT_EQ(later.num_predecessors, 1) << "the first step goes first";
  EXPECT_EQ(pieces.links()[static_cast<size_t>(later.first_link)].first, 1);
  EXPECT_GT(places(*made.exploded).size(), 1u);
  for (const std::shared_ptr<const Model>& model : made.All()) {
    EXPECT_EQ(model->unfolder->phases(), 3);
    EXPECT_EQ(model->unfolder->Describe().max_nodes, 77);
  }
}

TEST(RewrittenModelsTest, WhatIsMadeOfATypeIsInItsPrecisionAndOfItsPriority) {
  const Rewritten made([](CellGraph&) {}, Precision::kBf16);
  for (const std::shared_ptr<const Model>& model : made.All()) {
    EXPECT_TRUE(model->Validate().ok()) << model->Validate();
  }
  EXPECT_EQ(made.deferred->types.back().priority, 4);
  EXPECT_EQ(made.deferred->types.back().least_max_batch, kDeferredNodes);
  EXPECT_EQ(made.hoisted->types.back().priority, 4 + 1) << "whoever waits for it steps with others";
  EXPECT_EQ(made.hoisted->types.back().least_max_batch, kHoistedSteps);
  EXPECT_EQ(made.exploded->types.front().priority, 4);
}

// A chain of 60 leaves {y, h} and carries h; a chain above it walks its h forwards and backwards, from its ends and from within; y is
// read backwards from the middle, beside h of the last node, and returned of some nodes; rows of h are summed; and chains begin
// from rows that the request brings, of h alone or of both columns.
struct Everything {
  Everything() {
    CellBuilder step("step"), over("over"), both("both"), total("total");
    const ValueId x = step.Read("x", "x", kWidth);
    const ValueId h = ElmanStep(step, x, step.Carry("before", "h", kWidth));
    step.Leave("y", step.MatMul(h, step.Matrix("P", 3, kWidth)));
    step.Leave("h", h);
    const ValueId below = over.Read("below", "h", kWidth);
    over.Leave("g", ElmanStep(over, below, over.Carry("before", "g", kWidth)));
    const ValueId y = both.Read("of", "y", 3);
    both.Leave("z", both.Concat(both.Tanh(y), both.Read("of", "h", kWidth)));
    total.Leave("sum", total.Tanh(total.Read("all", "h", kWidth, ElementType::kFp32, Arity::kSum)));
    ModelBuilder builder;
    steps = builder.Add(step.Build(), 1), overs = builder.Add(over.Build(), 2);
    heads = builder.Add(both.Build(), 3), totals = builder.Add(total.Build(), 4);
    lines = builder.Add(testing::LinearCell(3, 2, "y"), 5);
    builder.Connect(overs, "below", steps);
    builder.Connect(heads, "of", steps);
    builder.Connect(totals, "all", steps);
    builder.Connect(lines, "x", steps);
    const std::shared_ptr<Model> made = builder.Build();
    brought = made->type(steps).in[0], rows = made->type(steps).out;
    for (int i = 0; i < 2000; ++i) values.push_back(static_cast<float>(i % 17 - 8) / 8);
    made->unfolder = std::make_shared<By>([this](CellGraph& graph) { Write(graph); });
    model = made;
  }

  void Write(CellGraph& graph) const {
    const auto returned = [&](SubgraphId of, int column, NodeRange nodes, int32_t width) {
      const int32_t tensor = graph.AddTensor("t" + std::to_string(graph.tensors().size()),
                                             WireType::kFp32, {nodes.count, width});
      graph.Return(of, ColumnId(column), nodes, {tensor, 0, width * int64_t{sizeof(float)}});
    };
    const auto* const data = reinterpret_cast<const std::byte*>(values.data());
    const Link each = {graph.AddInput(brought, 60, data), InputId(0), 0, 1};
    const SubgraphId chain = graph.Add(steps, 60, {&each, 1});
    for (const auto& [first, stride, length] :
         {std::tuple(0, 1, 60), {59, -1, 60}, {10, 1, 45}, {50, -1, 45}, {3, 0, 4}}) {
      const Link walked = {chain, InputId(0), first, stride};
      returned(graph.Add(overs, length, {&walked, 1}), 0, {0, length}, kWidth);
    }
    const Link back = {chain, InputId(0), 45, -1}, last = {chain, InputId(0), kLastNode, 0};
    returned(graph.Add(heads, 1, {&last, 1}), 0, {0, 1}, 3 + kWidth);
    returned(graph.Add(lines, 3, {&back, 1}), 0, {0, 3}, 2);
    const Link two[] = {last, {chain, InputId(0), 7, 0}};
    for (const size_t summed : {0, 1, 2}) {
      returned(graph.Add(totals, 1, absl::MakeConstSpan(two).first(summed)), 0, {0, 1}, kWidth);
    }
    returned(chain, 0, {47, 4}, 3);
    returned(chain, 1, {0, 60}, kWidth);
    for (const ColumnSet columns : {ColumnSet(2), kEveryColumn}) {
      const SubgraphId state = graph.AddInput(rows, 2, data + 40, columns);
      const Link begins[] = {each, {state, InputId(1), 1, 0}};
      const SubgraphId more = graph.Add(steps, 4, begins);
      returned(more, 0, {1, 1}, 3);
      returned(more, 0, {3, 1}, 3);
    }
  }

  CellTypeId steps, overs, heads, totals, lines;
  TableId brought, rows;
  std::vector<float> values;
  std::shared_ptr<const Model> model;
};

TEST(RewrittenModelsTest, WhateverIsReadOrReturnedIsWhatItWas) {
  const Everything every;
  const CellGraph plain = Unfolded(*every.model);
  const auto expected = InterpretGraph(*every.model, plain);
  const std::shared_ptr<const Model> deferred = DeferModel(every.model, kAny);
  const std::shared_ptr<const Model> hoisted =
      HoistModel(every.model, {.least_multiply_adds = 0, .limits = kCpuLimits});
  const std::shared_ptr<const Model> exploded = ExplodeModel(every.model);
  const std::shared_ptr<const Model> split = SplitByArity(every.model, 2);
  for (const std::shared_ptr<const Model>& model : {deferred, hoisted, exploded, split}) {
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(InterpretGraph(*model, Unfolded(*model)), expected);
  }
  EXPECT_EQ(Unfolded(*deferred).num_nodes(), plain.num_nodes() + (60 - 43) + 3 + 3)
      << "43 to 59 of the chain, 1 to 3 of the others";
  std::vector<std::string> sums;
  const CellGraph by_arity = Unfolded(*split);
  for (const Subgraph& s : by_arity.subgraphs()) {
    if (s.type.valid() && split->type(s.type).name.starts_with("total")) {
      sums.push_back(split->type(s.type).name);
    }
  }
  EXPECT_EQ(sums, (std::vector<std::string>{"total_3 of 0", "total_3 of 1", "total_3"}));
}

}  // namespace
}  // namespace cellbatch

// Graphs of random trees are computed by the interpreter and compared with the equations (tests/testing/tree_model.h).
#include "cells/unfold/tree_unfolder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/size_bound.h"
#include "tests/testing/builders.h"
#include "tests/testing/tree_model.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;
using testing::TreeKind;
using testing::TreeModel;
using testing::TreeModelSpec;
using testing::TreeRequest;

using Ints = std::vector<int32_t>;
using Dims = TensorDims;

constexpr TreeKind kKinds[] = {TreeKind::kBinary, TreeKind::kTwoTypes, TreeKind::kNary,
                               TreeKind::kChildSum, TreeKind::kChildSumLeaf};

void ExpectSame(const std::vector<double>& made, const std::vector<double>& right,
                const char* what) {
  ASSERT_EQ(made.size(), right.size()) << what;
  for (size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], right[i], 1e-9) << what << " " << i;
}

// Every output, against the equations; and every tensor alone has the values it has beside the others.
void CheckAgainstEquations(const TreeModel& model, const TreeRequest& request) {
  const TreeModel::Answers right = model.Reference(request);
  const CellGraph graph =
      model.Graph(request, {"ALL_HIDDEN", "FINAL_C", "NODE_OUTPUTS", "OUTPUT", "FINAL_H"});
  const auto made = InterpretGraph(*model.model(), graph);
  ASSERT_EQ(made.size(), 5u);
  ExpectSame(made[0], right.h, "ALL_HIDDEN");
  ExpectSame(made[1], right.root_c, "FINAL_C");
  ExpectSame(made[2], right.y, "NODE_OUTPUTS");
  ExpectSame(made[3], right.root_y, "OUTPUT");
  ExpectSame(made[4], right.root_h, "FINAL_H");
  const auto alone = InterpretGraph(*model.model(), model.Graph(request));
  ASSERT_EQ(alone.size(), 1u) << "nothing named: OUTPUT alone";
  ExpectSame(alone[0], right.root_y, "OUTPUT alone");

  const bool several = !request.lengths.empty();
  const int64_t trees = static_cast<int64_t>(request.lengths.size()), nodes = request.nodes();
  EXPECT_EQ(graph.tensors()[0].dims, (Dims{nodes, 4}));
  EXPECT_EQ(graph.tensors()[2].dims, (Dims{nodes, 2}));
  EXPECT_EQ(graph.tensors()[3].dims, several ? (Dims{trees, 2}) : (Dims{2}));
  EXPECT_EQ(graph.tensors()[4].dims, several ? (Dims{trees, 4}) : (Dims{4}));
}

TEST(TreeUnfolderTest, RandomTreesOfEveryKindComputeTheirEquations) {
  constexpr uint64_t kSeed = 11;
  std::mt19937_64 random(kSeed);
  for (const TreeKind kind : kKinds) {
    const TreeModel model({.kind = kind});
    for (const int size : {1, 2, 3, 4, 9, 40, 101}) {
      SCOPED_TRACE(fmt::format("kind {}, {} nodes, seed {}", static_cast<int>(kind), size, kSeed));
      CheckAgainstEquations(model, model.Random(random, size));
      CheckAgainstEquations(model, TreeModel::Together({model.Random(random, size)}));
      CheckAgainstEquations(
          model, TreeModel::Together({model.Random(random, size), model.Random(random, 1),
                                      model.Random(random, 17)}));
    }
  }
}

TEST(TreeUnfolderTest, TextIsTheTreeItDescribes) {
  constexpr uint64_t kSeed = 12;
  std::mt19937_64 random(kSeed);
  const TreeModel model({.kind = TreeKind::kTwoTypes});
  for (int i = 0; i < 20; ++i) {
    TreeRequest request =
        TreeModel::Together({model.Random(random, 1 + 3 * i), model.Random(random, 9)});
    // The text's nodes close in another order than the tensors' rows: only what does not number them is compared.
    request.types.clear();
    const std::vector<double> right = model.Reference(request).root_y;
    request.MakeText();
    const auto made = InterpretGraph(*model.model(), model.Graph(request));
    ExpectSame(made[0], right, "OUTPUT");
  }
}

TEST(TreeUnfolderTest, ATreeOfParentsMayBeBinaryToo) {
  const TreeModel model({});
  // The same tree twice; words of nodes with children are not read by these cells.
  const TreeRequest children{.tokens = {3, 4, 5}, .children = {0, 1, 3, 2}};
  const TreeRequest parents{.tokens = {9, 3, 8, 4, 5}, .parents = {-1, 2, 0, 2, 0}};
  ExpectSame(InterpretGraph(*model.model(), model.Graph(parents))[0],
             model.Reference(children).root_y, "OUTPUT");
}

TEST(TreeUnfolderTest, AnAbsentChildReadsZeros) {
  const TreeModel model({});
  // One child: child1's part of every product is gone, as if its h and c were zero.
  const TreeRequest unary{.tokens = {3, 9}, .parents = {1, -1}};
  const auto made = InterpretGraph(*model.model(), model.Graph(unary, {"FINAL_C"}));
  ASSERT_EQ(made.size(), 1u);
  for (const double c : made[0]) EXPECT_NE(c, 0.0);
}

int CountOf(const CellGraph& graph, CellTypeId type, bool nodes) {
  int count = 0;
  for (const Subgraph& s : graph.subgraphs()) {
    if (s.type == type) count += nodes ? s.length : 1;
  }
  return count;
}

TEST(TreeUnfolderTest, LeavesAreOneSetAndOutputsAreMadeWhereAsked) {
  const TreeModel model({});
  const TreeRequest request{.tokens = {3, 4, 5, 6}, .children = {0, 1, 2, 3, 4, 5}};
  const CellGraph root = model.Graph(request);
  EXPECT_EQ(root.num_nodes(), 4 + 3 + 1);
  EXPECT_EQ(root.subgraphs().size(), 1u + 1 + 3 + 1);
  const CellGraph all = model.Graph(request, {"NODE_OUTPUTS", "OUTPUT"});
  EXPECT_EQ(all.num_nodes(), 2 * 7) << "the root's output cell serves both";
  EXPECT_EQ(CountOf(all, model.spec().output, false), 1 + 3);
  const CellGraph hidden = model.Graph(request, {"FINAL_H"});
  EXPECT_EQ(hidden.num_nodes(), 7) << "nobody asked for an output cell";
}

TEST(TreeUnfolderTest, EdgesOfLeavesSideBySideAreOneSet) {
  const TreeModel leaf({.kind = TreeKind::kChildSumLeaf});
  // 6 has leaves 0 1 2 and the node 5, which has leaves 3 and 4.
  const TreeRequest request{.tokens = {1, 2, 3, 4, 5, 6, 7}, .parents = {6, 6, 6, 5, 5, 6, -1}};
  const CellGraph graph = leaf.Graph(request);
  EXPECT_EQ(CountOf(graph, leaf.spec().edge, true), 6);
  EXPECT_EQ(CountOf(graph, leaf.spec().edge, false), 3) << "0 1 2 together, 3 4 together, 5";
  EXPECT_EQ(CountOf(graph, leaf.spec().leaf, false), 1);
  const TreeModel plain({.kind = TreeKind::kChildSum});
  const CellGraph singles = plain.Graph(request);
  EXPECT_EQ(CountOf(singles, plain.spec().internal[0], true), 7) << "one type, whatever the arity";
  EXPECT_EQ(CountOf(singles, plain.spec().edge, true), 6);
}

TEST(TreeUnfolderTest, ChainsOfAHundredThousandTakeNoStack) {
  constexpr int32_t kDeep = 100'000;
  TreeRequest deep, parents;
  for (int32_t k = 0; k < kDeep; ++k) {
    deep.children.insert(deep.children.end(), {k == 0 ? 0 : kDeep + k, k + 1});
    parents.parents.push_back(k + 1);
  }
  parents.parents.push_back(-1);
  deep.tokens = parents.tokens = Ints(kDeep + 1, 1);
  const TreeModel binary({.hidden = 2}), sum({.kind = TreeKind::kChildSum, .hidden = 2});
  const CellGraph graph = binary.Graph(deep, {"NODE_OUTPUTS"});
  EXPECT_EQ(graph.num_nodes(), 2 * (2 * kDeep + 1));
  EXPECT_EQ(graph.subgraphs().back().depth, kDeep + 1);
  EXPECT_EQ(sum.Graph(parents).num_nodes(), 2 * kDeep + 2);
}

TEST(TreeUnfolderTest, CellsAreCountedBeforeTheyAreMade) {
  const TreeModel model({.max_nodes = 8});
  const TreeRequest request{.tokens = {3, 4, 5, 6}, .children = {0, 1, 2, 3, 4, 5}};
  CellGraph graph;
  EXPECT_TRUE(model.unfolder().Unfold(request.Input(), graph).ok());
  CellGraph refused;
  EXPECT_EQ(model.unfolder().Unfold(request.Input({"NODE_OUTPUTS"}), refused).message(),
            "input CHILDREN: 7 nodes take 14 cells, the model takes 8");
}

TEST(TreeUnfolderTest, WhatTheCellsCannotTakeIsRefused) {
  const auto error = [](const TreeModel& model, const TreeRequest& request,
                        std::vector<std::string_view> outputs = {}) {
    CellGraph graph;
    const absl::Status s = model.unfolder().Unfold(request.Input(std::move(outputs)), graph);
    return s.ok() ? "accepted" : std::string(s.message());
  };
  const TreeModel binary({}), sum({.kind = TreeKind::kChildSum}), nary({.kind = TreeKind::kNary});
  const TreeRequest wide{.tokens = {1, 2, 3, 4, 5}, .parents = {-1, 0, 0, 0, 0}};
  EXPECT_EQ(error(binary, wide),
            "input PARENT: node 0 has 4 children, cell type \"internal_1\" takes 2");
  EXPECT_EQ(error(nary, wide), "input PARENT: node 0 has 4 children, cell type \"node_1\" takes 3");
  EXPECT_EQ(error(sum, wide), "accepted");
  EXPECT_EQ(
      error(binary, {.tokens = {1, 1, 2, 3, 4}, .parents = {-1, 1, -1, 1, 1}, .lengths = {1, 4}}),
      "input PARENT: tree 1: node 1 has 3 children, cell type \"internal_1\" takes 2");
  TreeRequest text;
  const std::string three = "(0 (1 w1) (2 w2) (3 w3))";
  const auto length = static_cast<uint32_t>(three.size());
  text.text.assign(reinterpret_cast<const char*>(&length), 4);
  text.text += three;
  EXPECT_EQ(error(binary, text),
            "input TREE: node 3 has 3 children, cell type \"internal_1\" takes 2");
  EXPECT_EQ(error(nary, text), "accepted") << "nodes without words read zeros";
  EXPECT_THAT(error(sum, text), HasSubstr("input TREE: gives words to leaves only"));
  const TreeRequest one{.tokens = {1}};
  EXPECT_EQ(error(binary, one, {"OUTPUT", "LOGITS"}),
            "output LOGITS: the model has no such output");
  EXPECT_EQ(error(binary, one, {"OUTPUT", "OUTPUT"}), "output OUTPUT: asked for twice");
  EXPECT_EQ(error(TreeModel({.output = false}), one, {"NODE_OUTPUTS"}),
            "output NODE_OUTPUTS: the model has no such output");
}

TEST(TreeUnfolderTest, SumsAreBoundedByWhatOneInputTakes) {
  const TreeModel sum({.kind = TreeKind::kChildSum, .hidden = 2});
  TreeRequest star{.parents = Ints(kMaxSumLinks + 1, 0)};
  star.parents[0] = -1;
  star.tokens = Ints(star.parents.size(), 1);
  CellGraph graph;
  ASSERT_TRUE(sum.unfolder().Unfold(star.Input(), graph).ok());
  EXPECT_TRUE(graph.Seal(*sum.model(), 1).ok());
  star.parents.push_back(0);
  star.tokens.push_back(1);
  CellGraph refused;
  EXPECT_EQ(sum.unfolder().Unfold(star.Input(), refused).message(),
            "input PARENT: node 0 has 4097 children, cell type \"node_0\" takes 4096");
}

TEST(TreeUnfolderTest, CellsThatDoNotFitATreeAreNamed) {
  const TreeModel binary({}), sum({.kind = TreeKind::kChildSum}), nary({.kind = TreeKind::kNary});
  const auto error = [](const TreeModel& model, auto change) {
    TreeSpec spec = model.spec();
    change(spec);
    const auto made = TreeUnfolder::Create(spec, *model.model());
    return made.ok() ? "accepted" : std::string(made.status().message());
  };
  EXPECT_EQ(error(binary, [](TreeSpec&) {}), "accepted");
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.internal.clear(); }), HasSubstr("0 internal"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.leaf = {}; }),
              HasSubstr("\"internal_1\" does not read words by \"x\" either"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.internal[0] = s.leaf; }),
              HasSubstr("\"leaf_0\" reads no children"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.leaf = s.internal[0]; }),
              HasSubstr("\"internal_1\" has 2 inputs, in its place it has 1"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.leaf = s.output; }),
              HasSubstr("all nodes of a tree leave the same columns"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.output = s.leaf; }),
              HasSubstr("\"leaf_0\": input \"x\" reads of {token INT32[1]}, what it is given is {h "
                        "FP32[4], c FP32[4]}"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.internal[0] = CellTypeId(7); }),
              HasSubstr("cell type 7 of 3"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.known_words.size = 0; }),
              HasSubstr("a vocabulary of 0"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.max_nodes = 0; }), HasSubstr("max_nodes is 0"));
  EXPECT_THAT(error(binary, [](TreeSpec& s) { s.tokens = TableId(0); }),
              HasSubstr("is not one INT32 column of 1"));
  EXPECT_THAT(error(sum, [](TreeSpec& s) { s.edge = {}; }),
              HasSubstr("\"node_0\" reads \"edges\", the model has no edge"));
  EXPECT_THAT(error(sum, [](TreeSpec& s) { s.edge = s.internal[0]; }),
              HasSubstr("\"node_0\" has an input \"children\"; an edge reads"));
  EXPECT_THAT(error(nary, [](TreeSpec& s) { s.embedding = {}; }),
              HasSubstr("\"node_1\": input \"x\" reads of {x FP32[3]}, what it is given is {token "
                        "INT32[1]}"));
}

void ExpectTreesTakenByTheirSizeAlone(const TreeSpec& of, const Model& model,
                                      const TreeRequest& request) {
  std::vector<std::vector<std::string_view>> asked = {{}, {"ALL_HIDDEN"}, {"FINAL_H"}};
  if (of.output.valid()) asked.insert(asked.end(), {{"NODE_OUTPUTS"}, {"OUTPUT", "NODE_OUTPUTS"}});
  for (const auto& outputs : asked) {
    ExpectTakenByItsSizeAlone([&](int64_t most, CellGraph& graph) {
      TreeSpec spec = of;
      spec.max_nodes = most;
      return (*TreeUnfolder::Create(spec, model))->Unfold(request.Input(outputs), graph);
    });
  }
}

TEST(TreeUnfolderTest, ARequestIsRefusedForItsSizeWhenItsGraphIsTooLarge) {
  std::mt19937_64 random(15);
  for (const TreeKind kind : kKinds) {
    for (const bool output : {true, false}) {
      const TreeModel model({.kind = kind, .output = output});
      for (const int size : {1, 2, 5, 30}) {
        SCOPED_TRACE(fmt::format("kind {}, {} nodes", static_cast<int>(kind), size));
        ExpectTreesTakenByTheirSizeAlone(model.spec(), *model.model(), model.Random(random, size));
        ExpectTreesTakenByTheirSizeAlone(
            model.spec(), *model.model(),
            TreeModel::Together({model.Random(random, size), model.Random(random, 9)}));
      }
    }
  }
}

// A model of cells that a test writes: what is wrong with it as a tree's.
struct Written {
  using Write = std::function<void(testing::CellBuilder&)>;

  // `sums`: the node reads "edges".
  Written(const Write& node, const Write& edge = {}, const Write& output = {}, bool sums = false) {
    testing::ModelBuilder builder;
    const auto add = [&](const char* name, const Write& write) {
      testing::CellBuilder b(name);
      write(b);
      return builder.Add(b.Build(), 1);
    };
    spec.internal = {add("node", node)};
    if (edge) spec.edge = add("edge", edge);
    if (output) spec.output = add("output", output);
    if (sums) builder.Connect(spec.internal[0], "edges", spec.edge);
    model = builder.Build();
    spec.tokens = testing::FindTable(*model, "token");
    spec.known_words.size = 9;
    spec.max_nodes = 10;
  }
  std::string Error() const {
    const auto made = TreeUnfolder::Create(spec, *model);
    return made.ok() ? "accepted" : std::string(made.status().message());
  }
  TreeSpec spec;
  std::shared_ptr<Model> model;
};

constexpr int32_t kUnits = 4;

ValueId Word(testing::CellBuilder& b) {
  return b.Lookup(b.Matrix("E", 9, kUnits), b.Read("x", "token", 1, ElementType::kInt32));
}
// h = E[x] + the inputs of these names.
Written::Write Node(const std::vector<std::string>& inputs, Arity arity = Arity::kOne,
                    const std::string& leaves = "h") {
  return [=](testing::CellBuilder& b) {
    ValueId sum = Word(b);
    for (const std::string& input : inputs) {
      sum = b.Add(sum, b.Read(input, leaves, kUnits, ElementType::kFp32, arity));
    }
    b.Leave(leaves, sum);
  };
}

TEST(TreeUnfolderTest, InputsAreWhatATreeHasForThem) {
  EXPECT_EQ(Written(Node({"child0", "child1"})).Error(), "accepted");
  EXPECT_EQ(Written(Node({"children"}, Arity::kSum)).Error(), "accepted");
  EXPECT_THAT(Written(Node({"children"})).Error(),
              HasSubstr("\"node_0\": input \"children\" reads one node; it must sum (arity: SUM)"));
  EXPECT_THAT(Written(Node({"child0"}, Arity::kSum)).Error(),
              HasSubstr("\"node_0\": input \"child0\" reads a sum; it must read one node"));
  EXPECT_THAT(Written(Node({"child0", "child2"})).Error(),
              HasSubstr("\"node_0\" reads \"child2\", but 2 children in all"));
  EXPECT_THAT(Written(Node({"child2", "child0"})).Error(), HasSubstr("reads \"child2\", but 2"));
  for (const char* other : {"child", "child-1", "child0x", "left"}) {
    EXPECT_THAT(
        Written(Node({other})).Error(),
        HasSubstr(fmt::format("\"node_0\" has an input \"{}\"; an internal cell reads", other)));
  }
  EXPECT_THAT(Written(Node({"child0"}, Arity::kOne, "g")).Error(),
              HasSubstr("no output, and cell type \"node_0\" leaves no FP32 column \"h\""));
  EXPECT_THAT(Written([](testing::CellBuilder& b) {
                b.Leave("h", b.Add(Word(b), b.Carry("before", "h", kUnits)));
              }).Error(),
              HasSubstr("\"node_0\" carries state from step to step"));
  const Written::Write child = [](testing::CellBuilder& b) {
    b.Leave("f", b.Tanh(b.Read("child", "h", kUnits)));
  };
  const Written::Write sums = [](testing::CellBuilder& b) {
    b.Leave("h", b.Add(Word(b), b.Read("edges", "f", kUnits, ElementType::kFp32, Arity::kSum)));
  };
  EXPECT_EQ(Written(sums, child, {}, true).Error(), "accepted");
  EXPECT_EQ(Written(Node({"child0"}), child).Error(),
            "tree: edge \"edge_1\", and no internal cell reads \"edges\"");
  const Written::Write childless = [](testing::CellBuilder& b) { b.Leave("f", Word(b)); };
  EXPECT_EQ(Written(sums, childless, {}, true).Error(),
            "tree: cell type \"edge_1\" does not read its \"child\"");
  const Written::Write z = [](testing::CellBuilder& b) {
    b.Leave("z", b.Tanh(b.Read("h", "h", kUnits)));
  };
  EXPECT_EQ(Written(Node({"child0"}), {}, z).Error(),
            "tree: output \"output_1\" leaves no FP32 column \"y\", but {z FP32[4]}");
}

// Of two internal cells one reads edges: the other's children have none.
TEST(TreeUnfolderTest, EdgesAreMadeAndCountedForThoseWhoReadThem) {
  testing::ModelBuilder builder;
  const auto add = [&](const char* name, const Written::Write& write) {
    testing::CellBuilder b(name);
    write(b);
    return builder.Add(b.Build(), 1);
  };
  TreeSpec spec;
  spec.internal.push_back(add("sums", [](testing::CellBuilder& b) {
    b.Leave("h", b.Add(Word(b), b.Read("edges", "f", kUnits, ElementType::kFp32, Arity::kSum)));
  }));
  spec.internal.push_back(add("pair", Node({"child0", "child1"})));
  spec.edge = add(
      "edge", [](testing::CellBuilder& b) { b.Leave("f", b.Tanh(b.Read("child", "h", kUnits))); });
  builder.Connect(spec.internal[0], "edges", spec.edge);
  const std::shared_ptr<Model> model = builder.Build();
  spec.tokens = testing::FindTable(*model, "token");
  spec.known_words.size = 9;
  // 0 <- 1 2, 1 <- 3 4: five nodes; edges for those of type 0.
  TreeRequest request{.tokens = {1, 2, 3, 4, 5}, .parents = {-1, 0, 0, 1, 1}};
  for (const auto& [types, cells] :
       {std::pair{Ints{0, 0}, 9}, {Ints{0, 1}, 7}, {Ints{1, 0}, 7}, {Ints{1, 1}, 5}}) {
    request.types = types;
    ExpectTreesTakenByTheirSizeAlone(spec, *model, request);
    spec.max_nodes = 100;
    CellGraph graph;
    const auto unfolder = TreeUnfolder::Create(spec, *model);
    ASSERT_TRUE(unfolder.ok()) << unfolder.status();
    ASSERT_TRUE((*unfolder)->Unfold(request.Input(), graph).ok());
    EXPECT_EQ(CellsOf(graph), cells);
  }
}

// A node's own word is at hand in PARENT alone; c is answered where nodes leave one; of several types the one of fewest children
// bounds what is drawn.
TEST(TreeUnfolderTest, WhatIsTakenAndAnsweredDependsOnTheCells) {
  Written made(Node({"child0", "child1"}));
  const auto unfolder = TreeUnfolder::Create(made.spec, *made.model);
  ASSERT_TRUE(unfolder.ok()) << unfolder.status();
  std::vector<std::string> names;
  for (const TensorSpec& t : (*unfolder)->MakeSignature().inputs) names.push_back(t.name);
  for (const TensorSpec& t : (*unfolder)->MakeSignature().outputs) names.push_back(t.name);
  EXPECT_THAT(names, ::testing::ElementsAre("TOKENS", "PARENT", "INTERNAL_TYPES", "LENGTHS",
                                            "OUTPUT", "ALL_HIDDEN", "FINAL_H"));
  testing::ModelBuilder builder;
  for (const std::vector<std::string>& children :
       {std::vector<std::string>{"child0", "child1"}, {"child0"}, {"child0", "child1", "child2"}}) {
    testing::CellBuilder b("node");
    Node(children)(b);
    const CellTypeId id = builder.Add(b.Build(), 1);
    if (children.size() == 2) made.spec.internal.clear();
    made.spec.internal.push_back(id);
  }
  const std::shared_ptr<Model> model = builder.Build();
  made.spec.tokens = testing::FindTable(*model, "token");
  const auto several = TreeUnfolder::Create(made.spec, *model);
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_EQ((*several)->Describe().max_children, 1);
}

TEST(TreeUnfolderTest, TypesNodesAndWordsMayBeAsManyAsThereMayBe) {
  Written most(Node({"child0", "child1"}));
  most.spec.internal.resize(64, most.spec.internal[0]);
  most.spec.max_nodes = kMaxTensorRows;
  EXPECT_EQ(most.Error(), "accepted");
  most.spec.internal.resize(65, most.spec.internal[0]);
  EXPECT_EQ(most.Error(), "tree: 65 internal cell types, allowed are 1 to 64");
  most.spec.internal.resize(1);
  most.spec.max_nodes = kMaxTensorRows + 1;
  EXPECT_EQ(most.Error(), "tree: max_nodes is 268435457, allowed are 1 to 268435456");
  most.spec.max_nodes = 10;
  std::vector<Column>& token =
      most.model->tables[static_cast<size_t>(most.spec.tokens.value())].columns;
  const Column number = token[0];
  for (const std::vector<Column>& other : {std::vector<Column>{number, number},
                                           {{"token", ElementType::kFp32, 1}},
                                           {{"token", ElementType::kInt32, 2}}}) {
    token = other;
    EXPECT_EQ(most.Error(), "tree: input table \"token\" is not one INT32 column of 1");
  }
}

TEST(TreeUnfolderTest, TheSignatureListsWhatTheModelTakes) {
  const auto names = [](const std::vector<TensorSpec>& specs) {
    std::vector<std::string> all;
    for (const TensorSpec& t : specs) all.push_back(t.listed ? t.name : "(" + t.name + ")");
    return all;
  };
  const Signature binary = TreeModel({}).model()->signature;
  EXPECT_THAT(names(binary.inputs),
              ::testing::ElementsAre("TOKENS", "CHILDREN", "(PARENT)", "(TREE)", "(INTERNAL_TYPES)",
                                     "(LENGTHS)"));
  EXPECT_THAT(
      names(binary.outputs),
      ::testing::ElementsAre("OUTPUT", "(NODE_OUTPUTS)", "(ALL_HIDDEN)", "(FINAL_H)", "(FINAL_C)"));
  EXPECT_EQ(binary.vocabulary_size, 20);
  const RequestDescription described = TreeModel({}).model()->unfolder->Describe();
  EXPECT_EQ(described.inputs[0].num_ids, 20);
  EXPECT_EQ(described.inputs[1].num_ids, 1) << "internal types";
  EXPECT_GT(described.max_nodes, 0);
  EXPECT_EQ(described.max_children, 2);
  const Signature sum =
      TreeModel({.kind = TreeKind::kChildSum, .output = false}).model()->signature;
  EXPECT_THAT(names(sum.inputs),
              ::testing::ElementsAre("TOKENS", "PARENT", "(INTERNAL_TYPES)", "(LENGTHS)"));
  EXPECT_FALSE(sum.inputs[0].optional);
  EXPECT_GT(TreeModel({.kind = TreeKind::kChildSum}).model()->unfolder->Describe().max_children, 2);
  EXPECT_EQ(sum.outputs[0].dims, (std::vector<int64_t>{4}));
}

}  // namespace
}  // namespace cellbatch

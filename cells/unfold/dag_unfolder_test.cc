// Random graphs over six small cells; answers are computed by the graph interpreter and compared with
// a walk over the edges that knows the cells' equations and nothing of subgraphs.
#include "cells/unfold/dag_unfolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/size_bound.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int32_t kH = 4, kD = 3, kV = 9;
enum Kind : int32_t { kLeaf, kWord, kPair, kTotal, kStep, kOut };

CellDefinition Leaf() {  // h = tanh(W x)
  CellBuilder b("leaf");
  const ValueId x = b.Read("x", "x", kD), w = b.Matrix("W", kH, kD);
  b.Leave("h", b.Tanh(b.MatMul(x, w)));
  return b.Build();
}
CellDefinition Word() {  // h = E[token]
  CellBuilder b("word");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  b.Leave("h", b.Lookup(b.Matrix("W", kV, kH), token));
  return b.Build();
}
CellDefinition Pair() {  // h = tanh(W left + U right)
  CellBuilder b("pair");
  const ValueId left = b.Read("left", "h", kH), right = b.Read("right", "h", kH);
  const ValueId w = b.Matrix("W", kH, kH), u = b.Matrix("U", kH, kH);
  b.Leave("h", b.Tanh(b.Add(b.MatMul(left, w), b.MatMul(right, u))));
  return b.Build();
}
CellDefinition Total() {  // h = tanh(W sum of all)
  CellBuilder b("total");
  const ValueId all = b.Read("all", "h", kH, ElementType::kFp32, Arity::kSum);
  b.Leave("h", b.Tanh(b.MatMul(all, b.Matrix("W", kH, kH))));
  return b.Build();
}
CellDefinition Step() {  // h = tanh(W x + U before), x from the request
  CellBuilder b("step");
  const ValueId x = b.Read("x", "x", kD), before = b.Carry("before", "h", kH);
  const ValueId w = b.Matrix("W", kH, kD), u = b.Matrix("U", kH, kH);
  b.Leave("h", b.Tanh(b.Add(b.MatMul(x, w), b.MatMul(before, u))));
  return b.Build();
}
CellDefinition Out() {  // y = W h
  CellBuilder b("out");
  const ValueId h = b.Read("h", "h", kH);
  b.Leave("y", b.MatMul(h, b.Matrix("W", 2, kH)));
  return b.Build();
}

struct Request {
  std::vector<int32_t> types, edges;
  std::vector<float> leaf, step;
  std::vector<int32_t> word;

  template <typename T>
  static InputTensor Tensor(std::string_view name, const std::vector<T>& values, int64_t width) {
    TensorDims dims = {static_cast<int64_t>(values.size()) / std::max<int64_t>(width, 1)};
    if (width > 0) dims.push_back(width);
    return {name,
            std::is_same_v<T, float> ? WireType::kFp32 : WireType::kInt32,
            std::move(dims),
            {reinterpret_cast<const std::byte*>(values.data()), values.size() * 4}};
  }
  RequestInput Input(std::vector<std::string_view> outputs = {}) const {
    RequestInput input;
    input.tensors.push_back(Tensor("NODE_TYPES", types, 0));
    if (!edges.empty()) input.tensors.push_back(Tensor("EDGES", edges, 3));
    if (!leaf.empty()) input.tensors.push_back(Tensor("leaf_0.x", leaf, kD));
    if (!word.empty()) input.tensors.push_back(Tensor("word_1.token", word, 0));
    if (!step.empty()) input.tensors.push_back(Tensor("step_4.x", step, kD));
    input.outputs = std::move(outputs);
    return input;
  }
};

class DagUnfolderTest : public ::testing::Test {
 protected:
  DagUnfolderTest() {
    testing::ModelBuilder builder("dag");
    for (CellDefinition cell : {Leaf(), Word(), Pair(), Total(), Step(), Out()}) {
      spec_.types.push_back(builder.Add(std::move(cell), spec_.types.size() + 1));
    }
    model_ = builder.Build();
    spec_.inputs = {{CellTypeId(kLeaf), InputId(0), {}},
                    {CellTypeId(kWord), InputId(0), {kV, {}}},
                    {CellTypeId(kStep), InputId(0), {}}};
    spec_.output = "y";
    spec_.output_type = CellTypeId(kOut);
    spec_.max_nodes = 200;
    Make();
  }
  void Make() {
    auto made = DagUnfolder::Create(spec_, *model_);
    ASSERT_TRUE(made.ok()) << made.status();
    unfolder_ = *std::move(made);
  }

  Request Random(std::mt19937_64& random, int most) const {
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    Request r;
    const int n = pick(1, most);
    for (int node = 0; node < n; ++node) {
      // Leaves in runs now and then; the last node is an output.
      const int type = node == n - 1                 ? kOut
                       : node > 0 && pick(0, 2) == 0 ? r.types.back()
                                                     : pick(kLeaf, kOut);
      r.types.push_back(type);
      const auto edge = [&](int input) {
        const int from = pick(0, 9) == 0 ? pick(0, node) : std::max(0, node - pick(1, 6));
        if (from < node && r.types[static_cast<size_t>(from)] != kOut) {
          r.edges.insert(r.edges.end(), {from, node, input});
        }
      };
      const auto floats = [&](std::vector<float>& to) {
        for (int i = 0; i < kD; ++i) to.push_back(static_cast<float>(pick(-100, 100)) / 64);
      };
      if (type == kLeaf) floats(r.leaf);
      if (type == kWord) r.word.push_back(pick(0, kV - 1));
      if (type == kStep) floats(r.step), edge(1);
      if (type == kOut) edge(0);
      if (type == kPair) edge(0), edge(1);
      for (int i = type == kTotal ? pick(0, 5) : 0; i > 0; --i) edge(0);
    }
    if (r.edges.empty()) return r;
    // In any order: what counts is the order within a sum.
    std::vector<std::array<int32_t, 3>> rows(r.edges.size() / 3);
    std::memcpy(rows.data(), r.edges.data(), r.edges.size() * 4);
    std::shuffle(rows.begin(), rows.end(), random);
    std::memcpy(r.edges.data(), rows.data(), r.edges.size() * 4);
    return r;
  }

  using Vector = std::vector<double>;
  Vector Product(Kind type, size_t parameter, const Vector& x, size_t rows) const {
    const Weight& w = model_->type(CellTypeId(type)).weights[parameter];
    Vector y(rows);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < x.size(); ++k) y[i] += double{w.data[i * x.size() + k]} * x[k];
    }
    return y;
  }
  // What every node leaves, by the equations.
  std::vector<Vector> Reference(const Request& r) const {
    std::vector<Vector> left;
    size_t leaves = 0, words = 0, steps = 0;
    const auto next = [](const std::vector<float>& rows, size_t& at) {
      const auto* row = rows.data() + kD * at++;
      return Vector(row, row + kD);
    };
    for (int32_t node = 0; node < static_cast<int32_t>(r.types.size()); ++node) {
      std::array<Vector, 2> in = {Vector(kH), Vector(kH)};
      for (size_t e = 0; e < r.edges.size(); e += 3) {
        if (r.edges[e + 1] != node) continue;
        const Vector& from = left[static_cast<size_t>(r.edges[e])];
        for (size_t u = 0; u < from.size(); ++u)
          in[static_cast<size_t>(r.edges[e + 2])][u] += from[u];
      }
      Vector h;
      Vector more(kH);
      const auto kind = static_cast<Kind>(r.types[static_cast<size_t>(node)]);
      if (kind == kLeaf) h = Product(kLeaf, 0, next(r.leaf, leaves), kH);
      if (kind == kPair) h = Product(kPair, 0, in[0], kH), more = Product(kPair, 1, in[1], kH);
      if (kind == kTotal) h = Product(kTotal, 0, in[0], kH);
      if (kind == kStep) {
        h = Product(kStep, 0, next(r.step, steps), kH), more = Product(kStep, 1, in[1], kH);
      }
      for (size_t u = 0; u < h.size(); ++u) h[u] = std::tanh(h[u] + more[u]);
      if (kind == kOut) h = Product(kOut, 0, in[0], 2);
      if (kind == kWord) {
        const float* row =
            model_->type(CellTypeId(kWord)).weights[0].data.get() + kH * r.word[words++];
        h.assign(row, row + kH);
      }
      left.push_back(h);
    }
    return left;
  }

  CellGraph Graph(const Request& request, std::vector<std::string_view> outputs = {}) const {
    CellGraph graph;
    EXPECT_EQ(unfolder_->Unfold(request.Input(std::move(outputs)), graph), absl::OkStatus());
    EXPECT_EQ(graph.Seal(*model_, 2), absl::OkStatus());
    return graph;
  }
  std::string Error(const RequestInput& input) const {
    CellGraph graph;
    const absl::Status status = unfolder_->Unfold(input, graph);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
  std::string Error(const Request& request) const { return Error(request.Input()); }
  // Five nodes: leaf, leaf, pair, word, out.
  static Request Small(std::vector<int32_t> edges) {
    return {{kLeaf, kLeaf, kPair, kWord, kOut}, std::move(edges), std::vector<float>(6), {}, {3}};
  }

  DagSpec spec_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<DagUnfolder> unfolder_;
};

TEST_F(DagUnfolderTest, RandomGraphsGetWhatTheEquationsSay) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const Request request = Random(random, 60);
    const std::vector<Vector> expected = Reference(request);
    const auto answers = InterpretGraph(*model_, Graph(request, {"NODE_OUTPUTS", "OUTPUT"}));
    Vector every;
    for (size_t n = 0; n < expected.size(); ++n) {
      if (request.types[n] == kOut)
        every.insert(every.end(), expected[n].begin(), expected[n].end());
    }
    EXPECT_THAT(answers[0], Pointwise(DoubleNear(1e-9), every));
    EXPECT_THAT(answers[1], Pointwise(DoubleNear(1e-9), expected.back()));
  }
}

TEST_F(DagUnfolderTest, TheDescriptionSaysWhichEdgesATypeTakes) {
  const RequestDescription d = unfolder_->Describe();
  EXPECT_EQ(d.max_nodes, 200);
  EXPECT_EQ(d.output_type, kOut);
  ASSERT_EQ(d.node_types.size(), 6u);
  const NodeTypeDescription& leaf = d.node_types[kLeaf];
  ASSERT_EQ(leaf.inputs.size(), 1u);
  EXPECT_EQ(leaf.inputs[0].name, unfolder_->MakeSignature().inputs[2].name)
      << "what it brings is a tensor of that name";
  EXPECT_TRUE(leaf.inputs[0].brought);
  const NodeTypeDescription& total = d.node_types[kTotal];
  ASSERT_EQ(total.inputs.size(), 1u);
  EXPECT_TRUE(total.inputs[0].sums);
  EXPECT_THAT(total.inputs[0].reads, ElementsAre(kLeaf, kWord, kPair, kTotal, kStep))
      << "all that leave an h; the output leaves a y";
  EXPECT_FALSE(d.node_types[kPair].inputs[1].sums);
  ASSERT_EQ(d.inputs.size(), 1u) << "only the words are ids";
  EXPECT_EQ(d.inputs[0].num_ids, kV);
}

TEST_F(DagUnfolderTest, WithoutAnOutputTypeEveryNodeIsOne) {
  spec_.types.pop_back();
  spec_.output = "h";
  spec_.output_type = CellTypeId();
  Make();
  const Request request{{kLeaf, kWord, kPair}, {1, 2, 0, 0, 2, 1}, {1, 2, 3}, {}, {4}};
  const std::vector<Vector> expected = Reference(request);
  const auto answers = InterpretGraph(*model_, Graph(request, {"OUTPUT", "NODE_OUTPUTS"}));
  EXPECT_THAT(answers[0], Pointwise(DoubleNear(1e-9), expected[2]));
  Vector every;
  for (const Vector& v : expected) every.insert(every.end(), v.begin(), v.end());
  EXPECT_THAT(answers[1], Pointwise(DoubleNear(1e-9), every));
}

TEST_F(DagUnfolderTest, NeighboursOfOneTypeThatReadNoNodeAreOneSet) {
  const Request request{{kLeaf, kLeaf, kLeaf, kWord, kLeaf, kTotal, kTotal, kStep, kStep, kOut},
                        {0, 5, 0, 4, 5, 0, 7, 9, 0},
                        std::vector<float>(12),
                        std::vector<float>(6),
                        {1}};
  const CellGraph graph = Graph(request);
  std::vector<int32_t> lengths;
  for (const Subgraph& s : graph.subgraphs()) {
    if (s.type.valid()) lengths.push_back(s.length);
  }
  // Sums and chains stand alone.
  EXPECT_THAT(lengths, ElementsAre(3, 1, 1, 1, 1, 1, 1, 1));
}

TEST_F(DagUnfolderTest, DeepAndWideGraphsTakeNoRecursion) {
  spec_.max_nodes = 100'002;
  Make();
  Request deep{{kLeaf}, {}, {1, 2, 3}, {}, {}};
  for (int32_t n = 1; n <= 100'000; ++n) {
    deep.types.push_back(kPair);
    deep.edges.insert(deep.edges.end(), {n - 1, n, n % 2});
  }
  deep.types.push_back(kOut);
  deep.edges.insert(deep.edges.end(), {100'000, 100'001, 0});
  const CellGraph graph = Graph(deep);
  EXPECT_EQ(graph.num_nodes(), 100'002);
  EXPECT_EQ(graph.subgraphs().back().depth, 100'001);
}

TEST_F(DagUnfolderTest, EdgesThatCannotBeAreNamed) {
  EXPECT_THAT(Error(Small({0, 2, 0, 2, 1, 0})),
              HasSubstr("input EDGES: edge 1 leads from node 2 to node 1; edges lead from lower to "
                        "higher numbers"));
  EXPECT_THAT(Error(Small({2, 2, 0})), HasSubstr("edge 0 leads from node 2 to node 2"));
  EXPECT_THAT(Error(Small({0, 5, 0})), HasSubstr("leads from node 0 to node 5, there are 5 nodes"));
  EXPECT_THAT(Error(Small({-1, 2, 0})), HasSubstr("leads from node -1 to node 2"));
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Error(Small({most, most, most})), HasSubstr("leads from node 2147483647"));
  EXPECT_THAT(Error(Small({0, 2, 2})),
              HasSubstr("leads to input 2 of node 2, its type \"pair_2\" has 2"));
  EXPECT_THAT(Error(Small({0, 2, -1})), HasSubstr("leads to input -1"));
  EXPECT_THAT(Error(Small({0, 1, 0})),
              HasSubstr("leads to input 0 of node 1; the request brings leaf_0.x"));
  EXPECT_THAT(Error(Small({0, 2, 1, 0, 2, 0, 1, 2, 1})),
              HasSubstr("edge 2 is number 2 into pair_2.right of node 2, which takes 1"));
  Request outs = Small({0, 4, 0});
  outs.types.push_back(kOut);
  outs.edges.insert(outs.edges.end(), {4, 5, 0});
  EXPECT_THAT(Error(outs), HasSubstr("edge 1 leads from node 4 of type \"out_5\" to out_5.h of "
                                     "node 5, which reads other columns: of {h FP32[4]}, and "
                                     "\"out_5\" leaves {y FP32[2]}"));
}

TEST_F(DagUnfolderTest, NodesAndRowsThatCannotBeAreNamed) {
  Request request = Small({});
  request.types[3] = 6;
  EXPECT_THAT(Error(request), HasSubstr("NODE_TYPES: node 3 is of type 6, the model has 0 to 5"));
  request.types[3] = -1;
  EXPECT_THAT(Error(request), HasSubstr("node 3 is of type -1"));
  request = Small({});
  request.leaf.resize(3);
  EXPECT_THAT(Error(request), HasSubstr("input leaf_0.x: 1 rows, 2 nodes are of type \"leaf_0\""));
  request.leaf.clear();
  EXPECT_THAT(Error(request), HasSubstr("input leaf_0.x: missing; 2 nodes"));
  request = Small({});
  request.word = {kV};
  EXPECT_THAT(Error(request), HasSubstr("word_1.token: value 0 is 9, the vocabulary ends at 8"));
  request = Small({});
  request.step = {1, 2, 3};
  EXPECT_THAT(Error(request), HasSubstr("input step_4.x: 1 rows, 0 nodes are of type"));
  request = Small({});
  request.types.back() = kTotal;
  EXPECT_THAT(Error(request), HasSubstr("no node is of type 5 (\"out_5\")"));
  request.types.assign(201, kTotal);
  EXPECT_THAT(Error(request), HasSubstr("NODE_TYPES: 201 nodes, the model takes 200"));
  EXPECT_THAT(Error(RequestInput{}), HasSubstr("NODE_TYPES: missing"));
}

// What a request has none of: left out, or sent without rows.
TEST_F(DagUnfolderTest, TensorsWithoutRowsAreAsThoseLeftOut) {
  const Request request = Small({});
  const auto with = [&](InputTensor empty) {
    RequestInput input = request.Input();
    input.tensors.push_back(std::move(empty));
    return input;
  };
  EXPECT_EQ(unfolder_->MakeSignature().inputs.size(), 5u);
  EXPECT_THAT(unfolder_->MakeSignature().inputs[2].dims, ElementsAre(-1, kD));
  EXPECT_THAT(unfolder_->MakeSignature().inputs[3].dims, ElementsAre(-1)) << "numbers";
  for (const TensorSpec& t : unfolder_->MakeSignature().inputs) {
    EXPECT_EQ(t.may_be_empty, t.optional) << t.name;
  }
  for (const InputTensor& empty : {InputTensor{"EDGES", WireType::kInt32, {0, 3}, {}},
                                   InputTensor{"step_4.x", WireType::kFp32, {0, kD}, {}}}) {
    CellGraph graph;
    EXPECT_EQ(unfolder_->Unfold(with(empty), graph), absl::OkStatus());
    ASSERT_EQ(graph.Seal(*model_, 2), absl::OkStatus());
    EXPECT_EQ(InterpretGraph(*model_, graph), InterpretGraph(*model_, Graph(request)));
  }
  RequestInput short_of_rows = request.Input();
  short_of_rows.tensors[1].dims[0] = 0;
  short_of_rows.tensors[1].bytes = {};
  EXPECT_THAT(Error(short_of_rows),
              HasSubstr("input leaf_0.x: 0 rows; 2 nodes are of type \"leaf_0\""));
}

TEST_F(DagUnfolderTest, ARequestIsRefusedForItsSizeWhenItsGraphIsTooLarge) {
  std::mt19937_64 random(16);
  for (int again = 0; again < 20; ++again) {
    const Request request = Random(random, 40);
    ExpectTakenByItsSizeAlone([&](int64_t most, CellGraph& graph) {
      spec_.max_nodes = most;
      Make();
      return unfolder_->Unfold(request.Input(), graph);
    });
  }
}

TEST_F(DagUnfolderTest, TooManyEdgesNameTheBound) {
  Request request{{kLeaf, kTotal, kOut}, {}, {1, 2, 3}, {}, {}};
  for (int i = 0; i <= kMaxSumLinks; ++i) request.edges.insert(request.edges.end(), {0, 1, 0});
  EXPECT_THAT(Error(request), HasSubstr("4097 edges, the model takes 3200"));
  spec_.max_nodes = 1000;
  Make();
  EXPECT_THAT(Error(request), HasSubstr("is number 4097 into total_3.all of node 1, which takes "
                                        "4096"));
}

TEST_F(DagUnfolderTest, NodesAndEdgesMayBeAsManyAsTheModelTakes) {
  spec_.max_nodes = 3;
  Make();
  Request request{{kLeaf, kTotal, kOut}, {1, 2, 0}, {1, 2, 3}, {}, {}};
  while (request.edges.size() < 3 * 3 * kMaxEdgesPerNode) {
    request.edges.insert(request.edges.end(), {0, 1, 0});
  }
  EXPECT_EQ(Graph(request).num_nodes(), 3);
  request.edges.insert(request.edges.end(), {0, 1, 0});
  EXPECT_THAT(Error(request), HasSubstr("49 edges, the model takes 48"));
  request.types.push_back(kOut);
  EXPECT_THAT(Error(request), HasSubstr("4 nodes, the model takes 3"));
}

TEST_F(DagUnfolderTest, NumbersBeyondTheVocabularyAreServedWhereTheModelSaysSo) {
  Request request = Small({3, 4, 0});
  const auto answer = [&] { return InterpretGraph(*model_, Graph(request)); };
  const auto third = answer();
  request.word = {kV};
  spec_.inputs[1].known.unknown = 3;
  Make();
  EXPECT_EQ(answer(), third);
  spec_.inputs[1].known = {};
  Make();
  EXPECT_NE(answer(), third) << "no vocabulary: any number, which the cell clamps";
}

// A number for each node of its type, or of all: INT32 as cells leave it.
TEST_F(DagUnfolderTest, OutputsMayBeNumbers) {
  testing::ModelBuilder builder("numbers");
  CellBuilder number("number");
  const ValueId best = number.Op1(OpKind::kArgMax, number.Read("x", "x", kD));
  number.Leave("best", best);
  number.Leave("h", best);
  spec_.types = {builder.Add(Leaf(), 1), builder.Add(number.Build(), 2)};
  model_ = builder.Build();
  spec_.inputs = {{CellTypeId(0), InputId(0), {}}, {CellTypeId(1), InputId(0), {}}};
  spec_.output = "best";
  spec_.output_type = CellTypeId(1);
  Make();
  EXPECT_EQ(unfolder_->MakeSignature().outputs[0].type, WireType::kInt32);
  const std::vector<int32_t> types = {1, 0, 1, 0};  // the last output is not the last node
  const std::vector<float> leaf(2 * kD), rows = {1, 2, 3, 3, 2, 1};
  RequestInput input;
  input.tensors = {Request::Tensor("NODE_TYPES", types, 0), Request::Tensor("leaf_0.x", leaf, kD),
                   Request::Tensor("number_1.x", rows, kD)};
  input.outputs = {"NODE_OUTPUTS", "OUTPUT"};
  CellGraph graph;
  ASSERT_EQ(unfolder_->Unfold(input, graph), absl::OkStatus());
  ASSERT_EQ(graph.Seal(*model_, 2), absl::OkStatus());
  const auto answers = InterpretGraph(*model_, graph);
  EXPECT_THAT(answers[0], ElementsAre(2, 0));
  EXPECT_THAT(answers[1], ElementsAre(0));
  spec_.output = "h";
  spec_.output_type = {};
  EXPECT_THAT(
      std::string(DagUnfolder::Create(spec_, *model_).status().message()),
      HasSubstr("leaves \"h\" as INT32 of 1, those before it FP32 of 4; name an output_type"));
}

TEST_F(DagUnfolderTest, NodesAreOfTheirTypesPhase) {
  spec_.phases = {0, 0, 0, 0, 0, 1};
  Make();
  EXPECT_EQ(unfolder_->phases(), 2);
  std::mt19937_64 random(3);
  CellGraph graph;
  const Request request = Random(random, 40);
  ASSERT_TRUE(unfolder_->Unfold(request.Input(), graph).ok());
  ASSERT_TRUE(graph.Seal(*model_, 2).ok());
  for (const Subgraph& s : graph.subgraphs()) {
    EXPECT_EQ(s.phase, s.type == CellTypeId(kOut) ? 1 : 0);
  }
}

TEST_F(DagUnfolderTest, CellsThatDoNotFitAreNamed) {
  const auto error = [&](auto change) {
    DagSpec spec = spec_;
    change(spec);
    const auto made = DagUnfolder::Create(spec, *model_);
    EXPECT_FALSE(made.ok());
    return std::string(made.status().message());
  };
  EXPECT_THAT(error([](DagSpec& s) { s.types.push_back(CellTypeId(17)); }),
              HasSubstr("cell type 17 of 6"));
  EXPECT_THAT(error([](DagSpec& s) { s.output_type = CellTypeId(); }),
              HasSubstr("\"leaf_0\" leaves no FP32 or INT32 column \"y\""));
  EXPECT_THAT(error([](DagSpec& s) {
                s.inputs.push_back({CellTypeId(kTotal), InputId(0), {}});
              }),
              HasSubstr("the request cannot bring total_3.all, which sums nodes"));
  EXPECT_THAT(error([](DagSpec& s) {
                s.inputs.push_back({CellTypeId(kStep), InputId(1), {}});
              }),
              HasSubstr("the request cannot bring step_4.before, which is carried"));
  EXPECT_THAT(error([](DagSpec& s) {
                s.inputs.push_back({CellTypeId(kLeaf), InputId(1), {}});
              }),
              HasSubstr("input 1 of cell type 0, which is not there"));
  EXPECT_THAT(error([](DagSpec& s) { s.phases = {0, 1}; }), HasSubstr("2 phases for 6 types"));
  EXPECT_THAT(error([](DagSpec& s) { s.phases = {0, 0, 0, 0, 0, kMostPhases}; }),
              HasSubstr("type \"out_5\" is of phase 16, allowed are 0 to 15"));
  EXPECT_THAT(error([](DagSpec& s) { s.phases = {0, 0, -1, 0, 0, 0}; }),
              HasSubstr("type \"pair_2\" is of phase -1"));
  EXPECT_THAT(error([](DagSpec& s) { s.types.pop_back(); }),
              HasSubstr("output_type 5 is none of the types"));
  EXPECT_THAT(error([](DagSpec& s) { s.types.clear(); }),
              HasSubstr("0 types, allowed are 1 to 256"));
  EXPECT_THAT(error([](DagSpec& s) { s.types.resize(257); }), HasSubstr("257 types"));
  EXPECT_THAT(error([](DagSpec& s) { s.inputs[1].known.unknown = kV; }),
              HasSubstr("word_1.token: unknown numbers as 9, the vocabulary ends at 8"));
  EXPECT_THAT(error([](DagSpec& s) { s.max_nodes = 0; }), HasSubstr("at most 0 nodes"));
  constexpr int64_t kMostNodes = kMaxTensorRows / kMaxEdgesPerNode;
  EXPECT_THAT(error([](DagSpec& s) { s.max_nodes = kMostNodes + 1; }),
              HasSubstr("at most 16777217 nodes, allowed are 1 to 16777216"));
  spec_.max_nodes = kMostNodes;
  spec_.phases = {kMostPhases - 1, 0, 0, 0, 0, 0};
  spec_.types.resize(256, CellTypeId(kOut));
  EXPECT_THAT(error([](DagSpec&) {}), HasSubstr("6 phases for 256 types")) << "so many may be";
  spec_.types.resize(6);
  Make();
  EXPECT_EQ(unfolder_->phases(), kMostPhases);
}

}  // namespace
}  // namespace cellbatch

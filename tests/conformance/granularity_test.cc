// The same requests cell by cell and operator by operator: equal answers by the interpreter, and on CPU devices through
// the scheduler within the bound of design.md (Numbers); and with products hoisted out of chains: the same bits. Random cells in random graphs: chains, sets, sums, single
// nodes, links backwards and to nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "cells/arity_split.h"
#include "cells/deferred_model.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/exploded_model.h"
#include "cells/hoisted_model.h"
#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/recurrent_columns.h"
#include "cells/unfold/unfolder.h"
#include "tests/golden/served.h"
#include "tests/testing/builders.h"
#include "tests/testing/headed_cell.h"

namespace cellbatch {
namespace {

using golden::Served;
using testing::ModelBuilder;

constexpr char kSeed[] = "seed";

// A random graph of the four types below, from parameter "seed" alone.
class RandomUnfolder : public Unfolder {
 public:
  struct Types {
    CellTypeId chain, sum, set, words;
    TableId x, y;  // what chains and sums read of the request
    int32_t x_width = 0, y_width = 0, h_width = 0;
    bool stop = false;  // the chain of words stops at word 1
    bool cap = false;   // or says that it never does
    CellTypeId labels;  // reads what chains leave beside their state; invalid: they leave nothing
    std::vector<Column> more;  // of a chain, returned too
  };
  explicit RandomUnfolder(const Types& types) : types_(types) {}

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    std::mt19937_64 random(static_cast<uint64_t>(*input.FindParameter(kSeed)));
    const auto below = [&random](int32_t n) {
      return static_cast<int32_t>(random() % static_cast<uint64_t>(n));
    };
    const int32_t rows = 2 + below(5);
    const SubgraphId x =
        graph.AddInput(types_.x, rows, Rows(rows, types_.x_width, random(), graph));
    const SubgraphId y =
        graph.AddInput(types_.y, rows, Rows(rows, types_.y_width, random(), graph));
    std::vector<std::pair<SubgraphId, int32_t>> chains;
    for (int32_t i = 1 + below(3); i > 0; --i) {
      const bool backwards = below(2) == 0;
      std::vector<Link> links = {{x, InputId(0), backwards ? rows - 1 : 0, backwards ? -1 : 1}};
      if (!chains.empty() && below(2) == 0) {  // goes on from where another ended
        links.push_back({chains.back().first, InputId(1), kLastNode, 0});
      }
      chains.emplace_back(graph.Add(types_.chain, rows, links), rows);
      ReturnAll(chains.back().first, rows, types_.h_width, backwards, graph);
      if (types_.labels.valid()) ReturnMore(chains.back().first, rows, random(), graph);
    }
    const auto [top, length] = chains.back();
    const Link over = {top, InputId(0), length - 1, -1};
    ReturnAll(graph.Add(types_.set, length, {&over, 1}), length, 3, false, graph);
    for (int32_t i = below(4); i > 0; --i) AddSum(chains, y, rows, random(), graph);
    if (types_.stop || types_.cap) AddWords(top, graph);
    return absl::OkStatus();
  }

 private:
  static const std::byte* Rows(int32_t rows, int32_t width, uint64_t seed, CellGraph& graph) {
    const std::vector<float> values = testing::RandomFloats(int64_t{rows} * width, seed);
    std::byte* const at = graph.Keep(static_cast<int64_t>(values.size() * 4));
    std::memcpy(at, values.data(), values.size() * 4);
    return at;
  }

  static void ReturnAll(SubgraphId from, int32_t nodes, int32_t width, bool backwards,
                        CellGraph& graph) {
    const int64_t row = int64_t{width} * 4;
    const int32_t tensor = graph.AddTensor("t", WireType::kFp32, {nodes, width});
    graph.Return(from, ColumnId(0), {0, nodes},
                 {tensor, backwards ? row * (nodes - 1) : 0, backwards ? -row : row});
  }

  // Some of the other columns, of some of the nodes; and labels, of all of them or of the last.
  void ReturnMore(SubgraphId chain, int32_t rows, uint64_t seed, CellGraph& graph) const {
    std::mt19937_64 random(seed);
    for (size_t c = 0; c < types_.more.size(); ++c) {
      if (random() % 3 == 0) continue;
      const auto first = static_cast<int32_t>(random() % static_cast<uint64_t>(rows));
      const auto count = 1 + static_cast<int32_t>(random() % static_cast<uint64_t>(rows - first));
      const bool words = types_.more[c].type == ElementType::kInt32;
      const int32_t tensor = graph.AddTensor("more", words ? WireType::kInt32 : WireType::kFp32,
                                             {count, types_.more[c].width});
      graph.Return(chain, ColumnId(static_cast<int64_t>(c) + 1), {first, count},
                   {tensor, 0, int64_t{types_.more[c].width} * 4});
    }
    const bool all = random() % 2 == 0;
    const Link link = {chain, InputId(0), all ? rows - 1 : kLastNode, all ? -1 : 0};
    const int32_t length = all ? rows : 1;
    ReturnAll(graph.Add(types_.labels, length, {&link, 1}), length, 2, false, graph);
  }

  void AddSum(const std::vector<std::pair<SubgraphId, int32_t>>& chains, SubgraphId y, int32_t rows,
              uint64_t seed, CellGraph& graph) const {
    std::mt19937_64 random(seed);
    std::vector<Link> links;
    for (uint64_t n = random() % 5; n > 0; --n) {
      const auto& [chain, length] = chains[random() % chains.size()];
      links.push_back(
          {chain, InputId(1), static_cast<int32_t>(random() % static_cast<uint64_t>(length)), 0});
    }
    if (random() % 3 == 0) links.push_back({kZeroSource, InputId(1), 0, 0});
    if (random() % 3 != 0) links.push_back({y, InputId(0), rows - 1, 0});
    ReturnAll(graph.Add(types_.sum, 1, links), 1, types_.h_width, false, graph);
  }

  void AddWords(SubgraphId top, CellGraph& graph) const {
    const Link link = {top, InputId(0), kLastNode, 0};
    const SubgraphId words =
        graph.Add(types_.words, 4, {&link, 1}, Stop{ColumnId(0), types_.stop ? 1 : -1});
    graph.ReturnStop(words, {.words = graph.AddTensor("words", WireType::kInt32, {4}),
                             .length = graph.AddTensor("length", WireType::kInt32, {1}),
                             .stopped = graph.AddTensor("stopped", WireType::kInt32, {1})});
  }

  Types types_;
};

// word' = argmax of W h + U embedded word: a chain that leaves words.
CellDefinition WordsCell(int32_t h) {
  testing::CellBuilder b("words");
  const ValueId x = b.Read("x", "h", h);
  const ValueId before = b.Carry("before", "word", 1, ElementType::kInt32);
  const ValueId embedded = b.Lookup(b.Matrix("E", 7, 5), before);
  const ValueId scores =
      b.Add(b.MatMul(x, b.Matrix("W", 7, h)), b.MatMul(embedded, b.Matrix("U", 7, 5)));
  b.Leave("word", b.Op1(OpKind::kArgMax, scores));
  return b.Build();
}

// Chains of `chain`, which leaves "h" first. With `headed`, labels over its "y" and "h".
std::shared_ptr<Model> ModelOf(const CellDefinition& chain, uint64_t seed, bool stop, bool cap,
                               bool headed = false) {
  const int32_t h = chain.columns()[0].width, y = 1 + static_cast<int32_t>(seed % 9);
  ModelBuilder builder;
  RandomUnfolder::Types types;
  types.stop = stop;
  types.cap = cap;
  types.x_width = chain.inputs()[0].reads[0].width;
  types.y_width = y;
  types.h_width = h;
  types.chain = builder.Add(chain, seed);
  types.sum = builder.Add(testing::ChildSumCell(y, h), seed + 1);
  builder.Connect(types.sum, "children", types.chain);
  types.set = builder.Add(testing::LinearCell(h, 3, "h"), seed + 2);
  builder.Connect(types.set, "x", types.chain);
  types.words = builder.Add(WordsCell(h), seed + 3);
  builder.Connect(types.words, "x", types.chain);
  if (headed) {
    const absl::Span<const Column> columns = chain.columns();
    types.more.assign(columns.begin() + 1, columns.end());
    const auto y = std::find_if(columns.begin(), columns.end(),
                                [](const Column& column) { return column.name == "y"; });
    testing::CellBuilder b("labels");
    const ValueId from_y = b.MatMul(b.Read("x", "y", y->width), b.Matrix("Y", 2, y->width));
    const ValueId from_h = b.MatMul(b.Read("x", "h", h), b.Matrix("H", 2, h));
    b.Leave("scores", b.Add(from_y, from_h));
    types.labels = builder.Add(b.Build(), seed + 4);
    builder.Connect(types.labels, "x", types.chain);
  }
  std::shared_ptr<Model> model = builder.Build();
  types.x = model->type(types.chain).in[0];
  types.y = model->type(types.sum).in[0];
  model->unfolder = std::make_shared<RandomUnfolder>(types);
  return model;
}

std::shared_ptr<Model> RandomModel(uint64_t seed, bool stop = false, bool cap = false) {
  return ModelOf(testing::RandomCell(seed), seed, stop, cap);
}

CellGraph Unfolded(const Model& model, int64_t seed) {
  RequestInput input;
  input.parameters = {{kSeed, seed}};
  CellGraph graph;
  absl::Status s = model.unfolder->Unfold(input, graph);
  EXPECT_TRUE(s.ok()) << s;
  s = graph.Seal(model, 3);
  EXPECT_TRUE(s.ok()) << s;
  return graph;
}

void ExpectClose(const std::vector<double>& expected, const std::vector<double>& got,
                 double bound) {
  ASSERT_EQ(expected.size(), got.size());
  double most = 1.0, worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(expected[i]));
    worst = std::max(worst, std::abs(expected[i] - got[i]));
  }
  EXPECT_LE(worst, bound * most);
}

TEST(GranularityTest, OperatorsAnswerWhatCellsAnswer) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto cells = RandomModel(seed, false, seed % 2 == 0);
    const auto operators = ExplodeModel(cells);
    ASSERT_TRUE(operators->Validate().ok()) << operators->Validate();
    for (int64_t request = 1; request <= 5; ++request) {
      const CellGraph by_cell = Unfolded(*cells, request);
      const CellGraph by_operator = Unfolded(*operators, request);
      EXPECT_GT(by_operator.num_nodes(), by_cell.num_nodes());
      const auto expected = InterpretGraph(*cells, by_cell);
      const auto got = InterpretGraph(*operators, by_operator);
      ASSERT_EQ(by_cell.tensors().size(), by_operator.tensors().size());
      for (size_t t = 0; t < expected.size(); ++t) {
        EXPECT_EQ(by_cell.tensors()[t].dims, by_operator.tensors()[t].dims);
        const std::string& name = by_cell.tensors()[t].name;
        if (name == "length" || name == "stopped") continue;  // CloseAnswer's, below
        ExpectClose(expected[t], got[t], 1e-6);
      }
    }
  }
}

std::vector<double> Doubles(const ReturnedTensor& t) {
  std::vector<double> values(t.bytes.size() / 4);
  for (size_t i = 0; i < values.size(); ++i) {
    float f;
    int32_t n;
    std::memcpy(&f, t.bytes.data() + 4 * i, 4);
    std::memcpy(&n, t.bytes.data() + 4 * i, 4);
    values[i] = t.type == WireType::kInt32 ? n : static_cast<double>(f);
  }
  return values;
}

// Everything a model answers to requests 1 .. n, at once.
std::vector<std::vector<std::vector<double>>> Answers(Served& served,
                                                      const std::shared_ptr<const Model>& model,
                                                      int64_t n) {
  std::vector<CellGraph> graphs;
  for (int64_t request = 1; request <= n; ++request) graphs.push_back(Unfolded(*model, request));
  std::vector<std::vector<std::vector<double>>> answers;
  for (auto& request : served.Answer(model, std::move(graphs))) {
    EXPECT_TRUE(request->status.ok()) << request->status;
    request->graph.CloseAnswer();
    answers.emplace_back();
    for (const ReturnedTensor& t : request->graph.tensors()) answers.back().push_back(Doubles(t));
  }
  return answers;
}

TEST(GranularityTest, ServedRequestsAgreeAtEveryGranularity) {
  for (uint64_t seed = 301; seed <= 303; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto cells = RandomModel(seed, false, true);
    const auto operators = ExplodeModel(cells), split = SplitByArity(cells, 3);
    cells->id = ModelId(1), operators->id = ModelId(2), split->id = ModelId(3);
    auto served = Served::Start(2);
    ASSERT_TRUE(served.ok()) << served.status();
    for (const auto& model : {cells, operators, split}) ASSERT_TRUE((*served)->Add(model).ok());
    const auto by_cell = Answers(**served, cells, 30);
    const auto by_operator = Answers(**served, operators, 30);
    EXPECT_EQ(Answers(**served, split, 30), by_cell) << "the same cells: the same bits";
    ASSERT_EQ(by_cell.size(), by_operator.size());
    for (size_t r = 0; r < by_cell.size(); ++r) {
      ASSERT_EQ(by_cell[r].size(), by_operator[r].size());
      for (size_t t = 0; t < by_cell[r].size(); ++t) {
        ExpectClose(by_cell[r][t], by_operator[r][t], 1e-5);
      }
    }
  }
}

// Chains forwards and backwards, chains that go on from others' ends, sets and sums over them, a chain that may stop.
TEST(GranularityTest, HoistedChainsAnswerWithTheSameBits) {
  const HoistRule rule = {.least_multiply_adds = 0, .limits = kCpuLimits};
  int hoisted_models = 0, cut = 0;
  for (uint64_t seed = 401; seed <= 440 && hoisted_models < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto cells = RandomModel(seed, seed % 3 == 0, seed % 3 == 1);
    const std::shared_ptr<Model> hoisted = HoistModel(cells, rule);
    if (hoisted == nullptr) continue;
    ++hoisted_models;
    ASSERT_TRUE(hoisted->Validate().ok()) << hoisted->Validate();
    EXPECT_EQ(hoisted->types.size(), cells->types.size() + 1);
    for (int64_t request = 1; request <= 10; ++request) {
      const CellGraph plain = Unfolded(*cells, request), graph = Unfolded(*hoisted, request);
      EXPECT_EQ(InterpretGraph(*cells, plain), InterpretGraph(*hoisted, graph));
      const auto of = [](const CellGraph& g, const CellType& type) {
        return std::count_if(g.subgraphs().begin(), g.subgraphs().end(),
                             [&type](const Subgraph& s) { return s.type == type.id; });
      };
      cut += of(graph, hoisted->types.back()) > of(plain, cells->types.front()) ? 1 : 0;
    }
    cells->id = ModelId(1), hoisted->id = ModelId(2);
    auto served = Served::Start(2);
    ASSERT_TRUE(served.ok()) << served.status();
    for (const auto& model : {cells, hoisted}) ASSERT_TRUE((*served)->Add(model).ok());
    EXPECT_EQ(Answers(**served, hoisted, 30), Answers(**served, cells, 30));
  }
  EXPECT_GE(hoisted_models, 5);
  EXPECT_GT(cut, 0);
}

// The same, with columns that no step reads: returned of some nodes, read by labels together with the state, or by nobody.
TEST(GranularityTest, DeferredColumnsAnswerWithTheSameBits) {
  const DeferRule rule = {.least_operations = 0, .limits = kCpuLimits, .stops = true};
  int deferred_models = 0, hoisted_models = 0;
  int64_t left_out = 0;
  for (uint64_t seed = 501; seed <= 540 && deferred_models < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto cells = ModelOf(testing::WithHeads(testing::RandomCell(seed), seed), seed,
                               seed % 3 == 0, seed % 3 == 1, /*headed=*/true);
    const std::shared_ptr<Model> deferred = DeferModel(cells, rule);
    if (deferred == nullptr) continue;
    ++deferred_models;
    ASSERT_TRUE(deferred->Validate().ok()) << deferred->Validate();
    EXPECT_EQ(deferred->types.size(), cells->types.size() + 1);
    for (int64_t request = 1; request <= 10; ++request) {
      const CellGraph plain = Unfolded(*cells, request), graph = Unfolded(*deferred, request);
      EXPECT_EQ(InterpretGraph(*cells, plain), InterpretGraph(*deferred, graph));
      left_out += 2 * plain.num_nodes() - graph.num_nodes();
    }
    cells->id = ModelId(1), deferred->id = ModelId(2);
    auto served = Served::Start(2);
    ASSERT_TRUE(served.ok()) << served.status();
    ASSERT_TRUE((*served)->Add(cells).ok());
    LaneRules rules;
    rules.may_wait = TypesThatMayWait(*deferred);
    EXPECT_GE(rules.may_wait.size(), 3u) << "the deferred part, labels, the set";
    ASSERT_TRUE((*served)->scheduler().AddModel(deferred, std::move(rules)).ok());
    const auto expected = Answers(**served, cells, 30);
    EXPECT_EQ(Answers(**served, deferred, 30), expected);
    const auto hoisted = HoistModel(deferred, {.least_multiply_adds = 0, .limits = kCpuLimits});
    if (hoisted == nullptr) continue;
    ++hoisted_models;
    hoisted->id = ModelId(3);
    ASSERT_TRUE((*served)->Add(hoisted).ok());
    EXPECT_EQ(Answers(**served, hoisted, 30), expected) << "and with products of x hoisted";
  }
  EXPECT_GE(deferred_models, 5);
  EXPECT_GE(hoisted_models, 1);
  EXPECT_GT(left_out, 0) << "what nobody reads is not computed";
}

TEST(GranularityTest, AliasedWeightsAndEqualOperatorsAreOneType) {
  ModelBuilder builder;
  const CellTypeId one = builder.Add(testing::LinearCell(4, 4), 1);
  const CellTypeId two = builder.Add(testing::LinearCell(4, 4), 2);
  const CellTypeId three = builder.Add(testing::LinearCell(4, 4), 3);
  const std::shared_ptr<Model> model = builder.Build();
  model->types[static_cast<size_t>(two.value())].weights = model->type(one).weights;
  model->types[static_cast<size_t>(three.value())].priority = 5;
  model->unfolder = std::make_shared<RandomUnfolder>(RandomUnfolder::Types());
  const auto operators = ExplodeModel(model);
  // Product and bias of `one` (and `two`), of `three`; what answers with numbers.
  EXPECT_EQ(operators->types.size(), 5u);
  EXPECT_EQ(operators->types[2].priority, 5);
  for (const Weight& w : model->type(one).weights) {
    const auto holds = [&w](const CellType& type) { return type.weights[0].data == w.data; };
    const auto types = absl::MakeSpan(operators->types).first(4);
    EXPECT_EQ(std::count_if(types.begin(), types.end(), holds), 1) << "shared, not copied";
  }
}

TEST(GranularityTest, AChainThatStopsByWhatItComputesIsRefused) {
  const auto operators = ExplodeModel(RandomModel(1, true));
  RequestInput input;
  input.parameters = {{kSeed, 1}};
  CellGraph graph;
  EXPECT_EQ(
      operators->unfolder->Unfold(input, graph).ToString(),
      "INVALID_ARGUMENT: cell type \"words_3\": a chain that stops at word 1 cannot be scheduled "
      "operator by operator; say how long it is (parameter decode_steps)");
}

TEST(GranularityTest, TypesAreSplitByHowManyRowsTheySum) {
  const auto cells = RandomModel(7);
  const auto split = SplitByArity(cells, 3);
  ASSERT_TRUE(split->Validate().ok()) << split->Validate();
  EXPECT_EQ(split->types.size(), cells->types.size() + 3);
  int64_t sums = 0, others = 0;
  for (int64_t request = 1; request <= 30; ++request) {
    const CellGraph whole = Unfolded(*cells, request), graph = Unfolded(*split, request);
    for (size_t i = 0; i < graph.subgraphs().size(); ++i) {
      const Subgraph& s = graph.subgraphs()[i];
      if (s.type == whole.subgraphs()[i].type) {
        ++others;
        continue;
      }
      const CellType& type = split->type(s.type);
      int arity = 0;
      for (int32_t l = 0; l < s.num_links; ++l) {
        arity += graph.links()[static_cast<size_t>(s.first_link + l)].input == InputId(1);
      }
      EXPECT_EQ(type.name, "child_sum_1 of " + std::to_string(arity));
      EXPECT_LT(arity, 3);
      ++sums;
    }
  }
  EXPECT_GT(sums, 10);
  EXPECT_GT(others, 100);
}

}  // namespace
}  // namespace cellbatch

// Every shipped cell against its equations, written here in double straight from the papers and from nothing else: the
// compiled cell and the interpreter must both agree, for several sizes, and a node's bits must not depend on its batch.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "cells/definitions/shipped.h"
#include "server/cells/cell_codec.h"
#include "tests/testing/cell_trial.h"

namespace cellbatch::conformance {
namespace {

using testing::CellTrial;

using Vec = std::vector<double>;

// What an equation talks of, by name: "child0.h", "U", and the numbers of the model.
struct Names {
  std::map<std::string, Vec> values;
  Sizes sizes;

  const Vec& operator()(const std::string& name) const { return values.at(name); }
  size_t Size(const std::string& name) const { return static_cast<size_t>(sizes.at(name)); }
};

double Sigma(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// W x, W row after row.
Vec Times(const Vec& w, const Vec& x) {
  Vec y(w.size() / x.size());
  for (size_t n = 0; n < y.size(); ++n) {
    y[n] = std::inner_product(x.begin(), x.end(), w.begin() + static_cast<ptrdiff_t>(n * x.size()),
                              0.0);
  }
  return y;
}

Vec operator+(Vec a, const Vec& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Vec Tanh(Vec a) {
  for (double& v : a) v = std::tanh(v);
  return a;
}

Vec Join(Vec a, const Vec& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Part `i` of what is stacked, `n` each.
Vec Part(const Vec& stacked, size_t i, size_t n) {
  return Vec(stacked.begin() + static_cast<ptrdiff_t>(i * n),
             stacked.begin() + static_cast<ptrdiff_t>((i + 1) * n));
}

struct State {
  Vec h, c;
};

// From stacked gates before their functions: i, f, g, o.
State Lstm(const Vec& gates, const Vec& c) {
  const size_t n = c.size();
  State s = {Vec(n), Vec(n)};
  for (size_t u = 0; u < n; ++u) {
    s.c[u] = Sigma(gates[n + u]) * c[u] + Sigma(gates[u]) * std::tanh(gates[2 * n + u]);
    s.h[u] = Sigma(gates[3 * n + u]) * std::tanh(s.c[u]);
  }
  return s;
}

State Lstm(const Names& v, const std::string& number, const Vec& x, const Vec& h, const Vec& c) {
  return Lstm(v("b" + number) + Times(v("W" + number), x) + Times(v("U" + number), h), c);
}

std::vector<Vec> Left(const State& s) { return {s.h, s.c}; }

// From stacked gates i, o, u and what the children keep.
std::vector<Vec> TreeNode(const Vec& gates, const Vec& kept) {
  const size_t n = kept.size();
  Vec h(n), c(n);
  for (size_t u = 0; u < n; ++u) {
    c[u] = Sigma(gates[u]) * std::tanh(gates[2 * n + u]) + kept[u];
    h[u] = Sigma(gates[n + u]) * std::tanh(c[u]);
  }
  return {h, c};
}

Vec Kept(const Vec& gate, const Vec& c) {
  Vec kept(c.size());
  for (size_t u = 0; u < c.size(); ++u) kept[u] = Sigma(gate[u]) * c[u];
  return kept;
}

// z h + (1 - z) tanh(b_n + from_x_n + U_n (r h)), gates r, z, n; `from_x` has what else goes into each.
Vec GruUpdate(const Names& v, const Vec& from_x, const Vec& h) {
  const size_t n = h.size();
  Vec reset(n), next(n), z(n);
  const Vec r_sum = Part(from_x, 0, n) + Times(Part(v("U"), 0, n * n), h);
  const Vec z_sum = Part(from_x, 1, n) + Times(Part(v("U"), 1, n * n), h);
  for (size_t u = 0; u < n; ++u) reset[u] = Sigma(r_sum[u]) * h[u];
  const Vec n_sum = Part(from_x, 2, n) + Times(Part(v("U"), 2, n * n), reset);
  for (size_t u = 0; u < n; ++u) {
    z[u] = Sigma(z_sum[u]);
    next[u] = z[u] * h[u] + (1 - z[u]) * std::tanh(n_sum[u]);
  }
  return next;
}

Vec LayerNorm(const Vec& a, const Vec& gain, const Vec& bias) {
  const auto n = static_cast<double>(a.size());
  const double mean = std::accumulate(a.begin(), a.end(), 0.0) / n;
  double variance = 0;
  for (const double v : a) variance += (v - mean) * (v - mean) / n;
  Vec y(a.size());
  for (size_t u = 0; u < y.size(); ++u) {
    y[u] = (a[u] - mean) / std::sqrt(variance + 1e-5) * gain[u] + bias[u];
  }
  return y;
}

Vec Best(const Vec& scores) {
  return {static_cast<double>(std::max_element(scores.begin(), scores.end()) - scores.begin())};
}

Vec RowOf(const Vec& table, double row, size_t width) {
  return Part(table, static_cast<size_t>(row), width);
}

// [M rows of H] = the halves of W_m times M0 and M1.
Vec Matrices(const Names& v) {
  const size_t n = v("child0.v").size();
  Vec m = v("b_m");
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = 0; k < n; ++k) {
        m[i * n + j] += v("W_m")[i * 2 * n + k] * v("child0.m")[k * n + j] +
                        v("W_m")[i * 2 * n + n + k] * v("child1.m")[k * n + j];
      }
    }
  }
  return m;
}

std::vector<Vec> Slstm(const Names& v) {
  const size_t n = v("before.h").size();
  const Vec a = v("b") + Times(v("W"), v("x.x")) + Times(v("U"), v("before.h"));
  Vec h(n), c(n), norm(n), m(n);
  for (size_t u = 0; u < n; ++u) {
    const double log_f = std::log(Sigma(a[n + u]));
    m[u] = std::max(log_f + v("before.m")[u], a[u]);
    const double i = std::exp(a[u] - m[u]), f = std::exp(log_f + v("before.m")[u] - m[u]);
    c[u] = f * v("before.c")[u] + i * std::tanh(a[2 * n + u]);
    norm[u] = f * v("before.n")[u] + i;
    h[u] = Sigma(a[3 * n + u]) * c[u] / norm[u];
  }
  return {h, c, norm, m};
}

std::vector<Vec> LayerNormLstm(const Names& v) {
  const Vec gates = LayerNorm(Times(v("W"), v("x.x")), v("gain_x"), v("bias_x")) +
                    LayerNorm(Times(v("U"), v("before.h")), v("gain_h"), v("bias_h"));
  State s = Lstm(gates, v("before.c"));
  const size_t n = s.c.size();
  const Vec normal = LayerNorm(s.c, v("gain_c"), v("bias_c"));
  for (size_t u = 0; u < n; ++u) s.h[u] = Sigma(gates[3 * n + u]) * std::tanh(normal[u]);
  return Left(s);
}

std::vector<Vec> Gru(const Names& v) {  // PyTorch's: reset after the product
  const Vec& h = v("before.h");
  const size_t n = h.size();
  const Vec in = v("b_in") + Times(v("W"), v("x.x")), rec = v("b_rec") + Times(v("U"), h);
  Vec next(n);
  for (size_t u = 0; u < n; ++u) {
    const double r = Sigma(in[u] + rec[u]), z = Sigma(in[n + u] + rec[n + u]);
    next[u] = z * h[u] + (1 - z) * std::tanh(in[2 * n + u] + r * rec[2 * n + u]);
  }
  return {next};
}

std::vector<Vec> MinGru(const Names& v) {
  const Vec& h = v("before.h");
  const size_t n = h.size();
  const Vec a = v("b") + Times(v("W"), v("x.x"));
  Vec next(n);
  for (size_t u = 0; u < n; ++u) {
    next[u] = (1 - Sigma(a[u])) * h[u] + Sigma(a[u]) * a[n + u];
  }
  return {next};
}

std::vector<Vec> MinLstm(const Names& v) {
  const Vec& h = v("before.h");
  const size_t n = h.size();
  const Vec a = v("b") + Times(v("W"), v("x.x"));
  Vec next(n);
  for (size_t u = 0; u < n; ++u) {
    const double f = Sigma(a[u]), i = Sigma(a[n + u]);
    next[u] = f / (f + i) * h[u] + i / (f + i) * a[2 * n + u];
  }
  return {next};
}

std::vector<Vec> Projected(const Names& v) {
  State s = Lstm(v, "", v("x.x"), v("before.h"), v("before.c"));
  s.h = Times(v("W_hr"), s.h);
  return Left(s);
}

std::vector<Vec> NaryNode(const Names& v) {
  const size_t n = v("child0.h").size();
  const Vec gates = v("b") + Times(v("W"), v("x.x")) + Times(v("U0"), v("child0.h")) +
                    Times(v("U1"), v("child1.h"));
  return TreeNode(gates,
                  Kept(Part(gates, 3, n), v("child0.c")) + Kept(Part(gates, 4, n), v("child1.c")));
}

std::vector<Vec> BinaryNode(const Names& v) {
  const Vec gates = v("b") + Times(v("U"), Join(v("child0.h"), v("child1.h")));
  const Vec f0 = v("b_f") + Times(v("U_f0"), v("child0.h"));
  const Vec f1 = v("b_f") + Times(v("U_f1"), v("child1.h"));
  return TreeNode(gates, Kept(f0, v("child0.c")) + Kept(f1, v("child1.c")));
}

std::vector<Vec> GruNode(const Names& v) {
  Vec h = GruUpdate(v, v("b"), v("child0.h")) + GruUpdate(v, v("b"), v("child1.h"));
  for (double& x : h) x /= 2;
  return {h};
}

std::vector<Vec> MvNode(const Names& v) {
  const Vec e = Join(Times(v("child0.m"), v("child1.v")), Times(v("child1.m"), v("child0.v")));
  return {Tanh(v("b_v") + Times(v("W_v"), e)), Matrices(v)};
}

std::vector<Vec> Decoder(const Names& v) {
  const Vec x = RowOf(v("table"), v("before.word")[0], v.Size("D"));
  const State s = Lstm(v, "", x, v("before.h"), v("before.c"));
  return {s.h, s.c, Best(v("b_out") + Times(v("W_out"), s.h))};
}

std::vector<Vec> Decoder2(const Names& v) {
  const Vec x = RowOf(v("table"), v("before.word")[0], v.Size("D"));
  const State first = Lstm(v, "0", x, v("before.h0"), v("before.c0"));
  const State second = Lstm(v, "1", first.h, v("before.h1"), v("before.c1"));
  return {first.h, first.c, second.h, second.c, Best(v("b_out") + Times(v("W_out"), second.h))};
}

using Equations = std::function<std::vector<Vec>(const Names&)>;

using Cells = std::map<std::string, Equations>;

// What each cell leaves, column by column: cells of chains, ..
Cells Chains() {
  return {
      {"lstm", [](auto& v) { return Left(Lstm(v, "", v("x.x"), v("before.h"), v("before.c"))); }},
      {"gru", Gru},
      {"gru_v1",
       [](auto& v) -> std::vector<Vec> {
         return {GruUpdate(v, v("b") + Times(v("W"), v("x.x")), v("before.h"))};
       }},
      {"elman",
       [](auto& v) -> std::vector<Vec> {
         return {Tanh(v("b") + Times(v("W"), v("x.x")) + Times(v("U"), v("before.h")))};
       }},
      {"elman_relu",
       [](auto& v) -> std::vector<Vec> {
         Vec h = v("b") + Times(v("W"), v("x.x")) + Times(v("U"), v("before.h"));
         for (double& x : h) x = std::max(x, 0.0);
         return {h};
       }},
      {"linear", [](auto& v) -> std::vector<Vec> { return {v("b") + Times(v("W"), v("x.x"))}; }},
      {"linear_softmax",
       [](auto& v) -> std::vector<Vec> {
         Vec y = v("b") + Times(v("W"), v("x.x"));
         double sum = 0;
         for (double& e : y) sum += e = std::exp(e);
         for (double& e : y) e /= sum;
         return {y};
       }},
      {"embed",
       [](auto& v) -> std::vector<Vec> {
         return {RowOf(v("table"), v("token.token")[0], v.Size("D"))};
       }},
      {"decoder_lstm", Decoder},
      {"decoder_lstm2", Decoder2},
      {"bridge_lstm",
       [](auto& v) -> std::vector<Vec> {
         return {v("layer0.h"), v("layer0.c"), {static_cast<double>(v.Size("BOS"))}};
       }},
      {"bridge_lstm2",
       [](auto& v) -> std::vector<Vec> {
         return {v("layer0.h"),
                 v("layer0.c"),
                 v("layer1.h"),
                 v("layer1.c"),
                 {static_cast<double>(v.Size("BOS"))}};
       }},
      {"lstmp", Projected},
      {"lstm_layernorm", LayerNormLstm},
      {"mingru", MinGru},
      {"minlstm", MinLstm},
      {"slstm", Slstm},
  };
}

// .. of trees and lattices, ..
Cells Trees() {
  return {
      {"treelstm_leaf",
       [](auto& v) { return TreeNode(v("b") + Times(v("W"), v("x.x")), Vec(v.Size("H"))); }},
      {"treelstm_internal", BinaryNode},
      {"treelstm_nary", NaryNode},
      {"treelstm_childsum",
       [](auto& v) {
         return TreeNode(v("b") + Times(v("W"), v("x.x")) + Times(v("U"), v("children.h")),
                         v("edges.fc"));
       }},
      {"treelstm_childsum_edge",
       [](auto& v) -> std::vector<Vec> {
         const Vec f = v("b_f") + Times(v("W_f"), v("x.x")) + Times(v("U_f"), v("child.h"));
         return {Kept(f, v("child.c"))};
       }},
      {"treegru_leaf",
       [](auto& v) -> std::vector<Vec> { return {GruUpdate(v, v("b"), v("x.x"))}; }},
      {"treegru_internal", GruNode},
      {"mv_leaf",
       [](auto& v) -> std::vector<Vec> {
         const size_t n = v.Size("H");
         return {RowOf(v("vectors"), v("token.token")[0], n),
                 RowOf(v("matrices"), v("token.token")[0], n * n)};
       }},
      {"mv_internal", MvNode},
      {"merge_lstm",
       [](auto& v) -> std::vector<Vec> {
         return {v("arcs.h"), v("arcs.c")};
       }},
      {"merge_gru", [](auto& v) -> std::vector<Vec> { return {v("arcs.h")}; }},
      {"start_lstm",
       [](auto& v) -> std::vector<Vec> {
         return {v("h0"), v("c0")};
       }},
      {"start_gru", [](auto& v) -> std::vector<Vec> { return {v("h0")}; }},
  };
}

// .. and what stands between others.
Cells Between() {
  return {
      {"below", [](auto& v) -> std::vector<Vec> { return {v("x.h")}; }},
      {"pair", [](auto& v) -> std::vector<Vec> { return {Join(v("forward.h"), v("backward.h"))}; }},
      {"word_from_chars",
       [](auto& v) -> std::vector<Vec> { return {Join(v("forward.h"), v("backward.h"))}; }},
      {"tagger_output",
       [](auto& v) -> std::vector<Vec> {
         const Vec both = Join(v("forward.h"), v("backward.h"));
         return {v("b_o") + Times(v("W_o"), Tanh(v("b_h") + Times(v("W_h"), both)))};
       }},
      {"nmt_encoder_lstm",
       [](auto& v) {
         const Vec e = Tanh(v("b_i") + Times(v("W_i"), v("x.x")));
         return Left(Lstm(v, "", e, v("before.h"), v("before.c")));
       }},
  };
}

const Cells& Zoo() {
  static const auto* const zoo = [] {
    auto* const all = new Cells(Chains());
    all->merge(Trees());
    all->merge(Between());
    return all;
  }();
  return *zoo;
}

// Every one but BOS is a width; none a multiple of anything.
std::vector<Sizes> SizesOf(const std::string& cell) {
  std::vector<Sizes> all = {
      {{"D", 1},
       {"H", 1},
       {"V", 2},
       {"C", 1},
       {"F", 1},
       {"B", 2},
       {"L", 1},
       {"M", 1},
       {"P", 1},
       {"BOS", 0}},
      {{"D", 5},
       {"H", 7},
       {"V", 90},
       {"C", 3},
       {"F", 2},
       {"B", 3},
       {"L", 4},
       {"M", 6},
       {"P", 4},
       {"BOS", 1}},
      {{"D", 31},
       {"H", 19},
       {"V", 33},
       {"C", 17},
       {"F", 21},
       {"B", 34},
       {"L", 23},
       {"M", 37},
       {"P", 11},
       {"BOS", 7}},
      {{"D", 67},
       {"H", 83},
       {"V", 201},
       {"C", 41},
       {"F", 65},
       {"B", 47},
       {"L", 49},
       {"M", 50},
       {"P", 61},
       {"BOS", 200}},
  };
  for (Sizes& sizes : all) {
    if (cell == "treegru_leaf") sizes["D"] = sizes["H"];
  }
  return all;
}

class ZooCellTest : public ::testing::TestWithParam<const kernels::CpuKernels*> {};
INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, ZooCellTest,
                         ::testing::ValuesIn(kernels::RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

// The weights of a cell; and what one of its nodes reads.
Names WeightsOf(const CellTrial& trial, const Sizes& sizes) {
  Names names{.values = {}, .sizes = sizes};
  const CellDefinition& cell = *trial.type().definition;
  for (size_t p = 0; p < cell.parameters().size(); ++p) {
    const Weight& w = trial.type().weights[p];
    names.values[cell.parameters()[p].name] = Vec(w.data.get(), w.data.get() + w.shape.size());
  }
  return names;
}

void AddInputs(const CellDefinition& cell, const std::vector<RowValues>& inputs, Names& names) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = cell.inputs()[i];
    for (size_t c = 0; c < input.reads.size(); ++c) {
      names.values[input.name + "." + input.reads[c].name] = inputs[i][c];
    }
  }
}

void Append(const std::vector<Vec>& columns, std::vector<Vec>& all) {
  all.resize(columns.size());
  for (size_t c = 0; c < columns.size(); ++c) all[c] = Join(std::move(all[c]), columns[c]);
}

// design.md (Numbers).
void ExpectAgrees(const Vec& expected, const Vec& got, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  double error = 0, norm = 0, worst = 0, most = 1;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
    worst = std::max(worst, std::abs(got[i] - expected[i]));
    most = std::max(most, std::abs(expected[i]));
  }
  EXPECT_LE(std::sqrt(error), bound * std::sqrt(norm) + 1e-30);
  EXPECT_LE(worst, bound * most);
}

void ExpectEquationsHold(const std::string& name, const Sizes& sizes, uint64_t seed,
                         const kernels::CpuKernels& kernels, const ShippedCell& shipped) {
  const absl::StatusOr<CellText> text = ParseCell(shipped.text, name);
  ASSERT_TRUE(text.ok()) << text.status();
  absl::StatusOr<CellDefinition> cell = BuildCell(*text, sizes, {});
  ASSERT_TRUE(cell.ok()) << cell.status();
  CellTrial trial(
      *std::move(cell), seed, kernels,
      {.words = static_cast<int32_t>(sizes.at("V")), .positive = {"before.n"}});  // a normaliser
  constexpr int32_t kMost = 33;
  trial.Run(kMost);
  const CellDefinition& definition = *trial.type().definition;
  Names names = WeightsOf(trial, sizes);
  std::vector<std::vector<std::vector<float>>> left;  // by node
  std::vector<Vec> expected, compiled, interpreted;   // by column, node after node
  for (int32_t node = 0; node < kMost; ++node) {
    const std::vector<RowValues> inputs = trial.Inputs(node);
    AddInputs(definition, inputs, names);
    left.push_back(trial.Left(node));
    Append(Zoo().at(name)(names), expected);
    Append(trial.LeftValues(node), compiled);
    Append(InterpretNode(definition, trial.type().weights, inputs), interpreted);
  }
  ASSERT_EQ(expected.size(), compiled.size());
  for (size_t c = 0; c < expected.size(); ++c) {
    SCOPED_TRACE("column " + std::to_string(c));
    ExpectAgrees(expected[c], interpreted[c], 1e-6);  // constants are floats
    ExpectAgrees(expected[c], compiled[c], 1e-5);
  }
  for (const int32_t nodes : {1, 7}) {
    trial.Run(nodes);
    for (int32_t node = 0; node < nodes; ++node) {
      EXPECT_EQ(trial.Left(node), left[static_cast<size_t>(node)]) << "in a batch of " << nodes;
    }
  }
}

TEST_P(ZooCellTest, EveryShippedCellObeysItsEquations) {
  for (const ShippedCell& shipped : ShippedCells()) {
    const std::string name(shipped.name);
    ASSERT_TRUE(Zoo().contains(name)) << "no equations for " << name;
    uint64_t seed = 1;
    for (const Sizes& sizes : SizesOf(name)) {
      SCOPED_TRACE(name + " of " + std::to_string(sizes.at("H")) + " units");
      ExpectEquationsHold(name, sizes, seed++, *GetParam(), shipped);
    }
  }
}

}  // namespace
}  // namespace cellbatch::conformance

// Folders of chains over vectors whose cells are taken apart, or cannot be: they load, and answer as they would whole.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/unfolder.h"
#include "server/assemble/model_folder.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int kUnits = 4;

// Layers of one cell, "l" where no other types are named, whose weights are all 0.5.
class RewriteTest : public ::testing::Test {
 protected:
  using Shapes = std::map<std::string, std::vector<int64_t>>;

  void Make(const std::string& cell, const Shapes& shapes,
            const std::vector<std::string>& types = {"l"}) {
    folder_ = std::make_unique<ModelFolder>("rewritten", shapes);
    folder_->Write("own.textproto", cell);
    std::string parameters, layers;
    for (const auto& [name, shape] : shapes) {
      parameters += fmt::format("parameters {{ name: \"{0}\" tensors: \"{0}\" }} ", name);
    }
    config_.clear();
    for (const std::string& type : types) {
      const char* reads = layers.empty() ? "" : "reads { input: \"x\" through: \"below\" } ";
      config_ +=
          fmt::format("cell_types {{ name: \"{}\" cell: \"own\" {}{}}}\n", type, reads, parameters);
      layers += fmt::format("layers {{ forward: \"{}\" }} ", type);
    }
    config_ += fmt::format("chain {{ input: VECTORS {}}}\n", layers);
  }
  absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& more) const {
    folder_->Write("config.textproto", config_ + more);
    return LoadModel(folder_->path(), "model", 1, ModelId(0), {});
  }
  std::vector<std::string> Types(const std::string& more) const {
    const auto model = Load(more);
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<std::string> names;
    if (!model.ok()) return names;
    for (const CellType& type : (*model)->types) names.push_back(type.name);
    return names;
  }
  // OUTPUT of two steps of vectors that are all 0.5.
  std::vector<double> Answer(const std::string& more, int64_t width) const {
    const auto model = Load(more);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    std::vector<float> rows(static_cast<size_t>(2 * width), 0.5f);
    RequestInput input;
    input.tensors = {{"X",
                      WireType::kFp32,
                      {2, width},
                      absl::MakeSpan(reinterpret_cast<const std::byte*>(rows.data()),
                                     rows.size() * sizeof(float))}};
    input.outputs = {"OUTPUT"};
    CellGraph graph;
    EXPECT_EQ((*model)->unfolder->Unfold(input, graph), absl::OkStatus());
    EXPECT_EQ(graph.Seal(**model, 2), absl::OkStatus());
    return InterpretGraph(**model, graph)[0];
  }

  std::unique_ptr<ModelFolder> folder_;
  std::string config_;
};

// x in pieces of 2, each with weights of its own, and gates that are multiplied.
std::string CellOfPieces(int pieces, int gates) {
  std::string text = fmt::format(R"(name: "own"
inputs {{ name: "x" columns {{ name: "x" type: FP32 dims: "{0}" }} }}
inputs {{ name: "before" columns {{ name: "h" type: FP32 dims: "4" }} }}
parameters {{ name: "U" dims: "{1}" dims: "4" }}
ops {{ name: "sum0" kind: MATMUL args: "before.h" args: "U" }}
)",
                                 2 * pieces, kUnits * gates);
  for (int p = 0; p < pieces; ++p) {
    text += fmt::format(R"(parameters {{ name: "W{0}" dims: "{1}" dims: "2" }}
ops {{ name: "x{0}" kind: SLICE args: "x.x" begin: "{2}" end: "{3}" }}
ops {{ name: "from{0}" kind: MATMUL args: "x{0}" args: "W{0}" }}
)",
                        p, kUnits * gates, 2 * p, 2 * p + 2);
  }
  // What is brought is added first.
  for (int p = 1; p < pieces; ++p) {
    text += fmt::format("ops {{ name: \"x_sum{0}\" kind: ADD args: \"{1}\" args: \"from{0}\" }}\n",
                        p, p == 1 ? "from0" : fmt::format("x_sum{}", p - 1));
  }
  text += fmt::format("ops {{ name: \"all\" kind: ADD args: \"x_sum{}\" args: \"sum0\" }}\n",
                      pieces - 1);
  for (int g = 0; g < gates; ++g) {
    text += fmt::format(R"(ops {{ name: "gate{0}" kind: SLICE args: "all" begin: "{1}" end: "{2}" }}
ops {{ name: "t{0}" kind: TANH args: "gate{0}" }}
ops {{ name: "h{0}" kind: MUL args: "{3}" args: "t{0}" }}
)",
                        g, kUnits * g, kUnits * (g + 1), g == 0 ? "t0" : fmt::format("h{}", g - 1));
  }
  return text +
         fmt::format("outputs {{ column: \"h\" value: \"h{}\" }}\ncarry: \"before\"\n", gates - 1);
}

// 7 pieces and 16 gates would take 656 operators, of 512.
TEST_F(RewriteTest, ACellThatHoistedWouldHaveTooManyOperatorsIsServedWhole) {
  constexpr int kPieces = 7, kGates = 16;
  Shapes shapes = {{"U", {kUnits * kGates, kUnits}}};
  for (int p = 0; p < kPieces; ++p) shapes[fmt::format("W{}", p)] = {kUnits * kGates, 2};
  Make(CellOfPieces(kPieces, kGates), shapes);
  EXPECT_THAT(Types(""), ElementsAre("l"));
  double h = 0;
  for (int t = 0; t < 2; ++t) {
    const double gate = std::tanh(0.5 * 0.5 * 2 * kPieces + 0.5 * kUnits * h);
    h = std::pow(gate, kGates + 1);  // the first is multiplied with itself
  }
  const std::vector<double> answer = Answer("", 2 * kPieces);
  EXPECT_EQ(answer.size(), size_t{kUnits});
  EXPECT_THAT(answer, Each(DoubleNear(h, 1e-6)));
  EXPECT_THAT(
      std::string(Load("hoist: ON\n").status().message()),
      HasSubstr("hoist is ON: no layer of a chain over VECTORS multiplies X, or none could be "
                "taken apart (cut out, its products with X would have more operators"));
}

// Two inputs and two columns, by any names; what is left beside the carry is deferred.
std::string NamedCell(const std::string& x, const std::string& before, const std::string& column) {
  std::string text = R"(name: "own"
inputs { name: "X_NAME" columns { name: "x" type: FP32 dims: "D" } }
inputs { name: "BEFORE" columns { name: "h" type: FP32 dims: "H" } columns { name: "SECOND" type: FP32 dims: "H" } }
parameters { name: "W" dims: "H" dims: "D" }
parameters { name: "U" dims: "H" dims: "H" }
parameters { name: "P" dims: "3" dims: "H" }
ops { name: "from_x" kind: MATMUL args: "X_NAME.x" args: "W" }
ops { name: "from_h" kind: MATMUL args: "BEFORE.h" args: "U" }
ops { name: "sum" kind: ADD args: "from_x" args: "from_h" }
ops { name: "more" kind: MUL args: "sum" args: "BEFORE.SECOND" }
ops { name: "h" kind: TANH args: "more" }
ops { name: "second" kind: SIGMOID args: "sum" }
ops { name: "p" kind: MATMUL args: "sum" args: "P" }
outputs { column: "h" value: "h" }
outputs { column: "SECOND" value: "second" }
outputs { column: "p" value: "p" }
carry: "BEFORE"
)";
  using Named = std::pair<std::string, std::string>;
  for (const auto& [from, to] :
       {Named("X_NAME", x), Named("BEFORE", before), Named("SECOND", column)}) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from)) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

TEST_F(RewriteTest, InputsAndColumnsMayBeCalledAsThoseOfTheParts) {
  struct Names {
    const char *x, *before, *column;
  };
  for (const Names& names :
       {Names{"x", "before", "c"}, Names{"x", "hoisted sums", "c"},
        Names{"hoisted after", "before", "c"}, Names{"x", "before", "deferred 2"}}) {
    SCOPED_TRACE(fmt::format("{}, {}, {}", names.x, names.before, names.column));
    Make(NamedCell(names.x, names.before, names.column),
         {{"W", {kUnits, kUnits}}, {"U", {kUnits, kUnits}}, {"P", {3, kUnits}}});
    EXPECT_THAT(Types(""), ElementsAre("l"));
    EXPECT_THAT(Types("hoist: ON\n"), ElementsAre("l", "l hoisted"));
    EXPECT_THAT(Types("defer: ON\n"), ElementsAre("l", "l deferred"));
    const std::vector<double> whole = Answer("hoist: OFF\n", kUnits);
    EXPECT_EQ(whole.size(), size_t{kUnits});
    for (const char* more : {"hoist: ON\n", "defer: ON\n", "hoist: ON\ndefer: ON\n"}) {
      EXPECT_THAT(Answer(more, kUnits), Pointwise(DoubleNear(1e-9), whole)) << more;
    }
  }
}

// Metrics and policies tell types by their names.
TEST_F(RewriteTest, TypesMayBeCalledAsThePartsOfOthers) {
  Make(NamedCell("x", "before", "c"),
       {{"W", {kUnits, kUnits}}, {"U", {kUnits, kUnits}}, {"P", {3, kUnits}}},
       {"l", "l hoisted", "l deferred"});
  EXPECT_THAT(Types("hoist: ON\n"), ElementsAre("l", "l hoisted", "l deferred", "l hoisted 2"));
  EXPECT_THAT(Types("defer: ON\n"), Contains("l deferred 2"));
}

}  // namespace
}  // namespace cellbatch

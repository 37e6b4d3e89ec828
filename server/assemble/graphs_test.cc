// Lattices and graphs of requests, from model folders of shipped cells: what their configs become.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/unfolder.h"
#include "cells/weights/safetensors.h"
#include "server/assemble/model_folder.h"
#include "server/repository/model_loader.h"
#include "tests/testing/lattice_model.h"

namespace cellbatch {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& folder) {
  return LoadModel(folder, "model", 1, ModelId(0), LoaderLimits{});
}

std::string Folder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

TEST(LatticeAssemblerTest, AFolderOfShippedCellsAnswersAsTheEquationsSay) {
  for (const bool bare : {false, true}) {
    const testing::LatticeModel lattices({.initial = !bare, .output = !bare});
    const std::string folder = Folder("lattice");
    lattices.Save(folder);
    const auto model = Load(folder);
    ASSERT_TRUE(model.ok()) << model.status();
    std::mt19937_64 random(17);
    for (int i = 0; i < 20; ++i) {
      const testing::LatticeRequest request = testing::RandomLattice(random, 30);
      CellGraph graph;
      ASSERT_EQ((*model)->unfolder->Unfold(request.Input({"ALL_HIDDEN"}), graph), absl::OkStatus());
      ASSERT_EQ(graph.Seal(**model, 2), absl::OkStatus());
      // The two biases are added in FP32 by the loader.
      EXPECT_THAT(InterpretGraph(**model, graph)[0],
                  Pointwise(DoubleNear(1e-5), lattices.Reference(request).h));
    }
  }
}

TEST(LatticeAssemblerTest, EveryProblemIsTold) {
  const testing::LatticeModel lattices({});
  const auto error = [&](const std::string& from, const std::string& to,
                         const std::string& extra = "") {
    const std::string folder = Folder("lattice");
    lattices.Save(folder, extra);
    std::ifstream in(folder + "/config.textproto");
    std::string text(std::istreambuf_iterator<char>(in), {});
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    std::ofstream(folder + "/config.textproto") << text;
    const auto model = Load(folder);
    EXPECT_FALSE(model.ok());
    return std::string(model.status().message());
  };
  EXPECT_THAT(error("output: \"tag\"", "output: \"tags\""), HasSubstr("\"tags\", which is not"));
  EXPECT_THAT(error("output: \"tag\"", ""), HasSubstr("cell type \"tag\" is not used"));
  EXPECT_THAT(error("merge: \"merge\"", "merge: \"start\""), HasSubstr("used twice"));
  EXPECT_THAT(error("merge: \"merge\" initial: \"start\"", "merge: \"start\" initial: \"merge\""),
              HasSubstr("size H is not known"));
  EXPECT_THAT(error("", "", "vocabulary { size: 31 }"),
              HasSubstr("vocabulary of WORDS: size is 31, the embedding has 30 rows"));
  EXPECT_THAT(error("output: \"tag\"",
                    "output: \"tag\" character_vocabulary { out_of_vocabulary: UNKNOWN_WORD "
                    "unknown_id: 20 }"),
              HasSubstr("vocabulary of CHARS: unknown_id is 20, the vocabulary ends at 19"));
  EXPECT_THAT(error("max_nodes: 4000", "max_nodes: 2000000"),
              HasSubstr("max_nodes is 2000000, this server's limit is 1048576"));
  EXPECT_THAT(error("", "", "optional_outputs: \"LOGITS\""), HasSubstr("no output \"LOGITS\""));
}

// Trees as graphs: leaves of tokens, nodes over two children, an output.
class DagAssemblerTest : public ::testing::Test {
 protected:
  static constexpr int64_t kH = 4, kD = 3, kV = 10, kC = 2;

  std::string Write(const std::string& dag) {
    const std::string folder = Folder("dag");
    std::filesystem::create_directories(folder + "/1");
    std::vector<std::vector<float>> values;
    std::vector<SafetensorsSource> sources;
    const std::vector<std::pair<std::string, std::vector<int64_t>>> tensors = {
        {"emb", {kV, kD}}, {"W", {3 * kH, kD}}, {"U", {3 * kH, 2 * kH}},
        {"F0", {kH, kH}},  {"F1", {kH, kH}},    {"fc", {kC, kH}}};
    for (const auto& [name, dims] : tensors) {
      std::vector<float>& made = values.emplace_back(static_cast<size_t>(dims[0] * dims[1]));
      for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(i % 7) / 8 - 0.4f;
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      sources.push_back({tensors[i].first, tensors[i].second, values[i]});
    }
    EXPECT_TRUE(WriteSafetensors(folder + "/1/weights.safetensors", sources).ok());
    std::ofstream(folder + "/config.textproto") << R"(
cell_types {
  name: "leaf" cell: "treelstm_leaf"
  reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "W" }
}
cell_types {
  name: "node" cell: "treelstm_internal"
  parameters { name: "U" tensors: "U" }
  parameters { name: "U_f0" tensors: "F0" }
  parameters { name: "U_f1" tensors: "F1" }
}
cell_types {
  name: "out" cell: "linear"
  reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "fc" }
}
)" << dag;
    return folder;
  }
  std::string Error(const std::string& dag) {
    const auto model = Load(Write(dag));
    EXPECT_FALSE(model.ok());
    return std::string(model.status().message());
  }
};

TEST_F(DagAssemblerTest, InputsComeFromTypesThatLeaveTheirColumnsAndElseFromTheRequest) {
  const auto model = Load(Write(R"(
dag { types: "leaf" types: "node" types: "out" output_type: "out" }
vocabulary { size: 9 out_of_vocabulary: UNKNOWN_WORD unknown_id: 1 }
max_nodes: 50
)"));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> inputs;
  for (const TensorSpec& t : (*model)->signature.inputs) inputs.push_back(t.name);
  EXPECT_THAT(inputs, ElementsAre("NODE_TYPES", "EDGES", "leaf.token"));
  EXPECT_EQ((*model)->signature.outputs[0].dims, std::vector<int64_t>{kC});

  const auto answer = [&](std::vector<int32_t> tokens) {
    const std::vector<int32_t> types = {0, 0, 1, 2}, edges = {0, 2, 0, 1, 2, 1, 2, 3, 0};
    RequestInput input;
    const auto tensor = [](const char* name, const std::vector<int32_t>& v, TensorDims dims) {
      return InputTensor{name,
                         WireType::kInt32,
                         std::move(dims),
                         {reinterpret_cast<const std::byte*>(v.data()), v.size() * 4}};
    };
    input.tensors = {tensor("NODE_TYPES", types, {4}), tensor("EDGES", edges, {3, 3}),
                     tensor("leaf.token", tokens, {2})};
    CellGraph graph;
    EXPECT_EQ((*model)->unfolder->Unfold(input, graph), absl::OkStatus());
    EXPECT_EQ(graph.Seal(**model, 2), absl::OkStatus());
    return InterpretGraph(**model, graph)[0];
  };
  EXPECT_NE(answer({3, 4}), answer({4, 3}));
  EXPECT_EQ(answer({9, 4}), answer({1, 4}));
}

TEST_F(DagAssemblerTest, PhasesAreTheTypesAndAreToldUnlessTheConfigurationSaysNo) {
  const std::string dag =
      "dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" %s }\n";
  const auto load = [&](const std::string& phases, const std::string& unfold) {
    const auto model = Load(Write(std::string(dag).replace(dag.find("%s"), 2, phases) + unfold));
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->unfold;
  };
  EXPECT_EQ(load("", "").phases, 1);
  const UnfoldOptions told = load("phases { key: \"out\" value: 2 }", "");
  EXPECT_EQ(told.phases, 3);
  EXPECT_FALSE(told.ghosts || told.level_rows);
  const UnfoldOptions other =
      load("phases { key: \"out\" value: 2 }", "unfold { phases: OFF ghosts: ON level_rows: ON }");
  EXPECT_EQ(other.phases, 1);
  EXPECT_TRUE(other.ghosts && other.level_rows);
}

TEST_F(DagAssemblerTest, EveryProblemIsTold) {
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" }"),
              HasSubstr("cell type \"out\" is not used"));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"nodes\" types: \"out\" }"),
              HasSubstr("dag: types names cell type \"nodes\", which is not there"));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"out\" }"),
              HasSubstr("cell type \"leaf\" leaves no FP32 or INT32 column \"y\""));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"root\" }"),
              HasSubstr("output_type \"root\" is none of its types"));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" "
                    "from_request: \"out.h\" from_request: \"leaf.token\" }"),
              HasSubstr("from_request names \"out.h\", no type has such an input"));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" "
                    "from_request: \"node.child0\" }"),
              HasSubstr("the request cannot bring node.child0: its rows have 2 columns"));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" "
                    "phases { key: \"root\" value: 1 } }"),
              HasSubstr("phases names \"root\", which is none of its types"));
  EXPECT_THAT(Error("dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" "
                    "phases { key: \"out\" value: 16 } }"),
              HasSubstr("type \"out\" is of phase 16, allowed are 0 to 15"));
  EXPECT_THAT(Error("max_sequence_length: 7 "
                    "dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" }"),
              HasSubstr("graphs are bounded by max_nodes"));
}

// "read" looks up a number of the request in 6 rows and "say" one that another type leaves in 2.
class LookupsOfGraphsTest : public ::testing::Test {
 protected:
  LookupsOfGraphsTest() {
    folder_.Write("pick.textproto", R"(name: "pick"
inputs { name: "s" columns { name: "y" type: FP32 dims: "D" } }
ops { name: "i" kind: ARGMAX args: "s.y" }
outputs { column: "word" value: "i" }
)");
    folder_.Write("say.textproto", R"(name: "say"
inputs { name: "p" columns { name: "word" type: INT32 } }
parameters { name: "F" dims: "W" dims: "D" }
ops { name: "z" kind: LOOKUP args: "F" args: "p.word" }
outputs { column: "z" value: "z" }
)");
  }
  // The cell that reads the request, by a column of that name; `more` outputs.
  void WriteRead(const std::string& column, const std::string& more = "") const {
    folder_.Write("read.textproto", fmt::format(R"(name: "read"
inputs {{ name: "x" columns {{ name: "{0}" type: INT32 }} }}
parameters {{ name: "E" dims: "V" dims: "D" }}
ops {{ name: "y" kind: LOOKUP args: "E" args: "x.{0}" }}
outputs {{ column: "y" value: "y" }}
{1})",
                                                column, more));
  }
  // How many numbers the inputs know that the request brings.
  std::vector<int64_t> Known(const std::string& config) const {
    folder_.Write("config.textproto", R"(
cell_types { name: "a" cell: "read" parameters { name: "E" tensors: "E" } }
cell_types { name: "c" cell: "say" parameters { name: "F" tensors: "F" } }
)" + config);
    const auto model = Load(folder_.path());
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<int64_t> known;
    if (!model.ok()) return known;
    for (const auto& input : (*model)->unfolder->Describe().inputs) known.push_back(input.num_ids);
    return known;
  }
  const ModelFolder folder_{"lookups", {{"E", {6, 2}}, {"F", {2, 2}}}};
};

TEST_F(LookupsOfGraphsTest, WhatAnotherTypeLeavesInColumnsLikeTheRequestsIsNoneOfItsVocabulary) {
  const std::string graph = R"(
cell_types { name: "b" cell: "pick" }
dag {
  types: "a" types: "b" types: "c" output_type: "a" output: "y" from_request: "a.x"
  rows_of { key: "b.s" value: "a" } rows_of { key: "c.p" value: "b" }
}
)";
  for (const char* column : {"id", "word"}) {
    WriteRead(column);
    EXPECT_THAT(Known(graph), ElementsAre(6)) << column;
    EXPECT_THAT(Known(graph + "vocabulary { size: 5 }\n"), ElementsAre(5)) << column;
  }
}

TEST_F(LookupsOfGraphsTest, ANumberThatATypePassesOnAsItCameIsHeldToWhereItIsLookedUpThen) {
  for (const std::string column : {"id", "word"}) {
    WriteRead(column, fmt::format("outputs {{ column: \"word\" value: \"x.{}\" }}\n", column));
    EXPECT_THAT(Known(R"(
dag {
  types: "a" types: "c" output_type: "c" output: "z" from_request: "a.x"
  rows_of { key: "c.p" value: "a" }
}
)"),
                ElementsAre(2))
        << column;
  }
}

}  // namespace
}  // namespace cellbatch

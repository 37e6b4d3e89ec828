// A tagger with characters, put together from a folder.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "cells/weights/safetensors.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

using testing::Contains;
using testing::HasSubstr;

class TaggerFolderTest : public testing::Test {
 protected:
  static constexpr int64_t kV = 4, kD = 6, kH = 5, kM = 3, kC = 2, kCharacters = 7;

  TaggerFolderTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/1");
    Tensor("words", {kV, kD});
    Tensor("characters", {kCharacters, 2});
    for (const char* end : {"", "_reverse"}) {
      Lstm(fmt::format("spell{}", end), 2, kD / 2);
      Lstm(fmt::format("layer{}", end), kD, kH);
    }
    Tensor("W_h", {kM, 2 * kH});
    Tensor("W_o", {kC, kM});
    for (const char* end : {"", "_reverse"}) {
      config_ += LstmType(fmt::format("spell{}", end), R"(reads { input: "x" through: "embed" }
          parameters { name: "embed/table" tensors: "characters" })");
      config_ += LstmType(fmt::format("layer{}", end), "");
    }
    config_ += R"(
cell_types { name: "embedding" cell: "embed" parameters { name: "table" tensors: "words" } }
cell_types { name: "word" cell: "word_from_chars" }
cell_types {
  name: "output" cell: "tagger_output"
  parameters { name: "W_h" tensors: "W_h" }
  parameters { name: "W_o" tensors: "W_o" }
}
chain {
  input: TOKENS
  embedding: "embedding"
  layers { forward: "layer" backward: "layer_reverse" }
  token_head: "output"
  characters { forward: "spell" backward: "spell_reverse" word: "word" }
}
)";
    Write("1/vocabulary.txt", "the\nParis\n.\n");
    Write("1/chars.txt", "<*>\n<unk>\na\nb\n");
    Write("1/labels.txt", "O\nI-LOC\n");
  }

  void Tensor(const std::string& name, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    tensors_[name] = {shape, std::vector<float>(static_cast<size_t>(n), 0.5f)};
  }
  void Lstm(const std::string& name, int64_t input, int64_t hidden) {
    Tensor(name + ".W", {4 * hidden, input});
    Tensor(name + ".U", {4 * hidden, hidden});
  }
  static std::string LstmType(const std::string& name, const std::string& more) {
    return fmt::format(R"(cell_types {{ name: "{0}" cell: "lstm" {1}
      parameters {{ name: "W" tensors: "{0}.W" }} parameters {{ name: "U" tensors: "{0}.U" }} }}
)",
                       name, more);
  }
  void Write(const std::string& file, std::string_view text) const {
    std::ofstream(folder_ + "/" + file) << text;
  }

  absl::StatusOr<std::shared_ptr<const Model>> Load() {
    Write("config.textproto", config_);
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back({name, tensor.first, tensor.second});
    }
    EXPECT_TRUE(WriteSafetensors(folder_ + "/1/weights.safetensors", sources).ok());
    return LoadModel(folder_, "tagger", 1, ModelId(7), {});
  }
  std::string Error() {
    const auto model = Load();
    return model.ok() ? "loaded" : std::string(model.status().message());
  }
  std::string ErrorWith(const std::string& piece, const std::string& other) {
    const std::string before = config_;
    const size_t at = config_.find(piece);
    EXPECT_NE(at, std::string::npos) << piece;
    config_.replace(at, piece.size(), other);
    std::string error = Error();
    config_ = before;
    return error;
  }

  const std::string folder_ = testing::TempDir() + "/tagger_folder";
  std::string config_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
};

std::vector<std::string> Names(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> names;
  for (const TensorSpec& s : specs) names.push_back(s.name);
  return names;
}

TEST_F(TaggerFolderTest, ATaggerTakesWordsInEveryFormAndAnswersLabels) {
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  const Signature& signature = (*model)->signature;
  EXPECT_THAT(Names(signature.inputs),
              testing::ElementsAre("TOKENS", "LENGTHS", "WORDS_TEXT", "CHAR_IDS", "CHAR_LENGTHS",
                                   "INITIAL_H", "INITIAL_C"));
  EXPECT_EQ(signature.vocabulary_size, kV);
  ASSERT_EQ(signature.outputs[0].name, "OUTPUT");
  EXPECT_EQ(signature.outputs[0].dims, (std::vector<int64_t>{-1, kC}));
  ASSERT_EQ(signature.outputs[1].name, "LABELS");
  EXPECT_EQ(signature.outputs[1].type, WireType::kBytes);
  const auto output = std::find_if((*model)->types.begin(), (*model)->types.end(),
                                   [](const CellType& t) { return t.name == "output"; });
  EXPECT_THAT(output->definition->columns(), Contains(Column{"label", ElementType::kInt32, 1}));
}

TEST_F(TaggerFolderTest, TypesOfOneTextAndSizeHaveOneDefinition) {
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  const auto definition_of = [&](std::string_view name) {
    const auto& types = (*model)->types;
    const auto type = std::ranges::find(types, name, &CellType::name);
    return type == types.end() ? nullptr : type->definition.get();
  };
  ASSERT_NE(definition_of("layer"), nullptr);
  EXPECT_EQ(definition_of("layer"), definition_of("layer_reverse"));
  EXPECT_EQ(definition_of("spell"), definition_of("spell_reverse"));
  EXPECT_NE(definition_of("layer"), definition_of("spell"));  // another size
}

TEST_F(TaggerFolderTest, WithoutListsOfNamesThereIsNoTextAndThereAreNoLabels) {
  for (const char* file : {"vocabulary.txt", "chars.txt", "labels.txt"}) {
    std::filesystem::remove(folder_ + "/1/" + file);
  }
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Names((*model)->signature.inputs),
              testing::ElementsAre("TOKENS", "LENGTHS", "CHAR_IDS", "CHAR_LENGTHS", "INITIAL_H",
                                   "INITIAL_C"));
  EXPECT_THAT(Names((*model)->signature.outputs), testing::Not(Contains("LABELS")));
}

TEST_F(TaggerFolderTest, ListsThatDoNotFitTheModelAreNamed) {
  Write("1/vocabulary.txt", "a\nb\nc\nd\ne\n");
  Write("1/chars.txt", "a\nb\nb\n");
  EXPECT_THAT(Error(), HasSubstr("1/vocabulary.txt: 5 entries, the model has 4"));
  EXPECT_THAT(Error(), HasSubstr("1/chars.txt: line 3: \"b\" is there already, in line 2"));
  Write("1/vocabulary.txt", "a\n");
  Write("1/chars.txt", "a\n");
  Write("1/labels.txt", "O\nI-LOC\nI-PER\n");
  EXPECT_THAT(Error(), HasSubstr("3 labels, token_head leaves 2 numbers"));
  Write("1/labels.txt", "O\nLieu-dit-\xe9\n");
  EXPECT_THAT(Error(), HasSubstr("1/labels.txt: line 2 is no UTF-8"));
  std::filesystem::remove(folder_ + "/1/labels.txt");
  std::filesystem::create_directories(folder_ + "/1/labels.txt");
  EXPECT_THAT(Error(), HasSubstr("labels.txt: no file"));
}

// Whatever number a cell leaves, a client reads it as a name.
TEST_F(TaggerFolderTest, ALabelOfAHeadsOwnIsWhereAsManyNumbersAreLargest) {
  const auto error = [&](const std::string& ops) {
    Write("own_output.textproto", R"(name: "own_output"
inputs { name: "forward" columns { name: "h" type: FP32 dims: "F" } }
inputs { name: "backward" columns { name: "h" type: FP32 dims: "B" } }
parameters { name: "W_h" dims: "M" dims: "F+B" }
parameters { name: "W_o" dims: "C" dims: "M" }
ops { name: "both" kind: CONCAT args: "forward.h" args: "backward.h" }
ops { name: "between" kind: MATMUL args: "both" args: "W_h" }
ops { name: "y" kind: MATMUL args: "between" args: "W_o" }
outputs { column: "y" value: "y" }
outputs { column: "label" value: "label" }
)" + ops);
    return ErrorWith("cell: \"tagger_output\"", "cell: \"own_output\"");
  };
  const std::string cure =
      ", and there are 2 labels; write the ARGMAX of column \"y\", or leave \"label\" out, then it "
      "is that";
  EXPECT_EQ(error(R"(ops { name: "label" kind: ARGMAX args: "y" })"), "loaded");
  EXPECT_EQ(error(R"(ops { name: "l" kind: ARGMAX args: "y" }
                     ops { name: "label" kind: SLICE args: "l" begin: "0" end: "1" })"),
            "loaded");
  EXPECT_THAT(
      error(R"(ops { name: "label" kind: ARGMAX args: "between" })"),
      HasSubstr("token_head \"output\": its column \"label\" is an ArgMax over 3 numbers" + cure));
  EXPECT_THAT(error(R"(ops { name: "label" kind: CONSTANT integer: "1" })"),
              HasSubstr("token_head \"output\": its column \"label\" is made by Constant, not by "
                        "ArgMax over 2 numbers" +
                        cure));
}

TEST_F(TaggerFolderTest, PartsThatDoNotFitEachOtherAreNamed) {
  EXPECT_EQ(Error(), "loaded");
  EXPECT_THAT(ErrorWith("token_head: \"output\"", "head: \"output\""),
              HasSubstr("labels are for a token_head, and there is none"));
  EXPECT_THAT(ErrorWith("word: \"word\"", "word: \"words\""),
              HasSubstr("names cell type \"words\", which is not there"));
  EXPECT_THAT(ErrorWith("word: \"word\"", ""), HasSubstr("names cell type \"\""));
  EXPECT_THAT(ErrorWith("layers {", "head: \"output\" layers {"), HasSubstr("used twice"));
  Lstm("spell", 2, 1);
  EXPECT_THAT(Error(),
              HasSubstr("\"word\" leaves {x FP32[4]} for a word, \"embedding\" {x FP32[6]}"));
  Lstm("spell", 2, kD / 2);
  EXPECT_THAT(ErrorWith("embedding: \"embedding\"", ""),
              HasSubstr("reads FP32 by input \"x\", the request's TOKENS is INT32"));
}

}  // namespace
}  // namespace cellbatch

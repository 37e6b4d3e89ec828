// Encoders with decoders, from model folders of shipped cells: what their configs become, and every problem told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cells/unfold/unfolder.h"
#include "server/repository/model_loader.h"
#include "tests/seq2seq/translators.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EncoderDecoderAssemblerTest : public ::testing::Test {
 protected:
  EncoderDecoderAssemblerTest() {
    std::filesystem::remove_all(repository_);
    AddRandomTranslator(repository_, {.name = "model", .layers = 2, .max_decode_steps = 40});
    std::ifstream in(folder_ + "/config.textproto");
    std::stringstream text;
    text << in.rdbuf();
    config_ = text.str();
  }
  absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& config) const {
    std::ofstream(folder_ + "/config.textproto") << config;
    return LoadModel(folder_, "model", 1, ModelId(0), LoaderLimits{});
  }
  // What is wrong once `from` is `to`.
  std::string Error(const std::string& from, const std::string& to) const {
    std::string config = config_;
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    const auto model = Load(config.replace(at, from.size(), to));
    return model.ok() ? "loaded" : std::string(model.status().message());
  }

  const std::string repository_ = ::testing::TempDir() + "/encoder_decoder";
  const std::string folder_ = repository_ + "/model";
  std::string config_;
};

TEST_F(EncoderDecoderAssemblerTest, AFolderBecomesAModelThatTakesASourceAndSaysWords) {
  const auto model = Load(config_);
  ASSERT_TRUE(model.ok()) << model.status();
  const Signature& signature = (*model)->signature;
  ASSERT_EQ(signature.inputs.size(), 1u);
  EXPECT_EQ(signature.inputs[0].name, "SOURCE");
  EXPECT_TRUE(signature.inputs[0].words);
  EXPECT_EQ(signature.vocabulary_size, 30);
  const RequestDescription described = (*model)->unfolder->Describe();
  EXPECT_EQ(described.inputs[0].name, "SOURCE");
  EXPECT_EQ(described.inputs[0].num_ids, 30);
  EXPECT_GT(described.max_decode_steps, 0);
  std::vector<std::string> outputs;
  for (const TensorSpec& t : signature.outputs) outputs.push_back(t.name);
  EXPECT_THAT(outputs, ElementsAre("OUTPUT", "LENGTH", "STOPPED"));
  EXPECT_THAT(signature.parameters, ElementsAre("max_decode_steps", "decode_steps"));
  EXPECT_TRUE(signature.state.empty()) << "no sequence goes on from what an encoder left";
  EXPECT_EQ((*model)->types.size(), 4u) << "two layers, bridge and decoder";
  EXPECT_EQ((*model)->types[2].out, (*model)->types[3].out) << "the bridge leaves what is carried";
}

TEST_F(EncoderDecoderAssemblerTest, EveryProblemIsTold) {
  EXPECT_EQ(Error("max_decode_steps: 40", "max_decode_steps: 0"), "loaded");
  EXPECT_THAT(Error("max_decode_steps: 40", "max_decode_steps: -1"),
              HasSubstr("max_decode_steps is -1, allowed are 1 to"));
  EXPECT_THAT(Error("end_of_sequence: 0", "end_of_sequence: -1"),
              HasSubstr("end_of_sequence is -1"));
  EXPECT_THAT(Error("decoder: \"decoder\"", "decoder: \"translator\""),
              HasSubstr("encoder_decoder: decoder names cell type \"translator\""));
  EXPECT_THAT(Error("bridge: \"bridge\" ", ""), HasSubstr("is not used"));
  EXPECT_THAT(Error("layers { forward: \"encoder1\" } ", ""), HasSubstr("layer1"));
  EXPECT_THAT(Error("layers { forward: \"encoder0\" } layers { forward: \"encoder1\" } ", ""),
              HasSubstr("layers: there are none"));
  EXPECT_THAT(Error("cell: \"decoder_lstm2\"", "cell: \"decoder_lstm\""),
              HasSubstr("parameter \"W\" of cell \"decoder_lstm\" has no tensor"));
  EXPECT_THAT(Error("sizes { key: \"BOS\" value: 1 }", ""), HasSubstr("BOS"));
  EXPECT_THAT(Error("encoder_decoder {", "sequences: ON\nencoder_decoder {"),
              HasSubstr("sequences is ON, and the model has no state that a request could bring"));
  EXPECT_THAT(Error("encoder_decoder {", "max_nodes: 20\nencoder_decoder {"), "loaded");
}

}  // namespace
}  // namespace cellbatch

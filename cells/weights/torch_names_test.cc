#include "cells/weights/torch_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A state_dict: names and shapes of tensors.
class StateDict {
 public:
  StateDict& Add(const std::string& name, std::vector<int64_t> shape, const char* dtype = "F32") {
    tensors_.push_back({.name = name, .dtype = dtype, .shape = std::move(shape)});
    return *this;
  }

  StateDict& Rnn(const std::string& prefix, int gates, int64_t d, int64_t h, int layers, bool both,
                 bool bias = true) {
    for (int l = 0; l < layers; ++l) {
      for (int direction = 0; direction < (both ? 2 : 1); ++direction) {
        const std::string end = "_l" + std::to_string(l) + (direction == 1 ? "_reverse" : "");
        const int64_t input = l == 0 ? d : h * (both ? 2 : 1);
        Add(prefix + "weight_ih" + end, {gates * h, input});
        Add(prefix + "weight_hh" + end, {gates * h, h});
        if (bias) Add(prefix + "bias_ih" + end, {gates * h});
        if (bias) Add(prefix + "bias_hh" + end, {gates * h});
      }
    }
    return *this;
  }

  absl::StatusOr<TorchModel> Read(const TorchHints& hints = TorchHints()) const {
    return ReadTorchNames(tensors_, hints);
  }
  TorchModel Model(const TorchHints& hints = TorchHints()) const {
    const auto model = Read(hints);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *model : TorchModel();
  }
  std::string Error(const TorchHints& hints = TorchHints()) const {
    const auto model = Read(hints);
    return model.ok() ? "understood" : std::string(model.status().message());
  }

 private:
  std::vector<SafetensorsEntry> tensors_;
};

TEST(TorchNamesTest, GatesAreCountedInTheRecurrentMatrix) {
  EXPECT_EQ(StateDict().Rnn("", 4, 5, 7, 1, false).Model().cell, TorchCell::kLstm);
  EXPECT_EQ(StateDict().Rnn("", 3, 5, 7, 1, false).Model().cell, TorchCell::kGru);
  EXPECT_EQ(StateDict().Rnn("", 1, 5, 7, 1, false).Model({.nonlinearity = "relu"}).cell,
            TorchCell::kRnnRelu);
  EXPECT_EQ(StateDict().Rnn("", 1, 5, 7, 1, false).Model({.nonlinearity = "tanh"}).cell,
            TorchCell::kRnnTanh);
  EXPECT_THAT(StateDict().Rnn("", 2, 5, 7, 1, false).Error(),
              HasSubstr("\"weight_hh_l0\" is [14, 7]: neither [4*H, H]"));
}

TEST(TorchNamesTest, AWholeClassifierIsUnderstoodByNamesAndShapes) {
  const TorchModel m = StateDict()
                           .Add("encoder.embed.weight", {1000, 5})
                           .Rnn("encoder.rnn.", 4, 5, 7, 2, true)
                           .Add("head.weight", {3, 14})
                           .Add("head.bias", {3})
                           .Model();
  EXPECT_EQ(m.prefix, "encoder.rnn");
  EXPECT_EQ(m.input, 5);
  EXPECT_EQ(m.hidden, 7);
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_EQ(m.layers[1].forward.weight_ih, "encoder.rnn.weight_ih_l1");
  ASSERT_TRUE(m.bidirectional());
  EXPECT_EQ(m.layers[1].reverse->bias_hh, "encoder.rnn.bias_hh_l1_reverse");
  EXPECT_EQ(m.embedding, "encoder.embed.weight");
  EXPECT_EQ(m.vocabulary, 1000);
  EXPECT_EQ(m.head, "head.weight");
  EXPECT_EQ(m.head_bias, "head.bias");
  EXPECT_EQ(m.classes, 3);
}

TEST(TorchNamesTest, BareModulesNeedNoPrefixNoBiasNoHead) {
  const TorchModel m = StateDict().Rnn("", 3, 5, 7, 3, false, /*bias=*/false).Model();
  EXPECT_EQ(m.prefix, "");
  EXPECT_EQ(m.layers.size(), 3u);
  EXPECT_EQ(m.layers[0].forward.bias_ih, "");
  EXPECT_EQ(m.embedding, "");
  EXPECT_EQ(m.head, "");
}

TEST(TorchNamesTest, AMatrixThatFitsBothEndsGoesByItsName) {
  const auto dict = [](const std::string& name) {
    return StateDict().Add(name + ".weight", {20, 7}).Rnn("rnn.", 4, 7, 7, 1, false);
  };
  EXPECT_EQ(dict("word_emb").Model().embedding, "word_emb.weight");
  EXPECT_EQ(dict("fc").Model().head, "fc.weight");
  EXPECT_EQ(dict("m").Error(),
            "\"m.weight\" F32 [20, 7] could be an embedding or a head, its name does not say: "
            "--embedding m.weight or --head m.weight takes it, --ignore m.weight leaves it out");
  EXPECT_EQ(dict("m").Model({.embedding = "m.weight"}).embedding, "m.weight");
  EXPECT_EQ(dict("m").Model({.head = "m.weight"}).head, "m.weight");
  EXPECT_EQ(dict("m").Model({.embedding = "none"}).head, "m.weight");
  EXPECT_EQ(dict("m").Model({.head = "none"}).embedding, "m.weight");
}

TEST(TorchNamesTest, WhatIsAmbiguousIsSaidWithTheFlagThatSettlesIt) {
  EXPECT_THAT(StateDict().Rnn("", 1, 5, 7, 1, false).Error(),
              HasSubstr("--nonlinearity tanh or relu"));
  EXPECT_THAT(StateDict().Rnn("", 4, 5, 7, 1, false).Error({.nonlinearity = "tanh"}),
              HasSubstr("is for an nn.RNN"));
  EXPECT_THAT(StateDict().Rnn("", 1, 5, 7, 1, false).Error({.nonlinearity = "sin"}),
              HasSubstr("\"sin\", it is tanh or relu"));
  const StateDict two =
      StateDict().Rnn("encoder.", 4, 5, 7, 1, false).Rnn("decoder.", 4, 5, 7, 1, false);
  EXPECT_THAT(two.Error(), HasSubstr("2 recurrent stacks (\"decoder\", \"encoder\"): --rnn"));
  EXPECT_EQ(two.Model({.rnn_prefix = "encoder", .ignored = {"decoder"}}).prefix, "encoder");
  EXPECT_THAT(two.Error({.rnn_prefix = "encoder"}), HasSubstr("\"decoder.bias_hh_l0\""));
  const StateDict embeddings =
      StateDict().Add("a.weight", {10, 5}).Add("b.weight", {11, 5}).Rnn("", 4, 5, 7, 1, false);
  EXPECT_THAT(embeddings.Error(),
              HasSubstr("\"a.weight\" and \"b.weight\" could each be the embedding"));
  EXPECT_EQ(embeddings.Model({.embedding = "b.weight", .ignored = {"a"}}).vocabulary, 11);
  const StateDict heads =
      StateDict().Add("a.weight", {10, 7}).Add("b.weight", {11, 7}).Rnn("", 4, 5, 7, 1, false);
  EXPECT_THAT(heads.Error(), HasSubstr("could each be the head [any, 7]: --head NAME or none"));
}

TEST(TorchNamesTest, TensorsThatFitNoPlaceAreRefusedRatherThanLeftOut) {
  EXPECT_THAT(
      StateDict().Rnn("rnn.", 4, 5, 7, 1, false).Add("norm.weight", {7}).Error(),
      AllOf(HasSubstr("\"norm.weight\" F32 [7] fits no place"), HasSubstr("--ignore norm.weight")));
  EXPECT_EQ(StateDict()
                .Rnn("rnn.", 4, 5, 7, 1, false)
                .Add("norm.weight", {7})
                .Error({.ignored = {"norm"}}),
            "understood");
  const StateDict both =
      StateDict().Add("emb.weight", {9, 5}).Add("fc.weight", {3, 7}).Rnn("rnn.", 4, 5, 7, 1, false);
  EXPECT_EQ(
      both.Error({.head = "none"}),
      "\"fc.weight\" F32 [3, 7] fits no place: the embedding is [any, 5], there is to be no head "
      "(--head none) (--ignore fc.weight leaves it out)");
  EXPECT_EQ(both.Error({.embedding = "none"}),
            "\"emb.weight\" F32 [9, 5] fits no place: there is to be no embedding (--embedding "
            "none), the "
            "head is [any, 7] (--ignore emb.weight leaves it out)");
  // As of an ONNX graph: a name that is misspelt leaves nothing out, and what it meant is served.
  const StateDict with_head = StateDict().Add("fc.weight", {3, 7}).Rnn("rnn.", 4, 5, 7, 1, false);
  EXPECT_EQ(with_head.Model({.ignored = {"fc"}}).head, "");
  EXPECT_EQ(with_head.Error({.ignored = {"fc", "f", "fc.weight.x"}}),
            "--ignore f: no tensor is called that, and none lies below it\n"
            "--ignore fc.weight.x: no tensor is called that, and none lies below it");
  EXPECT_THAT(StateDict().Add("emb.weight", {10, 6}).Rnn("", 4, 5, 7, 1, false).Error(),
              HasSubstr("\"emb.weight\" F32 [10, 6] fits no place: the embedding is [any, 5]"));
  EXPECT_THAT(
      StateDict().Add("fc.weight", {3, 7}).Add("fc.bias", {4}).Rnn("", 4, 5, 7, 1, false).Error(),
      HasSubstr("\"fc.weight\" F32 [3, 7] fits no place"));
}

TEST(TorchNamesTest, AParameterOfTheModelIsTakenForNoLinearLayerOrEmbeddingUnlessAFlagSaysSo) {
  // A learned first state, the query of an attention, positions: matrices that fit, and are no module's weight.
  const auto dict = [](const std::string& name, int64_t width) {
    return StateDict().Add(name, {1, width}).Rnn("rnn.", 3, 5, 7, 1, false);
  };
  for (const char* name : {"h0", "pool.query", "attention.in_proj_weight"}) {
    EXPECT_THAT(dict(name, 7).Error(),
                HasSubstr(std::string("\"") + name +
                          "\" F32 [1, 7] could be a head, but for its name: " + "--head " + name +
                          " takes it, --ignore " + name + " leaves it out"));
  }
  EXPECT_THAT(dict("positions", 5).Error(),
              HasSubstr("\"positions\" F32 [1, 5] could be an embedding, but for its name: "
                        "--embedding positions takes it"));
  EXPECT_EQ(dict("projection", 7).Model({.head = "projection"}).head, "projection");
  EXPECT_EQ(dict("table", 5).Model({.embedding = "table"}).embedding, "table");
  EXPECT_EQ(dict("h0", 7).Model({.ignored = {"h0"}}).head, "");
  EXPECT_EQ(dict("weight", 7).Model().head, "weight");  // an nn.Linear saved by itself
}

// Attention, gates, a linear layer before the stack: modules, too, whose matrices fit and are something else.
TEST(TorchNamesTest, WhatANameSaysIsSomethingElseIsTakenForNeitherUnlessAFlagSaysSo) {
  const auto dict = [](const std::string& name, std::vector<int64_t> shape, bool bias) {
    StateDict made = StateDict().Rnn("rnn.", 4, 5, 7, 1, false);
    if (bias) made.Add(name + ".bias", {shape[0]});
    return made.Add(name + ".weight", shape);
  };
  for (const char* name : {"attn", "self_attention.out", "pool.query", "mha.out_proj", "gate.fc",
                           "key", "highway.linear", "skip", "value.0", "multihead.proj"}) {
    const std::string tensor = std::string(name) + ".weight";
    for (const bool bias : {false, true}) {
      EXPECT_THAT(dict(name, {1, 7}, bias).Error(),
                  HasSubstr("\"" + tensor + "\" F32 [1, 7] could be a head, but for its name: " +
                            "--head " + tensor + " takes it, --ignore " + tensor))
          << bias;
    }
    EXPECT_EQ(dict(name, {1, 7}, true).Model({.head = tensor}).head_bias,
              std::string(name) + ".bias");
  }
  for (const char* name : {"attn.in_proj", "skip.emb", "pos_embedding", "position_embeddings",
                           "token_type_embeddings", "gate_in"}) {
    const std::string tensor = std::string(name) + ".weight";
    EXPECT_THAT(
        dict(name, {5, 5}, false).Error(),
        HasSubstr("\"" + tensor + "\" F32 [5, 5] could be an embedding, but for its name: " +
                  "--embedding " + tensor + " takes it"));
  }
  // What others of the same model say is no word of this one.
  EXPECT_THAT(StateDict()
                  .Rnn("outer.embedder.rnn.", 4, 7, 7, 1, false)
                  .Add("outer.embedder.m.weight", {7, 7})
                  .Error(),
              HasSubstr("could be an embedding or a head, its name does not say"));
}

TEST(TorchNamesTest, ALinearLayerBeforeTheStackIsNoEmbeddingAndNoHead) {
  const auto dict = [](const std::string& name, bool bias, int64_t width) {
    StateDict made = StateDict().Rnn("rnn.", 4, width, 7, 1, false);
    if (bias) made.Add(name + ".bias", {width});
    return made.Add(name + ".weight", {width, width});
  };
  for (const char* name : {"in_proj", "input_layer", "m", "encoder", "prenet.0", "fc", "linear"}) {
    const std::string said =
        std::string("\"") + name + ".weight\" F32 [5, 5] could be an embedding";
    EXPECT_THAT(dict(name, false, 5).Error(), HasSubstr(said)) << name;
  }
  for (const char* name : {"in_proj", "fc_in", "input_linear", "m", "prenet.linear"}) {
    const std::string said = std::string("\"") + name + ".weight\" F32 [7, 7] could be a head";
    EXPECT_THAT(dict(name, true, 7).Error(), HasSubstr(said)) << name;
  }
  // As wide as what the stack reads and as what it leaves: it may lie on either side.
  for (const char* name : {"fc", "linear", "proj", "dense", "lin"}) {
    EXPECT_EQ(dict(name, true, 7).Error(),
              std::string("\"") + name +
                  ".weight\" F32 [7, 7] could be a head, or a linear layer "
                  "before \"rnn\", which reads 7 numbers and leaves 7: "
                  "--head " +
                  name + ".weight takes it, --ignore " + name + ".weight leaves it out");
  }
  EXPECT_EQ(dict("head", true, 7).Model().head, "head.weight");
  EXPECT_EQ(dict("decoder", true, 7).Model().head, "decoder.weight");
  EXPECT_EQ(dict("embed", false, 7).Model().vocabulary, 7);
  EXPECT_EQ(dict("token_classifier", false, 7).Model().head, "token_classifier.weight");
  EXPECT_THAT(dict("output_embedding", false, 7).Error(),
              HasSubstr("could be an embedding or a head, but for its name"));
}

TEST(TorchNamesTest, WordsAndPlacesSayWhatAMatrixIs) {
  const auto ends = [](const std::string& below, const std::string& above) {
    const TorchModel m = StateDict()
                             .Add(below + ".weight", {30, 5})
                             .Rnn("net.1.rnn.", 4, 5, 7, 1, false)
                             .Add(above + ".weight", {3, 7})
                             .Add(above + ".bias", {3})
                             .Model();
    return m.embedding + " " + m.head;
  };
  for (const char* below : {"emb", "Embedding", "net.word_vectors", "char_lookup", "wte", "encoder",
                            "input_embeddings", "net.0"}) {
    EXPECT_EQ(ends(below, "fc"), std::string(below) + ".weight fc.weight");
  }
  for (const char* above :
       {"fc", "Linear", "out", "output_layer", "hidden2tag", "h2o", "proj", "decoder", "classifier",
        "predictor", "scorer", "lm_head", "logits", "regressor", "net.2", "net.readout", "mlp.0"}) {
    EXPECT_EQ(ends("emb", above), std::string("emb.weight ") + above + ".weight");
  }
  EXPECT_EQ(ends("m", "n"), "m.weight n.weight") << "where shapes leave no choice";
}

// One of them has the place; that the other would fit it, too, does not make it right to leave it out.
TEST(TorchNamesTest, WhatFitsAPlaceThatIsTakenIsToldByWhat) {
  EXPECT_EQ(StateDict()
                .Rnn("rnn.", 4, 5, 7, 1, false)
                .Add("fc.weight", {3, 7})
                .Add("attn.weight", {1, 7})
                .Error(),
            "\"attn.weight\" F32 [1, 7] fits no place: the embedding is [any, 5], the head is "
            "\"fc.weight\" (--ignore attn.weight leaves it out)");
}

TEST(TorchNamesTest, WeightsThatAreMadeOfOthersAreToldTheirCure) {
  StateDict norm;
  norm.Add("rnn.weight_ih_l0", {28, 5}).Add("rnn.bias_ih_l0", {28}).Add("rnn.bias_hh_l0", {28});
  norm.Add("rnn.weight_hh_l0_g", {28, 1}).Add("rnn.weight_hh_l0_v", {28, 7});
  EXPECT_EQ(norm.Error(),
            "\"rnn.weight_hh_l0_g\" F32 [28, 1] and \"rnn.weight_hh_l0_v\" F32 [28, 7] are what "
            "weight_norm makes \"rnn.weight_hh_l0\" of: save the model after "
            "torch.nn.utils.remove_weight_norm(model.rnn, \"weight_hh_l0\")");
  StateDict all = StateDict().Add("emb.weight", {30, 5});
  for (const char* name : {"weight_ih_l0", "weight_hh_l0"}) {
    all.Add(std::string("parametrizations.") + name + ".original0", {28, 1});
    all.Add(std::string("parametrizations.") + name + ".original1", {28, 7});
  }
  EXPECT_EQ(all.Error(),
            "\"parametrizations.weight_hh_l0.original0\" F32 [28, 1] is of a parametrization that "
            "makes \"weight_hh_l0\": save the model after "
            "torch.nn.utils.parametrize.remove_parametrizations(model, \"weight_hh_l0\")\n"
            "\"parametrizations.weight_ih_l0.original0\" F32 [28, 1] is of a parametrization that "
            "makes \"weight_ih_l0\": save the model after "
            "torch.nn.utils.parametrize.remove_parametrizations(model, \"weight_ih_l0\")");
  const auto with = [](const std::string& one, const std::string& other, const TorchHints& hints) {
    return StateDict()
        .Rnn("rnn.", 4, 5, 7, 1, false)
        .Add("net.fc.weight" + one, {3, 7})
        .Add("net.fc.weight" + other, {3, 7})
        .Error(hints);
  };
  EXPECT_THAT(with("_g", "_v", {}),
              HasSubstr("torch.nn.utils.remove_weight_norm(model.net.fc, \"weight\")"));
  EXPECT_THAT(with("_g", "_v", {.head = "net.fc.weight_v"}), HasSubstr("remove_weight_norm"));
  EXPECT_THAT(with("_orig", "_mask", {}),
              HasSubstr("are what pruning makes \"net.fc.weight\" of: save the model after "
                        "torch.nn.utils.prune.remove(model.net.fc, \"weight\")"));
  EXPECT_THAT(with("_orig", "_u", {}),
              HasSubstr("torch.nn.utils.remove_spectral_norm(model.net.fc, \"weight\")"));
  EXPECT_EQ(with("_g", "_v", {.ignored = {"net"}}), "understood");
  StateDict dropped = StateDict().Rnn("rnn.module.", 4, 5, 7, 1, false);
  EXPECT_THAT(dropped.Add("rnn.weight_hh_l0_raw", {28, 7}).Error(),
              HasSubstr("\"rnn.weight_hh_l0_raw\" F32 [28, 7] is what a wrapper that drops weights "
                        "makes \"weight_hh_l0\" of"));
}

TEST(TorchNamesTest, ModulesOfAListAreAStackWhereAFlagSaysInWhichOrder) {
  const auto list = [](int64_t d0, int64_t h0, int64_t d1, int64_t h1) {
    return StateDict()
        .Rnn("net.lstms.0.", 4, d0, h0, 2, true)
        .Rnn("net.lstms.1.", 4, d1, h1, 1, false, /*bias=*/false)
        .Add("fc.weight", {3, h1});
  };
  EXPECT_EQ(
      list(5, 7, 14, 6).Error(),
      "2 recurrent stacks (\"net.lstms.0\", \"net.lstms.1\"): --rnn says which one is served, "
      "or as --rnn A,B in which order they lie on each other: each reads what the one before "
      "leaves in --rnn net.lstms.0,net.lstms.1 (where nothing is added or put in between)");
  EXPECT_THAT(list(5, 7, 5, 6).Error(),
              HasSubstr("(\"net.lstms.1\" reads 5 numbers, \"net.lstms.0\" leaves 14)"));
  const TorchModel m = list(5, 7, 14, 6).Model({.rnn_prefix = "net.lstms.0,net.lstms.1"});
  ASSERT_EQ(m.layers.size(), 3u);
  EXPECT_EQ(m.layers[1].reverse->bias_hh, "net.lstms.0.bias_hh_l1_reverse");
  EXPECT_EQ(m.layers[2].forward.weight_ih, "net.lstms.1.weight_ih_l0");
  EXPECT_EQ(m.layers[2].forward.bias_ih, "");
  EXPECT_FALSE(m.layers[2].reverse.has_value());
  EXPECT_EQ(m.layers[2].input, 14);
  EXPECT_EQ(m.layers[2].hidden, 6);
  EXPECT_EQ(m.head, "fc.weight");
  EXPECT_THAT(list(5, 7, 5, 6).Error({.rnn_prefix = "net.lstms.0,net.lstms.1"}),
              HasSubstr("\"net.lstms.1.weight_ih_l0\" is [24, 5], expected [24, 14]"));
  EXPECT_THAT(list(5, 7, 14, 6).Error({.rnn_prefix = "net.lstms.0"}),
              HasSubstr("\"net.lstms.1.weight_hh_l0\""));
  StateDict many;
  for (const char* n : {"0", "1", "2", "10"}) {
    many.Rnn("a." + std::string(n) + ".", 3, 7, 7, 1, false);
  }
  EXPECT_THAT(many.Error(), HasSubstr("--rnn a.0,a.1,a.2,a.10 (where nothing"));
}

TEST(TorchNamesTest, SizesThatCannotBeAreRefused) {
  EXPECT_THAT(StateDict().Rnn("", 4, 5, 7, 1, false).Add("emb.weight", {0, 5}).Error(),
              HasSubstr("\"emb.weight\" F32 [0, 5] fits no place"));
  EXPECT_THAT(StateDict().Rnn("", 4, 5, 7, 1, false).Add("fc.weight", {0, 7}).Error(),
              HasSubstr("\"fc.weight\" F32 [0, 7] fits no place"));
  EXPECT_THAT(StateDict().Rnn("", 4, 0, 7, 1, false).Error(),
              HasSubstr("\"weight_ih_l0\" is [28, 0]: it reads nothing"));
  StateDict cells = StateDict().Add("cells.0.weight_ih", {28, 5}).Add("cells.0.weight_hh", {28, 7});
  cells.Add("cells.1.weight_ih", {0, 7}).Add("cells.1.weight_hh", {0, int64_t{1} << 62});
  EXPECT_THAT(cells.Error(), HasSubstr("\"cells.1.weight_hh\" is [0, 4611686018427387904]"));
}

TEST(TorchNamesTest, EveryShapeThatIsWrongIsNamedWithBoth) {
  const std::string error = StateDict()
                                .Add("weight_ih_l0", {28, 5})
                                .Add("weight_hh_l0", {28, 7})
                                .Add("bias_ih_l0", {27})
                                .Add("weight_ih_l1", {28, 5})
                                .Add("weight_hh_l1", {28, 7}, "I64")
                                .Error();
  EXPECT_THAT(error, HasSubstr("\"bias_ih_l0\" is [27], expected [28]"));
  EXPECT_THAT(error, HasSubstr("\"bias_hh_l0\" is missing"));
  EXPECT_THAT(error, HasSubstr("\"weight_ih_l1\" is [28, 5], expected [28, 7]"));
  EXPECT_THAT(error, HasSubstr("\"weight_hh_l1\" is I64, which are no floats"));
}

TEST(TorchNamesTest, AProjectionTakesThePlaceOfTheHiddenState) {
  StateDict dict;
  for (int l = 0; l < 2; ++l) {
    for (const char* end : {"", "_reverse"}) {
      const std::string name = "_l" + std::to_string(l) + end;
      dict.Add("rnn.weight_ih" + name, {28, l == 0 ? 5 : 6}).Add("rnn.weight_hh" + name, {28, 3});
      dict.Add("rnn.weight_hr" + name, {3, 7});
    }
  }
  const TorchModel m = dict.Add("fc.weight", {2, 6}).Model();
  EXPECT_EQ(m.cell, TorchCell::kLstm);
  EXPECT_EQ(m.hidden, 7);
  EXPECT_EQ(m.projection, 3);
  EXPECT_EQ(m.layers[1].input, 6);
  EXPECT_EQ(m.layers[1].reverse->weight_hr, "rnn.weight_hr_l1_reverse");
  EXPECT_EQ(m.head, "fc.weight");
  const auto projected = [](int gates) {
    return StateDict()
        .Add("weight_ih_l0", {gates * 7, 5})
        .Add("weight_hh_l0", {gates * 7, 3})
        .Add("weight_hr_l0", {3, 7})
        .Error();
  };
  EXPECT_EQ(projected(4), "understood");
  EXPECT_THAT(projected(3), HasSubstr("\"weight_hr_l0\" is F32 [3, 7]: a projection is [P, H] and "
                                      "belongs to an LSTM, \"weight_hh_l0\" is [21, 3]"));
  dict.Add("rnn.weight_ih_l2", {28, 6}).Add("rnn.weight_hh_l2", {28, 3});
  EXPECT_THAT(dict.Error(), HasSubstr("\"rnn.weight_hr_l2\" is missing"));
}

TEST(TorchNamesTest, CellsOfAModuleListAreTheLayersOfAStack) {
  const auto cell = [](StateDict& dict, const std::string& prefix, int64_t d, int64_t h) {
    dict.Add(prefix + "weight_ih", {4 * h, d}).Add(prefix + "weight_hh", {4 * h, h});
    dict.Add(prefix + "bias_ih", {4 * h}).Add(prefix + "bias_hh", {4 * h});
  };
  StateDict list;
  cell(list, "net.cells.1.", 7, 6);
  cell(list, "net.cells.0.", 5, 7);
  const TorchModel m = list.Add("net.emb.weight", {30, 5}).Add("out.weight", {2, 6}).Model();
  EXPECT_EQ(m.cell, TorchCell::kLstm);
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_EQ(m.layers[0].forward.weight_ih, "net.cells.0.weight_ih");
  EXPECT_EQ(m.layers[1].forward.bias_hh, "net.cells.1.bias_hh");
  EXPECT_EQ(m.layers[0].hidden, 7);
  EXPECT_EQ(m.layers[1].input, 7);
  EXPECT_EQ(m.layers[1].hidden, 6);
  EXPECT_EQ(m.head, "out.weight");
  EXPECT_FALSE(m.bidirectional());

  StateDict holes;
  cell(holes, "cells.0.", 5, 7);
  cell(holes, "cells.2.", 7, 7);
  EXPECT_THAT(holes.Error(), HasSubstr("\"cells.1.weight_hh\" is missing"));

  StateDict one;
  cell(one, "", 5, 7);
  EXPECT_EQ(one.Model().layers[0].forward.weight_ih, "weight_ih");
  StateDict named;
  cell(named, "low.", 5, 7);
  cell(named, "high.", 7, 7);
  EXPECT_THAT(named.Error(), HasSubstr("2 recurrent stacks (\"high\", \"low\"): --rnn says which "
                                       "one is served, or as --rnn A,B in which order"));
  const TorchModel stacked = named.Model({.rnn_prefix = "low,high"});
  EXPECT_EQ(stacked.layers[1].forward.weight_hh, "high.weight_hh");
  EXPECT_THAT(named.Error({.rnn_prefix = "high,low"}),
              HasSubstr("\"low.weight_ih\" is [28, 5], expected [28, 7]"));
  EXPECT_THAT(named.Error({.rnn_prefix = "low,none"}), HasSubstr("\"none.weight_ih\" is missing"));
  StateDict between = StateDict().Add("0.weight", {30, 5});  // a list of an embedding and a cell
  cell(between, "1.", 5, 7);
  EXPECT_THAT(between.Error(), HasSubstr("\"0.weight_hh\" and \"0.weight_ih\" must be there"));
  EXPECT_EQ(between.Model({.rnn_prefix = "1"}).layers[0].forward.weight_hh, "1.weight_hh");
  EXPECT_EQ(between.Model({.rnn_prefix = "1"}).vocabulary, 30);
}

// Nothing but their widths says that cells of a list lie on each other; where all are alike they may be two directions.
TEST(TorchNamesTest, CellsOfAListThatMayLieSideBySideAreAskedFor) {
  const auto cells = [](int64_t d, int64_t h) {
    StateDict list;
    for (const int l : {0, 1}) {
      const std::string name = "cells." + std::to_string(l);
      list.Add(name + ".weight_ih", {4 * h, l == 0 ? d : h}).Add(name + ".weight_hh", {4 * h, h});
    }
    return list;
  };
  EXPECT_EQ(cells(5, 7).Model().layers.size(), 2u);
  EXPECT_EQ(
      cells(7, 7).Error(),
      "\"cells.0\" and \"cells.1\" each read 7 numbers and leave 7: they may lie on each other "
      "or side by side; --rnn cells.0,cells.1 serves them on each other");
  EXPECT_EQ(cells(7, 7).Model({.rnn_prefix = "cells.0,cells.1"}).layers.size(), 2u);
  EXPECT_THAT(cells(7, 7).Error({.rnn_prefix = "cells"}), HasSubstr("or side by side"));
}

TEST(TorchNamesTest, WhatIsNoRecurrentModelIsSaidSo) {
  EXPECT_THAT(StateDict().Add("fc.weight", {3, 7}).Error(), HasSubstr("no recurrent weights"));
  EXPECT_THAT(StateDict().Rnn("a.", 4, 5, 7, 1, false).Error({.rnn_prefix = "b"}),
              HasSubstr("\"b.weight_ih_l0\""));
  EXPECT_THAT(StateDict().Rnn("", 4, 5, 7, 1, false).Add("weight_hr_l0", {3, 7}).Error(),
              HasSubstr("\"weight_hh_l0\" is [28, 7], expected [28, 3]"));
  EXPECT_THAT(StateDict().Add("weight_ih_l0", {28, 5}).Error(), HasSubstr("\"weight_hh_l0\""));
}

}  // namespace
}  // namespace cellbatch

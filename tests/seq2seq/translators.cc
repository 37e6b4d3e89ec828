#include "tests/seq2seq/translators.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cells/check.h"
#include "cells/model.h"
#include "cells/weights/safetensors.h"
#include "fmt/format.h"
#include "server/repository/model_loader.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;

  float& at(int64_t row, int64_t column) {
    return values[static_cast<size_t>(row * shape.back() + column)];
  }
};

Tensor Zeros(std::string name, std::vector<int64_t> shape) {
  int64_t size = 1;
  for (const int64_t d : shape) size *= d;
  return {std::move(name), std::move(shape), std::vector<float>(static_cast<size_t>(size))};
}

void WriteFolder(const std::string& repository, const std::string& name, const std::string& config,
                 const std::vector<Tensor>& tensors) {
  const std::string folder = repository + "/" + name;
  std::filesystem::create_directories(folder + "/1");
  std::ofstream(folder + "/config.textproto") << config;
  std::vector<SafetensorsSource> sources;
  for (const Tensor& t : tensors) sources.push_back({t.name, t.shape, t.values});
  const absl::Status written = WriteSafetensors(folder + "/1/weights.safetensors", sources);
  Check(written.ok(), written.ToString());
}

// A cell type whose parameters are tensors named "type.parameter".
std::string TypeText(const std::string& name, const std::string& cell, const std::string& reads,
                     const std::vector<std::string>& parameters, const std::string& more = "") {
  std::string text =
      fmt::format("cell_types {{\n  name: \"{}\" cell: \"{}\" {}\n", name, cell, more);
  if (!reads.empty()) {
    text += fmt::format("  reads {{ input: \"x\" through: \"{}\" }}\n", reads);
  }
  for (const std::string& p : parameters) {
    const std::string tensor = p == "embed/table" ? "table" : p;
    text += fmt::format("  parameters {{ name: \"{}\" tensors: \"{}.{}\" }}\n", p, name, tensor);
  }
  return text + "}\n";
}

std::string BridgeText(const std::string& cell, int32_t first_word) {
  return TypeText("bridge", cell, "", {},
                  fmt::format("sizes {{ key: \"BOS\" value: {} }}", first_word));
}

const std::vector<std::string> kDecoderParameters = {"table", "W", "U", "b", "W_out", "b_out"};
const std::vector<std::string> kDecoder2Parameters = {"table", "W0", "U0",    "b0",   "W1",
                                                      "U1",    "b1", "W_out", "b_out"};

// Weights that no test needs to be zero should not be: products of zeros hide mistakes.
void AddNoise(std::vector<Tensor>& tensors) {
  uint64_t seed = 1;
  for (Tensor& t : tensors) {
    const std::vector<float> noise =
        testing::RandomFloats(static_cast<int64_t>(t.values.size()), seed++, /*scale=*/0.004f);
    for (size_t i = 0; i < noise.size(); ++i) t.values[i] += noise[i];
  }
}

constexpr float kSure = 20;  // a gate that is open, or closed by its negative

}  // namespace

void AddCounterModel(const std::string& repository, const CounterModel& model) {
  const int64_t units = model.largest + 1, words = model.largest + 2, first = words - 1;
  const int64_t i = 0, f = units, g = 2 * units, o = 3 * units;  // rows of the gates
  // Encoder: the state becomes the word read, one unit hot; what was there is forgotten.
  Tensor table = Zeros("encoder.table", {units, units});
  Tensor w = Zeros("encoder.W", {4 * units, units}), b = Zeros("encoder.b", {1, 4 * units});
  for (int64_t k = 0; k < units; ++k) {
    table.at(k, k) = 1;
    w.at(g + k, k) = kSure;
    b.at(0, i + k) = kSure;
    b.at(0, f + k) = -kSure;
    b.at(0, o + k) = kSure;
  }
  // Decoder: after word k the state is k - 1; after the first word it is the encoder's still.
  Tensor d_table = Zeros("decoder.table", {words, words});
  Tensor d_w = Zeros("decoder.W", {4 * units, words}), d_b = b;
  Tensor out = Zeros("decoder.W_out", {words, units});
  d_b.name = "decoder.b";
  for (int64_t k = 0; k < words; ++k) d_table.at(k, k) = 1;
  for (int64_t k = 0; k < units; ++k) {
    if (k > 0) d_w.at(g + k - 1, k) = kSure;
    d_w.at(i + k, first) = -2 * kSure;
    d_w.at(f + k, first) = 2 * kSure;
    out.at(k, k) = 1;
  }
  for (Tensor* bias : {&b, &d_b}) bias->shape = {4 * units};
  std::vector<Tensor> tensors = {table,
                                 w,
                                 Zeros("encoder.U", {4 * units, units}),
                                 b,
                                 d_table,
                                 d_w,
                                 Zeros("decoder.U", {4 * units, units}),
                                 d_b,
                                 out,
                                 Zeros("decoder.b_out", {words})};
  AddNoise(tensors);
  WriteFolder(repository, model.name,
              TypeText("encoder", "lstm", "embed", {"embed/table", "W", "U", "b"}) +
                  BridgeText("bridge_lstm", static_cast<int32_t>(first)) +
                  TypeText("decoder", "decoder_lstm", "", kDecoderParameters, "priority: 1") +
                  fmt::format("encoder_decoder {{\n  layers {{ forward: \"encoder\" }}\n  bridge: "
                              "\"bridge\"\n  decoder: \"decoder\"\n  end_of_sequence: 0\n  "
                              "max_decode_steps: {}\n}}\n",
                              model.max_decode_steps),
              tensors);
}

namespace {

// By name, with their shapes; values from the model's seed.
std::vector<Tensor> RandomTensors(const RandomTranslator& m) {
  const int64_t h = m.hidden, d = m.width;
  std::vector<Tensor> tensors;
  const auto add = [&](std::string name, std::vector<int64_t> shape) {
    Tensor t = Zeros(std::move(name), std::move(shape));
    const float scale = 2.0f / std::sqrt(static_cast<float>(t.shape.back()));
    t.values = testing::RandomFloats(static_cast<int64_t>(t.values.size()),
                                     m.seed * 1000 + tensors.size(), scale);
    tensors.push_back(std::move(t));
  };
  add("encoder0.table", {m.source_words, d});
  for (int32_t l = 0; l < m.layers; ++l) {
    const std::string layer = fmt::format("encoder{}.", l);
    add(layer + "W", {4 * h, l == 0 ? d : h});
    add(layer + "U", {4 * h, h});
    add(layer + "b", {4 * h});
  }
  add("decoder.table", {m.target_words, d});
  for (int32_t l = 0; l < m.layers; ++l) {
    const std::string number = m.layers == 1 ? "" : std::to_string(l);
    add("decoder.W" + number, {4 * h, l == 0 ? d : h});
    add("decoder.U" + number, {4 * h, h});
    add("decoder.b" + number, {4 * h});
  }
  add("decoder.W_out", {m.target_words, h});
  add("decoder.b_out", {m.target_words});
  return tensors;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void AddRandomTranslator(const std::string& repository, const RandomTranslator& m) {
  Check(m.layers == 1 || m.layers == 2, "translators have one or two layers");
  std::string text = TypeText("encoder0", "lstm", "embed", {"embed/table", "W", "U", "b"});
  std::string layers = "layers { forward: \"encoder0\" } ";
  if (m.layers == 2) {
    text += TypeText("encoder1", "lstm", "below", {"W", "U", "b"});
    layers += "layers { forward: \"encoder1\" } ";
  }
  text += BridgeText(m.layers == 1 ? "bridge_lstm" : "bridge_lstm2", m.first_word);
  text += m.layers == 1 ? TypeText("decoder", "decoder_lstm", "", kDecoderParameters)
                        : TypeText("decoder", "decoder_lstm2", "", kDecoder2Parameters);
  text += fmt::format(
      "encoder_decoder {{ {}bridge: \"bridge\" decoder: \"decoder\" end_of_sequence: {} "
      "max_decode_steps: {} }}\n",
      layers, m.end_of_sequence, m.max_decode_steps);
  WriteFolder(repository, m.name, text, RandomTensors(m));
}

TranslatorReference::TranslatorReference(const RandomTranslator& model,
                                         const std::vector<int32_t>& source)
    : model_(model) {
  for (Tensor& t : RandomTensors(model)) weights_[t.name] = std::move(t.values);
  const auto h = static_cast<size_t>(model.hidden);
  states_.assign(static_cast<size_t>(model.layers),
                 {std::vector<double>(h, 0.0), std::vector<double>(h, 0.0)});
  for (const int32_t word : source) {
    std::vector<double> x = Row("encoder0.table", word);
    for (size_t l = 0; l < states_.size(); ++l) {
      Step(fmt::format("encoder{}.{{}}", l), x, states_[l]);
      x = states_[l].h;
    }
  }
}

std::vector<double> TranslatorReference::Row(const std::string& table, int32_t row) const {
  const auto begin = weights_.at(table).begin() + ptrdiff_t{row} * model_.width;
  return {begin, begin + model_.width};
}

// i, f, g, o of PyTorch. `layer`: a pattern for the names of its weights.
void TranslatorReference::Step(const std::string& layer, const std::vector<double>& x,
                               State& state) const {
  const std::vector<float>& w = weights_.at(fmt::format(fmt::runtime(layer), "W"));
  const std::vector<float>& u = weights_.at(fmt::format(fmt::runtime(layer), "U"));
  const std::vector<float>& b = weights_.at(fmt::format(fmt::runtime(layer), "b"));
  const size_t h = state.h.size();
  std::vector<double> gates(4 * h);
  for (size_t r = 0; r < gates.size(); ++r) {
    gates[r] = b[r];
    for (size_t k = 0; k < x.size(); ++k) gates[r] += double{w[r * x.size() + k]} * x[k];
    for (size_t k = 0; k < h; ++k) gates[r] += double{u[r * h + k]} * state.h[k];
  }
  for (size_t k = 0; k < h; ++k) {
    state.c[k] =
        Sigmoid(gates[h + k]) * state.c[k] + Sigmoid(gates[k]) * std::tanh(gates[2 * h + k]);
    state.h[k] = Sigmoid(gates[3 * h + k]) * std::tanh(state.c[k]);
  }
}

std::vector<double> TranslatorReference::Scores(int32_t word) {
  std::vector<double> x = Row("decoder.table", word);
  for (size_t l = 0; l < states_.size(); ++l) {
    const std::string number = states_.size() == 1 ? "" : std::to_string(l);
    Step("decoder.{}" + number, x, states_[l]);
    x = states_[l].h;
  }
  const std::vector<float>& w = weights_.at("decoder.W_out");
  const std::vector<float>& b = weights_.at("decoder.b_out");
  std::vector<double> scores(b.begin(), b.end());
  for (size_t r = 0; r < scores.size(); ++r) {
    for (size_t k = 0; k < x.size(); ++k) scores[r] += double{w[r * x.size() + k]} * x[k];
  }
  return scores;
}

std::shared_ptr<const Model> LoadTranslator(const std::string& repository, const std::string& name,
                                            int32_t id) {
  auto model = LoadModel(repository + "/" + name, name, 1, ModelId(id), LoaderLimits{});
  Check(model.ok(), model.status().ToString());
  return *std::move(model);
}

}  // namespace cellbatch

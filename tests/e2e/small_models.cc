#include "tests/e2e/small_models.h"

#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <random>

#include "cells/check.h"
#include "cells/weights/safetensors.h"
#include "server/convert/import_torch.h"

namespace cellbatch {

namespace {

// [rows, columns] of a named weight, the same whenever it is asked for.
std::vector<float> Weight(const SmallModel& model, const std::string& name, int64_t size) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(model.name + name)));
  std::uniform_real_distribution<float> draw(-1, 1);
  const float scale = 1 / std::sqrt(static_cast<float>(model.hidden));
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = scale * draw(random);
  return values;
}

struct Named {
  std::string name;
  std::vector<int64_t> shape;
};

std::vector<Named> Tensors(const SmallModel& model) {
  const int64_t gates = int64_t{model.gru ? 3 : 4} * model.hidden;
  std::vector<Named> tensors = {{"rnn.weight_ih_l0", {gates, model.width}},
                                {"rnn.weight_hh_l0", {gates, model.hidden}},
                                {"rnn.bias_ih_l0", {gates}},
                                {"rnn.bias_hh_l0", {gates}}};
  if (model.vocabulary > 0) {
    tensors.insert(tensors.begin(), {"embedding.weight", {model.vocabulary, model.width}});
  }
  return tensors;
}

std::vector<float> WeightNamed(const SmallModel& model, const std::string& name) {
  for (const Named& tensor : Tensors(model)) {
    if (tensor.name != name) continue;
    int64_t size = 1;
    for (const int64_t dim : tensor.shape) size *= dim;
    return Weight(model, name, size);
  }
  return {};
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

std::string NewRepository() {
  const char* folder = getenv("TEST_TMPDIR");
  std::string name = std::string(folder == nullptr ? "/tmp" : folder) + "/models-XXXXXX";
  Check(mkdtemp(name.data()) != nullptr, "no folder can be made for the test's models");
  return name;
}

void AddModel(const std::string& repository, const SmallModel& model) {
  std::vector<std::vector<float>> values;
  std::vector<SafetensorsSource> sources;
  const std::vector<Named> tensors = Tensors(model);
  for (const Named& tensor : tensors) values.push_back(WeightNamed(model, tensor.name));
  for (size_t i = 0; i < tensors.size(); ++i) {
    sources.push_back({tensors[i].name, tensors[i].shape, values[i]});
  }
  const std::string file = repository + "-" + model.name + ".safetensors";
  Check(WriteSafetensors(file, sources).ok(), "the test's weights cannot be written");
  ImportOptions options;
  options.from = file;
  options.repository = repository;
  options.name = model.name;
  Check(ImportTorch(options).ok(), "the test's model cannot be converted");
  std::filesystem::remove(
      file);  // it lies beside the repository, which is all that anybody knows of
}

std::vector<double> LstmReference(const SmallModel& model, const std::vector<int32_t>& tokens) {
  const auto h_size = static_cast<size_t>(model.hidden), width = static_cast<size_t>(model.width);
  const std::vector<float> table = WeightNamed(model, "embedding.weight");
  const std::vector<float> w = WeightNamed(model, "rnn.weight_ih_l0");
  const std::vector<float> u = WeightNamed(model, "rnn.weight_hh_l0");
  const std::vector<float> b_in = WeightNamed(model, "rnn.bias_ih_l0");
  const std::vector<float> b_rec = WeightNamed(model, "rnn.bias_hh_l0");
  std::vector<double> h(h_size), c(h_size), gates(4 * h_size);
  for (const int32_t token : tokens) {
    for (size_t g = 0; g < gates.size(); ++g) {
      double sum = double{b_in[g]} + b_rec[g];
      for (size_t i = 0; i < width; ++i) {
        sum += double{w[g * width + i]} * table[static_cast<size_t>(token) * width + i];
      }
      for (size_t i = 0; i < h_size; ++i) sum += double{u[g * h_size + i]} * h[i];
      gates[g] = sum;
    }
    for (size_t i = 0; i < h_size; ++i) {
      c[i] =
          Sigmoid(gates[h_size + i]) * c[i] + Sigmoid(gates[i]) * std::tanh(gates[2 * h_size + i]);
      h[i] = Sigmoid(gates[3 * h_size + i]) * std::tanh(c[i]);
    }
  }
  return h;
}

}  // namespace cellbatch

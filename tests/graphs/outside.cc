#include "tests/graphs/outside.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "cells/check.h"
#include "cells/weights/safetensors.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

void Run(const std::string& command) {
  Check(::system(command.c_str()) == 0, "failed: " + command);
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void AddProduct(const std::vector<float>& w, const std::vector<double>& x, std::vector<double>& y) {
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t k = 0; k < x.size(); ++k) y[r] += double{w[r * x.size() + k]} * x[k];
  }
}

}  // namespace

std::string InstallHeaders() {
  const char* base = getenv("TEST_TMPDIR");
  std::string folder = std::string(base == nullptr ? "/tmp" : base) + "/outside-XXXXXX";
  Check(mkdtemp(folder.data()) != nullptr, "no folder for the installed headers");
  Run("deploy/install_headers " + folder + " > " + folder + "/log");
  return folder;
}

void CompileLibrary(const std::string& prefix, const std::string& file, const std::string& source,
                    const std::string& library) {
  const std::string path = prefix + "/" + file;
  std::ofstream(path) << source;
  const char* compiler = file.ends_with(".c") ? "gcc -std=c99 -pedantic" : "g++ -std=c++17";
  Run(fmt::format("{} -Wall -Wextra -Werror -shared -fPIC -I{}/include {} -o {}", compiler, prefix,
                  path, library));
}

OutsideModel::OutsideModel(const std::string& prefix, const std::string& folder,
                           const std::string& example, const std::string& code,
                           std::vector<Tensor> tensors)
    : tensors_(std::move(tensors)) {
  fs::create_directories(folder + "/1");
  fs::create_directories(prefix + "/" + example);
  for (const std::string& file :
       {std::string("build"), code + ".cc", std::string("config.textproto")}) {
    fs::copy_file(fs::canonical(fmt::format("deploy/examples/{}/{}", example, file)),
                  fmt::format("{}/{}/{}", prefix, example, file),
                  fs::copy_options::overwrite_existing);
  }
  fs::copy_file(fmt::format("{}/{}/config.textproto", prefix, example),
                folder + "/config.textproto", fs::copy_options::overwrite_existing);
  Run(fmt::format("{0}/{1}/build {0} {2}/{3}.so", prefix, example, folder, code));

  std::mt19937 random(7);
  std::uniform_real_distribution<float> draw(-0.6f, 0.6f);
  std::vector<SafetensorsSource> sources;
  for (Tensor& tensor : tensors_) {
    size_t size = 1;
    for (const long d : tensor.dims) size *= static_cast<size_t>(d);
    tensor.values.resize(size);
    for (float& value : tensor.values) value = draw(random);
    sources.push_back({tensor.name, {tensor.dims.begin(), tensor.dims.end()}, tensor.values});
  }
  const absl::Status written = WriteSafetensors(folder + "/1/weights.safetensors", sources);
  Check(written.ok(), written.ToString());
}

const std::vector<float>& OutsideModel::Find(const std::string& tensor) const {
  for (const Tensor& t : tensors_) {
    if (t.name == tensor) return t.values;
  }
  Check(false, "no tensor " + tensor);
  return tensors_[0].values;
}

void OutsideModel::Step(const std::string& name, const std::vector<double>& x,
                        std::vector<double>& h, std::vector<double>& c) const {
  const std::vector<float>& bias = Find(name + ".bias");
  std::vector<double> gates(bias.begin(), bias.end());
  AddProduct(Find(name + ".weight_ih"), x, gates);
  AddProduct(Find(name + ".weight_hh"), h, gates);
  const size_t units = h.size();
  for (size_t u = 0; u < units; ++u) {
    c[u] = Sigmoid(gates[units + u]) * c[u] + Sigmoid(gates[u]) * std::tanh(gates[2 * units + u]);
    h[u] = Sigmoid(gates[3 * units + u]) * std::tanh(c[u]);
  }
}

std::vector<double> OutsideModel::Embedded(int token) const {
  const auto width = static_cast<size_t>(tensors_[0].dims[1]);
  const auto row = Find("embedding.weight").begin() + token * static_cast<long>(width);
  return {row, row + static_cast<long>(width)};
}

std::vector<double> OutsideModel::Head(const std::vector<double>& x) const {
  const std::vector<float>& bias = Find("head.bias");
  std::vector<double> y(bias.begin(), bias.end());
  AddProduct(Find("head.weight"), x, y);
  return y;
}

DilatedModel::DilatedModel(const std::string& prefix, const std::string& folder)
    : OutsideModel(prefix, folder, "unfolder", "dilated",
                   {{"embedding.weight", {kVocabulary, kWidth}, {}},
                    {"layer0.weight_ih", {4 * kHidden, kWidth}, {}},
                    {"layer0.weight_hh", {4 * kHidden, kHidden}, {}},
                    {"layer0.bias", {4 * kHidden}, {}},
                    {"layer1.weight_ih", {4 * kHidden, kHidden}, {}},
                    {"layer1.weight_hh", {4 * kHidden, kHidden}, {}},
                    {"layer1.bias", {4 * kHidden}, {}},
                    {"layer2.weight_ih", {4 * kHidden, kHidden}, {}},
                    {"layer2.weight_hh", {4 * kHidden, kHidden}, {}},
                    {"layer2.bias", {4 * kHidden}, {}},
                    {"head.weight", {kClasses, kHidden}, {}},
                    {"head.bias", {kClasses}, {}}}) {}

DilatedModel::Answers DilatedModel::Reference(const std::vector<int>& tokens) const {
  std::vector<std::vector<double>> below;
  for (const int token : tokens) below.push_back(Embedded(token));
  for (int l = 0; l < 3; ++l) {
    const size_t dilation = size_t{1} << l;
    std::vector<std::vector<double>> h, c;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const std::vector<double> zeros(kHidden);
      h.push_back(t >= dilation ? h[t - dilation] : zeros);
      c.push_back(t >= dilation ? c[t - dilation] : zeros);
      Step(fmt::format("layer{}", l), below[t], h.back(), c.back());
    }
    below = h;
  }
  Answers answers{.y = Head(below.back()), .h = {}};
  for (const auto& row : below) answers.h.insert(answers.h.end(), row.begin(), row.end());
  return answers;
}

ReaderModel::ReaderModel(const std::string& prefix, const std::string& folder)
    : OutsideModel(prefix, folder, "growing", "reader",
                   {{"embedding.weight", {kVocabulary, kWidth}, {}},
                    {"layer.weight_ih", {4 * kHidden, kWidth}, {}},
                    {"layer.weight_hh", {4 * kHidden, kHidden}, {}},
                    {"layer.bias", {4 * kHidden}, {}},
                    {"head.weight", {kClasses, kHidden}, {}},
                    {"head.bias", {kClasses}, {}}}) {}

ReaderModel::Answers ReaderModel::Reference(const std::vector<int>& tokens) const {
  Answers answers;
  std::vector<double> h(kHidden), c(kHidden);
  for (const int token : tokens) {
    Step("layer", Embedded(token), h, c);
    ++answers.read;
    const bool end = answers.read == static_cast<int>(tokens.size());
    if (answers.read % kPiece != 0 && !end) continue;
    answers.scores = Head(h);
    std::vector<double> sorted = answers.scores;
    std::ranges::sort(sorted);
    const double margin = sorted[kClasses - 1] - sorted[kClasses - 2];
    if (!end) answers.closest = std::min(answers.closest, std::abs(margin - kMargin));
    if (margin >= kMargin) break;
  }
  return answers;
}

}  // namespace cellbatch

#include "tests/graphs/outside.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

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

DilatedModel::DilatedModel(const std::string& prefix, const std::string& folder) {
  fs::create_directories(folder + "/1");
  fs::create_directories(prefix + "/example");
  for (const char* file : {"build", "dilated.cc", "config.textproto"}) {
    fs::copy_file(fs::canonical(fmt::format("deploy/examples/unfolder/{}", file)),
                  fmt::format("{}/example/{}", prefix, file), fs::copy_options::overwrite_existing);
  }
  fs::copy_file(prefix + "/example/config.textproto", folder + "/config.textproto");
  Run(fmt::format("{0}/example/build {0} {1}/dilated.so", prefix, folder));

  std::mt19937 random(7);
  std::uniform_real_distribution<float> draw(-0.6f, 0.6f);
  const auto add = [&](const std::string& name, std::vector<long> dims) {
    size_t size = 1;
    for (const long d : dims) size *= static_cast<size_t>(d);
    Tensor& tensor = tensors_.emplace_back(Tensor{name, std::move(dims), std::vector<float>(size)});
    for (float& value : tensor.values) value = draw(random);
  };
  add("embedding.weight", {kVocabulary, kWidth});
  for (int l = 0; l < 3; ++l) {
    add(fmt::format("layer{}.weight_ih", l), {4 * kHidden, l == 0 ? kWidth : kHidden});
    add(fmt::format("layer{}.weight_hh", l), {4 * kHidden, kHidden});
    add(fmt::format("layer{}.bias", l), {4 * kHidden});
  }
  add("head.weight", {kClasses, kHidden});
  add("head.bias", {kClasses});
  std::vector<SafetensorsSource> sources;
  for (const Tensor& t : tensors_) {
    sources.push_back({t.name, {t.dims.begin(), t.dims.end()}, t.values});
  }
  const absl::Status written = WriteSafetensors(folder + "/1/weights.safetensors", sources);
  Check(written.ok(), written.ToString());
}

const DilatedModel::Tensor& DilatedModel::Find(const std::string& name) const {
  for (const Tensor& t : tensors_) {
    if (t.name == name) return t;
  }
  Check(false, "no tensor " + name);
  return tensors_[0];
}

DilatedModel::Answers DilatedModel::Reference(const std::vector<int>& tokens) const {
  const std::vector<float>& table = Find("embedding.weight").values;
  std::vector<std::vector<double>> below, h, c;
  for (const int token : tokens) {
    const auto row = table.begin() + token * kWidth;
    below.emplace_back(row, row + kWidth);
  }
  for (int l = 0; l < 3; ++l) {
    const size_t dilation = size_t{1} << l;
    h.assign(tokens.size(), std::vector<double>(kHidden));
    c = h;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const std::vector<float>& bias = Find(fmt::format("layer{}.bias", l)).values;
      std::vector<double> gates(bias.begin(), bias.end()), before(kHidden);
      AddProduct(Find(fmt::format("layer{}.weight_ih", l)).values, below[t], gates);
      if (t >= dilation) {
        before = c[t - dilation];
        AddProduct(Find(fmt::format("layer{}.weight_hh", l)).values, h[t - dilation], gates);
      }
      for (size_t u = 0; u < kHidden; ++u) {
        c[t][u] = Sigmoid(gates[kHidden + u]) * before[u] +
                  Sigmoid(gates[u]) * std::tanh(gates[2 * kHidden + u]);
        h[t][u] = Sigmoid(gates[3 * kHidden + u]) * std::tanh(c[t][u]);
      }
    }
    below = h;
  }
  Answers answers;
  const std::vector<float>& bias = Find("head.bias").values;
  answers.y.assign(bias.begin(), bias.end());
  AddProduct(Find("head.weight").values, h.back(), answers.y);
  for (const auto& row : h) answers.h.insert(answers.h.end(), row.begin(), row.end());
  return answers;
}

}  // namespace cellbatch

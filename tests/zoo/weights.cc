#include "tests/zoo/weights.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cells/check.h"
#include "cells/weights/safetensors.h"

namespace cellbatch::zoo {
namespace {

class Numbers {
 public:
  Numbers(uint64_t seed, const std::string& name) {
    for (const unsigned char byte : fmt::format("{}/{}", seed, name)) {
      state_ = (state_ ^ byte) * 1099511628211ull;
    }
  }
  // In [-1, 1), a multiple of 2^-23.
  float Next() {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    const auto whole = static_cast<int64_t>((z ^ (z >> 31)) >> 40) - (int64_t{1} << 23);
    return std::ldexp(static_cast<float>(whole), -23);
  }

 private:
  uint64_t state_ = 14695981039346656037ull;
};

}  // namespace

void WeightSet::Add(const std::string& name, std::vector<int64_t> shape, double scale) {
  int64_t size = 1;
  for (const int64_t d : shape) size *= d;
  std::vector<float> values(static_cast<size_t>(size));
  Numbers numbers(seed_, name);
  for (float& v : values) v = static_cast<float>(scale * static_cast<double>(numbers.Next()));
  tensors_.push_back({name, std::move(shape), std::move(values)});
}

void WeightSet::AddMatrix(const std::string& name, int64_t rows, int64_t columns, double gain) {
  Add(name, {rows, columns}, gain / std::sqrt(static_cast<double>(columns)));
}

void WeightSet::AddTable(const std::string& name, int64_t rows, int64_t columns) {
  Add(name, {rows, columns}, 1);
}

void WeightSet::AddBias(const std::string& name, int64_t size) { Add(name, {size}, 0.25); }

const WeightSet::Tensor& WeightSet::Find(const std::string& name) const {
  for (const Tensor& t : tensors_) {
    if (t.name == name) return t;
  }
  Check(false, fmt::format("the zoo's model has no tensor {}", name));
  return tensors_.front();
}

Mat WeightSet::M(const std::string& name) const {
  const Tensor& t = Find(name);
  Check(t.shape.size() == 2, "a matrix has two dimensions");
  return {static_cast<size_t>(t.shape[0]),
          static_cast<size_t>(t.shape[1]),
          {t.values.begin(), t.values.end()}};
}

Vec WeightSet::V(const std::string& name) const {
  const Tensor& t = Find(name);
  return {t.values.begin(), t.values.end()};
}

void WeightSet::Write(const std::string& path) const {
  std::vector<SafetensorsSource> sources;
  for (const Tensor& t : tensors_) sources.push_back({t.name, t.shape, t.values});
  Check(WriteSafetensors(path, sources).ok(), "the zoo's weights cannot be written");
}

}  // namespace cellbatch::zoo

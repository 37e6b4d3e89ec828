// The weights of a model of the zoo: named tensors from a stated generator, so that a test and a
// benchmark, on any machine, mean the same model. One thread.
//
// A tensor's values are drawn by splitmix64 from the FNV-1a hash of "seed/name": the upper 24 bits of
// each number as a multiple of 2^-23 in [-1, 1), times the tensor's scale (as tests/golden does).
#ifndef CELLBATCH_TESTS_ZOO_WEIGHTS_H_
#define CELLBATCH_TESTS_ZOO_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/zoo/reference_math.h"

namespace cellbatch::zoo {

class WeightSet {
 public:
  explicit WeightSet(uint64_t seed) : seed_(seed) {}

  // [rows, columns] within ±gain/sqrt(columns).
  void AddMatrix(const std::string& name, int64_t rows, int64_t columns, double gain = 1);
  void AddTable(const std::string& name, int64_t rows, int64_t columns);  // within ±1
  void AddBias(const std::string& name, int64_t size);                    // within ±1/4
  // Any shape within ±scale.
  void Add(const std::string& name, std::vector<int64_t> shape, double scale);

  // The numbers that the file will hold, in double. A name that is not there ends the program.
  Mat M(const std::string& name) const;
  Vec V(const std::string& name) const;

  // All of them, as weights.safetensors.
  void Write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  const Tensor& Find(const std::string& name) const;

  uint64_t seed_;
  std::vector<Tensor> tensors_;
};

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_WEIGHTS_H_

// One PyTorch module (or ONNX graph) of tests/golden: its weights and inputs, made as the Python side makes them
// (torch_cases.py), converted by cellbatch-convert's own code, and what PyTorch answered in double.
#ifndef CELLBATCH_TESTS_GOLDEN_TORCH_CASE_H_
#define CELLBATCH_TESTS_GOLDEN_TORCH_CASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/unfold/request_input.h"
#include "tests/golden/bound.h"

namespace cellbatch::golden {

struct TorchRun {
  int64_t length = 0;
  std::map<std::string, std::vector<double>> answers;  // by output
};

struct TorchTensor {
  std::string name;
  std::vector<int64_t> shape;
  int shift = 0;  // values are in [-1, 1) * 2^-shift
};

struct TorchCase {
  std::string name, nonlinearity;
  std::string onnx;  // the file that says it all, instead of the tensors
  uint64_t seed = 0;
  int64_t input = 0, vocabulary = 0;
  std::vector<TorchTensor> tensors;
  std::vector<TorchRun> runs;
};

// The cases of a file that torch_cases.py wrote.
absl::StatusOr<std::vector<TorchCase>> ReadTorchCases(const std::string& path);

// The model: its state_dict is written below `folder`, converted and loaded.
absl::StatusOr<std::shared_ptr<const Model>> ConvertTorchCase(const TorchCase& torch_case,
                                                              const std::string& folder,
                                                              ModelId id);

// The input of a sequence of that length: TOKENS or X, in memory that it owns.
class TorchInput {
 public:
  TorchInput(const TorchCase& torch_case, int64_t length);
  // Several in one message, with LENGTHS.
  explicit TorchInput(const std::vector<const TorchInput*>& sequences);
  TorchInput(const TorchInput&) = delete;
  TorchInput& operator=(const TorchInput&) = delete;
  // A request for these outputs, borrowing from this and from them.
  RequestInput Request(const std::vector<std::string>& outputs) const;

 private:
  int64_t length_ = 0, width_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<float> x_;
  std::vector<int32_t> lengths_;  // empty: one sequence
};

// A sealed graph for it.
absl::StatusOr<CellGraph> Unfolded(const Model& model, const RequestInput& input);

std::vector<double> Doubles(const ReturnedTensor& tensor);  // of an FP32 tensor

}  // namespace cellbatch::golden

#endif  // CELLBATCH_TESTS_GOLDEN_TORCH_CASE_H_

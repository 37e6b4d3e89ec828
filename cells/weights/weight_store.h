// The weights of one model version: tensors of its .safetensors file as fp32 parameters, read once
// each and shared by the cell types that name them (both directions read one embedding).
//
// Loader's thread only; the Weights it hands out outlive it. Get costs one pass over the tensor.
#ifndef CELLBATCH_CELLS_WEIGHTS_WEIGHT_STORE_H_
#define CELLBATCH_CELLS_WEIGHTS_WEIGHT_STORE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_type.h"
#include "cells/weights/safetensors.h"

namespace cellbatch {

class WeightStore {
 public:
  // As SafetensorsFile::Open.
  static absl::StatusOr<WeightStore> Open(const std::string& path, uint64_t max_bytes);

  // The shape of what Get would give, [n] or [rows, columns]. INVALID_ARGUMENT names the tensor: not
  // there, no floats, not one or two dimensions, an empty one, or shapes to be added that differ.
  absl::StatusOr<std::vector<int64_t>> ShapeOf(absl::Span<const std::string> tensors,
                                               bool transposed) const;

  // The sum of `tensors`, element by element in the order given (PyTorch keeps two biases where most cells have
  // one), transposed if asked. NaN and infinities are refused by name and place. Throws TooLittleMemory before it takes any.
  absl::StatusOr<Weight> Get(absl::Span<const std::string> tensors, bool transposed);

  const SafetensorsFile& file() const { return file_; }

 private:
  explicit WeightStore(SafetensorsFile file) : file_(std::move(file)) {}
  absl::StatusOr<const SafetensorsEntry*> Find(const std::string& tensor) const;
  absl::Status AddTensor(const SafetensorsEntry& entry, absl::Span<float> sum) const;

  SafetensorsFile file_;
  // By what was asked: transposed or not, and the tensors, whose names may hold any letter.
  std::map<std::pair<bool, std::vector<std::string>>, Weight> made_;
};

// `rows` x `cols` zeros (or `cols` of them): a parameter that the model has no tensor for.
Weight ZeroWeight(Shape shape);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WEIGHTS_WEIGHT_STORE_H_

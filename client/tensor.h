// A tensor as it travels: a name, a datatype word of the protocol, a shape and raw little-endian
// bytes. Plain values, no threads, no gRPC.
//
//   Tensor tokens = Int32Tensor("TOKENS", {3}, {17, 4, 250});
//   absl::StatusOr<std::vector<float>> h = result.Find("OUTPUT")->AsFloats();

#ifndef CELLBATCH_CLIENT_TENSOR_H_
#define CELLBATCH_CLIENT_TENSOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

struct Tensor {
  std::string name;
  std::string datatype;  // "INT32", "FP32", "BYTES"…: upper-case words of the protocol
  std::vector<int64_t> shape;
  std::string bytes;  // row-major; BYTES: a 4-byte length before each element

  // The values as numbers. INVALID_ARGUMENT for a datatype that does not hold them, or when bytes
  // and shape disagree. AsDoubles takes every numeric datatype.
  absl::StatusOr<std::vector<float>> AsFloats() const;
  absl::StatusOr<std::vector<int32_t>> AsInts() const;
  absl::StatusOr<std::vector<double>> AsDoubles() const;
  absl::StatusOr<std::vector<std::string>> AsTexts() const;
};

// That the values fill the shape is the caller's promise: broken, the process ends.
Tensor Int32Tensor(std::string name, std::vector<int64_t> shape, const std::vector<int32_t>& data);
Tensor FloatTensor(std::string name, std::vector<int64_t> shape, const std::vector<float>& data);
Tensor TextTensor(std::string name, std::vector<int64_t> shape,
                  const std::vector<std::string>& data);

// Bytes of one element; 0 for BYTES (each its own length) and for words the protocol does not have.
int64_t ElementBytes(std::string_view datatype);

// How many elements a shape holds; INVALID_ARGUMENT for a negative dimension or a product beyond
// what memory can address.
absl::StatusOr<int64_t> ElementCount(const std::vector<int64_t>& shape);

// A numeric tensor from decimal values: each must be exact in the datatype's range.
absl::StatusOr<Tensor> TensorFromNumbers(std::string name, std::string datatype,
                                         std::vector<int64_t> shape,
                                         const std::vector<double>& values);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TENSOR_H_

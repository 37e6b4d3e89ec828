#include "client/tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol's bytes are used in place");

template <typename T>
std::string BytesOf(const std::vector<T>& data) {
  return std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T));
}

template <typename To, typename From>
std::vector<To> Convert(const std::string& bytes) {
  std::vector<To> values(bytes.size() / sizeof(From));
  for (size_t i = 0; i < values.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<To>(value);
  }
  return values;
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float FromFp16(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 31;
  const float fraction = static_cast<float>(bits & 1023);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024.0f + fraction, exponent - 25);
}

absl::Status CheckFilled(const Tensor& tensor) {
  const int64_t element = ElementBytes(tensor.datatype);
  if (element == 0) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: datatype {} does not hold numbers", tensor.name, tensor.datatype));
  }
  const auto count = ElementCount(tensor.shape);
  if (!count.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: {}", tensor.name, std::string(count.status().message())));
  }
  if (static_cast<int64_t>(tensor.bytes.size()) != *count * element) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: {} bytes where its shape holds {} elements of {} bytes",
                    tensor.name, tensor.bytes.size(), *count, element));
  }
  return absl::OkStatus();
}

std::vector<double> SmallFloats(const std::string& bytes, float (*decode)(uint16_t)) {
  std::vector<double> values;
  for (uint16_t bits : Convert<uint16_t, uint16_t>(bytes)) {
    values.push_back(decode(bits));
  }
  return values;
}

std::vector<double> Numbers(std::string_view datatype, const std::string& bytes) {
  if (datatype == "FP32") return Convert<double, float>(bytes);
  if (datatype == "FP64") return Convert<double, double>(bytes);
  if (datatype == "INT8") return Convert<double, int8_t>(bytes);
  if (datatype == "INT16") return Convert<double, int16_t>(bytes);
  if (datatype == "INT32") return Convert<double, int32_t>(bytes);
  if (datatype == "INT64") return Convert<double, int64_t>(bytes);
  if (datatype == "UINT16") return Convert<double, uint16_t>(bytes);
  if (datatype == "UINT32") return Convert<double, uint32_t>(bytes);
  if (datatype == "UINT64") return Convert<double, uint64_t>(bytes);
  if (datatype == "BF16") return SmallFloats(bytes, FromBf16);
  if (datatype == "FP16") return SmallFloats(bytes, FromFp16);
  return Convert<double, uint8_t>(bytes);  // UINT8, BOOL
}

// The bytes of the values as T; false where one does not fit.
template <typename T>
bool Encode(const std::vector<double>& values, std::string& bytes) {
  for (double value : values) {
    if constexpr (std::is_integral_v<T>) {
      // 2^63 and 2^64 are doubles, the largest integers below them are not.
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (value != std::floor(value) || value >= end ||
          value < static_cast<double>(std::numeric_limits<T>::lowest())) {
        return false;
      }
    }
    const T element = static_cast<T>(value);
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isinf(element) && !std::isinf(value)) return false;
    }
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(T));
  }
  return true;
}

bool EncodeAs(std::string_view datatype, const std::vector<double>& values, std::string& bytes) {
  if (datatype == "FP32") return Encode<float>(values, bytes);
  if (datatype == "FP64") return Encode<double>(values, bytes);
  if (datatype == "INT8") return Encode<int8_t>(values, bytes);
  if (datatype == "INT16") return Encode<int16_t>(values, bytes);
  if (datatype == "INT32") return Encode<int32_t>(values, bytes);
  if (datatype == "INT64") return Encode<int64_t>(values, bytes);
  if (datatype == "UINT8" || datatype == "BOOL") return Encode<uint8_t>(values, bytes);
  if (datatype == "UINT16") return Encode<uint16_t>(values, bytes);
  if (datatype == "UINT32") return Encode<uint32_t>(values, bytes);
  if (datatype == "UINT64") return Encode<uint64_t>(values, bytes);
  return false;
}

}  // namespace

int64_t ElementBytes(std::string_view datatype) {
  constexpr std::pair<std::string_view, int64_t> kSizes[] = {
      {"BOOL", 1},  {"UINT8", 1},  {"INT8", 1},  {"UINT16", 2}, {"INT16", 2},
      {"FP16", 2},  {"BF16", 2},   {"INT32", 4}, {"UINT32", 4}, {"FP32", 4},
      {"INT64", 8}, {"UINT64", 8}, {"FP64", 8},
  };
  for (const auto& [word, bytes] : kSizes) {
    if (word == datatype) {
      return bytes;
    }
  }
  return 0;
}

absl::StatusOr<int64_t> ElementCount(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 56;
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) {
      return absl::InvalidArgumentError(fmt::format("a shape has the dimension {}", dim));
    }
    empty |= dim == 0;
    if (dim != 0 && count > kMost / dim) {
      return absl::InvalidArgumentError("a shape holds more elements than memory can address");
    }
    count *= dim == 0 ? 1 : dim;
  }
  return empty ? 0 : count;
}

absl::StatusOr<std::vector<double>> Tensor::AsDoubles() const {
  if (absl::Status filled = CheckFilled(*this); !filled.ok()) {
    return filled;
  }
  return Numbers(datatype, bytes);
}

absl::StatusOr<std::vector<float>> Tensor::AsFloats() const {
  if (absl::Status filled = CheckFilled(*this); !filled.ok()) {
    return filled;
  }
  if (datatype != "FP32") {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: datatype {} where FP32 was wanted", name, datatype));
  }
  return Convert<float, float>(bytes);
}

absl::StatusOr<std::vector<int32_t>> Tensor::AsInts() const {
  if (absl::Status filled = CheckFilled(*this); !filled.ok()) {
    return filled;
  }
  if (datatype != "INT32") {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: datatype {} where INT32 was wanted", name, datatype));
  }
  return Convert<int32_t, int32_t>(bytes);
}

absl::StatusOr<std::vector<std::string>> Tensor::AsTexts() const {
  if (datatype != "BYTES") {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: datatype {} where BYTES was wanted", name, datatype));
  }
  std::vector<std::string> texts;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    uint32_t length = 0;
    if (rest.size() < sizeof(length)) {
      return absl::InvalidArgumentError(fmt::format("tensor {}: ends inside a length", name));
    }
    std::memcpy(&length, rest.data(), sizeof(length));
    rest.remove_prefix(sizeof(length));
    if (rest.size() < length) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: element {} claims {} bytes, {} are left", name, texts.size(),
                      length, rest.size()));
    }
    texts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return texts;
}

namespace {

void CheckCount(const std::vector<int64_t>& shape, size_t values) {
  const auto count = ElementCount(shape);
  if (!count.ok() || *count != static_cast<int64_t>(values)) {
    std::fprintf(stderr, "client/tensor: %zu values do not fill the shape they came with\n",
                 values);
    std::abort();
  }
}

}  // namespace

Tensor Int32Tensor(std::string name, std::vector<int64_t> shape, const std::vector<int32_t>& data) {
  CheckCount(shape, data.size());
  return {std::move(name), "INT32", std::move(shape), BytesOf(data)};
}

Tensor FloatTensor(std::string name, std::vector<int64_t> shape, const std::vector<float>& data) {
  CheckCount(shape, data.size());
  return {std::move(name), "FP32", std::move(shape), BytesOf(data)};
}

Tensor TextTensor(std::string name, std::vector<int64_t> shape,
                  const std::vector<std::string>& data) {
  CheckCount(shape, data.size());
  Tensor tensor{std::move(name), "BYTES", std::move(shape), ""};
  for (const std::string& text : data) {
    const uint32_t length = static_cast<uint32_t>(text.size());
    tensor.bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    tensor.bytes += text;
  }
  return tensor;
}

absl::StatusOr<Tensor> TensorFromNumbers(std::string name, std::string datatype,
                                         std::vector<int64_t> shape,
                                         const std::vector<double>& values) {
  const auto count = ElementCount(shape);
  if (!count.ok()) {
    return count.status();
  }
  if (*count != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: {} values where its shape holds {}", name, values.size(), *count));
  }
  Tensor tensor{std::move(name), std::move(datatype), std::move(shape), ""};
  const bool small_floats = tensor.datatype == "FP16" || tensor.datatype == "BF16";
  if (ElementBytes(tensor.datatype) == 0 || small_floats) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor {}: numbers are not written as datatype \"{}\"", tensor.name, tensor.datatype));
  }
  if (!EncodeAs(tensor.datatype, values, tensor.bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: a value does not fit datatype {}", tensor.name, tensor.datatype));
  }
  return tensor;
}

}  // namespace cellbatch

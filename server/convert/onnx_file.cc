#include "server/convert/onnx_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "cells/bf16.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int64_t kOldestOpset = 7;
enum DataType {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kBfloat16 = 16
};

absl::Status Wrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

// Which fields of which message lead to tensor data: a walk over the raw file before it becomes messages.
enum class Part : uint8_t { kModel, kGraph, kNode, kAttribute, kTensor };
std::optional<Part> PartAt(Part part, int field) {
  if (part == Part::kModel && field == 7) return Part::kGraph;
  if (part == Part::kGraph && field == 1) return Part::kNode;
  if (part == Part::kGraph && field == 5) return Part::kTensor;
  if (part == Part::kNode && field == 5) return Part::kAttribute;
  if (part == Part::kAttribute && field == 5) return Part::kTensor;
  return std::nullopt;
}
bool IsData(Part part, int field) {
  return part == Part::kTensor &&
         (field == 4 || field == 5 || field == 7 || field == 9 || field == 10);
}

// Bytes of tensor data, as far as they are packed. Depth: five.
bool CountData(CodedInputStream& in, Part part, int64_t& data) {
  for (uint32_t tag; (tag = in.ReadTag()) != 0;) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    int size = 0;
    if (!in.ReadVarintSizeAsInt(&size)) return false;
    const std::optional<Part> inside = PartAt(part, field);
    if (inside) {
      const CodedInputStream::Limit limit = in.PushLimit(size);
      if (!CountData(in, *inside, data)) return false;
      in.PopLimit(limit);
      continue;
    }
    if (IsData(part, field)) data += size;
    if (!in.Skip(size)) return false;
  }
  return in.ConsumedEntireMessage();
}

float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -value : value;
}

float FromDouble(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (value > kMost) return INFINITY;
  return value < -kMost ? -INFINITY : static_cast<float>(value);
}

template <typename Stored, typename Number, typename Convert>
void FromRaw(std::string_view raw, std::vector<Number>& to, Convert convert) {
  for (size_t at = 0; at + sizeof(Stored) <= raw.size(); at += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, raw.data() + at, sizeof(stored));
    to.push_back(convert(stored));
  }
}

bool IsFloats(int type) {
  return type == kFloat || type == kDouble || type == kFloat16 || type == kBfloat16;
}

int64_t BytesOf(int type) {
  switch (type) {
    case kFloat:
    case kInt32:
      return 4;
    case kInt64:
    case kDouble:
      return 8;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kBool:
      return 1;
    default:
      return 0;
  }
}

OnnxDim Whole(int64_t value) { return {.value = value}; }

// The numbers of a tensor, from raw bytes or from the field of its type.
void ReadFloats(const onnx::Tensor& t, std::string_view raw, std::vector<float>& to) {
  const auto half = [](uint16_t v) { return FromHalf(v); };
  const auto brain = [](uint16_t v) { return FromBf16(v); };
  if (t.data_type() == kFloat) {
    to.assign(t.float_data().begin(), t.float_data().end());
    FromRaw<float>(raw, to, [](float v) { return v; });
  } else if (t.data_type() == kDouble) {
    for (const double v : t.double_data()) to.push_back(FromDouble(v));
    FromRaw<double>(raw, to, FromDouble);
  } else if (t.data_type() == kFloat16) {
    for (const int32_t v : t.int32_data()) to.push_back(half(static_cast<uint16_t>(v)));
    FromRaw<uint16_t>(raw, to, half);
  } else {
    for (const int32_t v : t.int32_data()) to.push_back(brain(static_cast<uint16_t>(v)));
    FromRaw<uint16_t>(raw, to, brain);
  }
}

void ReadIntegers(const onnx::Tensor& t, std::string_view raw, std::vector<OnnxDim>& to) {
  if (t.data_type() == kInt64) {
    for (const int64_t v : t.int64_data()) to.push_back(Whole(v));
    FromRaw<int64_t>(raw, to, Whole);
  } else {
    for (const int32_t v : t.int32_data()) to.push_back(Whole(v));
    if (t.data_type() == kBool) return FromRaw<uint8_t>(raw, to, Whole);
    FromRaw<int32_t>(raw, to, Whole);
  }
}

}  // namespace

std::string OnnxTypeText(int type) {
  static constexpr const char* kNames[] = {"UNDEFINED",  "FLOAT",   "UINT8",  "INT8",   "UINT16",
                                           "INT16",      "INT32",   "INT64",  "STRING", "BOOL",
                                           "FLOAT16",    "DOUBLE",  "UINT32", "UINT64", "COMPLEX64",
                                           "COMPLEX128", "BFLOAT16"};
  if (type < 0 || static_cast<size_t>(type) >= std::size(kNames)) return fmt::format("{}", type);
  return kNames[type];
}

std::optional<float> OneFloat(const onnx::Tensor& tensor) {
  std::vector<float> numbers;
  if (!IsFloats(tensor.data_type())) return std::nullopt;
  ReadFloats(tensor, tensor.raw_data(), numbers);
  return numbers.size() == 1 ? std::optional(numbers[0]) : std::nullopt;
}

absl::StatusOr<OnnxFile> OnnxFile::Read(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(fmt::format("{}: No such file or directory", path));
  }
  const uintmax_t size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  if (size > static_cast<uintmax_t>(kMaxOnnxBytes)) {
    return Wrong(fmt::format("{}: has {} bytes, the limit is {}", path, size, kMaxOnnxBytes));
  }
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size)) || size == 0) {
    return Wrong(fmt::format("{}: no file that can be read", path));
  }
  absl::StatusOr<OnnxFile> parsed = Parse(bytes, fs::path(path).parent_path().string());
  if (parsed.ok()) return parsed;
  return Wrong(fmt::format("{}: {}", path, std::string(parsed.status().message())));
}

absl::StatusOr<OnnxFile> OnnxFile::Parse(std::string_view bytes, const std::string& folder) {
  if (static_cast<int64_t>(bytes.size()) > kMaxOnnxBytes) return Wrong("too large");
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  in.SetTotalBytesLimit(static_cast<int>(bytes.size()));
  int64_t data = 0;
  if (!CountData(in, Part::kModel, data)) return Wrong("is no ONNX model");
  const int64_t structure = static_cast<int64_t>(bytes.size()) - data;
  if (structure > kMaxOnnxStructure) {
    return Wrong(fmt::format("has {} bytes beside its tensors' data, the limit is {}", structure,
                             kMaxOnnxStructure));
  }
  auto model = std::make_shared<onnx::Model>();
  if (!model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model->has_graph()) {
    return Wrong("is no ONNX model");
  }
  OnnxFile file;
  for (const onnx::OperatorSet& set : model->opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") file.opset_ = set.version();
  }
  if (file.opset_ < kOldestOpset) {
    return Wrong(
        fmt::format("is of opset {}, the oldest understood is {}", file.opset_, kOldestOpset));
  }
  file.folder_ = folder;
  file.model_ = std::move(model);
  return file;
}

// Data in a file beside the model, never elsewhere.
absl::StatusOr<std::string> OnnxFile::External(const onnx::Tensor& tensor, int64_t bytes) const {
  std::string location;
  int64_t offset = 0, length = bytes;
  for (const onnx::StringPair& entry : tensor.external_data()) {
    int64_t* number = entry.key() == "offset"   ? &offset
                      : entry.key() == "length" ? &length
                                                : nullptr;
    if (entry.key() == "location") location = entry.value();
    if (number == nullptr) continue;
    const std::string& text = entry.value();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error != std::errc() || end != text.data() + text.size() || *number < 0) {
      return Wrong(fmt::format("its data's {} is \"{}\"", entry.key(), text));
    }
  }
  const fs::path relative(location);
  bool beside = !location.empty() && relative.is_relative();
  for (const fs::path& part : relative) beside = beside && part != "..";
  if (!beside) return Wrong(fmt::format("its data lies in \"{}\", not beside the model", location));
  const fs::path path = fs::path(folder_) / relative;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return Wrong(fmt::format("its data lies in {}, which is no file that is there", path.string()));
  }
  const uintmax_t size = fs::file_size(path, error);
  if (length != bytes || static_cast<uintmax_t>(offset) > size ||
      static_cast<uintmax_t>(bytes) > size - static_cast<uintmax_t>(offset)) {
    return Wrong(fmt::format("its data is {} bytes at {} of {}, which has {}, its shape takes {}",
                             length, offset, path.string(), size, bytes));
  }
  std::string data(static_cast<size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  if (file.read(data.data(), bytes)) return data;
  return Wrong(fmt::format("{} cannot be read", path.string()));
}

absl::StatusOr<OnnxConstant> OnnxFile::Tensor(const onnx::Tensor& tensor) const {
  OnnxConstant made;
  made.dims.assign(tensor.dims().begin(), tensor.dims().end());
  int64_t size = 1, most = 1;  // `most`: of any of its dimensions, where another one is none
  for (const int64_t d : made.dims) {
    if (d < 0 || (d > 0 && most > kMaxOnnxElements / d)) {
      return Wrong(
          fmt::format("its shape {} is beyond {} elements", DimsText(made.dims), kMaxOnnxElements));
    }
    size *= d;
    most *= std::max<int64_t>(d, 1);
  }
  const int64_t width = BytesOf(tensor.data_type());
  if (width == 0) {
    return Wrong(
        fmt::format("its type is {}; floats, and whole numbers of 32 or 64 bits, are understood",
                    OnnxTypeText(tensor.data_type())));
  }
  std::string external;
  std::string_view raw = tensor.raw_data();
  if (tensor.data_location() == 1) {
    absl::StatusOr<std::string> data = External(tensor, size * width);
    if (!data.ok()) return data.status();
    external = *std::move(data);
    raw = external;
  }
  if (raw.size() % static_cast<size_t>(width) != 0) return Wrong("its data is cut off");
  if (!IsFloats(tensor.data_type())) {
    auto numbers = std::make_shared<std::vector<OnnxDim>>();
    ReadIntegers(tensor, raw, *numbers);
    made.integers = std::move(numbers);
  } else {
    auto numbers = std::make_shared<std::vector<float>>();
    ReadFloats(tensor, raw, *numbers);
    made.floats = std::move(numbers);
  }
  if (made.size() == size) return made;
  return Wrong(fmt::format("it holds {} numbers, its shape {} takes {}", made.size(),
                           DimsText(made.dims), size));
}

}  // namespace cellbatch

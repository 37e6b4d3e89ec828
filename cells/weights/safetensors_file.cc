#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cells/bf16.h"
#include "cells/check.h"
#include "cells/weights/safetensors.h"
#include "cells/whole_file.h"

namespace cellbatch {
namespace {

std::string SystemError() { return std::strerror(errno); }

absl::Status ReadExactly(int descriptor, uint64_t offset, void* out, size_t size) {
  char* to = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = pread(descriptor, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::InternalError(SystemError());
    if (got == 0) return absl::InvalidArgumentError("the file became shorter while it was read");
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

float FromF16(uint16_t bits) {
  const bool negative = (bits & 0x8000u) != 0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  float value;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return negative ? -value : value;
}

float FromF64(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  // Beyond half an ulp above the largest float a cast would not be defined.
  if (value > kMost) return std::numeric_limits<float>::infinity();
  if (value < -kMost) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(value);
}

// Reads `out.size()` elements of type Stored in chunks that stay small beside a tensor.
template <typename Stored, typename Out, typename Convert>
absl::Status ReadConverted(int descriptor, uint64_t offset, absl::Span<Out> out, Convert convert) {
  std::vector<Stored> chunk(std::min<size_t>(out.size(), 1 << 16));
  for (size_t done = 0; done < out.size(); done += chunk.size()) {
    const size_t n = std::min(chunk.size(), out.size() - done);
    absl::Status s =
        ReadExactly(descriptor, offset + done * sizeof(Stored), chunk.data(), n * sizeof(Stored));
    if (!s.ok()) return s;
    std::transform(chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(n), out.begin() + done,
                   convert);
  }
  return absl::OkStatus();
}

template <typename Stored>
absl::Status ReadWide(int descriptor, uint64_t offset, absl::Span<int64_t> out) {
  return ReadConverted<Stored>(descriptor, offset, out,
                               [](Stored n) { return static_cast<int64_t>(n); });
}

// Refuses what the format's readers (ours included) would refuse.
absl::StatusOr<std::string> EncodeHeader(
    absl::Span<const SafetensorsSource> tensors,
    absl::Span<const std::pair<std::string, std::string>> metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) json["__metadata__"][key] = value;
  uint64_t offset = 0;
  for (const SafetensorsSource& t : tensors) {
    if (json.contains(t.name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", t.name, "\" is there twice"));
    }
    const uint64_t end = offset + t.values.size() * sizeof(float);
    json[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  constexpr size_t kAlignment = 8;
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t size = text.size();
  std::string header(sizeof(size), '\0');
  std::memcpy(header.data(), &size, sizeof(size));
  header += text;
  const auto parsed = ParseSafetensorsHeader(header, header.size() + offset);
  if (!parsed.ok()) return parsed.status();
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept { *this = std::move(other); }

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(header_, other.header_);
  std::swap(by_name_, other.by_name_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path, uint64_t max_bytes) {
  SafetensorsFile file;
  file.path_ = path;
  file.descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) {
    const int error = errno;
    const std::string text = absl::StrCat(path, ": ", SystemError());
    if (error == ENOENT) return absl::NotFoundError(text);
    const bool shortage = error == EMFILE || error == ENFILE || error == ENOMEM;
    return shortage ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
  }
  struct stat info = {};
  if (fstat(file.descriptor_, &info) != 0) {
    return absl::InternalError(absl::StrCat(path, ": ", SystemError()));
  }
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": no file"));
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", size, " bytes, the limit is ", max_bytes));
  }
  // The header's own length is only believed up to its limit and the file's size.
  uint64_t json_size = 0;
  if (size >= sizeof(json_size)) {
    absl::Status s = ReadExactly(file.descriptor_, 0, &json_size, sizeof(json_size));
    if (!s.ok()) return At(path, s);
  }
  json_size = std::min({json_size, kMaxSafetensorsHeader, size - std::min<uint64_t>(size, 8)});
  std::string prefix(std::min<uint64_t>(size, sizeof(json_size)) + json_size, '\0');
  absl::Status s = ReadExactly(file.descriptor_, 0, prefix.data(), prefix.size());
  if (!s.ok()) return At(path, s);
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(prefix, size);
  if (!header.ok()) return At(path, header.status());
  file.header_ = *std::move(header);
  file.by_name_.resize(file.header_.tensors.size());
  std::iota(file.by_name_.begin(), file.by_name_.end(), 0u);
  std::sort(file.by_name_.begin(), file.by_name_.end(), [&file](uint32_t a, uint32_t b) {
    return file.header_.tensors[a].name < file.header_.tensors[b].name;
  });
  return file;
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](uint32_t i, std::string_view n) { return header_.tensors[i].name < n; });
  if (found == by_name_.end() || header_.tensors[*found].name != name) return nullptr;
  return &header_.tensors[*found];
}

absl::Status SafetensorsFile::ReadTensor(const SafetensorsEntry& entry,
                                         absl::Span<float> out) const {
  Check(static_cast<int64_t>(out.size()) == entry.num_elements(), "ReadTensor: room of its size");
  const uint64_t offset = header_.data_begin + entry.begin;
  absl::Status s;
  if (entry.dtype == "F32") {
    s = ReadExactly(descriptor_, offset, out.data(), out.size() * sizeof(float));
  } else if (entry.dtype == "F64") {
    s = ReadConverted<double>(descriptor_, offset, out, FromF64);
  } else if (entry.dtype == "BF16") {
    s = ReadConverted<uint16_t>(descriptor_, offset, out, FromBf16);
  } else if (entry.dtype == "F16") {
    s = ReadConverted<uint16_t>(descriptor_, offset, out, FromF16);
  } else {
    s = absl::InvalidArgumentError(absl::StrCat("tensor \"", entry.name, "\" is ", entry.dtype,
                                                ", which is none of F32, F64, F16, BF16"));
  }
  return s.ok() ? s : At(path_, s);
}

absl::Status SafetensorsFile::ReadIntegers(const SafetensorsEntry& entry,
                                           absl::Span<int64_t> out) const {
  Check(static_cast<int64_t>(out.size()) == entry.num_elements(), "ReadIntegers: room of its size");
  using Reader = absl::Status (*)(int, uint64_t, absl::Span<int64_t>);
  static constexpr std::pair<std::string_view, Reader> kReaders[] = {
      {"I64", ReadWide<int64_t>},  {"I32", ReadWide<int32_t>}, {"I16", ReadWide<int16_t>},
      {"I8", ReadWide<int8_t>},    {"U8", ReadWide<uint8_t>},  {"U16", ReadWide<uint16_t>},
      {"U32", ReadWide<uint32_t>},
  };
  for (const auto& [dtype, read] : kReaders) {
    if (entry.dtype != dtype) continue;
    const absl::Status s = read(descriptor_, header_.data_begin + entry.begin, out);
    return s.ok() ? s : At(path_, s);
  }
  return At(path_, absl::InvalidArgumentError(
                       absl::StrCat("tensor \"", entry.name, "\" is ", entry.dtype,
                                    ", which is none of I64, I32, I16, I8, U32, U16, U8")));
}

absl::Status WriteSafetensors(const std::string& path, absl::Span<const SafetensorsSource> tensors,
                              absl::Span<const std::pair<std::string, std::string>> metadata) {
  absl::StatusOr<std::string> header = EncodeHeader(tensors, metadata);
  if (!header.ok()) return At(path, header.status());
  WholeFile file(path);
  file.Append(*header);
  for (const SafetensorsSource& t : tensors) {
    file.Append({reinterpret_cast<const char*>(t.values.data()), t.values.size() * sizeof(float)});
  }
  const std::error_code error = file.Publish();
  return error ? At(path, absl::InternalError(error.message())) : absl::OkStatus();
}

}  // namespace cellbatch

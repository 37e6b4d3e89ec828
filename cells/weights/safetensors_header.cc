#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cells/weights/safetensors.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

struct DtypeSize {
  std::string_view name;
  int bytes;
};
constexpr DtypeSize kDtypes[] = {{"BOOL", 1},    {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1},
                                 {"F8_E4M3", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
                                 {"BF16", 2},    {"U32", 4}, {"I32", 4}, {"F32", 4},
                                 {"U64", 8},     {"I64", 8}, {"F64", 8}};

int DtypeBytes(std::string_view dtype) {
  for (const DtypeSize& d : kDtypes) {
    if (d.name == dtype) return d.bytes;
  }
  return 0;
}

// A name as an error may show it: quoted, escaped, short.
std::string Quoted(std::string_view name) {
  constexpr size_t kShown = 120;
  std::string text = "\"";
  for (const char c : name.substr(0, kShown)) {
    text += c >= 0x20 && c != 0x7f ? c : '?';
  }
  return text + (name.size() > kShown ? "...\"" : "\"");
}

// Receives the header's JSON as events and accepts exactly the one form a header has: an object of
// objects. Everything else ends the parse at once, so depth and memory stay bounded.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  bool start_object(size_t) override {
    if (depth_ == 0 && !started_) {
      started_ = true;
    } else if (depth_ != 1) {
      return Fail("an object where none belongs");
    }
    ++depth_;
    return true;
  }

  bool key(string_t& name) override { return depth_ == 1 ? TensorKey(name) : FieldKey(name); }

  bool end_object() override {
    --depth_;
    if (depth_ != 1) return true;
    const bool complete = in_metadata_ || FinishTensor();
    key_.clear();
    return complete;
  }

  bool string(string_t& value) override {
    if (depth_ != 2 || in_array_) return Fail("a text where none belongs");
    if (in_metadata_) {
      header_.metadata.emplace_back(field_, value);
      return true;
    }
    if (field_ != "dtype") return Fail(absl::StrCat(field_, " is a text"));
    if (DtypeBytes(value) == 0) return Fail(absl::StrCat("unknown dtype ", Quoted(value)));
    entry_.dtype = value;
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_array_ || in_metadata_ ||
        (field_ != "shape" && field_ != "data_offsets")) {
      return Fail("a list where none belongs");
    }
    in_array_ = true;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    if (field_ == "shape") {
      entry_.shape.assign(numbers_.begin(), numbers_.end());
      return true;
    }
    if (numbers_.size() != 2) {
      return Fail(absl::StrCat("data_offsets has ", numbers_.size(), " numbers, not 2"));
    }
    entry_.begin = numbers_[0];
    entry_.end = numbers_[1];
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) return Fail("a number where none belongs");
    if (numbers_.size() >= kMaxSafetensorsRank) {
      return Fail(absl::StrCat(field_, " has more than ", kMaxSafetensorsRank, " numbers"));
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(absl::StrCat(field_, " holds ", value, ", which is too large"));
    }
    numbers_.push_back(value);
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return Fail(absl::StrCat("the number ", value, " is negative"));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Fail(absl::StrCat("the number ", text.substr(0, 40), " is not a whole one"));
  }
  bool null() override { return Fail("a null where none belongs"); }
  bool boolean(bool) override { return Fail("a boolean where none belongs"); }
  bool binary(binary_t&) override { return Fail("bytes where none belong"); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    if (error_.empty()) error_ = absl::StrCat("not JSON at byte ", position, " of the header");
    return false;
  }

  bool started() const { return started_; }
  const std::string& error() const { return error_; }
  SafetensorsHeader Take() { return std::move(header_); }

 private:
  bool Fail(std::string_view what) {
    if (error_.empty()) {
      error_ = key_.empty() ? std::string(what)
                            : absl::StrCat("tensor ", Quoted(key_), ": ", std::string(what));
    }
    return false;
  }

  bool TensorKey(const std::string& name) {
    key_ = name;
    if (name.empty()) return Fail("a tensor without a name");
    if (name.size() > kMaxSafetensorsName) {
      return Fail(
          absl::StrCat("the name has ", name.size(), " bytes, the limit is ", kMaxSafetensorsName));
    }
    if (!names_.insert(name).second) return Fail("there twice");
    if (names_.size() > kMaxSafetensorsTensors) {
      return Fail(absl::StrCat("more than ", kMaxSafetensorsTensors, " tensors"));
    }
    in_metadata_ = name == "__metadata__";
    entry_ = {};
    entry_.name = name;
    fields_.clear();
    return true;
  }

  bool FieldKey(const std::string& name) {
    field_ = name;
    if (!fields_.insert(name).second) return Fail(absl::StrCat(Quoted(name), " is there twice"));
    if (in_metadata_ || name == "dtype" || name == "shape" || name == "data_offsets") return true;
    return Fail(absl::StrCat("unknown field ", Quoted(name)));
  }

  bool FinishTensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) return Fail(absl::StrCat("has no ", field));
    }
    header_.tensors.push_back(std::move(entry_));
    return true;
  }

  int depth_ = 0;
  bool started_ = false, in_metadata_ = false, in_array_ = false;
  std::string key_, field_, error_;
  std::set<std::string> names_, fields_;
  std::vector<uint64_t> numbers_;
  SafetensorsEntry entry_;
  SafetensorsHeader header_;
};

absl::Status Wrong(const SafetensorsEntry& entry, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(entry.name), ": ", std::string(what)));
}

// The shape's bytes, or -1 when they do not fit 63 bits.
int64_t ShapeBytes(const SafetensorsEntry& entry) {
  int64_t bytes = DtypeBytes(entry.dtype);
  for (const int64_t d : entry.shape) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) return -1;
  }
  return bytes;
}

absl::Status CheckExtents(const SafetensorsHeader& header, uint64_t data_size) {
  uint64_t covered = 0;
  for (const SafetensorsEntry& t : header.tensors) {
    const int64_t bytes = ShapeBytes(t);
    if (bytes < 0) return Wrong(t, absl::StrCat("shape ", ShapeText(t.shape), " overflows"));
    if (t.end < t.begin || t.end - t.begin != static_cast<uint64_t>(bytes)) {
      return Wrong(t, absl::StrCat(t.dtype, " ", ShapeText(t.shape), " takes ", bytes,
                                   " bytes, its offsets are ", t.begin, " to ", t.end));
    }
    if (t.end > data_size) {
      return Wrong(t, absl::StrCat("ends at byte ", t.end, " of the data, which has ", data_size));
    }
    if (t.begin != covered) {
      return Wrong(t, absl::StrCat("starts at byte ", t.begin, " of the data, ",
                                   t.begin < covered ? "inside the tensor that ends at "
                                                     : "leaving a gap after ",
                                   covered));
    }
    covered = t.end;
  }
  if (covered == data_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the data has ", data_size, " bytes, the tensors take ", covered));
}

}  // namespace

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

int64_t SafetensorsEntry::num_elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

bool SafetensorsEntry::is_float() const {
  return dtype == "F32" || dtype == "F64" || dtype == "F16" || dtype == "BF16";
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix,
                                                         uint64_t file_size) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t json_size = 0;
  if (prefix.size() < sizeof(json_size) || file_size < sizeof(json_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a file of ", file_size, " bytes is too short to be a safetensors file"));
  }
  std::memcpy(&json_size, prefix.data(), sizeof(json_size));
  if (json_size > kMaxSafetensorsHeader) {
    return absl::InvalidArgumentError(absl::StrCat("the header says it has ", json_size,
                                                   " bytes, the limit is ", kMaxSafetensorsHeader));
  }
  prefix.remove_prefix(sizeof(json_size));
  if (json_size > file_size - sizeof(json_size) || json_size > prefix.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header says it has ", json_size, " bytes, the file has ", file_size));
  }
  HeaderReader reader;
  const std::string_view json = prefix.substr(0, json_size);
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &reader);
  if (!parsed || !reader.started()) {
    return absl::InvalidArgumentError(reader.error().empty() ? "the header is no JSON object"
                                                             : reader.error());
  }
  SafetensorsHeader header = reader.Take();
  header.data_begin = sizeof(json_size) + json_size;
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  if (absl::Status s = CheckExtents(header, file_size - header.data_begin); !s.ok()) return s;
  return header;
}

}  // namespace cellbatch

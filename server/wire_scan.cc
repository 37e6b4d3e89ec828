#include "server/wire_scan.h"

#include <cstdint>

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int kMaxGroupDepth = 64;

// Field numbers of grpc_service.proto.
constexpr uint32_t kRequestParameters = 4, kRequestInputs = 5, kRequestOutputs = 6, kRequestRaw = 7;
constexpr uint32_t kInputShape = 3, kInputParameters = 4, kInputContents = 5;
constexpr uint32_t kOutputParameters = 2;
constexpr uint32_t kContentsFp32 = 6, kContentsFp64 = 7, kContentsBytes = 8;

enum WireKind : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kGroup = 3,
  kEnd = 4,
  kFixed32 = 5
};

struct Field {
  uint32_t number = 0;
  uint32_t kind = 0;
  std::string_view body;  // of kLength
};

// Walks the top-level fields of one message; groups, which nobody uses, are skipped whole.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  // False at the end, or when the bytes are no message.
  bool Next(Field& field) {
    int depth = 0;
    while (!rest_.empty()) {
      if (!ReadOne(field)) return Fail();
      if (field.kind == kGroup) {
        if (++depth > kMaxGroupDepth) return Fail();
      } else if (field.kind == kEnd) {
        if (--depth < 0) return Fail();
      } else if (depth == 0) {
        return true;
      }
    }
    return depth == 0 ? false : Fail();
  }
  bool malformed() const { return malformed_; }

 private:
  bool Fail() {
    malformed_ = true;
    return false;
  }

  bool ReadVarint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= shift < 64 ? uint64_t{byte & 0x7fu} << shift : 0;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Skip(uint64_t bytes) {
    if (bytes > rest_.size()) return false;
    rest_.remove_prefix(bytes);
    return true;
  }

  bool ReadOne(Field& field) {
    uint64_t tag = 0, value = 0;
    if (!ReadVarint(tag) || tag > UINT32_MAX || (tag >> 3) == 0) return false;
    field = {static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7), {}};
    switch (field.kind) {
      case kVarint:
        return ReadVarint(value);
      case kFixed64:
        return Skip(8);
      case kFixed32:
        return Skip(4);
      case kGroup:
      case kEnd:
        return true;
      case kLength:
        if (!ReadVarint(value) || value > rest_.size()) return false;
        field.body = rest_.substr(0, value);
        return Skip(value);
      default:
        return false;
    }
  }

  std::string_view rest_;
  bool malformed_ = false;
};

absl::Status Malformed() { return absl::InvalidArgumentError("malformed ModelInferRequest"); }

absl::Status TooMany(const char* what, int64_t count, int64_t most) {
  return absl::InvalidArgumentError(
      fmt::format("the request has {} {} or more, the most is {}", count, what, most));
}

int64_t VarintsIn(std::string_view packed) {
  int64_t count = 0;
  for (const char byte : packed) count += static_cast<uint8_t>(byte) < 0x80;
  return count;
}

class Scanner {
 public:
  explicit Scanner(const WireLimits& limits) : limits_(limits) {}

  absl::Status Request(std::string_view message) {
    Fields fields(message);
    for (Field field; fields.Next(field);) {
      absl::Status status;
      switch (field.number) {
        case kRequestParameters:
          status = Count(parameters_, "parameters", limits_.max_parameters);
          break;
        case kRequestInputs:
          status = Count(inputs_, "inputs", limits_.max_inputs);
          if (status.ok()) status = Input(field.body);
          break;
        case kRequestOutputs:
          status = Count(outputs_, "requested outputs", limits_.max_outputs);
          if (status.ok()) status = Output(field.body);
          break;
        case kRequestRaw:
          status = Count(raw_, "raw_input_contents", limits_.max_inputs);
          break;
        default:
          break;
      }
      if (!status.ok()) return status;
    }
    return fields.malformed() ? Malformed() : absl::OkStatus();
  }

 private:
  static absl::Status Count(int64_t& counter, const char* what, int64_t most) {
    return ++counter > most ? TooMany(what, counter, most) : absl::OkStatus();
  }

  absl::Status Input(std::string_view message) {
    int64_t dims = 0, parameters = 0;
    Fields fields(message);
    for (Field field; fields.Next(field);) {
      absl::Status status;
      switch (field.number) {
        case kInputShape:
          dims += field.kind == kLength ? VarintsIn(field.body) : 1;
          if (dims > limits_.max_dims) {
            return TooMany(fmt::format("dimensions in input {}", inputs_ - 1).c_str(), dims,
                           limits_.max_dims);
          }
          break;
        case kInputParameters:
          status = Count(parameters, "parameters of one input", limits_.max_parameters);
          break;
        case kInputContents:
          status = Contents(field.body);
          break;
        default:
          break;
      }
      if (!status.ok()) return status;
    }
    return fields.malformed() ? Malformed() : absl::OkStatus();
  }

  absl::Status Output(std::string_view message) {
    int64_t parameters = 0;
    Fields fields(message);
    for (Field field; fields.Next(field);) {
      if (field.number != kOutputParameters) continue;
      absl::Status status = Count(parameters, "parameters of one output", limits_.max_parameters);
      if (!status.ok()) return status;
    }
    return fields.malformed() ? Malformed() : absl::OkStatus();
  }

  absl::Status Contents(std::string_view message) {
    Fields fields(message);
    for (Field field; fields.Next(field);) {
      if (field.number == kContentsBytes) {
        if (++bytes_elements_ > limits_.max_bytes_elements) {
          return TooMany("strings in typed contents", bytes_elements_, limits_.max_bytes_elements);
        }
      } else if (field.number <= kContentsFp64) {
        elements_ += ElementsOf(field);
        if (elements_ > limits_.max_elements) {
          return TooMany("values in typed contents", elements_, limits_.max_elements);
        }
      }
    }
    return fields.malformed() ? Malformed() : absl::OkStatus();
  }

  static int64_t ElementsOf(const Field& field) {
    if (field.kind != kLength) return 1;
    if (field.number == kContentsFp32) return static_cast<int64_t>(field.body.size() / 4);
    if (field.number == kContentsFp64) return static_cast<int64_t>(field.body.size() / 8);
    return VarintsIn(field.body);
  }

  const WireLimits& limits_;
  int64_t inputs_ = 0, outputs_ = 0, parameters_ = 0, raw_ = 0;
  int64_t elements_ = 0, bytes_elements_ = 0;
};

}  // namespace

absl::Status ScanInferRequest(std::string_view message, const WireLimits& limits) {
  return Scanner(limits).Request(message);
}

}  // namespace cellbatch

#include "server/wire/wire_scan.h"

#include <cstdint>

#include "fmt/format.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {

namespace {

using wire::Field;
using wire::Fields;
using wire::kLength;
using wire::VarintsIn;

// Field numbers of grpc_service.proto.
constexpr uint32_t kRequestParameters = 4, kRequestInputs = 5, kRequestOutputs = 6, kRequestRaw = 7;
constexpr uint32_t kInputShape = 3, kInputParameters = 4, kInputContents = 5;
constexpr uint32_t kOutputParameters = 2;
constexpr uint32_t kContentsFp32 = 6, kContentsFp64 = 7, kContentsBytes = 8;

absl::Status Malformed() { return absl::InvalidArgumentError("malformed ModelInferRequest"); }

absl::Status TooMany(const char* what, int64_t count, int64_t most) {
  return absl::InvalidArgumentError(
      fmt::format("the request has {} {} or more, the most is {}", count, what, most));
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

#include "client/json_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 64;         // of nested arrays and objects: what reads them calls itself
constexpr size_t kMostShown = 64;      // bytes of a name that is wrong
constexpr double kMostWhole = 0x1p53;  // whole numbers up to it are doubles

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// The member's text; empty where it is missing or no text.
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Null where it is missing.
const Json& MemberOf(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.find(key);
  return found != object.end() ? *found : none;
}

// What is not known would be left out, and the answer be that of another request.
absl::Status CheckMembers(const Json& object, const std::string& of,
                          const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return Wrong(fmt::format("{} has a member \"{}\", known are {}", of,
                             absl::Utf8SafeCEscape(key.substr(0, kMostShown)),
                             fmt::join(known, ", ")));
  }
  return absl::OkStatus();
}

bool FitsInt64(const Json& number) {
  return !number.is_number_unsigned() ||
         number.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
}

// Leaves of nested arrays, in order.
bool Flatten(const Json& data, std::vector<double>& numbers, std::vector<std::string>& texts) {
  if (data.is_array()) {
    for (const Json& element : data) {
      if (!Flatten(element, numbers, texts)) {
        return false;
      }
    }
    return true;
  }
  if (data.is_string()) {
    texts.push_back(data.get<std::string>());
  } else if (data.is_number() || data.is_boolean()) {
    numbers.push_back(data.is_boolean() ? static_cast<double>(data.get<bool>())
                                        : data.get<double>());
  } else {
    return false;
  }
  return true;
}

absl::StatusOr<Tensor> TensorFromJson(const Json& input) {
  if (!input.is_object() || TextOf(input, "name").empty()) {
    return Wrong("an input has no name");
  }
  const std::string name = TextOf(input, "name");
  if (absl::Status known =
          CheckMembers(input, "input " + name, {"name", "shape", "datatype", "data"});
      !known.ok()) {
    return known;
  }
  const std::string datatype = TextOf(input, "datatype");
  std::vector<int64_t> shape;
  const Json& dims = MemberOf(input, "shape");
  bool whole = dims.is_array();
  for (size_t d = 0; whole && d < dims.size(); ++d) {
    whole = dims[d].is_number_integer() && FitsInt64(dims[d]);
    if (whole) shape.push_back(dims[d].get<int64_t>());
  }
  if (!whole) {
    return Wrong(fmt::format("input {}: the shape is no list of integers", name));
  }
  std::vector<double> numbers;
  std::vector<std::string> texts;
  if (!Flatten(MemberOf(input, "data"), numbers, texts) || (!numbers.empty() && !texts.empty())) {
    return Wrong(fmt::format("input {}: data is no array of numbers or of texts", name));
  }
  for (const double number : numbers) {
    if (datatype != "FP32" && datatype != "FP64" && std::abs(number) > kMostWhole) {
      return Wrong(fmt::format(
          "input {}: {:.17g} is beyond 2^53, up to which whole numbers are read", name, number));
    }
  }
  if (datatype != "BYTES") {
    return texts.empty()
               ? TensorFromNumbers(name, datatype, shape, numbers)
               : Wrong(fmt::format("input {}: texts where the datatype is {}", name, datatype));
  }
  const auto count = ElementCount(shape);
  if (!count.ok() || *count != static_cast<int64_t>(texts.size()) || !numbers.empty()) {
    return Wrong(fmt::format("input {}: {} texts do not fill its shape", name, texts.size()));
  }
  return TextTensor(name, shape, texts);
}

absl::Status AddParameters(const Json& parameters, InferInput& input) {
  if (!parameters.is_object()) {
    return Wrong("parameters: no JSON object");
  }
  for (const auto& [key, value] : parameters.items()) {
    if (value.is_boolean()) {
      input.parameters[key] = value.get<bool>();
    } else if (value.is_number_integer() && FitsInt64(value)) {
      input.parameters[key] = value.get<int64_t>();
    } else if (value.is_number_float()) {
      input.parameters[key] = value.get<double>();
    } else if (value.is_string()) {
      input.parameters[key] = value.get<std::string>();
    } else {
      return Wrong(
          fmt::format("parameter {}: neither a word, a number of 64 bits nor a truth", key));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InferInput> RequestFromJson(const std::string& text) {
  bool too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMostDepth;
    return !too_deep;
  };
  const Json request = Json::parse(text, look, /*allow_exceptions=*/false);
  if (too_deep) {
    return Wrong(fmt::format("the request is nested more than {} deep", kMostDepth));
  }
  if (!request.is_object()) {
    return Wrong("the request is no JSON object");
  }
  if (absl::Status known =
          CheckMembers(request, "the request", {"id", "inputs", "outputs", "parameters"});
      !known.ok()) {
    return known;
  }
  InferInput input;
  if (request.contains("id") && !request["id"].is_string()) {
    return Wrong("the request's id is no text");
  }
  input.id = TextOf(request, "id");
  const Json& inputs = MemberOf(request, "inputs");
  if (!inputs.is_array() || inputs.empty()) {
    return Wrong("the request has no inputs");
  }
  for (const Json& element : inputs) {
    auto tensor = TensorFromJson(element);
    if (!tensor.ok()) {
      return tensor.status();
    }
    input.inputs.push_back(*std::move(tensor));
  }
  for (const Json& output : request.contains("outputs") ? request["outputs"] : Json::array()) {
    if (!output.is_object() || TextOf(output, "name").empty()) {
      return Wrong("an output has no name");
    }
    if (absl::Status known = CheckMembers(output, "output " + TextOf(output, "name"), {"name"});
        !known.ok()) {
      return known;
    }
    input.outputs.push_back(TextOf(output, "name"));
  }
  if (request.contains("parameters")) {
    if (absl::Status status = AddParameters(request["parameters"], input); !status.ok()) {
      return status;
    }
  }
  return input;
}

absl::StatusOr<std::vector<int32_t>> TokensFromText(const std::string& text) {
  std::vector<int32_t> tokens;
  size_t begin = 0;
  while ((begin = text.find_first_not_of(", \t\n", begin)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(", \t\n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    int32_t token = 0;
    if (!absl::SimpleAtoi(word, &token)) {
      return Wrong(fmt::format("token {} is \"{}\", no 32-bit number", tokens.size(), word));
    }
    tokens.push_back(token);
    begin = end;
  }
  return tokens;
}

absl::StatusOr<Tensor> RandomSequence(const ModelMetadata& metadata,
                                      const ModelConfiguration& config, int64_t steps,
                                      uint64_t seed) {
  constexpr int64_t kMostValues = 1 << 26;  // 256 MiB of them
  std::mt19937_64 random(seed);
  const auto too_many = [&](int64_t width) {
    return absl::InvalidArgumentError(
        fmt::format("{} random steps, expected 1 to {} of model \"{}\"", steps, kMostValues / width,
                    metadata.name));
  };
  for (const TensorMetadata& input : metadata.inputs) {
    if (input.name == "X" && input.datatype == "FP32" && input.shape.size() == 2 &&
        input.shape[1] > 0) {
      if (steps < 1 || steps > kMostValues / input.shape[1]) return too_many(input.shape[1]);
      std::vector<double> values(steps * input.shape[1]);
      for (double& value : values) {
        value = static_cast<double>(random() >> 40) * 0x1p-23 - 1.0;
      }
      return TensorFromNumbers(input.name, input.datatype, {steps, input.shape[1]}, values);
    }
    const auto found = config.parameters.find("vocabulary_size");
    int64_t size = 0;
    if ((input.name == "TOKENS" || input.name == "SOURCE") && found != config.parameters.end() &&
        absl::SimpleAtoi(found->second, &size) && size > 0) {
      if (steps < 1 || steps > kMostValues) return too_many(1);
      std::vector<double> tokens(steps);
      for (double& token : tokens) {
        token = static_cast<double>(random() % static_cast<uint64_t>(size));
      }
      return TensorFromNumbers(input.name, input.datatype, {steps}, tokens);
    }
  }
  return absl::FailedPreconditionError(fmt::format(
      "model \"{}\" reads neither X [T, D] nor TOKENS or SOURCE with a known vocabulary_size",
      metadata.name));
}

}  // namespace cellbatch

#include "server/http/kserve/infer_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "server/requests/client_text.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {

namespace {

constexpr size_t kMaxDepth = 64;
constexpr int kNumberOutOfRange = 406;     // nlohmann-json's number of this error
constexpr size_t kMostShownOfNumber = 64;  // it may have as many digits as it likes
constexpr std::string_view kSharedMemory = "shared_memory_region";

absl::Status Invalid(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

}  // namespace

// What nlohmann-json tells of the text, token by token. `again`: a second look, for "data" that
// stood before its "datatype".
class InferReader {
 public:
  InferReader(std::string_view json, InferJson& into, const WireLimits& limits, bool again)
      : json_(json), into_(into), limits_(limits), again_(again) {}

  const absl::Status& status() const { return status_; }
  // The bound that it broke, or that it is no JSON; none: something else is wrong with it.
  std::optional<Refused> refused() const { return refused_; }
  bool wants_again() const { return wants_again_; }

  bool null() { return CountNumber() && Take(std::monostate()); }
  bool boolean(bool value) { return CountNumber() && Take(value); }
  bool number_integer(int64_t value) { return CountNumber() && Take(value); }
  bool number_unsigned(uint64_t value) {
    if (!CountNumber()) return false;
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Take(value);
    return Take(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& text) {
    number_ = text;
    return CountNumber() && Take(value);
  }
  bool string(std::string& value) {
    return Within(texts_, limits_.max_bytes_elements, Refused::kTexts, "texts",
                  "--grpc-max-texts") &&
           Take(std::move(value));
  }
  bool binary(nlohmann::json::binary_t&) { return Fail("binary JSON"); }
  bool key(std::string& value) {
    key_ = std::move(value);
    return true;
  }
  bool start_object(size_t) { return Open(true); }
  bool start_array(size_t) { return Open(false); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    refused_ = Refused::kMalformed;
    if (error.id == kNumberOutOfRange) {
      return Fail(fmt::format("a number that ends at byte {} is beyond 64 bits of floating point",
                              position));
    }
    std::string what = fmt::format("malformed JSON at byte {}", position);
    // NaN, Infinity and -Infinity, as Python writes them.
    const char last = position > 0 && position <= json_.size() ? json_[position - 1] : ' ';
    if (last == 'N' || last == 'I') {
      what += ", which has no NaN and no infinities: send them with binary_data_size";
    }
    return Fail(std::move(what));
  }

 private:
  using Value = InferJson::Value;
  enum class In : uint8_t {
    kRequest,
    kParameters,
    kInputs,
    kInput,
    kShape,
    kData,
    kInputParameters,
    kOutputs,
    kOutput,
    kOutputParameters,
    kUnread
  };

  bool Fail(std::string text) {
    if (status_.ok()) status_ = Invalid(std::move(text));
    return false;
  }
  bool TooMany(std::string text) {
    refused_ = Refused::kField;
    return Fail(std::move(text));
  }
  // One more of these, which the first look counts.
  bool Within(int64_t& count, int64_t most, Refused why, const char* what, const char* flag) {
    if (again_ || ++count <= most) return true;
    refused_ = why;
    return Fail(
        fmt::format("the request has {} {} or more, the most is {} ({})", count, what, most, flag));
  }
  bool CountNumber() {
    return Within(numbers_, limits_.max_elements, Refused::kNumbers, "numbers",
                  "--grpc-max-numbers");
  }
  // What nobody reads is passed over, and bounded as fields are that protobuf does not know.
  bool Unread() {
    return Within(unread_, limits_.max_unknown_fields, Refused::kUnknownFields, "unknown members",
                  "--grpc-max-unknown-fields");
  }
  bool OpenUnread() { return Unread() && Push(In::kUnread); }
  InferJson::Tensor& tensor() { return into_.inputs_[static_cast<size_t>(input_)]; }
  std::string Where() { return fmt::format("input {}", Quoted(tensor().name)); }
  bool WrongType(std::string_view expected) {
    return Fail(fmt::format("{}: expected {}", Quoted(key_), expected));
  }

  bool Open(bool object) {
    if (in_.size() >= kMaxDepth) return TooMany("the JSON is nested too deeply");
    // Rows of "data" are no parts of their own: nothing is kept of them.
    if ((in_.empty() || in_.back() != In::kData) &&
        !Within(parts_, limits_.max_messages, Refused::kMessages, "lists and objects",
                "--grpc-max-submessages")) {
      return false;
    }
    if (in_.empty()) {
      in_.push_back(In::kRequest);
      return object || Fail("the request is no JSON object");
    }
    switch (in_.back()) {
      case In::kRequest:
        return OpenPart(object);
      case In::kInputs:
        return object ? OpenInput() : Fail("inputs: expected objects");
      case In::kOutputs:
        return object ? OpenOutput() : Fail("outputs: expected objects");
      case In::kInput:
        return OpenOfInput(object);
      case In::kOutput:
        if (key_ == "parameters" && object) return Push(In::kOutputParameters);
        return key_ == "name" ? WrongType("a string") : OpenUnread();
      case In::kData:
        return object ? Fail(Where() + ": objects in data") : Push(In::kData);
      case In::kShape:
        return Fail(Where() + ": shape: expected numbers");
      case In::kParameters:
        return Fail(fmt::format("parameter {} is neither a number, a text nor true or false",
                                Quoted(key_)));
      default:
        return OpenUnread();
    }
  }
  bool Push(In part) {
    in_.push_back(part);
    return true;
  }
  bool OpenPart(bool object) {
    if (key_ == "inputs") return object ? WrongType("a list") : Push(In::kInputs);
    if (key_ == "outputs") return object ? WrongType("a list") : Push(In::kOutputs);
    if (key_ == "parameters") return object ? Push(In::kParameters) : WrongType("an object");
    return key_ == "id" ? WrongType("a string") : OpenUnread();
  }
  bool OpenInput() {
    ++input_;
    if (again_) return Push(In::kInput);
    if (into_.inputs_.size() >= static_cast<size_t>(limits_.max_inputs)) {
      return TooMany(fmt::format("more than {} inputs", limits_.max_inputs));
    }
    into_.inputs_.emplace_back();
    return Push(In::kInput);
  }
  bool OpenOutput() {
    if (again_) return Push(In::kOutput);
    if (into_.outputs_.size() >= static_cast<size_t>(limits_.max_outputs)) {
      return TooMany(fmt::format("more than {} outputs", limits_.max_outputs));
    }
    into_.outputs_.emplace_back();
    return Push(In::kOutput);
  }
  bool OpenOfInput(bool object) {
    if (key_ == "shape") return object ? WrongType("a list") : Push(In::kShape);
    if (key_ == "parameters") return object ? Push(In::kInputParameters) : WrongType("an object");
    if (key_ == "data") return object ? WrongType("a list") : OpenData();
    return key_ == "name" || key_ == "datatype" ? WrongType("a string") : OpenUnread();
  }
  bool OpenData() {
    InferJson::Tensor& to = tensor();
    if (!again_) {
      if (std::exchange(to.has_data, true)) return Fail(Where() + ": data is given twice");
      to.early = to.datatype.empty();
      wants_again_ = wants_again_ || to.early;
    }
    return Push(In::kData);
  }
  bool Close() {
    in_.pop_back();
    return true;
  }

  bool Take(Value value) {
    if (in_.empty()) return Fail("the request is no JSON object");
    if (in_.back() == In::kData) return TakeData(std::move(value));
    if (again_) return true;
    switch (in_.back()) {
      case In::kRequest:
        return TakePart(std::move(value));
      case In::kParameters:
        return TakeParameter(std::move(value));
      case In::kInput:
        return TakeOfInput(std::move(value));
      case In::kShape:
        return TakeDim(value);
      case In::kInputParameters:
        return TakeInputParameter(value);
      case In::kOutput:
        if (key_ == "name") return TakeText(value, into_.outputs_.back().name);
        return key_ == "parameters" ? WrongType("an object") : Unread();
      case In::kOutputParameters:
        return TakeOutputParameter(value);
      case In::kInputs:
      case In::kOutputs:
        return Fail("inputs and outputs: expected objects");
      default:
        return Unread();
    }
  }
  bool TakeText(Value& value, std::string& to) {
    auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return WrongType("a string");
    to = std::move(*text);
    return true;
  }
  bool TakePart(Value value) {
    if (key_ == "id") return TakeText(value, into_.id_);
    if (key_ == "inputs" || key_ == "outputs") return WrongType("a list");
    return key_ == "parameters" ? WrongType("an object") : Unread();
  }
  bool TakeParameter(Value value) {
    if (into_.parameters_.size() >= static_cast<size_t>(limits_.max_parameters)) {
      return TooMany(fmt::format("more than {} parameters", limits_.max_parameters));
    }
    if (std::ranges::any_of(into_.parameters_, [&](const auto& p) { return p.key == key_; })) {
      return Fail(fmt::format("parameter {} is given twice", Quoted(key_)));
    }
    if (const bool* binary = std::get_if<bool>(&value); key_ == "binary_data_output" && binary) {
      into_.binary_outputs_ = *binary;
    }
    into_.parameters_.push_back({key_, std::move(value)});
    return true;
  }
  bool TakeOfInput(Value value) {
    if (key_ == "name") return TakeText(value, tensor().name);
    if (key_ == "datatype") {
      if (!tensor().datatype.empty()) return Fail(Where() + ": datatype is given twice");
      return TakeText(value, tensor().datatype);
    }
    if (key_ == "shape" || key_ == "data") return WrongType("a list");
    return key_ == "parameters" ? WrongType("an object") : Unread();
  }
  bool TakeDim(const Value& value) {
    const auto* dim = std::get_if<int64_t>(&value);
    if (dim == nullptr) return Fail(Where() + ": shape: expected whole numbers");
    if (tensor().shape.size() >= static_cast<size_t>(limits_.max_dims)) {
      return TooMany(fmt::format("{}: more than {} dimensions", Where(), limits_.max_dims));
    }
    tensor().shape.push_back(*dim);
    return true;
  }
  bool TakeInputParameter(const Value& value) {
    if (key_ == kSharedMemory) tensor().unsupported = kSharedMemory;
    if (key_ != "binary_data_size") return Unread();
    const auto* bytes = std::get_if<int64_t>(&value);
    if (bytes == nullptr || *bytes < 0) return WrongType("a number of bytes");
    tensor().binary_bytes = *bytes;
    return true;
  }
  bool TakeOutputParameter(const Value& value) {
    InferJson::Output& output = into_.outputs_.back();
    if (key_ == kSharedMemory) output.unsupported = kSharedMemory;
    if (key_ == "classification") output.unsupported = "classification";
    if (key_ != "binary_data") return Unread();
    const bool* binary = std::get_if<bool>(&value);
    if (binary == nullptr) return WrongType("true or false");
    output.binary = *binary;
    return true;
  }

  bool TakeData(Value value) {
    InferJson::Tensor& to = tensor();
    if (to.early != again_) return true;  // it has its own look
    ++to.values;
    if (to.datatype == "INT32") return TakeWhole<int32_t>(value, to);
    if (to.datatype == "INT64") return TakeWhole<int64_t>(value, to);
    if (to.datatype == "FP32") return TakeFp32(value, to);
    if (to.datatype == "BYTES") return TakeBytes(value, to);
    return true;  // no model takes it, which whoever knows the model says better
  }
  // A value as the client wrote it.
  std::string Shown(const Value& value) const {
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
    if (const auto* number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
    if (const auto* text = std::get_if<std::string>(&value)) return Quoted(*text);
    if (!std::holds_alternative<double>(value)) return "null";
    if (number_.size() <= kMostShownOfNumber) return number_;
    return number_.substr(0, kMostShownOfNumber) + "..";
  }
  bool BadValue(const Value& value, const InferJson::Tensor& to) {
    return Fail(fmt::format("{}: value {} of data is {}, no {}", Where(), to.values - 1,
                            Shown(value), to.datatype));
  }
  template <typename Number>
  static void Append(Number number, std::string& data) {
    data.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <typename Whole>
  bool TakeWhole(const Value& value, InferJson::Tensor& to) {
    const auto* number = std::get_if<int64_t>(&value);
    if (number == nullptr || *number != static_cast<Whole>(*number)) return BadValue(value, to);
    Append(static_cast<Whole>(*number), to.data);
    return true;
  }
  bool TakeFp32(const Value& value, InferJson::Tensor& to) {
    float number = 0;
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      number = static_cast<float>(*whole);
    } else if (const auto* large = std::get_if<uint64_t>(&value)) {
      number = static_cast<float>(*large);
    } else if (std::holds_alternative<double>(value)) {
      // Rounded once, from the text: by way of a double it could be the float beside it. What is
      // too small for a float is zero, or its least, as it is for everybody; what is too large is
      // none.
      const double wide = std::get<double>(value);
      const auto [end, error] =
          std::from_chars(number_.data(), number_.data() + number_.size(), number);
      if (error != std::errc()) number = static_cast<float>(wide);
      if (std::isinf(number)) return BadValue(value, to);
    } else {
      return BadValue(value, to);
    }
    Append(number, to.data);
    return true;
  }
  bool TakeBytes(const Value& value, InferJson::Tensor& to) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return BadValue(value, to);
    wire::AppendFramed(*text, to.data);
    return true;
  }

  const std::string_view json_;
  InferJson& into_;
  const WireLimits& limits_;
  const bool again_;
  bool wants_again_ = false;
  absl::Status status_;
  std::optional<Refused> refused_;
  std::vector<In> in_;
  std::string key_;
  std::string number_;  // as it is written
  int input_ = -1;
  int64_t parts_ = 0, numbers_ = 0, texts_ = 0, unread_ = 0;
};

int64_t InferJson::MostBytes(std::string_view json) {
  constexpr int64_t kWidestValue =
      sizeof(int64_t);  // a text is framed in less than it takes in JSON, and 4 bytes
  const int64_t values = std::count(json.begin(), json.end(), ',') + 1;
  const auto text = static_cast<int64_t>(json.size());
  return text + 2 * (values * kWidestValue + text);
}

absl::Status InferJson::Parse(std::string_view body, size_t header_bytes, const WireLimits& limits,
                              RefusalCounts* counts) {
  if (header_bytes > body.size()) {
    return Invalid(fmt::format("Inference-Header-Content-Length is {}, the body has {} bytes",
                               header_bytes, body.size()));
  }
  const std::string_view json = body.substr(0, header_bytes);
  for (const bool again : {false, true}) {
    InferReader reader(json, *this, limits, again);
    const bool whole = nlohmann::json::sax_parse(json, &reader);
    if (counts != nullptr && reader.refused().has_value()) counts->Add(*reader.refused());
    if (!reader.status().ok()) return reader.status();
    if (!whole) return Invalid("malformed JSON");
    if (!reader.wants_again()) break;
  }
  return TakeBinary(body.substr(header_bytes));
}

absl::Status InferJson::TakeBinary(std::string_view binary) {
  for (Tensor& tensor : inputs_) {
    if (!tensor.binary_bytes.has_value()) {
      tensor.contents = BytesOf(tensor.data);
      continue;
    }
    const std::string where = fmt::format("input {}", Quoted(tensor.name));
    if (tensor.has_data) return Invalid(where + ": both data and binary_data_size");
    if (static_cast<uint64_t>(*tensor.binary_bytes) > binary.size()) {
      return Invalid(fmt::format("{}: binary_data_size is {}, {} bytes are left behind the JSON",
                                 where, *tensor.binary_bytes, binary.size()));
    }
    const auto bytes = static_cast<size_t>(*tensor.binary_bytes);
    tensor.contents = BytesOf(binary.substr(0, bytes));
    binary.remove_prefix(bytes);
  }
  if (binary.empty()) return absl::OkStatus();
  return Invalid(
      fmt::format("{} bytes behind the JSON are of no input's binary_data_size", binary.size()));
}

void InferJson::Spell(PlainRequest& request) const {
  for (const Tensor& from : inputs_) {
    PlainTensor& to = request.inputs.emplace_back();
    to.name = from.name;
    to.datatype = from.datatype;
    to.shape = from.shape;
    to.contents = from.contents;
    to.unsupported = from.unsupported;
    to.absent = !from.has_data && !from.binary_bytes.has_value();
    to.written_in = to.absent       ? "neither data nor binary_data_size"
                    : from.has_data ? "data"
                                    : "bytes behind the JSON";
    if (from.has_data) to.values = from.values;
  }
  for (const Output& from : outputs_) request.outputs.push_back({from.name, from.unsupported});
  for (const Parameter& from : parameters_) {
    PlainParameter& to = request.parameters.emplace_back();
    to.key = from.key;
    if (const auto* flag = std::get_if<bool>(&from.value)) to.value = *flag;
    if (const auto* number = std::get_if<int64_t>(&from.value)) to.value = *number;
    if (const auto* number = std::get_if<uint64_t>(&from.value)) to.value = *number;
    if (const auto* text = std::get_if<std::string>(&from.value)) {
      to.value = std::string_view(*text);
    }
  }
}

bool InferJson::WantsBinary(std::string_view name) const {
  const auto output =
      std::ranges::find_if(outputs_, [&](const Output& o) { return o.name == name; });
  return output == outputs_.end() ? binary_outputs_ : output->binary.value_or(binary_outputs_);
}

}  // namespace cellbatch

// InferMessage::Decode: a parsed request against a model's signature (serving.md 2.6).
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "server/wire/wire_codec.h"

namespace cellbatch {
namespace {

using inference::InferParameter;
using InputProto = inference::ModelInferRequest::InferInputTensor;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

constexpr std::string_view kTokens = "TOKENS", kLengths = "LENGTHS", kParent = "PARENT";
constexpr std::string_view kMaxDecodeSteps = "max_decode_steps", kDecodeSteps = "decode_steps";
constexpr std::string_view kCharIds = "CHAR_IDS";
constexpr std::array<std::string_view, 14> kDatatypes = {
    "BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
    "INT32", "INT64", "FP16",   "BF16",   "FP32",   "FP64", "BYTES"};

absl::Status Invalid(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

struct Reserved {
  std::string_view key;
  std::array<InferParameter::ParameterChoiceCase, 2> kinds;
  const char* expected;
};

constexpr std::array<Reserved, 7> kReserved = {{
    {"sequence_id",
     {InferParameter::kInt64Param, InferParameter::kStringParam},
     "int64_param or string_param"},
    {"sequence_start", {InferParameter::kBoolParam, InferParameter::kBoolParam}, "bool_param"},
    {"sequence_end", {InferParameter::kBoolParam, InferParameter::kBoolParam}, "bool_param"},
    {"priority", {InferParameter::kUint64Param, InferParameter::kInt64Param}, "uint64_param"},
    {"timeout", {InferParameter::kInt64Param, InferParameter::kInt64Param}, "int64_param"},
    {"triton_enable_empty_final_response",
     {InferParameter::kBoolParam, InferParameter::kBoolParam},
     "bool_param"},
    {"binary_data_output", {InferParameter::kBoolParam, InferParameter::kBoolParam}, "bool_param"},
}};

absl::Status CheckReserved(const std::string& key, const InferParameter& value) {
  for (const Reserved& reserved : kReserved) {
    if (key != reserved.key) continue;
    const auto kind = value.parameter_choice_case();
    if (kind != reserved.kinds[0] && kind != reserved.kinds[1]) {
      return Invalid(
          fmt::format("parameter {} has the wrong type: expected {}", key, reserved.expected));
    }
    return absl::OkStatus();
  }
  if (key.rfind("triton_", 0) == 0) {
    return Invalid(fmt::format("parameter {} is reserved and unknown", Quoted(key)));
  }
  return absl::OkStatus();
}

const InferParameter* FindParameter(const Parameters& parameters, const char* key) {
  const auto found = parameters.find(key);
  return found == parameters.end() ? nullptr : &found->second;
}

bool IsSet(const Parameters& parameters, const char* key) {
  const InferParameter* parameter = FindParameter(parameters, key);
  return parameter != nullptr && parameter->bool_param();
}

absl::Status CheckSequence(const Parameters& parameters) {
  const InferParameter* id = FindParameter(parameters, "sequence_id");
  const bool named = id != nullptr && (id->int64_param() != 0 || !id->string_param().empty());
  if (named) {
    return Invalid("parameter sequence_id: this model keeps no state between requests");
  }
  for (const char* key : {"sequence_start", "sequence_end"}) {
    if (IsSet(parameters, key)) {
      return Invalid(fmt::format("parameter {} is set without a sequence_id", key));
    }
  }
  return absl::OkStatus();
}

int64_t ElementBytes(std::string_view datatype) {
  return datatype == "INT64" ? 8 : 4;  // INT32, FP32; BYTES: the length in front of each element
}

}  // namespace

// Fills one InferMessage. Lives as long as Decode.
class InferDecoder {
 public:
  InferDecoder(const Model& model, InferMessage& message)
      : model_(model), signature_(model.signature), message_(message), proto_(*message.message_) {}

  absl::Status Run() {
    absl::Status status = RequestParameters();
    if (status.ok()) status = Outputs();
    if (status.ok()) status = RawOrTyped();
    message_.input_.tensors.reserve(static_cast<size_t>(proto_.inputs_size()));
    for (int i = 0; status.ok() && i < proto_.inputs_size(); ++i) status = Input(i);
    if (status.ok()) status = NoneMissing();
    return status;
  }

 private:
  std::string Where(std::string_view tensor) const {
    return fmt::format("input {} of model {}", tensor, Quoted(model_.name));
  }

  absl::Status RequestParameters() {
    for (const auto& [key, value] : proto_.parameters()) {
      absl::Status status = CheckReserved(key, value);
      if (status.ok()) status = UnfolderParameter(key, value);
      if (!status.ok()) return status;
    }
    if (absl::Status status = Priority(); !status.ok()) return status;
    if (const InferParameter* timeout = FindParameter(proto_.parameters(), "timeout")) {
      if (timeout->int64_param() < 0) {
        return Invalid(fmt::format("parameter timeout is {} microseconds, the least is 0",
                                   timeout->int64_param()));
      }
      if (timeout->int64_param() > 0) message_.timeout_us_ = timeout->int64_param();
    }
    return CheckSequence(proto_.parameters());
  }

  absl::Status Priority() {
    const InferParameter* const given = FindParameter(proto_.parameters(), "priority");
    if (given == nullptr) return absl::OkStatus();
    if (given->int64_param() < 0) {
      return Invalid(fmt::format("parameter priority is {}, the least is 0", given->int64_param()));
    }
    const auto level = given->uint64_param() + static_cast<uint64_t>(given->int64_param());
    if (level > static_cast<uint64_t>(model_.priority_levels)) {
      return Invalid(fmt::format("parameter priority is {}, allowed are 0 (default) to {}", level,
                                 model_.priority_levels));
    }
    message_.priority_ = static_cast<int32_t>(level);
    return absl::OkStatus();
  }

  // What the unfolder is to know beside the tensors; keys that are nobody's are ignored.
  absl::Status UnfolderParameter(const std::string& key, const InferParameter& value) {
    const std::vector<std::string>& taken = signature_.parameters;
    if (std::find(taken.begin(), taken.end(), key) == taken.end()) {
      if (key != kMaxDecodeSteps && key != kDecodeSteps) return absl::OkStatus();
      return Invalid(
          fmt::format("parameter {}: model {} decodes nothing", key, Quoted(model_.name)));
    }
    if (value.parameter_choice_case() != InferParameter::kInt64Param) {
      return Invalid(fmt::format("parameter {} has the wrong type: expected int64_param", key));
    }
    message_.input_.parameters.push_back({key, value.int64_param()});
    return absl::OkStatus();
  }

  absl::Status Outputs() {
    std::vector<std::string_view>& wanted = message_.input_.outputs;
    for (const auto& output : proto_.outputs()) {
      const auto known =
          std::any_of(signature_.outputs.begin(), signature_.outputs.end(),
                      [&](const TensorSpec& spec) { return spec.name == output.name(); });
      if (!known) {
        return Invalid(fmt::format("output {} is none of model {}'s outputs ({})",
                                   Quoted(output.name()), Quoted(model_.name),
                                   NamesOf(signature_.outputs)));
      }
      if (std::find(wanted.begin(), wanted.end(), output.name()) != wanted.end()) {
        return Invalid(fmt::format("output {} is requested twice", Quoted(output.name())));
      }
      for (const char* unsupported : {"classification", "shared_memory_region"}) {
        if (FindParameter(output.parameters(), unsupported) != nullptr) {
          return Invalid(
              fmt::format("output {}: parameter {} is not supported", output.name(), unsupported));
        }
      }
      wanted.push_back(output.name());
    }
    return absl::OkStatus();
  }

  // All raw, or all typed.
  absl::Status RawOrTyped() {
    if (proto_.raw_input_contents_size() == 0) return absl::OkStatus();
    for (const InputProto& input : proto_.inputs()) {
      if (input.has_contents()) {
        return Invalid(
            fmt::format("input {} has typed contents, but the request has raw_input_contents",
                        Quoted(input.name())));
      }
    }
    if (proto_.raw_input_contents_size() != proto_.inputs_size()) {
      return Invalid(fmt::format("the request has {} inputs, but {} raw_input_contents",
                                 proto_.inputs_size(), proto_.raw_input_contents_size()));
    }
    return absl::OkStatus();
  }

  absl::Status Input(int index) {
    const InputProto& input = proto_.inputs(index);
    const auto spec = std::find_if(signature_.inputs.begin(), signature_.inputs.end(),
                                   [&](const TensorSpec& s) { return s.name == input.name(); });
    if (spec == signature_.inputs.end()) {
      return Invalid(fmt::format("input {} is none of model {}'s inputs ({})", Quoted(input.name()),
                                 Quoted(model_.name), NamesOf(signature_.inputs)));
    }
    if (message_.input_.Find(input.name()) != nullptr) {
      return Invalid(fmt::format("{} is given twice", Where(spec->name)));
    }
    if (FindParameter(input.parameters(), "shared_memory_region") != nullptr) {
      return Invalid(fmt::format("{}: shared memory is not supported", Where(spec->name)));
    }
    absl::Status status = Datatype(input, *spec);
    int64_t elements = 0;
    if (status.ok()) status = Dims(input, *spec, elements);
    if (!status.ok()) return status;

    InputTensor tensor;
    tensor.name = input.name();
    tensor.type = spec->type;
    tensor.dims.assign(input.shape().begin(), input.shape().end());
    status = proto_.raw_input_contents_size() > 0
                 ? Raw(input, proto_.raw_input_contents(index), elements, tensor)
                 : Typed(input, elements, tensor);
    if (status.ok() && HoldsWords(spec->name)) {
      status = KnownWords(tensor);
    }
    if (!status.ok()) return status;
    message_.payload_bytes_ += static_cast<int64_t>(tensor.bytes.size());
    message_.input_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status Datatype(const InputProto& input, const TensorSpec& spec) const {
    if (input.datatype() == Name(spec.type)) return absl::OkStatus();
    if (spec.type == WireType::kInt32 && input.datatype() == "INT64") return absl::OkStatus();
    if (std::find(kDatatypes.begin(), kDatatypes.end(), input.datatype()) == kDatatypes.end()) {
      return Invalid(fmt::format("{}: datatype {} does not exist", Where(spec.name),
                                 Quoted(input.datatype())));
    }
    return Invalid(fmt::format("{}: datatype is {}, expected {}", Where(spec.name),
                               input.datatype(), Name(spec.type)));
  }

  absl::Status Dims(const InputProto& input, const TensorSpec& spec, int64_t& elements) const {
    if (static_cast<size_t>(input.shape_size()) != spec.dims.size()) {
      return Invalid(fmt::format("{}: shape has {} dimensions, expected {}", Where(spec.name),
                                 input.shape_size(), spec.dims.size()));
    }
    elements = 1;
    for (int d = 0; d < input.shape_size(); ++d) {
      const int64_t dim = input.shape(d), expected = spec.dims[static_cast<size_t>(d)];
      if (dim < 1 && !(dim == 0 && d == 0 && spec.may_be_empty)) {
        return Invalid(
            fmt::format("{}: dimension {} is {}, the least is 1", Where(spec.name), d, dim));
      }
      if (expected >= 0 && dim != expected) {
        return Invalid(
            fmt::format("{}: dimension {} is {}, expected {}", Where(spec.name), d, dim, expected));
      }
      if (__builtin_mul_overflow(elements, dim, &elements) ||
          elements > std::numeric_limits<int64_t>::max() / 8) {
        return Invalid(fmt::format("{}: the product of its dimensions does not fit into 60 bits",
                                   Where(spec.name)));
      }
    }
    return Length(input, spec);
  }

  // Several sequences in one message may be longer together, and so may their characters; the unfolder checks each.
  absl::Status Length(const InputProto& input, const TensorSpec& spec) const {
    if (spec.name == kCharIds || Brings(kLengths)) return absl::OkStatus();
    for (int d = 0; d < input.shape_size(); ++d) {
      if (spec.dims[static_cast<size_t>(d)] < 0 && signature_.max_sequence_length > 0 &&
          input.shape(d) > signature_.max_sequence_length) {
        return Invalid(fmt::format("{}: dimension {} is {}, the longest sequence is {}",
                                   Where(spec.name), d, input.shape(d),
                                   signature_.max_sequence_length));
      }
    }
    return absl::OkStatus();
  }

  bool Brings(std::string_view name) const {
    return std::any_of(proto_.inputs().begin(), proto_.inputs().end(),
                       [&](const InputProto& input) { return input.name() == name; });
  }

  absl::Status Raw(const InputProto& input, const std::string& raw, int64_t elements,
                   InputTensor& tensor) {
    const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(raw.data()),
                                            raw.size());
    if (tensor.type == WireType::kBytes) {
      tensor.bytes = bytes;
      return Framing(bytes, elements, tensor.name);
    }
    const int64_t expected = elements * ElementBytes(input.datatype());
    if (static_cast<int64_t>(raw.size()) != expected) {
      return Invalid(
          fmt::format("{}: raw contents have {} bytes, its shape and datatype {} need {}",
                      Where(tensor.name), raw.size(), input.datatype(), expected));
    }
    if (tensor.type == WireType::kInt32 && input.datatype() == "INT64") {
      return Narrow(elements, tensor, [&](int64_t i) {
        int64_t value;
        std::memcpy(&value, raw.data() + i * 8, 8);
        return value;
      });
    }
    tensor.bytes = bytes;
    return Aligned(tensor);
  }

  // Every element: a 4-byte length and that many bytes; `elements` of them, and nothing behind.
  absl::Status Framing(absl::Span<const std::byte> bytes, int64_t elements,
                       std::string_view name) const {
    size_t at = 0;
    for (int64_t i = 0; i < elements; ++i) {
      uint32_t length = 0;
      if (bytes.size() - at < 4) {
        return Invalid(
            fmt::format("{}: raw contents end before element {} of {}", Where(name), i, elements));
      }
      std::memcpy(&length, bytes.data() + at, 4);
      at += 4;
      if (length > bytes.size() - at) {
        return Invalid(fmt::format("{}: element {} is {} bytes long, {} are left", Where(name), i,
                                   length, bytes.size() - at));
      }
      at += length;
    }
    if (at != bytes.size()) {
      return Invalid(fmt::format("{}: {} bytes follow the last of {} elements", Where(name),
                                 bytes.size() - at, elements));
    }
    return absl::OkStatus();
  }

  absl::Status Typed(const InputProto& input, int64_t elements, InputTensor& tensor) {
    if (!input.has_contents() && elements > 0) {
      return Invalid(
          fmt::format("{}: no data, neither raw_input_contents nor contents", Where(tensor.name)));
    }
    const inference::InferTensorContents& contents = input.contents();
    const bool int64 = input.datatype() == "INT64";
    const std::array<std::pair<const char*, int>, 8> fields = {
        {{"int_contents", contents.int_contents_size()},
         {"int64_contents", contents.int64_contents_size()},
         {"fp32_contents", contents.fp32_contents_size()},
         {"bytes_contents", contents.bytes_contents_size()},
         {"bool_contents", contents.bool_contents_size()},
         {"uint_contents", contents.uint_contents_size()},
         {"uint64_contents", contents.uint64_contents_size()},
         {"fp64_contents", contents.fp64_contents_size()}}};
    const size_t right = tensor.type == WireType::kFp32    ? 2
                         : tensor.type == WireType::kBytes ? 3
                         : int64                           ? 1
                                                           : 0;
    for (size_t f = 0; f < fields.size(); ++f) {
      if (f != right && fields[f].second > 0) {
        return Invalid(fmt::format("{}: datatype {} goes into {}, not into {}", Where(tensor.name),
                                   input.datatype(), fields[right].first, fields[f].first));
      }
    }
    if (fields[right].second != elements) {
      return Invalid(fmt::format("{}: {} has {} values, its shape needs {}", Where(tensor.name),
                                 fields[right].first, fields[right].second, elements));
    }
    return TypedValues(contents, elements, int64, tensor);
  }

  absl::Status TypedValues(const inference::InferTensorContents& contents, int64_t elements,
                           bool int64, InputTensor& tensor) {
    const auto size = static_cast<size_t>(elements) * 4;
    switch (tensor.type) {
      case WireType::kFp32:
        tensor.bytes = {reinterpret_cast<const std::byte*>(contents.fp32_contents().data()), size};
        return absl::OkStatus();
      case WireType::kBytes:
        return Frame(contents, tensor);
      case WireType::kInt64:
        tensor.bytes = {reinterpret_cast<const std::byte*>(contents.int64_contents().data()),
                        size * 2};
        return absl::OkStatus();
      case WireType::kInt32:
        break;
    }
    if (int64) {
      return Narrow(elements, tensor,
                    [&](int64_t i) { return contents.int64_contents(static_cast<int>(i)); });
    }
    tensor.bytes = {reinterpret_cast<const std::byte*>(contents.int_contents().data()), size};
    return absl::OkStatus();
  }

  absl::Status Frame(const inference::InferTensorContents& contents, InputTensor& tensor) {
    size_t size = 0;
    for (const std::string& text : contents.bytes_contents()) size += 4 + text.size();
    std::byte* to = Allocate(size, tensor);
    for (const std::string& text : contents.bytes_contents()) {
      const auto length = static_cast<uint32_t>(text.size());
      std::memcpy(to, &length, 4);
      std::memcpy(to + 4, text.data(), text.size());
      to += 4 + text.size();
    }
    return absl::OkStatus();
  }

  // INT64 to INT32. Words outside INT32 are outside every vocabulary, too.
  template <typename Value>
  absl::Status Narrow(int64_t elements, InputTensor& tensor, Value value) {
    auto* to = reinterpret_cast<int32_t*>(Allocate(static_cast<size_t>(elements) * 4, tensor));
    const bool replace =
        HoldsWords(tensor.name) && signature_.out_of_vocabulary == OutOfVocabulary::kUnknown;
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t wide = value(i);
      to[i] = static_cast<int32_t>(wide);
      if (to[i] == wide) continue;
      if (!replace) return OutOfRange(tensor, i, wide);
      to[i] = signature_.unknown_token;
    }
    return absl::OkStatus();
  }

  // Whether every element of that input is a word of the vocabulary.
  bool HoldsWords(std::string_view name) const {
    if (signature_.vocabulary_size == 0) return false;
    const auto holds = [&](const TensorSpec& s) { return s.words && s.name == name; };
    return name == kTokens || std::ranges::any_of(signature_.inputs, holds);
  }

  absl::Status OutOfRange(const InputTensor& tensor, int64_t index, int64_t value) const {
    if (!HoldsWords(tensor.name)) {
      return Invalid(fmt::format("{}: value {} is {}, which is beyond INT32", Where(tensor.name),
                                 index, value));
    }
    const auto last = signature_.vocabulary_size - 1;
    const char* more = Brings(kParent) ? "; 0 will do where no cell reads it" : "";
    return Invalid(fmt::format("{}: token {} is {}, the vocabulary ends at {}{}",
                               Where(tensor.name), index, value, last, more));
  }

  absl::Status KnownWords(InputTensor& tensor) {
    const auto* tokens = reinterpret_cast<const int32_t*>(tensor.bytes.data());
    const int64_t count = static_cast<int64_t>(tensor.bytes.size() / 4);
    const auto unknown = [&](int32_t token) {
      return token < 0 || token >= signature_.vocabulary_size;
    };
    const int32_t* first = std::find_if(tokens, tokens + count, unknown);
    if (first == tokens + count) return absl::OkStatus();
    if (signature_.out_of_vocabulary == OutOfVocabulary::kReject) {
      return OutOfRange(tensor, first - tokens, *first);
    }
    auto* to = reinterpret_cast<int32_t*>(Allocate(tensor.bytes.size(), tensor));
    std::replace_copy_if(tokens, tokens + count, to, unknown, signature_.unknown_token);
    return absl::OkStatus();
  }

  absl::Status Aligned(InputTensor& tensor) {
    if (reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 4 == 0) return absl::OkStatus();
    const absl::Span<const std::byte> from = tensor.bytes;
    std::memcpy(Allocate(from.size(), tensor), from.data(), from.size());
    return absl::OkStatus();
  }

  std::byte* Allocate(size_t size, InputTensor& tensor) {
    message_.converted_.push_back(std::make_unique<std::byte[]>(size));
    std::byte* to = message_.converted_.back().get();
    tensor.bytes = {to, size};
    return to;
  }

  absl::Status NoneMissing() const {
    for (const TensorSpec& spec : signature_.inputs) {
      if (!spec.optional && message_.input_.Find(spec.name) == nullptr) {
        return Invalid(fmt::format("{} is missing", Where(spec.name)));
      }
    }
    return absl::OkStatus();
  }

  static std::string NamesOf(const std::vector<TensorSpec>& specs) {
    std::string names;
    for (const TensorSpec& spec : specs) names += (names.empty() ? "" : ", ") + spec.name;
    return names;
  }

  const Model& model_;
  const Signature& signature_;
  InferMessage& message_;
  const inference::ModelInferRequest& proto_;
};

absl::Status InferMessage::Decode(const Model& model) { return InferDecoder(model, *this).Run(); }

}  // namespace cellbatch

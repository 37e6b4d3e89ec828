// The rules are serving.md's 2.6.
#include "server/requests/decoded_request.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {
namespace {

constexpr std::string_view kTokens = "TOKENS", kLengths = "LENGTHS", kParent = "PARENT";
constexpr std::string_view kMaxDecodeSteps = "max_decode_steps", kDecodeSteps = "decode_steps";
constexpr std::string_view kCharIds = "CHAR_IDS";
constexpr std::string_view kSequenceId = "sequence_id", kSequenceStart = "sequence_start",
                           kSequenceEnd = "sequence_end";
constexpr std::array<std::string_view, 14> kDatatypes = {
    "BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
    "INT32", "INT64", "FP16",   "BF16",   "FP32",   "FP64", "BYTES"};

absl::Status Invalid(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

// Which alternative of PlainValue.
enum Kind : size_t { kBool = 1, kInt64 = 2, kUint64 = 3, kText = 4 };

struct Reserved {
  std::string_view key;
  std::array<Kind, 3> kinds;
  const char* expected;
};

constexpr std::array<Reserved, 7> kReserved = {{
    {kSequenceId, {kInt64, kUint64, kText}, "int64_param or string_param"},
    {kSequenceStart, {kBool, kBool, kBool}, "bool_param"},
    {kSequenceEnd, {kBool, kBool, kBool}, "bool_param"},
    {"priority", {kUint64, kInt64, kInt64}, "uint64_param"},
    {"timeout", {kInt64, kInt64, kInt64}, "int64_param"},
    {"triton_enable_empty_final_response", {kBool, kBool, kBool}, "bool_param"},
    {"binary_data_output", {kBool, kBool, kBool}, "bool_param"},
}};

absl::Status CheckReserved(const PlainParameter& given) {
  for (const Reserved& reserved : kReserved) {
    if (given.key != reserved.key) continue;
    const size_t kind = given.value.index();
    if (std::find(reserved.kinds.begin(), reserved.kinds.end(), kind) == reserved.kinds.end()) {
      return Invalid(fmt::format("parameter {} has the wrong type: expected {}", given.key,
                                 reserved.expected));
    }
    return absl::OkStatus();
  }
  if (given.key.starts_with("triton_")) {
    return Invalid(fmt::format("parameter {} is reserved and unknown", Quoted(given.key)));
  }
  return absl::OkStatus();
}

const PlainValue* FindParameter(const PlainRequest& request, std::string_view key) {
  for (const PlainParameter& given : request.parameters) {
    if (given.key == key) return &given.value;
  }
  return nullptr;
}

bool Flag(const PlainRequest& request, std::string_view key) {
  const PlainValue* const set = FindParameter(request, key);
  return set != nullptr && std::get<bool>(*set);
}

int64_t ElementBytes(std::string_view datatype) {
  return datatype == "INT64" ? 8 : 4;  // INT32, FP32; BYTES: the length in front of each element
}

}  // namespace

// Fills one DecodedRequest. Lives as long as Decode.
class RequestDecoder {
 public:
  RequestDecoder(const PlainRequest& plain, const Model& model, DecodedRequest& decoded)
      : plain_(plain), model_(model), signature_(model.signature), decoded_(decoded) {}

  absl::Status Run() {
    absl::Status status = RequestParameters();
    if (status.ok()) status = Outputs();
    decoded_.input_.tensors.reserve(plain_.inputs.size());
    for (size_t i = 0; status.ok() && i < plain_.inputs.size(); ++i)
      status = Input(plain_.inputs[i]);
    if (status.ok()) status = NoneMissing();
    if (status.ok()) status = Sequence();
    return status;
  }

 private:
  std::string Where(std::string_view tensor) const {
    return fmt::format("input {} of model {}", tensor, Quoted(model_.name));
  }

  absl::Status RequestParameters() {
    for (const PlainParameter& given : plain_.parameters) {
      absl::Status status = CheckReserved(given);
      if (status.ok()) status = UnfolderParameter(given);
      if (!status.ok()) return status;
    }
    if (absl::Status status = Priority(); !status.ok()) return status;
    if (const PlainValue* given = FindParameter(plain_, "timeout")) {
      const auto timeout = std::get<int64_t>(*given);
      if (timeout < 0) {
        return Invalid(
            fmt::format("parameter timeout is {} microseconds, the least is 0", timeout));
      }
      if (timeout > 0) decoded_.timeout_us_ = timeout;
    }
    return SequenceId();
  }

  // Which sequence it is a piece of. 0 and the empty text: of none.
  absl::Status SequenceId() {
    const bool start = Flag(plain_, kSequenceStart), end = Flag(plain_, kSequenceEnd);
    SequencePiece piece = {.id = {}, .shown = {}, .start = start, .end = end};
    if (const PlainValue* id = FindParameter(plain_, kSequenceId)) {
      if (const auto* number = std::get_if<int64_t>(id)) {
        if (*number != 0) piece.id = fmt::format("#{}", *number);
        piece.shown = std::to_string(*number);
      } else if (const auto* large = std::get_if<uint64_t>(id)) {
        // The sequence whose id gRPC's clients, which have no other field for it, write as a negative number.
        if (*large != 0) piece.id = fmt::format("#{}", static_cast<int64_t>(*large));
        piece.shown = std::to_string(*large);
      } else if (const auto text = std::get<std::string_view>(*id); !text.empty()) {
        if (text.size() > kMaxSequenceIdBytes) {
          return Invalid(fmt::format("parameter {} has {} bytes, the most are {}", kSequenceId,
                                     text.size(), kMaxSequenceIdBytes));
        }
        piece.id = fmt::format("={}", text);
        piece.shown = Quoted(text);
      }
    }
    if (piece.id.empty()) {
      if (!start && !end) return absl::OkStatus();
      return Invalid(fmt::format("parameter {} is set without a sequence_id",
                                 start ? kSequenceStart : kSequenceEnd));
    }
    if (signature_.state.empty()) {
      return Invalid("parameter sequence_id: this model keeps no state between requests");
    }
    decoded_.sequence_ = std::move(piece);
    return absl::OkStatus();
  }

  // What goes with it: one sequence, whose state is here unless it begins.
  absl::Status Sequence() const {
    if (!decoded_.sequence_.has_value()) return absl::OkStatus();
    if (Brings(kLengths)) {
      return Invalid(fmt::format("{}: with parameter sequence_id a message has one sequence",
                                 Where(kLengths)));
    }
    for (const StateTensor& part : signature_.state) {
      if (!Brings(part.initial) || decoded_.sequence_->start) continue;
      return Invalid(
          fmt::format("{}: the state of sequence {} is here already; a client brings one "
                      "with sequence_start alone",
                      Where(part.initial), decoded_.sequence_->shown));
    }
    return absl::OkStatus();
  }

  absl::Status Priority() {
    const PlainValue* const given = FindParameter(plain_, "priority");
    if (given == nullptr) return absl::OkStatus();
    const auto* number = std::get_if<int64_t>(given);
    if (number != nullptr && *number < 0) {
      return Invalid(fmt::format("parameter priority is {}, the least is 0", *number));
    }
    const uint64_t level =
        number != nullptr ? static_cast<uint64_t>(*number) : std::get<uint64_t>(*given);
    if (level > static_cast<uint64_t>(model_.priority_levels)) {
      return Invalid(fmt::format("parameter priority is {}, allowed are 0 (default) to {}", level,
                                 model_.priority_levels));
    }
    decoded_.priority_ = static_cast<int32_t>(level);
    return absl::OkStatus();
  }

  // What the unfolder is to know beside the tensors; keys that are nobody's are ignored.
  absl::Status UnfolderParameter(const PlainParameter& given) {
    const std::string_view key = given.key;
    const std::vector<std::string>& taken = signature_.parameters;
    if (std::find(taken.begin(), taken.end(), key) == taken.end()) {
      if (key != kMaxDecodeSteps && key != kDecodeSteps) return absl::OkStatus();
      return Invalid(
          fmt::format("parameter {}: model {} decodes nothing", key, Quoted(model_.name)));
    }
    const auto* value = std::get_if<int64_t>(&given.value);
    if (value == nullptr) {
      return Invalid(fmt::format("parameter {} has the wrong type: expected int64_param", key));
    }
    decoded_.input_.parameters.push_back({key, *value});
    return absl::OkStatus();
  }

  absl::Status Outputs() {
    std::vector<std::string_view>& wanted = decoded_.input_.outputs;
    for (const PlainOutput& output : plain_.outputs) {
      const auto known =
          std::any_of(signature_.outputs.begin(), signature_.outputs.end(),
                      [&](const TensorSpec& spec) { return spec.name == output.name; });
      if (!known) {
        return Invalid(fmt::format("output {} is none of model {}'s outputs ({})",
                                   Quoted(output.name), Quoted(model_.name),
                                   NamesOf(signature_.outputs)));
      }
      if (std::find(wanted.begin(), wanted.end(), output.name) != wanted.end()) {
        return Invalid(fmt::format("output {} is requested twice", Quoted(output.name)));
      }
      if (!output.unsupported.empty()) {
        return Invalid(fmt::format("output {}: parameter {} is not supported", output.name,
                                   output.unsupported));
      }
      wanted.push_back(output.name);
    }
    return absl::OkStatus();
  }

  absl::Status Input(const PlainTensor& input) {
    const auto spec = std::find_if(signature_.inputs.begin(), signature_.inputs.end(),
                                   [&](const TensorSpec& s) { return s.name == input.name; });
    if (spec == signature_.inputs.end()) {
      return Invalid(fmt::format("input {} is none of model {}'s inputs ({})", Quoted(input.name),
                                 Quoted(model_.name), NamesOf(signature_.inputs)));
    }
    if (decoded_.input_.Find(input.name) != nullptr) {
      return Invalid(fmt::format("{} is given twice", Where(spec->name)));
    }
    if (!input.unsupported.empty()) {
      return Invalid(
          fmt::format("{}: parameter {} is not supported", Where(spec->name), input.unsupported));
    }
    absl::Status status = Datatype(input, *spec);
    int64_t elements = 0;
    if (status.ok()) status = Dims(input, *spec, elements);
    if (!status.ok()) return status;

    InputTensor tensor;
    tensor.name = input.name;
    tensor.type = spec->type;
    tensor.dims.assign(input.shape.begin(), input.shape.end());
    status = Contents(input, elements, tensor);
    if (status.ok() && HoldsWords(spec->name)) {
      status = KnownWords(tensor);
    }
    if (!status.ok()) return status;
    decoded_.input_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status Datatype(const PlainTensor& input, const TensorSpec& spec) const {
    if (input.datatype == Name(spec.type)) return absl::OkStatus();
    if (spec.type == WireType::kInt32 && input.datatype == "INT64") return absl::OkStatus();
    if (std::find(kDatatypes.begin(), kDatatypes.end(), input.datatype) == kDatatypes.end()) {
      return Invalid(
          fmt::format("{}: datatype {} does not exist", Where(spec.name), Quoted(input.datatype)));
    }
    return Invalid(fmt::format("{}: datatype is {}, expected {}", Where(spec.name), input.datatype,
                               Name(spec.type)));
  }

  absl::Status Dims(const PlainTensor& input, const TensorSpec& spec, int64_t& elements) const {
    const size_t in_front = spec.one_a_sequence && Brings(kLengths) ? 1 : 0;
    if (input.shape.size() != in_front + spec.dims.size()) {
      return Invalid(fmt::format("{}: shape has {} dimensions, expected {}", Where(spec.name),
                                 input.shape.size(), in_front + spec.dims.size()));
    }
    elements = 1;
    for (size_t d = 0; d < input.shape.size(); ++d) {
      const int64_t dim = input.shape[d], expected = d < in_front ? -1 : spec.dims[d - in_front];
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
  absl::Status Length(const PlainTensor& input, const TensorSpec& spec) const {
    if (spec.name == kCharIds || Brings(kLengths)) return absl::OkStatus();
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (spec.dims[d] < 0 && signature_.max_sequence_length > 0 &&
          input.shape[d] > signature_.max_sequence_length) {
        return Invalid(fmt::format("{}: dimension {} is {}, the longest sequence is {}",
                                   Where(spec.name), d, input.shape[d],
                                   signature_.max_sequence_length));
      }
    }
    return absl::OkStatus();
  }

  bool Brings(std::string_view name) const {
    return std::any_of(plain_.inputs.begin(), plain_.inputs.end(),
                       [&](const PlainTensor& input) { return input.name == name; });
  }

  absl::Status Contents(const PlainTensor& input, int64_t elements, InputTensor& tensor) {
    if (input.absent && elements > 0) {
      return Invalid(fmt::format("{}: no data, {}", Where(tensor.name), input.written_in));
    }
    if (input.values >= 0 && input.values != elements) {
      return Invalid(fmt::format("{}: {} has {} values, its shape needs {}", Where(tensor.name),
                                 input.written_in, input.values, elements));
    }
    const absl::Span<const std::byte> bytes = input.contents;
    if (tensor.type == WireType::kBytes) {
      tensor.bytes = bytes;
      return Framing(input, elements);
    }
    const int64_t expected = elements * ElementBytes(input.datatype);
    if (static_cast<int64_t>(bytes.size()) != expected) {
      return Invalid(fmt::format("{}: {} have {} bytes, its shape and datatype {} need {}",
                                 Where(tensor.name), input.written_in, bytes.size(), input.datatype,
                                 expected));
    }
    if (tensor.type == WireType::kInt32 && input.datatype == "INT64") {
      return Narrow(elements, bytes, tensor);
    }
    tensor.bytes = bytes;
    return Aligned(tensor);
  }

  // Every element: a 4-byte length and that many bytes; `elements` of them, and nothing behind.
  absl::Status Framing(const PlainTensor& input, int64_t elements) const {
    const absl::Span<const std::byte> bytes = input.contents;
    const std::string_view name = input.name;
    size_t at = 0;
    for (int64_t i = 0; i < elements; ++i) {
      uint32_t length = 0;
      if (bytes.size() - at < 4) {
        return Invalid(fmt::format("{}: {} end before element {} of {}", Where(name),
                                   input.written_in, i, elements));
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

  // INT64 to INT32. Words outside INT32 are outside every vocabulary, too.
  absl::Status Narrow(int64_t elements, absl::Span<const std::byte> wide, InputTensor& tensor) {
    auto* to = reinterpret_cast<int32_t*>(Allocate(static_cast<size_t>(elements) * 4, tensor));
    const bool replace =
        HoldsWords(tensor.name) && signature_.out_of_vocabulary == OutOfVocabulary::kUnknown;
    for (int64_t i = 0; i < elements; ++i) {
      int64_t value;
      std::memcpy(&value, wide.data() + i * 8, 8);
      to[i] = static_cast<int32_t>(value);
      if (to[i] == value) continue;
      if (!replace) return OutOfRange(tensor, i, value);
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
    decoded_.converted_.push_back(std::make_unique<std::byte[]>(size));
    std::byte* to = decoded_.converted_.back().get();
    tensor.bytes = {to, size};
    return to;
  }

  absl::Status NoneMissing() const {
    for (const TensorSpec& spec : signature_.inputs) {
      if (!spec.optional && decoded_.input_.Find(spec.name) == nullptr) {
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

  const PlainRequest& plain_;
  const Model& model_;
  const Signature& signature_;
  DecodedRequest& decoded_;
};

absl::Status DecodedRequest::Decode(const PlainRequest& request, const Model& model) {
  return RequestDecoder(request, model, *this).Run();
}

}  // namespace cellbatch

#include "server/wire/wire_codec.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/escaping.h"
#include "cells/check.h"
#include "cells/vocabulary.h"
#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {

namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxQuotedBytes = 64;
constexpr uint8_t kRawOutputTag = 6 << 3 | 2;  // raw_output_contents, length-delimited

google::protobuf::ArenaOptions StartingIn(char* block, size_t size) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = size;
  return options;
}

// What a tensor is on the wire: the numbers that cells left, or the names of them, each with its length in front.
std::string_view RawContents(const ReturnedTensor& tensor, std::string& named) {
  const std::string_view numbers(reinterpret_cast<const char*>(tensor.bytes.data()),
                                 tensor.bytes.size());
  if (tensor.names == nullptr) return numbers;
  named.clear();
  for (size_t at = 0; at < numbers.size(); at += sizeof(int32_t)) {
    int32_t id = 0;
    std::memcpy(&id, numbers.data() + at, sizeof(id));
    Check(id >= 0 && id < tensor.names->size(), "a cell left a number that has no name");
    const std::string_view name = tensor.names->word(id);
    const auto length = static_cast<uint32_t>(name.size());
    named.append(reinterpret_cast<const char*>(&length), sizeof(length));
    named.append(name);
  }
  return named;
}

}  // namespace

InferMessage::InferMessage()
    : arena_(StartingIn(first_block_, sizeof(first_block_))),
      message_(google::protobuf::Arena::CreateMessage<inference::ModelInferRequest>(&arena_)) {}

absl::Status InferMessage::Parse(std::string_view bytes, const WireLimits& limits) {
  absl::Status scanned = ScanInferRequest(bytes, limits);
  if (!scanned.ok()) return scanned;
  if (!message_->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("malformed ModelInferRequest");
  }
  return absl::OkStatus();
}

absl::Status CheckModelName(std::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("model_name is empty");
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(fmt::format("model_name has {} bytes, the most is {}: {}",
                                                  name.size(), kMaxNameBytes, Quoted(name)));
  }
  const bool forbidden = std::any_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (forbidden || name.find("..") != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "model_name {} is no name of a model: separators, \"..\" and control characters "
        "are not allowed",
        Quoted(name)));
  }
  return absl::OkStatus();
}

absl::Status CheckModelVersion(std::string_view version) {
  if (version.empty()) return absl::OkStatus();
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(version.data(), version.data() + version.size(), number);
  if (error != std::errc() || end != version.data() + version.size() || number < 1 ||
      version.front() == '0') {
    return absl::InvalidArgumentError(fmt::format(
        "model_version {} is no version: expected a positive decimal number without leading zeros",
        Quoted(version)));
  }
  return absl::OkStatus();
}

std::string Quoted(std::string_view text) {
  const bool longer = text.size() > kMaxQuotedBytes;
  const std::string shown(text.substr(0, kMaxQuotedBytes));
  return '"' + absl::CEscape(shown) + (longer ? "...\"" : "\"");
}

std::string EncodeInferResponse(const Model& model, std::string_view id,
                                absl::Span<const ReturnedTensor> tensors) {
  alignas(16) char block[1024];
  google::protobuf::Arena arena(StartingIn(block, sizeof(block)));
  auto* head = google::protobuf::Arena::CreateMessage<inference::ModelInferResponse>(&arena);
  head->set_model_name(model.name);
  head->set_model_version(std::to_string(model.version));
  head->set_id(id.data(), id.size());
  size_t payload = 0;
  for (const ReturnedTensor& tensor : tensors) {
    auto* output = head->add_outputs();
    output->set_name(tensor.name);
    output->set_datatype(Name(tensor.names == nullptr ? tensor.type : WireType::kBytes));
    for (const int64_t dim : tensor.dims) output->add_shape(dim);
    payload += tensor.bytes.size() + 11;
  }
  // Values go straight from the result into the message: messages may be concatenated field by
  // field, so the raw entries follow the serialized head.
  std::string out;
  out.reserve(head->ByteSizeLong() + payload);
  head->AppendToString(&out);
  std::string named;
  for (const ReturnedTensor& tensor : tensors) {
    const std::string_view contents = RawContents(tensor, named);
    out.push_back(static_cast<char>(kRawOutputTag));
    wire::AppendVarint(contents.size(), out);
    out.append(contents);
  }
  return out;
}

}  // namespace cellbatch

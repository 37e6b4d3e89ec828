#include "server/http/kserve/infer_reply.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "server/wire/wire_codec.h"

namespace cellbatch {

namespace {

template <typename Number>
bool AppendNumbers(std::string_view contents, std::string& json) {
  for (size_t at = 0; at < contents.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, contents.data() + at, sizeof(number));
    if constexpr (std::is_floating_point_v<Number>) {
      if (!std::isfinite(number)) return false;
      if (number == 0 && std::signbit(number)) {
        json += "-0.0,";  // "-0" would be read as a whole number, which has no sign
        continue;
      }
    }
    fmt::format_to(std::back_inserter(json), "{},", number);
  }
  return true;
}

void AppendTexts(std::string_view framed, std::string& json) {
  while (!framed.empty()) {
    uint32_t length = 0;
    std::memcpy(&length, framed.data(), sizeof(length));
    json += JsonText(framed.substr(sizeof(length), length)) + ',';
    framed.remove_prefix(sizeof(length) + length);
  }
}

bool AppendData(const InferReply::Tensor& tensor, std::string& json) {
  bool all = true;
  json += ",\"data\":[";
  switch (tensor.type) {
    case WireType::kInt32:
      AppendNumbers<int32_t>(tensor.contents, json);
      break;
    case WireType::kInt64:
      AppendNumbers<int64_t>(tensor.contents, json);
      break;
    case WireType::kFp32:
      all = AppendNumbers<float>(tensor.contents, json);
      break;
    case WireType::kBytes:
      AppendTexts(tensor.contents, json);
      break;
  }
  if (json.back() == ',') json.pop_back();
  json += "]}";
  return all;
}

}  // namespace

std::string JsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

size_t InferReply::bytes() const {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.contents.size();
  return bytes;
}

InferReply KeepReply(const Model& model, const InferJson& request,
                     absl::Span<const ReturnedTensor> tensors) {
  InferReply reply{.id = request.id(),
                   .model_name = model.name,
                   .model_version = std::to_string(model.version),
                   .tensors = {}};
  std::string named;
  for (const ReturnedTensor& tensor : tensors) {
    reply.tensors.push_back({.name = tensor.name,
                             .type = tensor.names == nullptr ? tensor.type : WireType::kBytes,
                             .dims = tensor.dims,
                             .contents = std::string(RawContents(tensor, named)),
                             .binary = request.WantsBinary(tensor.name)});
  }
  return reply;
}

absl::StatusOr<EncodedReply> EncodeReply(const InferReply& reply) {
  EncodedReply out;
  std::string& json = out.body;
  json = "{";
  if (!reply.id.empty()) json += "\"id\":" + JsonText(reply.id) + ',';
  json += fmt::format(R"("model_name":{},"model_version":"{}","outputs":[)",
                      JsonText(reply.model_name), reply.model_version);
  for (const InferReply::Tensor& tensor : reply.tensors) {
    json += fmt::format(R"({{"name":{},"datatype":"{}","shape":[{}])", JsonText(tensor.name),
                        Name(tensor.type), fmt::join(tensor.dims, ","));
    if (tensor.binary) {
      json += fmt::format(R"(,"parameters":{{"binary_data_size":{}}}}})", tensor.contents.size());
    } else if (!AppendData(tensor, json)) {
      return absl::InvalidArgumentError(fmt::format(
          "output {} has values that JSON has no word for (NaN or an infinity): ask for "
          "it with binary_data",
          tensor.name));
    }
    json += ',';
  }
  if (json.back() == ',') json.pop_back();
  json += "]}";
  out.json_bytes = json.size();
  for (const InferReply::Tensor& tensor : reply.tensors) {
    if (tensor.binary) json += tensor.contents;
  }
  return out;
}

}  // namespace cellbatch

#include "server/wire/wire_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cells/vocabulary.h"
#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/requests/client_text.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {

namespace {

constexpr const char* kFinalResponse = "triton_final_response";  // a parameter of Triton's

google::protobuf::ArenaOptions StartingIn(char* block, size_t size) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = size;
  return options;
}

// InferOutputTensor, without its contents: these go raw.
const char* Datatype(const ReturnedTensor& tensor) {
  return Name(tensor.names == nullptr ? tensor.type : WireType::kBytes);
}
size_t ShapeBytes(const ReturnedTensor& tensor) {
  size_t bytes = 0;
  for (const int64_t dim : tensor.dims) bytes += wire::VarintBytes(static_cast<uint64_t>(dim));
  return bytes;
}
size_t OutputBytes(const ReturnedTensor& tensor) {
  const size_t shape = ShapeBytes(tensor);
  return wire::TextBytes(tensor.name) + wire::TextBytes(Datatype(tensor)) +
         (shape == 0 ? 0 : 1 + wire::VarintBytes(shape) + shape);
}
void AppendOutput(const ReturnedTensor& tensor, std::string& out) {
  using Output = inference::ModelInferResponse::InferOutputTensor;
  wire::AppendText(Output::kNameFieldNumber, tensor.name, out);
  wire::AppendText(Output::kDatatypeFieldNumber, Datatype(tensor), out);
  if (tensor.dims.empty()) return;
  wire::AppendLength(Output::kShapeFieldNumber, ShapeBytes(tensor), out);
  for (const int64_t dim : tensor.dims) wire::AppendVarint(static_cast<uint64_t>(dim), out);
}

}  // namespace

std::string_view RawContents(const ReturnedTensor& tensor, std::string& named) {
  const std::string_view numbers(reinterpret_cast<const char*>(tensor.bytes.data()),
                                 tensor.bytes.size());
  if (tensor.names == nullptr) return numbers;
  named.clear();
  for (size_t at = 0; at < numbers.size(); at += sizeof(int32_t)) {
    int32_t id = 0;
    std::memcpy(&id, numbers.data() + at, sizeof(id));
    wire::AppendFramed(tensor.names->word(id), named);
  }
  return named;
}

MessageScanner InferScanner(const WireLimits& limits, RefusalCounts* counts) {
  return MessageScanner(
      *inference::ModelInferRequest::descriptor(), limits,
      {{"inference.ModelInferRequest.parameters", limits.max_parameters, "parameters"},
       {"inference.ModelInferRequest.inputs", limits.max_inputs, "inputs"},
       {"inference.ModelInferRequest.outputs", limits.max_outputs, "requested outputs"},
       {"inference.ModelInferRequest.raw_input_contents", limits.max_inputs, "raw_input_contents"},
       {"inference.ModelInferRequest.InferInputTensor.shape", limits.max_dims,
        "dimensions in input {}"},
       {"inference.ModelInferRequest.InferInputTensor.parameters", limits.max_parameters,
        "parameters of one input"},
       {"inference.ModelInferRequest.InferRequestedOutputTensor.parameters", limits.max_parameters,
        "parameters of one output"}},
      counts);
}

InferMessage::InferMessage()
    : arena_(StartingIn(first_block_, sizeof(first_block_))),
      message_(google::protobuf::Arena::CreateMessage<inference::ModelInferRequest>(&arena_)) {}

namespace {

using InputProto = inference::ModelInferRequest::InferInputTensor;

// The first of the parameters that ask for what nobody serves.
std::string_view Unsupported(
    const google::protobuf::Map<std::string, inference::InferParameter>& given,
    std::initializer_list<const char*> unsupported) {
  for (const char* key : unsupported) {
    if (given.contains(key)) return key;
  }
  return {};
}

PlainValue ValueOf(const inference::InferParameter& parameter) {
  using Parameter = inference::InferParameter;
  switch (parameter.parameter_choice_case()) {
    case Parameter::kBoolParam:
      return parameter.bool_param();
    case Parameter::kInt64Param:
      return parameter.int64_param();
    case Parameter::kUint64Param:
      return parameter.uint64_param();
    case Parameter::kStringParam:
      return std::string_view(parameter.string_param());
    default:
      return {};
  }
}

std::string FramedTexts(const inference::InferTensorContents& contents) {
  size_t size = 0;
  for (const std::string& text : contents.bytes_contents()) size += 4 + text.size();
  std::string framed;
  framed.reserve(size);
  for (const std::string& text : contents.bytes_contents()) wire::AppendFramed(text, framed);
  return framed;
}

// All raw, or all typed.
absl::Status CheckRawOrTyped(const inference::ModelInferRequest& proto) {
  if (proto.raw_input_contents_size() == 0) return absl::OkStatus();
  for (const InputProto& input : proto.inputs()) {
    if (input.has_contents()) {
      return absl::InvalidArgumentError(
          fmt::format("input {} has typed contents, but the request has raw_input_contents",
                      Quoted(input.name())));
    }
  }
  if (proto.raw_input_contents_size() != proto.inputs_size()) {
    return absl::InvalidArgumentError(
        fmt::format("the request has {} inputs, but {} raw_input_contents", proto.inputs_size(),
                    proto.raw_input_contents_size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferMessage::Spell(const Model& model, PlainRequest& request) {
  const inference::ModelInferRequest& proto = *message_;
  for (const auto& [key, value] : proto.parameters()) {
    request.parameters.push_back({key, ValueOf(value)});
  }
  for (const auto& output : proto.outputs()) {
    request.outputs.push_back(
        {output.name(),
         Unsupported(output.parameters(), {"classification", "shared_memory_region"})});
  }
  if (absl::Status status = CheckRawOrTyped(proto); !status.ok()) return status;
  for (int i = 0; i < proto.inputs_size(); ++i) {
    const InputProto& input = proto.inputs(i);
    PlainTensor& tensor = request.inputs.emplace_back();
    tensor.name = input.name();
    tensor.datatype = input.datatype();
    tensor.shape.assign(input.shape().begin(), input.shape().end());
    tensor.unsupported = Unsupported(input.parameters(), {"shared_memory_region"});
    if (proto.raw_input_contents_size() > 0) {
      tensor.contents = BytesOf(proto.raw_input_contents(i));
    } else if (absl::Status status = SpellTyped(input, model, tensor); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status InferMessage::SpellTyped(const InputProto& input, const Model& model,
                                      PlainTensor& tensor) {
  if (!input.has_contents()) {
    tensor.absent = true;
    tensor.written_in = "neither raw_input_contents nor contents";
    return absl::OkStatus();
  }
  const inference::InferTensorContents& contents = input.contents();
  struct Place {
    const char* datatype;  // empty: of no tensor of ours
    const char* field;
    int values;
  };
  const std::array<Place, 8> places = {{{"INT32", "int_contents", contents.int_contents_size()},
                                        {"INT64", "int64_contents", contents.int64_contents_size()},
                                        {"FP32", "fp32_contents", contents.fp32_contents_size()},
                                        {"BYTES", "bytes_contents", contents.bytes_contents_size()},
                                        {"", "bool_contents", contents.bool_contents_size()},
                                        {"", "uint_contents", contents.uint_contents_size()},
                                        {"", "uint64_contents", contents.uint64_contents_size()},
                                        {"", "fp64_contents", contents.fp64_contents_size()}}};
  const auto right = std::find_if(places.begin(), places.end(), [&](const Place& place) {
    return input.datatype() == place.datatype;
  });
  const auto& known = model.signature.inputs;
  const bool ours = right != places.end() && !input.datatype().empty() &&
                    std::any_of(known.begin(), known.end(),
                                [&](const TensorSpec& spec) { return spec.name == input.name(); });
  if (!ours) return absl::OkStatus();  // for the decoder to refuse
  for (const Place& place : places) {
    if (&place == right || place.values == 0) continue;
    return absl::InvalidArgumentError(
        fmt::format("input {} of model {}: datatype {} goes into {}, not into {}", input.name(),
                    Quoted(model.name), input.datatype(), right->field, place.field));
  }
  tensor.written_in = right->field;
  tensor.values = right->values;
  switch (right - places.begin()) {
    case 0:
      tensor.contents = BytesOf(contents.int_contents());
      break;
    case 1:
      tensor.contents = BytesOf(contents.int64_contents());
      break;
    case 2:
      tensor.contents = BytesOf(contents.fp32_contents());
      break;
    default:
      framed_.reserve(static_cast<size_t>(message_->inputs_size()));  // none moves later
      tensor.contents = BytesOf(framed_.emplace_back(FramedTexts(contents)));
  }
  return absl::OkStatus();
}

// An answer is written field by field, as protobuf would: of one tensor that takes 1,050 instructions, making a message of
// it first took 3,850 (callgrind).
std::string EncodeInferResponse(const Model& model, std::string_view id,
                                absl::Span<const ReturnedTensor> tensors) {
  using Response = inference::ModelInferResponse;
  const std::string version = std::to_string(model.version);
  size_t bytes = wire::TextBytes(model.name) + wire::TextBytes(version) + wire::TextBytes(id);
  for (const ReturnedTensor& tensor : tensors) {
    constexpr size_t kHeads = 2 * 6;  // of an output and of its contents, at most
    bytes += kHeads + OutputBytes(tensor) + tensor.bytes.size();
  }
  std::string out;
  out.reserve(bytes);
  wire::AppendText(Response::kModelNameFieldNumber, model.name, out);
  wire::AppendText(Response::kModelVersionFieldNumber, version, out);
  wire::AppendText(Response::kIdFieldNumber, id, out);
  for (const ReturnedTensor& tensor : tensors) {
    wire::AppendLength(Response::kOutputsFieldNumber, OutputBytes(tensor), out);
    AppendOutput(tensor, out);
  }
  std::string named;
  for (const ReturnedTensor& tensor : tensors) {
    const std::string_view contents = RawContents(tensor, named);
    wire::AppendLength(Response::kRawOutputContentsFieldNumber, contents.size(), out);
    out.append(contents);
  }
  return out;
}

std::string EncodeStreamed(std::string response) {
  // What is appended to a message is merged into it.
  inference::ModelInferResponse last;
  (*last.mutable_parameters())[kFinalResponse].set_bool_param(true);
  response += last.SerializeAsString();
  std::string streamed;
  google::protobuf::io::StringOutputStream bytes(&streamed);
  google::protobuf::io::CodedOutputStream out(&bytes);
  out.WriteTag(inference::ModelStreamInferResponse::kInferResponseFieldNumber << 3 | 2);
  out.WriteVarint64(response.size());
  out.WriteString(response);
  out.Trim();
  return streamed;
}

std::string EncodeStreamedError(std::string_view id, const absl::Status& status,
                                std::string_view request_id) {
  inference::ModelStreamInferResponse streamed;
  streamed.set_error_message(std::string(status.message()));
  inference::ModelInferResponse& response = *streamed.mutable_infer_response();
  response.set_id(std::string(id));
  auto& parameters = *response.mutable_parameters();
  parameters[kFinalResponse].set_bool_param(true);
  if (!request_id.empty()) {
    parameters[std::string(kRequestIdName)].set_string_param(std::string(request_id));
  }
  return streamed.SerializeAsString();
}

}  // namespace cellbatch

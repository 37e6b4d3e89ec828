#include "client/messages.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <string>
#include <utility>

namespace cellbatch {
namespace {

void SetParameter(const Parameter& value, inference::InferParameter& message) {
  if (const bool* flag = std::get_if<bool>(&value)) {
    message.set_bool_param(*flag);
  } else if (const int64_t* number = std::get_if<int64_t>(&value)) {
    message.set_int64_param(*number);
  } else if (const double* real = std::get_if<double>(&value)) {
    message.set_double_param(*real);
  } else {
    message.set_string_param(std::get<std::string>(value));
  }
}

CountedTime FromMessage(const inference::StatisticDuration& duration) {
  return {duration.count(), duration.ns()};
}

std::vector<TensorMetadata> FromMessages(
    const google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>&
        messages) {
  std::vector<TensorMetadata> tensors;
  for (const auto& message : messages) {
    tensors.push_back({message.name(), message.datatype(),
                       std::vector<int64_t>(message.shape().begin(), message.shape().end())});
  }
  return tensors;
}

const char* PhaseName(cellbatch::v1::Phase phase) {
  switch (phase) {
    case cellbatch::v1::PHASE_REQUEST:
      return "request";
    case cellbatch::v1::PHASE_QUEUE:
      return "queue";
    case cellbatch::v1::PHASE_COMPUTE:
      return "compute";
    default:
      return "unknown";
  }
}

}  // namespace

inference::ModelInferRequest ToMessage(const InferInput& input) {
  inference::ModelInferRequest request;
  request.set_model_name(input.model);
  request.set_model_version(input.version);
  request.set_id(input.id);
  for (const auto& [key, value] : input.parameters) {
    SetParameter(value, (*request.mutable_parameters())[key]);
  }
  for (const Tensor& tensor : input.inputs) {
    auto* message = request.add_inputs();
    message->set_name(tensor.name);
    message->set_datatype(tensor.datatype);
    message->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    request.add_raw_input_contents(tensor.bytes);
  }
  for (const std::string& name : input.outputs) {
    request.add_outputs()->set_name(name);
  }
  return request;
}

absl::StatusOr<InferResult> FromMessage(inference::ModelInferResponse& response) {
  if (response.raw_output_contents_size() != response.outputs_size()) {
    return absl::InternalError(fmt::format("the answer has {} outputs and {} raw contents",
                                           response.outputs_size(),
                                           response.raw_output_contents_size()));
  }
  InferResult result{response.model_name(), response.model_version(), response.id(), {}};
  for (int i = 0; i < response.outputs_size(); ++i) {
    auto& output = *response.mutable_outputs(i);
    Tensor tensor{output.name(), output.datatype(),
                  std::vector<int64_t>(output.shape().begin(), output.shape().end()),
                  std::move(*response.mutable_raw_output_contents(i))};
    const auto count = ElementCount(tensor.shape);
    const int64_t element = ElementBytes(tensor.datatype);
    if (!count.ok() ||
        (element != 0 && *count * element != static_cast<int64_t>(tensor.bytes.size()))) {
      return absl::InternalError(
          fmt::format("output {} of the answer has {} bytes, not its shape's", tensor.name,
                      tensor.bytes.size()));
    }
    result.outputs.push_back(std::move(tensor));
  }
  return result;
}

ModelMetadata FromMessage(const inference::ModelMetadataResponse& response) {
  return {response.name(),
          std::vector<std::string>(response.versions().begin(), response.versions().end()),
          response.platform(), FromMessages(response.inputs()), FromMessages(response.outputs())};
}

ModelConfiguration FromMessage(const inference::ModelConfig& config) {
  ModelConfiguration result{config.name(), config.platform(), config.max_batch_size(), {}, ""};
  for (const auto& [key, value] : config.parameters()) {
    result.parameters[key] = value.string_value();
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(config, &result.json, options).ok()) {
    result.json = "{}";
  }
  return result;
}

ModelCounts FromMessage(const inference::ModelStatistics& statistics) {
  const auto& times = statistics.inference_stats();
  ModelCounts counts;
  counts.name = statistics.name();
  counts.version = statistics.version();
  counts.inferences = statistics.inference_count();
  counts.executions = statistics.execution_count();
  counts.last_inference_ms = statistics.last_inference();
  counts.success = FromMessage(times.success());
  counts.fail = FromMessage(times.fail());
  counts.queue = FromMessage(times.queue());
  counts.compute_input = FromMessage(times.compute_input());
  counts.compute_infer = FromMessage(times.compute_infer());
  counts.compute_output = FromMessage(times.compute_output());
  for (const auto& batch : statistics.batch_stats()) {
    counts.batches.push_back({batch.batch_size(), FromMessage(batch.compute_infer())});
  }
  return counts;
}

ModelTimes FromMessage(const cellbatch::v1::ModelLatency& latency) {
  ModelTimes times;
  times.name = latency.model_name();
  times.version = latency.model_version();
  times.failed = latency.failed();
  times.covered_seconds = latency.covered_seconds();
  for (const auto& phase : latency.phases()) {
    times.phases.push_back({PhaseName(phase.phase()), phase.count(), phase.mean_ns(),
                            phase.p50_ns(), phase.p90_ns(), phase.p99_ns(), phase.p999_ns(),
                            phase.max_ns()});
  }
  return times;
}

}  // namespace cellbatch

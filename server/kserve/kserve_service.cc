#include "server/kserve/kserve_service.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "cells/cell_type.h"
#include "cells/unfold/unfolder.h"
#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr const char* kPlatform = "cellbatch";

inference::DataType DataTypeOf(WireType type) {
  switch (type) {
    case WireType::kInt32:
      return inference::TYPE_INT32;
    case WireType::kInt64:
      return inference::TYPE_INT64;
    case WireType::kFp32:
      return inference::TYPE_FP32;
    case WireType::kBytes:
      return inference::TYPE_STRING;
  }
  return inference::TYPE_INVALID;
}

template <typename Message>
void Describe(const TensorSpec& spec, Message& message) {
  message.set_name(spec.name);
  message.set_datatype(Name(spec.type));
  for (const int64_t dim : spec.dims) message.add_shape(dim);
}

void Set(inference::StatisticDuration& duration, int64_t count, int64_t ns) {
  duration.set_count(static_cast<uint64_t>(count));
  duration.set_ns(static_cast<uint64_t>(std::max<int64_t>(0, ns)));
}

void SetParameter(inference::ModelConfig& config, const std::string& key, std::string value) {
  (*config.mutable_parameters())[key].set_string_value(std::move(value));
}

// What those who make requests need to know beside the metadata: every input that a request may bring, listed or
// not, and the bounds of ids and sizes.
void DescribeRequests(const Model& model, inference::ModelConfig& config) {
  const RequestDescription described =
      model.unfolder == nullptr ? RequestDescription() : model.unfolder->Describe();
  for (const TensorSpec& input : model.signature.inputs) {
    const std::string prefix = "input." + input.name + ".";
    RequestDescription::Input more;
    for (const RequestDescription::Input& said : described.inputs) {
      if (said.name == input.name) more = said;
    }
    SetParameter(config, prefix + "datatype", Name(input.type));
    SetParameter(config, prefix + "dims", fmt::format("{}", fmt::join(input.dims, ",")));
    SetParameter(config, prefix + "ids", std::to_string(more.num_ids));
    SetParameter(config, prefix + "max_rows", std::to_string(more.max_rows));
  }
  SetParameter(config, "max_nodes", std::to_string(described.max_nodes));
  SetParameter(config, "max_decode_steps", std::to_string(described.max_decode_steps));
  SetParameter(config, "max_children", std::to_string(described.max_children));
  if (described.node_types.empty()) return;
  SetParameter(config, "graph.output_type", std::to_string(described.output_type));
  for (size_t t = 0; t < described.node_types.size(); ++t) {
    const NodeTypeDescription& type = described.node_types[t];
    SetParameter(config, fmt::format("graph.{}", t), type.name);
    for (size_t i = 0; i < type.inputs.size(); ++i) {
      const NodeTypeDescription::Port& port = type.inputs[i];
      const std::string reads =
          port.brought ? "request"
                       : fmt::format("{}{}", port.sums ? "+" : "", fmt::join(port.reads, ","));
      SetParameter(config, fmt::format("graph.{}.{}", t, i), port.name + "=" + reads);
    }
  }
}

// One of the two: sequences, where tools are to send them, or requests by themselves.
void DescribeBatching(const Model& model, std::optional<std::chrono::nanoseconds> sequence_idle,
                      inference::ModelConfig& config) {
  if (model.asks_for_sequences && sequence_idle.has_value()) {
    const auto idle = std::chrono::duration_cast<std::chrono::microseconds>(*sequence_idle);
    config.mutable_sequence_batching()->set_max_sequence_idle_microseconds(
        static_cast<uint64_t>(idle.count()));
    return;
  }
  inference::ModelDynamicBatching& batching = *config.mutable_dynamic_batching();
  if (model.priority_levels > 1) {
    batching.set_priority_levels(static_cast<uint64_t>(model.priority_levels));
    batching.set_default_priority_level(static_cast<uint64_t>(model.default_priority_level));
  }
}

void DescribePolicy(const Model& model, const SchedulerStats& stats,
                    inference::ModelConfig& config) {
  for (const LaneStats& lane : stats.Lanes()) {
    if (lane.model != model.id) continue;
    SetParameter(config, "policy", lane.policy);
    if (!lane.policy_about.empty()) SetParameter(config, "policy.about", lane.policy_about);
    SetParameter(config, "join", lane.join);
  }
}

void DescribeCellTypes(const Model& model, const std::vector<CellTypeCalibration>& calibration,
                       inference::ModelConfig& config) {
  for (const CellType& type : model.types) {
    const std::string prefix = "cell." + type.name + ".";
    int32_t max_batch = 0, peak_batch = 0;  // the least of the memories
    for (const CellTypeCalibration& measured : calibration) {
      if (measured.type != type.id) continue;
      max_batch = max_batch == 0 ? measured.max_batch : std::min(max_batch, measured.max_batch);
      peak_batch =
          peak_batch == 0 ? measured.peak_batch : std::min(peak_batch, measured.peak_batch);
    }
    if (max_batch == 0) max_batch = type.max_batch;
    SetParameter(config, prefix + "definition", type.definition->name());
    SetParameter(config, prefix + "b_max", std::to_string(max_batch));
    SetParameter(config, prefix + "b_peak", std::to_string(std::max(max_batch, peak_batch)));
    SetParameter(config, prefix + "min_batch", std::to_string(type.min_batch));
    SetParameter(config, prefix + "priority", std::to_string(type.priority));
    SetParameter(config, prefix + "flops", std::to_string(type.definition->flops()));
  }
}

// A batch is a task: cells of one type. What a task gathers and scatters is part of its time, so that input and output have
// none of their own.
void AddBatches(const std::vector<CellTypeStats>& types, inference::ModelStatistics& out) {
  std::array<int64_t, kBatchBuckets> tasks = {}, ns = {};
  uint64_t executions = 0;
  for (const CellTypeStats& type : types) {
    executions += type.tasks;
    for (int bucket = 0; bucket < kHistogramBuckets; ++bucket) {
      const auto to = static_cast<size_t>(std::min(bucket, kBatchBuckets - 1));
      tasks[to] += static_cast<int64_t>(type.batch_size.buckets[static_cast<size_t>(bucket)]);
    }
    for (size_t i = 0; i < ns.size(); ++i) ns[i] += type.batch_ns[i];
  }
  out.set_execution_count(executions);
  for (int bucket = 0; bucket < kBatchBuckets; ++bucket) {
    const auto at = static_cast<size_t>(bucket);
    if (tasks[at] == 0) continue;
    inference::InferBatchStatistics& batch = *out.add_batch_stats();
    batch.set_batch_size(static_cast<uint64_t>(BucketLow(bucket)));
    Set(*batch.mutable_compute_input(), tasks[at], 0);
    Set(*batch.mutable_compute_infer(), tasks[at], ns[at]);
    Set(*batch.mutable_compute_output(), tasks[at], 0);
  }
}

// Older clients put the model's name where newer ones put the repository's.
absl::Status ReadModelName(const std::string& repository, std::string& model) {
  if (model.empty()) {
    model = repository;
    return absl::OkStatus();
  }
  if (repository.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "repository_name is {}: there is one model repository, leave it empty", Quoted(repository)));
}

}  // namespace

KServeService::KServeService(FindModel find, std::function<std::vector<IndexEntry>()> index,
                             const Scheduler& scheduler, const StatsRegistry& stats,
                             const Lifecycle& lifecycle)
    : find_(std::move(find)),
      index_(std::move(index)),
      scheduler_(scheduler),
      stats_(stats),
      lifecycle_(lifecycle) {}

absl::StatusOr<std::shared_ptr<const Model>> KServeService::Find(const std::string& name,
                                                                 const std::string& version) const {
  absl::Status status = CheckModelName(name);
  if (status.ok()) status = CheckModelVersion(version);
  if (!status.ok()) return status;
  return find_(name, version);
}

inference::ServerLiveResponse KServeService::ServerLive() const {
  inference::ServerLiveResponse response;
  response.set_live(true);
  return response;
}

inference::ServerReadyResponse KServeService::ServerReady() const {
  inference::ServerReadyResponse response;
  response.set_ready(lifecycle_.ready());
  return response;
}

inference::ServerMetadataResponse KServeService::ServerMetadata() const {
  inference::ServerMetadataResponse response;
  response.set_name(std::string(kServerName));
  response.set_version(std::string(kServerVersion));
  for (const char* extension :
       {"model_repository", "model_repository(unload_dependents)", "schedule_policy",
        "model_configuration", "binary_tensor_data", "statistics", "trace", "logging"}) {
    response.add_extensions(extension);
  }
  if (sequence_idle_.has_value()) {
    for (const char* extension : {"sequence", "sequence(string_id)"}) {
      response.add_extensions(extension);
    }
  }
  return response;
}

absl::StatusOr<inference::ModelReadyResponse> KServeService::ModelReady(
    const inference::ModelReadyRequest& request) const {
  const auto model = Find(request.name(), request.version());
  if (!model.ok() && model.status().code() != absl::StatusCode::kUnavailable) {
    return model.status();
  }
  inference::ModelReadyResponse response;
  response.set_ready(model.ok() && lifecycle_.ready() && AnyDeviceLeft(**model));
  return response;
}

// Of those that it lives on: the other kind's do nothing for it.
bool KServeService::AnyDeviceLeft(const Model& model) const {
  const std::vector<DeviceStats> devices = DevicesOf(model.devices, scheduler_.stats().Devices());
  return devices.empty() || std::any_of(devices.begin(), devices.end(),
                                        [](const DeviceStats& device) { return device.healthy; });
}

absl::StatusOr<inference::ModelMetadataResponse> KServeService::ModelMetadata(
    const inference::ModelMetadataRequest& request) const {
  const auto model = Find(request.name(), request.version());
  if (!model.ok()) return model.status();
  inference::ModelMetadataResponse response;
  response.set_name((*model)->name);
  for (const IndexEntry& entry : index_()) {
    const bool answers = entry.name == request.name() && entry.state == kReady;
    if (answers) response.add_versions(entry.version);
  }
  response.set_platform(kPlatform);
  for (const TensorSpec& spec : (*model)->signature.inputs) {
    if (spec.listed) Describe(spec, *response.add_inputs());
  }
  for (const TensorSpec& spec : (*model)->signature.outputs) {
    if (spec.listed) Describe(spec, *response.add_outputs());
  }
  return response;
}

absl::StatusOr<inference::ModelConfigResponse> KServeService::ModelConfig(
    const inference::ModelConfigRequest& request) const {
  const auto found = Find(request.name(), request.version());
  if (!found.ok()) return found.status();
  const Model& model = **found;
  inference::ModelConfigResponse response;
  inference::ModelConfig& config = *response.mutable_config();
  config.set_name(model.name);
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  config.set_max_batch_size(0);  // a request is one sequence; batching is the server's
  DescribeBatching(model, sequence_idle_, config);
  config.mutable_model_transaction_policy()->set_decoupled(false);
  // As the metadata: perf_analyzer refuses a configuration that names other tensors.
  for (const TensorSpec& spec : model.signature.inputs) {
    if (!spec.listed) continue;
    inference::ModelInput& input = *config.add_input();
    input.set_name(spec.name);
    input.set_data_type(DataTypeOf(spec.type));
    for (const int64_t dim : spec.dims) input.add_dims(dim);
    input.set_optional(spec.optional);
  }
  for (const TensorSpec& spec : model.signature.outputs) {
    if (!spec.listed) continue;
    inference::ModelOutput& output = *config.add_output();
    output.set_name(spec.name);
    output.set_data_type(DataTypeOf(spec.type));
    for (const int64_t dim : spec.dims) output.add_dims(dim);
  }
  const Signature& signature = model.signature;
  SetParameter(config, "vocabulary_size", std::to_string(signature.vocabulary_size));
  SetParameter(config, "out_of_vocabulary",
               signature.out_of_vocabulary == OutOfVocabulary::kReject ? "reject" : "unknown");
  SetParameter(config, "max_sequence_length", std::to_string(signature.max_sequence_length));
  DescribeRequests(model, config);
  SetParameter(config, "precision", Name(model.precision));
  SetParameter(config, "max_tasks_in_flight", std::to_string(scheduler_.max_tasks_in_flight()));
  DescribePolicy(model, scheduler_.stats(), config);
  DescribeCellTypes(model, scheduler_.Calibration(model.id), config);
  return response;
}

void KServeService::AddStatistics(const Model& model,
                                  inference::ModelStatisticsResponse& response) const {
  RequestCounts counts;
  if (const ModelStats* stats = stats_.Find(model.id)) counts = stats->Read();
  inference::ModelStatistics& out = *response.add_model_stats();
  out.set_name(model.name);
  out.set_version(std::to_string(model.version));
  out.set_last_inference(static_cast<uint64_t>(counts.last_done_unix_ms));
  out.set_inference_count(static_cast<uint64_t>(counts.done));
  int64_t failed = 0;
  for (int i = 0; i < kNumOutcomes; ++i) {
    if (i != static_cast<int>(RequestOutcome::kOk))
      failed += counts.outcomes[static_cast<size_t>(i)];
  }
  // One count for all of them: a request enters each sum in the same moment, when it is answered.
  inference::InferStatistics& sums = *out.mutable_inference_stats();
  Set(*sums.mutable_success(), counts.done, counts.request_ns);
  Set(*sums.mutable_fail(), failed, counts.failed_ns);
  Set(*sums.mutable_queue(), counts.done, counts.queue_ns - counts.input_ns);
  Set(*sums.mutable_compute_input(), counts.done, counts.input_ns);
  Set(*sums.mutable_compute_infer(), counts.done, counts.compute_ns);
  Set(*sums.mutable_compute_output(), counts.done, counts.output_ns);
  Set(*sums.mutable_cache_hit(), 0, 0);  // there is no cache
  Set(*sums.mutable_cache_miss(), 0, 0);

  // Executions are batched tasks.
  std::vector<CellTypeStats> types = stats_.EndedTypes(model.id);
  for (LaneStats& lane : scheduler_.stats().Lanes()) {
    if (lane.model != model.id) continue;
    types.insert(types.end(), std::make_move_iterator(lane.types.begin()),
                 std::make_move_iterator(lane.types.end()));
  }
  AddBatches(types, out);
}

absl::StatusOr<inference::ModelStatisticsResponse> KServeService::ModelStatistics(
    const inference::ModelStatisticsRequest& request) const {
  inference::ModelStatisticsResponse response;
  std::shared_ptr<const Model> asked;
  if (!request.name().empty()) {
    auto model = Find(request.name(), request.version());
    if (!model.ok()) return model.status();
    asked = *std::move(model);
  }
  if (asked == nullptr || request.version().empty()) {
    for (const IndexEntry& entry : index_()) {
      if (entry.state != kReady || (asked != nullptr && entry.name != request.name())) continue;
      const auto model = find_(entry.name, entry.version);
      if (model.ok()) AddStatistics(**model, response);
    }
  }
  // One version of it; or the index did not know of it yet, or knew no more.
  if (asked != nullptr && response.model_stats().empty()) AddStatistics(*asked, response);
  return response;
}

absl::StatusOr<inference::LogSettingsResponse> KServeService::LogSettings(
    const inference::LogSettingsRequest& request) const {
  if (log_settings_) return log_settings_(request);
  return absl::UnimplementedError("nobody here knows what is logged");
}

absl::StatusOr<inference::TraceSettingResponse> KServeService::TraceSetting(
    const inference::TraceSettingRequest& request) const {
  if (!request.model_name().empty()) {
    const auto model = Find(request.model_name(), "");
    if (!model.ok()) return model.status();
  }
  if (trace_settings_) return trace_settings_(request);
  return absl::UnimplementedError("nobody here knows what is traced");
}

void KServeService::RepositoryModelLoad(const inference::RepositoryModelLoadRequest& request,
                                        ModelChangeDone done) const {
  std::string name = request.model_name();
  absl::Status status = ReadModelName(request.repository_name(), name);
  for (const auto& [parameter, value] : request.parameters()) {
    if (!status.ok()) break;
    status = absl::InvalidArgumentError(
        fmt::format("parameter {} of a load is not taken: a model is what its folder in the "
                    "repository says",
                    Quoted(parameter)));
  }
  if (status.ok() && !change_) status = absl::UnimplementedError("models are not loaded by call");
  if (!status.ok()) return done(status);
  change_(ModelChange::kLoad, std::move(name), std::move(done));
}

void KServeService::RepositoryModelUnload(const inference::RepositoryModelUnloadRequest& request,
                                          ModelChangeDone done) const {
  std::string name = request.model_name();
  absl::Status status = ReadModelName(request.repository_name(), name);
  for (const auto& [parameter, value] : request.parameters()) {
    if (!status.ok() || parameter == "unload_dependents") continue;
    status = absl::InvalidArgumentError(fmt::format(
        "parameter {} of an unload is not taken: unload_dependents is, and no model has any",
        Quoted(parameter)));
  }
  if (status.ok() && !change_) status = absl::UnimplementedError("models are not unloaded by call");
  if (!status.ok()) return done(status);
  change_(ModelChange::kUnload, std::move(name), std::move(done));
}

inference::RepositoryIndexResponse KServeService::RepositoryIndex(
    const inference::RepositoryIndexRequest& request, const Access* by) const {
  inference::RepositoryIndexResponse response;
  for (const IndexEntry& entry : index_()) {
    if (request.ready() && entry.state != kReady) continue;
    if (by != nullptr && !by->Covers(entry.name)) continue;
    auto& model = *response.add_models();
    model.set_name(AsUtf8(entry.name));  // a folder may be called anything
    model.set_version(entry.version);
    model.set_state(entry.state);
    model.set_reason(AsUtf8(entry.reason));
  }
  return response;
}

}  // namespace cellbatch

#include "client/null_server.h"

#include <fmt/format.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/grpc_service.grpc.pb.h"

namespace cellbatch {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

struct Counters {
  std::atomic<int64_t> requests{0};
  std::atomic<int64_t> cancelled{0};
  std::atomic<int64_t> in_flight{0};
};

ServerUnaryReactor* FinishNow(CallbackServerContext* context,
                              const grpc::Status& status = grpc::Status::OK) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// One request on its way to a late answer: the alarm ends it, early where the client gave up.
class LateAnswer final : public ServerUnaryReactor {
 public:
  LateAnswer(Counters& counters, std::chrono::nanoseconds delay, grpc::Status status)
      : counters_(counters), status_(std::move(status)) {
    ++counters_.in_flight;
    const gpr_timespec at = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                         gpr_time_from_nanos(delay.count(), GPR_TIMESPAN));
    alarm_.Set(at, [this](bool rang) { Finish(rang ? status_ : grpc::Status::CANCELLED); });
  }

  void OnCancel() override {
    ++counters_.cancelled;
    alarm_.Cancel();
  }

  void OnDone() override {
    --counters_.in_flight;
    delete this;
  }

 private:
  Counters& counters_;
  grpc::Status status_;
  grpc::Alarm alarm_;
};

template <typename T>
double Sum(const std::string& bytes) {
  double sum = 0;
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    sum += static_cast<double>(value);
  }
  return sum;
}

class KserveService final : public inference::GRPCInferenceService::CallbackService {
 public:
  KserveService(const NullServerOptions& options, Counters& counters)
      : options_(options), counters_(counters) {}

  ServerUnaryReactor* ServerLive(CallbackServerContext* context,
                                 const inference::ServerLiveRequest*,
                                 inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return FinishNow(context);
  }

  ServerUnaryReactor* ServerReady(CallbackServerContext* context,
                                  const inference::ServerReadyRequest*,
                                  inference::ServerReadyResponse* response) override {
    response->set_ready(true);
    return FinishNow(context);
  }

  ServerUnaryReactor* ModelReady(CallbackServerContext* context,
                                 const inference::ModelReadyRequest* request,
                                 inference::ModelReadyResponse* response) override {
    response->set_ready(request->name() == options_.model);
    return FinishNow(context);
  }

  ServerUnaryReactor* ServerMetadata(CallbackServerContext* context,
                                     const inference::ServerMetadataRequest*,
                                     inference::ServerMetadataResponse* response) override {
    response->set_name("cellbatch-null");
    response->set_version("0");
    response->add_extensions("statistics");
    return FinishNow(context);
  }

  ServerUnaryReactor* ModelMetadata(CallbackServerContext* context,
                                    const inference::ModelMetadataRequest* request,
                                    inference::ModelMetadataResponse* response) override {
    response->set_name(options_.model);
    response->add_versions("1");
    response->set_platform("null");
    auto* input = response->add_inputs();
    input->set_name(options_.vector_width > 0 ? "X" : "TOKENS");
    input->set_datatype(options_.vector_width > 0 ? "FP32" : "INT32");
    input->add_shape(-1);
    if (options_.vector_width > 0) {
      input->add_shape(options_.vector_width);
    }
    auto* output = response->add_outputs();
    output->set_name("OUTPUT");
    output->set_datatype("FP32");
    output->add_shape(2);
    return FinishNow(context, CheckModel(request->name()));
  }

  ServerUnaryReactor* ModelConfig(CallbackServerContext* context,
                                  const inference::ModelConfigRequest* request,
                                  inference::ModelConfigResponse* response) override {
    auto* config = response->mutable_config();
    config->set_name(options_.model);
    config->set_platform("null");
    if (options_.vector_width == 0) {
      (*config->mutable_parameters())["vocabulary_size"].set_string_value(
          std::to_string(options_.vocabulary_size));
    }
    return FinishNow(context, CheckModel(request->name()));
  }

  ServerUnaryReactor* ModelStatistics(CallbackServerContext* context,
                                      const inference::ModelStatisticsRequest*,
                                      inference::ModelStatisticsResponse* response) override {
    auto* statistics = response->add_model_stats();
    statistics->set_name(options_.model);
    statistics->set_version("1");
    statistics->set_inference_count(counters_.requests.load());
    return FinishNow(context);
  }

  ServerUnaryReactor* RepositoryIndex(CallbackServerContext* context,
                                      const inference::RepositoryIndexRequest*,
                                      inference::RepositoryIndexResponse* response) override {
    auto* model = response->add_models();
    model->set_name(options_.model);
    model->set_version("1");
    model->set_state("READY");
    return FinishNow(context);
  }

  ServerUnaryReactor* ModelInfer(CallbackServerContext*,
                                 const inference::ModelInferRequest* request,
                                 inference::ModelInferResponse* response) override {
    ++counters_.requests;
    return new LateAnswer(counters_, options_.delay, Answer(*request, *response));
  }

 private:
  grpc::Status CheckModel(const std::string& name) const {
    return name == options_.model
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::NOT_FOUND, fmt::format("no model \"{}\"", name));
  }

  grpc::Status CheckTokens(const std::string& bytes) const {
    for (size_t i = 0; i + sizeof(int32_t) <= bytes.size(); i += sizeof(int32_t)) {
      int32_t token;
      std::memcpy(&token, bytes.data() + i, sizeof(token));
      if (token < 0 || token >= options_.vocabulary_size) {
        return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                            fmt::format("token {} is {}, the vocabulary ends at {}",
                                        i / sizeof(token), token, options_.vocabulary_size - 1));
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status Answer(const inference::ModelInferRequest& request,
                      inference::ModelInferResponse& response) const {
    if (grpc::Status status = CheckModel(request.model_name()); !status.ok()) {
      return status;
    }
    if (options_.most_in_flight > 0 && counters_.in_flight >= options_.most_in_flight) {
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many requests in flight");
    }
    if (options_.answer != absl::StatusCode::kOk) {
      return grpc::Status(static_cast<grpc::StatusCode>(options_.answer), "as it was told to");
    }
    if (request.inputs_size() != 1 || request.raw_input_contents_size() != 1 ||
        request.inputs(0).shape_size() == 0) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "one raw input tensor is needed");
    }
    const std::string& bytes = request.raw_input_contents(0);
    if (options_.vector_width == 0) {
      if (grpc::Status status = CheckTokens(bytes); !status.ok()) {
        return status;
      }
    }
    response.set_model_name(request.model_name());
    response.set_model_version("1");
    response.set_id(request.id());
    auto* output = response.add_outputs();
    output->set_name("OUTPUT");
    output->set_datatype("FP32");
    output->add_shape(2);
    const double sum = options_.vector_width > 0 ? Sum<float>(bytes) : Sum<int32_t>(bytes);
    const float values[] = {static_cast<float>(request.inputs(0).shape(0)),
                            static_cast<float>(sum)};
    response.add_raw_output_contents(reinterpret_cast<const char*>(values), sizeof(values));
    return grpc::Status::OK;
  }

  const NullServerOptions& options_;
  Counters& counters_;
};

class TypedService final : public cellbatch::v1::Cellbatch::CallbackService {
 public:
  TypedService(const NullServerOptions& options, const Counters& counters)
      : options_(options), counters_(counters) {}

  ServerUnaryReactor* Latency(CallbackServerContext* context,
                              const cellbatch::v1::LatencyRequest* request,
                              cellbatch::v1::LatencyResponse* response) override {
    if (!request->model_version().empty() && request->model_version() != "1") {
      return FinishNow(context, {grpc::StatusCode::NOT_FOUND, "there is version 1"});
    }
    auto* model = response->add_models();
    model->set_model_name(options_.model);
    model->set_model_version("1");
    model->set_covered_seconds(request->window_seconds());
    auto* phase = model->add_phases();
    phase->set_phase(cellbatch::v1::PHASE_REQUEST);
    phase->set_count(counters_.requests.load());
    const uint64_t ns = options_.delay.count();
    phase->set_mean_ns(ns);
    phase->set_p50_ns(ns);
    phase->set_p90_ns(ns);
    phase->set_p99_ns(ns);
    phase->set_p999_ns(ns);
    phase->set_max_ns(ns);
    return FinishNow(context);
  }

 private:
  const NullServerOptions& options_;
  const Counters& counters_;
};

}  // namespace

struct NullServer::Impl {
  NullServerOptions options;
  Counters counters;
  std::unique_ptr<KserveService> kserve;
  std::unique_ptr<TypedService> typed;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

NullServer::NullServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<NullServer>> NullServer::Start(NullServerOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->kserve = std::make_unique<KserveService>(impl->options, impl->counters);
  impl->typed = std::make_unique<TypedService>(impl->options, impl->counters);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(impl->options.address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(impl->kserve.get());
  builder.RegisterService(impl->typed.get());
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || port == 0) {
    return absl::UnavailableError(fmt::format("cannot listen on {}", impl->options.address));
  }
  const std::string host = impl->options.address.substr(0, impl->options.address.rfind(':'));
  impl->address = fmt::format("{}:{}", host, port);
  return std::unique_ptr<NullServer>(new NullServer(std::move(impl)));
}

NullServer::~NullServer() { impl_->server->Shutdown(std::chrono::system_clock::now()); }

const std::string& NullServer::address() const { return impl_->address; }
int64_t NullServer::requests() const { return impl_->counters.requests; }
int64_t NullServer::cancelled() const { return impl_->counters.cancelled; }

}  // namespace cellbatch

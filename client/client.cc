#include "client/client.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "client/channel.h"
#include "client/connection.h"
#include "client/messages.h"

namespace cellbatch {
namespace {

using inference::GRPCInferenceService;

template <typename Request>
Request Named(const std::string& model, const std::string& version) {
  Request request;
  request.set_name(model);
  request.set_version(version);
  return request;
}

}  // namespace

void Call::Cancel() const {
  if (state_ != nullptr) {
    state_->context.TryCancel();
  }
}

const Tensor* InferResult::Find(std::string_view name) const {
  for (const Tensor& tensor : outputs) {
    if (tensor.name == name) {
      return &tensor;
    }
  }
  return nullptr;
}

Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

Client::~Client() {
  std::unique_lock lock(connection_->mutex);
  connection_->idle.wait(lock, [&] { return connection_->calls_in_flight == 0; });
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(std::numeric_limits<int32_t>::max());
  arguments.SetMaxSendMessageSize(std::numeric_limits<int32_t>::max());
  auto connection = std::make_unique<Connection>();
  connection->channel = OpenChannel(options.url, options.security, arguments);
  const absl::Status connected =
      WaitUntilConnected(connection->channel, options.url, options.connect_timeout);
  if (!connected.ok()) {
    return connected;
  }
  connection->kserve = GRPCInferenceService::NewStub(connection->channel);
  connection->typed = cellbatch::v1::Cellbatch::NewStub(connection->channel);
  connection->health = grpc::health::v1::Health::NewStub(connection->channel);
  return std::unique_ptr<Client>(new Client(std::move(connection)));
}

absl::StatusOr<InferResult> Client::Infer(const InferInput& input, CallOptions options) {
  auto response =
      Ask(*connection_->kserve, &GRPCInferenceService::Stub::ModelInfer, ToMessage(input), options);
  if (!response.ok()) {
    return response.status();
  }
  return FromMessage(*response);
}

Call Client::InferAsync(const InferInput& input, CallOptions options, InferCallback done) {
  struct Messages {
    inference::ModelInferRequest request;
    inference::ModelInferResponse response;
  };
  auto state = std::make_shared<Call::State>();
  auto messages = std::make_shared<Messages>();
  messages->request = ToMessage(input);
  SetDeadline(options, state->context);
  connection_->CallBegins();
  connection_->kserve->async()->ModelInfer(
      &state->context, &messages->request, &messages->response,
      [state, messages, done = std::move(done),
       connection = connection_.get()](const grpc::Status& status) mutable {
        if (status.ok()) {
          done(FromMessage(messages->response));
        } else {
          done(ToStatus(status));
        }
        state.reset();  // before: see CallEnds
        connection->CallEnds();
      });
  return Call(std::move(state));
}

absl::StatusOr<ServerHealth> Client::Health(CallOptions options) {
  const auto live = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ServerLive,
                        inference::ServerLiveRequest(), options);
  if (!live.ok()) {
    return live.status();
  }
  const auto ready = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ServerReady,
                         inference::ServerReadyRequest(), options);
  if (!ready.ok()) {
    return ready.status();
  }
  const auto check = Ask(*connection_->health, &grpc::health::v1::Health::Stub::Check,
                         grpc::health::v1::HealthCheckRequest(), options);
  if (!check.ok()) {
    return check.status();
  }
  return ServerHealth{live->live(), ready->ready(),
                      grpc::health::v1::HealthCheckResponse::ServingStatus_Name(check->status())};
}

absl::StatusOr<bool> Client::ModelReady(const std::string& model, const std::string& version,
                                        CallOptions options) {
  const auto response = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ModelReady,
                            Named<inference::ModelReadyRequest>(model, version), options);
  if (!response.ok()) {
    return response.status();
  }
  return response->ready();
}

absl::StatusOr<ServerMetadata> Client::Server(CallOptions options) {
  const auto response = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ServerMetadata,
                            inference::ServerMetadataRequest(), options);
  if (!response.ok()) {
    return response.status();
  }
  return ServerMetadata{
      response->name(), response->version(),
      std::vector<std::string>(response->extensions().begin(), response->extensions().end())};
}

absl::StatusOr<ModelMetadata> Client::Metadata(const std::string& model, const std::string& version,
                                               CallOptions options) {
  const auto response = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ModelMetadata,
                            Named<inference::ModelMetadataRequest>(model, version), options);
  if (!response.ok()) {
    return response.status();
  }
  return FromMessage(*response);
}

absl::StatusOr<ModelConfiguration> Client::Config(const std::string& model,
                                                  const std::string& version, CallOptions options) {
  const auto response = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ModelConfig,
                            Named<inference::ModelConfigRequest>(model, version), options);
  if (!response.ok()) {
    return response.status();
  }
  return FromMessage(response->config());
}

absl::StatusOr<std::vector<ModelCounts>> Client::Statistics(const std::string& model,
                                                            const std::string& version,
                                                            CallOptions options) {
  const auto response = Ask(*connection_->kserve, &GRPCInferenceService::Stub::ModelStatistics,
                            Named<inference::ModelStatisticsRequest>(model, version), options);
  if (!response.ok()) {
    return response.status();
  }
  std::vector<ModelCounts> models;
  for (const auto& statistics : response->model_stats()) {
    models.push_back(FromMessage(statistics));
  }
  return models;
}

absl::StatusOr<std::vector<IndexedModel>> Client::RepositoryIndex(bool only_ready,
                                                                  CallOptions options) {
  inference::RepositoryIndexRequest request;
  request.set_ready(only_ready);
  const auto response =
      Ask(*connection_->kserve, &GRPCInferenceService::Stub::RepositoryIndex, request, options);
  if (!response.ok()) {
    return response.status();
  }
  std::vector<IndexedModel> models;
  for (const auto& model : response->models()) {
    models.push_back({model.name(), model.version(), model.state(), model.reason()});
  }
  return models;
}

absl::StatusOr<std::vector<ModelTimes>> Client::Latency(const std::string& model,
                                                        const std::string& version,
                                                        double window_seconds,
                                                        CallOptions options) {
  cellbatch::v1::LatencyRequest request;
  request.set_model_name(model);
  request.set_model_version(version);
  request.set_window_seconds(window_seconds);
  const auto response =
      Ask(*connection_->typed, &cellbatch::v1::Cellbatch::Stub::Latency, request, options);
  if (!response.ok()) {
    return response.status();
  }
  std::vector<ModelTimes> models;
  for (const auto& latency : response->models()) {
    models.push_back(FromMessage(latency));
  }
  return models;
}

}  // namespace cellbatch

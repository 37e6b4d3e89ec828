#include "server/grpc/grpc_methods.h"

#include <utility>

#include "cells/check.h"
#include "google/protobuf/descriptor.h"
#include "proto/cellbatch.pb.h"
#include "proto/grpc_service.pb.h"
#include "proto/health.pb.h"
#include "proto/reflection.pb.h"
#include "server/grpc/reflection.h"
#include "server/wire/message_method.h"

namespace cellbatch {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::MethodDescriptor;

constexpr bool kProbe = false, kSlow = true;
constexpr int kModelInferAccepts = 64, kTypedAccepts = 16, kOtherAccepts = 8;

absl::StatusOr<std::string> Bytes(const google::protobuf::Message& answer) {
  return answer.SerializeAsString();
}
template <typename Response>
absl::StatusOr<std::string> Bytes(const absl::StatusOr<Response>& answer) {
  if (!answer.ok()) return answer.status();
  return answer->SerializeAsString();
}

// As Triton answers it: a model that is not there is not ready. Its clients wait for one that is to come by asking again,
// and an error ends them. (Over HTTP a status says which of the two it is.)
absl::StatusOr<inference::ModelReadyResponse> ReadyOrNot(
    absl::StatusOr<inference::ModelReadyResponse> answer) {
  if (absl::IsNotFound(answer.status())) return inference::ModelReadyResponse();
  return answer;
}

}  // namespace

GrpcMethods::GrpcMethods(const CallSinks& sinks, const KServeService& kserve,
                         const LatencyService& latency, const MessageBounds& bounds,
                         bool reflection, RefusalCounts& refusals)
    : bounds_(bounds), refusals_(refusals) {
  AddInfer(*inference::ModelInferRequest::descriptor(), "ModelInfer", sinks.model_infer,
           Streams::kNone, kModelInferAccepts);
  AddInfer(*v1::InferRequest::descriptor(), "Infer", sinks.infer, Streams::kNone, kTypedAccepts);
  AddInfer(*v1::DecodeRequest::descriptor(), "Decode", sinks.decode, Streams::kAnswers,
           kTypedAccepts);
  if (sinks.stream_infer != nullptr) {
    Add(*inference::ModelInferRequest::descriptor(), "ModelStreamInfer",
        {.service = nullptr,
         .number = 0,
         .sink = sinks.stream_infer,
         .streams = Streams::kBoth,
         .many = true,
         .accepts = kTypedAccepts,
         .max_bytes = 0});
  }
  AddKServe(kserve);
  AddLatency(latency);
  if (reflection) AddReflection();
  AddHealth();
}

void GrpcMethods::Register(grpc::ServerBuilder& builder) {
  for (auto& [name, service] : services_) builder.RegisterService(&service);
}

void GrpcMethods::AddKServe(const KServeService& kserve) {
  Answer<inference::ServerLiveRequest>("ServerLive", kProbe,
                                       [&](const auto&) { return Bytes(kserve.ServerLive()); });
  Answer<inference::ServerReadyRequest>("ServerReady", kProbe,
                                        [&](const auto&) { return Bytes(kserve.ServerReady()); });
  Answer<inference::ModelReadyRequest>("ModelReady", kProbe, [&](const auto& request) {
    return Bytes(ReadyOrNot(kserve.ModelReady(request)));
  });
  Answer<inference::ServerMetadataRequest>(
      "ServerMetadata", kSlow, [&](const auto&) { return Bytes(kserve.ServerMetadata()); });
  Answer<inference::ModelMetadataRequest>("ModelMetadata", kSlow, [&](const auto& request) {
    return Bytes(kserve.ModelMetadata(request));
  });
  Answer<inference::ModelConfigRequest>("ModelConfig", kSlow, [&](const auto& request) {
    return Bytes(kserve.ModelConfig(request));
  });
  Answer<inference::ModelStatisticsRequest>("ModelStatistics", kSlow, [&](const auto& request) {
    return Bytes(kserve.ModelStatistics(request));
  });
  AnswerWhom<inference::RepositoryIndexRequest>("RepositoryIndex", kSlow,
                                                [&](const auto& request, const Access* by) {
                                                  return Bytes(kserve.RepositoryIndex(request, by));
                                                });
  Answer<inference::LogSettingsRequest>("LogSettings", kSlow, [&](const auto& request) {
    return Bytes(kserve.LogSettings(request));
  });
  Answer<inference::TraceSettingRequest>("TraceSetting", kSlow, [&](const auto& request) {
    return Bytes(kserve.TraceSetting(request));
  });
  Change<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      "RepositoryModelLoad", [&](const auto& request, ModelChangeDone done) {
        kserve.RepositoryModelLoad(request, std::move(done));
      });
  Change<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload", [&](const auto& request, ModelChangeDone done) {
        kserve.RepositoryModelUnload(request, std::move(done));
      });
}

void GrpcMethods::AddLatency(const LatencyService& latency) {
  Answer<v1::LatencyRequest>("Latency", kSlow,
                             [&](const auto& request) { return Bytes(latency.Latency(request)); });
}

void GrpcMethods::AddReflection() {
  using grpc::reflection::v1alpha::ServerReflectionRequest;
  Answer<ServerReflectionRequest>(
      "ServerReflectionInfo", kSlow,
      [this](const auto& request) {
        std::vector<std::string> names;
        for (const auto& [name, service] : services_) names.push_back(name);
        return Bytes(Reflect(names, request));
      },
      Streams::kBoth);
}

// Of every service there is, its own among them.
void GrpcMethods::AddHealth() {
  using grpc::health::v1::HealthCheckRequest;
  Answer<HealthCheckRequest>(
      "Check", kProbe, [this](const auto& request) { return Bytes(health_->Check(request)); });
  std::vector<std::string> names;
  for (const auto& [name, service] : services_) names.push_back(name);
  health_ = std::make_unique<Health>(std::move(names), bounds_.max_health_watches, bounds_.contents,
                                     &refusals_);
  Add(*HealthCheckRequest::descriptor(), "Watch",
      {.service = nullptr,
       .number = 0,
       .sink = health_.get(),
       .streams = Streams::kAnswers,
       .slow = kProbe,
       .accepts = kOtherAccepts,
       .max_bytes = bounds_.max_query_bytes,
       .open = true});
}

void GrpcMethods::AddInfer(const Descriptor& request, const char* name, CallSink* sink,
                           Streams streams, int accepts) {
  Add(request, name,
      {.service = nullptr,
       .number = 0,
       .sink = sink,
       .streams = streams,
       .accepts = accepts,
       .max_bytes = 0});
}

template <typename Request>
void GrpcMethods::Answer(const char* name, bool slow,
                         std::function<absl::StatusOr<std::string>(const Request&)> function,
                         Streams streams) {
  AnswerWhom<Request>(
      name, slow,
      [function = std::move(function)](const Request& request, const Access*) {
        return function(request);
      },
      streams);
}

template <typename Request>
void GrpcMethods::AnswerWhom(
    const char* name, bool slow,
    std::function<absl::StatusOr<std::string>(const Request&, const Access*)> function,
    Streams streams) {
  answering_.push_back(
      std::make_unique<MessageMethod<Request>>(bounds_.contents, &refusals_, std::move(function)));
  AddAnswering(*Request::descriptor(), name, slow, streams);
}

template <typename Request, typename Response>
void GrpcMethods::Change(const char* name,
                         std::function<void(const Request&, ModelChangeDone)> function) {
  using Done = typename LateMethod<Request>::Done;
  answering_.push_back(std::make_unique<LateMethod<Request>>(
      bounds_.contents, &refusals_,
      [function = std::move(function)](const Request& request, Done done) {
        function(request, [done = std::move(done)](const absl::Status& status) {
          if (status.ok()) return done(Response().SerializeAsString());
          done(Shortened(status));
        });
      }));
  AddAnswering(*Request::descriptor(), name, kSlow, Streams::kNone);
}

// Answered by the last of `answering_`.
void GrpcMethods::AddAnswering(const Descriptor& request, const char* name, bool slow,
                               Streams streams) {
  Add(request, name,
      {.service = nullptr,
       .number = 0,
       .sink = answering_.back().get(),
       .streams = streams,
       .slow = slow,
       .accepts = kOtherAccepts,
       .max_bytes = bounds_.max_query_bytes,
       .open = slow == kProbe});
}

void GrpcMethods::Add(const Descriptor& request, const char* name, GrpcMethod method) {
  const MethodDescriptor* known = request.file()->service(0)->FindMethodByName(name);
  Check(known != nullptr && known->input_type() == &request &&
            known->server_streaming() == (method.streams != Streams::kNone) &&
            known->client_streaming() == (method.streams == Streams::kBoth),
        "no method of that name takes such a message");
  const std::string& service = known->service()->full_name();
  method.service = &services_[service];
  method.number = method.service->Add("/" + service + "/" + name, method.streams);
  methods_.push_back(method);
}

}  // namespace cellbatch

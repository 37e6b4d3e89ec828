// Our functions as gRPC services: KServe v2 and cellbatch.v1 (what is inferred raw and
// asynchronous, the rest synchronous). Only grpc_calls and grpc_transport include this.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_SERVICES_H_
#define CELLBATCH_SERVER_GRPC_GRPC_SERVICES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/grpc_service.grpc.pb.h"
#include "server/kserve/kserve_service.h"
#include "server/typed/latency_service.h"

namespace cellbatch {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

template <typename Response>
grpc::Status Answer(absl::StatusOr<Response> result, Response* response) {
  if (!result.ok()) return ToGrpc(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

class KServeGrpc final : public inference::GRPCInferenceService::WithRawMethod_ModelInfer<
                             inference::GRPCInferenceService::Service> {
 public:
  explicit KServeGrpc(const KServeService& service) : service_(service) {}

  grpc::Status ServerLive(grpc::ServerContext*, const inference::ServerLiveRequest*,
                          inference::ServerLiveResponse* response) override {
    return Answer<inference::ServerLiveResponse>(service_.ServerLive(), response);
  }
  grpc::Status ServerReady(grpc::ServerContext*, const inference::ServerReadyRequest*,
                           inference::ServerReadyResponse* response) override {
    return Answer<inference::ServerReadyResponse>(service_.ServerReady(), response);
  }
  grpc::Status ServerMetadata(grpc::ServerContext*, const inference::ServerMetadataRequest*,
                              inference::ServerMetadataResponse* response) override {
    return Answer<inference::ServerMetadataResponse>(service_.ServerMetadata(), response);
  }
  grpc::Status ModelReady(grpc::ServerContext*, const inference::ModelReadyRequest* request,
                          inference::ModelReadyResponse* response) override {
    return Answer(service_.ModelReady(*request), response);
  }
  grpc::Status ModelMetadata(grpc::ServerContext*, const inference::ModelMetadataRequest* request,
                             inference::ModelMetadataResponse* response) override {
    return Answer(service_.ModelMetadata(*request), response);
  }
  grpc::Status ModelConfig(grpc::ServerContext*, const inference::ModelConfigRequest* request,
                           inference::ModelConfigResponse* response) override {
    return Answer(service_.ModelConfig(*request), response);
  }
  grpc::Status ModelStatistics(grpc::ServerContext*,
                               const inference::ModelStatisticsRequest* request,
                               inference::ModelStatisticsResponse* response) override {
    return Answer(service_.ModelStatistics(*request), response);
  }
  grpc::Status RepositoryIndex(grpc::ServerContext*,
                               const inference::RepositoryIndexRequest* request,
                               inference::RepositoryIndexResponse* response) override {
    return Answer<inference::RepositoryIndexResponse>(service_.RepositoryIndex(*request), response);
  }

 private:
  const KServeService& service_;
};

class CellbatchGrpc final : public v1::Cellbatch::WithRawMethod_Infer<
                                v1::Cellbatch::WithRawMethod_Decode<v1::Cellbatch::Service>> {
 public:
  explicit CellbatchGrpc(const LatencyService& latency) : latency_(latency) {}

  grpc::Status Latency(grpc::ServerContext*, const v1::LatencyRequest* request,
                       v1::LatencyResponse* response) override {
    return Answer(latency_.Latency(*request), response);
  }

 private:
  const LatencyService& latency_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_SERVICES_H_

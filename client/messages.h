// Between the protocol's messages and the client's plain values. Pure functions.

#ifndef CELLBATCH_CLIENT_MESSAGES_H_
#define CELLBATCH_CLIENT_MESSAGES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "proto/cellbatch.pb.h"
#include "proto/grpc_service.pb.h"

namespace cellbatch {

inference::ModelInferRequest ToMessage(const InferInput& input);

// INTERNAL where the answer breaks the protocol (a tensor without bytes, or too few of them).
absl::StatusOr<InferResult> FromMessage(inference::ModelInferResponse& response);

ModelMetadata FromMessage(const inference::ModelMetadataResponse& response);
ModelConfiguration FromMessage(const inference::ModelConfig& config);
ModelCounts FromMessage(const inference::ModelStatistics& statistics);
ModelTimes FromMessage(const cellbatch::v1::ModelLatency& latency);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_MESSAGES_H_

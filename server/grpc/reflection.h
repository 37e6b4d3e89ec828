// What tools ask a server before they know it: its services, and the files that describe their messages. Answers from
// the descriptors that are linked in. Knows no gRPC; any thread; a copy of some files a request.
#ifndef CELLBATCH_SERVER_GRPC_REFLECTION_H_
#define CELLBATCH_SERVER_GRPC_REFLECTION_H_

#include <string>
#include <vector>

#include "proto/reflection.pb.h"

namespace cellbatch {

// `services`: full names. What is not there is an answer, too: NOT_FOUND in its error_response.
grpc::reflection::v1alpha::ServerReflectionResponse Reflect(
    const std::vector<std::string>& services,
    const grpc::reflection::v1alpha::ServerReflectionRequest& request);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_REFLECTION_H_

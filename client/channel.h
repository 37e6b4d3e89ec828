// A connection of gRPC as its client's Security wants it. For the client's own files.
#ifndef CELLBATCH_CLIENT_CHANNEL_H_
#define CELLBATCH_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/security.h"

namespace cellbatch {

// A token goes with every call of the channel, whatever makes it.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& url, const Security& security,
                                           const grpc::ChannelArguments& arguments);

// Waits until a server answers there, so long at most. UNAVAILABLE then, with what gRPC says of its last attempt: refused, a
// name that nobody knows, a certificate that nobody vouches for. Blocks; a second longer than asked where an attempt is under
// way then. INVALID_ARGUMENT: there is no such port.
absl::Status WaitUntilConnected(const std::shared_ptr<grpc::Channel>& channel,
                                const std::string& url, std::chrono::milliseconds timeout);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_CHANNEL_H_

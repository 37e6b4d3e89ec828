// A connection of gRPC as its client's Security wants it. For the client's own files.
#ifndef CELLBATCH_CLIENT_CHANNEL_H_
#define CELLBATCH_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "client/security.h"

namespace cellbatch {

// A token goes with every call of the channel, whatever makes it.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& url, const Security& security,
                                           const grpc::ChannelArguments& arguments);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_CHANNEL_H_

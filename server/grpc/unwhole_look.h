// The bounds of what no single read can break: what half-sent messages of all connections keep together, streams that bring no
// message, and how long one message may take. The rules, without a connection; the listener's thread asks a few times a second.
#ifndef CELLBATCH_SERVER_GRPC_UNWHOLE_LOOK_H_
#define CELLBATCH_SERVER_GRPC_UNWHOLE_LOOK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/grpc/connection_guard.h"
#include "server/grpc/frame_watch.h"

namespace cellbatch {

struct UnwholeBounds {
  int64_t max_streams = 0;
  int64_t max_bytes = 0;
  int64_t message_timeout_ns = 0;
};

// What there is of one connection.
struct UnwholeSeen {
  Unwhole unwhole;
  int64_t began_ns = FrameWatch::kNever;  // the oldest of its messages that are not whole
};

// One that is to go, why, and what was met of what the bound counts. Asked again without it, until nobody is to go.
struct TooMuch {
  size_t which = 0;
  GrpcCut reason = {};
  int64_t seen = 0;
};
std::optional<TooMuch> WhoIsTooMuch(const std::vector<UnwholeSeen>& all,
                                    const UnwholeBounds& bounds, int64_t now_ns);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_UNWHOLE_LOOK_H_

// Our values as gRPC's, and the other way round. Any thread.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_VALUES_H_
#define CELLBATCH_SERVER_GRPC_GRPC_VALUES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "server/requests/call.h"

namespace cellbatch {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// A gRPC deadline is a point on some clock; what is left of it is the same on all of them. The longest that some clients know
// (292 years, Go's and Java's) ends beyond our clock's last moment, and a grpc-timeout may say a hundred times that: none.
inline int64_t SteadyDeadline(gpr_timespec deadline, int64_t now_ns) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return kNoDeadline;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  int64_t steady = 0;
  const bool beyond = __builtin_mul_overflow(left.tv_sec, int64_t{1'000'000'000}, &steady) ||
                      __builtin_add_overflow(steady, int64_t{left.tv_nsec}, &steady) ||
                      __builtin_add_overflow(steady, now_ns, &steady);
  return beyond ? kNoDeadline : steady;
}

// The bytes move into the buffer and live as long as it does.
inline grpc::ByteBuffer ToBuffer(std::string bytes) {
  auto* body = new std::string(std::move(bytes));
  const grpc::Slice slice(
      body->data(), body->size(), [](void* owner) { delete static_cast<std::string*>(owner); },
      body);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_VALUES_H_

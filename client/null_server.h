// A server that does nothing but answer after a set delay, inside this process: what a client or a
// load generator costs by itself is measured against it, and their tests need no other.
//
// It speaks the protocol for one model: TOKENS INT32 [T], or X FP32 [T, width], in; OUTPUT FP32 [2]
// out: how many steps came, and the sum of all values. Everything else of the protocol is answered
// with plausible, fixed values. Threads are gRPC's.

#ifndef CELLBATCH_CLIENT_NULL_SERVER_H_
#define CELLBATCH_CLIENT_NULL_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cellbatch {

struct NullServerOptions {
  std::string address = "127.0.0.1:0";
  std::string model = "null";
  std::chrono::nanoseconds delay{0};                // from the request's arrival to its answer
  int64_t vocabulary_size = 30000;                  // a token beyond: INVALID_ARGUMENT
  int64_t vector_width = 0;                         // not 0: the model reads X
  int64_t most_in_flight = 0;                       // not 0: beyond, RESOURCE_EXHAUSTED
  absl::StatusCode answer = absl::StatusCode::kOk;  // another: every request is answered with it
};

class NullServer {
 public:
  static absl::StatusOr<std::unique_ptr<NullServer>> Start(NullServerOptions options);
  ~NullServer();  // answers what is in flight with CANCELLED

  const std::string& address() const;  // host:port in use
  int64_t requests() const;            // ModelInfer calls that came
  int64_t cancelled() const;           // of them, given up by their clients

 private:
  struct Impl;
  explicit NullServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_NULL_SERVER_H_

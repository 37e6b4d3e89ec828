// Every bound of a server of HTTP; each is a flag of cellbatch-server (--http-...).
#ifndef CELLBATCH_SERVER_HTTP_HTTP_LIMITS_H_
#define CELLBATCH_SERVER_HTTP_HTTP_LIMITS_H_

#include <chrono>
#include <cstdint>

namespace cellbatch {

struct HttpLimits {
  int64_t max_connections =
      4096;  // the next one takes the place of the slowest (connection_table.h)
  int64_t max_header_bytes = 8 << 10;  // of one request: 431
  int64_t max_body_bytes = 64 << 20;   // of one request: 413
  int64_t max_held_bytes = 256 << 20;  // bodies coming in, replies going out, of all connections
  std::chrono::milliseconds header_timeout{10'000};  // for a whole head
  std::chrono::milliseconds body_timeout{60'000};    // for a whole body
  std::chrono::milliseconds reply_timeout{60'000};   // for a reply to be taken, whole
  std::chrono::milliseconds idle_timeout{75'000};    // between requests
  int infer_threads = 1;  // that read what is to be computed; 0: nothing is
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTTP_LIMITS_H_

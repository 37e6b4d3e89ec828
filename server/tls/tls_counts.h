// What happens to connections that speak TLS, for metrics. Any thread.
#ifndef CELLBATCH_SERVER_TLS_TLS_COUNTS_H_
#define CELLBATCH_SERVER_TLS_TLS_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cellbatch {

// How a handshake ended: the `outcome` label of cellbatch_tls_handshakes_total.
enum class HandshakeEnd : uint8_t {
  kOk,
  kFailed,     // not TLS, no version or certificate in common, or the peer left
  kTimeout,    // --tls-handshake-timeout
  kPushedOut,  // to make room for a younger one: --tls-max-handshakes, or no file left
  kUnserved    // it was done, and there was no file for the rest
};
inline constexpr size_t kNumHandshakeEnds = 5;
const char* Name(HandshakeEnd end);

struct TlsCounts {
  std::atomic<int64_t> connections = 0;  // relayed, now
  std::atomic<int64_t> handshakes = 0;   // under way, now
  std::array<std::atomic<int64_t>, kNumHandshakeEnds> ended = {};
  std::atomic<int64_t> certificates_taken = 0;    // that changed while the server ran
  std::atomic<int64_t> certificates_refused = 0;  // likewise, but could not be used
  std::atomic<int64_t> not_after = 0;             // of the one in force: seconds since 1970
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_TLS_COUNTS_H_

#include "server/tls/tls_counts.h"

namespace cellbatch {

const char* Name(HandshakeEnd end) {
  constexpr const char* kNames[kNumHandshakeEnds] = {"ok", "failed", "timeout", "pushed_out",
                                                     "unserved"};
  return kNames[static_cast<size_t>(end)];
}

}  // namespace cellbatch

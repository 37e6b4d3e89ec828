// What one request may contain, whatever it is written in; beyond any of these it is refused before anything is
// allocated for it. The first are of tensors; the others of any message of protobuf (message_scanner.h), counted
// over all its levels.
#ifndef CELLBATCH_SERVER_WIRE_WIRE_LIMITS_H_
#define CELLBATCH_SERVER_WIRE_WIRE_LIMITS_H_

#include <cstdint>

namespace cellbatch {

struct WireLimits {
  int64_t max_inputs = 64;
  int64_t max_outputs = 64;
  int64_t max_parameters = 64;           // of the request, and of each tensor
  int64_t max_dims = 8;                  // of a tensor
  int64_t max_elements = 16 << 20;       // numbers that are not raw contents
  int64_t max_bytes_elements = 1 << 20;  // texts, and raw contents

  int64_t max_messages = 1 << 16;        // messages in it, entries of maps among them
  int64_t max_unknown_fields = 1024;     // fields that its kind of message does not have
  int64_t max_unknown_bytes = 64 << 10;  // which these take
  int64_t max_typed_inputs = 4096;       // of one cellbatch.v1.Cellbatch/Infer
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_WIRE_LIMITS_H_

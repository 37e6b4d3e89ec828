// A first look at the bytes of a ModelInferRequest, before anything is allocated for them: is it
// protobuf at all, and does it keep to the caps? A message of two-byte empty inputs would otherwise
// grow sixty-fold when parsed. One pass, no recursion, no allocation; any thread.
#ifndef CELLBATCH_SERVER_WIRE_WIRE_SCAN_H_
#define CELLBATCH_SERVER_WIRE_WIRE_SCAN_H_

#include <string_view>

#include "absl/status/status.h"

namespace cellbatch {

struct WireLimits {
  int max_inputs = 64;
  int max_outputs = 64;
  int max_parameters = 64;           // of the request, and of each tensor
  int max_dims = 8;                  // of a tensor
  int max_elements = 16 << 20;       // of typed contents, over all inputs
  int max_bytes_elements = 1 << 20;  // strings in typed contents, over all inputs
};

// INVALID_ARGUMENT: "malformed ModelInferRequest", or which cap is broken, with both numbers.
absl::Status ScanInferRequest(std::string_view message, const WireLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_WIRE_SCAN_H_

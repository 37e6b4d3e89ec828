// A compressed message made whole, bounded: what it becomes is never more than what is asked for, however little it
// was (gRPC 1.51 inflates all of it first and looks at the size then). Any thread; about 3 ns a byte that comes out.
#ifndef CELLBATCH_SERVER_WIRE_INFLATE_H_
#define CELLBATCH_SERVER_WIRE_INFLATE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace cellbatch {

enum class Packing : uint8_t {
  kGzip,
  kDeflate
};  // as grpc-encoding names them: deflate is zlib's format

// All of `pieces`, one after the other, are one stream, which becomes `out`. RESOURCE_EXHAUSTED: it would be more than
// `most` bytes (no more than those were made); INVALID_ARGUMENT: it is damaged, cut off, or followed by something.
absl::Status Inflate(absl::Span<const std::string_view> pieces, Packing packing, int64_t most,
                     std::string& out);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_INFLATE_H_

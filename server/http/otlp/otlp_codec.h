// Spans as OTLP's protobuf. Pure.
#ifndef CELLBATCH_SERVER_HTTP_OTLP_OTLP_CODEC_H_
#define CELLBATCH_SERVER_HTTP_OTLP_OTLP_CODEC_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "server/trace/span.h"

namespace cellbatch {

// The body of a POST: all of them, of one who says of itself what `resource` says.
std::string EncodeOtlp(absl::Span<const Span> spans,
                       const std::vector<std::pair<std::string, std::string>>& resource);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_OTLP_OTLP_CODEC_H_

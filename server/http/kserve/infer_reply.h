// The answer of an inference over HTTP: JSON, and behind it the bytes of every output that was wanted so. Pure.
#ifndef CELLBATCH_SERVER_HTTP_KSERVE_INFER_REPLY_H_
#define CELLBATCH_SERVER_HTTP_KSERVE_INFER_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "server/http/kserve/infer_json.h"

namespace cellbatch {

// A text as a string of JSON, with its quotes; what is no UTF-8 in it is replaced.
std::string JsonText(std::string_view text);

// All that the answer says, without the request or the model: these may go.
struct InferReply {
  struct Tensor {
    std::string name;
    WireType type;
    TensorDims dims;
    std::string contents;  // names as BYTES, framed
    bool binary;
  };
  std::string id, model_name, model_version;
  std::vector<Tensor> tensors;

  size_t bytes() const;
};
InferReply KeepReply(const Model& model, const InferJson& request,
                     absl::Span<const ReturnedTensor> tensors);

struct EncodedReply {
  std::string body;
  size_t json_bytes = 0;  // of its JSON; all of it: no output is binary
};
// Numbers are written so that they read back as they were: FP32 by the shortest text that does. INVALID_ARGUMENT: JSON
// has no word for a value (NaN, infinities), so that output must be asked for as binary data.
absl::StatusOr<EncodedReply> EncodeReply(const InferReply& reply);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_KSERVE_INFER_REPLY_H_

// What became of the inputs of an Infer call, read from the bytes of its answer: nothing is parsed but the
// codes. For load generation.

#ifndef CELLBATCH_CLIENT_INFER_ANSWERS_H_
#define CELLBATCH_CLIENT_INFER_ANSWERS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"

namespace cellbatch {

// OK where a cellbatch.v1.InferResponse has `inputs` answers and all of them are right; the error of the first
// that is not, but RESOURCE_EXHAUSTED only where none failed for another reason; INTERNAL where it is no such message.
absl::Status CheckAnswers(const grpc::ByteBuffer& response, uint32_t inputs);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_INFER_ANSWERS_H_

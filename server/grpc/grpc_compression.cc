#include "server/grpc/grpc_compression.h"

#include <cstdint>

#include "grpc/impl/codegen/compression_types.h"

// As gRPC's src/core/lib/surface/call.h declares them.
[[gnu::weak]] uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);
[[gnu::weak]] grpc_compression_algorithm grpc_call_test_only_get_compression_algorithm(
    grpc_call* call);

namespace cellbatch {
namespace {

constexpr uint32_t kCompressedFlag = 0x80000000u;  // GRPC_WRITE_INTERNAL_COMPRESS

}  // namespace

bool IsCompressedByUnknownEncoding(grpc_call* call) {
  if (&grpc_call_test_only_get_message_flags == nullptr ||
      &grpc_call_test_only_get_compression_algorithm == nullptr) {
    return false;
  }
  return (grpc_call_test_only_get_message_flags(call) & kCompressedFlag) != 0 &&
         grpc_call_test_only_get_compression_algorithm(call) == GRPC_COMPRESS_NONE;
}

}  // namespace cellbatch

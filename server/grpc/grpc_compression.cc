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

bool SeesEncodings() {
  return &grpc_call_test_only_get_message_flags != nullptr &&
         &grpc_call_test_only_get_compression_algorithm != nullptr;
}

Encoding EncodingOf(grpc_call* call) {
  if (!SeesEncodings() || (grpc_call_test_only_get_message_flags(call) & kCompressedFlag) == 0) {
    return Encoding::kPlain;
  }
  switch (grpc_call_test_only_get_compression_algorithm(call)) {
    case GRPC_COMPRESS_GZIP:
      return Encoding::kGzip;
    case GRPC_COMPRESS_DEFLATE:
      return Encoding::kDeflate;
    default:
      return Encoding::kUnknown;
  }
}

}  // namespace cellbatch

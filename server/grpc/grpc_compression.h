// How a call's message came: gRPC hands it on as it is (GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION is off), because it
// would inflate all of it before it looks at the size, and we inflate it ourselves, bounded (wire/inflate.h).
//
// gRPC 1.51's public interface shows neither the header nor the flag, and an unknown encoding (grpc-encoding: br) counts
// as none. The library exports both under names meant for its own tests, which this file alone refers to, weakly: where
// a later gRPC has them no more, it goes on inflating by itself.
//
// Any thread, once the message has been read; free.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_COMPRESSION_H_
#define CELLBATCH_SERVER_GRPC_GRPC_COMPRESSION_H_

#include <cstdint>

#include "grpc/grpc.h"

namespace cellbatch {

enum class Encoding : uint8_t { kPlain, kGzip, kDeflate, kUnknown };

// Whether EncodingOf can tell: only then may gRPC be told not to inflate.
bool SeesEncodings();
// kPlain, where it cannot tell.
Encoding EncodingOf(grpc_call* call);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_COMPRESSION_H_

// Whether a call's message came compressed by something that gRPC does not know (grpc-encoding: br).
//
// gRPC 1.51 takes an unknown encoding for none and hands the compressed bytes on as if they were the message; its
// public interface shows neither the header nor the flag. The library exports both under names meant for its own
// tests, which this file alone refers to, weakly: where a later gRPC has them no more (it refuses such calls itself
// by then), the answer here is "no".
//
// Any thread, once the message has been read; free.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_COMPRESSION_H_
#define CELLBATCH_SERVER_GRPC_GRPC_COMPRESSION_H_

#include "grpc/grpc.h"

namespace cellbatch {

bool IsCompressedByUnknownEncoding(grpc_call* call);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_COMPRESSION_H_

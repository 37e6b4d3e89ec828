// What the flags say to each part of the server. Pure.
#ifndef CELLBATCH_SERVER_PART_OPTIONS_H_
#define CELLBATCH_SERVER_PART_OPTIONS_H_

#include "scheduler/scheduler.h"
#include "server/grpc/grpc_transport.h"
#include "server/http/http_limits.h"
#include "server/options.h"
#include "server/requests/sequences.h"
#include "server/wire/wire_limits.h"

namespace cellbatch {

// Where a flag says 0: one for so many cores that may be used.
int GrpcThreads(const ServerOptions& options);
int GrpcShards(const ServerOptions& options);  // and its slow lane
int TlsThreads(const ServerOptions& options);
int HttpThreads(const ServerOptions& options);
// Who records requests, each in a shard of its own: gRPC's first.
int TransportThreads(const ServerOptions& options);

WireLimits OfMessages(const ServerOptions& options);
GrpcOptions OfGrpc(const ServerOptions& options);
HttpLimits OfHttp(const ServerOptions& options, int infer_threads);
SchedulerOptions OfScheduler(const ServerOptions& options);
SequenceLimits OfSequences(const ServerOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_PART_OPTIONS_H_

#include "server/part_options.h"

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"
#include "cells/device/cpu/process_limits.h"

namespace cellbatch {

namespace {

constexpr int kCoresPerTransportThread = 8;

int ThreadsOr(int64_t asked) {
  if (asked > 0) return static_cast<int>(asked);
  return std::max(1, UsableCores() / kCoresPerTransportThread);
}

}  // namespace

int GrpcThreads(const ServerOptions& options) { return ThreadsOr(options.grpc_threads); }
int GrpcShards(const ServerOptions& options) { return GrpcThreads(options) + 1; }
int TlsThreads(const ServerOptions& options) { return ThreadsOr(options.tls_threads); }
int HttpThreads(const ServerOptions& options) { return ThreadsOr(options.http_threads); }
int TransportThreads(const ServerOptions& options) {
  return GrpcShards(options) + HttpThreads(options);
}

WireLimits OfMessages(const ServerOptions& options) {
  WireLimits limits;
  limits.max_elements = options.grpc_max_numbers;
  limits.max_bytes_elements = options.grpc_max_texts;
  limits.max_messages = options.grpc_max_submessages;
  limits.max_unknown_fields = options.grpc_max_unknown_fields;
  limits.max_unknown_bytes = options.grpc_max_unknown_bytes;
  return limits;
}

GrpcOptions OfGrpc(const ServerOptions& options) {
  return {.address = options.grpc_address,
          .accepts = options.tls_certificate.empty(),
          .max_connections = options.grpc_max_connections,
          .frames = {.max_streams = options.grpc_max_streams,
                     .max_header_block_bytes = options.grpc_max_header_block_bytes,
                     .max_resets_per_second = options.grpc_max_resets_per_second,
                     .max_message_bytes = options.grpc_max_message_bytes},
          .max_unfinished_bytes = options.grpc_max_unfinished_bytes,
          .message_timeout = options.grpc_message_timeout,
          .threads = GrpcThreads(options),
          .messages = {.contents = OfMessages(options),
                       .max_metadata_bytes = options.grpc_max_metadata_bytes,
                       .max_query_bytes = options.grpc_max_query_bytes,
                       .max_inflated_bytes = std::min(options.grpc_max_inflated_bytes,
                                                      options.grpc_max_message_bytes),
                       .max_reflection_streams = options.grpc_max_reflection_streams,
                       .max_health_watches = options.grpc_max_health_watches,
                       .max_stream_requests = options.grpc_stream_requests,
                       .slow = {.max_calls = options.grpc_max_slow_calls,
                                .max_bytes = options.grpc_max_slow_bytes}},
          .channelz = options.grpc_channelz,
          .reflection = options.grpc_reflection,
          .max_message_bytes = options.grpc_max_message_bytes,
          .max_metadata_bytes = options.grpc_max_metadata_bytes,
          .stream_buffer_bytes = options.grpc_stream_buffer,
          .keepalive_time = options.grpc_keepalive_time,
          .keepalive_timeout = options.grpc_keepalive_timeout,
          .min_ping_interval = options.grpc_min_ping_interval,
          .max_connection_age = options.grpc_max_connection_age,
          .max_connection_age_grace = options.grpc_max_connection_age_grace};
}

HttpLimits OfHttp(const ServerOptions& options, int infer_threads) {
  return {.max_connections = options.http_max_connections,
          .max_header_bytes = options.http_max_header_bytes,
          .max_body_bytes = options.http_max_body_bytes,
          .max_held_bytes = options.http_max_held_bytes,
          .header_timeout = options.http_header_timeout,
          .body_timeout = options.http_body_timeout,
          .reply_timeout = options.http_reply_timeout,
          .idle_timeout = options.http_idle_timeout,
          .infer_threads = infer_threads};
}

SchedulerOptions OfScheduler(const ServerOptions& options) {
  SchedulerOptions out;
  out.max_tasks_in_flight = static_cast<int>(options.max_tasks_in_flight);
  out.max_wait_tasks = static_cast<int>(options.max_wait_tasks);
  out.priority_ageing = options.priority_ageing;
  out.row_budget_bytes = options.row_budget;
  out.task_time_limit = options.task_time_limit.count() == 0
                            ? absl::InfiniteDuration()
                            : absl::FromChrono(options.task_time_limit);
  out.task_time_factor = static_cast<int>(options.task_time_factor);
  out.batch_limit = static_cast<int32_t>(options.batch_limit);
  out.unload_limit = absl::FromChrono(options.unload_limit);
  out.num_outboxes = static_cast<int>(options.responder_threads);
  // Admission is the bound that people set; the scheduler's own must never come first.
  out.max_requests =
      static_cast<int>(std::max<int64_t>(options.max_queued_requests + 1024, 1 << 12));
  return out;
}

SequenceLimits OfSequences(const ServerOptions& options) {
  return {.sequences = options.max_sequences,
          .bytes = options.max_sequence_bytes,
          .idle_ns = std::chrono::nanoseconds(options.sequence_idle).count()};
}

}  // namespace cellbatch

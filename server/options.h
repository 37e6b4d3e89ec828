// Every flag of cellbatch-server, with its default; option_flags.h has names, bounds and what happens beyond them.
// Pure: text in, options or one clear line out.
#ifndef CELLBATCH_SERVER_OPTIONS_H_
#define CELLBATCH_SERVER_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cellbatch {

struct ServerOptions {
  std::string model_repository;
  std::string grpc_address = "0.0.0.0:8001";
  std::string http_address = "0.0.0.0:8000";
  std::string metrics_address = "0.0.0.0:8002";
  std::string devices = "auto";
  std::string cuda_libraries;
  int64_t cuda_host_bytes = 1LL << 28;
  std::string cuda_fp32 = "3xtf32";
  int64_t cuda_tasks_a_launch = 4;
  std::string calibration_cache;
  std::string record;
  int64_t record_limit = 1LL << 30;
  std::chrono::milliseconds policy_poll{0};
  std::string model_control = "none";
  std::vector<std::string> load_models;
  std::chrono::milliseconds repository_poll{15'000};
  int64_t max_model_changes = 16;
  int64_t max_models = 64;
  int64_t ended_versions = 64;
  bool check = false;
  std::string explain;
  bool help = false;
  bool version = false;

  int64_t max_queued_requests = 100000;
  int64_t max_queued_cells = 1000000;
  int64_t max_queued_bytes = 4LL << 30;
  int64_t client_share_percent = 80;
  int64_t model_share_percent = 90;
  int64_t clients = 1024;
  int64_t max_answer_bytes = 64 << 20;
  bool deadline_admission = true;
  int64_t max_sequences = 16384;
  int64_t max_sequence_bytes = 256 << 20;
  std::chrono::milliseconds sequence_idle{60'000};
  int64_t row_budget = 1LL << 30;
  int64_t fold_budget = 1LL << 30;
  int64_t max_tasks_in_flight = 0;
  int64_t max_wait_tasks = 20;
  int64_t priority_ageing = 1000;
  std::chrono::milliseconds task_time_limit{10'000};
  int64_t task_time_factor = 100;
  int64_t batch_limit = 512;

  int64_t grpc_threads = 0;
  int64_t responder_threads = 1;
  int64_t grpc_max_connections = 4096;
  int64_t grpc_max_streams = 12288;
  int64_t grpc_max_header_block_bytes = 128 << 10;
  int64_t grpc_max_resets_per_second = 500;
  int64_t grpc_max_unfinished_bytes = 256 << 20;
  std::chrono::milliseconds grpc_message_timeout{60'000};
  int64_t grpc_max_message_bytes = 64 << 20;
  int64_t grpc_max_inflated_bytes = 16 << 20;
  int64_t grpc_max_query_bytes = 64 << 10;
  int64_t grpc_max_reflection_streams = 16;
  int64_t grpc_max_health_watches = 4096;
  int64_t grpc_stream_requests = 128;
  int64_t grpc_max_slow_calls = 1024;
  int64_t grpc_max_slow_bytes = 256 << 20;
  bool grpc_channelz = false;
  bool grpc_reflection = true;
  int64_t grpc_max_unknown_fields = 1024;
  int64_t grpc_max_unknown_bytes = 64 << 10;
  int64_t grpc_max_submessages = 1 << 16;
  int64_t grpc_max_texts = 1 << 20;
  int64_t grpc_max_numbers = 16 << 20;
  int64_t grpc_max_metadata_bytes = 8 << 10;
  int64_t grpc_stream_buffer = 1 << 20;
  std::chrono::milliseconds grpc_keepalive_time{7'200'000};
  std::chrono::milliseconds grpc_keepalive_timeout{20'000};
  std::chrono::milliseconds grpc_min_ping_interval{300'000};
  std::chrono::milliseconds grpc_max_connection_age{0};
  std::chrono::milliseconds grpc_max_connection_age_grace{30'000};

  int64_t http_threads = 0;
  int64_t http_max_connections = 4096;
  int64_t http_max_header_bytes = 8 << 10;
  int64_t http_max_body_bytes = 64 << 20;
  int64_t http_max_held_bytes = 256 << 20;
  std::chrono::milliseconds http_header_timeout{10'000};
  std::chrono::milliseconds http_body_timeout{60'000};
  std::chrono::milliseconds http_reply_timeout{60'000};
  std::chrono::milliseconds http_idle_timeout{75'000};

  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  bool tls_metrics = false;
  std::chrono::milliseconds tls_handshake_timeout{10'000};
  int64_t tls_max_handshakes = 1024;
  int64_t tls_threads = 0;
  std::string tokens;
  std::chrono::milliseconds reload_poll{5000};

  std::chrono::milliseconds drain_delay{5000};
  std::chrono::milliseconds drain_timeout{30000};
  std::chrono::milliseconds unload_limit{60000};
  bool strict_readiness = true;
  bool unfolder_libraries = false;
  bool nv_metrics = false;
  int64_t latency_samples = 1 << 20;
  std::string log_level = "info";
  bool log_control = false;
  std::string notify_socket;
  std::string log_format = "text";
  int64_t log_failed_requests = 1;
  std::string trace_otlp;
  int64_t trace_rate = 1000;
  int64_t trace_max_spans = 8192;
  bool trace_control = false;
};

// The defaults where this much memory could still be taken (cells/device/cpu/process_limits.h): what is bounded in bytes,
// or takes bytes of its own, is bounded by a share of it too, so that a small container refuses instead of being killed.
ServerOptions DefaultOptions(std::optional<int64_t> available_bytes);

// RESOURCE_EXHAUSTED where less can be had than a server takes before it has a model: one line that says so.
absl::Status CheckMemory(std::optional<int64_t> available_bytes);

// `defaults`: of the flags that are not given. `arguments`: without the program's name. INVALID_ARGUMENT: one line that names the flag, what was
// given and what was expected.
absl::StatusOr<ServerOptions> ParseOptions(absl::Span<const std::string> arguments,
                                           const ServerOptions& defaults = {});

// --help.
std::string OptionsHelp();

// Every flag that is a number, with what it is: bytes, counts, or seconds; the name with "_seconds" behind it then. What
// metrics and the status page show as limits in force.
struct Limit {
  std::string name;
  double value = 0;
};
std::vector<Limit> LimitsOf(const ServerOptions& options);

// "250ms", "5s", "2min", "1h"; a bare number is in milliseconds.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);
// "512", "64KiB", "64MiB", "4GiB"; K, M and G alone mean the same.
absl::StatusOr<int64_t> ParseAmount(std::string_view text);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_OPTIONS_H_

#include "server/options.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "server/option_flags.h"

namespace cellbatch {

namespace {

using std::chrono::milliseconds;

absl::Status Bad(const OptionFlag& flag, std::string_view value, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("--{}={}: expected {}", flag.name, value, expected));
}

absl::StatusOr<std::pair<int64_t, std::string_view>> SplitNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return absl::InvalidArgumentError("no number");
  return std::pair(number, text.substr(static_cast<size_t>(end - text.data())));
}

absl::StatusOr<int64_t> WithUnit(std::string_view text,
                                 absl::Span<const std::pair<std::string_view, int64_t>> units) {
  const auto split = SplitNumber(text);
  if (!split.ok()) return split.status();
  for (const auto& [unit, factor] : units) {
    int64_t value = 0;
    if (split->second != unit) continue;
    if (__builtin_mul_overflow(split->first, factor, &value)) break;
    return value;
  }
  return absl::InvalidArgumentError("unknown unit");
}

struct Setter {
  const OptionFlag& flag;
  std::string_view value;
  ServerOptions& options;

  absl::Status operator()(std::string ServerOptions::*field) const {
    options.*field = std::string(value);
    return absl::OkStatus();
  }
  absl::Status operator()(bool ServerOptions::*field) const {
    if (value != "true" && value != "false") return Bad(flag, value, "true or false");
    options.*field = value == "true";
    return absl::OkStatus();
  }
  absl::Status operator()(int64_t ServerOptions::*field) const {
    const auto amount = ParseAmount(value);
    if (!amount.ok()) return Bad(flag, value, "a number such as 512, 64KiB, 64MiB or 4GiB");
    options.*field = *amount;
    return Within(*amount, "");
  }
  absl::Status operator()(std::vector<std::string> ServerOptions::*field) const {
    (options.*field).emplace_back(value);
    return absl::OkStatus();
  }
  absl::Status operator()(milliseconds ServerOptions::*field) const {
    const auto duration = ParseDuration(value);
    if (!duration.ok()) return Bad(flag, value, "a time such as 250ms, 5s, 2min or 1h");
    options.*field = *duration;
    return Within(duration->count(), " milliseconds");
  }
  absl::Status Within(int64_t number, const char* unit) const {
    if (number >= flag.bounds.least && number <= flag.bounds.most) return absl::OkStatus();
    return Bad(flag, value, fmt::format("{} to {}{}", flag.bounds.least, flag.bounds.most, unit));
  }
};

std::string Shown(const OptionFlag& flag) {
  static const ServerOptions kDefaults;
  if (const auto* field = std::get_if<std::string ServerOptions::*>(&flag.field))
    return kDefaults.**field;
  if (const auto* field = std::get_if<bool ServerOptions::*>(&flag.field))
    return kDefaults.**field ? "true" : "false";
  if (const auto* field = std::get_if<int64_t ServerOptions::*>(&flag.field))
    return std::to_string(kDefaults.**field);
  if (std::holds_alternative<std::vector<std::string> ServerOptions::*>(flag.field)) return "";
  const milliseconds time = kDefaults.*std::get<milliseconds ServerOptions::*>(flag.field);
  return time.count() % 1000 == 0 ? fmt::format("{}s", time.count() / 1000)
                                  : fmt::format("{}ms", time.count());
}

absl::Status CheckModelControl(const ServerOptions& options) {
  constexpr std::string_view kModes[] = {"none", "explicit", "poll"};
  if (std::find(std::begin(kModes), std::end(kModes), options.model_control) == std::end(kModes)) {
    return absl::InvalidArgumentError(
        fmt::format("--model-control={}: expected none, explicit or poll", options.model_control));
  }
  if (std::ranges::count(options.load_models, "") > 0) {
    return absl::InvalidArgumentError("--load-model=: expected the name of a model, or *");
  }
  if (options.load_models.empty() || options.model_control == "explicit") return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--load-model={}: expected with --model-control=explicit alone, which is {}",
                  options.load_models.front(), options.model_control));
}

absl::Status CheckCuda(const ServerOptions& options) {
  if (options.cuda_fp32 != "fma" && options.cuda_fp32 != "3xtf32") {
    return absl::InvalidArgumentError(
        fmt::format("--cuda-fp32={}: expected fma or 3xtf32", options.cuda_fp32));
  }
  if (options.cuda_tasks_a_launch == 3) {  // of 1 to 4
    return absl::InvalidArgumentError("--cuda-tasks-a-launch=3: expected 1, 2 or 4");
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const ServerOptions& options) {
  if (!options.tokens.empty() && options.grpc_channelz) {
    return absl::InvalidArgumentError(fmt::format(
        "--grpc-channelz: expected without --tokens={}, as gRPC's library asks for none",
        options.tokens));
  }
  const std::pair<const char*, bool> needing[] = {{"tls-key", !options.tls_key.empty()},
                                                  {"tls-client-ca", !options.tls_client_ca.empty()},
                                                  {"tls-metrics", options.tls_metrics}};
  for (const auto& [name, given] : needing) {
    if (!given || !options.tls_certificate.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("--{}: expected with --tls-certificate, which is missing", name));
  }
  if (options.tls_certificate.empty() || !options.tls_key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "--tls-certificate={}: expected with --tls-key, which is missing", options.tls_certificate));
}

absl::Status CheckAll(const ServerOptions& options) {
  if (options.help || options.version) return absl::OkStatus();
  if (options.model_repository.empty()) {
    return absl::InvalidArgumentError("--model-repository is missing (see --help)");
  }
  if ((options.latency_samples & (options.latency_samples - 1)) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("--latency-samples={}: expected a power of two", options.latency_samples));
  }
  if (options.check && !options.explain.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--explain={}: expected without --check, which looks at every model and exits",
                    options.explain));
  }
  if (absl::Status s = CheckModelControl(options); !s.ok()) return s;
  if (absl::Status s = CheckCuda(options); !s.ok()) return s;
  if (absl::Status s = CheckTls(options); !s.ok()) return s;
  constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error", "off"};
  if (std::find(std::begin(kLevels), std::end(kLevels), options.log_level) == std::end(kLevels)) {
    return absl::InvalidArgumentError(
        fmt::format("--log-level={}: expected debug, info, warn, error or off", options.log_level));
  }
  if (options.log_format != "text" && options.log_format != "json") {
    return absl::InvalidArgumentError(
        fmt::format("--log-format={}: expected text or json", options.log_format));
  }
  const std::pair<const char*, std::string_view> addresses[] = {
      {"grpc-address", options.grpc_address},
      {"http-address", options.http_address},
      {"metrics-address", options.metrics_address}};
  for (const auto& [name, address] : addresses) {
    const size_t colon = address.rfind(':');
    const auto port = SplitNumber(colon == std::string_view::npos ? "" : address.substr(colon + 1));
    if (colon == 0 || !port.ok() || !port->second.empty() || port->first > 65535) {
      return absl::InvalidArgumentError(
          fmt::format("--{}={}: expected HOST:PORT, such as 127.0.0.1:8001", name, address));
    }
  }
  return absl::OkStatus();
}

// What is no flag where one was expected, and what stands before it.
absl::Status Unexpected(std::string_view argument, std::string_view before) {
  if (argument == "true" || argument == "false") {
    return absl::InvalidArgumentError(
        fmt::format("unexpected argument {} (it takes a =: {}={})", argument, before, argument));
  }
  return absl::InvalidArgumentError(
      fmt::format("unexpected argument {} (flags start with --; see --help)", argument));
}

}  // namespace

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  const std::pair<std::string_view, int64_t> units[] = {
      {"", 1}, {"ms", 1}, {"s", 1000}, {"min", 60'000}, {"h", 3'600'000}};
  const auto value = WithUnit(text, units);
  if (!value.ok()) return value.status();
  return milliseconds(*value);
}

absl::StatusOr<int64_t> ParseAmount(std::string_view text) {
  const std::pair<std::string_view, int64_t> units[] = {
      {"", 1},        {"KiB", 1 << 10}, {"K", 1 << 10}, {"MiB", 1 << 20},
      {"M", 1 << 20}, {"GiB", 1 << 30}, {"G", 1 << 30}};
  return WithUnit(text, units);
}

ServerOptions DefaultOptions(std::optional<int64_t> available_bytes) {
  constexpr int64_t kShareOfAdmitted = 4, kShareOfAnAnswer = 16, kShareOfAModel = 8,
                    kShareOfFolds = 4, kShareOfHttp = 16, kShareOfAMessage = 8,
                    kShareOfUnfinished = 6, kShareOfSequences = 32;
  // Of what is not counted in bytes: of each so many that an eighth of the memory holds them all.
  constexpr int64_t kBytesARequest = 2 << 10, kBytesACell = 128, kBytesASample = 64,
                    kBytesAStream = 12 << 10, kBytesAHandshake = 160 << 10;
  ServerOptions options;
  if (!available_bytes.has_value()) return options;
  const auto bound = [&](int64_t& value, int64_t share, int64_t least) {
    value = std::min(value, std::max(*available_bytes / share, least));
  };
  bound(options.max_queued_bytes, kShareOfAdmitted, 1);
  bound(options.http_max_held_bytes, kShareOfHttp, 1 << 20);
  bound(options.max_answer_bytes, kShareOfAnAnswer, 1);
  bound(options.max_sequence_bytes, kShareOfSequences, 1);
  bound(options.row_budget, kShareOfAModel, kLeastRowBudget);
  bound(options.grpc_max_message_bytes, kShareOfAMessage, 1 << 10);
  bound(options.grpc_max_slow_bytes, kShareOfAMessage, 1 << 10);
  bound(options.grpc_max_unfinished_bytes, kShareOfUnfinished, 1 << 10);
  bound(options.grpc_max_streams, 8 * kBytesAStream, 100);
  bound(options.tls_max_handshakes, 8 * kBytesAHandshake, 16);
  bound(options.http_max_body_bytes, kShareOfAMessage, 1 << 10);
  bound(options.max_queued_requests, 8 * kBytesARequest, 1);
  bound(options.max_queued_cells, 8 * kBytesACell, 1);
  bound(options.latency_samples, 8 * kBytesASample, 16);
  options.latency_samples =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(options.latency_samples)));
  options.fold_budget = *available_bytes / kShareOfFolds;
  return options;
}

absl::Status CheckMemory(std::optional<int64_t> available_bytes) {
  constexpr int64_t kLeastBytes = 64 << 20;
  if (!available_bytes.has_value() || *available_bytes >= kLeastBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{} MiB of memory can be had here, a server without a model takes {} MiB",
                  *available_bytes >> 20, kLeastBytes >> 20));
}

absl::StatusOr<ServerOptions> ParseOptions(absl::Span<const std::string> arguments,
                                           const ServerOptions& defaults) {
  ServerOptions options = defaults;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument.substr(0, 2) != "--") return Unexpected(argument, i == 0 ? "" : arguments[i - 1]);
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
    const auto flag = std::find_if(OptionFlags().begin(), OptionFlags().end(),
                                   [&](const OptionFlag& f) { return f.name == name; });
    if (flag == OptionFlags().end()) {
      return absl::InvalidArgumentError(fmt::format("unknown flag --{} (see --help)", name));
    }
    std::string_view value = "true";
    if (equals != argument.npos) {
      value = argument.substr(equals + 1);
    } else if (!std::holds_alternative<bool ServerOptions::*>(flag->field)) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(fmt::format("--{} needs a value", name));
      }
      value = arguments[i];
    }
    absl::Status status = std::visit(Setter{*flag, value, options}, flag->field);
    if (!status.ok()) return status;
  }
  absl::Status status = CheckAll(options);
  if (!status.ok()) return status;
  return options;
}

std::vector<Limit> LimitsOf(const ServerOptions& options) {
  std::vector<Limit> limits;
  for (const OptionFlag& flag : OptionFlags()) {
    if (const auto* number = std::get_if<int64_t ServerOptions::*>(&flag.field)) {
      limits.push_back({flag.name, static_cast<double>(options.**number)});
    } else if (const auto* time = std::get_if<milliseconds ServerOptions::*>(&flag.field)) {
      const std::chrono::duration<double> seconds = options.**time;
      limits.push_back({std::string(flag.name) + "_seconds", seconds.count()});
    }
  }
  return limits;
}

std::string OptionsHelp() {
  std::string help =
      "cellbatch-server --model-repository DIR [--FLAG VALUE | --FLAG=VALUE]...\n"
      "(what is true or false: --FLAG, or --FLAG=false)\n"
      "(times: 250ms, 5s, 2min or 1h; a bare number is in milliseconds)\n\n"
      "Serves recurrent and recursive models over gRPC (KServe v2), batching cells of all "
      "requests.\n"
      "Once every model is warm, one line of JSON on stdout names the addresses in use.\n\n";
  for (const OptionFlag& flag : OptionFlags()) {
    const std::string shown = Shown(flag);
    help += fmt::format("  --{}{}\n      {}\n", flag.name,
                        shown.empty() ? std::string() : "=" + shown, flag.help);
  }
  return help;
}

}  // namespace cellbatch

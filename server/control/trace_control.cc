#include "server/control/trace_control.h"

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {
namespace {

constexpr std::string_view kLevel = "trace_level", kRate = "trace_rate", kCount = "trace_count",
                           kOff = "OFF", kOn = "TIMESTAMPS";

absl::Status Wrong(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("setting {}: {}", Quoted(name), what));
}

std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

absl::Status SetLevel(const inference::TraceSettingRequest::SettingValue& value,
                      TraceRules& rules) {
  const bool off = value.value_size() == 1 && value.value(0) == kOff;
  if (!off && !(value.value_size() == 1 && value.value(0) == kOn)) {
    return Wrong(kLevel, fmt::format("expected is {} or {}; what requests bring is never traced",
                                     kOff, kOn));
  }
  rules.on = !off;
  return absl::OkStatus();
}

absl::Status Set(std::string_view name, const inference::TraceSettingRequest::SettingValue& value,
                 const TraceRules& at_start, TraceRules& rules) {
  const bool back = value.value_size() == 0;
  if (name == kLevel) {
    if (!back) return SetLevel(value, rules);
    rules.on = at_start.on;
    return absl::OkStatus();
  }
  const bool rate = name == kRate;
  if (!rate && name != kCount) {
    return Wrong(name, fmt::format("there is none of that name that changes; there are {}, {} and "
                                   "{}",
                                   kLevel, kRate, kCount));
  }
  int64_t& field = rate ? rules.rate : rules.count;
  if (back) {
    field = rate ? at_start.rate : at_start.count;
    return absl::OkStatus();
  }
  const int64_t least = rate ? 1 : -1, most = std::numeric_limits<int32_t>::max();
  const auto number = value.value_size() == 1 ? NumberOf(value.value(0)) : std::nullopt;
  if (!number || *number < least || *number > most) {
    return Wrong(name, fmt::format("expected is one number, {} to {}", least, most));
  }
  field = *number;
  return absl::OkStatus();
}

}  // namespace

TraceControl::TraceControl(bool changes, std::string url, Tracer* tracer)
    : changes_(changes),
      url_(std::move(url)),
      tracer_(tracer),
      at_start_(tracer == nullptr ? TraceRules{.on = false} : tracer->rules()) {}

absl::StatusOr<inference::TraceSettingResponse> TraceControl::Settings(
    const inference::TraceSettingRequest& request) {
  const bool asks = !request.settings().empty();
  if (asks && !changes_) {
    return absl::PermissionDeniedError(
        "trace settings are not changed by call: the server was started without --trace-control");
  }
  if (asks && tracer_ == nullptr) {
    return absl::FailedPreconditionError(
        "nothing can be traced: the server was started without --trace-otlp");
  }
  if (asks && !request.model_name().empty()) {
    return absl::InvalidArgumentError(
        fmt::format("trace settings are the server's: model {} has none of its own",
                    Quoted(request.model_name())));
  }
  const std::lock_guard lock(mutex_);
  TraceRules rules = tracer_ == nullptr ? at_start_ : tracer_->rules();
  for (const auto& [name, value] : request.settings()) {
    if (absl::Status status = Set(name, value, at_start_, rules); !status.ok()) return status;
  }
  if (asks) tracer_->SetRules(rules);
  inference::TraceSettingResponse response;
  const auto show = [&](std::string_view name, std::string value) {
    (*response.mutable_settings())[std::string(name)].add_value(std::move(value));
  };
  show(kLevel, std::string(rules.on ? kOn : kOff));
  show(kRate, std::to_string(rules.rate));
  show(kCount, std::to_string(rules.count));
  show("log_frequency", "0");
  show("trace_file", "");
  show("trace_mode", "opentelemetry");
  show("url", url_);
  return response;
}

}  // namespace cellbatch

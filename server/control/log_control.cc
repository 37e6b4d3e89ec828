#include "server/control/log_control.h"

#include <array>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "server/control/log_lines.h"
#include "server/requests/client_text.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

using Value = inference::LogSettingsRequest::SettingValue;

constexpr std::string_view kVerbose = "log_verbose_level", kFile = "log_file",
                           kFormat = "log_format", kText = "default", kJson = "json",
                           kFailed = "log_failed_requests";
constexpr uint32_t kMostFailed = 1'000'000;
// From the most urgent.
constexpr std::array<std::string_view, 3> kFlags = {"log_error", "log_warning", "log_info"};

// Which levels are on, from the most urgent: error, warning, info, and debug.
using Taken = std::array<bool, 4>;

struct Asked {
  Taken taken;
  LogFormat format;
  int64_t failed_per_second;
};

Taken TakenNow() {
  const spdlog::level::level_enum least = spdlog::default_logger()->level();
  return {least <= spdlog::level::err, least <= spdlog::level::warn, least <= spdlog::level::info,
          least <= spdlog::level::debug};
}

absl::Status Wrong(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("setting {}: {}", Quoted(name), what));
}

absl::Status CheckFixed(std::string_view name, const Value& value, std::string_view is,
                        std::string_view why) {
  if (value.has_string_param() && value.string_param() == is) return absl::OkStatus();
  return Wrong(name, fmt::format("expected is \"{}\": {}", is, why));
}

absl::Status SetFormat(const Value& value, Asked& asked) {
  const bool text = value.has_string_param() && value.string_param() == kText;
  if (!text && !(value.has_string_param() && value.string_param() == kJson)) {
    return Wrong(kFormat, fmt::format("expected is \"{}\" or \"{}\"", kText, kJson));
  }
  asked.format = text ? LogFormat::kText : LogFormat::kJson;
  return absl::OkStatus();
}

absl::Status SetFailed(const Value& value, Asked& asked) {
  if (!value.has_uint32_param() || value.uint32_param() > kMostFailed) {
    return Wrong(kFailed, fmt::format("expected is a uint32, at most {}", kMostFailed));
  }
  asked.failed_per_second = value.uint32_param();
  return absl::OkStatus();
}

absl::Status Set(std::string_view name, const Value& value, Asked& asked) {
  Taken& taken = asked.taken;
  for (size_t i = 0; i < kFlags.size(); ++i) {
    if (name != kFlags[i]) continue;
    if (!value.has_bool_param()) return Wrong(name, "expected is a bool");
    taken[i] = value.bool_param();
    return absl::OkStatus();
  }
  if (name == kVerbose) {
    if (!value.has_uint32_param()) return Wrong(name, "expected is a uint32");
    taken.back() = value.uint32_param() > 0;
    return absl::OkStatus();
  }
  if (name == kFile) return CheckFixed(name, value, "", "the log goes to stderr");
  if (name == kFormat) return SetFormat(value, asked);
  if (name == kFailed) return SetFailed(value, asked);
  return Wrong(name, fmt::format("there is none of that name; there are {}, {}, {}, {} and {}",
                                 fmt::join(kFlags, ", "), kVerbose, kFile, kFormat, kFailed));
}

absl::Status CheckThreshold(const Taken& taken) {
  for (size_t i = 0; i < kFlags.size(); ++i) {
    if (taken[i] || !taken[i + 1]) continue;
    const std::string_view less = i + 1 < kFlags.size() ? kFlags[i + 1] : kVerbose;
    return Wrong(kFlags[i], fmt::format("it cannot be off while {} is on: what is more urgent than "
                                        "a line that is taken is taken, too",
                                        less));
  }
  return absl::OkStatus();
}

void Apply(const Taken& taken) {
  using spdlog::level::level_enum;
  constexpr std::array<level_enum, 4> kLevels = {spdlog::level::err, spdlog::level::warn,
                                                 spdlog::level::info, spdlog::level::debug};
  level_enum least = spdlog::level::off;
  for (size_t i = 0; i < kLevels.size() && taken[i]; ++i) least = kLevels[i];
  spdlog::default_logger()->set_level(least);
}

}  // namespace

absl::StatusOr<inference::LogSettingsResponse> LogControl::Settings(
    const inference::LogSettingsRequest& request) {
  if (!request.settings().empty() && !changes_) {
    return absl::PermissionDeniedError(
        "log settings are not changed by call: the server was started without --log-control");
  }
  const std::lock_guard lock(mutex_);
  Asked asked = {
      .taken = TakenNow(), .format = format_, .failed_per_second = failures_.per_second()};
  for (const auto& [name, value] : request.settings()) {
    if (absl::Status status = Set(name, value, asked); !status.ok()) return status;
  }
  const Taken& taken = asked.taken;
  if (absl::Status status = CheckThreshold(taken); !status.ok()) return status;
  if (!request.settings().empty()) {
    Apply(taken);
    failures_.SetPerSecond(asked.failed_per_second);
    failures_.SetFormat(asked.format);
    if (asked.format != format_) SetLogFormat(asked.format);
    format_ = asked.format;
  }
  inference::LogSettingsResponse response;
  auto& settings = *response.mutable_settings();
  for (size_t i = 0; i < kFlags.size(); ++i) {
    settings[std::string(kFlags[i])].set_bool_param(taken[i]);
  }
  settings[std::string(kVerbose)].set_uint32_param(taken.back() ? 1 : 0);
  settings[std::string(kFile)].set_string_param("");
  const bool json = format_ == LogFormat::kJson;
  settings[std::string(kFormat)].set_string_param(std::string(json ? kJson : kText));
  settings[std::string(kFailed)].set_uint32_param(static_cast<uint32_t>(failures_.per_second()));
  return response;
}

}  // namespace cellbatch

#include "server/control/log_control.h"

#include <array>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "server/requests/client_text.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

using Value = inference::LogSettingsRequest::SettingValue;

constexpr std::string_view kVerbose = "log_verbose_level", kFile = "log_file",
                           kFormat = "log_format", kFormatName = "default";
// From the most urgent.
constexpr std::array<std::string_view, 3> kFlags = {"log_error", "log_warning", "log_info"};

// What is on, from the most urgent: error, warning, info, and debug.
using Taken = std::array<bool, 4>;

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

absl::Status Set(std::string_view name, const Value& value, Taken& taken) {
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
  if (name == kFormat) return CheckFixed(name, value, kFormatName, "there is one format");
  return Wrong(name, fmt::format("there is none of that name; there are {}, {}, {} and {}",
                                 fmt::join(kFlags, ", "), kVerbose, kFile, kFormat));
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
  Taken taken = TakenNow();
  for (const auto& [name, value] : request.settings()) {
    if (absl::Status status = Set(name, value, taken); !status.ok()) return status;
  }
  if (absl::Status status = CheckThreshold(taken); !status.ok()) return status;
  if (!request.settings().empty()) Apply(taken);
  inference::LogSettingsResponse response;
  auto& settings = *response.mutable_settings();
  for (size_t i = 0; i < kFlags.size(); ++i) {
    settings[std::string(kFlags[i])].set_bool_param(taken[i]);
  }
  settings[std::string(kVerbose)].set_uint32_param(taken.back() ? 1 : 0);
  settings[std::string(kFile)].set_string_param("");
  settings[std::string(kFormat)].set_string_param(std::string(kFormatName));
  return response;
}

}  // namespace cellbatch

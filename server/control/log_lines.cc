#include "server/control/log_lines.h"

#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "spdlog/formatter.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v";
constexpr const char* kLines = "lines";  // the logger of whole ones

// What a line says, on that line: names of folders, texts of libraries and of users' unfolders hold what they like, and what
// ends a line, or moves a terminal's cursor, would make others of it.
class Message final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    constexpr char kDigits[] = "0123456789abcdef";
    for (const char c : message.payload) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte != 0x7f) {
        to.push_back(c);
        continue;
      }
      const char escaped[] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xf]};
      to.append(std::begin(escaped), std::end(escaped));
    }
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<Message>();
  }
};

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    const auto since = message.time.time_since_epoch();
    const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
    const auto level = spdlog::level::to_string_view(message.level);
    const nlohmann::ordered_json line = {
        {"time",
         absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(us), absl::UTCTimeZone())},
        {"level", std::string(level.data(), level.size())},
        {"message", std::string(message.payload.data(), message.payload.size())}};
    const std::string text =
        line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
    to.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

LogFormat LogFormatNamed(std::string_view name) {
  return name == "json" ? LogFormat::kJson : LogFormat::kText;
}

void SetUpLog(const std::string& level, LogFormat format) {
  auto logger = spdlog::stderr_color_mt("cellbatch");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  SetLogFormat(format);
  auto lines = spdlog::stderr_logger_mt(kLines);
  lines->set_pattern("%v");
  lines->flush_on(spdlog::level::trace);
}

void SetLogFormat(LogFormat format) {
  spdlog::logger& logger = *spdlog::default_logger();
  if (format == LogFormat::kJson) {
    logger.set_formatter(std::make_unique<JsonFormatter>());
  } else {
    auto text = std::make_unique<spdlog::pattern_formatter>();
    text->add_flag<Message>('v').set_pattern(kPattern);
    logger.set_formatter(std::move(text));
  }
}

void WriteLine(spdlog::level::level_enum level, const std::string& line) {
  if (!spdlog::default_logger()->should_log(level)) return;
  if (const auto lines = spdlog::get(kLines)) lines->log(level, line);
}

}  // namespace cellbatch

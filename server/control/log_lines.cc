#include "server/control/log_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "spdlog/formatter.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/sinks/stdout_color_sinks.h"
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

// Writes to stderr and waits for room in it no longer than it is told.
class BoundedStderr {
 public:
  static BoundedStderr& Get() {
    static BoundedStderr* const one = new BoundedStderr;  // outlives whoever logs at the end
    return *one;
  }
  // False: there was no room within `patience`, or (kEver) before the end.
  bool Write(std::string_view line, std::chrono::milliseconds patience) {
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (HasRoom(kNow)) {
          WriteAll(line);
          return true;
        }
      }
      const bool over =
          patience == kEver ? hurry_.load() : std::chrono::steady_clock::now() - begin >= patience;
      if (over) return false;
      HasRoom(std::min(patience, kLook));
    }
  }
  void Hurry() { hurry_.store(true); }

  static constexpr std::chrono::milliseconds kEver = std::chrono::hours(1000), kNow{0},
                                             kSecond{1000};

 private:
  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr size_t kPiece =
      4096;  // where there is room there is room for so much (PIPE_BUF)

  static bool HasRoom(std::chrono::milliseconds patience) {
    pollfd there = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    return poll(&there, 1, static_cast<int>(patience.count())) !=
           0;  // an error is the write's to have
  }
  // A long line that is not read to its end is cut.
  static void WriteAll(std::string_view line) {
    while (!line.empty() && HasRoom(kSecond)) {
      const ssize_t wrote = write(STDERR_FILENO, line.data(), std::min(line.size(), kPiece));
      if (wrote > 0) line.remove_prefix(static_cast<size_t>(wrote));
      if (wrote < 0 && errno != EINTR) return;
    }
  }

  std::mutex mutex_;
  std::atomic<bool> hurry_ = false;
};

class BoundedSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit BoundedSink(bool waits) : waits_(waits) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (left_out_ > 0) {
      const std::string text =
          fmt::format("{} lines of the log are left out: nobody read stderr", left_out_);
      if (Put({message.time, {}, message.logger_name, spdlog::level::warn, text})) left_out_ = 0;
    }
    if (left_out_ > 0 || !Put(message)) ++left_out_;
  }
  void flush_() override {}
  bool Put(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const auto patience = waits_          ? BoundedStderr::kEver
                          : left_out_ > 0 ? BoundedStderr::kNow
                                          : BoundedStderr::kSecond;
    return BoundedStderr::Get().Write({line.data(), line.size()}, patience);
  }

  const bool waits_;
  int64_t left_out_ = 0;
};

}  // namespace

LogFormat LogFormatNamed(std::string_view name) {
  return name == "json" ? LogFormat::kJson : LogFormat::kText;
}

void SetUpLog(const std::string& level, LogFormat format) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  auto logger = terminal ? spdlog::stderr_color_mt("cellbatch")
                         : std::make_shared<spdlog::logger>(
                               "cellbatch", std::make_shared<BoundedSink>(/*waits=*/false));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  SetLogFormat(format);
  const auto lines =
      std::make_shared<spdlog::logger>(kLines, std::make_shared<BoundedSink>(/*waits=*/true));
  lines->set_pattern("%v");
  spdlog::register_logger(lines);
}

void HurryLog() { BoundedStderr::Get().Hurry(); }

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

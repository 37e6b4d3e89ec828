#include "server/control/log_lines.h"

#include <fcntl.h>
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
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "spdlog/details/os.h"
#include "spdlog/formatter.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/base_sink.h"
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
  // A terminal that is not read (Ctrl-S, a session that hangs) has room for a few bytes and then keeps who writes a line, so it
  // is opened once more, for a writer who is never kept; whoever else has it, a shell, keeps it as it is.
  void Begin(bool terminal) {
    const std::lock_guard lock(mutex_);
    if (file_ != STDERR_FILENO) close(file_);
    const int own =
        terminal ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    file_ = own >= 0 ? own : STDERR_FILENO;
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
      HasRoom(std::min(patience, kLook));  // of a file that SetUpLog alone changes
    }
  }
  void Hurry() { hurry_.store(true); }

  static constexpr std::chrono::milliseconds kEver = std::chrono::hours(1000), kNow{0},
                                             kSecond{1000};

 private:
  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr size_t kPiece =
      4096;  // where there is room there is room for so much (PIPE_BUF)

  bool HasRoom(std::chrono::milliseconds patience) const {
    pollfd there = {.fd = file_, .events = POLLOUT, .revents = 0};
    return poll(&there, 1, static_cast<int>(patience.count())) !=
           0;  // an error is the write's to have
  }
  // A long line that is not read to its end is cut.
  void WriteAll(std::string_view line) const {
    auto moved = std::chrono::steady_clock::now();
    while (!line.empty() && HasRoom(kSecond)) {
      const ssize_t wrote = write(file_, line.data(), std::min(line.size(), kPiece));
      const auto now = std::chrono::steady_clock::now();
      if (wrote > 0) {
        line.remove_prefix(static_cast<size_t>(wrote));
        moved = now;
      } else if (errno == EAGAIN && now - moved < kSecond) {
        // A terminal has room for a byte, and its end of a line is two.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  std::mutex mutex_;
  int file_ = STDERR_FILENO;
  std::atomic<bool> hurry_ = false;
};

class BoundedSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit BoundedSink(bool waits, bool colours = false) : waits_(waits), colours_(colours) {}

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
    if (colours_) Colour(message, line);
    const auto patience = waits_          ? BoundedStderr::kEver
                          : left_out_ > 0 ? BoundedStderr::kNow
                                          : BoundedStderr::kSecond;
    return BoundedStderr::Get().Write({line.data(), line.size()}, patience);
  }

  // What the pattern marks.
  static void Colour(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) {
    const char* colour = message.level >= spdlog::level::err    ? "\x1b[31m\x1b[1m"
                         : message.level == spdlog::level::warn ? "\x1b[33m\x1b[1m"
                                                                : "\x1b[32m";
    const size_t begin = message.color_range_start, end = message.color_range_end;
    if (end <= begin || end > line.size()) return;
    const std::string_view all(line.data(), line.size());
    const std::string coloured = fmt::format("{}{}{}\x1b[m{}", all.substr(0, begin), colour,
                                             all.substr(begin, end - begin), all.substr(end));
    line.clear();
    line.append(coloured.data(), coloured.data() + coloured.size());
  }

  const bool waits_, colours_;
  int64_t left_out_ = 0;
};

}  // namespace

LogFormat LogFormatNamed(std::string_view name) {
  return name == "json" ? LogFormat::kJson : LogFormat::kText;
}

void SetUpLog(const std::string& level, LogFormat format) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  BoundedStderr::Get().Begin(terminal);
  const bool colours = terminal && spdlog::details::os::is_color_terminal();
  auto logger = std::make_shared<spdlog::logger>(
      "cellbatch", std::make_shared<BoundedSink>(/*waits=*/false, colours));
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

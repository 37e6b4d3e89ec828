#include "server/requests/failure_log.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cells/unfold/utf8.h"
#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr size_t kMostId = 128, kMostError = 500;
constexpr int64_t kSecondNs = 1'000'000'000;

// What the character at the start of `text` is in Unicode, and its bytes: a byte that is no text stands for itself.
std::pair<uint32_t, size_t> FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(text[i])}; };
  const size_t size = CharacterBytes(text);
  if (size <= 1) return {byte(0), 1};
  uint32_t character = byte(0) & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) character = character << 6 | (byte(i) & 0x3f);
  return {character, size};
}

// Printable ASCII, whatever the bytes.
std::string JsonText(std::string_view text) {
  constexpr uint32_t kBeyondOneUnit = 0x10000;
  std::string json = "\"";
  while (!text.empty()) {
    const auto [character, size] = FirstCharacter(text);
    text.remove_prefix(size);
    if (character >= kBeyondOneUnit) {
      const uint32_t rest = character - kBeyondOneUnit;
      json += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 | rest >> 10, 0xdc00 | (rest & 0x3ff));
    } else if (character < 0x20 || character >= 0x7f) {
      json += fmt::format("\\u{:04x}", character);
    } else {
      if (character == '"' || character == '\\') json += '\\';
      json += static_cast<char>(character);
    }
  }
  return json + '"';
}

// At most so many bytes of it, and no part of a character.
std::string_view Cut(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  constexpr size_t kLongest = 4;
  for (size_t begin = most; begin + kLongest > most && begin > 0; --begin) {
    const size_t size = CharacterBytes(text.substr(begin));
    if (size > 0) return text.substr(0, begin + size > most ? begin : most);
  }
  return text.substr(0, most);
}

// Of the digits that begin at `at`: they are part of a datatype, which is ours to name, as in "INT64", "fp32_contents" or
// "UTF-8".
bool IsDatatype(std::string_view text, size_t at) {
  constexpr std::string_view kBits[] = {"8", "16", "32", "64"};
  constexpr absl::string_view kKinds[] = {"int", "uint", "fp", "bf", "utf-"};
  size_t end = at;
  while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) ++end;
  const absl::string_view before(text.data(), at);
  const std::string_view bits = text.substr(at, end - at);
  return std::ranges::count(kBits, bits) > 0 && std::ranges::any_of(kKinds, [&](auto kind) {
           if (!absl::EndsWithIgnoreCase(before, kind)) return false;
           const size_t begin = at - kind.size();
           return begin == 0 || !absl::ascii_isalnum(static_cast<unsigned char>(text[begin - 1]));
         });
}

std::string TimeOf(int64_t unix_us, LogFormat format) {
  const absl::Time time = absl::FromUnixMicros(unix_us);
  return format == LogFormat::kJson
             ? absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone())
             : absl::FormatTime("%Y-%m-%d %H:%M:%E6S", time, absl::LocalTimeZone());
}

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Fields of a line, in the words of its format.
class Fields {
 public:
  Fields(LogFormat format, std::string begin)
      : json_(format == LogFormat::kJson), line_(std::move(begin)) {}

  // As a client wrote it, or part of it; nothing, if there is none.
  void Text(const char* name, std::string_view text, size_t most) {
    if (text.empty()) return;
    const std::string_view more = text.size() > most ? "..." : "";
    const std::string shown = fmt::format("{}{}", Cut(text, most), more);
    Append(name, json_ ? JsonText(shown) : fmt::format("\"{}\"", absl::CEscape(shown)));
  }
  // A word of ours.
  void Word(const char* name, std::string_view word) {
    Append(name, json_ ? JsonText(word) : std::string(word));
  }
  void Number(const char* name, int64_t value) { Append(name, std::to_string(value)); }
  void Time(const char* name, int64_t ns) { Append(name, fmt::format("{:.3f}", Ms(ns))); }
  std::string Take() { return json_ ? std::move(line_) + '}' : std::move(line_); }

 private:
  void Append(const char* name, std::string_view value) {
    line_ += json_ ? fmt::format(",\"{}\":{}", name, value) : fmt::format(" {}={}", name, value);
  }

  const bool json_;
  std::string line_;
};

}  // namespace

std::string ShownId(std::string_view id) {
  std::string shown = absl::CEscape(std::string(id.substr(0, kMostId)));
  if (id.size() > kMostId) shown += "...";
  return shown;
}

std::string WithoutContents(std::string_view text, absl::Span<const std::string_view> names,
                            bool numbers) {
  const std::string_view whole = text;
  std::string shown;
  bool in_number = false, in_datatype = false;
  while (!text.empty()) {
    const char c = text.front();
    if (c == '"') {
      const auto kept = std::find_if(names.begin(), names.end(), [&](std::string_view name) {
        return !name.empty() && text.starts_with(Quoted(name));
      });
      size_t length = kept == names.end() ? text.size() : Quoted(*kept).size();
      // To the next quote that is not escaped.
      for (size_t at = 1; kept == names.end() && at < text.size(); ++at) {
        if (text[at] == '\\') {
          ++at;
        } else if (text[at] == '"') {
          length = at + 1;
          break;
        }
      }
      shown += kept == names.end() ? std::string_view("\"..\"") : text.substr(0, length);
      text.remove_prefix(length);
      in_number = false;
      continue;
    }
    const bool digit = c >= '0' && c <= '9';
    in_datatype =
        digit && (in_number ? in_datatype : IsDatatype(whole, whole.size() - text.size()));
    if (!digit || numbers || in_datatype) {
      shown += c;
    } else if (!in_number) {
      shown += '#';
    }
    in_number = digit;
    text.remove_prefix(1);
  }
  return shown;
}

std::string LineOf(const FailedRequest& request, LogFormat format, int64_t unix_us,
                   int64_t left_out) {
  const std::string time = TimeOf(unix_us, format);
  Fields line(
      format,
      format == LogFormat::kJson
          ? fmt::format(R"({{"time":"{}","level":"warning","message":"request failed")", time)
          : time + " warning request failed");
  line.Word("id", format == LogFormat::kJson ? std::string(request.id)
                                             : fmt::format("\"{}\"", request.id));
  line.Text("model", request.model, kMostId);
  line.Text("version", request.version, kMostId);
  line.Word("wire", request.wire);
  line.Text("client", request.client, kMostId);
  line.Word("outcome", request.outcome);
  line.Word("code", absl::StatusCodeToString(request.code));
  line.Time("total_ms", request.total_ns);
  line.Time("queue_ms", request.queue_ns);
  line.Time("compute_ms", request.compute_ns);
  line.Number("nodes", request.nodes);
  if (request.input >= 0) line.Number("input", request.input);
  if (request.requests != 1) line.Number("requests", request.requests);
  if (!request.trace.empty()) line.Word("trace", request.trace);
  if (left_out > 0) line.Number("left_out", left_out);
  line.Text("error", request.error, kMostError);
  return line.Take();
}

FailureLog::FailureLog(int64_t per_second, LogFormat format, Write write, const Clock& clock)
    : write_(std::move(write)),
      clock_(clock),
      per_second_(per_second),
      format_(format),
      next_id_(uint64_t{std::random_device()()} << 32 | std::random_device()()),
      writer_([this] { Loop(); }) {}

FailureLog::~FailureLog() { Close(); }

void FailureLog::Close() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  writer_.join();
}

void FailureLog::LeaveOut() {
  left_out_.fetch_add(1, std::memory_order_relaxed);
  unsaid_.fetch_add(1, std::memory_order_relaxed);
}

// Each line costs its share of a second; the bill may be paid later, but never more than a minute later.
bool FailureLog::Wants() {
  const int64_t per_second = this->per_second();
  if (per_second <= 0) return false;
  const int64_t cost = kSecondNs / per_second, now = clock_.NowNs();
  int64_t until = spent_until_ns_.load(std::memory_order_relaxed);
  while (true) {
    const int64_t next = std::max(until, now) + cost;
    if (next - now > kBurstSeconds * kSecondNs) break;
    if (spent_until_ns_.compare_exchange_weak(until, next, std::memory_order_relaxed)) return true;
  }
  LeaveOut();
  return false;
}

void FailureLog::Add(const FailedRequest& request) {
  const int64_t unix_us = std::chrono::duration_cast<std::chrono::microseconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
  const int64_t left_out = unsaid_.exchange(0, std::memory_order_relaxed);
  std::string line = LineOf(request, format_.load(std::memory_order_relaxed), unix_us, left_out);
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < kMostWaiting) {
      waiting_.push_back(std::move(line));
      changed_.notify_one();
      return;
    }
  }
  unsaid_.fetch_add(left_out, std::memory_order_relaxed);
  LeaveOut();
}

std::string FailureLog::NewId() {
  // Spread over all digits, one to one.
  const uint64_t number =
      next_id_.fetch_add(1, std::memory_order_relaxed) * uint64_t{0x9e3779b97f4a7c15};
  return fmt::format("{:016x}", number);
}

void FailureLog::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::string line = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    write_(line);
    written_.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
  }
}

}  // namespace cellbatch

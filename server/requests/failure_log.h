// A line for every request that did not end OK, so that it can be found by its id alone. The line says all but what was asked:
//
//   time level | id | model version | wire client | outcome code error | total queue compute nodes | trace
//
// Lines are bounded in length and in number: so many a second, a minute's worth of them at once; what is left out is counted,
// and the next line says how many. They are made by who hands the failure to the client, and written by a thread of its own,
// so that a full pipe costs lines (kMostWaiting wait) and never an answer.
//
//   responder, transport   Wants? --no--> counted            Add: one line of text --> queue --> writer's thread: write(line)
#ifndef CELLBATCH_SERVER_REQUESTS_FAILURE_LOG_H_
#define CELLBATCH_SERVER_REQUESTS_FAILURE_LOG_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scheduler/clock.h"

namespace cellbatch {

enum class LogFormat : uint8_t { kText, kJson };

// What a client called its request, as lines, headers and traces show it: printable ASCII, at most about 128 characters.
std::string ShownId(std::string_view id);

// An error's text without what a request may have brought: texts in double quotes, unless they are among `names`, and where
// `numbers` is false, digits but those of datatypes (INT64).
std::string WithoutContents(std::string_view text, absl::Span<const std::string_view> names,
                            bool numbers);

struct FailedRequest {
  std::string_view id;  // as ShownId says it
  // The counter's; where there is none, as the client wrote them. Empty: not read.
  std::string_view model, version;
  std::string_view wire;
  std::string_view client;
  absl::StatusCode code;
  std::string_view error;    // without contents
  std::string_view outcome;  // the counter's label
  std::string_view trace;    // its id, 32 digits; empty: none
  // So far: since it came; of it, until its first cell started; of it, from then to the end of its last.
  int64_t total_ns = 0, queue_ns = 0, compute_ns = 0;
  int64_t nodes = 0;  // computed
  int input = -1;     // of a call that brings many; -1: all, or the only one
  int requests = 1;   // that end so, and are counted
};

// The line, without its end.
std::string LineOf(const FailedRequest& request, LogFormat format, int64_t unix_us,
                   int64_t left_out);

class FailureLog {
 public:
  using Write = std::function<void(const std::string& line)>;
  static constexpr size_t kMostWaiting = 1024;
  static constexpr int64_t kBurstSeconds = 60;

  // `write` is called by the log's own thread. `clock` outlives it. `per_second` 0: no lines.
  FailureLog(int64_t per_second, LogFormat format, Write write, const Clock& clock);
  ~FailureLog();  // closes it
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

  // Writes what waits; from then on nothing is added. Idempotent.
  void Close();

  // Any thread, all of them. Never wait for who writes.
  //
  // Whether there is room for a line now; it is taken. No: it is counted as left out, unless there are to be none.
  bool Wants();
  // REQUIRES: Wants said so.
  void Add(const FailedRequest& request);
  // A name for a request whose client gave none: 16 digits, no two alike.
  std::string NewId();

  int64_t per_second() const { return per_second_.load(std::memory_order_relaxed); }
  void SetPerSecond(int64_t lines) { per_second_.store(lines, std::memory_order_relaxed); }
  void SetFormat(LogFormat format) { format_.store(format, std::memory_order_relaxed); }
  int64_t written() const { return written_.load(std::memory_order_relaxed); }
  int64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

 private:
  void LeaveOut();
  void Loop();

  const Write write_;
  const Clock& clock_;
  std::atomic<int64_t> per_second_;
  std::atomic<LogFormat> format_;
  std::atomic<int64_t> spent_until_ns_ =
      0;  // of the minute's worth: a line costs a second / per_second
  std::atomic<int64_t> written_ = 0, left_out_ = 0, unsaid_ = 0;
  std::atomic<uint64_t> next_id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  bool stop_ = false;
  std::thread writer_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_FAILURE_LOG_H_

// What went wrong lately, for people: the last few kinds of failures, each with its last text, how often it came and when. Fixed
// memory: kKinds of them, of at most kTextBytes of text. Failures of the same model whose texts differ in numbers alone are one
// kind, so that ten thousand refusals a second leave room for the one that says what is wrong.
//
// Whoever ends a request tells it here (Note), from any thread: it never waits. While another one is being told it is counted
// alone, which under load is as good: the same kind comes again. Texts are kept as they are; who shows them escapes them.
#ifndef CELLBATCH_SERVER_REQUESTS_LAST_ERRORS_H_
#define CELLBATCH_SERVER_REQUESTS_LAST_ERRORS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace cellbatch {

struct LastError {
  std::string model, version;  // empty: the request named none of ours
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string text;
  int64_t at_ns = 0;  // steady clock, the last time
  int64_t count = 0;  // since it is here
};

class LastErrors {
 public:
  static constexpr size_t kKinds = 32;
  static constexpr size_t kTextBytes = 240;

  // A request that ended with that status. OK and CANCELLED (the client's own wish) are no failures.
  void Note(std::string_view model, std::string_view version, const absl::Status& status,
            int64_t now_ns);

  std::vector<LastError> Newest() const;  // the last one first
  // Told while another one was, and so of no kind above.
  int64_t only_counted() const { return only_counted_.load(std::memory_order_relaxed); }

 private:
  struct Kind {
    uint64_t key = 0;
    LastError error;
  };
  mutable std::mutex mutex_;
  std::vector<Kind> kinds_;  // under it; the one longest ago goes
  std::atomic<int64_t> only_counted_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_LAST_ERRORS_H_

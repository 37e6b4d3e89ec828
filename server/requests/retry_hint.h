// When somebody who was refused should come back: about then, half to one and a half times as long, each time another,
// so that those who were refused together do not come back together. Any thread.
#ifndef CELLBATCH_SERVER_REQUESTS_RETRY_HINT_H_
#define CELLBATCH_SERVER_REQUESTS_RETRY_HINT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cellbatch {

class RetryHint {
 public:
  // Milliseconds, of what takes about so many.
  int32_t Spread(int64_t wait_ms) {
    const int64_t wait = std::clamp<int64_t>(wait_ms, kShortestMs, kLongestMs);
    // Steps of the golden section fill [0, 1) evenly, however many there are.
    const uint64_t step = hints_.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15u;
    return static_cast<int32_t>(wait / 2 +
                                static_cast<int64_t>(step >> 32) * (wait + 1) / (int64_t{1} << 32));
  }

 private:
  static constexpr int64_t kShortestMs = 5, kLongestMs = 10'000;

  std::atomic<uint64_t> hints_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_RETRY_HINT_H_

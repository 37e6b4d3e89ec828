// Honest clients that ask every model, all day long: over gRPC and HTTP, on connections that stay and on ever new ones. Each
// waits for its answer before it asks again, with whatever token is in force when it begins (DayKeys).
#ifndef CELLBATCH_TESTS_E2E_DAY_DAY_TRAFFIC_H_
#define CELLBATCH_TESTS_E2E_DAY_DAY_TRAFFIC_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/day/day_book.h"
#include "tests/e2e/day/day_callers.h"

namespace cellbatch {

enum class DayRole : uint8_t { kClient, kOperator };

// The tokens that honest callers use. A call holds its token while it is under way, so who retires one can wait for the
// last of its calls. Any thread.
class DayKeys {
 public:
  using Token = std::shared_ptr<const std::string>;
  Token Of(DayRole role) const {
    const std::lock_guard lock(mutex_);
    return tokens_[static_cast<size_t>(role)];
  }
  // The one that is used no more, but by calls under way.
  Token Replace(DayRole role, const std::string& token) {
    const std::lock_guard lock(mutex_);
    return std::exchange(tokens_[static_cast<size_t>(role)],
                         std::make_shared<const std::string>(token));
  }

 private:
  mutable std::mutex mutex_;
  std::array<Token, 2> tokens_;  // under it
};

class DayTraffic {
 public:
  // All of these outlive it.
  DayTraffic(const DayWay& way, const DayKeys& keys, DayBook& book, uint64_t seed);
  ~DayTraffic() { End(); }
  void End();

 private:
  void Client(DayCaller& caller, uint64_t seed);

  const DayKeys& keys_;
  DayBook& book_;
  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<DayCaller>> callers_;
  std::vector<std::thread> threads_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_DAY_DAY_TRAFFIC_H_

#include "scheduler/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace cellbatch {
namespace {

// std::atomic::wait knows no time limit, hence the system call itself.
long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* at_most) {
  static_assert(sizeof(*word) == sizeof(uint32_t));
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, at_most, nullptr, 0);
}

}  // namespace

void Doorbell::Wait(int64_t at_most_ns) {
  const uint32_t asleep = word_.load();
  if (asleep != kAwake) {
    const timespec limit = {at_most_ns / 1'000'000'000, at_most_ns % 1'000'000'000};
    do {
      const long result = Futex(&word_, FUTEX_WAIT, asleep, at_most_ns < 0 ? nullptr : &limit);
      if (result != 0 && at_most_ns >= 0)
        break;  // over, or a signal: the caller looks again anyway
    } while (at_most_ns < 0 && word_.load() == asleep);
  }
  word_.exchange(kAwake);
}

void Doorbell::Wake() {
  if (word_.exchange(kAwake) == kAwake) return;  // another waker was first
  Futex(&word_, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace cellbatch

// Preloaded into a server under test: moves its wall clock (never the steady one) by the number of
// seconds that stands, as eight bytes, in the file that CLOCK_SHIFT_FILE names.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

int64_t Shift() {
  static const volatile int64_t* const kShift = [] {
    const char* name = std::getenv("CLOCK_SHIFT_FILE");
    const int file = name == nullptr ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void* at = file < 0 ? MAP_FAILED : mmap(nullptr, 8, PROT_READ, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? nullptr : static_cast<const volatile int64_t*>(at);
  }();
  return kShift == nullptr ? 0 : *kShift;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    time->tv_sec += Shift();
  }
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

extern "C" time_t time(time_t* to) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

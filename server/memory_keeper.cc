#include "server/memory_keeper.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>

#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

constexpr std::chrono::seconds kBetweenLooks{2};

// Of memory that is no file's.
int64_t ResidentBytes() {
  constexpr std::string_view kAnonymous = "RssAnon:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kAnonymous)) return std::stoll(line.substr(kAnonymous.size())) * 1024;
  }
  return 0;
}

int64_t InUseBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace

bool KeptMemory::Due(int64_t resident, int64_t in_use) {
  const int64_t kept = resident - in_use;
  least_kept_ = std::min(least_kept_, kept);
  return kept > least_kept_ + kMuch;
}

void KeptMemory::GaveBack(int64_t resident, int64_t in_use) { least_kept_ = resident - in_use; }

MemoryKeeper::MemoryKeeper() : thread_([this] { Run(); }) {}

MemoryKeeper::~MemoryKeeper() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MemoryKeeper::Run() {
  KeptMemory kept;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kBetweenLooks, [&] { return ending_; })) {
    const int64_t before = ResidentBytes();
    if (!kept.Due(before, InUseBytes())) continue;
    malloc_trim(0);
    const int64_t after = ResidentBytes();
    kept.GaveBack(after, InUseBytes());
    spdlog::debug("{} bytes of freed memory given back, {} are in use", before - after, after);
  }
}

}  // namespace cellbatch

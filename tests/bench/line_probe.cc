#include "tests/bench/line_probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/bench/probes.h"

namespace cellbatch {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

LineProbe::LineProbe(int64_t bytes)
    : lines_(std::max<size_t>(static_cast<size_t>(bytes) / sizeof(Line), 2)),
      mapped_bytes_((lines_ * sizeof(Line) + 2 * kHugePage - 1) & ~(kHugePage - 1)) {
  mapped_ =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped_ == MAP_FAILED) std::abort();
  const uintptr_t at = (reinterpret_cast<uintptr_t>(mapped_) + kHugePage - 1) & ~(kHugePage - 1);
  madvise(reinterpret_cast<void*>(at), lines_ * sizeof(Line), MADV_HUGEPAGE);
  memory_ = reinterpret_cast<Line*>(at);
  // Sattolo's shuffle: one cycle through all of them.
  std::vector<uint32_t> order(lines_);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 random(1);
  for (size_t i = lines_ - 1; i > 0; --i) std::swap(order[i], order[random() % i]);
  for (size_t i = 0; i < lines_; ++i) memory_[i].next = order[i];
}

LineProbe::~LineProbe() { munmap(mapped_, mapped_bytes_); }

double LineProbe::NsPerLoad(int64_t loads) {
  const int64_t begin = ThreadCpuNs();
  uint32_t at = at_;
  for (int64_t i = 0; i < loads; ++i) at = memory_[at].next;
  // Known to have been reached, so that the loads are made.
  __asm__ volatile("" : "+r"(at));
  at_ = at;
  return static_cast<double>(ThreadCpuNs() - begin) / static_cast<double>(loads);
}

}  // namespace cellbatch

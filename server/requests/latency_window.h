// The times of the last requests, every one of them: exact percentiles come from here, not from
// histograms. One ring per writing thread, read by anybody at any time.
//
//   writer:  fill slot head % capacity  ->  head + 1 (release)
//   reader:  copy [head - capacity, head), look at head again, drop what was overwritten meanwhile
//
// Recording costs six plain stores and no lock. 48 bytes a sample; memory is touched as it fills.
#ifndef CELLBATCH_SERVER_REQUESTS_LATENCY_WINDOW_H_
#define CELLBATCH_SERVER_REQUESTS_LATENCY_WINDOW_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cells/ids.h"

namespace cellbatch {

struct LatencySample {
  int64_t end_ns = 0;  // steady clock
  ModelId model;       // ModelStats::times_id
  bool ok = false;
  int64_t request_ns = 0;
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
};

class LatencyRing {
 public:
  explicit LatencyRing(int64_t capacity);    // a power of two
  void Record(const LatencySample& sample);  // its one writer
  // Appends what is remembered and ended at or after `since_ns`; any thread. Returns the end of the
  // oldest sample remembered if older ones were overwritten, else 0.
  int64_t CopySince(int64_t since_ns, std::vector<LatencySample>& out) const;

 private:
  static constexpr int kWords = 6;
  const int64_t capacity_;
  std::unique_ptr<uint64_t[]> words_;  // through atomic_ref, relaxed
  std::atomic<int64_t> head_ = 0;
};

// Exact order statistics: percentile p of n times is the ceil(p/100 * n)-th smallest.
struct ExactPercentiles {
  uint64_t count = 0;
  int64_t mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};
ExactPercentiles PercentilesOf(std::vector<int64_t> times);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_LATENCY_WINDOW_H_

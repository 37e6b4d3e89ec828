#include "server/requests/latency_window.h"

#include <algorithm>
#include <bit>

#include "cells/check.h"

namespace cellbatch {

namespace {

// Releases and acquires of single words: plain moves on x86.
void Put(uint64_t& word, int64_t value) {
  std::atomic_ref(word).store(static_cast<uint64_t>(value), std::memory_order_release);
}
int64_t Get(uint64_t& word) {
  return static_cast<int64_t>(std::atomic_ref(word).load(std::memory_order_acquire));
}

}  // namespace

LatencyRing::LatencyRing(int64_t capacity)
    : capacity_(capacity),
      words_(std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(capacity) * kWords)) {
  Check(std::has_single_bit(static_cast<uint64_t>(capacity)), "a ring's size is no power of two");
}

void LatencyRing::Record(const LatencySample& sample) {
  const int64_t head = head_.load(std::memory_order_relaxed);
  uint64_t* slot = words_.get() + (head & (capacity_ - 1)) * kWords;
  // Readers that see any of these words see, when they look again, that the slot was being reused.
  Put(slot[5], head);
  Put(slot[0], sample.end_ns);
  Put(slot[1], int64_t{sample.model.value()} * 2 + (sample.ok ? 1 : 0));
  Put(slot[2], sample.request_ns);
  Put(slot[3], sample.queue_ns);
  Put(slot[4], sample.compute_ns);
  head_.store(head + 1, std::memory_order_release);
}

int64_t LatencyRing::CopySince(int64_t since_ns, std::vector<LatencySample>& out) const {
  const int64_t head = head_.load(std::memory_order_acquire);
  const int64_t first = std::max<int64_t>(0, head - capacity_);
  int64_t oldest = 0;
  for (int64_t i = head - 1; i >= first; --i) {
    uint64_t* slot = words_.get() + (i & (capacity_ - 1)) * kWords;
    LatencySample sample;
    sample.end_ns = Get(slot[0]);
    const int64_t model = Get(slot[1]);
    sample.request_ns = Get(slot[2]);
    sample.queue_ns = Get(slot[3]);
    sample.compute_ns = Get(slot[4]);
    if (Get(slot[5]) != i) break;  // the writer has come round: older ones are gone, too
    sample.model = ModelId(model >> 1);
    sample.ok = (model & 1) != 0;
    if (first > 0) oldest = sample.end_ns;
    // Samples of one thread are nearly in the order of their ends; a little slack is enough to
    // stop.
    if (sample.end_ns >= since_ns) {
      out.push_back(sample);
    } else if (sample.end_ns < since_ns - 1'000'000'000) {
      return 0;
    }
  }
  return oldest;
}

ExactPercentiles PercentilesOf(std::vector<int64_t> times) {
  ExactPercentiles result;
  if (times.empty()) return result;
  std::sort(times.begin(), times.end());
  const auto at = [&](int64_t per_mille) {
    const int64_t n = static_cast<int64_t>(times.size());
    const int64_t rank = (per_mille * n + 999) / 1000;
    return times[static_cast<size_t>(std::max<int64_t>(rank, 1) - 1)];
  };
  double sum = 0;
  for (const int64_t time : times) sum += static_cast<double>(time);
  result.count = times.size();
  result.mean = static_cast<int64_t>(sum / static_cast<double>(times.size()));
  result.p50 = at(500);
  result.p90 = at(900);
  result.p99 = at(990);
  result.p999 = at(999);
  result.max = times.back();
  return result;
}

}  // namespace cellbatch

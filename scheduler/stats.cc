#include "scheduler/stats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cellbatch {
namespace {

constexpr int kSubBuckets = 1 << kSubBucketBits;
constexpr int kLargestPower = 41;

// One writer: a relaxed load and store, no locked instruction.
template <typename T>
void AddTo(std::atomic<T>& counter, T value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace

int BucketOf(int64_t value) {
  if (value < kSubBuckets) return static_cast<int>(std::max<int64_t>(value, 0));
  const int power = 63 - std::countl_zero(static_cast<uint64_t>(value));
  if (power > kLargestPower) return kHistogramBuckets - 1;
  const int sub = static_cast<int>(value >> (power - kSubBucketBits)) & (kSubBuckets - 1);
  return ((power - kSubBucketBits + 1) << kSubBucketBits) + sub;
}

int64_t BucketLow(int bucket) {
  if (bucket < kSubBuckets) return bucket;
  const int power = (bucket >> kSubBucketBits) + kSubBucketBits - 1;
  const int64_t sub = bucket & (kSubBuckets - 1);
  return (kSubBuckets + sub) << (power - kSubBucketBits);
}

HistogramCounts& HistogramCounts::operator+=(const HistogramCounts& other) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  count += other.count;
  sum += other.sum;
  return *this;
}

HistogramCounts HistogramCounts::operator-(const HistogramCounts& earlier) const {
  HistogramCounts window = *this;
  for (size_t i = 0; i < buckets.size(); ++i) window.buckets[i] -= earlier.buckets[i];
  window.count -= earlier.count;
  window.sum -= earlier.sum;
  return window;
}

int64_t HistogramCounts::Quantile(double quantile) const {
  if (count == 0) return 0;
  const auto wanted = static_cast<uint64_t>(
      std::max(1.0, std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(count))));
  uint64_t seen = 0;
  for (int i = 0; i < kHistogramBuckets; ++i) {
    seen += buckets[static_cast<size_t>(i)];
    if (seen >= wanted) return BucketLow(i + 1) - 1;
  }
  return BucketLow(kHistogramBuckets) - 1;
}

std::vector<DeviceStats> DevicesOf(DeviceKinds kinds, std::vector<DeviceStats> devices) {
  std::erase_if(devices, [=](const DeviceStats& device) { return !kinds.Has(device.kind); });
  return devices;
}

std::string NamesOf(const std::vector<DeviceStats>& devices) {
  std::string names;
  for (const DeviceStats& device : devices) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

void Histogram::Record(int64_t value) {
  AddTo<uint64_t>(buckets_[static_cast<size_t>(BucketOf(value))], 1);
  AddTo(sum_, value);
}

HistogramCounts Histogram::Read() const {
  HistogramCounts counts;
  for (size_t i = 0; i < counts.buckets.size(); ++i) {
    counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    counts.count += counts.buckets[i];
  }
  counts.sum = sum_.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace cellbatch

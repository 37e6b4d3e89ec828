#include "server/requests/request_stats.h"

#include <algorithm>
#include <utility>

namespace cellbatch {

const char* Name(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::kOk:
      return "ok";
    case RequestOutcome::kCancelled:
      return "cancelled";
    case RequestOutcome::kDeadline:
      return "deadline";
    case RequestOutcome::kRejected:
      return "rejected";
    case RequestOutcome::kInvalid:
      return "invalid";
    case RequestOutcome::kError:
      return "error";
  }
  return "unknown";
}

RequestOutcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return RequestOutcome::kOk;
    case absl::StatusCode::kCancelled:
      return RequestOutcome::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return RequestOutcome::kDeadline;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return RequestOutcome::kRejected;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return RequestOutcome::kInvalid;
    default:
      return RequestOutcome::kError;
  }
}

const std::array<int64_t, kTimeBuckets>& TimeBucketEdgesNs() {
  static const std::array<int64_t, kTimeBuckets> kEdges = [] {
    std::array<int64_t, kTimeBuckets> edges = {};
    double edge = 50e3;
    for (int64_t& e : edges) {
      e = static_cast<int64_t>(edge + 0.5);
      edge *= 1.5;
    }
    return edges;
  }();
  return kEdges;
}

void TimeHistogram::Record(int64_t ns) {
  const auto& edges = TimeBucketEdgesNs();
  const auto at = std::lower_bound(edges.begin(), edges.end(), ns) - edges.begin();
  sum_ns_.Add(ns);
  buckets_[static_cast<size_t>(at)].Add(1);
}

void TimeHistogram::AddTo(TimeCounts& sum) const {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const int64_t count = buckets_[i].Get();
    sum.buckets[i] += count;
    sum.count += count;
  }
  sum.sum_ns += sum_ns_.Get();
}

namespace {

void Add(const TimeCounts& counts, TimeCounts& sum) {
  for (size_t i = 0; i < sum.buckets.size(); ++i) sum.buckets[i] += counts.buckets[i];
  sum.count += counts.count;
  sum.sum_ns += counts.sum_ns;
}

}  // namespace

RequestCounts& RequestCounts::operator+=(const RequestCounts& other) {
  for (size_t i = 0; i < outcomes.size(); ++i) outcomes[i] += other.outcomes[i];
  for (size_t i = 0; i < rejections.size(); ++i) rejections[i] += other.rejections[i];
  done += other.done;
  input_ns += other.input_ns;
  queue_ns += other.queue_ns;
  compute_ns += other.compute_ns;
  output_ns += other.output_ns;
  request_ns += other.request_ns;
  failed_ns += other.failed_ns;
  cells += other.cells;
  units += other.units;
  last_done_unix_ms = std::max(last_done_unix_ms, other.last_done_unix_ms);
  Add(other.request, request);
  Add(other.queue, queue);
  Add(other.compute, compute);
  return *this;
}

// Padded to whole cache lines by its size and alignment, so that two writers never share one.
struct alignas(64) ModelStats::Shard {
  std::array<Tally, kNumOutcomes> outcomes;
  std::array<Tally, kNumRejections> rejections;
  Tally input_ns, queue_ns, compute_ns, output_ns, request_ns, failed_ns, cells, units;
  std::atomic<int64_t> last_done_unix_ms = 0;
  TimeHistogram request, queue, compute;
};

ModelStats::ModelStats(std::string name, std::string version, int shards, ModelId first)
    : name_(std::move(name)), version_(std::move(version)), times_id_(first) {
  for (int i = 0; i < shards; ++i) shards_.push_back(std::make_unique<Shard>());
}

ModelStats::~ModelStats() = default;

void ModelStats::RecordDone(int shard, const RequestDurations& durations, int64_t unix_ms) {
  Shard& to = *shards_[static_cast<size_t>(shard)];
  to.outcomes[static_cast<size_t>(RequestOutcome::kOk)].Add(1);
  to.input_ns.Add(durations.input);
  to.queue_ns.Add(durations.queue);
  to.compute_ns.Add(durations.compute);
  to.output_ns.Add(durations.output);
  to.request_ns.Add(durations.request);
  to.cells.Add(durations.cells);
  to.units.Add(durations.length);
  to.last_done_unix_ms.store(unix_ms, std::memory_order_relaxed);
  to.request.Record(durations.request);
  to.queue.Record(durations.queue);
  to.compute.Record(durations.compute);
}

void ModelStats::RecordOther(int shard, RequestOutcome outcome, int64_t request_ns) {
  Shard& to = *shards_[static_cast<size_t>(shard)];
  to.outcomes[static_cast<size_t>(outcome)].Add(1);
  to.failed_ns.Add(request_ns);
}

void ModelStats::RecordRejected(int shard, Rejection reason) {
  shards_[static_cast<size_t>(shard)]->rejections[static_cast<size_t>(reason)].Add(1);
}

RequestCounts ModelStats::Read() const {
  RequestCounts sum;
  for (const auto& shard : shards_) {
    for (size_t i = 0; i < kNumOutcomes; ++i) sum.outcomes[i] += shard->outcomes[i].Get();
    for (size_t i = 0; i < kNumRejections; ++i) sum.rejections[i] += shard->rejections[i].Get();
    sum.input_ns += shard->input_ns.Get();
    sum.queue_ns += shard->queue_ns.Get();
    sum.compute_ns += shard->compute_ns.Get();
    sum.output_ns += shard->output_ns.Get();
    sum.request_ns += shard->request_ns.Get();
    sum.failed_ns += shard->failed_ns.Get();
    sum.cells += shard->cells.Get();
    sum.units += shard->units.Get();
    sum.last_done_unix_ms =
        std::max(sum.last_done_unix_ms, shard->last_done_unix_ms.load(std::memory_order_relaxed));
    shard->request.AddTo(sum.request);
    shard->queue.AddTo(sum.queue);
    shard->compute.AddTo(sum.compute);
  }
  sum.done = sum.outcomes[static_cast<size_t>(RequestOutcome::kOk)];
  return sum;
}

}  // namespace cellbatch

// What the server counts about requests, per model version and without locks: one shard per writing
// thread (transport threads and responders), relaxed stores by its one writer, summed by readers.
// About 2 ns an entry; see server/README.md for what each figure means.
#ifndef CELLBATCH_SERVER_REQUESTS_REQUEST_STATS_H_
#define CELLBATCH_SERVER_REQUESTS_REQUEST_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/model.h"
#include "scheduler/stats.h"
#include "server/requests/admission.h"
#include "server/requests/model_table.h"

namespace cellbatch {

// How a request ended: the `outcome` label. Each counts exactly once.
enum class RequestOutcome : uint8_t { kOk, kCancelled, kDeadline, kRejected, kInvalid, kError };
inline constexpr int kNumOutcomes = 6;
const char* Name(RequestOutcome outcome);
RequestOutcome OutcomeOf(const absl::Status& status);

// Prometheus buckets of request times: 50 us * 1.5^k, 36 of them (to 73 s), and beyond.
inline constexpr int kTimeBuckets = 36;
const std::array<int64_t, kTimeBuckets>& TimeBucketEdgesNs();  // upper edges, inclusive

// A number with one writer.
class Tally {
 public:
  void Add(int64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  int64_t Get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

struct TimeCounts {
  std::array<int64_t, kTimeBuckets + 1> buckets = {};  // not cumulative; the last: beyond all edges
  int64_t count = 0;
  int64_t sum_ns = 0;
};

class TimeHistogram {
 public:
  void Record(int64_t ns);  // its one writer
  void AddTo(TimeCounts& sum) const;

 private:
  std::array<Tally, kTimeBuckets + 1> buckets_;
  Tally sum_ns_;
};

// The times of one finished request, in nanoseconds.
struct RequestDurations {
  int64_t request = 0;  // message here -> answer handed to the transport
  int64_t input = 0;    // of it: parsing, checking, unfolding
  int64_t queue = 0;    // message here -> its first cell starts
  int64_t compute = 0;  // first cell starts -> last cell ends
  int64_t output = 0;   // last cell ends -> answer handed to the transport
  int64_t cells = 0;
  int64_t length = 0;  // units of input: steps, words, nodes
};

struct RequestCounts {
  std::array<int64_t, kNumOutcomes> outcomes = {};
  std::array<int64_t, kNumRejections> rejections = {};
  // Of requests answered OK. All from one and the same number of requests, `done`.
  int64_t done = 0;
  int64_t input_ns = 0, queue_ns = 0, compute_ns = 0, output_ns = 0, request_ns = 0;
  int64_t failed_ns = 0;  // time spent on those that ended otherwise
  int64_t cells = 0;
  int64_t units = 0;
  int64_t last_done_unix_ms = 0;
  TimeCounts request, queue, compute;
  RequestCounts& operator+=(const RequestCounts& other);
};

// One model version's shards.
class ModelStats {
 public:
  // `first`: the id of the model for which it is made.
  ModelStats(std::string name, std::string version, int shards, ModelId first = ModelId());
  ~ModelStats();
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  // Under which the times of its requests are remembered (latency_window.h): a version that is loaded again has another
  // id, and the same times.
  ModelId times_id() const { return times_id_; }

  void RecordDone(int shard, const RequestDurations& durations, int64_t unix_ms);
  void RecordOther(int shard, RequestOutcome outcome, int64_t request_ns);
  void RecordRejected(int shard, Rejection reason);
  RequestCounts Read() const;  // any thread

 private:
  struct Shard;
  const std::string name_, version_;
  const ModelId times_id_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// What is counted of one model version: of requests, and of the lanes that it had in the scheduler and has no more.
struct VersionCounts {
  std::string name, version;
  RequestCounts requests;
  std::optional<LaneStats> lanes;  // counters alone; none: no lane of it has ended
  // Those that are kept no more, together, so that totals of all models never fall. It is nobody's series: it grows at once by
  // all that one counted in its life, which is in that one's already.
  bool for_totals_alone = false;
};

// All of them. A version is its name and number: one that is loaded again counts on from where it was. Of those that have
// ended, which nobody holds any more, the last `most_ended` are kept; of older ones the sum of their requests is, for totals.
// Beyond them, one that comes back begins at 0.
//
// Any thread. Counting takes no lock; to begin and end a version, and to read, a mutex.
class StatsRegistry {
 public:
  explicit StatsRegistry(int shards, int64_t most_ended = 64);

  // REQUIRES, as long as it is used: the model is held. The first call for a model allocates.
  ModelStats& Of(const Model& model);
  ModelStats& unknown() { return unknown_; }  // requests that named no model of ours
  const ModelStats* Find(ModelId id) const;   // likewise
  // Nobody holds the model of that id any more (ModelIds).
  void Gone(ModelId id);
  // A lane has ended, and this is what it counted (SchedulerOptions::lane_ended).
  void LaneEnded(const LaneStats& lane);
  // What cell types of that model's version counted in lanes that have ended. REQUIRES as above.
  std::vector<CellTypeStats> EndedTypes(ModelId id) const;

  // In the order in which they came; then the sum of older ones, if there were any; `unknown` last. `lanes`: what the
  // scheduler has, read before: each is given the place in the list of the version that it counts for, -1 if it is none
  // that was asked for (it warms), or one whose counts are in `lanes` of its version by now.
  std::vector<VersionCounts> Read(absl::Span<const LaneStats> lanes,
                                  std::vector<int>* places) const;

 private:
  struct Version {
    Version(const std::string& name, const std::string& number, int shards, ModelId first)
        : stats(name, number, shards, first) {}
    ModelStats stats;
    std::optional<LaneStats> lanes;
    int held = 0;  // models of it
  };
  struct Held {
    std::shared_ptr<Version> version;
    bool lane_ended = false;
  };
  std::shared_ptr<Version> Begin(const Model& model);
  void DropOldest();

  const int shards_;
  const int64_t most_ended_;
  ModelTable<std::shared_ptr<Version>> models_;
  ModelStats unknown_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Version>> versions_;  // under it, like the following
  std::map<ModelId, Held> held_;
  std::deque<std::shared_ptr<Version>> ended_;  // the longest ago first
  std::optional<VersionCounts> dropped_;
};

// Adds what `lane` counted; its gauges are left out.
void AddCounters(const LaneStats& lane, LaneStats& sum);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_REQUEST_STATS_H_

// What the server counts about requests, per model version and without locks: one shard per writing
// thread (transport threads and responders), relaxed stores by its one writer, summed by readers.
// About 2 ns an entry; see server/README.md for what each figure means.
#ifndef CELLBATCH_SERVER_REQUESTS_REQUEST_STATS_H_
#define CELLBATCH_SERVER_REQUESTS_REQUEST_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cells/model.h"
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
};

// One model version's shards.
class ModelStats {
 public:
  ModelStats(std::string name, std::string version, int shards);
  ~ModelStats();
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }

  void RecordDone(int shard, const RequestDurations& durations, int64_t unix_ms);
  void RecordOther(int shard, RequestOutcome outcome, int64_t request_ns);
  void RecordRejected(int shard, Rejection reason);
  RequestCounts Read() const;  // any thread

 private:
  struct Shard;
  const std::string name_, version_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// All of them. They stay for the process's life, so counts survive an unload.
class StatsRegistry {
 public:
  explicit StatsRegistry(int shards);

  ModelStats& Of(const Model& model);         // any thread; the first call for a model allocates
  ModelStats& unknown() { return unknown_; }  // requests that named no model of ours
  const ModelStats* Find(ModelId id) const { return models_.Find(id); }
  std::vector<const ModelStats*> All() const;  // any thread; `unknown` last

 private:
  const int shards_;
  ModelTable<ModelStats> models_;
  ModelStats unknown_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_REQUEST_STATS_H_

// Every request of a run with its three times, none dropped, and what they add up to.
//
//      intended            sent                        done
//   ------|------------------|--------------------------|-------> ns from the run's start
//         |---- send lag ----|-------- service ---------|
//         |------------------- response ----------------|
//         |---- first word -----------|                          of answers that come word by word
//
// Latency is the response time: a generator that cannot send while the server is slow would
// otherwise leave out just the requests that suffered most (coordinated omission).

#ifndef CELLBATCH_LOADGEN_SAMPLES_H_
#define CELLBATCH_LOADGEN_SAMPLES_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cellbatch {

enum class SampleOutcome : uint8_t {
  kPending,     // not sent, or sent and never answered
  kCompleted,   // a right answer
  kRejected,    // RESOURCE_EXHAUSTED: the server was full
  kFailed,      // any other error that is an answer: the server has dealt with the request
  kUnanswered,  // DEADLINE_EXCEEDED, UNAVAILABLE: it has not. Counted as failed, too
  kCancelled,   // given up by this side
};

// Percentiles by nearest rank: p of n values is the ceil(p*n)-th smallest, always a value that was.
// A percentile is given as what lies beyond it: {1, 100} is p99.
struct Tail {
  int64_t part;
  int64_t whole;
  const char* name;
};
inline constexpr std::array<Tail, 4> kTails = {
    {{1, 2, "p50"}, {1, 10, "p90"}, {1, 100, "p99"}, {1, 1000, "p99.9"}}};

// The values sorted, not empty.
int64_t PercentileOf(const std::vector<int64_t>& sorted, Tail tail);

// How many values a percentile needs before one can say with 99 % confidence that it is not beyond
// the largest of them: 7, 44, 459, 4603 for those above (MLPerf's table with no miss allowed).
int64_t ValuesNeeded(Tail tail);

struct Distribution {
  uint64_t count = 0;
  double mean = 0;
  int64_t max = 0;
  // One for each of kTails; none where the count cannot carry it.
  std::array<std::optional<int64_t>, kTails.size()> percentiles;
};
Distribution Describe(std::vector<int64_t> values);

// One thread sends, others complete. All memory is taken by the constructor.
class Samples {
 public:
  // In order, ns from the run's start. Those before `measure_from_ns` are warm-up.
  Samples(std::vector<int64_t> intended_ns, int64_t measure_from_ns);

  size_t size() const { return intended_.size(); }
  size_t first_measured() const { return first_measured_; }
  int64_t measure_from() const { return measure_from_; }
  int64_t intended(size_t i) const { return intended_[i]; }

  // The sender's.
  void Sent(size_t i, int64_t at_ns);
  // A completion thread's; once for each request that was sent, possibly before Sent has returned.
  void Done(size_t i, int64_t at_ns, SampleOutcome outcome);
  // The same thread's, before it: when the first word of the answer came, and how many did.
  void Words(size_t i, int64_t first_ns, int64_t words);

  // How many so far; any thread, while the run goes on.
  uint64_t sent() const { return sent_count_.load(std::memory_order_acquire); }
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  uint64_t so_far(SampleOutcome outcome) const {
    return outcomes_[static_cast<size_t>(outcome)].load(std::memory_order_relaxed);
  }

  // One request, once the run is over. `sent`, `done` and `first_word` are -1 where that never happened.
  struct Record {
    int64_t intended, sent, done;
    SampleOutcome outcome;
    int64_t first_word = -1, words = 0;
  };
  Record at(size_t i) const;

 private:
  std::vector<int64_t> intended_;
  int64_t measure_from_;
  size_t first_measured_;
  std::vector<int64_t> sent_;
  std::vector<int64_t> done_;
  std::vector<int64_t> first_word_;
  std::vector<int64_t> words_;
  std::vector<SampleOutcome> outcome_;
  std::atomic<uint64_t> sent_count_{0};
  std::atomic<uint64_t> finished_{0};
  std::array<std::atomic<uint64_t>, 6> outcomes_{};
};

// What a run adds up to; requests of the measuring phase only, but for completed_per_second and answered_per_second.
struct Summary {
  uint64_t offered = 0;  // intended times in the phase, as far as it went
  uint64_t sent = 0;
  uint64_t completed = 0;
  uint64_t rejected = 0;
  uint64_t failed = 0;  // unanswered ones, too
  uint64_t cancelled = 0;
  uint64_t lost = 0;   // sent, and no word of it until the end of the drain
  double seconds = 0;  // how long the phase was; 0: the run ended in its warm-up, and rates are 0
  double offered_per_second = 0;
  double completed_per_second = 0;  // answers that came during the phase, whenever they were sent
  double answered_per_second = 0;   // likewise, errors that are answers (kFailed) among them
  Distribution response;            // completed requests
  Distribution service;             // completed requests
  Distribution send_lag;            // every request sent
  Distribution first_word;          // completed requests that said one: from when they were due
  uint64_t words = 0;               // that completed requests said
  int64_t send_lag_p99 = 0;         // whatever the count
  struct Bucket {
    int32_t shortest, longest;  // lengths
    Distribution response;
  };
  std::vector<Bucket> by_length;  // those that hold a request
};

// `lengths`: one for each request. `seconds`: how long the phase lasted from `measure_from` on; less than was planned where
// the sender ended early, and what was due later is then no part of it. After the run.
Summary Summarize(const Samples& samples, const std::vector<int32_t>& lengths, double seconds);
// The same of those requests alone whose part (one for each request) is `part`.
Summary SummarizePart(const Samples& samples, const std::vector<int32_t>& lengths, double seconds,
                      const std::vector<uint32_t>& parts, uint32_t part);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_SAMPLES_H_

#include "loadgen/samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cellbatch {

int64_t PercentileOf(const std::vector<int64_t>& sorted, Tail tail) {
  const int64_t count = static_cast<int64_t>(sorted.size());
  const int64_t beyond = count * tail.part / tail.whole;
  return sorted[count - beyond - 1];
}

int64_t ValuesNeeded(Tail tail) {
  // All n values lie below the true percentile with probability p^n; that must be at most 1 %.
  const double p = 1 - static_cast<double>(tail.part) / static_cast<double>(tail.whole);
  return static_cast<int64_t>(std::ceil(std::log(0.01) / std::log(p)));
}

Distribution Describe(std::vector<int64_t> values) {
  Distribution result;
  result.count = values.size();
  if (values.empty()) {
    return result;
  }
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (int64_t value : values) {
    sum += static_cast<double>(value);
  }
  result.mean = sum / static_cast<double>(values.size());
  result.max = values.back();
  for (size_t i = 0; i < kTails.size(); ++i) {
    if (static_cast<int64_t>(values.size()) >= ValuesNeeded(kTails[i])) {
      result.percentiles[i] = PercentileOf(values, kTails[i]);
    }
  }
  return result;
}

Samples::Samples(std::vector<int64_t> intended_ns, int64_t measure_from_ns)
    : intended_(std::move(intended_ns)),
      measure_from_(measure_from_ns),
      first_measured_(std::lower_bound(intended_.begin(), intended_.end(), measure_from_ns) -
                      intended_.begin()),
      sent_(intended_.size(), -1),
      done_(intended_.size(), -1),
      first_word_(intended_.size(), -1),
      words_(intended_.size(), 0),
      outcome_(intended_.size(), SampleOutcome::kPending) {}

void Samples::Sent(size_t i, int64_t at_ns) {
  sent_[i] = at_ns;
  sent_count_.fetch_add(1, std::memory_order_release);
}

void Samples::Done(size_t i, int64_t at_ns, SampleOutcome outcome) {
  done_[i] = at_ns;
  outcome_[i] = outcome;
  outcomes_[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
  finished_.fetch_add(1, std::memory_order_release);
}

void Samples::Words(size_t i, int64_t first_ns, int64_t words) {
  first_word_[i] = first_ns;
  words_[i] = words;
}

Samples::Record Samples::at(size_t i) const {
  return {intended_[i], sent_[i], done_[i], outcome_[i], first_word_[i], words_[i]};
}

namespace {

constexpr std::array<int32_t, 6> kBucketEnds = {8, 16, 32, 64, 128, 1 << 30};

size_t BucketOf(int32_t length) {
  return std::lower_bound(kBucketEnds.begin(), kBucketEnds.end(), length) - kBucketEnds.begin();
}

void CountOutcome(const Samples::Record& record, Summary& summary) {
  ++summary.offered;
  summary.sent += record.sent >= 0;
  summary.completed += record.outcome == SampleOutcome::kCompleted;
  summary.rejected += record.outcome == SampleOutcome::kRejected;
  summary.failed += record.outcome == SampleOutcome::kFailed;
  summary.failed += record.outcome == SampleOutcome::kUnanswered;
  summary.cancelled += record.outcome == SampleOutcome::kCancelled;
  summary.lost += record.outcome == SampleOutcome::kPending && record.sent >= 0;
  summary.words += record.outcome == SampleOutcome::kCompleted ? record.words : 0;
}

// Which requests count.
struct Chosen {
  const std::vector<uint32_t>* parts = nullptr;  // null: all
  uint32_t part = 0;
  bool operator()(size_t i) const { return parts == nullptr || (*parts)[i] == part; }
};

// When the phase was over, ns from the run's start.
int64_t EndOf(const Samples& samples, double seconds) {
  return samples.measure_from() + std::llround(seconds * 1e9);
}

double PerSecond(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// Of what came while the phase lasted, a second.
struct CameInPhase {
  double completed, answered;
};
CameInPhase CameWithin(const Samples& samples, double seconds, const Chosen& chosen) {
  const int64_t begin = samples.measure_from();
  const int64_t end = EndOf(samples, seconds);
  uint64_t completed = 0, wrong = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Samples::Record record = samples.at(i);
    if (chosen(i) && record.done >= begin && record.done < end) {
      completed += record.outcome == SampleOutcome::kCompleted;
      wrong += record.outcome == SampleOutcome::kFailed;
    }
  }
  return {PerSecond(completed, seconds), PerSecond(completed + wrong, seconds)};
}

// The times of those that count, before they are sorted.
struct Times {
  std::vector<int64_t> response, service, lag, first_word;
  std::array<std::vector<int64_t>, kBucketEnds.size()> buckets;

  void Add(const Samples::Record& record, int32_t length) {
    if (record.sent >= 0) {
      lag.push_back(record.sent - record.intended);
    }
    if (record.outcome != SampleOutcome::kCompleted) {
      return;
    }
    response.push_back(record.done - record.intended);
    service.push_back(record.done - record.sent);
    buckets[BucketOf(length)].push_back(response.back());
    if (record.first_word >= 0) {
      first_word.push_back(record.first_word - record.intended);
    }
  }
};

Summary SummarizeChosen(const Samples& samples, const std::vector<int32_t>& lengths, double seconds,
                        const Chosen& chosen) {
  Summary summary;
  Times times;
  const int64_t end = EndOf(samples, seconds);
  for (size_t i = samples.first_measured(); i < samples.size(); ++i) {
    const Samples::Record record = samples.at(i);
    // What was neither sent nor due when the sender ended was offered to nobody.
    if (chosen(i) && (record.sent >= 0 || record.intended <= end)) {
      CountOutcome(record, summary);
      times.Add(record, lengths[i]);
    }
  }
  for (size_t b = 0; b < times.buckets.size(); ++b) {
    if (!times.buckets[b].empty()) {
      summary.by_length.push_back({b == 0 ? 1 : kBucketEnds[b - 1] + 1, kBucketEnds[b],
                                   Describe(std::move(times.buckets[b]))});
    }
  }
  std::sort(times.lag.begin(), times.lag.end());
  summary.send_lag_p99 = times.lag.empty() ? 0 : PercentileOf(times.lag, {1, 100, "p99"});
  summary.response = Describe(std::move(times.response));
  summary.service = Describe(std::move(times.service));
  summary.send_lag = Describe(std::move(times.lag));
  summary.first_word = Describe(std::move(times.first_word));
  summary.seconds = seconds;
  summary.offered_per_second = PerSecond(summary.offered, seconds);
  const CameInPhase came = CameWithin(samples, seconds, chosen);
  summary.completed_per_second = came.completed;
  summary.answered_per_second = came.answered;
  return summary;
}

}  // namespace

Summary Summarize(const Samples& samples, const std::vector<int32_t>& lengths, double seconds) {
  return SummarizeChosen(samples, lengths, seconds, {});
}

Summary SummarizePart(const Samples& samples, const std::vector<int32_t>& lengths, double seconds,
                      const std::vector<uint32_t>& parts, uint32_t part) {
  return SummarizeChosen(samples, lengths, seconds, {&parts, part});
}

}  // namespace cellbatch

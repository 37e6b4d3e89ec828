// Two models on the same devices, one of them flooded: what the other keeps.
//
//   two_models.share       device time of the quiet model / both, while both always have work (fair: 0.5)
//   two_models.p99_ratio   p99 of the quiet model under its own Poisson load, beside a flooded neighbour / alone
//
// In process, real CPU devices, lengths as Europarl's. Flooded: 8 * b_max requests in flight, each answered one
// replaced at once. The quiet model's rate is a share (--load) of what it can serve alone, measured first.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, hidden, 512, "Units of both LSTMs.");
ABSL_FLAG(std::string, devices, "auto", "As cellbatch-server's --devices.");
ABSL_FLAG(double, seconds, 10, "Length of one measured phase.");
ABSL_FLAG(int, rounds, 3, "Rounds; figures are medians over them.");
ABSL_FLAG(double, load, 0.2, "The quiet model's load, as a share of its capacity alone.");

namespace cellbatch {
namespace {

int64_t NowNs() { return SteadyClock().NowNs(); }

// One model's traffic: either `in_flight` requests at all times, or Poisson arrivals of `rate`.
struct Traffic {
  ChainRequests requests;
  LengthStream lengths;
  double rate = 0;
  int in_flight = 0;

  int outstanding = 0;
  int64_t next_arrival_ns = 0;
  int64_t answered = 0;
  std::vector<double> latencies_s = {};
};

class TwoModels {
 public:
  TwoModels(const std::string& devices, int hidden, const Lengths& lengths) {
    scheduler_ = Require(Scheduler::Create({}, MakeDevices(devices), clock_), "scheduler");
    const int32_t longest = *std::max_element(lengths.values.begin(), lengths.values.end());
    for (int m = 0; m < 2; ++m) {
      ChainModelSpec spec;
      spec.hidden = hidden;
      auto model = MakeChainModel(spec, m + 1);
      Require(scheduler_->AddModel(model, nullptr), "adding a model");
      b_max_ = scheduler_->Calibration(model->id)[0].max_batch;
      traffic_.push_back({ChainRequests(model, longest, 7 + m), LengthStream(lengths, 17 + m)});
    }
  }
  ~TwoModels() { scheduler_->Stop(); }

  int b_max() const { return b_max_; }
  Traffic& traffic(int model) { return traffic_[static_cast<size_t>(model)]; }
  int64_t device_ns(int model) {
    return scheduler_->stats().Lanes()[static_cast<size_t>(model)].device_ns;
  }

  // Serves both models' traffic for `seconds`; counts and latencies start anew.
  void Serve(double seconds) {
    const int64_t start = NowNs(), end = start + static_cast<int64_t>(seconds * 1e9);
    for (Traffic& t : traffic_) {
      t.answered = 0;
      t.latencies_s.clear();
      t.next_arrival_ns = start;
    }
    for (int64_t now = start; now < end; now = NowNs()) {
      for (int m = 0; m < 2; ++m) Arrive(m, now);
      if (Answer() == 0) scheduler_->WaitForFinished(OutboxId(0), UntilNextArrival(now));
    }
  }

  void Drain() {
    for (Traffic& t : traffic_) t.rate = t.in_flight = 0;
    while (traffic_[0].outstanding + traffic_[1].outstanding > 0) {
      if (Answer() == 0) scheduler_->WaitForFinished(OutboxId(0), absl::Milliseconds(5));
    }
  }

 private:
  void Submit(int m, int64_t intended_ns) {
    Traffic& t = traffic(m);
    std::unique_ptr<Request> request =
        t.requests.Make(t.lengths.Next(), scheduler_->max_tasks_in_flight());
    request->tag = static_cast<uint64_t>(m);
    request->times.received = intended_ns;
    if (!scheduler_->Submit(request)) Require(absl::InternalError("queue full"), "submitting");
    ++t.outstanding;
  }

  void Arrive(int m, int64_t now) {
    Traffic& t = traffic(m);
    while (t.outstanding < t.in_flight) Submit(m, now);
    if (t.rate <= 0) return;
    while (t.next_arrival_ns <= now) {
      Submit(m, t.next_arrival_ns);
      t.next_arrival_ns +=
          static_cast<int64_t>(std::exponential_distribution<double>(t.rate)(random_) * 1e9);
    }
  }

  absl::Duration UntilNextArrival(int64_t now) {
    int64_t wait_ns = 5'000'000;
    for (const Traffic& t : traffic_) {
      if (t.rate > 0) wait_ns = std::min(wait_ns, std::max<int64_t>(0, t.next_arrival_ns - now));
    }
    return absl::Nanoseconds(wait_ns);
  }

  int Answer() {
    std::unique_ptr<Request> finished[64];
    const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(finished));
    const int64_t now = NowNs();
    for (int i = 0; i < n; ++i) {
      Require(finished[i]->status, "a request");
      Traffic& t = traffic(static_cast<int>(finished[i]->tag));
      --t.outstanding;
      ++t.answered;
      t.latencies_s.push_back(static_cast<double>(now - finished[i]->times.received) * 1e-9);
    }
    return n;
  }

  SteadyClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Traffic> traffic_;
  std::mt19937_64 random_{3};
  int b_max_ = 1;
};

double P99(std::vector<double> values) {
  if (values.size() < 100) Require(absl::InternalError("fewer than 100 answers"), "p99");
  const size_t at = (values.size() * 99 + 99) / 100 - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

constexpr int kQuiet = 0, kFlooded = 1;

double QuietP99(TwoModels& server, double rate, bool beside_flood, double seconds) {
  server.traffic(kQuiet).rate = rate;
  server.traffic(kFlooded).in_flight = beside_flood ? 8 * server.b_max() : 0;
  server.Serve(seconds / 4);
  server.Serve(seconds);
  const double p99 = P99(server.traffic(kQuiet).latencies_s);
  server.Drain();
  return p99;
}

double QuietShare(TwoModels& server, double seconds) {
  for (int m = 0; m < 2; ++m)
    server.traffic(m).in_flight = (m == kFlooded ? 8 : 4) * server.b_max();
  server.Serve(seconds / 4);
  const int64_t quiet = server.device_ns(kQuiet), flooded = server.device_ns(kFlooded);
  server.Serve(seconds);
  const double q = static_cast<double>(server.device_ns(kQuiet) - quiet);
  const double f = static_cast<double>(server.device_ns(kFlooded) - flooded);
  server.Drain();
  return q / (q + f);
}

int Main() {
  Report report("two_models");
  const Lengths lengths = Lengths::Europarl();
  const double seconds = absl::GetFlag(FLAGS_seconds);
  TwoModels server(absl::GetFlag(FLAGS_devices), absl::GetFlag(FLAGS_hidden), lengths);
  server.traffic(kQuiet).in_flight = 4 * server.b_max();
  server.Serve(seconds / 4);
  server.Serve(seconds / 2);
  const double capacity = static_cast<double>(server.traffic(kQuiet).answered) / (seconds / 2);
  server.Drain();
  const double rate = absl::GetFlag(FLAGS_load) * capacity;
  report.Fact("quiet model", Number(rate, 1) + " requests/s of " + Number(capacity, 1) +
                                 "; lengths " + lengths.source);
  Table table({"round", "p99 alone ms", "p99 beside the flood ms", "ratio", "share"});
  std::vector<double> ratios, shares;
  for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) {
    const double alone = QuietP99(server, rate, false, seconds);
    const double beside = QuietP99(server, rate, true, seconds);
    ratios.push_back(beside / alone);
    shares.push_back(QuietShare(server, seconds));
    table.Add({std::to_string(i + 1), Number(alone * 1e3, 2), Number(beside * 1e3, 2),
               Number(ratios.back(), 2), Number(shares.back(), 3)});
  }
  report.Text(table.ToString());
  const Quartiles ratio = QuartilesOf(ratios), share = QuartilesOf(shares);
  report.Figure("two_models.share", share.median, "x", &share);
  report.Figure("two_models.p99_ratio", ratio.median, "x", &ratio);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What one model keeps beside a flooded one.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

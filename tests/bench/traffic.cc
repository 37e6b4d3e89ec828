#include "tests/bench/traffic.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch {
namespace {

constexpr int64_t kLongestWaitNs = 5'000'000;

std::shared_ptr<const Model> Lstm(int hidden, int model_id) {
  ChainModelSpec spec;
  spec.hidden = hidden;
  return MakeChainModel(spec, model_id);
}

}  // namespace

BenchServer::BenchServer(const std::string& devices, Lengths lengths)
    : lengths_(std::move(lengths)),
      scheduler_(Require(Scheduler::Create({}, MakeDevices(devices), clock_), "scheduler")) {}

BenchServer::~BenchServer() { scheduler_->Stop(); }

int BenchServer::AddModel(int hidden) {
  const int m = static_cast<int>(traffic_.size());
  auto model = Lstm(hidden, m + 1);
  Require(scheduler_->AddModel(model, nullptr), "adding a model");
  b_max_.push_back(scheduler_->Calibration(model->id)[0].max_batch);
  const int32_t longest = *std::max_element(lengths_.values.begin(), lengths_.values.end());
  traffic_.push_back({ChainRequests(model, longest, static_cast<uint64_t>(7 + m)),
                      LengthStream(lengths_, static_cast<uint64_t>(17 + m))});
  return m;
}

void BenchServer::Load(int hidden, int model_id) {
  Require(scheduler_->AddModel(Lstm(hidden, model_id), nullptr), "loading a model");
}

void BenchServer::Unload(int model_id) {
  Require(scheduler_->RemoveModel(ModelId(model_id)), "unloading a model");
}

int64_t BenchServer::device_ns(int model) {
  return scheduler_->stats().Lanes()[static_cast<size_t>(model)].device_ns;
}

double BenchServer::Serve(double seconds, const std::function<bool()>& enough) {
  const int64_t start = NowNs(), end = start + static_cast<int64_t>(seconds * 1e9);
  for (Traffic& t : traffic_) {
    t.answered = 0;
    t.latencies_s.clear();
    t.next_arrival_ns = start;
  }
  int64_t now = start;
  for (; now < end && !(enough != nullptr && enough()); now = NowNs()) {
    for (size_t m = 0; m < traffic_.size(); ++m) Arrive(static_cast<int>(m), now);
    if (Answer() == 0) scheduler_->WaitForFinished(OutboxId(0), UntilNextArrival(now));
  }
  return static_cast<double>(now - start) * 1e-9;
}

void BenchServer::Drain() {
  int outstanding = 0;
  for (Traffic& t : traffic_) {
    t.rate = t.in_flight = 0;
    outstanding += t.outstanding;
  }
  while (outstanding > 0) {
    const int answered = Answer();
    outstanding -= answered;
    if (answered == 0) scheduler_->WaitForFinished(OutboxId(0), absl::Milliseconds(5));
  }
}

double BenchServer::Capacity(int model, double seconds) {
  traffic(model).in_flight = 4 * b_max(model);
  Serve(seconds / 2);
  const double took = Serve(seconds);
  const double capacity = static_cast<double>(traffic(model).answered) / took;
  Drain();
  return capacity;
}

void BenchServer::Submit(int m, int64_t intended_ns) {
  Traffic& t = traffic(m);
  std::unique_ptr<Request> request =
      t.requests.Make(t.lengths.Next(), scheduler_->max_tasks_in_flight());
  request->tag = static_cast<uint64_t>(m);
  request->times.received = intended_ns;
  request->times.submitted = NowNs();
  if (!scheduler_->Submit(request)) Require(absl::InternalError("queue full"), "submitting");
  ++t.outstanding;
}

void BenchServer::Arrive(int m, int64_t now) {
  Traffic& t = traffic(m);
  while (t.outstanding < t.in_flight) Submit(m, now);
  if (t.rate <= 0) return;
  while (t.next_arrival_ns <= now) {
    Submit(m, t.next_arrival_ns);
    t.next_arrival_ns +=
        static_cast<int64_t>(std::exponential_distribution<double>(t.rate)(random_) * 1e9);
  }
}

absl::Duration BenchServer::UntilNextArrival(int64_t now) {
  int64_t wait_ns = kLongestWaitNs;
  for (const Traffic& t : traffic_) {
    if (t.rate > 0) wait_ns = std::min(wait_ns, std::max<int64_t>(0, t.next_arrival_ns - now));
  }
  return absl::Nanoseconds(wait_ns);
}

int BenchServer::Answer() {
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

double P99(std::vector<double> values) {
  if (values.size() < 100) Require(absl::InternalError("fewer than 100 answers"), "p99");
  const size_t at = (values.size() * 99 + 99) / 100 - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

}  // namespace cellbatch

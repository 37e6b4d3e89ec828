#include "tests/gpu/chain_driver.h"

#include <algorithm>
#include <utility>

namespace cellbatch {
namespace {

constexpr int kAtOnce = 64;
constexpr int64_t kLongestWaitNs = 20'000'000;

int32_t Longest(const Lengths& lengths) {
  return *std::max_element(lengths.values.begin(), lengths.values.end());
}

}  // namespace

DriverWork& DriverWork::operator+=(const DriverWork& other) {
  requests += other.requests;
  cells += other.cells;
  make_ns += other.make_ns;
  submit_ns += other.submit_ns;
  take_ns += other.take_ns;
  free_ns += other.free_ns;
  return *this;
}

DriverWork DriverWork::operator-(const DriverWork& earlier) const {
  return {requests - earlier.requests,   cells - earlier.cells,     make_ns - earlier.make_ns,
          submit_ns - earlier.submit_ns, take_ns - earlier.take_ns, free_ns - earlier.free_ns};
}

ChainDriver::ChainDriver(Scheduler& scheduler, const Clock& clock,
                         std::shared_ptr<const Model> model, const Lengths& lengths,
                         OutboxId outbox, uint64_t seed)
    : scheduler_(scheduler),
      clock_(clock),
      outbox_(outbox),
      lengths_(lengths, seed),
      chains_(std::move(model), Longest(lengths), seed),
      random_(seed),
      some_(kAtOnce),
      made_(kAtOnce) {}

absl::Status ChainDriver::KeepFull(int in_flight, const std::atomic<bool>& stop) {
  failure_ = absl::OkStatus();
  while (out_ < in_flight && failure_.ok()) Send(std::min(kAtOnce, in_flight - out_), 0);
  while (out_ > 0) {
    const int n = Take();
    Free(n);
    if (n > 0 && !stop && failure_.ok()) Send(n, 0);
    if (n == 0) Wait(kLongestWaitNs);
  }
  return failure_;
}

absl::Status ChainDriver::Arrive(const OpenLoop& arrivals, ArrivalTimes& times) {
  failure_ = absl::OkStatus();
  std::exponential_distribution<double> gap_ns(arrivals.per_s * 1e-9);
  double next = static_cast<double>(arrivals.first_ns) + gap_ns(random_);
  const auto measured = [&](int64_t arrived) { return arrived >= arrivals.measured_ns; };
  while (true) {
    const auto arrival = static_cast<int64_t>(next);
    const bool more = arrival < arrivals.end_ns && failure_.ok();
    if (!more && out_ == 0) return failure_;
    const int64_t now = clock_.NowNs();
    if (more && now >= arrival) {
      Send(1, static_cast<uint64_t>(arrival));
      if (measured(arrival)) times.late_ns.push_back(submitted_ns_ - arrival);
      next += gap_ns(random_);
    }
    const int n = Take();
    for (int i = 0; i < n; ++i) {
      const Request& request = *some_[static_cast<size_t>(i)];
      const auto arrived = static_cast<int64_t>(request.tag);
      if (request.status.ok() && measured(arrived)) {
        times.latency_ns.push_back(taken_ns_ - arrived);
      }
    }
    Free(n);
    if (n == 0 && !arrivals.spin) {
      Wait(more ? std::min(arrival - now, kLongestWaitNs) : kLongestWaitNs);
    }
  }
}

DriverWork ChainDriver::work() const {
  const auto read = [&](Counter c) { return counters_[c].load(std::memory_order_relaxed); };
  return {read(kRequests), read(kCells),  read(kMakeNs),
          read(kSubmitNs), read(kTakeNs), read(kFreeNs)};
}

void ChainDriver::Count(Counter counter, int64_t n) {
  std::atomic<int64_t>& at = counters_[counter];
  at.store(at.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

void ChainDriver::Send(int n, uint64_t tag) {
  const int64_t since = clock_.NowNs();
  for (int i = 0; i < n; ++i) {
    std::unique_ptr<Request>& made = made_[static_cast<size_t>(i)];
    made = chains_.Make(lengths_.Next(), scheduler_.max_tasks_in_flight());
    made->outbox = outbox_;
    made->tag = tag;
  }
  const int64_t made = clock_.NowNs();
  for (int i = 0; i < n; ++i) {
    made_[static_cast<size_t>(i)]->times.submitted = made;
    if (scheduler_.Submit(made_[static_cast<size_t>(i)])) {
      ++out_;
    } else {
      Failed(absl::ResourceExhaustedError("no room for another request"));
    }
  }
  submitted_ns_ = clock_.NowNs();
  Count(kMakeNs, made - since);
  Count(kSubmitNs, submitted_ns_ - made);
}

int ChainDriver::Take() {
  const int64_t since = clock_.NowNs();
  const int n = scheduler_.Take(outbox_, absl::MakeSpan(some_));
  if (n == 0) return 0;
  taken_ns_ = clock_.NowNs();
  int64_t cells = 0;
  for (int i = 0; i < n; ++i) {
    const Request& request = *some_[static_cast<size_t>(i)];
    if (!request.status.ok()) Failed(request.status);
    cells += request.graph.num_nodes();
  }
  out_ -= n;
  Count(kTakeNs, taken_ns_ - since);
  Count(kCells, cells);
  Count(kRequests, n);
  return n;
}

void ChainDriver::Free(int n) {
  if (n == 0) return;
  const int64_t since = clock_.NowNs();
  for (int i = 0; i < n; ++i) some_[static_cast<size_t>(i)].reset();
  Count(kFreeNs, clock_.NowNs() - since);
}

void ChainDriver::Failed(absl::Status why) {
  if (failure_.ok()) failure_ = std::move(why);
}

void ChainDriver::Wait(int64_t at_most_ns) {
  if (at_most_ns <= 0) return;
  scheduler_.WaitForFinished(outbox_, absl::Nanoseconds(at_most_ns));
}

}  // namespace cellbatch

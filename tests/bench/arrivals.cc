#include "tests/bench/arrivals.h"

#include <sched.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cells/check.h"
#include "scheduler/block_pool.h"
#include "scheduler/request_block.h"

namespace cellbatch {
namespace {

constexpr size_t kTakeAtOnce = 64;
// One in so many has a deadline that passes while it is in flight; the others' never does.
constexpr uint32_t kExpiring = 100;
constexpr int64_t kShortNs = 20'000'000, kLongNs = 3'600'000'000'000;

// The stepping thread on the first core that it may use, `others` on the rest.
void DivideCores(cpu_set_t* others) {
  cpu_set_t all, mine;
  sched_getaffinity(0, sizeof(all), &all);
  *others = all;
  if (CPU_COUNT(&all) < 2) return;
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&mine);
  CPU_SET(core, &mine);
  CPU_CLR(core, others);
  sched_setaffinity(0, sizeof(mine), &mine);
}

}  // namespace

Arrivals::Arrivals(Scheduler& scheduler, const Clock& clock, std::shared_ptr<const Model> model,
                   int in_flight, MakeRequest make)
    : scheduler_(scheduler),
      clock_(clock),
      entries_(static_cast<size_t>(in_flight)),
      taken_(kTakeAtOnce) {
  cpu_set_t others;
  DivideCores(&others);
  thread_ = std::thread([this, others, make, model = std::move(model)] {
    sched_setaffinity(0, sizeof(others), &others);
    Begin(model, make);
    Run();
  });
  while (found_nothing_.load(std::memory_order_acquire) == 0) sched_yield();
}

Arrivals::~Arrivals() {
  end_ = true;
  thread_.join();
}

void Arrivals::CatchUp() {
  // The first may have looked before what is asked about was answered.
  const int64_t seen = found_nothing_.load(std::memory_order_acquire);
  while (found_nothing_.load(std::memory_order_acquire) < seen + 2) sched_yield();
}

double Arrivals::bytes_per_request() const {
  return static_cast<double>(bytes_) / static_cast<double>(blocks_);
}

// The timer's thread inherits this one's cores.
void Arrivals::Begin(const std::shared_ptr<const Model>& model, MakeRequest make) {
  timer_.emplace(
      clock_, [this](TimedId id) { scheduler_.Notify(std::get<RequestId>(id), News::kExpired); });
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::unique_ptr<Request> request = make(model, random_);
    request->tag = i;
    Submit(std::move(request));
  }
}

void Arrivals::Run() {
  while (!end_) {
    if (TakeSome() > 0) continue;
    found_nothing_.fetch_add(1, std::memory_order_acq_rel);
    sched_yield();
  }
}

int Arrivals::TakeSome() {
  const int n = scheduler_.Take(OutboxId(0), absl::MakeSpan(taken_));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    std::unique_ptr<Request> request = std::move(taken_[i]);
    timer_->Remove(entries_[request->tag]);
    if (absl::IsDeadlineExceeded(request->status)) {
      ++expired_;
      request->status = absl::OkStatus();
    } else if (!stop_) {
      Check(request->status.ok(), std::string(request->status.message()));
    }
    const size_t beyond = request->run.bytes();
    bytes_ += static_cast<int64_t>(kSlabBytes + (beyond > 0 ? PooledBytes(beyond) : 0));
    ++blocks_;
    if (!stop_) Submit(std::move(request));
  }
  return n;
}

void Arrivals::Submit(std::unique_ptr<Request> request) {
  DeadlineEntry& entry = entries_[request->tag];
  const int64_t left = random_() % kExpiring == 0 ? random_() % kShortNs : kLongNs;
  const std::optional<RequestId> id = scheduler_.Submit(request);
  Check(id.has_value(), "the scheduler is full");
  entry = {.deadline_ns = clock_.NowNs() + left, .whose = *id};
  timer_->Add(entry);
}

}  // namespace cellbatch

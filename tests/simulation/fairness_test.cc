// Two models on one device, one of them flooded, in virtual time: the other keeps its share of the
// device while it has work, and its latencies stay close to what they are alone.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/device/sim/sim_device.h"
#include "gtest/gtest.h"
#include "scheduler/offline/world/virtual_clock.h"
#include "scheduler/scheduler.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {
namespace {

constexpr int kFlooded = 0, kOther = 1;

// T(b) = 10 + b microseconds, batches of 8: a full task of the flood takes 18.
class TwoModels {
 public:
  // The weight of the other one; the flooded one's is 1.
  explicit TwoModels(double weight = 1) {
    DeviceSet set;
    auto memory = std::make_unique<SimMemory>(SimMemoryOptions{.fingerprints = false});
    SimDeviceOptions d;
    d.task_memory_bytes = size_t{16} << 20;
    d.cost = {10'000, 1'000};
    auto device = std::make_unique<SimDevice>(d, *memory, clock_.time());
    device_ = device.get();
    set.memories.push_back(std::move(memory));
    set.devices.push_back(std::move(device));
    SchedulerOptions o;
    o.max_tasks_in_flight = 1;
    o.max_requests = 4096;
    o.row_budget_bytes = 8 << 20;
    o.batch_limit = 8;
    o.calibrate = false;
    o.threads = false;
    auto made = Scheduler::Create(o, std::move(set), clock_);
    Check(made.ok(), made.status().ToString());
    scheduler_ = *std::move(made);
    for (int m = 0; m < 2; ++m) {
      models_.push_back(MakeModel(ModelId(m + 1), Limits{.min_batch = 1, .max_batch = 8},
                                  Priorities::kLaterFirst, m == kOther ? weight : 1));
      const absl::Status added = scheduler_->AddModel(models_.back(), nullptr);
      Check(added.ok(), added.ToString());
    }
    device_->set_moves_time(false);
  }
  ~TwoModels() {
    device_->set_moves_time(true);  // Stop lets the device finish
    scheduler_->Stop();
    std::array<std::unique_ptr<Request>, 16> rest;
    while (scheduler_->Take(OutboxId(0), absl::MakeSpan(rest)) > 0) {
    }
  }

  int64_t now() const { return clock_.NowNs(); }
  int outstanding(int model) const { return outstanding_[static_cast<size_t>(model)]; }
  // Of the other model's answers, from Submit to Take.
  const std::vector<int64_t>& latencies() const { return latencies_; }

  // A sentence of that many words.
  void Submit(int model, int32_t words) {
    Plan plan;
    const SubgraphId tokens = plan.AddTokens(words);
    const SubgraphId chain = plan.Add(kChain, words, {Link{tokens, kIn0, 0, 1}});
    const SubgraphId head = plan.Add(kHead, 1, {Link{chain, kIn0, kLastNode, 0}});
    plan.Return(head, kY, {0, 1});
    auto request = std::make_unique<Request>();
    request->tag = static_cast<uint64_t>(model);
    request->model = models_[static_cast<size_t>(model)];
    request->graph = Build(plan, *request->model, words_);
    const absl::Status sealed = request->graph.Seal(*request->model, 1);
    Check(sealed.ok(), sealed.ToString());
    request->times.submitted = now();
    Check(scheduler_->Submit(request).has_value(), "the scheduler is full");
    ++outstanding_[static_cast<size_t>(model)];
  }

  // Everything that happens until `until`, and time with it.
  void RunTo(int64_t until) {
    for (;;) {
      while (Step()) {
      }
      const std::optional<int64_t> next = device_->next_event_ns();
      if (!next || *next > until) break;
      clock_.time().AdvanceTo(*next);
    }
    clock_.time().AdvanceTo(until);
  }

  int64_t device_ns(int model) const {
    for (const LaneStats& lane : scheduler_->stats().Lanes()) {
      if (lane.model.value() == model + 1) return lane.device_ns;
    }
    return 0;
  }

 private:
  bool Step() {
    bool worked = scheduler_->StepManager();
    worked |= scheduler_->StepWorker(0);
    std::array<std::unique_ptr<Request>, 16> done;
    while (const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(done))) {
      for (int i = 0; i < n; ++i) {
        const Request& r = *done[static_cast<size_t>(i)];
        Check(r.status.ok(), r.status.ToString());
        --outstanding_[r.tag];
        if (r.tag == kOther) latencies_.push_back(now() - r.times.submitted);
      }
    }
    return worked;
  }

  const std::vector<int32_t> words_ = std::vector<int32_t>(1000, 1);
  VirtualClock clock_;
  SimDevice* device_ = nullptr;
  std::vector<std::shared_ptr<const Model>> models_;
  std::array<int, 2> outstanding_ = {};
  std::vector<int64_t> latencies_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST(FairnessTest, AModelWithWorkKeepsItsHalfBesideAFloodedOne) {
  TwoModels world;
  std::mt19937 random(1);
  const auto refill = [&] {
    while (world.outstanding(kFlooded) < 2000) world.Submit(kFlooded, 5 + random() % 40);
    while (world.outstanding(kOther) < 12) world.Submit(kOther, 5 + random() % 40);
  };
  const int64_t start = world.now();
  for (int ms = 1; ms <= 500; ++ms) {
    refill();
    world.RunTo(start + ms * 1'000'000);
  }
  const double flooded = static_cast<double>(world.device_ns(kFlooded));
  const double other = static_cast<double>(world.device_ns(kOther));
  EXPECT_GE(other / (flooded + other), 0.45) << flooded << " ns to " << other << " ns";
  EXPECT_LE(other / (flooded + other), 0.55);
}

// Both have more to do than the device does; each gets as much of it as its weight says.
TEST(FairnessTest, ModelsShareTheDeviceByTheirWeights) {
  for (const double weight : {3.0, 0.25}) {
    TwoModels world(weight);
    std::mt19937 random(3);
    const int64_t start = world.now();
    for (int ms = 1; ms <= 500; ++ms) {
      for (const int model : {kFlooded, kOther}) {
        while (world.outstanding(model) < 500) world.Submit(model, 5 + random() % 40);
      }
      world.RunTo(start + ms * 1'000'000);
    }
    const auto flooded = static_cast<double>(world.device_ns(kFlooded));
    const auto other = static_cast<double>(world.device_ns(kOther));
    EXPECT_NEAR(other / (flooded + other), weight / (1 + weight), 0.02)
        << flooded << " ns to " << other << " ns";
  }
}

// p99 of sentences that arrive at random, at a tenth of what the device could do.
int64_t P99(bool flooded) {
  TwoModels world;
  std::mt19937 random(2);
  std::exponential_distribution<double> gap(1.0 / 2e6);  // mean 2 ms; a sentence takes 0.28
  int64_t next = world.now();
  for (int i = 0; i < 1000; ++i) {
    next += static_cast<int64_t>(gap(random));
    while (flooded && world.outstanding(kFlooded) < 2000) world.Submit(kFlooded, 24);
    world.RunTo(next);
    world.Submit(kOther, 24);
  }
  world.RunTo(next + 20'000'000);
  std::vector<int64_t> latencies = world.latencies();
  EXPECT_EQ(latencies.size(), 1000u);
  std::sort(latencies.begin(), latencies.end());
  return latencies[latencies.size() * 99 / 100];
}

TEST(FairnessTest, AFloodTriplesNobodyElsesP99) {
  const int64_t alone = P99(false), beside = P99(true);
  EXPECT_LE(beside, 3 * alone) << "alone " << alone << " ns";
  EXPECT_GT(beside, alone) << "the flood was not felt at all: was there one?";
}

}  // namespace
}  // namespace cellbatch::sim

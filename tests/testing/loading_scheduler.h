// A scheduler for tests of those who load and unload models.
#ifndef CELLBATCH_TESTS_TESTING_LOADING_SCHEDULER_H_
#define CELLBATCH_TESTS_TESTING_LOADING_SCHEDULER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace cellbatch {

// Takes and gives back models; serves nothing. `hold` stops both until the test lets go.
class LoadingScheduler final : public Scheduler {
 public:
  void ExpectModels(absl::Span<const Model* const> models) override {
    expected.emplace_back();
    for (const Model* const model : models) expected.back() += model->name + " ";
    expected.back() += "after " + std::to_string(log.size());
  }
  absl::Status AddModel(std::shared_ptr<const Model> model, LaneRules rules) override {
    std::unique_lock lock(mutex_);
    policy = rules.policy_name;
    join = rules.join_name;
    cellular = rules.join == nullptr;
    ++warming_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hold_; });
    if (no_memory) throw std::bad_alloc();
    if (!refusal.ok()) return refusal;
    if (model->version == refused_version) return absl::ResourceExhaustedError("no memory for it");
    log.push_back("add " + model->name + " " + std::to_string(model->version));
    names_[model->id.value()] = log.back().substr(4);
    return absl::OkStatus();
  }
  absl::Status RemoveModel(ModelId id) override {
    if (removing) removing();
    std::unique_lock lock(mutex_);
    ++removing_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hold_; });
    log.push_back("remove " + names_[id.value()]);
    return absl::OkStatus();
  }
  absl::Status SetPolicy(ModelId id, LaneRules rules) override {
    const std::lock_guard lock(mutex_);
    if (!policy_refusal.ok()) return std::exchange(policy_refusal, absl::OkStatus());
    policy = rules.policy_name;
    log.push_back("policy of " + names_[id.value()]);
    return absl::OkStatus();
  }
  void Hold(bool hold) {
    const std::lock_guard lock(mutex_);
    hold_ = hold;
    changed_.notify_all();
  }
  void WaitUntilRemoving(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return removing_ >= count; });
  }
  void WaitUntilWarming(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return warming_ >= count; });
  }

  std::vector<std::string> log;
  std::vector<std::string> expected;     // each time: whom, and after how many lines of the log
  absl::Status refusal, policy_refusal;  // the latter once
  int64_t refused_version = 0;
  bool no_memory = false;          // for any model
  std::string policy, join;        // of the last one added
  bool cellular = false;           // it brought no rule of joining
  std::function<void()> removing;  // is called when a model is to be removed

  std::vector<CellTypeCalibration> Calibration(ModelId) const override { return {}; }
  std::vector<int32_t> MaxRowsPerRequest(ModelId) const override { return {}; }
  int max_tasks_in_flight() const override { return 1; }
  std::optional<RequestId> Submit(std::unique_ptr<Request>&) override { return std::nullopt; }
  void Notify(RequestId, News) override {}
  using Scheduler::Take;
  int Take(OutboxId, absl::Span<Delivery>) override { return 0; }
  void Extended(Request&, absl::Status) override {}
  void WaitForFinished(OutboxId, absl::Duration) override {}
  void WakeOutbox(OutboxId) override {}
  void Stop() override {}
  const SchedulerStats& stats() const override { return stats_; }
  absl::Status DeviceHealth() const override { return absl::OkStatus(); }
  bool any_device_left() const override { return true; }
  bool StepManager() override { return false; }
  bool StepWorker(int) override { return false; }
  absl::Status CheckInvariants() const override { return absl::OkStatus(); }

 private:
  class NoStats final : public SchedulerStats {
    std::vector<LaneStats> Lanes() const override { return {}; }
    std::vector<DeviceStats> Devices() const override { return {}; }
    std::vector<TypeTasks> TasksOf(ModelId) const override { return {}; }
  };
  NoStats stats_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_ = false;
  int warming_ = 0, removing_ = 0;
  std::map<int32_t, std::string> names_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_LOADING_SCHEDULER_H_

// A scheduler that holds what it is given until the test says how it ends: the other side of the
// service in its tests. Answers an OK request with the sum of its tokens in every element, one that
// streams with the words it was told to tell.
#ifndef CELLBATCH_TESTS_TESTING_FAKE_SCHEDULER_H_
#define CELLBATCH_TESTS_TESTING_FAKE_SCHEDULER_H_

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace cellbatch {

class FakeStats final : public SchedulerStats {
 public:
  std::vector<LaneStats> Lanes() const override { return lanes; }
  std::vector<DeviceStats> Devices() const override { return devices; }
  std::vector<TypeTasks> TasksOf(ModelId model) const override {
    std::vector<TypeTasks> tasks;
    for (const LaneStats& lane : lanes) {
      if (lane.model != model) continue;
      for (const CellTypeStats& type : lane.types) {
        tasks.push_back({type.tasks, type.task_ns.sum});
      }
    }
    return tasks;
  }
  std::vector<LaneStats> lanes;
  std::vector<DeviceStats> devices;
};

class FakeScheduler final : public Scheduler {
 public:
  // What the test does. Answers every request held with `status`; returns how many there were. Of those
  // that grow, an OK one's piece is done instead.
  int FinishAll(const absl::Status& status = absl::OkStatus()) {
    const std::lock_guard lock(mutex_);
    int count = 0;
    for (auto next = running_.begin(); next != running_.end();) {
      const auto place = next++;
      if (paused_.count(place->first) != 0) continue;
      ++count;
      if (status.ok() && place->second->graph.grows()) {
        Pause(place);
      } else {
        End(place, status);
      }
    }
    return count;
  }
  // The first tensor of every request held that streams begins with these words, and they are told of.
  // Returns how many such requests there were.
  int TellWords(const std::vector<int32_t>& words) {
    const std::lock_guard lock(mutex_);
    int told = 0;
    for (const auto& [slot, request] : running_) {
      if (!request->stream) continue;
      // Those told before are not touched: somebody may be reading them.
      const auto told_before = static_cast<size_t>(words_[slot]);
      if (words.size() <= told_before) continue;
      std::memcpy(request->graph.tensors()[0].bytes.data() + 4 * told_before,
                  words.data() + told_before, 4 * (words.size() - told_before));
      Delivery& delivery = outbox_.emplace_back();
      delivery.kind = Delivery::Kind::kWords;
      delivery.words = words_[slot] = static_cast<int32_t>(words.size());
      delivery.request = request.get();
      ++told;
    }
    changed_.notify_all();
    return told;
  }
  std::vector<std::pair<uint32_t, News>> news() const {
    const std::lock_guard lock(mutex_);
    return news_;
  }
  int64_t submitted() const {
    const std::lock_guard lock(mutex_);
    return next_slot_ - 1;
  }
  // Of each request, as it was submitted.
  std::vector<int32_t> priorities() const {
    const std::lock_guard lock(mutex_);
    return priorities_;
  }
  // Set before use.
  bool full = false;     // Submit takes nothing
  bool at_once = false;  // requests end as they are submitted
  std::vector<int32_t> max_rows;
  FakeStats fake_stats;
  std::vector<CellTypeCalibration> calibration;
  bool device_left = true;

  absl::Status AddModel(std::shared_ptr<const Model>, LaneRules) override {
    return absl::OkStatus();
  }
  absl::Status RemoveModel(ModelId) override { return absl::OkStatus(); }
  absl::Status SetPolicy(ModelId, LaneRules) override { return absl::OkStatus(); }
  std::vector<CellTypeCalibration> Calibration(ModelId) const override { return calibration; }
  std::vector<int32_t> MaxRowsPerRequest(ModelId) const override { return max_rows; }
  int max_tasks_in_flight() const override { return 1; }

  std::optional<RequestId> Submit(std::unique_ptr<Request>& request) override {
    if (full) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const RequestId id{next_slot_++, 1};
    priorities_.push_back(request->priority);
    const auto place = running_.emplace(id.slot, std::move(request)).first;
    if (at_once) End(place, absl::OkStatus());
    return id;
  }
  // Requests leave on news, as from the real one; news of those that are gone is ignored.
  void Notify(RequestId id, News news) override {
    const std::lock_guard lock(mutex_);
    news_.emplace_back(id.slot, news);
    const auto place = running_.find(id.slot);
    if (place == running_.end()) return;
    const absl::Status status = news == News::kCancelled
                                    ? absl::CancelledError("cancelled")
                                    : absl::DeadlineExceededError("deadline passed");
    const auto paused = paused_.find(id.slot);
    if (paused == paused_.end()) {
      End(place, status);
    } else {
      paused->second = status;
    }
  }
  using Scheduler::Take;
  int Take(OutboxId, absl::Span<Delivery> out) override {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (; count < out.size() && !outbox_.empty(); ++count) {
      out[count] = std::move(outbox_.front());
      outbox_.pop_front();
    }
    return static_cast<int>(count);
  }
  // A piece that runs is done when the test says so.
  void Extended(Request& request, absl::Status extended) override {
    const std::lock_guard lock(mutex_);
    const auto place = std::find_if(running_.begin(), running_.end(), [&](const auto& entry) {
      return entry.second.get() == &request;
    });
    const absl::Status meanwhile = paused_.extract(place->first).mapped();
    if (!meanwhile.ok()) {
      End(place, meanwhile);
    } else if (!extended.ok() || request.graph.pieces() == pieces_[place->first]) {
      End(place, extended);
    }
  }
  void WaitForFinished(OutboxId, absl::Duration at_most) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(at_most),
                      [this] { return !outbox_.empty() || woken_; });
    woken_ = false;
  }
  void WakeOutbox(OutboxId) override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  void Stop() override { FinishAll(absl::UnavailableError("server shutting down")); }
  const SchedulerStats& stats() const override { return fake_stats; }
  absl::Status DeviceHealth() const override { return absl::OkStatus(); }
  bool any_device_left() const override { return device_left; }
  bool StepManager() override { return false; }
  bool StepWorker(int) override { return false; }
  absl::Status CheckInvariants() const override { return absl::OkStatus(); }

 private:
  using Running = std::map<uint32_t, std::unique_ptr<Request>>;

  // Under the mutex.
  void Pause(Running::iterator place) {
    paused_[place->first] = absl::OkStatus();
    pieces_[place->first] = place->second->graph.pieces();
    Delivery& delivery = outbox_.emplace_back();
    delivery.kind = Delivery::Kind::kPiece;
    delivery.request = place->second.get();
    changed_.notify_all();
  }
  void End(Running::iterator place, const absl::Status& status) {
    Request& request = *place->second;
    request.status = status;
    request.times.first_task_start = request.times.submitted + 10;
    request.times.last_task_end = request.times.submitted + 30;
    if (status.ok()) {
      request.nodes_executed = request.graph.num_nodes();
      if (!request.stream) Fill(request.graph);
    }
    Delivery& delivery = outbox_.emplace_back();
    delivery.words = words_[place->first];
    delivery.request = &request;
    delivery.done = std::move(place->second);
    running_.erase(place);
    changed_.notify_all();
  }
  static void Fill(const CellGraph& graph) {
    float sum = 0;
    const Subgraph& tokens = graph.subgraphs().front();
    for (int32_t i = 0; i < tokens.length; ++i) {
      int32_t token = 0;
      std::memcpy(&token, tokens.data + i * 4, 4);
      sum += static_cast<float>(token);
    }
    for (const ReturnedTensor& tensor : graph.tensors()) {
      for (size_t at = 0; at + 4 <= tensor.bytes.size(); at += 4) {
        std::memcpy(tensor.bytes.data() + at, &sum, 4);
      }
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t next_slot_ = 1;
  Running running_;
  std::deque<Delivery> outbox_;
  std::map<uint32_t, int32_t> words_;        // told of, by slot
  std::map<uint32_t, int32_t> pieces_;       // done, by slot
  std::map<uint32_t, absl::Status> paused_;  // by slot: what they will be answered, if not OK
  std::vector<int32_t> priorities_;
  std::vector<std::pair<uint32_t, News>> news_;
  bool woken_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_FAKE_SCHEDULER_H_

#include "cells/device/sim/sim_device.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "cells/device/signal.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

constexpr uint64_t kCallersSalt = 0xCA11;

}  // namespace

SimDevice::SimDevice(SimDeviceOptions options, SimMemory& memory, SimTime& time)
    : options_(std::move(options)),
      memory_(memory),
      time_(time),
      info_{.name = options_.name,
            .memory = &memory,
            .cores = options_.runs == SimRuns::kInAdvance ? 1 : 0,
            .computes_in_advance = options_.runs == SimRuns::kInAdvance,
            .kind = "simulated"},
      task_memory_(options_.task_memory_bytes),
      task_(options_.name, memory, options_.launch_multiple),
      random_(options_.seed),
      worker_random_(MixBits(options_.seed, kCallersSalt)),
      delay_chance_(options_.delay_chance),
      refusal_chance_(options_.refusal_chance),
      max_delay_ns_(options_.max_delay_ns),
      queue_(Index(options_.queue_capacity)),
      widened_(options_.first_sequence - 1) {
  Check(options_.queue_capacity >= 1, "a device takes at least one task");
  Check(options_.signal_bits >= 8 && options_.signal_bits <= 64, "a signal has 8 to 64 bits");
  Check(!options_.zero_cost || options_.runs == SimRuns::kInAdvance,
        "tasks without cost are done in Advance");
  Check(!options_.late_writes || options_.runs != SimRuns::kInAdvance,
        "what runs in Advance writes nothing when it is not called");
  Check(options_.tasks_a_launch == 1 || options_.runs == SimRuns::kInTime,
        "launches of several tasks are made in time");
  info_.tasks_in_flight = 2 * options_.tasks_a_launch;
  ShowSignal();
  if (options_.runs == SimRuns::kInTime) time_.Attach(this);
  if (options_.runs == SimRuns::kOnThread) thread_ = std::thread([this] { RunThread(); });
}

SimDevice::~SimDevice() {
  if (options_.runs == SimRuns::kInTime) time_.Detach(this);
  Stop(/*give_up=*/false);  // tasks and models may be gone by now
}

void SimDevice::set_faults(double delay_chance, int64_t max_delay_ns, double refusal_chance) {
  delay_chance_ = delay_chance;
  max_delay_ns_ = max_delay_ns;
  refusal_chance_ = refusal_chance;
}

// The worker's side ----------------------------------------------------------------------------

int SimDevice::Enqueue(absl::Span<BatchedTask* const> tasks) {
  if (failed() || abandoned()) return 0;
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  uint64_t room = queue_.size() - (taken - counter_.load(std::memory_order_acquire));
  if (refusal_chance_ > 0 && std::bernoulli_distribution(refusal_chance_)(worker_random_)) {
    room = std::uniform_int_distribution<uint64_t>(0, room)(worker_random_);
  }
  const size_t n = std::min<size_t>(room, tasks.size());
  for (size_t i = 0; i < n; ++i, ++taken) {
    if (tasks[i]->sequence != options_.first_sequence + taken) {
      task_.Violated(*tasks[i], absl::StrCat("its sequence follows ", taken, " tasks from ",
                                             options_.first_sequence, " on"));
    }
    queue_[taken % queue_.size()] = {tasks[i], time_.now_ns()};
  }
  taken_.store(taken, std::memory_order_release);
  if (n > 0 && thread_.joinable()) {
    { const std::lock_guard lock(mutex_); }  // it looks before it sleeps
    wake_.notify_one();
  }
  return static_cast<int>(n);
}

bool SimDevice::Advance() {
  if (options_.runs == SimRuns::kInAdvance) return AdvanceHere();
  if (options_.tasks_a_launch > 1) LaunchKept(time_.now_ns());
  if (options_.runs == SimRuns::kOnThread || !moves_time_) return false;
  bool moved = false;
  do {
    const std::optional<int64_t> next = next_event_ns();
    if (!next) break;
    time_.AdvanceTo(*next);
    moved = true;
  } while (std::bernoulli_distribution(0.6)(worker_random_));
  return moved;
}

bool SimDevice::AdvanceHere() {
  if (StandsStill() || Idle()) return false;
  if (options_.zero_cost) {
    if (tasks_done() == options_.fails_after_tasks) {
      Fail(absl::InternalError("a simulated failure"));
      return true;
    }
    const int64_t now = time_.now_ns() + options_.clock_ns;
    for (uint64_t i = counter_.load(); i != taken_.load(); ++i) {
      BatchedTask& task = *queue_[i % queue_.size()].task;
      task.start_ns = task.end_ns = now;
    }
    counter_ = taken_.load();
    ShowSignal();
    return true;
  }
  if (!running_) {
    StartTask(time_.now_ns());
    return true;
  }
  if (time_.now_ns() < end_ns_) {
    if (!moves_time_ || end_ns_ == kNever) return false;
    time_.AdvanceTo(end_ns_);
  }
  EndTask();
  return true;
}

// Widens the device's counter, which must not move by half its range between two calls.
uint64_t SimDevice::Signal() const {
  widened_ = WidenSignal(widened_, shown_.load(std::memory_order_acquire), options_.signal_bits);
  return widened_;
}

absl::Status SimDevice::Health() const { return failed() ? health_ : absl::OkStatus(); }

void SimDevice::Abandon() { Stop(/*give_up=*/true); }

void SimDevice::Stop(bool give_up) {
  {
    const std::lock_guard lock(mutex_);
    if (give_up && !StandsStill() && running_ && memory_.options().fingerprints) {
      task_.GiveUp(Running());
    }
    abandoned_.store(true, std::memory_order_release);
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The device's side ----------------------------------------------------------------------------

// While fewer than two launches are in progress: the next tasks, as many of one type as stand one behind the other.
void SimDevice::LaunchKept(int64_t now) {
  const uint64_t taken = taken_.load(std::memory_order_relaxed);
  while (launched_ != taken && next_launch_end_ == 0) {
    const BatchedTask& front = *queue_[launched_ % queue_.size()].task;
    uint64_t tasks = 1;
    const auto most = static_cast<uint64_t>(options_.tasks_a_launch);
    while (!front.measured && tasks < most && launched_ + tasks != taken) {
      const BatchedTask& next = *queue_[(launched_ + tasks) % queue_.size()].task;
      if (next.model != front.model || next.cell != front.cell || next.measured) break;
      ++tasks;
    }
    for (tasks = std::bit_floor(tasks); tasks > 0; --tasks) {
      queue_[launched_++ % queue_.size()].at_ns = now;
    }
    (launch_end_ == 0 ? launch_end_ : next_launch_end_) = launched_;
  }
}

void SimDevice::StartTask(int64_t now) {
  BatchedTask& task = Running();
  if (tasks_done() == options_.fails_after_tasks && !failed()) {
    Break(absl::InternalError("a simulated failure"));
    if (StandsStill()) return;
  }
  if (memory_.options().fingerprints) {
    task_.Start(task);
    if (observer_ != nullptr && !failed()) observer_->Started(*this, task);
  }
  writes_.fetch_add(1, std::memory_order_release);
  task.start_ns = now + options_.clock_ns;
  const int64_t longer = std::exchange(longer_ns_, 0);
  const int64_t launch_ns = std::exchange(begins_launch_, false) ? options_.launch_ns : 0;
  end_ns_ = longer == kNever ? kNever : now + launch_ns + Duration(task) + longer;
  running_ = true;
}

void SimDevice::EndTask() {
  BatchedTask& task = Running();
  if (memory_.options().fingerprints) {
    const absl::Span<const Fingerprint> nodes = task_.End(task);
    if (observer_ != nullptr && !failed()) observer_->Done(*this, task, nodes);
  }
  writes_.fetch_add(1, std::memory_order_release);
  task.end_ns = end_ns_ + options_.clock_ns;
  running_ = false;
  const uint64_t done = counter_.fetch_add(1, std::memory_order_release) + 1;
  if (options_.tasks_a_launch > 1 && done != launch_end_) return;
  begins_launch_ = true;
  shows_ = done;
  launch_end_ = std::exchange(next_launch_end_, 0);
  if (options_.tasks_a_launch > 1) LaunchKept(end_ns_);
  ShowSignal();
}

// One thing that is due: a task ends, or the next one starts.
void SimDevice::RunEvent() {
  const std::lock_guard lock(mutex_);
  if (StandsStill()) return;
  if (running_) {
    if (time_.now_ns() >= end_ns_) EndTask();
  } else if (!Idle()) {
    StartTask(std::max(end_ns_, queue_[counter_.load() % queue_.size()].at_ns));
  }
}

std::optional<int64_t> SimDevice::next_event_ns() const {
  const std::lock_guard lock(mutex_);
  if (StandsStill()) return std::nullopt;
  if (running_) return end_ns_ == kNever ? std::nullopt : std::optional(end_ns_);
  if (options_.runs != SimRuns::kInTime || Idle()) return std::nullopt;
  return std::max(end_ns_, queue_[counter_.load() % queue_.size()].at_ns);
}

std::optional<int64_t> SimDevice::hangs_since_ns() const {
  const std::lock_guard lock(mutex_);
  if (StandsStill() || !running_ || end_ns_ != kNever) return std::nullopt;
  return queue_[counter_.load() % queue_.size()].task->start_ns - options_.clock_ns;
}

void SimDevice::RunThread() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return abandoned() || (!StandsStill() && !Idle()); });
    if (abandoned()) return;
    StartTask(time_.now_ns());
    if (!running_) continue;
    wake_.wait(lock, [&] { return StandsStill() || end_ns_ != kNever; });
    if (StandsStill()) continue;
    const int64_t end_ns = end_ns_;
    lock.unlock();
    time_.AdvanceTo(end_ns);
    lock.lock();
    if (!StandsStill()) EndTask();
  }
}

int64_t SimDevice::Duration(const BatchedTask& task) {
  const size_t type = Index(task.cell.value());
  const SimCost cost = type < options_.costs.size() ? options_.costs[type] : options_.cost;
  int64_t ns =
      options_.task_ns ? options_.task_ns(task) : cost.task_ns + cost.node_ns * task.num_nodes;
  if (delay_chance_ > 0 && std::bernoulli_distribution(delay_chance_)(random_)) {
    ns += std::uniform_int_distribution<int64_t>(0, max_delay_ns_)(random_);
  }
  return ns;
}

void SimDevice::ShowSignal() {
  if (held_ || failed()) return;
  const uint64_t mask = ~uint64_t{0} >> (64 - options_.signal_bits);
  const uint64_t done = options_.tasks_a_launch > 1 ? shows_ : counter_.load();
  shown_.store((options_.first_sequence - 1 + done) & mask, std::memory_order_release);
}

// Faults ---------------------------------------------------------------------------------------

void SimDevice::HoldSignal(bool held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
  ShowSignal();
}

void SimDevice::Hang(int64_t longer_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (!running_) {
      longer_ns_ = longer_ns;
    } else {
      end_ns_ = longer_ns == kNever ? kNever : end_ns_ + longer_ns;
    }
  }
  wake_.notify_all();
}

void SimDevice::Fail(absl::Status why) {
  Check(!why.ok(), "a failure has a reason");
  {
    const std::lock_guard lock(mutex_);
    Break(std::move(why));
  }
  wake_.notify_all();
}

void SimDevice::Break(absl::Status why) {
  if (failed() || abandoned()) return;
  health_ = std::move(why);
  failed_.store(true, std::memory_order_release);
  if (!options_.late_writes && running_ && memory_.options().fingerprints) {
    task_.GiveUp(Running());  // it writes no more
  }
}

}  // namespace cellbatch

// All the manager knows of one model version: its waiting line, ready queues, rows, policy, and its
// share of device time. Made on the control thread, then the manager's until the lane is closed; shared
// with its readers, who see its counters, sizes and, while it is open, its calibration.
#ifndef CELLBATCH_SCHEDULER_LANE_H_
#define CELLBATCH_SCHEDULER_LANE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device/memory.h"
#include "cells/model.h"
#include "scheduler/calibration.h"
#include "scheduler/policy/policy.h"
#include "scheduler/ready_queue.h"
#include "scheduler/scheduler.h"
#include "scheduler/state_arena.h"
#include "scheduler/stats.h"

namespace cellbatch {

// A counter's one writer: no locked instruction.
template <typename T>
void AddTo(std::atomic<T>& counter, T value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

// Written by the manager, relaxed; read by anyone.
struct TypeCounters {
  std::atomic<uint64_t> tasks = 0, cells = 0, discarded = 0, stop_steps = 0, overrun = 0;
  std::atomic<int32_t> max_batch = 0;
  Histogram batch_size, task_ns;
};
struct LaneCounters {
  std::atomic<int64_t> waiting_requests = 0, waiting_cells = 0, running_requests = 0, device_ns = 0,
                       rows_used = 0;
};

// Requests that wait to join, oldest first: an array with holes where one was cancelled.
class WaitingLine {
 public:
  explicit WaitingLine(int max_requests);
  void Push(RequestBlock& block);
  RequestBlock* Head();  // null: empty
  void PopHead();        // REQUIRES: Head() was just seen
  void Remove(RequestBlock& block);
  // Of those who come next, stage by stage: the head of the block, its body, what it starts with.
  void Prefetch() const;
  int64_t size() const { return size_; }

 private:
  void CloseHoles();
  const RequestBlock* Behind(uint32_t ahead) const {  // the head; null: nobody is there
    return tail_ - head_ > ahead ? line_[(head_ + ahead) & mask_] : nullptr;
  }

  uint32_t mask_;
  uint32_t head_ = 0, tail_ = 0;
  int64_t size_ = 0;
  std::unique_ptr<RequestBlock*[]> line_;
};

enum class LaneState : uint8_t { kWarming, kOpen, kClosing };

class Lane {
 public:
  // What is loaded in one memory, and who owns its rows.
  struct Loaded {
    std::unique_ptr<LoadedModel> model;
    std::unique_ptr<StateArena> arena;
  };

  // memory_of: by worker, the index into `loaded`.
  Lane(int index, uint32_t serial, std::shared_ptr<const Model> model,
       std::unique_ptr<const Policy> policy, std::vector<Loaded> loaded,
       absl::Span<const int> memory_of, const SchedulerOptions& options);

  int index() const { return index_; }
  uint32_t serial() const { return serial_; }  // never used again, unlike the index
  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  int num_types() const { return static_cast<int>(shapes_.size()); }
  ReadyQueue& queue(int worker, int type) {
    return *queues_[static_cast<size_t>(worker * num_types() + type)];
  }
  const ReadyQueue& queue(int worker, int type) const {
    return *queues_[static_cast<size_t>(worker * num_types() + type)];
  }
  Loaded& loaded(int memory) { return loaded_[static_cast<size_t>(memory)]; }
  const Loaded& loaded(int memory) const { return loaded_[static_cast<size_t>(memory)]; }
  // Gives back what the memories hold of it; what anyone reads of a lane stays. Control thread, once the
  // lane is closed and no task names it.
  void Unload();
  int num_memories() const { return static_cast<int>(loaded_.size()); }
  int32_t max_batch(int type) const { return max_batch_[static_cast<size_t>(type)]; }
  void set_max_batch(int type, int32_t max_batch);
  // Output rows that warm-up tasks of one worker may write.
  int32_t warm_rows(int type) const { return warm_rows_[static_cast<size_t>(type)]; }
  bool policy_repeats() const { return policy_->repeats_type(); }

  // The type of the next task on that worker: one passed over too long, else a full batch by
  // priority, else the policy's choice. None: nothing is ready there.
  std::optional<int> Choose(int worker);
  bool HasReady(int worker) const;
  // Nodes ready on that worker, of all types.
  int64_t Ready(int worker) const;

  // Device time, so that lanes take turns: least virtual time first. A task is charged by what its
  // like took last, and corrected when its own time is known.
  double virtual_ns() const { return virtual_ns_; }
  void LiftTo(double least) { virtual_ns_ = std::max(virtual_ns_, least); }
  int64_t Charge(int type, int32_t nodes);
  void Correct(int type, int32_t nodes, int64_t charged_ns, int64_t actual_ns);

  void TaskSubmitted(int worker) { ++tasks_[static_cast<size_t>(worker)]; }
  void PublishGauges(int num_workers);

  LaneState state = LaneState::kWarming;
  WaitingLine line;
  int64_t waiting_cells = 0;
  int64_t running_requests = 0;
  int64_t paused_requests = 0;  // of them, those between two pieces
  int64_t tasks_in_flight = 0;
  bool awake() const {
    return state == LaneState::kWarming || running_requests > 0 || line.size() > 0;
  }
  // Awake, and not only because of requests that their takers have.
  bool has_use_for_devices() const {
    return state == LaneState::kWarming || running_requests > paused_requests || line.size() > 0;
  }
  bool was_awake = false;
  std::unique_ptr<Calibration> calibration;  // while warming

  LaneCounters counters;
  TypeCounters& type_counters(int type) { return type_counters_[static_cast<size_t>(type)]; }
  const TypeCounters& type_counters(int type) const {
    return type_counters_[static_cast<size_t>(type)];
  }
  // Gauge: nodes of that type ready on all workers.
  const std::atomic<int64_t>& ready_gauge(int type) const {
    return ready_gauges_[static_cast<size_t>(type)];
  }

 private:
  int64_t& Expected(int type, int32_t nodes);

  const int index_;
  const uint32_t serial_;
  const std::shared_ptr<const Model> model_;
  const std::unique_ptr<const Policy> policy_;
  const int64_t max_wait_tasks_;
  std::vector<Loaded> loaded_;
  std::vector<TypeShape> shapes_;
  std::vector<uint64_t> tasks_;                      // by worker
  std::vector<std::unique_ptr<ReadyQueue>> queues_;  // by worker, type
  std::vector<int32_t> max_batch_, warm_rows_;
  std::vector<TypeView> views_;
  double virtual_ns_ = 0;
  std::vector<int64_t> expected_ns_;  // by type, log2 of nodes: what a task of that size took last
  std::vector<TypeCounters> type_counters_;
  std::vector<std::atomic<int64_t>> ready_gauges_;  // side by side: all are written after each step
};

// Rows per table for a budget of bytes: as many of each, more of the tables with small rows.
RowBudget DivideRows(const Model& model, int64_t bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LANE_H_

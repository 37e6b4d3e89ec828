// All the manager knows of one model version, each job in a part of its own:
//
//   line       who waits to join                      waiting_line.h
//   queues     what may run, by worker and type       ready_queue.h
//   memories   what is loaded where, and whose rows   lane_memories.h
//   rules      what decides: next type, joins, steals policy/
//   batch      of whole graphs, if rules ask for it   graph_batch/
//   share      its turns on the devices               device_share.h
//   warm-up    its state, and T(b) till it is open    warm/calibration.h
//   counters   what anyone may read                   lane_counters.h
//
// Made on the control thread, then the manager's until the lane is closed; shared with its readers, who see
// its counters, sizes and, while it is open, its calibration.
#ifndef CELLBATCH_SCHEDULER_LANE_H_
#define CELLBATCH_SCHEDULER_LANE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cells/model.h"
#include "scheduler/batch_limit.h"
#include "scheduler/device_share.h"
#include "scheduler/graph_batch/graph_batch.h"
#include "scheduler/lane_counters.h"
#include "scheduler/lane_memories.h"
#include "scheduler/lane_policy.h"
#include "scheduler/policy/lane_rules.h"
#include "scheduler/ready/node_counts.h"
#include "scheduler/ready/ready_queue.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_line.h"
#include "scheduler/warm/calibration.h"

namespace cellbatch {

enum class LaneState : uint8_t { kWarming, kOpen, kClosing };

class Lane {
 public:
  using Loaded = LoadedInMemory;

  // memory_of: by worker, the index into `loaded`. It lives where `loaded` has rows for it.
  Lane(int index, uint32_t serial, std::shared_ptr<const Model> model, LaneRules rules,
       std::vector<Loaded> loaded, absl::Span<const int> memory_of,
       const SchedulerOptions& options);

  int index() const { return index_; }
  uint32_t serial() const { return serial_; }  // never used again, unlike the index
  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  int num_types() const { return num_types_; }

  // Warming until Open; nothing new joins after Close.
  LaneState state() const { return state_; }
  bool warming() const { return state_ == LaneState::kWarming; }
  void Open() { state_ = LaneState::kOpen; }
  void Close() { state_ = LaneState::kClosing; }
  Calibration& calibration() { return *calibration_; }
  const Calibration& calibration() const { return *calibration_; }

  WaitingLine& line() { return line_; }
  const WaitingLine& line() const { return line_; }
  // Into the line, and out of it, wherever it stands. Whose turn it is to join (the line's head, or, where the rule of
  // joining has buckets, a bucket's), and out it goes.
  void Wait(RequestBlock& block) {
    line_.Push(block);
    if (buckets_ != nullptr) [[unlikely]]
      buckets_->Push(block);
  }
  void LeaveLine(RequestBlock& block) {
    line_.Remove(block);
    if (buckets_ != nullptr) [[unlikely]]
      buckets_->Remove(block);
  }
  RequestBlock* NextToJoin() {
    if (buckets_ == nullptr) [[likely]]
      return line_.Head();
    return buckets_->Next(/*begins=*/running_requests_ == 0);
  }
  void PopNextToJoin(RequestBlock& next) {
    if (buckets_ == nullptr) [[likely]]
      return line_.PopHead();
    LeaveLine(next);
  }
  // Of batches of whole graphs; null: its rule of joining asks for nothing.
  GraphBatch* batch() { return batch_.get(); }
  const GraphBatch* batch() const { return batch_.get(); }
  // It has joined: where sequences are padded, as long as it is.
  void JoinedBatch(const RequestBlock& block);

  ReadyQueue& queue(int worker, int type) {
    return *queues_[static_cast<size_t>(worker * num_types() + type)];
  }
  const ReadyQueue& queue(int worker, int type) const {
    return *queues_[static_cast<size_t>(worker * num_types() + type)];
  }
  bool HasReady(int worker) const;  // and may run it
  // In force on that worker: b_max belongs to the memory it computes on.
  int32_t max_batch(int worker, int type) const {
    return limits_[static_cast<size_t>(worker * num_types() + type)].now();
  }
  // That of the task that is about to be formed there.
  int32_t MaxBatchOfNext(int worker, int type) {
    BatchLimit& limit = limits_[static_cast<size_t>(worker * num_types() + type)];
    limit.Forming(queue(worker, type).ready());
    return limit.now();
  }
  void SetMaxBatch(int memory, int type, int32_t knee, int32_t peak);

  LaneMemories& memories() { return memories_; }
  const LaneMemories& memories() const { return memories_; }
  // Nothing of it ever runs on another worker; the queues of those stay empty.
  bool LivesOn(int worker) const {
    return InSet(memories_.lives_in(), memory_of_[static_cast<size_t>(worker)]);
  }
  Loaded& loaded(int memory) { return memories_[memory]; }
  const Loaded& loaded(int memory) const { return memories_[memory]; }
  int num_memories() const { return memories_.size(); }
  // Gives back what the memories hold of it; what anyone reads of a lane stays. Control thread, once the
  // lane is closed and no task names it.
  void Unload() { memories_.Unload(); }
  // Output rows that warm-up tasks of one worker may write.
  int32_t warm_rows(int type) const { return warm_rows_[static_cast<size_t>(type)]; }

  DeviceShare& share() { return share_; }
  const DeviceShare& share() const { return share_; }

  // What decides: which type is next, who may join, how much is stolen.
  const Decider& decider() const { return policy_->decider; }
  LanePolicy& policy() { return *policy_; }
  const JoinRule& join_rule() const { return *join_rule_; }
  const StealRule& steal_rule() const { return *steal_rule_; }
  const std::string& join_name() const { return join_name_; }
  // Another policy, made on the control thread, taken by the manager between two steps, then shown to readers.
  // REQUIRES: it asks for the same as the one before it.
  std::shared_ptr<LanePolicy> MakePolicy(LaneRules rules) const {
    return std::make_shared<LanePolicy>(rules, max_wait_tasks_);
  }
  void TakePolicy(LanePolicy& policy) { policy_ = &policy; }
  void ShowPolicy(std::shared_ptr<LanePolicy> policy);
  // All that it has had, the present one last. Any thread.
  std::vector<std::shared_ptr<const LanePolicy>> Policies() const;
  // What follows from single nodes, where the policy asks for it; else null.
  NodeCounts* nodes() { return nodes_.get(); }
  bool counts_nodes() const { return nodes_ != nullptr; }
  // What they see. Good until the next call of any.
  Frontier LookAt(int worker);
  // The same without what may not run yet, or waits for its batch to fill: to be decided by.
  Frontier LookToDecide(int worker);
  absl::Span<const TypeView> LookAtRoots(int worker, absl::Span<const int32_t> root_types);

  // Requests, from joining to leaving.
  void RequestJoined() { ++running_requests_; }
  void RequestLeft() { --running_requests_; }
  int64_t running_requests() const { return running_requests_; }
  // Tasks, warm-up's too.
  void TaskSubmitted(int worker) {
    ++tasks_[static_cast<size_t>(worker)];
    ++tasks_submitted_;
    ++tasks_in_flight_;
  }
  void TaskRetired() { --tasks_in_flight_; }
  int64_t tasks_in_flight() const { return tasks_in_flight_; }
  uint64_t tasks_submitted() const { return tasks_submitted_; }  // ever: the clock of priorities

  bool awake() const { return warming() || running_requests_ > 0 || line_.size() > 0; }

  LaneCounters& counters() { return counters_; }
  const LaneCounters& counters() const { return counters_; }
  TypeCounters& type_counters(int type) { return counters_.type(type); }
  const TypeCounters& type_counters(int type) const { return counters_.type(type); }
  void PublishGauges(int num_workers);

 private:
  void MakeQueues(const SchedulerOptions& options);
  void LookAtNodes(int worker);
  void PadChains();

  const int index_;
  const uint32_t serial_;
  const std::shared_ptr<const Model> model_;
  const int num_types_;
  const int64_t max_wait_tasks_;
  mutable std::mutex policies_mutex_;
  std::vector<std::shared_ptr<LanePolicy>> policies_;  // under it; as many as it has had
  LanePolicy* policy_;                                 // the manager's
  const std::string join_name_;
  const std::unique_ptr<const JoinRule> join_rule_;
  const std::unique_ptr<const StealRule> steal_rule_;
  LaneState state_ = LaneState::kWarming;
  uint64_t tasks_submitted_ = 0;
  WaitingLine line_;
  const std::unique_ptr<GraphBatch> batch_;
  LengthBuckets* const buckets_;  // of the batch
  LaneMemories memories_;
  DeviceShare share_;
  LaneCounters counters_;
  std::unique_ptr<Calibration> calibration_;
  std::vector<TypeShape> shapes_;
  std::vector<uint64_t> tasks_;                      // by worker
  std::vector<std::unique_ptr<ReadyQueue>> queues_;  // by worker, type
  std::vector<int> memory_of_;                       // by worker
  std::vector<BatchLimit> limits_;                   // by worker, type
  std::vector<int32_t> warm_rows_;                   // by type
  std::unique_ptr<NodeCounts> nodes_;
  std::vector<TypeView> views_, root_views_;
  int64_t running_requests_ = 0;
  int64_t tasks_in_flight_ = 0;
};

// Once for every request that joins: inlined.
inline absl::Span<const TypeView> Lane::LookAtRoots(int worker,
                                                    absl::Span<const int32_t> root_types) {
  for (size_t i = 0; i < root_types.size(); ++i) {
    const ReadyQueue& q = queue(worker, root_types[i]);
    TypeView& view = root_views_[i];
    view.type = CellTypeId(root_types[i]);
    view.ready = q.ready();
    view.given_way = q.fifo().given_way();
    view.max_batch = max_batch(worker, root_types[i]);
  }
  return absl::MakeConstSpan(root_views_).first(root_types.size());
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LANE_H_

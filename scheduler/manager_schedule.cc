// Manager, second half: which lane and type each worker runs next, and who steals from whom.
#include <algorithm>
#include <bit>

#include "cells/check.h"
#include "scheduler/manager.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

bool Manager::HasWork(const Lane& lane, int worker) const {
  return lane.warming() ? MayWarm(lane, worker) : lane.HasReady(worker);
}

bool Manager::HasWorkAnywhere(const Lane& lane) const {
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    if (workers_[Index(w)].alive && HasWork(lane, w)) return true;
  }
  return false;
}

// Where the lane was that was served last, in any memory that this one lives in: who begins further back in one of them
// would have that one to itself.
double Manager::VirtualNowNs(const Lane& lane) const {
  double now_ns = 0;
  for (MemorySet left = lane.memories().lives_in(); left != 0; left &= left - 1) {
    now_ns = std::max(now_ns, virtual_now_ns_[Index(std::countr_zero(left))]);
  }
  return now_ns;
}

// The lane with work for this worker that has had the least device time for its weight. Who has none while others
// are served sleeps, and begins where they are when it has some again.
Lane* Manager::NextLane(int worker) {
  Lane* next = nullptr;
  for (int i = 0; i < num_lanes_; ++i) {
    Lane* const lane = lanes_[Index(i)];
    if (lane == nullptr) continue;
    if (!HasWork(*lane, worker)) {
      if (lane->share().awake() && !HasWorkAnywhere(*lane)) lane->share().Sleep();
      continue;
    }
    if (!lane->share().awake()) lane->share().Wake(VirtualNowNs(*lane));
    if (next == nullptr || lane->share().virtual_ns() < next->share().virtual_ns()) next = lane;
  }
  if (next != nullptr) {
    double& now_ns = virtual_now_ns_[Index(workers_[Index(worker)].memory)];
    now_ns = std::max(now_ns, next->share().virtual_ns());
  }
  return next;
}

// Lanes that take turns wait for what the others submitted before; and where a policy picks depths, a chain waits for its turn
// each time. So far ahead as its devices like it goes a lane that has them to itself.
int Manager::DepthNow() const {
  const int few = options_.few_tasks_in_flight;
  if (depth_ <= few) return depth_;
  const Lane* only = nullptr;
  for (int i = 0; i < num_lanes_; ++i) {
    const Lane* const lane = lanes_[Index(i)];
    if (lane == nullptr || !lane->awake()) continue;
    if (only != nullptr) return few;
    only = lane;
  }
  const bool ahead = only == nullptr || (!only->warming() && !only->decider().picks_depth());
  return ahead ? depth_ : few;
}

// Fills the worker up to its depth. One decision, then as many tasks of that type as the policy
// repeats.
bool Manager::Schedule(int worker) {
  WorkerLink& link = workers_[Index(worker)];
  const int depth = DepthNow();
  if (!link.alive || link.ring->in_flight() >= depth) return false;
  bool submitted = false;
  if (options_.stealing == Stealing::kAlways) Steal(worker, /*even_if_busy=*/true);
  while (link.ring->in_flight() < depth) {
    Lane* const lane = NextLane(worker);
    if (lane == nullptr) {
      if (options_.stealing == Stealing::kNever || !Steal(worker, /*even_if_busy=*/false)) break;
      continue;
    }
    if (lane->warming()) {
      SubmitWarmUp(*lane, worker);
    } else {
      SubmitTasks(*lane, worker, depth - link.ring->in_flight());
    }
    submitted = true;
  }
  if (submitted) {
    link.ring->Publish();
    parts_.worker_bells[Index(worker)]->Ring();
  }
  return submitted;
}

// Longer than this in progress is a device that hangs. What is expected is what such a task took last; of a size
// that never ran, nothing.
int64_t Manager::TaskLimitNs(int64_t expected_ns) const {
  if (task_limit_ns_ == 0) return 0;
  return std::max(task_limit_ns_,
                  std::min(expected_ns, longest_expectation_ns_) * options_.task_time_factor);
}

// At least one task; then more of the same type while the decider repeats it.
int Manager::SubmitTasks(Lane& lane, int worker, int room) {
  const std::optional<Choice> choice = lane.decider().Decide(lane.LookToDecide(worker));
  Check(choice.has_value(), "a lane with ready nodes has no type to run");
  const int type = choice->type.value();
  WorkerLink& link = workers_[Index(worker)];
  ReadyQueue& queue = lane.queue(worker, type);
  const LoadedModel& model = *lane.loaded(link.memory).model;
  int submitted = 0;
  do {
    const int32_t most = lane.MaxBatchOfNext(worker, type);
    const int32_t nodes =
        lane.decider().picks_depth()
            ? former_.FormAtDepth(queue, model, worker, most, choice->depth, *link.ring)
            : former_.Form(queue, model, worker, most, *link.ring);
    Check(nodes > 0, "a task is empty although nodes are ready");
    TaskNotes& notes = *link.ring->Next().notes;
    notes.lane = &lane;
    notes.queue = &queue;
    notes.charged_ns = lane.share().Charge(link.memory, type, nodes);
    link.ring->Next().task->limit_ns = TaskLimitNs(notes.charged_ns);
    const uint32_t sequence = static_cast<uint32_t>(link.ring->next_sequence());
    link.ring->Add();
    if (link.ring->in_flight() == 1) link.ring->Publish();  // it has nothing else to do
    lane.TaskSubmitted(worker);
    if (parts_.tape != nullptr) [[unlikely]]
      parts_.tape->Submitted(worker, lane.index(), *link.ring->slot(sequence).task);
    queue.TaskSubmitted(sequence);
    lane.policy().Decided(submitted == 0 ? choice->reason : Decider::kRepeat);
    processor_.Submitted(lane, former_.facts(), worker, sequence);
    if (lane.decider().picks_depth()) [[unlikely]]
      queue.TookOneDepth(choice->depth != Choice::kAnyDepth);
  } while (++submitted < room && queue.ready() > 0 && queue.MayRun() &&
           lane.decider().Repeats(
               queue.ready(), lane.decider().LeastRepeated(choice->type, queue.shape().min_batch,
                                                           lane.max_batch(worker, type))));
  return submitted;
}

// Takes from the worker with the most nodes in its FIFO, of those with tasks enough to do, as many as the lane's rule
// says.
bool Manager::Steal(int thief, bool even_if_busy) {
  int32_t taken = 0;
  const int depth = DepthNow();
  for (int i = 0; i < num_lanes_ && (taken == 0 || even_if_busy); ++i) {
    Lane* const lane = lanes_[Index(i)];
    if (lane == nullptr || lane->warming()) continue;
    for (int type = 0; type < lane->num_types(); ++type) {
      if (!lane->queue(thief, type).MayRun()) continue;  // it could do nothing with them
      int victim = -1;
      int32_t most = 0;
      for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
        const WorkerLink& link = workers_[Index(w)];
        const int32_t nodes = lane->queue(w, type).fifo().nodes();
        if (w == thief || !link.alive || link.memory != workers_[Index(thief)].memory ||
            nodes <= most || (!even_if_busy && link.ring->in_flight() < depth)) {
          continue;
        }
        victim = w;
        most = nodes;
      }
      if (victim < 0) continue;
      const int32_t nodes = lane->steal_rule().Nodes(most, lane->max_batch(thief, type));
      taken += processor_.Steal(*lane, type, victim, thief, nodes);
      if (taken > 0 && !even_if_busy) break;
    }
  }
  return taken > 0;
}

}  // namespace cellbatch

#include "scheduler/manager.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int kMessagesPerStep = 2048;
constexpr size_t kPrefetchMessages = 16;
constexpr size_t kPrefetchAtOnce = 6;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

uint64_t WordOf(const RequestBlock& block) {
  return ScheduleTape::RequestWord(block.slot, block.generation);
}

std::vector<WorkerLink> LinksOf(const ManagerParts& parts) {
  std::vector<WorkerLink> links;
  for (size_t w = 0; w < parts.rings.size(); ++w) {
    links.push_back({parts.rings[w].get(), parts.memory_of[w]});
  }
  return links;
}

}  // namespace

Manager::Manager(const SchedulerOptions& options, int depth, const ManagerParts& parts)
    : options_(options),
      depth_(depth),
      task_limit_ns_(options.task_time_limit == absl::InfiniteDuration()
                         ? 0
                         : absl::ToInt64Nanoseconds(options.task_time_limit)),
      longest_expectation_ns_(std::numeric_limits<int64_t>::max() / options.task_time_factor),
      parts_(parts),
      workers_(LinksOf(parts)),
      lanes_(kMaxLanes, nullptr),
      sink_(parts.outboxes),
      processor_(absl::MakeSpan(workers_), lanes_, sink_, options.max_requests, parts.tape),
      former_(options.batch_limit, options.chain_turn) {
  early_news_.reserve(1024);
  arrived_.resize(Index(options.max_requests), 0);
  to_ring_.resize(parts.outboxes.size(), 0);
  warm_turns_.resize(workers_.size(), 0);
  alive_ = AliveMemories();
  virtual_now_ns_.resize(kMostMemories, 0);
  scratch_.reserve(Index(options.max_requests));
}

bool Manager::Step() {
  bool worked = control_.load(std::memory_order_acquire) != nullptr && Control();
  const int num_workers = static_cast<int>(workers_.size());
  PrefetchArrivals();
  for (int w = 0; w < num_workers; ++w) worked |= Complete(w);
  if (!processor_.conflicts().empty()) processor_.SettleConflicts();
  if (worked) PublishAnswers();
  if (!std::exchange(received_all_, false)) worked |= Receive();
  worked |= Join();
  for (int w = 0; w < num_workers; ++w) worked |= Schedule(w);
  if (worked) Publish();
  if (parts_.tape != nullptr) [[unlikely]]
    parts_.tape->StepEnds(worked);
  return worked;
}

MemorySet Manager::AliveMemories() const {
  MemorySet alive = 0;
  for (const WorkerLink& w : workers_) {
    if (w.alive) alive |= MemorySet{1} << w.memory;
  }
  return alive;
}

bool Manager::AllDevicesFull() const {
  bool any_alive = false;
  for (const WorkerLink& w : workers_) {
    if (!w.alive) continue;
    if (w.ring->in_flight() < depth_) return false;
    any_alive = true;
  }
  return any_alive;
}

// Completions ----------------------------------------------------------------------------------

bool Manager::Complete(int worker) {
  WorkerLink& link = workers_[Index(worker)];
  if (!link.alive) return false;
  const bool failed = parts_.workers[Index(worker)]->failed();  // before done: all it did is seen
  const uint64_t done = link.ring->done();
  bool worked = false;
  while (link.ring->retired() != done) {
    const uint64_t sequence = link.ring->retired() + 1;
    link.ring->Retire(sequence);
    if (parts_.tape != nullptr) [[unlikely]]
      parts_.tape->Finished(worker, *link.ring->slot(sequence).task);
    Retire(link.ring->slot(sequence), worker);
    worked = true;
  }
  if (failed) [[unlikely]] {
    FenceWorker(worker);
    worked = true;
  }
  return worked;
}

void Manager::Retire(const TaskSlot& slot, int worker) {
  const BatchedTask& task = *slot.task;
  const int64_t ns = task.end_ns - task.start_ns;
  Lane& lane = *slot.notes->lane;
  lane.TaskRetired();
  DeviceCounters& device = parts_.device_counters[Index(worker)];
  device.tasks.store(device.tasks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  device.busy_ns.store(device.busy_ns.load(std::memory_order_relaxed) + ns,
                       std::memory_order_relaxed);
  lane.share().Correct(workers_[Index(worker)].memory, task.cell.value(), task.num_nodes,
                       slot.notes->charged_ns, ns);
  if (slot.notes->queue == nullptr) {
    WarmUpDone(lane, worker, ns);
    return;
  }
  slot.notes->queue->TaskRetired();
  lane.counters().TaskDone(task.cell.value(), task.num_nodes, ns);
  if (slot.notes->padding > 0) [[unlikely]] {
    AddTo<uint64_t>(lane.type_counters(task.cell.value()).padding,
                    static_cast<uint64_t>(slot.notes->padding));
  }
  workers_[Index(worker)].last_end_ns = task.end_ns;
  processor_.TaskDone(slot, worker);
}

// The device is gone for good, and was abandoned before its worker said so: nothing it had is written any more,
// so its requests are answered and their rows go back. The others go on.
void Manager::FenceWorker(int worker) {
  WorkerLink& link = workers_[Index(worker)];
  link.alive = false;
  alive_ = AliveMemories();
  if (parts_.tape != nullptr) parts_.tape->Failed(worker);
  const uint64_t done = link.ring->retired();
  scratch_.clear();
  for (uint32_t slot = 0; slot < static_cast<uint32_t>(options_.max_requests); ++slot) {
    if (!processor_.IsPresent(slot)) continue;
    RequestBlock* const block = parts_.slots->block(slot);
    if (block->state != RequestState::kWaiting) scratch_.push_back(block);
  }
  processor_.Fence(worker, done, scratch_);
  for (uint64_t s = done + 1; s != link.ring->next_sequence(); ++s) {
    const TaskSlot& slot = link.ring->slot(s);
    Lane& lane = *slot.notes->lane;
    lane.TaskRetired();
    if (slot.notes->queue != nullptr) {
      slot.notes->queue->TaskRetired();
      slot.task->end_ns = 0;
      processor_.DrainLeavers(slot);
    }
  }
  for (Lane* lane : lanes_) {
    if (lane == nullptr || !lane->warming()) continue;
    lane->calibration().WorkerFailed(worker);
    FinishWarmUp(*lane);
  }
  FailIfNoDevice();
}

// Whose lane lives on no device that is left is answered.
void Manager::FailIfNoDevice() {
  ForEachPresent([&](RequestBlock& block) {
    if (block.lane < 0 || AnyAlive(*lanes_[Index(block.lane)])) return;
    processor_.Cancel(block, Outcome::kNoDevice);
  });
}

// Messages -------------------------------------------------------------------------------------

// The first of them come from another core's cache, while this one looks after what the devices did.
void Manager::PrefetchArrivals() const {
  for (size_t i = 0; i < kPrefetchAtOnce; ++i) {
    const uint64_t message = parts_.messages->Peek(i);
    if (message == 0) return;
    if ((message & kMessageBits) == 0) PrefetchHead(reinterpret_cast<const RequestBlock*>(message));
  }
}

bool Manager::Receive() {
  int received = 0;
  for (; received < kMessagesPerStep; ++received) {
    if (const uint64_t ahead = parts_.messages->Peek(kPrefetchMessages); (ahead & 1) == 0) {
      __builtin_prefetch(reinterpret_cast<const void*>(ahead), 1);
    }
    const uint64_t message = parts_.messages->Pop();
    if (message == 0) break;
    if ((message & 1) != 0) {
      Hear(static_cast<uint32_t>(message >> 1));
    } else if ((message & kContinued) != 0) {
      Continue(*reinterpret_cast<RequestBlock*>(message & ~kMessageBits),
               (message & kExtendFailed) != 0);
    } else {
      Arrive(*reinterpret_cast<RequestBlock*>(message));
    }
  }
  return received > 0;
}

// As many as can be there, not as many as come meanwhile.
void Manager::ReceiveAll() {
  received_all_ = true;
  for (int left = 2 * options_.max_requests; left >= 0 && Receive(); left -= kMessagesPerStep) {
  }
}

void Manager::Continue(RequestBlock& block, bool failed) {
  if (parts_.tape != nullptr) {
    if (parts_.replayed != nullptr && !parts_.replayed->Continuing(block)) return;
    parts_.tape->Continued(WordOf(block), failed, !failed && block.next_piece != nullptr);
  }
  processor_.Continue(block, failed);
}

void Manager::Arrive(RequestBlock& block) {
  if (parts_.tape != nullptr) [[unlikely]] {
    parts_.tape->Arrived(WordOf(block), block.outcome != Outcome::kOk);
    if (parts_.replayed != nullptr) parts_.replayed->Arriving(block);
  }
  processor_.Arrived(block);
  arrived_[block.slot] = block.generation;
  for (size_t i = 0; i < early_news_.size(); ++i) {
    const EarlyNews news = early_news_[i];
    if (news.slot != block.slot) continue;
    early_news_[i] = early_news_.back();
    early_news_.pop_back();
    if (news.generation != block.generation) break;  // for the one before it
    processor_.Refuse(block, news.outcome);
    return;
  }
  Lane* const lane = lanes_[Index(block.lane)];
  const bool there =
      lane != nullptr && lane->serial() == block.lane_serial && lane->state() == LaneState::kOpen;
  const bool any_alive = there ? AnyAlive(*lane) : alive_ != 0;
  if (block.outcome != Outcome::kOk || stopping_ || !any_alive || !there) [[unlikely]] {
    processor_.Refuse(block, block.outcome != Outcome::kOk ? block.outcome
                             : stopping_                   ? Outcome::kStopping
                             : !any_alive                  ? Outcome::kNoDevice
                                                           : Outcome::kNoLane);
    return;
  }
  lane->Wait(block);
  PrefetchBody(&block);
  lane->memories().first().arena->PrefetchStacks({block.counts(), Index(block.num_tables)});
}

void Manager::Hear(uint32_t slot) {
  const uint64_t news =
      parts_.replayed != nullptr ? parts_.replayed->NewsOf(slot) : parts_.slots->TakeNews(slot);
  if (parts_.tape != nullptr) parts_.tape->News(slot, news);
  if ((news & (RequestSlots::kCancelled | RequestSlots::kExpired)) == 0)
    return;  // it was for another
  const Outcome outcome =
      (news & RequestSlots::kCancelled) != 0 ? Outcome::kCancelled : Outcome::kExpired;
  const uint32_t generation = static_cast<uint32_t>(news >> 32);
  if (!processor_.IsPresent(slot)) {
    if (arrived_[slot] == generation) return;  // answered before, and not taken yet
    // It used the place in the ring of older news and overtook its request.
    std::erase_if(early_news_, [&](const EarlyNews& n) { return n.slot == slot; });
    early_news_.push_back({slot, generation, outcome});
    return;
  }
  RequestBlock& block = *parts_.slots->block(slot);
  if (block.generation == generation) processor_.Cancel(block, outcome);
}

// Joining --------------------------------------------------------------------------------------

bool Manager::Join() {
  bool joined = false;
  for (int i = 0; i < num_lanes_; ++i) {
    if (lanes_[Index(i)] == nullptr) continue;
    Lane& lane = *lanes_[Index(i)];
    for (int64_t n = 0, joined_now = 0; n < options_.batch_limit; ++n) {
      RequestBlock* const head = lane.NextToJoin();
      if (head == nullptr) break;
      lane.line().Prefetch();
      const bool fits = JoinHead(lane, *head, joined_now);
      if (!fits && !NeverFits(lane, *head)) break;
      lane.PopNextToJoin(*head);
      if (fits) {
        ++joined_now;
        if (lane.batch() != nullptr) [[unlikely]]
          lane.JoinedBatch(*head);
      } else {
        processor_.Refuse(*head, Outcome::kTooLarge);
      }
      joined = true;
    }
  }
  return joined;
}

// Of the workers that it may join, the one with the least of its root types to do. Once for every request: inlined.
inline int Manager::BestWorker(Lane& lane, const RequestBlock& block, int64_t joined_now,
                               MemorySet excluded) const {
  int best = -1;
  int64_t least = 0;
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    const WorkerLink& link = workers_[Index(w)];
    if (!link.alive || InSet(excluded, link.memory)) continue;
    JoinView view;
    view.roots = lane.LookAtRoots(w, block.list(block.root_types));
    view.running = lane.running_requests();
    view.joined_now = joined_now;
    int64_t ready = 0;
    for (const TypeView& root : view.roots) ready += root.ready;
    if ((best >= 0 && ready >= least) || !lane.join_rule().MayJoin(view)) continue;
    best = w;
    least = ready;
  }
  return best;
}

bool Manager::JoinHead(Lane& lane, RequestBlock& block, int64_t joined_now) {
  MemorySet excluded = ~lane.memories().lives_in();
  for (;;) {
    const int worker = BestWorker(lane, block, joined_now, excluded);
    if (worker < 0) return false;
    lane.loaded(workers_[Index(worker)].memory)
        .arena->PrefetchTops({block.counts(), Index(block.num_tables)});
    if (processor_.Join(lane, block, worker)) {
      if (parts_.tape != nullptr) [[unlikely]]
        parts_.tape->Joined(WordOf(block), worker, {block.bases(), Index(block.num_tables)});
      return true;
    }
    excluded |= MemorySet{1} << workers_[Index(worker)].memory;  // full
  }
}

// Admission should have refused it: it would hold up the line for ever.
bool Manager::NeverFits(const Lane& lane, const RequestBlock& block) const {
  return !lane.memories().Fit({block.counts(), Index(block.num_tables)});
}

// Answers are published as soon as the tasks are retired, their takers rung for at the end of the step:
// by then the lines that the takers had are this core's again, and the ring waits for none of them.
void Manager::PublishAnswers() {
  for (size_t o = 0; o < parts_.outboxes.size(); ++o) {
    if (parts_.outboxes[o]->Publish()) to_ring_[o] = 1;
  }
}

void Manager::Publish() {
  PublishAnswers();  // what was refused since
  for (size_t o = 0; o < parts_.outboxes.size(); ++o) {
    if (to_ring_[o] == 0) continue;
    to_ring_[o] = 0;
    parts_.outbox_bells[o]->Ring();
  }
  for (int i = 0; i < num_lanes_; ++i) {
    if (lanes_[Index(i)] != nullptr) {
      lanes_[Index(i)]->PublishGauges(static_cast<int>(workers_.size()));
    }
  }
}

}  // namespace cellbatch

// Manager, third part: lanes that warm, open and close, and the end of all of them, as the control thread asks.
//
//   kOpen    warm-up tasks through the rings of the workers that are left -> b_max by memory -> open
//   kClose   nothing more joins; when its last request has left and its last task is done: gone.
//            Requests that run too long (ControlMessage::cut) are cancelled; their tasks are waited for
//   kPolicy  another policy decides for the lane from here on: between two steps, with all that runs and waits
//   kStop    every request is cancelled; when no task is in flight on a device that is left: done
#include <algorithm>

#include "cells/check.h"
#include "scheduler/manager.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

bool Manager::Control() {
  ControlMessage& message = *control_.load(std::memory_order_acquire);
  Lane* const lane = message.lane;
  Look(message);
  bool worked = false;
  if (cut_) {
    Cut(message);
    worked = true;
  }
  switch (message.kind) {
    case ControlMessage::Kind::kOpen:
      if (lanes_[Index(lane->index())] == nullptr) {
        BeginWarmUp(*lane);
        worked = true;
      }
      break;
    case ControlMessage::Kind::kClose:
      if (lane->state() == LaneState::kClosing) break;
      ReceiveAll();  // what Submit took while the lane was open is run
      lane->Close();
      worked = true;
      break;
    case ControlMessage::Kind::kPolicy:
      lane->TakePolicy(*message.policy);
      worked = true;
      break;
    case ControlMessage::Kind::kStop:
      if (!stopping_) {
        StopAll();
        worked = true;
      }
      break;
  }
  return FinishControl(message) || worked;
}

// Once a step: all that follows in it goes by what was found here.
void Manager::Look(ControlMessage& message) {
  const uint32_t turn = message.turn.load(std::memory_order_acquire);
  const bool when_idle = message.when_idle.load(std::memory_order_relaxed);
  cut_ = message.cut.load(std::memory_order_acquire) && message.cut.exchange(false);
  const bool changed = looked_at_ != &message || cut_ || turn_ != turn || when_idle_ != when_idle;
  looked_at_ = &message;
  turn_ = turn;
  when_idle_ = when_idle;
  if (parts_.tape == nullptr || !changed) return;
  parts_.tape->Controlled(static_cast<int>(message.kind),
                          message.lane != nullptr ? message.lane->serial() : 0, cut_, when_idle,
                          turn);
}

// True, and the control thread may go on, once what was asked for has come true.
bool Manager::FinishControl(ControlMessage& message) {
  Lane* const lane = message.lane;
  switch (message.kind) {
    case ControlMessage::Kind::kOpen:
      if (lane->warming()) return false;
      if (lane->state() == LaneState::kOpen) break;
      [[fallthrough]];  // nobody is left to compute for it
    case ControlMessage::Kind::kClose:
      if (lane->awake() || lane->tasks_in_flight() > 0) return false;
      lanes_[Index(lane->index())] = nullptr;
      break;
    case ControlMessage::Kind::kPolicy:
      break;
    case ControlMessage::Kind::kStop:
      for (const WorkerLink& w : workers_) {
        if (w.alive && w.ring->in_flight() > 0) return false;
      }
      break;
  }
  message.opened = lane != nullptr && lane->state() == LaneState::kOpen;
  looked_at_ = nullptr;
  control_.store(nullptr, std::memory_order_relaxed);
  message.done.store(true, std::memory_order_release);
  return true;
}

// The control thread waits no longer, but for the tasks in flight: they write to what it gives back.
void Manager::Cut(const ControlMessage& message) {
  Lane& lane = *message.lane;
  lane.Close();
  ForEachPresent([&](RequestBlock& block) {
    if (block.lane != lane.index() || block.lane_serial != lane.serial()) return;
    processor_.Cancel(block, Outcome::kNoLane);
  });
}

void Manager::StopAll() {
  stopping_ = true;
  ForEachPresent([&](RequestBlock& block) { processor_.Cancel(block, Outcome::kStopping); });
  for (Lane* lane : lanes_) {
    if (lane != nullptr && lane->warming()) lane->Close();
  }
}

// Warming up ------------------------------------------------------------------------------------

// Who is dead already is waited for as little as who dies meanwhile.
void Manager::BeginWarmUp(Lane& lane) {
  lanes_[Index(lane.index())] = &lane;
  num_lanes_ = std::max(num_lanes_, lane.index() + 1);
  std::fill(warm_turns_.begin(), warm_turns_.end(), 0);
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (!workers_[w].alive) lane.calibration().WorkerFailed(static_cast<int>(w));
  }
  FinishWarmUp(lane);
}

// As its control thread lets it (it waits while the lane warms).
bool Manager::MayWarm(const Lane& lane, int worker) const {
  return (turn_ == 0 || turn_ != warm_turns_[Index(worker)]) &&
         lane.calibration().Next(worker).has_value() && (!when_idle_ || IsIdle(worker));
}

// Nothing is in flight there and nothing ready: requests that run elsewhere are not delayed by a task here.
bool Manager::IsIdle(int worker) const {
  if (workers_[Index(worker)].ring->in_flight() > 0) return false;
  return std::none_of(lanes_.begin(), lanes_.begin() + num_lanes_, [&](const Lane* lane) {
    return lane != nullptr && !lane->warming() && lane->HasReady(worker);
  });
}

// A task of `batch` nodes that read row 0 (and are computed as if that were no zeros) and write rows that nobody owns yet.
void Manager::SubmitWarmUp(Lane& lane, int worker) {
  WorkerLink& link = workers_[Index(worker)];
  const Calibration::Step step = *lane.calibration().Next(worker);
  const TypeShape& shape = lane.queue(worker, step.type).shape();
  const TaskSlot& slot = link.ring->Next();
  int32_t* const zeros = slot.ints;
  int32_t* const outputs = zeros + step.batch + 1;
  std::fill_n(zeros, step.batch + 1, 0);
  const Row first = 1 + worker * lane.warm_rows(step.type);
  for (int32_t i = 0; i < step.batch; ++i) outputs[i] = first + i;
  *slot.task = BatchedTask();
  slot.task->model = lane.loaded(link.memory).model.get();
  slot.task->cell = shape.type;
  slot.task->num_nodes = step.batch;
  slot.task->measured = true;
  for (size_t k = 0; k < Index(shape.num_inputs); ++k) {
    slot.task->inputs[k] = {zeros, shape.sums[k] ? zeros : nullptr};  // sums of no rows
  }
  slot.task->output_rows = outputs;
  TaskNotes& notes = *slot.notes;
  notes.lane = &lane;
  notes.queue = nullptr;
  notes.starters = notes.leavers = nullptr;
  notes.stops.clear();
  notes.charged_ns = lane.share().Charge(link.memory, step.type, step.batch);
  slot.task->limit_ns = TaskLimitNs(notes.charged_ns);
  link.ring->Submit();
  lane.TaskSubmitted(worker);
  lane.calibration().Started(worker);
  if (parts_.tape != nullptr) parts_.tape->Submitted(worker, lane.index(), *slot.task);
  warm_turns_[Index(worker)] = turn_;
}

void Manager::WarmUpDone(Lane& lane, int worker, int64_t ns) {
  lane.calibration().Finished(worker, ns);
  if (!lane.warming()) return;
  // A task that took no time that its device can tell has been run: the pause after it must end.
  control_.load(std::memory_order_relaxed)
      ->warm_up_ns.fetch_add(std::max<int64_t>(ns, 1), std::memory_order_relaxed);
  FinishWarmUp(lane);
}

// The last warm-up task opens the lane; from then on T(b) holds still.
void Manager::FinishWarmUp(Lane& lane) {
  if (!lane.calibration().done()) return;
  for (const CellTypeCalibration& c : lane.calibration().Results()) {
    lane.SetMaxBatch(c.memory, c.type.value(), c.max_batch, c.peak_batch);
  }
  if (lane.calibration().any_worker_left()) {
    lane.Open();
  } else {
    lane.Close();
  }
}

}  // namespace cellbatch

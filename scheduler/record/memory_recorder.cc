#include "scheduler/record/memory_recorder.h"

#include <utility>

#include "scheduler/record/record_of.h"

namespace cellbatch {

void MemoryRecorder::Began(const RecordedSetup& setup) {
  const std::lock_guard lock(mutex_);
  run_.setup = setup;
}

void MemoryRecorder::LaneMade(const RecordedLane& lane) {
  const std::lock_guard lock(mutex_);
  run_.lanes[lane.serial] = lane;
}

void MemoryRecorder::PolicyTaken(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                                 const Model&) {
  const std::lock_guard lock(mutex_);
  run_.lanes[serial].taken[number] = policy;
}

void MemoryRecorder::Submitted(RequestId id, int lane, uint32_t serial, const Request& request) {
  RecordedRequest record = RecordOf(id, lane, serial, request);
  const std::lock_guard lock(mutex_);
  run_.request_at[record.id] = run_.requests.size();
  run_.requests.push_back(std::move(record));
}

RecordedRequest* MemoryRecorder::Find(RequestId id) {
  const auto at = run_.request_at.find(ScheduleTape::RequestWord(id.slot, id.generation));
  return at == run_.request_at.end() ? nullptr : &run_.requests[at->second];
}

void MemoryRecorder::Extended(RequestId id, const Request& request) {
  PieceShape piece = ShapeOfPiece(request.graph);
  const std::lock_guard lock(mutex_);
  if (RecordedRequest* const r = Find(id)) r->shape.pieces.push_back(std::move(piece));
}

void MemoryRecorder::Notified(RequestId id, bool expired, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (RecordedRequest* const r = Find(id)) (expired ? r->expired_ns : r->cancelled_ns) = now_ns;
}

void MemoryRecorder::Answered(RequestId id, const Request& request) {
  RecordedEnd end = EndOf(request);
  const std::lock_guard lock(mutex_);
  RecordedRequest* const r = Find(id);
  if (r == nullptr) return;
  r->end = std::move(end);
  r->ended = true;
}

void MemoryRecorder::Drain() {
  const std::lock_guard lock(mutex_);
  tape_->Read(run_.tape);
  run_.lost_steps = tape_->lost_steps();
}

const RecordedRun& MemoryRecorder::run() {
  Drain();
  run_.end = RecordEnd::kClosed;
  return run_;
}

}  // namespace cellbatch

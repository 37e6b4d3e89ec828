// What the manager's steps saw and what they submitted, as 64-bit words: enough to make the same manager, given the
// same requests, take the same steps again (schedule_replay.h).
//
//   manager   Controlled, Finished, Arrived .. Submitted, StepEnds  -->  ring of words  -->  Read: one reader's thread
//
// A step's words are seen by the reader all at once, when the step ends. A ring without room for a step loses it and all
// that come after: what follows a gap cannot be replayed, so the tape only counts it.
//
// In one step (a word each, what follows it in braces; low byte first: op, then the fields):
//
//   kStep       steps before this one that saw nothing and did nothing (56 bits)
//   kControl    kind 8, cut 8, when_idle 8, turn 32        {serial of the lane; 0: none}
//   kFailed     worker 8                                   the manager saw that this device is gone
//   kFinished   worker 8                                   {start_ns} {end_ns} of its oldest task
//   kStops      how many nodes of stopping chains (56)     {a bit each: its word was the one that stops}, of that task
//   kArrived    bad graph 8                                {request}
//   kNews       slot 32                                    {the slot's word: generation 32, bits}
//   kContinued  failed 8, another piece 8                  {request}
//   kSubmitted  worker 8, lane 8, type 16, nodes 16, lane / 256: 8        {the schedule's hash so far}
//
// A request is generation 32, slot 32. The hash is over all tasks, in order: worker, lane, type, nodes and the rows that
// they write; and over which request got which rows when it joined. So it says which node of which request was in which
// task, at which place.
//
// Costs the manager a few stores an event, and a multiplication a node for the hash; it allocates, locks and logs nothing.
#ifndef CELLBATCH_SCHEDULER_RECORD_SCHEDULE_TAPE_H_
#define CELLBATCH_SCHEDULER_RECORD_SCHEDULE_TAPE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cells/device/batched_task.h"

namespace cellbatch {

enum class TapeOp : uint8_t {
  kStep = 1,
  kControl,
  kFailed,
  kFinished,
  kStops,
  kArrived,
  kNews,
  kContinued,
  kSubmitted,
};

// Fields of a word, from its low byte on.
inline TapeOp OpOf(uint64_t word) { return static_cast<TapeOp>(word & 0xff); }
inline uint64_t FieldOf(uint64_t word, int first_bit, int bits) {
  return word >> first_bit & ((uint64_t{1} << bits) - 1);
}
// Of a kSubmitted: the lane's index.
inline int LaneOfTask(uint64_t word) {
  return static_cast<int>(FieldOf(word, 16, 8) | FieldOf(word, 56, 8) << 8);
}
// Words that follow one of that op; -1: it is none.
int TapeOperands(uint64_t word);

class ScheduleTape {
 public:
  static constexpr size_t kWords = size_t{1} << 20;  // 8 MB: some 10^5 tasks

  // `words`: a power of two.
  explicit ScheduleTape(size_t words = kWords);

  // The manager, in one step.
  void Controlled(int kind, uint32_t serial, bool cut, bool when_idle, uint32_t turn);
  void Failed(int worker);
  void Finished(int worker, const BatchedTask& task);
  // Of the task that Finished named last. Begin, then one for each node that its notes name.
  void BeginStops(size_t count);
  void AddStop(bool stops);
  void Arrived(uint64_t request, bool bad_graph);
  void News(uint32_t slot, uint64_t word);
  void Continued(uint64_t request, bool failed, bool piece);
  void Joined(uint64_t request, int worker, absl::Span<const int32_t> bases);  // the hash alone
  void Submitted(int worker, int lane, const BatchedTask& task);
  void StepEnds(bool worked);
  uint64_t hash() const { return hash_; }

  // Any one thread. What is there, behind what is in `words`.
  void Read(std::vector<uint64_t>& words);
  // Any thread: steps that did something and are not on the tape; others follow it only.
  uint64_t lost_steps() const { return lost_steps_.load(std::memory_order_acquire); }

  static uint64_t RequestWord(uint32_t slot, uint32_t generation) {
    return uint64_t{generation} << 32 | slot;
  }

 private:
  void Begin();
  void Put(uint64_t word);
  void Mix(uint64_t word);

  const size_t mask_;
  const std::unique_ptr<uint64_t[]> words_;
  // The manager's.
  uint64_t next_ = 0;       // where the next word goes
  uint64_t last_read_ = 0;  // the reader has come at least so far
  bool begun_ = false, overflown_ = false;
  uint64_t idle_ = 0;
  uint64_t stops_ = 0, stop_bit_ = 0;
  size_t stops_left_ = 0;
  uint64_t hash_ = 0x9e3779b97f4a7c15;
  alignas(64) std::atomic<uint64_t> written_ = 0;
  std::atomic<uint64_t> lost_steps_ = 0;
  alignas(64) std::atomic<uint64_t> read_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_SCHEDULE_TAPE_H_

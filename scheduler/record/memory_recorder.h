// A recorder that keeps all in memory: for tests, and for whoever replays what it has just run. Any thread.
#ifndef CELLBATCH_SCHEDULER_RECORD_MEMORY_RECORDER_H_
#define CELLBATCH_SCHEDULER_RECORD_MEMORY_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "scheduler/record/recorder.h"

namespace cellbatch {

class MemoryRecorder final : public Recorder {
 public:
  explicit MemoryRecorder(size_t tape_words = ScheduleTape::kWords)
      : tape_(std::make_unique<ScheduleTape>(tape_words)) {}

  ScheduleTape& tape() override { return *tape_; }
  void Began(const RecordedSetup& setup) override;
  void LaneMade(const RecordedLane& lane) override;
  void PolicyTaken(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                   const Model& model) override;
  void Submitted(RequestId id, int lane, uint32_t serial, const Request& request) override;
  void Extended(RequestId id, const Request& request) override;
  void Notified(RequestId id, bool expired, int64_t now_ns) override;
  void Answered(RequestId id, const Request& request) override;

  // Now and then, so that the tape does not run full.
  void Drain();
  // All of it, once the scheduler has stopped.
  const RecordedRun& run();

 private:
  RecordedRequest* Find(RequestId id);

  // Of its own, for it lies on cache lines: GCC 12 does not align what a stack holds under its AddressSanitizer (its bug
  // 110027), and tests have recorders there.
  const std::unique_ptr<ScheduleTape> tape_;
  std::mutex mutex_;
  RecordedRun run_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_MEMORY_RECORDER_H_

// Writes a record (proto/record.proto) while the server serves.
//
//   callers, takers    shapes, ends: encoded on their own threads, then a lock for a move        --> a queue
//   manager            the tape: words in a ring                                                 --> the ring
//   this one's thread  every kWriteEvery: first the words that are there, then the queue, then both to the file
//
// So what a step of the schedule names lies in front of it in the file. The file grows to `limit` bytes; then it is closed,
// says so, and the server goes on without. Where the disk is slower than the server, shapes beyond kMostQueuedBytes and
// steps beyond the ring are lost, and counted. Neither ever holds up a request.
#ifndef CELLBATCH_SERVER_RECORD_RECORD_WRITER_H_
#define CELLBATCH_SERVER_RECORD_RECORD_WRITER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/record.pb.h"
#include "scheduler/record/recorder.h"

namespace cellbatch {

class RecordWriter final : public Recorder {
 public:
  static constexpr std::chrono::milliseconds kWriteEvery{20};
  static constexpr size_t kMostQueuedBytes = size_t{64} << 20;

  // Makes the file, or empties it; it is held for as long as the writer is there. FAILED_PRECONDITION: it cannot be written, or
  // another one holds it.
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Open(const std::string& path, int64_t limit);
  ~RecordWriter() override;

  // Writes what is there and closes the file; what is reported later is dropped. So it comes after the scheduler has stopped, or,
  // where a model is still being loaded, after the last answer. Idempotent.
  void Close();

  // What people read about it. Any thread.
  struct State {
    int64_t bytes = 0;
    uint64_t requests = 0, lost_requests = 0, lost_steps = 0;
    bool full = false, failed = false;
  };
  State state() const;
  const std::string& path() const { return path_; }

  ScheduleTape& tape() override { return tape_; }
  void Began(const RecordedSetup& setup) override;
  void LaneMade(const RecordedLane& lane) override;
  void PolicyTaken(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                   const Model& model) override;
  void Submitted(RequestId id, int lane, uint32_t serial, const Request& request) override;
  void Extended(RequestId id, const Request& request) override;
  void Notified(RequestId id, bool expired, int64_t now_ns) override;
  void Answered(RequestId id, const Request& request) override;

 private:
  RecordWriter(std::string path, int64_t limit, std::FILE* file, int held);
  bool done() const { return done_.load(std::memory_order_acquire); }
  void Queue(const disk::RecordEntry& entry);
  void Run();
  void WriteWhatIsThere();
  bool Write(const std::string& bytes);
  void End(bool full);

  const std::string path_;
  const int64_t limit_;
  const int held_;   // the file once more, locked
  std::FILE* file_;  // the thread's; null: closed
  ScheduleTape tape_;
  std::mutex mutex_;  // guards what follows, to the blank line
  std::condition_variable wake_;
  std::vector<std::string> queue_;
  size_t queued_bytes_ = 0;
  bool stop_ = false;

  std::atomic<int64_t> bytes_ = 0;
  std::atomic<uint64_t> requests_ = 0, lost_requests_ = 0;
  std::atomic<bool> done_ = false, full_ = false, failed_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_RECORD_RECORD_WRITER_H_

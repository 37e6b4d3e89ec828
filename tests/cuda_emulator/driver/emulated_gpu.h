// One emulated GPU: streams of operations, and a thread that executes them one at a time, at the head of a stream that a seed
// draws. So operations of one stream keep their order, and those of several have any.
//
//   stream 1:  fill, launch, copy --\                                    /-> kernels: GridRunner, watched by GpuChecks
//   stream 2:  copy, write ----------+--> (drawn) --> its thread --------+-> copies, fills, writes: looked up in the registry,
//   stream 3:  -                    /                                     \  then done
//
// A failure is the context's: each later call returns it, streams drop what they have, and nothing is written any more, until the
// context's last release.
//
// Any thread. Results are CUDA's numbers. Lives until the process ends, as its thread does.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPU_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPU_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/emulated_memory.h"
#include "tests/cuda_emulator/driver/finding_list.h"
#include "tests/cuda_emulator/driver/gpu_checks.h"
#include "tests/cuda_emulator/driver/gpu_operation.h"

namespace cellbatch::emulator {

// CUresult, those that the emulator returns and cuda_api.h does not need.
inline constexpr cuda::Result kInvalidValue = 1, kNotInitialized = 3, kNoDevice = 100,
                              kInvalidDevice = 101, kInvalidImage = 200, kInvalidContext = 201,
                              kInvalidHandle = 400, kIllegalState = 401, kNotFound = 500,
                              kLaunchFailed = 719, kNotSupported = 801, kCaptureUnsupported = 900,
                              kCaptureInvalidated = 901, kCaptureWrongThread = 908;

struct QueuedOperation {
  std::shared_ptr<const GpuOperation> operation;
  std::optional<SeenSource> source;
  uint32_t begun_before = 0;  // operations of the GPU, when it was queued
};

// Guarded by its GPU's mutex.
struct EmulatedStream {
  int gpu = 0;
  uint64_t context = 0;  // whose it is, as EmulatedGpu counts them
  uint64_t number = 0;   // of the GPU's streams, from 1
  std::deque<QueuedOperation> queue;
  uint64_t pushed = 0, finished = 0;  // operations; the latter counts dropped ones
  bool closed = false;                // nobody can push any more
  // While it captures.
  bool captures = false, capture_is_void = false;
  std::thread::id capturer;
  OperationList captured;
};

class EmulatedGpu {
 public:
  EmulatedGpu(int number, uint64_t seed, EmulatedMemory& memory, HostWrites& host_writes,
              FindingList& findings);
  EmulatedGpu(const EmulatedGpu&) = delete;
  EmulatedGpu& operator=(const EmulatedGpu&) = delete;

  int number() const { return number_; }

  cuda::Result Retain();
  cuda::Result Release();
  // Which context is current here, counted from 1; 0: none is retained.
  uint64_t context() const;
  // 201 without a context, else the error that it has.
  cuda::Result state() const;

  std::shared_ptr<EmulatedStream> OpenStream();
  // At once; what it holds is executed still.
  void CloseStream(EmulatedStream& stream);
  // Executed, or captured, later. `wait`: until it was executed, if the stream does not capture.
  cuda::Result Push(EmulatedStream& stream, const OperationList& operations, bool wait = false);
  cuda::Result Query(EmulatedStream& stream);
  cuda::Result Synchronize(EmulatedStream& stream);
  bool Captures(const EmulatedStream& stream) const;
  // Whether the calling thread began a capture here and has not ended it.
  bool CapturesHere() const;
  cuda::Result BeginCapture(EmulatedStream& stream);
  cuda::Result EndCapture(EmulatedStream& stream, OperationList* captured);
  // Until all that was queued before the call is done, as a call does that frees memory. Returns as `state` does.
  cuda::Result WaitForQueued();

  // Whether all of [at, at + bytes) is the GPU's own, or host memory that it reaches. A finding if not.
  bool Reaches(const char* who, uintptr_t at, size_t bytes);

  // EmulatorControl
  void SetSeed(uint64_t seed);
  void Hang(bool hangs);
  void Lose();
  void FailLaunch(int64_t after);
  void Delay(int one_in, int most_us);
  void Restore();
  void SetChecks(bool on) { checks_on_ = on; }
  bool checks() const { return checks_on_; }
  int64_t launches() const { return launches_.load(); }

 private:
  // All that follow hold the mutex, but Execute and its kin, which the thread calls without.
  void Seed(uint64_t seed);
  cuda::Result StateLocked() const;
  bool Ready() const;
  bool Idle() const;
  std::shared_ptr<EmulatedStream> Draw();
  int DrawDelay();
  void Fail(cuda::Result result);
  void DropStreams();
  void Work();
  void Step(std::unique_lock<std::mutex>& lock);
  StreamPlace Place(const EmulatedStream& stream, const QueuedOperation& queued) const;
  cuda::Result Execute(const QueuedOperation& queued);
  cuda::Result Launch(const KernelLaunch& launch);
  absl::Status Run(const KernelLaunch& launch, void* const* arguments);
  cuda::Result Copy(const MemoryCopy& copy, const std::optional<SeenSource>& seen);
  cuda::Result Fill(const MemoryFill& fill);
  cuda::Result Write(const SignalWrite& write);

  const int number_;
  EmulatedMemory& memory_;
  FindingList& findings_;
  std::atomic<int64_t> launches_ = 0;
  std::atomic<bool> checks_on_ = true;
  GpuChecks checks_;                    // of the thread, but for See
  std::unique_ptr<GridRunner> runner_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // anything that anybody waits for
  bool started_ = false, running_ = false;
  int retained_ = 0;
  uint32_t begun_ = 0;   // operations
  uint64_t opened_ = 0;  // streams
  uint64_t context_ = 0;
  cuda::Result error_ = 0;
  std::vector<std::shared_ptr<EmulatedStream>> streams_;  // in the order of their opening
  std::mt19937_64 order_, lateness_;
  std::optional<uint64_t> runner_seed_;  // of the next one
  bool hangs_ = false, lost_ = false, stopping_ = false;
  int64_t fail_after_ = 0;
  int one_in_ = 0, most_us_ = 0;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPU_H_

// What a test can do to emulated GPUs that no CUDA call can: order, faults, and what was found. The emulated libcuda.so.1 exports
// one function more than CUDA's, `const EmulatorControl* cellbatch_emulator()`; emulated_gpus.h finds it.
//
// A table of plain C functions, as it crosses the border of a library that has its own copy of everything. Any thread, at any
// time; GPUs are counted from 0, and calls for one that is not there do nothing.
//
// Servers in processes of their own are told by their environment, see README.md.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATOR_CONTROL_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATOR_CONTROL_H_

#include <cstddef>
#include <cstdint>

namespace cellbatch::emulator {

struct EmulatorControl {
  // Of all GPUs: which stream is next, the order of threads and blocks, which operations are late.
  void (*set_seed)(uint64_t seed) = nullptr;
  // True: the GPU begins no other operation until false; what is queued stays queued.
  void (*hang)(int gpu, bool hangs) = nullptr;
  // The GPU falls off: once the operation that runs has ended, every call returns 719, until `restore`. Returns when it has.
  void (*lose)(int gpu) = nullptr;
  // Instead of the n-th launch from now (1: the next; those of graphs count), the context fails with 719, until its last
  // release. 0: no launch.
  void (*fail_launch)(int gpu, long long after) = nullptr;
  // One operation in so many (by seed) begins up to so many microseconds late. 0: none.
  void (*delay_writes)(int gpu, int one_in, int most_us) = nullptr;
  // What sort of GPU all of them are, for who asks from now on: compute capability, and the most shared memory of a block in bytes.
  // Nothing else changes by it. Unless set, Hopper's: 9, 0, 227 KiB.
  void (*set_sort)(int major, int minor, int most_shared) = nullptr;
  // No faults, and no errors that they left, on all GPUs. Seed, sort, memory, findings and counts stay.
  void (*restore)() = nullptr;

  // Whether operations that begin from now on are checked, on all GPUs. What they do unchecked counts as right.
  void (*set_checks)(bool on) = nullptr;

  // What nobody may do, and somebody did; in no order between GPUs.
  size_t (*num_findings)() = nullptr;
  // As snprintf: returns the length of the whole, writes what fits and a NUL. 0: there is none of this number.
  size_t (*finding)(size_t i, char* to, size_t bytes) = nullptr;
  void (*clear_findings)() = nullptr;

  // Allocated and not freed; gpu -1: host memory.
  long long (*live_bytes)(int gpu) = nullptr;
  // Launches that the GPU has run.
  long long (*launches)(int gpu) = nullptr;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATOR_CONTROL_H_

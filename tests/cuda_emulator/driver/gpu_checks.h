// What is checked of one GPU while it executes: AccessChecker over its kernels, kept in step with what is allocated, and with what
// its copies, fills and writes do; and the sources of copies, which the host must leave alone.
//
//   Push    See(operation) ----------------------------.  what pinned memory held when its copy was enqueued
//   thread  Begins --> observer() of a kernel, or      v
//                      Copies / Writes, and SourceIs(copy, seen) --> Ends: findings
//
// Device memory counts as written once an operation wrote it; host memory always, as the host writes it behind our backs.
//
// See: any thread. The others: the GPU's. Costs nothing while it is off.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_GPU_CHECKS_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_GPU_CHECKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/cuda_emulator/access_checker.h"
#include "tests/cuda_emulator/driver/finding_list.h"
#include "tests/cuda_emulator/driver/gpu_operation.h"
#include "tests/cuda_emulator/driver/host_writes.h"
#include "tests/cuda_emulator/memory_registry.h"

namespace cellbatch::emulator {

// The pinned source of a copy as it was enqueued.
struct SeenSource {
  int64_t block = 0;  // of the registry
  uint64_t hash = 0;
  uint64_t writes = 0;  // of GPUs that had begun
};

class GpuChecks {
 public:
  // All outlive it.
  GpuChecks(int gpu, const MemoryRegistry& registry, HostWrites& host_writes,
            FindingList& findings);

  // Nothing: no copy, or from other memory, or a GPU writes there meanwhile.
  std::optional<SeenSource> See(const GpuOperation& operation) const;

  // An operation. What it does while `on` is false is not known: memory that there was then counts as written.
  void Begins(bool on, const StreamPlace& place);
  // Null while it is off.
  AccessObserver* observer() { return on_ ? checker_.get() : nullptr; }
  // Before the operation reads or writes a range that is allocated.
  void Reads(const char* what, uintptr_t at, size_t bytes);
  void Writes(const char* what, uintptr_t at, size_t bytes);
  void SourceIs(const MemoryCopy& copy, const std::optional<SeenSource>& seen);
  void Ends();

 private:
  void Follow();
  void WritesHost(uintptr_t at);

  const int gpu_;
  const MemoryRegistry& registry_;
  HostWrites& host_writes_;
  FindingList& findings_;
  std::unique_ptr<AccessChecker> checker_;  // once it is on
  bool on_ = false, missed_ = false;
  uint64_t version_ = 0;                   // of the registry, that the checker knows
  std::map<int64_t, MemoryBlock> known_;   // by number
  std::vector<MemoryBlock> written_host_;  // by the operation that runs
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_GPU_CHECKS_H_

// What one task does to a simulated memory, from its start to its end, and what it notices if others
// do not keep the contract:
//
//   Start                          ... later ...              End
//     copies in                                                 read the inputs again: they held still
//     read the inputs                                           write the outputs: nobody else did meanwhile
//     write garbage into the outputs                            copies out
//
// A launch may be wider than its task: nodes beyond it read row 0 and write the table's trash row. So do nodes of padding,
// and nothing else.
// What is wrong goes to the memory's violations. One thread at a time; nothing allocates but while
// lists grow to the largest task.
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_TASK_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_TASK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cells/device/batched_task.h"
#include "cells/device/sim/fingerprint.h"
#include "cells/device/sim/sim_memory.h"

namespace cellbatch {

class SimTask {
 public:
  // `device`: for the texts of violations. `launch_multiple`: launches are rounded up to one of it.
  SimTask(std::string device, SimMemory& memory, int launch_multiple);

  void Start(const BatchedTask& task);
  // What each node left.
  absl::Span<const Fingerprint> End(const BatchedTask& task);
  // It was started and will not end: what it wrote is nobody's.
  void GiveUp(const BatchedTask& task);
  void Violated(const BatchedTask& task, std::string what);

 private:
  Fingerprint GarbageOf(const BatchedTask& task, Row row) const;
  int32_t Width(const BatchedTask& task) const;
  void CheckNames(const BatchedTask& task);
  void CopyRowsIn(const BatchedTask& task);
  void CopyRowsOut(const BatchedTask& task);
  bool Reaches(const BatchedTask& task, const std::byte* at, size_t bytes, const char* what);

  const std::string device_;
  SimMemory& memory_;
  const int32_t launch_multiple_;
  const uint64_t garbage_;
  std::vector<Fingerprint> read_;  // what the running task's inputs held at its start
  std::vector<Fingerprint> nodes_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_TASK_H_

// CPU time of this process's threads by their names, as the kernel keeps it: who of a pipeline works how much. A thread that
// spins works all the time.
#ifndef CELLBATCH_TESTS_GPU_THREAD_CPU_H_
#define CELLBATCH_TESTS_GPU_THREAD_CPU_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace cellbatch {

// Nanoseconds of all threads that are alive and whose name begins so, together. Any thread. None: the system does not tell.
std::optional<int64_t> ThreadCpuNs(std::string_view name);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GPU_THREAD_CPU_H_

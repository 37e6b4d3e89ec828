// How much memory and how many CPUs this process may take: the least of what the machine has and what its control group,
// and every group above it, allows. The one place that asks; the server's defaults, the devices and the tests share it.
//
//   memory   /proc/meminfo: MemAvailable           group: memory.max - (memory.current - inactive_file), v2
//                                                         memory.limit_in_bytes - (usage - inactive_file), v1
//   CPUs     sched_getaffinity (cpuset included)   group: cpu.max, v2; cpu.cfs_quota_us / cpu.cfs_period_us, v1
//
// A kernel's page cache counts as used in a group, but gives way: what of it is inactive is available. A file that is
// missing, or does not read as it should, limits nothing. `root` stands before every path: "" is this machine, tests give
// a folder with proc/ and sys/ in it. Load time: some file reads a call; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_PROCESS_LIMITS_H_
#define CELLBATCH_CELLS_DEVICE_CPU_PROCESS_LIMITS_H_

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace cellbatch {

// Bytes that could still be taken; 0: nothing is left. nullopt: nobody says.
std::optional<int64_t> AvailableMemoryBytes(const std::string& root = "");

// There is not so much memory, found out before anything was taken.
class TooLittleMemory : public std::bad_alloc {
 public:
  TooLittleMemory(int64_t wanted, int64_t left);
  const char* what() const noexcept override {
    return text_.c_str();
  }  // "8 bytes more are needed, 4 are left"

 private:
  const std::string text_;
};

// Throws TooLittleMemory where so many bytes can certainly not be had. Whoever takes them all the same is given addresses, and
// when it touches them the system ends a process of its choice: the server, with all that it serves. So what makes no promise is
// counted as if it could be had: all that is cached of files, swap. Asking takes a third of a millisecond; up to 16 MiB, of all
// calls since the last that was granted, nobody is asked. Any thread.
void RequireMemory(int64_t bytes, const std::string& root = "");

// CPUs' worth of time that the group gets, such as 1.5. nullopt: as much as there is.
std::optional<double> CpuQuota(const std::string& root = "");

// Ascending, never empty: what the scheduler's affinity mask allows.
std::vector<int> AllowedCpus();

// Threads that may be busy at once: a quota is rounded down, because a group that spends it before its period ends stands
// still for the rest, all threads together. At least 1.
int CoresWithin(int allowed_cpus, std::optional<double> quota);

// The same for this process.
int UsableCores();

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_PROCESS_LIMITS_H_

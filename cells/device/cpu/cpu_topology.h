// Lists of CPUs as people write them, and which NUMA node each CPU belongs to. Load time; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CPU_TOPOLOGY_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CPU_TOPOLOGY_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

// 0 where the system does not say.
int NumaNodeOf(int cpu);

// "0-3,8" <-> {0, 1, 2, 3, 8}. nullopt: not such a list.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);
std::string CpuListText(const std::vector<int>& cpus);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CPU_TOPOLOGY_H_

#include "scheduler/device_places.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "scheduler/lane_memories.h"
#include "scheduler/task_ring.h"

namespace cellbatch {

absl::StatusOr<std::vector<int>> MemoriesOf(const DeviceSet& devices, int depth, int batch_limit) {
  if (devices.memories.size() > kMostMemories) {
    return absl::InvalidArgumentError(
        absl::StrCat(devices.memories.size(), " memories; ", kMostMemories, " can be scheduled"));
  }
  std::vector<int> memory_of;
  for (const std::unique_ptr<Device>& device : devices.devices) {
    const DeviceInfo& info = device->info();
    const auto at = std::find_if(devices.memories.begin(), devices.memories.end(),
                                 [&](const auto& m) { return m.get() == info.memory; });
    if (at == devices.memories.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", info.name, " computes on a memory that is not in the set"));
    }
    memory_of.push_back(static_cast<int>(at - devices.memories.begin()));
    const int64_t needed = TaskRing::BytesNeeded(depth, batch_limit);
    const int64_t there = static_cast<int64_t>(device->task_memory().size());
    if (there < needed) {
      return absl::ResourceExhaustedError(
          absl::StrCat("device ", info.name, " has ", there, " bytes of task memory; ", needed,
                       " are needed for ", depth, " tasks of ", batch_limit, " nodes"));
    }
  }
  return memory_of;
}

bool StepsAlternate(absl::Span<const std::unique_ptr<Device>> devices) {
  return devices.size() == 1 && devices[0]->info().computes_in_advance;
}

TasksInFlight TasksInFlightOf(const DeviceSet& devices, int most_said, int few_said) {
  constexpr int kFew = 2;
  TasksInFlight tasks = {most_said, few_said};
  if (most_said <= 0) {
    // Of a CPU beside a GPU what the CPU asks for: as many of its tasks as a GPU likes to have are many milliseconds.
    tasks.most = devices.devices[0]->info().tasks_in_flight;
    for (const std::unique_ptr<Device>& device : devices.devices) {
      tasks.most = std::min(tasks.most, device->info().tasks_in_flight);
    }
    if (StepsAlternate(devices.devices)) tasks.most = 1;
  }
  if (few_said <= 0) tasks.few = most_said > 0 ? tasks.most : std::min(tasks.most, kFew);
  return tasks;
}

HostBlocks* HostBlocksFor(const DeviceSet& devices, DeviceKinds kinds) {
  for (const std::unique_ptr<Memory>& memory : devices.memories) {
    if (!kinds.Has(memory->kind())) continue;
    if (HostBlocks* const blocks = memory->host_blocks(); blocks != nullptr) return blocks;
  }
  return nullptr;
}

}  // namespace cellbatch

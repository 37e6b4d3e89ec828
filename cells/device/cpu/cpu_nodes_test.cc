// Machines of several NUMA nodes, as CpuDevices is told of them: this one need not be such a machine.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cells/device/cpu/cpu_device.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/parse_devices.h"
#include "cells/device/signal.h"
#include "gtest/gtest.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

RowBudget Rows(const Model& model) {
  return RowBudget{std::vector<int32_t>(model.tables.size(), 8)};
}

// Machines of 1 to 128 cores in 1 to 8 nodes, numbered node by node or in turns: a device for each node, of its CPUs alone.
TEST(CpuNodesTest, EachNodeIsADevice) {
  for (int nodes = 1; nodes <= 8; nodes *= 2) {
    for (int cores = nodes; cores <= 128; cores *= 2) {
      for (const bool in_turns : {false, true}) {
        const auto node_of = [&](int cpu) { return in_turns ? cpu % nodes : cpu * nodes / cores; };
        std::vector<int> cpus(static_cast<size_t>(cores));
        for (int cpu = 0; cpu < cores; ++cpu) cpus[static_cast<size_t>(cpu)] = cpu;
        const DeviceChoice choice = ChooseCpus(cpus, cores, node_of);
        EXPECT_FALSE(choice.pinned);
        ASSERT_EQ(choice.cpu_sets.size(), static_cast<size_t>(nodes));
        for (const std::vector<int>& set : choice.cpu_sets) {
          EXPECT_EQ(set.size(), static_cast<size_t>(cores / nodes));
          for (const int cpu : set) EXPECT_EQ(node_of(cpu), node_of(set[0]));
        }
        const DeviceChoice half = ChooseCpus(cpus, std::max(1, cores / 2), node_of);
        EXPECT_EQ(half.cpu_sets.size(), static_cast<size_t>(std::max(1, nodes / 2)))
            << "time for half of the cores: they are of as few nodes as can be";
      }
    }
  }
}

// Each is asked how much memory there is while it loads.
TEST(CpuNodesTest, AModelIsLoadedOnTheCpusOfItsNode) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 16));
  const std::vector<int> mine = AllowedCpus(), last = {mine.back()};
  for (const bool anywhere : {false, true}) {
    std::vector<int> seen;
    CpuMemory memory(
        kernels::BestKernels(DetectCpuFeatures()), 1, 0,
        [&]() -> std::optional<int64_t> {
          seen = AllowedCpus();
          return std::nullopt;
        },
        anywhere ? std::vector<int>() : last);
    ASSERT_TRUE(memory.Load(*model, Rows(*model)).ok());
    EXPECT_EQ(seen, anywhere ? mine : last);
    EXPECT_EQ(AllowedCpus(), mine);
  }
}

// h of one node of zeros, computed by that device on a thread of its own; where that thread was allowed to run then.
struct Computed {
  std::vector<float> h;
  std::vector<int> cpus;
};

Computed Compute(Device& device, const Model& model, const LoadedModel& loaded) {
  Computed computed;
  computed.h.resize(16);
  const Row zero = kZeroRow, left = 3;
  CopyOut copy = {reinterpret_cast<std::byte*>(computed.h.data()), ColumnId(0), left};
  BatchedTask task;
  task.model = &loaded;
  task.cell = model.types[0].id;
  task.num_nodes = 1;
  task.inputs[0].rows = task.inputs[1].rows = &zero;
  task.output_rows = &left;
  task.copies_out = &copy;
  task.num_copies_out = 1;
  task.sequence = device.Signal() + 1;
  std::thread([&] {
    BatchedTask* const pointer = &task;
    EXPECT_EQ(device.Enqueue({&pointer, 1}), 1);
    while (!SignalPassed(device.Signal(), task.sequence)) device.Advance();
    computed.cpus = AllowedCpus();
  }).join();
  return computed;
}

TEST(CpuNodesTest, DevicesOfSeveralNodesHaveAMemoryEachAndStayThere) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 16));
  const std::vector<int> mine = AllowedCpus();
  // A CPU that is not there is a name: who is to stay on it stays where it is.
  const int other = mine.size() > 1 ? mine[1] : mine[0] + 1;
  const std::vector<std::vector<int>> sets = {{mine[0]}, {other}};
  for (const bool several : {true, false}) {
    CpuOptions options;
    options.task_memory_bytes = 1 << 20;
    options.node_of = [&](int cpu) { return several && cpu == other ? 1 : 0; };
    auto set = CpuDevices(sets, options);
    ASSERT_TRUE(set.ok()) << set.status();
    ASSERT_EQ(set->devices.size(), 2u);
    ASSERT_EQ(set->memories.size(), several ? 2u : 1u);
    std::map<const Memory*, std::unique_ptr<LoadedModel>> loaded;
    for (const auto& memory : set->memories) {
      auto there = memory->Load(*model, Rows(*model));
      ASSERT_TRUE(there.ok()) << there.status();
      loaded[memory.get()] = *std::move(there);
    }
    std::vector<float> first;
    for (size_t d = 0; d < 2; ++d) {
      Device& device = *set->devices[d];
      EXPECT_EQ(device.info().memory, set->memories[several ? d : 0].get());
      const Computed computed = Compute(device, *model, *loaded[device.info().memory]);
      const bool there = sets[d][0] <= mine.back();
      EXPECT_EQ(computed.cpus, several && there ? sets[d] : mine) << "device " << d;
      if (d == 0) first = computed.h;
      EXPECT_EQ(std::memcmp(first.data(), computed.h.data(), first.size() * sizeof(float)), 0);
    }
    EXPECT_EQ(AllowedCpus(), mine);
  }
}

}  // namespace
}  // namespace cellbatch

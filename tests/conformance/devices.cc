#include "tests/conformance/devices.h"

#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cpu_device.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/sim/sim_device.h"
#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::conformance {
namespace {

// CPU numbers are names only (nothing is pinned), so that two cores are tried on a machine with one.
constexpr int64_t kFold = int64_t{1} << 30;
// Just below where 32 and 64 bits wrap: tests make hundreds of tasks.
constexpr uint64_t kBelow32 = (uint64_t{1} << 32) - 5;
constexpr uint64_t kBelow64 = uint64_t{0} - 5;

DeviceSetup Cpu(const std::vector<std::vector<int>>& cpu_sets, const CpuOptions& options) {
  absl::StatusOr<DeviceSet> made = CpuDevices(cpu_sets, options);
  Check(made.ok(), made.status().ToString());
  auto set = std::make_shared<DeviceSet>(*std::move(made));
  DeviceSetup setup;
  setup.memory = set->memories[0].get();
  for (const std::unique_ptr<Device>& d : set->devices) setup.devices.push_back(d.get());
  setup.alive = std::move(set);
  return setup;
}

struct Simulated {
  explicit Simulated(SimMemoryOptions options) : memory(std::move(options)) {}
  SimTime time;
  SimMemory memory;
  std::vector<std::unique_ptr<SimDevice>> devices;
};

// `like`: of every device, but for name and seed. apart: they reach host blocks only.
DeviceSetup Sim(int count, const SimDeviceOptions& like, bool apart) {
  SimMemoryOptions of_memory;
  if (apart) of_memory.host_blocks = std::make_shared<SimHostBlocks>();
  auto sim = std::make_shared<Simulated>(of_memory);
  DeviceSetup setup;
  setup.memory = &sim->memory;
  for (int i = 0; i < count; ++i) {
    SimDeviceOptions options = like;
    options.name = "sim:" + std::to_string(i);
    options.cost = {1000, 10};
    options.seed = static_cast<uint64_t>(i) + 1;
    sim->devices.push_back(std::make_unique<SimDevice>(options, sim->memory, sim->time));
    setup.devices.push_back(sim->devices.back().get());
  }
  setup.fail = [sim = sim.get()](int device) {
    sim->devices[static_cast<size_t>(device)]->Fail(absl::InternalError("broken on purpose"));
  };
  setup.later = [sim = sim.get()] { sim->time.AdvanceTo(sim->time.now_ns() + 1'000'000'000); };
  setup.violations = [sim = sim.get()] { return sim->memory.violations().first(); };
  setup.alive = std::move(sim);
  return setup;
}

SimDeviceOptions LateAndNarrow() {
  SimDeviceOptions o;
  o.signal_bits = 8;
  o.first_sequence = 250;
  o.delay_chance = o.refusal_chance = 0.3;
  o.max_delay_ns = 5000;
  return o;
}

// What a GPU does that a CPU does not: it runs by itself, four tasks deep, in launches wider than their tasks, by a
// clock of its own.
SimDeviceOptions ByItself(SimRuns runs, uint64_t first_sequence) {
  SimDeviceOptions o;
  o.runs = runs;
  o.queue_capacity = 4;
  o.signal_bits = 32;
  o.first_sequence = first_sequence;
  o.launch_multiple = 8;
  o.clock_ns = -123'456'789;
  o.late_writes = true;
  return o;
}

}  // namespace

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds = ComputingKinds();
  kinds.push_back({"sim", false, [] { return Sim(1, {}, false); }, 1, true});
  kinds.push_back(
      {"sim_two_late_and_narrow", false, [] { return Sim(2, LateAndNarrow(), false); }, 2, true});
  kinds.push_back({"sim_by_itself", false,
                   [] { return Sim(1, ByItself(SimRuns::kInTime, kBelow32), true); }, 1, true});
  kinds.push_back({"sim_two_by_themselves", false,
                   [] { return Sim(2, ByItself(SimRuns::kInTime, kBelow64), true); }, 2, true});
  kinds.push_back({"sim_four_a_launch", false,
                   [] {
                     SimDeviceOptions options = ByItself(SimRuns::kInTime, kBelow32);
                     options.tasks_a_launch = 4;
                     options.launch_ns = 500;
                     return Sim(1, options, true);
                   },
                   1, true});
  kinds.push_back({"sim_on_a_thread", false,
                   [] { return Sim(1, ByItself(SimRuns::kOnThread, 1), true); }, 1, true});
  return kinds;
}

// CPU numbers are names only (nothing is pinned), so that two cores are tried on a machine with one.
std::vector<Kind> ComputingKinds() {
  CpuOptions folded, bare, slowest;
  folded.fold_budget_bytes = slowest.fold_budget_bytes = kFold;
  bare.fold_budget_bytes = 0;
  bare.first_sequence = kBelow64;
  slowest.kernels = kernels::RunnableKernels(DetectCpuFeatures()).back();
  slowest.first_sequence = kBelow32;
  const auto cpu = [](std::vector<std::vector<int>> sets, const CpuOptions& options) {
    return [sets = std::move(sets), options] { return Cpu(sets, options); };
  };
  return {{"cpu", true, cpu({{0}}, folded)},
          {"cpu_two_cores", true, cpu({{0, 1}}, bare)},
          {"cpu_two_devices", true, cpu({{0}, {1}}, folded), 2},
          {"cpu_portable", true, cpu({{0}}, slowest)}};
}

}  // namespace cellbatch::conformance

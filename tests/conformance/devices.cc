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
DeviceSetup Cpu(const std::vector<std::vector<int>>& cpu_sets, int64_t fold_budget_bytes,
                const kernels::CpuKernels* kernels) {
  CpuOptions options;
  options.fold_budget_bytes = fold_budget_bytes;
  options.kernels = kernels;
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
  SimTime time;
  SimMemory memory;
  std::vector<std::unique_ptr<SimDevice>> devices;
};

DeviceSetup Sim(int count, double delay_chance, int signal_bits) {
  auto sim = std::make_shared<Simulated>();
  DeviceSetup setup;
  setup.memory = &sim->memory;
  for (int i = 0; i < count; ++i) {
    SimDeviceOptions options;
    options.name = "sim:" + std::to_string(i);
    options.cost = {1000, 10};
    options.signal_bits = signal_bits;
    options.delay_chance = delay_chance;
    options.max_delay_ns = 5000;
    options.refusal_chance = delay_chance;
    options.seed = static_cast<uint64_t>(i) + 1;
    sim->devices.push_back(std::make_unique<SimDevice>(options, sim->memory, sim->time));
    setup.devices.push_back(sim->devices.back().get());
  }
  setup.fail = [sim = sim.get()](int device) {
    sim->devices[static_cast<size_t>(device)]->Fail(absl::InternalError("broken on purpose"));
  };
  setup.alive = std::move(sim);
  return setup;
}

}  // namespace

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds = ComputingKinds();
  kinds.push_back({"sim", false, [] { return Sim(1, 0, 64); }, 1, true});
  kinds.push_back({"sim_two_late_and_narrow", false, [] { return Sim(2, 0.3, 8); }, 2, true});
  return kinds;
}

std::vector<Kind> PairKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return kind.num_devices < 2; });
  return kinds;
}

std::vector<Kind> BreakableKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return !kind.breaks; });
  return kinds;
}

std::vector<Kind> ComputingKinds() {
  constexpr int64_t kFold = int64_t{1} << 30;
  const kernels::CpuKernels* const slowest = kernels::RunnableKernels(DetectCpuFeatures()).back();
  return {{"cpu", true, [] { return Cpu({{0}}, kFold, nullptr); }},
          {"cpu_two_cores", true,
           [] {
             return Cpu({{0, 1}}, 0, nullptr);
           }},
          {"cpu_two_devices", true,
           [] {
             return Cpu({{0}, {1}}, kFold, nullptr);
           },
           2},
          {"cpu_portable", true, [slowest] { return Cpu({{0}}, kFold, slowest); }}};
}

}  // namespace cellbatch::conformance

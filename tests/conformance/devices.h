// The devices that the conformance suite runs against, each behind one factory: a new kind of device is added here and
// meets every test. Three sets of them, for the same tests: devices.cc, cuda_devices.cc and real_gpu_devices.cc.
#ifndef CELLBATCH_TESTS_CONFORMANCE_DEVICES_H_
#define CELLBATCH_TESTS_CONFORMANCE_DEVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/device.h"

namespace cellbatch::conformance {

// Devices on one memory, and what must outlive them.
struct DeviceSetup {
  std::shared_ptr<void> alive;
  Memory* memory = nullptr;
  std::vector<Device*> devices;
  std::function<void(int device)>
      fail;  // breaks a device on purpose; empty: this kind cannot be broken
  // Lets time pass, for what a device might still do by itself; empty: it does nothing by itself.
  std::function<void()> later;
  // Of the contract, that the device noticed; empty: it notices none.
  std::function<std::vector<std::string>()> violations;
};

struct Kind {
  std::string name;
  bool computes = true;  // rows hold the numbers of the cell (simulated ones hold fingerprints)
  std::function<DeviceSetup()> make;
  int num_devices = 1;    // that make() makes
  bool breaks = false;    // make() sets `fail`
  int random_cells = 60;  // that are tried on it: fewer where loading one takes seconds
  // An emulated GPU's: a number takes it some thousand times as long as a CPU. What needs many of them has fewer there.
  bool slow = false;
  // Slower still, by products on emulated tensor cores, and unlike another kind in its numbers alone.
  bool for_numbers = false;
};

std::vector<Kind> AllKinds();
std::vector<Kind> ComputingKinds();  // computes == true

// For what is about queues, launches and signals.
inline std::vector<Kind> ContractKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return kind.for_numbers; });
  return kinds;
}

// Those whose numbers may differ from the others'. Two queues on an emulated GPU compute as one does.
inline std::vector<Kind> NumberKinds() {
  std::vector<Kind> kinds = ComputingKinds();
  std::erase_if(kinds, [](const Kind& kind) { return kind.slow && kind.num_devices > 1; });
  return kinds;
}

// The same of products in other precisions than FP32, by whose arithmetic emulated kinds differ.
inline std::vector<Kind> RoundedKinds() {
  std::vector<Kind> kinds;
  for (Kind& kind : NumberKinds()) {
    const bool like_another = !kinds.empty() && kinds.back().slow && kind.slow;
    if (!like_another) kinds.push_back(std::move(kind));
  }
  return kinds;
}

inline std::vector<Kind> PairKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return kind.num_devices < 2; });
  return kinds;
}

inline std::vector<Kind> BreakableKinds() {
  std::vector<Kind> kinds = ContractKinds();
  std::erase_if(kinds, [](const Kind& kind) { return !kind.breaks; });
  return kinds;
}

}  // namespace cellbatch::conformance

#endif  // CELLBATCH_TESTS_CONFORMANCE_DEVICES_H_

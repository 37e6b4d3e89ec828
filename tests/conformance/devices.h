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
};

std::vector<Kind> AllKinds();
std::vector<Kind> ComputingKinds();  // computes == true

inline std::vector<Kind> PairKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return kind.num_devices < 2; });
  return kinds;
}

inline std::vector<Kind> BreakableKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return !kind.breaks; });
  return kinds;
}

}  // namespace cellbatch::conformance

#endif  // CELLBATCH_TESTS_CONFORMANCE_DEVICES_H_

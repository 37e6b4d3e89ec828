// Kinds of CUDA devices: what those on emulated GPUs (cuda_devices.cc) and on a machine's own (real_gpu_devices.cc) share.
//
//   name                ordinals   options                                 kinds of devices.h
//   cuda                0          ..             computing                cuda_devices.cc      + faults, findings
//   cuda_end_kernel     0, 0       narrow rings   the contract alone       real_gpu_devices.cc  once more for a second GPU
#ifndef CELLBATCH_TESTS_CONFORMANCE_CUDA_KINDS_H_
#define CELLBATCH_TESTS_CONFORMANCE_CUDA_KINDS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/cuda/cuda_device.h"
#include "tests/conformance/devices.h"

namespace cellbatch::conformance {

struct CudaKind {
  std::string name;
  std::vector<int> ordinals;
  cuda::CudaOptions options;
  // A ring of few slots, counters that wrap at once, row lists that are read where they are, a given signal, and given numbers of
  // tasks a launch.
  bool narrow = false;
};

// Those of ComputingKinds come first, which are not narrow.
std::vector<CudaKind> CudaKinds();

// Ends the process where the devices cannot be made. Sets neither `fail` nor `violations`.
DeviceSetup CudaSetup(std::shared_ptr<const cuda::CudaApi> api, const CudaKind& kind);

// Of its name and number of devices.
Kind KindOf(const CudaKind& cuda, std::function<DeviceSetup()> make);

}  // namespace cellbatch::conformance

#endif  // CELLBATCH_TESTS_CONFORMANCE_CUDA_KINDS_H_

// The devices that --devices names, opened: what a server, its tools and the benchmarks compute on.
//
//   "auto" "cpu:0-1,cpu:2-3" "cuda:0,cuda:1" ----> ParseDevices ----> CpuDevices, CudaDevices ----> one DeviceSet
//
// Load time, any thread; the set owns everything.
#ifndef CELLBATCH_CELLS_DEVICE_OPEN_DEVICES_H_
#define CELLBATCH_CELLS_DEVICE_OPEN_DEVICES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cells/device/cpu/cpu_device.h"
#include "cells/device/cuda/cuda_device.h"
#include "cells/device/device.h"
#include "cells/device_kind.h"

namespace cellbatch {

struct OpenOptions {
  CpuOptions cpu;              // whether threads are pinned is --devices' to say
  cuda::CudaOptions cuda;      // likewise, how many compute on one GPU
  std::string cuda_libraries;  // a folder where CUDA's libraries are looked for first; empty: none
};

struct OpenedDevices {
  DeviceSet set;
  // For the log, one line: "cpu:0-1; no GPU: cuda: libcuda.so.1 is not there (..)". Of --devices=auto it tells of GPUs that
  // are not used, too.
  std::string found;

  DeviceKinds kinds() const;  // of `set`
  bool splits_fp32 = false;   // whether CPUs of it compute Precision::kFp32Split as such
};

// INVALID_ARGUMENT: what --devices names is not there, or is no device; NOT_FOUND: GPUs are named and CUDA is not there; as
// CudaDevices fails.
absl::StatusOr<OpenedDevices> OpenDevices(std::string_view devices, OpenOptions options);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_OPEN_DEVICES_H_

// The driver's entry points for devices, contexts, memory and errors.
#include <cstdio>
#include <cstring>
#include <optional>
#include <type_traits>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/driver_state.h"

namespace cellbatch::emulator {
namespace {

using cuda::Context;
using cuda::DeviceNumber;
using cuda::DevicePtr;
using cuda::DriverApi;
using cuda::kSuccess;
using cuda::Result;

struct ErrorWords {
  Result result;
  const char* name;
  const char* text;
};
constexpr ErrorWords kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {cuda::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const ErrorWords* WordsOf(Result result) {
  for (const ErrorWords& words : kErrors) {
    if (words.result == result) return &words;
  }
  return nullptr;
}

// Null, and `result` says why: not initialized, or no such device.
EmulatedGpu* GpuOf(DeviceNumber device, Result* result) {
  DriverState& state = DriverState::Get();
  EmulatedGpu* const gpu = state.gpu(device);
  if (!state.initialized()) {
    *result = kNotInitialized;
    return nullptr;
  }
  *result = gpu == nullptr ? kInvalidDevice : kSuccess;
  return gpu;
}

Result Allocate(MemoryKind kind, size_t bytes, const char* call, uintptr_t* start) {
  Result result = kSuccess;
  EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  UnsafeWhileCapturing(*gpu, call);
  return DriverState::Get().memory.Allocate(kind, gpu->number(), bytes, start);
}

// Once all that was queued is done, as it may use the memory.
Result Free(MemoryKind kind, uintptr_t start, const char* call) {
  Result result = kSuccess;
  EmulatedGpu* const current = UsableGpu(&result);
  if (current == nullptr) return result;
  UnsafeWhileCapturing(*current, call);
  DriverState& state = DriverState::Get();
  const std::optional<MemoryBlock> block = state.memory.registry().StartingAt(start);
  if (!block.has_value()) return kInvalidValue;
  if (const Result r = state.gpu(block->gpu)->WaitForQueued(); r != kSuccess) return r;
  return state.memory.Free(kind, start);
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) { return flags != 0 ? kInvalidValue : DriverState::Get().Init(); }

Result cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = 13'000;
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  const DriverState& state = DriverState::Get();
  if (!state.initialized()) return kNotInitialized;
  if (count == nullptr) return kInvalidValue;
  *count = state.num_gpus();
  return kSuccess;
}

Result cuDeviceGet(DeviceNumber* device, int ordinal) {
  Result result = kSuccess;
  if (GpuOf(ordinal, &result) == nullptr) return result;
  if (device == nullptr) return kInvalidValue;
  *device = ordinal;
  return kSuccess;
}

Result cuDeviceGetName(char* name, int length, DeviceNumber device) {
  Result result = kSuccess;
  if (GpuOf(device, &result) == nullptr) return result;
  if (name == nullptr || length < 1) return kInvalidValue;
  std::snprintf(name, static_cast<size_t>(length), "Emulated GPU");
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int attribute, DeviceNumber device) {
  Result result = kSuccess;
  if (GpuOf(device, &result) == nullptr) return result;
  if (value == nullptr) return kInvalidValue;
  switch (attribute) {
    case cuda::kMultiprocessors:
      *value = 132;
      return kSuccess;
    case cuda::kComputeMajor:
      *value = DriverState::Get().compute_major;
      return kSuccess;
    case cuda::kComputeMinor:
      *value = DriverState::Get().compute_minor;
      return kSuccess;
    case cuda::kMostSharedOptin:
      *value = DriverState::Get().most_shared;
      return kSuccess;
    default:
      return kNotSupported;
  }
}

Result cuDevicePrimaryCtxRetain(Context* context, DeviceNumber device) {
  Result result = kSuccess;
  EmulatedGpu* const gpu = GpuOf(device, &result);
  if (gpu == nullptr) return result;
  if (context == nullptr) return kInvalidValue;
  if (result = gpu->Retain(); result == kSuccess) *context = reinterpret_cast<Context>(gpu);
  return result;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  Result result = kSuccess;
  EmulatedGpu* const gpu = GpuOf(device, &result);
  return gpu == nullptr ? result : gpu->Release();
}

Result cuCtxSetCurrent(Context context) {
  DriverState& state = DriverState::Get();
  if (!state.initialized()) return kNotInitialized;
  CurrentContext& current = Current();
  if (context == nullptr) {
    current.gpu = nullptr;
    return kSuccess;
  }
  for (int i = 0; i < state.num_gpus(); ++i) {
    EmulatedGpu* const gpu = state.gpu(i);
    const uint64_t number = gpu->context();
    if (reinterpret_cast<Context>(gpu) != context || number == 0) continue;
    current.gpu = gpu;
    current.context = number;
    return kSuccess;
  }
  return kInvalidContext;
}

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  Result result = kSuccess;
  const EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  if (free == nullptr || total == nullptr) return kInvalidValue;
  const EmulatedMemory& memory = DriverState::Get().memory;
  *total = memory.gpu_bytes();
  *free = *total - static_cast<size_t>(memory.registry().LiveBytes(gpu->number()));
  return kSuccess;
}

Result cuMemAlloc_v2(DevicePtr* memory, size_t bytes) {
  if (memory == nullptr) return kInvalidValue;
  uintptr_t start = 0;
  const Result result = Allocate(MemoryKind::kDevice, bytes, "cuMemAlloc", &start);
  if (result == kSuccess) *memory = start;
  return result;
}

Result cuMemFree_v2(DevicePtr memory) { return Free(MemoryKind::kDevice, memory, "cuMemFree"); }

Result cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  constexpr unsigned kAllFlags = 7;
  if (memory == nullptr || flags > kAllFlags) return kInvalidValue;
  uintptr_t start = 0;
  const Result result = Allocate(MemoryKind::kHost, bytes, "cuMemHostAlloc", &start);
  if (result == kSuccess) *memory = reinterpret_cast<void*>(start);
  return result;
}

Result cuMemFreeHost(void* memory) {
  return Free(MemoryKind::kHost, reinterpret_cast<uintptr_t>(memory), "cuMemFreeHost");
}

Result cuGetErrorName(Result result, const char** name) {
  if (name == nullptr) return kInvalidValue;
  const ErrorWords* const words = WordsOf(result);
  *name = words == nullptr ? nullptr : words->name;
  return words == nullptr ? kInvalidValue : kSuccess;
}

Result cuGetErrorString(Result result, const char** text) {
  if (text == nullptr) return kInvalidValue;
  const ErrorWords* const words = WordsOf(result);
  *text = words == nullptr ? nullptr : words->text;
  return words == nullptr ? kInvalidValue : kSuccess;
}

}  // extern "C"

static_assert(std::is_same_v<decltype(&cuInit), decltype(DriverApi::init)>);
static_assert(std::is_same_v<decltype(&cuDriverGetVersion), decltype(DriverApi::driver_version)>);
static_assert(std::is_same_v<decltype(&cuDeviceGetCount), decltype(DriverApi::device_count)>);
static_assert(std::is_same_v<decltype(&cuDeviceGet), decltype(DriverApi::device_get)>);
static_assert(std::is_same_v<decltype(&cuDeviceGetName), decltype(DriverApi::device_name)>);
static_assert(
    std::is_same_v<decltype(&cuDeviceGetAttribute), decltype(DriverApi::device_attribute)>);
static_assert(
    std::is_same_v<decltype(&cuDevicePrimaryCtxRetain), decltype(DriverApi::context_retain)>);
static_assert(
    std::is_same_v<decltype(&cuDevicePrimaryCtxRelease_v2), decltype(DriverApi::context_release)>);
static_assert(std::is_same_v<decltype(&cuCtxSetCurrent), decltype(DriverApi::context_set)>);
static_assert(std::is_same_v<decltype(&cuMemGetInfo_v2), decltype(DriverApi::memory_info)>);
static_assert(std::is_same_v<decltype(&cuMemAlloc_v2), decltype(DriverApi::alloc)>);
static_assert(std::is_same_v<decltype(&cuMemFree_v2), decltype(DriverApi::free)>);
static_assert(std::is_same_v<decltype(&cuMemHostAlloc), decltype(DriverApi::host_alloc)>);
static_assert(std::is_same_v<decltype(&cuMemFreeHost), decltype(DriverApi::host_free)>);
static_assert(std::is_same_v<decltype(&cuGetErrorName), decltype(DriverApi::error_name)>);
static_assert(std::is_same_v<decltype(&cuGetErrorString), decltype(DriverApi::error_text)>);

}  // namespace cellbatch::emulator

// Each line of the table of entry points has the type that CUDA's own headers give the function, but for the names of
// handles. Part of no program: tests/cuda_kernels/toolkit_test compiles it where a toolkit can be had.
#include <cuda.h>
#include <nvrtc.h>

#include <cstddef>
#include <type_traits>

#include "cells/device/cuda/cuda_api.h"

namespace cellbatch::cuda {
namespace {

struct AnyHandle;

// A type without the names that CUDA and we have for the same: enumerations are int, handles are one.
template <typename T>
struct Plain {
  using Type = std::conditional_t<std::is_enum_v<T>, int,
                                  std::conditional_t<std::is_class_v<T>, AnyHandle, T>>;
};
template <typename T>
struct Plain<const T> {
  using Type = const typename Plain<T>::Type;
};
template <typename T>
struct Plain<T*> {
  using Type = typename Plain<T>::Type*;
};
template <typename R, typename... Arguments>
struct Plain<R(Arguments...)> {
  using Type = typename Plain<R>::Type(typename Plain<Arguments>::Type...);
};

template <typename Theirs, typename Ours>
constexpr bool kSame = std::is_same_v<typename Plain<Theirs>::Type*, typename Plain<Ours>::Type>;

static_assert(!kSame<decltype(::cuInit), decltype(DriverApi::device_count)>, "it tells them apart");

static_assert(kSame<decltype(::cuInit), decltype(DriverApi::init)>);
static_assert(kSame<decltype(::cuDriverGetVersion), decltype(DriverApi::driver_version)>);
static_assert(kSame<decltype(::cuDeviceGetCount), decltype(DriverApi::device_count)>);
static_assert(kSame<decltype(::cuDeviceGet), decltype(DriverApi::device_get)>);
static_assert(kSame<decltype(::cuDeviceGetName), decltype(DriverApi::device_name)>);
static_assert(kSame<decltype(::cuDeviceGetAttribute), decltype(DriverApi::device_attribute)>);
static_assert(kSame<decltype(::cuDevicePrimaryCtxRetain), decltype(DriverApi::context_retain)>);
static_assert(
    kSame<decltype(::cuDevicePrimaryCtxRelease_v2), decltype(DriverApi::context_release)>);
static_assert(kSame<decltype(::cuCtxSetCurrent), decltype(DriverApi::context_set)>);
static_assert(kSame<decltype(::cuMemGetInfo_v2), decltype(DriverApi::memory_info)>);
static_assert(kSame<decltype(::cuMemAlloc_v2), decltype(DriverApi::alloc)>);
static_assert(kSame<decltype(::cuMemFree_v2), decltype(DriverApi::free)>);
static_assert(kSame<decltype(::cuMemHostAlloc), decltype(DriverApi::host_alloc)>);
static_assert(kSame<decltype(::cuMemFreeHost), decltype(DriverApi::host_free)>);
static_assert(kSame<decltype(::cuMemcpyHtoDAsync_v2), decltype(DriverApi::copy_to_device)>);
static_assert(kSame<decltype(::cuMemcpyDtoHAsync_v2), decltype(DriverApi::copy_to_host)>);
static_assert(kSame<decltype(::cuMemsetD8Async), decltype(DriverApi::fill)>);
static_assert(kSame<decltype(::cuStreamCreate), decltype(DriverApi::stream_create)>);
static_assert(kSame<decltype(::cuStreamDestroy_v2), decltype(DriverApi::stream_destroy)>);
static_assert(kSame<decltype(::cuStreamQuery), decltype(DriverApi::stream_query)>);
static_assert(kSame<decltype(::cuStreamSynchronize), decltype(DriverApi::stream_synchronize)>);
static_assert(kSame<decltype(::cuStreamWriteValue32_v2), decltype(DriverApi::stream_write)>);
static_assert(kSame<decltype(::cuStreamBeginCapture_v2), decltype(DriverApi::capture_begin)>);
static_assert(kSame<decltype(::cuStreamEndCapture), decltype(DriverApi::capture_end)>);
static_assert(
    kSame<decltype(::cuGraphInstantiateWithFlags), decltype(DriverApi::graph_instantiate)>);
static_assert(kSame<decltype(::cuGraphLaunch), decltype(DriverApi::graph_launch)>);
static_assert(kSame<decltype(::cuGraphDestroy), decltype(DriverApi::graph_destroy)>);
static_assert(kSame<decltype(::cuGraphExecDestroy), decltype(DriverApi::graph_exec_destroy)>);
static_assert(kSame<decltype(::cuModuleLoadData), decltype(DriverApi::module_load)>);
static_assert(kSame<decltype(::cuModuleUnload), decltype(DriverApi::module_unload)>);
static_assert(kSame<decltype(::cuModuleGetFunction), decltype(DriverApi::module_function)>);
static_assert(kSame<decltype(::cuFuncGetAttribute), decltype(DriverApi::function_attribute)>);
static_assert(kSame<decltype(::cuFuncSetAttribute), decltype(DriverApi::function_set_attribute)>);
static_assert(kSame<decltype(::cuLaunchKernelEx), decltype(DriverApi::launch)>);
static_assert(kSame<decltype(::cuGetErrorName), decltype(DriverApi::error_name)>);
static_assert(kSame<decltype(::cuGetErrorString), decltype(DriverApi::error_text)>);

static_assert(kSame<decltype(::nvrtcVersion), decltype(NvrtcApi::version)>);
static_assert(kSame<decltype(::nvrtcCreateProgram), decltype(NvrtcApi::create)>);
static_assert(kSame<decltype(::nvrtcCompileProgram), decltype(NvrtcApi::compile)>);
static_assert(kSame<decltype(::nvrtcGetCUBINSize), decltype(NvrtcApi::cubin_size)>);
static_assert(kSame<decltype(::nvrtcGetCUBIN), decltype(NvrtcApi::cubin)>);
static_assert(kSame<decltype(::nvrtcGetProgramLogSize), decltype(NvrtcApi::log_size)>);
static_assert(kSame<decltype(::nvrtcGetProgramLog), decltype(NvrtcApi::log)>);
static_assert(kSame<decltype(::nvrtcDestroyProgram), decltype(NvrtcApi::destroy)>);

static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kComputeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kMostSharedOptin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kSharedSize == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(kLocalSize == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(kNumRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(kMostDynamicShared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kSuccess == NVRTC_SUCCESS);

static_assert(kProgrammaticSerialization == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, id) == offsetof(CUlaunchAttribute, id));
static_assert(offsetof(LaunchAttribute, value) ==
              offsetof(CUlaunchAttribute, value.programmaticStreamSerializationAllowed));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, grid_x) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(LaunchConfig, grid_y) == offsetof(CUlaunchConfig, gridDimY));
static_assert(offsetof(LaunchConfig, grid_z) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, block_y) == offsetof(CUlaunchConfig, blockDimY));
static_assert(offsetof(LaunchConfig, block_z) == offsetof(CUlaunchConfig, blockDimZ));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));

}  // namespace
}  // namespace cellbatch::cuda

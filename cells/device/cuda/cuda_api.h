// The entry points of CUDA's driver and of NVRTC, found when they are needed: nothing of CUDA is linked, no header of it is
// included, and a program that was built without the toolkit runs on a machine that has a driver. Written down once, here;
// cuda_api_check.cc compares every line with cuda.h and nvrtc.h where the toolkit is there to build it.
//
//   LoadCudaApi("")            libcuda.so.1 and libnvrtc.so.13 (or .12) where the system finds them
//   LoadCudaApi("/some/dir")   those in that folder: another driver, or the one that tests emulate
//
// The tables are plain functions: any thread, as CUDA says of each. Owned by whoever loaded them, who outlives all use.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_CUDA_API_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_CUDA_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace cellbatch::cuda {

// As cuda.h and nvrtc.h have them, by other names: handles are pointers to what nobody sees.
using Result = int;  // CUresult, nvrtcResult: 0 is success
using DeviceNumber = int;
using DevicePtr = unsigned long long;
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;
using Program = struct ProgramOpaque*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;
inline constexpr unsigned kHostAllocPortable = 1, kHostAllocDeviceMap = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureThreadLocal = 1;
// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kComputeMajor = 75, kComputeMinor = 76,
                     kMostSharedOptin = 97;
// CUfunction_attribute
inline constexpr int kSharedSize = 1, kLocalSize = 3, kNumRegisters = 4, kMostDynamicShared = 8;

// F(name in this table, name in the library, result, arguments)
#define CELLBATCH_CUDA_DRIVER(F)                                                                  \
  F(init, cuInit, (unsigned flags))                                                               \
  F(driver_version, cuDriverGetVersion, (int* version))                                           \
  F(device_count, cuDeviceGetCount, (int* count))                                                 \
  F(device_get, cuDeviceGet, (DeviceNumber * device, int ordinal))                                \
  F(device_name, cuDeviceGetName, (char* name, int length, DeviceNumber device))                  \
  F(device_attribute, cuDeviceGetAttribute, (int* value, int attribute, DeviceNumber device))     \
  F(context_retain, cuDevicePrimaryCtxRetain, (Context * context, DeviceNumber device))           \
  F(context_release, cuDevicePrimaryCtxRelease_v2, (DeviceNumber device))                         \
  F(context_set, cuCtxSetCurrent, (Context context))                                              \
  F(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                \
  F(alloc, cuMemAlloc_v2, (DevicePtr * memory, size_t bytes))                                     \
  F(free, cuMemFree_v2, (DevicePtr memory))                                                       \
  F(host_alloc, cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                    \
  F(host_free, cuMemFreeHost, (void* memory))                                                     \
  F(copy_to_device, cuMemcpyHtoDAsync_v2,                                                         \
    (DevicePtr to, const void* from, size_t bytes, Stream stream))                                \
  F(copy_to_host, cuMemcpyDtoHAsync_v2, (void* to, DevicePtr from, size_t bytes, Stream stream))  \
  F(fill, cuMemsetD8Async, (DevicePtr to, unsigned char value, size_t bytes, Stream stream))      \
  F(stream_create, cuStreamCreate, (Stream * stream, unsigned flags))                             \
  F(stream_destroy, cuStreamDestroy_v2, (Stream stream))                                          \
  F(stream_query, cuStreamQuery, (Stream stream))                                                 \
  F(stream_synchronize, cuStreamSynchronize, (Stream stream))                                     \
  F(stream_write, cuStreamWriteValue32_v2,                                                        \
    (Stream stream, DevicePtr to, uint32_t value, unsigned flags))                                \
  F(capture_begin, cuStreamBeginCapture_v2, (Stream stream, int mode))                            \
  F(capture_end, cuStreamEndCapture, (Stream stream, Graph * graph))                              \
  F(graph_instantiate, cuGraphInstantiateWithFlags,                                               \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                    \
  F(graph_launch, cuGraphLaunch, (GraphExec exec, Stream stream))                                 \
  F(graph_destroy, cuGraphDestroy, (Graph graph))                                                 \
  F(graph_exec_destroy, cuGraphExecDestroy, (GraphExec exec))                                     \
  F(module_load, cuModuleLoadData, (Module * module, const void* image))                          \
  F(module_unload, cuModuleUnload, (Module module))                                               \
  F(module_function, cuModuleGetFunction, (Function * function, Module module, const char* name)) \
  F(function_attribute, cuFuncGetAttribute, (int* value, int attribute, Function function))       \
  F(function_set_attribute, cuFuncSetAttribute, (Function function, int attribute, int value))    \
  F(launch, cuLaunchKernel,                                                                       \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,      \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments,  \
     void** extra))                                                                               \
  F(error_name, cuGetErrorName, (Result result, const char** name))                               \
  F(error_text, cuGetErrorString, (Result result, const char** text))

#define CELLBATCH_NVRTC(F)                                                                        \
  F(version, nvrtcVersion, (int* major, int* minor))                                              \
  F(create, nvrtcCreateProgram,                                                                   \
    (Program * program, const char* source, const char* name, int num_headers,                    \
     const char* const* headers, const char* const* include_names))                               \
  F(compile, nvrtcCompileProgram, (Program program, int num_options, const char* const* options)) \
  F(cubin_size, nvrtcGetCUBINSize, (Program program, size_t * bytes))                             \
  F(cubin, nvrtcGetCUBIN, (Program program, char* cubin))                                         \
  F(log_size, nvrtcGetProgramLogSize, (Program program, size_t * bytes))                          \
  F(log, nvrtcGetProgramLog, (Program program, char* log))                                        \
  F(destroy, nvrtcDestroyProgram, (Program * program))

#define CELLBATCH_CUDA_MEMBER(name, symbol, arguments) Result(*name) arguments = nullptr;

struct DriverApi {
  CELLBATCH_CUDA_DRIVER(CELLBATCH_CUDA_MEMBER)
};

struct NvrtcApi {
  CELLBATCH_NVRTC(CELLBATCH_CUDA_MEMBER)
};

#undef CELLBATCH_CUDA_MEMBER

struct CudaApi {
  DriverApi driver;
  NvrtcApi nvrtc;
  std::string from;  // the files they were found in, for logs
};

// NOT_FOUND: which library or function is missing, and where it was looked for.
absl::StatusOr<std::unique_ptr<const CudaApi>> LoadCudaApi(const std::string& folder);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CUDA_API_H_

// The entry points of CUDA's driver and of NVRTC, found when they are needed: nothing of CUDA is linked, no header of it is
// included, and a program that was built without the toolkit runs on a machine that has a driver. Their types are written
// down once, here; cuda_api_check.cc compares each with cuda.h and nvrtc.h where the toolkit is there to build it.
//
//   LoadCudaApi("")            libcuda.so.1 and libnvrtc.so.13 (or .12) where the system finds them
//   LoadCudaApi("/some/dir")   each that lies in that folder, the other where the system finds it: another driver, the NVRTC
//                              of a Python wheel, or those that tests emulate
//
// What was opened stays open until the process ends: a driver has threads of its own.
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

// CUlaunchAttribute, CUlaunchConfig
inline constexpr int kProgrammaticSerialization = 6;  // value: 1
struct LaunchAttribute {
  int id;
  alignas(8) int value;
  char rest_of_value[60];
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

// Each member is the function that its comment names.
struct DriverApi {
  Result (*init)(unsigned flags) = nullptr;                           // cuInit
  Result (*driver_version)(int* version) = nullptr;                   // cuDriverGetVersion
  Result (*device_count)(int* count) = nullptr;                       // cuDeviceGetCount
  Result (*device_get)(DeviceNumber* device, int ordinal) = nullptr;  // cuDeviceGet
  Result (*device_name)(char* name, int length, DeviceNumber device) = nullptr;  // cuDeviceGetName
  Result (*device_attribute)(int* value, int attribute,
                             DeviceNumber device) = nullptr;  // cuDeviceGetAttribute
  Result (*context_retain)(Context* context,
                           DeviceNumber device) = nullptr;       // cuDevicePrimaryCtxRetain
  Result (*context_release)(DeviceNumber device) = nullptr;      // cuDevicePrimaryCtxRelease_v2
  Result (*context_set)(Context context) = nullptr;              // cuCtxSetCurrent
  Result (*memory_info)(size_t* free, size_t* total) = nullptr;  // cuMemGetInfo_v2
  Result (*alloc)(DevicePtr* memory, size_t bytes) = nullptr;    // cuMemAlloc_v2
  Result (*free)(DevicePtr memory) = nullptr;                    // cuMemFree_v2
  Result (*host_alloc)(void** memory, size_t bytes, unsigned flags) = nullptr;  // cuMemHostAlloc
  Result (*host_free)(void* memory) = nullptr;                                  // cuMemFreeHost
  Result (*copy_to_device)(DevicePtr to, const void* from, size_t bytes,
                           Stream stream) = nullptr;  // cuMemcpyHtoDAsync_v2
  Result (*copy_to_host)(void* to, DevicePtr from, size_t bytes,
                         Stream stream) = nullptr;  // cuMemcpyDtoHAsync_v2
  Result (*fill)(DevicePtr to, unsigned char value, size_t bytes,
                 Stream stream) = nullptr;                            // cuMemsetD8Async
  Result (*stream_create)(Stream* stream, unsigned flags) = nullptr;  // cuStreamCreate
  Result (*stream_destroy)(Stream stream) = nullptr;                  // cuStreamDestroy_v2
  Result (*stream_query)(Stream stream) = nullptr;                    // cuStreamQuery
  Result (*stream_synchronize)(Stream stream) = nullptr;              // cuStreamSynchronize
  Result (*stream_write)(Stream stream, DevicePtr to, uint32_t value,
                         unsigned flags) = nullptr;              // cuStreamWriteValue32_v2
  Result (*capture_begin)(Stream stream, int mode) = nullptr;    // cuStreamBeginCapture_v2
  Result (*capture_end)(Stream stream, Graph* graph) = nullptr;  // cuStreamEndCapture
  Result (*graph_instantiate)(GraphExec* exec, Graph graph,
                              unsigned long long flags) = nullptr;  // cuGraphInstantiateWithFlags
  Result (*graph_launch)(GraphExec exec, Stream stream) = nullptr;  // cuGraphLaunch
  Result (*graph_destroy)(Graph graph) = nullptr;                   // cuGraphDestroy
  Result (*graph_exec_destroy)(GraphExec exec) = nullptr;           // cuGraphExecDestroy
  Result (*module_load)(Module* module, const void* image) = nullptr;  // cuModuleLoadData
  Result (*module_unload)(Module module) = nullptr;                    // cuModuleUnload
  Result (*module_function)(Function* function, Module module,
                            const char* name) = nullptr;  // cuModuleGetFunction
  Result (*function_attribute)(int* value, int attribute,
                               Function function) = nullptr;  // cuFuncGetAttribute
  Result (*function_set_attribute)(Function function, int attribute,
                                   int value) = nullptr;  // cuFuncSetAttribute
  Result (*launch)(const LaunchConfig* config, Function function, void** arguments,
                   void** extra) = nullptr;                          // cuLaunchKernelEx
  Result (*error_name)(Result result, const char** name) = nullptr;  // cuGetErrorName
  Result (*error_text)(Result result, const char** text) = nullptr;  // cuGetErrorString
};

struct NvrtcApi {
  Result (*version)(int* major, int* minor) = nullptr;  // nvrtcVersion
  Result (*create)(Program* program, const char* source, const char* name, int num_headers,
                   const char* const* headers,
                   const char* const* include_names) = nullptr;  // nvrtcCreateProgram
  Result (*compile)(Program program, int num_options,
                    const char* const* options) = nullptr;         // nvrtcCompileProgram
  Result (*cubin_size)(Program program, size_t* bytes) = nullptr;  // nvrtcGetCUBINSize
  Result (*cubin)(Program program, char* cubin) = nullptr;         // nvrtcGetCUBIN
  Result (*log_size)(Program program, size_t* bytes) = nullptr;    // nvrtcGetProgramLogSize
  Result (*log)(Program program, char* log) = nullptr;             // nvrtcGetProgramLog
  Result (*destroy)(Program* program) = nullptr;                   // nvrtcDestroyProgram
};

struct CudaApi {
  DriverApi driver;
  NvrtcApi nvrtc;
  std::string from;  // the files they were found in, for logs
};

// Any thread; milliseconds. NOT_FOUND: which library or function is missing, and where it was looked for.
absl::StatusOr<std::unique_ptr<const CudaApi>> LoadCudaApi(const std::string& folder);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CUDA_API_H_

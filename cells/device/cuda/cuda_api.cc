#include "cells/device/cuda/cuda_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch::cuda {
namespace {

constexpr const char* kDriverFiles[] = {"libcuda.so.1"};
constexpr const char* kNvrtcFiles[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

// One library that was opened; remembers the first function that it has not.
class Library {
 public:
  // The first of `files` that is in the folder, else the first that the system finds.
  static absl::StatusOr<Library> Open(const std::string& folder,
                                      std::span<const char* const> files) {
    for (const char* file : files) {
      const std::string path = folder + "/" + file;
      if (folder.empty() || access(path.c_str(), F_OK) != 0) continue;
      void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) return absl::NotFoundError(fmt::format("cuda: {}", dlerror()));
      return Library(handle, path);
    }
    for (const char* file : files) {
      void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) return Library(handle, file);
    }
    return absl::NotFoundError(
        fmt::format("cuda: {} is not there (looked for {}where the system finds libraries)",
                    files[0], folder.empty() ? "" : fmt::format("in {} and ", folder)));
  }

  template <typename Function>
  void Find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (function != nullptr || !missing_.empty()) return;
    missing_ = name;
  }
  absl::Status status() const {
    if (missing_.empty()) return absl::OkStatus();
    return absl::NotFoundError(
        fmt::format("cuda: {} has no {}: it is older than this build needs", file_, missing_));
  }
  // Where it really lies, by something in it.
  template <typename Function>
  std::string Place(Function* function) const {
    Dl_info info;
    const bool known = dladdr(reinterpret_cast<void*>(function), &info) != 0;
    return known && info.dli_fname != nullptr ? info.dli_fname : file_;
  }

 private:
  Library(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}

  void* handle_;
  std::string file_, missing_;
};

// NVRTC opens a library of its own, by a name without a folder; one that is open already is found. Where it cannot be opened,
// NVRTC says so when it compiles.
void OpenBuiltins(const std::string& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (!entry.path().filename().string().starts_with("libnvrtc-builtins.so.")) continue;
    dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

void FindDevicesAndMemory(Library& library, DriverApi& api) {
  library.Find("cuInit", api.init);
  library.Find("cuDriverGetVersion", api.driver_version);
  library.Find("cuDeviceGetCount", api.device_count);
  library.Find("cuDeviceGet", api.device_get);
  library.Find("cuDeviceGetName", api.device_name);
  library.Find("cuDeviceGetAttribute", api.device_attribute);
  library.Find("cuDevicePrimaryCtxRetain", api.context_retain);
  library.Find("cuDevicePrimaryCtxRelease_v2", api.context_release);
  library.Find("cuCtxSetCurrent", api.context_set);
  library.Find("cuMemGetInfo_v2", api.memory_info);
  library.Find("cuMemAlloc_v2", api.alloc);
  library.Find("cuMemFree_v2", api.free);
  library.Find("cuMemHostAlloc", api.host_alloc);
  library.Find("cuMemFreeHost", api.host_free);
  library.Find("cuMemcpyHtoDAsync_v2", api.copy_to_device);
  library.Find("cuMemcpyDtoHAsync_v2", api.copy_to_host);
  library.Find("cuMemsetD8Async", api.fill);
}

void FindStreamsAndKernels(Library& library, DriverApi& api) {
  library.Find("cuStreamCreate", api.stream_create);
  library.Find("cuStreamDestroy_v2", api.stream_destroy);
  library.Find("cuStreamQuery", api.stream_query);
  library.Find("cuStreamSynchronize", api.stream_synchronize);
  library.Find("cuStreamWriteValue32_v2", api.stream_write);
  library.Find("cuStreamBeginCapture_v2", api.capture_begin);
  library.Find("cuStreamEndCapture", api.capture_end);
  library.Find("cuGraphInstantiateWithFlags", api.graph_instantiate);
  library.Find("cuGraphLaunch", api.graph_launch);
  library.Find("cuGraphDestroy", api.graph_destroy);
  library.Find("cuGraphExecDestroy", api.graph_exec_destroy);
  library.Find("cuModuleLoadData", api.module_load);
  library.Find("cuModuleUnload", api.module_unload);
  library.Find("cuModuleGetFunction", api.module_function);
  library.Find("cuFuncGetAttribute", api.function_attribute);
  library.Find("cuFuncSetAttribute", api.function_set_attribute);
  library.Find("cuLaunchKernelEx", api.launch);
  library.Find("cuGetErrorName", api.error_name);
  library.Find("cuGetErrorString", api.error_text);
}

void FindCompiler(Library& library, NvrtcApi& api) {
  library.Find("nvrtcVersion", api.version);
  library.Find("nvrtcCreateProgram", api.create);
  library.Find("nvrtcCompileProgram", api.compile);
  library.Find("nvrtcGetCUBINSize", api.cubin_size);
  library.Find("nvrtcGetCUBIN", api.cubin);
  library.Find("nvrtcGetProgramLogSize", api.log_size);
  library.Find("nvrtcGetProgramLog", api.log);
  library.Find("nvrtcDestroyProgram", api.destroy);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const CudaApi>> LoadCudaApi(const std::string& folder) {
  auto driver = Library::Open(folder, kDriverFiles);
  if (!driver.ok()) return driver.status();
  if (!folder.empty()) OpenBuiltins(folder);
  auto nvrtc = Library::Open(folder, kNvrtcFiles);
  if (!nvrtc.ok()) return nvrtc.status();
  auto api = std::make_unique<CudaApi>();
  FindDevicesAndMemory(*driver, api->driver);
  FindStreamsAndKernels(*driver, api->driver);
  if (absl::Status s = driver->status(); !s.ok()) return s;
  FindCompiler(*nvrtc, api->nvrtc);
  if (absl::Status s = nvrtc->status(); !s.ok()) return s;
  api->from =
      fmt::format("{}, {}", driver->Place(api->driver.init), nvrtc->Place(api->nvrtc.version));
  return api;
}

}  // namespace cellbatch::cuda

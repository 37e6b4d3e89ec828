#include "cells/device/cuda/kernel_module.h"

#include <fmt/format.h>

#include <iterator>

#include "absl/status/status.h"

namespace cellbatch::cuda {
namespace {

constexpr int kSharedWithoutAsking = 48
                                     << 10;  // bytes a block; beyond, a kernel is told that it may

// What NVRTC makes of one text.
class Compilation {
 public:
  explicit Compilation(const NvrtcApi& nvrtc) : nvrtc_(nvrtc) {}
  ~Compilation() {
    if (program_ != nullptr) nvrtc_.destroy(&program_);
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  absl::Status Run(const std::string& source, const std::string& architecture) {
    const Result made = nvrtc_.create(&program_, source.c_str(), "cells.cu", 0, nullptr, nullptr);
    if (made != kSuccess) return Failed("nvrtcCreateProgram", made);
    const std::string target = "--gpu-architecture=" + architecture;
    // Denormals are flushed (device.h, point 8).
    const char* const options[] = {target.c_str(), "--std=c++17", "--ftz=true"};
    const Result compiled = nvrtc_.compile(program_, static_cast<int>(std::size(options)), options);
    if (compiled != kSuccess) return Failed("nvrtcCompileProgram", compiled);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<char>> Cubin() const {
    size_t bytes = 0;
    if (const Result r = nvrtc_.cubin_size(program_, &bytes); r != kSuccess) {
      return Failed("nvrtcGetCUBINSize", r);
    }
    std::vector<char> cubin(bytes);
    if (const Result r = nvrtc_.cubin(program_, cubin.data()); r != kSuccess) {
      return Failed("nvrtcGetCUBIN", r);
    }
    return cubin;
  }

 private:
  absl::Status Failed(const char* function, Result result) const {
    return absl::InternalError(fmt::format("cuda: {}: error {}{}", function, result, Log()));
  }
  std::string Log() const {
    size_t bytes = 0;
    if (program_ == nullptr || nvrtc_.log_size(program_, &bytes) != kSuccess || bytes <= 1) {
      return "";
    }
    std::string log(bytes, '\0');
    if (nvrtc_.log(program_, log.data()) != kSuccess) return "";
    return "\n" + log.substr(0, log.find('\0'));
  }

  const NvrtcApi& nvrtc_;
  Program program_ = nullptr;
};

}  // namespace

absl::StatusOr<std::vector<char>> CompileKernels(const CudaApi& api, const std::string& source,
                                                 const std::string& architecture) {
  Compilation compilation(api.nvrtc);
  if (absl::Status s = compilation.Run(source, architecture); !s.ok()) return s;
  return compilation.Cubin();
}

absl::StatusOr<KernelModule> KernelModule::Make(std::shared_ptr<const GpuContext> gpu,
                                                const std::string& source) {
  const auto cubin = CompileKernels(gpu->api(), source, gpu->architecture());
  if (!cubin.ok()) return cubin.status();
  if (absl::Status s = gpu->Use(); !s.ok()) return s;
  KernelModule module;
  const Result loaded = gpu->driver().module_load(&module.module_, cubin->data());
  if (absl::Status s = gpu->Called("cuModuleLoadData", loaded); !s.ok()) {
    module.module_ = nullptr;
    return s;
  }
  module.gpu_ = std::move(gpu);
  return module;
}

KernelModule::~KernelModule() {
  if (module_ != nullptr && gpu_->Use().ok()) gpu_->driver().module_unload(module_);
}

absl::StatusOr<Function> KernelModule::Find(const std::string& name, int shared_bytes) const {
  const DriverApi& driver = gpu_->driver();
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  Function function = nullptr;
  const Result found = driver.module_function(&function, module_, name.c_str());
  if (absl::Status s = gpu_->Called("cuModuleGetFunction", found); !s.ok()) return s;
  if (shared_bytes <= kSharedWithoutAsking) return function;
  const Result may = driver.function_set_attribute(function, kMostDynamicShared, shared_bytes);
  if (absl::Status s = gpu_->Called("cuFuncSetAttribute", may); !s.ok()) return s;
  return function;
}

}  // namespace cellbatch::cuda

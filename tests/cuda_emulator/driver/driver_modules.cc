// The driver's entry points for modules, functions and launches.
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/cubin_text.h"
#include "tests/cuda_emulator/driver/driver_state.h"

namespace cellbatch::emulator {
namespace {

using cuda::DriverApi;
using cuda::Function;
using cuda::kSuccess;
using cuda::LaunchConfig;
using cuda::Module;
using cuda::Result;
using cuda::Stream;

constexpr int kRegisters = 32;  // of each thread, as any compiler might say
constexpr unsigned kMostBlocksY = 65'535, kMostBlocksX = 0x7fffffff;

Result FindFunction(Function handle, std::shared_ptr<LoadedFunction>* function) {
  Result result = kSuccess;
  const EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu != nullptr) *function = Known(DriverState::Get().functions, handle, *gpu, &result);
  return result;
}

// False: a null pointer is among them.
bool CopyArguments(const KernelFunction& function, void** arguments,
                   std::vector<ArgumentWord>* to) {
  if (!function.argument_bytes.empty() && arguments == nullptr) return false;
  for (size_t i = 0; i < function.argument_bytes.size(); ++i) {
    if (arguments[i] == nullptr) return false;
    const size_t bytes = function.argument_bytes[i], first = to->size();
    to->resize(first + (bytes + sizeof(ArgumentWord) - 1) / sizeof(ArgumentWord));
    std::memcpy(to->data() + first, arguments[i], bytes);
  }
  return true;
}

}  // namespace

extern "C" {

Result cuModuleLoadData(Module* module, const void* image) {
  Result result = kSuccess;
  const EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  if (module == nullptr || image == nullptr) return kInvalidValue;
  UnsafeWhileCapturing(*gpu, "cuModuleLoadData");
  const auto* const text = static_cast<const char*>(image);
  constexpr size_t kMagicLength = sizeof kCubinMagic - 1;
  if (std::strncmp(text, kCubinMagic, kMagicLength) != 0) return kInvalidImage;
  auto object = KernelObject::Compile(text + kMagicLength, CubinCacheFolder(),
                                      gpu->checks() ? Watched::kYes : Watched::kNo);
  if (!object.ok()) {
    DriverState::Get().findings.Add("cuModuleLoadData: " + std::string(object.status().message()));
    return kInvalidImage;
  }
  auto loaded = std::make_shared<LoadedImage>();
  loaded->gpu = gpu->number();
  loaded->context = gpu->context();
  loaded->object = *std::move(object);
  *module = DriverState::Get().modules.Add<Module>(std::move(loaded));
  return kSuccess;
}

Result cuModuleUnload(Module handle) {
  Result result = kSuccess;
  const EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  DriverState& state = DriverState::Get();
  const auto module = Known(state.modules, handle, *gpu, &result);
  if (module == nullptr) return result;
  state.modules.Remove(handle);
  const std::lock_guard lock(module->mutex);
  for (const Function function : module->functions) state.functions.Remove(function);
  return kSuccess;
}

Result cuModuleGetFunction(Function* function, Module handle, const char* name) {
  Result result = kSuccess;
  const EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  if (function == nullptr || name == nullptr) return kInvalidValue;
  DriverState& state = DriverState::Get();
  const auto module = Known(state.modules, handle, *gpu, &result);
  if (module == nullptr) return result;
  const KernelFunction* const kernel = module->object->Find(name);
  if (kernel == nullptr) return kNotFound;
  auto found = std::make_shared<LoadedFunction>();
  found->gpu = module->gpu;
  found->context = module->context;
  found->object = module->object;
  found->function = kernel;
  *function = state.functions.Add<Function>(std::move(found));
  const std::lock_guard lock(module->mutex);
  module->functions.push_back(*function);
  return kSuccess;
}

Result cuFuncGetAttribute(int* value, int attribute, Function handle) {
  std::shared_ptr<LoadedFunction> function;
  if (const Result r = FindFunction(handle, &function); r != kSuccess) return r;
  if (value == nullptr) return kInvalidValue;
  switch (attribute) {
    case cuda::kSharedSize:
    case cuda::kLocalSize:
      *value = 0;
      return kSuccess;
    case cuda::kNumRegisters:
      *value = kRegisters;
      return kSuccess;
    case cuda::kMostDynamicShared:
      *value = function->most_shared;
      return kSuccess;
    default:
      return kNotSupported;
  }
}

Result cuFuncSetAttribute(Function handle, int attribute, int value) {
  std::shared_ptr<LoadedFunction> function;
  if (const Result r = FindFunction(handle, &function); r != kSuccess) return r;
  if (attribute != cuda::kMostDynamicShared) return kNotSupported;
  if (value < 0 || value > DriverState::Get().most_shared) return kInvalidValue;
  function->most_shared = value;
  return kSuccess;
}

Result cuLaunchKernelEx(const LaunchConfig* config, Function handle, void** arguments,
                        void** extra) {
  if (config == nullptr) return kInvalidValue;
  const auto [grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream_handle,
              attributes, num_attributes] = *config;
  bool early = false;
  for (unsigned a = 0; a < num_attributes; ++a) {
    if (attributes[a].id != cuda::kProgrammaticSerialization) return kNotSupported;
    early = attributes[a].value != 0;
  }
  Result result = kSuccess;
  EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  DriverState& state = DriverState::Get();
  const auto function = Known(state.functions, handle, *gpu, &result);
  const auto stream = Known(state.streams, stream_handle, *gpu, &result);
  if (function == nullptr || stream == nullptr) return result;
  if (grid_z > 1 || block_y > 1 || block_z > 1 || extra != nullptr) return kNotSupported;
  if (grid_x < 1 || grid_x > kMostBlocksX || grid_y < 1 || grid_y > kMostBlocksY || grid_z < 1 ||
      block_x < 1 || block_x > kMostThreads || block_y < 1 || block_z < 1 ||
      shared_bytes > static_cast<unsigned>(function->most_shared) ||
      grid_y % function->function->cluster_y != 0) {
    return kInvalidValue;
  }
  KernelLaunch launch{.object = function->object,
                      .function = function->function,
                      .grid = {grid_x, grid_y, block_x, shared_bytes, early},
                      .arguments = {}};
  if (!CopyArguments(*function->function, arguments, &launch.arguments)) return kInvalidValue;
  return gpu->Push(*stream, {std::make_shared<const GpuOperation>(std::move(launch))});
}

}  // extern "C"

static_assert(std::is_same_v<decltype(&cuModuleLoadData), decltype(DriverApi::module_load)>);
static_assert(std::is_same_v<decltype(&cuModuleUnload), decltype(DriverApi::module_unload)>);
static_assert(std::is_same_v<decltype(&cuModuleGetFunction), decltype(DriverApi::module_function)>);
static_assert(
    std::is_same_v<decltype(&cuFuncGetAttribute), decltype(DriverApi::function_attribute)>);
static_assert(
    std::is_same_v<decltype(&cuFuncSetAttribute), decltype(DriverApi::function_set_attribute)>);
static_assert(std::is_same_v<decltype(&cuLaunchKernelEx), decltype(DriverApi::launch)>);

}  // namespace cellbatch::emulator

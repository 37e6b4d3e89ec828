#include "tests/cuda_emulator/driver/driver_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace cellbatch::emulator {
namespace {

using cuda::Result;

constexpr uint64_t kMostGpus = 8;
constexpr size_t kGpuBytes = size_t{2} << 30;

// A test that asks for what there is not would pass for the wrong reason.
[[noreturn]] void Misconfigured(const char* name, const char* value) {
  std::fprintf(stderr, "emulated CUDA driver: %s=%s means nothing\n", name, value);
  std::abort();
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*end != '\0') Misconfigured(name, text);
  return value;
}

// delay=ONE_IN:MOST_US, of all GPUs; fail_launch=GPU:AFTER
void ApplyFaults(const std::string& faults, DriverState& state) {
  size_t from = 0;
  while (from < faults.size()) {
    const size_t end = std::min(faults.find(';', from), faults.size());
    const std::string fault = faults.substr(from, end - from);
    from = end + 1;
    int first = 0, second = 0, read = 0;
    const auto length = static_cast<int>(fault.size());
    if (std::sscanf(fault.c_str(), "delay=%d:%d%n", &first, &second, &read) == 2 &&
        read == length) {
      for (int i = 0; i < state.num_gpus(); ++i) state.gpu(i)->Delay(first, second);
    } else if (std::sscanf(fault.c_str(), "fail_launch=%d:%d%n", &first, &second, &read) == 2 &&
               read == length) {
      if (state.gpu(first) != nullptr) state.gpu(first)->FailLaunch(second);
    } else {
      Misconfigured("CELLBATCH_EMULATOR_FAULTS", faults.c_str());
    }
  }
}

}  // namespace

DriverState::DriverState()
    : memory(FromEnvironment("CELLBATCH_EMULATED_GPU_BYTES", kGpuBytes), findings) {
  const uint64_t count = FromEnvironment("CELLBATCH_EMULATED_GPUS", 1);
  if (count > kMostGpus) {
    Misconfigured("CELLBATCH_EMULATED_GPUS", std::getenv("CELLBATCH_EMULATED_GPUS"));
  }
  const uint64_t seed = FromEnvironment("CELLBATCH_EMULATOR_SEED", 1);
  for (uint64_t i = 0; i < count; ++i) {
    gpus_.push_back(
        std::make_unique<EmulatedGpu>(static_cast<int>(i), seed, memory, host_writes, findings));
  }
  const uint64_t checks = FromEnvironment("CELLBATCH_EMULATOR_CHECKS", 1);
  if (checks > 1) {
    Misconfigured("CELLBATCH_EMULATOR_CHECKS", std::getenv("CELLBATCH_EMULATOR_CHECKS"));
  }
  for (const auto& gpu : gpus_) gpu->SetChecks(checks == 1);
  const char* const faults = std::getenv("CELLBATCH_EMULATOR_FAULTS");
  if (faults != nullptr) ApplyFaults(faults, *this);
}

DriverState& DriverState::Get() {
  static auto* const state = new DriverState();
  return *state;
}

Result DriverState::Init() {
  if (gpus_.empty()) return kNoDevice;
  initialized_ = true;
  return cuda::kSuccess;
}

CurrentContext& Current() {
  static thread_local CurrentContext current;
  return current;
}

EmulatedGpu* UsableGpu(Result* result) {
  const CurrentContext& current = Current();
  if (!DriverState::Get().initialized()) {
    *result = kNotInitialized;
  } else if (current.gpu == nullptr || current.gpu->context() != current.context) {
    *result = kInvalidContext;
  } else {
    *result = current.gpu->state();
  }
  return *result == cuda::kSuccess ? current.gpu : nullptr;
}

void UnsafeWhileCapturing(const EmulatedGpu& gpu, const char* call) {
  if (!gpu.CapturesHere()) return;
  DriverState::Get().findings.Add(
      fmt::format("GPU {}: {} on a thread that captures", gpu.number(), call));
}

}  // namespace cellbatch::emulator

#include "tests/cuda_emulator/driver/emulated_gpus.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cells/check.h"

namespace cellbatch::emulator {
namespace {

constexpr char kFolder[] = "tests/cuda_emulator/driver";  // of the workspace, where tests start

}  // namespace

std::string EmulatedDriverFolder() {
  const char* const runfiles = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  if (runfiles == nullptr || workspace == nullptr) return std::filesystem::absolute(kFolder);
  return std::filesystem::absolute(std::filesystem::path(runfiles) / workspace / kFolder);
}

std::shared_ptr<const cuda::CudaApi> EmulatedApi(int gpus, int64_t bytes_each) {
  static const std::shared_ptr<const cuda::CudaApi> api = [&] {
    setenv("CELLBATCH_EMULATED_GPUS", std::to_string(gpus).c_str(), 1);
    if (bytes_each > 0) {
      setenv("CELLBATCH_EMULATED_GPU_BYTES", std::to_string(bytes_each).c_str(), 1);
    }
    auto loaded = cuda::LoadCudaApi(EmulatedDriverFolder());
    Check(loaded.ok(), loaded.status().ToString());
    return std::shared_ptr<const cuda::CudaApi>(*std::move(loaded));
  }();
  return api;
}

const EmulatorControl& LoadedEmulator() {
  const std::string file = EmulatedDriverFolder() + "/libcuda.so.1";
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  Check(library != nullptr, "nobody has loaded " + file);
  const auto control =
      reinterpret_cast<const EmulatorControl* (*)()>(dlsym(library, "cellbatch_emulator"));
  Check(control != nullptr, file + " is no emulator");
  dlclose(library);  // who loaded it keeps it
  return *control();
}

std::vector<std::string> EmulatorFindings() {
  const EmulatorControl& control = LoadedEmulator();
  std::vector<std::string> findings(control.num_findings());
  for (size_t i = 0; i < findings.size(); ++i) {
    std::string& finding = findings[i];
    finding.resize(control.finding(i, nullptr, 0));
    control.finding(i, finding.data(), finding.size() + 1);
  }
  return findings;
}

}  // namespace cellbatch::emulator

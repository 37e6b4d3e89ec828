// Compiles kernels from standard input as a device does at load, and says how large the machine code is:
//
//   print_source 64 lstm | compile_source FOLDER sm_90     FOLDER: where libcuda.so.1 and libnvrtc.so.13 are looked for first
//
// Needs no GPU. Exit code 1 with the compiler's words where it refuses.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "cells/device/cuda/cuda_api.h"
#include "cells/device/cuda/kernel_module.h"

namespace cellbatch {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

int CompileSource(const std::string& folder, const std::string& architecture) {
  const auto api = cuda::LoadCudaApi(folder);
  if (!api.ok()) return Fail(api.status());
  const std::string source{std::istreambuf_iterator<char>(std::cin), {}};
  const auto cubin = cuda::CompileKernels(**api, source, architecture);
  if (!cubin.ok()) return Fail(cubin.status());
  std::printf("%zu bytes of %.4s\n", cubin->size(), cubin->data());
  return 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("compile_source FOLDER ARCHITECTURE\n", stderr);
    return 2;
  }
  return cellbatch::CompileSource(argv[1], argv[2]);
}

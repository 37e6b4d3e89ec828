// What tests of the driver share: its table, kernels that are compiled, and what lives as long as a test's block.
//
//   GpuInUse gpu(Compile(source).cubin, 0);      its context, current on this thread, with the kernels in it
//   OnGpu<int> list(4);   Pinned<int> out(4);    memory, freed at the end; each call expected to succeed
//   gpu.Launch("Note", stream, 1, 32, list.get(), 7);
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_DRIVER_BENCH_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_DRIVER_BENCH_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::emulator {

inline const cuda::CudaApi& Api() {
  static const auto api = cuda::LoadCudaApi(EmulatedDriverFolder());
  Check(api.ok(), api.status().ToString());
  return **api;
}
inline const cuda::DriverApi& Cu() { return Api().driver; }

struct Compiled {
  cuda::Result result = cuda::kSuccess;
  std::string cubin, log;
};

inline Compiled Compile(const char* source) {
  const cuda::NvrtcApi& nvrtc = Api().nvrtc;
  Compiled compiled;
  cuda::Program program = nullptr;
  EXPECT_EQ(nvrtc.create(&program, source, "test.cu", 0, nullptr, nullptr), cuda::kSuccess);
  const char* const options[] = {"--gpu-architecture=sm_90"};
  compiled.result = nvrtc.compile(program, 1, options);
  size_t bytes = 0;
  EXPECT_EQ(nvrtc.log_size(program, &bytes), cuda::kSuccess);
  compiled.log.resize(bytes);
  EXPECT_EQ(nvrtc.log(program, compiled.log.data()), cuda::kSuccess);
  EXPECT_EQ(compiled.log.back(), '\0');
  EXPECT_EQ(nvrtc.cubin_size(program, &bytes), cuda::kSuccess);
  compiled.cubin.resize(bytes);
  EXPECT_EQ(nvrtc.cubin(program, compiled.cubin.data()), cuda::kSuccess);
  EXPECT_EQ(nvrtc.destroy(&program), cuda::kSuccess);
  EXPECT_NE(nvrtc.compile(program, 0, nullptr), cuda::kSuccess);
  return compiled;
}

// REQUIRES: it compiles.
inline std::string CubinOf(const char* source) {
  Compiled compiled = Compile(source);
  Check(compiled.result == cuda::kSuccess, compiled.log);
  return std::move(compiled.cubin);
}

// x by y blocks of so many threads, behind what the stream has.
inline cuda::Result LaunchGrid(cuda::Function function, unsigned x, unsigned y, unsigned threads,
                               unsigned shared_bytes, cuda::Stream stream, void** arguments) {
  const cuda::LaunchConfig config = {x, y, 1, threads, 1, 1, shared_bytes, stream, nullptr, 0};
  return Cu().launch(&config, function, arguments, nullptr);
}

// A context of one GPU with the kernels in it, current on the thread that made it; gone with what was made by it.
class GpuInUse {
 public:
  GpuInUse(const std::string& cubin, int number) : number_(number) {
    EXPECT_EQ(Cu().context_retain(&context, number), cuda::kSuccess);
    MakeCurrent();
    EXPECT_EQ(Cu().module_load(&module, cubin.c_str()), cuda::kSuccess);
  }
  ~GpuInUse() { EXPECT_EQ(Cu().context_release(number_), cuda::kSuccess); }
  GpuInUse(const GpuInUse&) = delete;
  GpuInUse& operator=(const GpuInUse&) = delete;

  void MakeCurrent() const { EXPECT_EQ(Cu().context_set(context), cuda::kSuccess); }
  cuda::Stream NewStream() const {
    cuda::Stream stream = nullptr;
    EXPECT_EQ(Cu().stream_create(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
    return stream;
  }
  cuda::Function Kernel(const char* name) const {
    cuda::Function function = nullptr;
    EXPECT_EQ(Cu().module_function(&function, module, name), cuda::kSuccess);
    return function;
  }
  template <typename... A>
  cuda::Result Launch(const char* name, cuda::Stream stream, unsigned blocks, unsigned threads,
                      A... arguments) const {
    void* pointers[] = {&arguments...};
    return LaunchGrid(Kernel(name), blocks, 1, threads, 0, stream, pointers);
  }

  cuda::Context context = nullptr;
  cuda::Module module = nullptr;

 private:
  const int number_;
};

template <typename T>
class OnGpu {
 public:
  explicit OnGpu(size_t count) : count_(count) {
    EXPECT_EQ(Cu().alloc(&at_, count * sizeof(T)), cuda::kSuccess);
  }
  ~OnGpu() { EXPECT_EQ(Cu().free(at_), freed_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  T* get() const { return reinterpret_cast<T*>(at_); }
  cuda::DevicePtr at() const { return at_; }
  // Once all that is queued on the stream is done.
  std::vector<T> Read(cuda::Stream stream) const {
    std::vector<T> all(count_);
    EXPECT_EQ(Cu().copy_to_host(all.data(), at_, count_ * sizeof(T), stream), cuda::kSuccess);
    return all;
  }
  void expect_freed(cuda::Result result) { freed_ = result; }

 private:
  const size_t count_;
  cuda::DevicePtr at_ = 0;
  cuda::Result freed_ = cuda::kSuccess;
};

template <typename T>
class Pinned {
 public:
  explicit Pinned(size_t count) {
    void* at = nullptr;
    EXPECT_EQ(Cu().host_alloc(&at, count * sizeof(T), cuda::kHostAllocPortable), cuda::kSuccess);
    at_ = static_cast<T*>(at);
  }
  ~Pinned() { EXPECT_EQ(Cu().host_free(at_), freed_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* get() const { return at_; }
  T& operator[](size_t i) const { return at_[i]; }
  void expect_freed(cuda::Result result) { freed_ = result; }

 private:
  T* at_ = nullptr;
  cuda::Result freed_ = cuda::kSuccess;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_DRIVER_BENCH_H_

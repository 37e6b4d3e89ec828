// oneDNN through its C interface, declared here as far as it is needed, because no header may be installed. Versions
// 2 and 3 differ in who makes a memory descriptor (2: a struct of the caller's, 3: an opaque pointer) and in one step
// before a primitive (2: an operation descriptor); executing is the same. One thread; for benchmarks, which end soon:
// descriptors of primitives are never given back.
#ifndef CELLBATCH_TESTS_BENCH_ONEDNN_H_
#define CELLBATCH_TESTS_BENCH_ONEDNN_H_

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cells/kernels/cpu/packed_memory.h"

namespace cellbatch::onednn {

using Status = int;  // 0: good
using Dims = int64_t[12];
struct Argument {
  int index;
  void* memory;
};
// What numbers are, by the library's own numbers.
enum class Numbers : int { kBf16 = 2, kFp32 = 3 };
struct VersionInfo {
  int major, minor, patch;
};
inline constexpr int kInference = 96, kSource = 1, kDestination = 17, kWeights = 33;
inline constexpr int kSourceState = 2, kSourceCell = 3, kDestinationState = 18,
                     kDestinationCell = 19, kStateWeights = 34, kBias = 41;

// A memory descriptor of either version: bytes for the struct of version 2, room for the pointer of version 3.
struct Descriptor {
  alignas(64) std::array<std::byte, 2048> bytes{};
  void* pointer = nullptr;
  const void* Get(int major) const { return major >= 3 ? pointer : bytes.data(); }
};

// One library with an engine and a stream of it.
class Library {
 public:
  // Whether the shared object is one at all, of a version that we know, with an engine for CPUs. (A build for SYCL has
  // none where there is no OpenCL driver for CPUs.)
  bool Open(void* shared_object);

  int major() const { return major_; }
  void* engine() const { return engine_; }
  std::string name() const;  // "oneDNN 3.6.2"

  template <class F>
  F* Find(const char* symbol) const {
    return reinterpret_cast<F*>(dlsym(shared_object_, symbol));
  }

  // `strides` null: as the library likes.
  bool Describe(int num_dims, const Dims& dims, const int64_t* strides, Descriptor* to,
                Numbers numbers = Numbers::kFp32) const;
  // The function that version 2 calls between describing an operation and asking for a primitive of it.
  void* Chosen(const void* operation) const;
  void* Primitive(void* chosen) const { return Make(primitive_create_, chosen); }
  void* MemoryAt(const void* descriptor, const void* data) const;
  // A primitive that converts (kSource to kDestination); null: it cannot.
  void* Conversion(const void* from, const void* to) const;

  // `data`, which `plain` describes, in the layout that the chosen primitive wants for its weights number `which`, on
  // huge pages of `room`: they are worth up to half the time of a small batch, and are no merit of a kernel. Null: it
  // cannot be had.
  void* Packed(void* chosen, int which, const Descriptor& plain, const float* data,
               kernels::PackedMemory* room) const;

  bool Execute(void* primitive, const Argument* arguments, int count) const {
    return execute_(primitive, stream_, count, arguments) == 0 && stream_wait_(stream_) == 0;
  }
  void Destroy(void** memory) const;
  void DestroyPrimitive(void** primitive) const;

 private:
  using CreatePrimitive = Status(void** primitive, const void* descriptor);
  static void* Make(CreatePrimitive* create, const void* descriptor);

  void *shared_object_ = nullptr, *engine_ = nullptr, *stream_ = nullptr;
  int major_ = 0;
  const VersionInfo* (*version_)() = nullptr;
  Status (*stream_wait_)(void* stream) = nullptr;
  Status (*memory_create_)(void** memory, const void* descriptor, void* engine,
                           void* handle) = nullptr;
  Status (*memory_destroy_)(void* memory) = nullptr;
  CreatePrimitive* primitive_create_ = nullptr;
  Status (*primitive_destroy_)(void* primitive) = nullptr;
  Status (*execute_)(const void* primitive, void* stream, int count,
                     const Argument* arguments) = nullptr;
};

}  // namespace cellbatch::onednn

#endif  // CELLBATCH_TESTS_BENCH_ONEDNN_H_

// oneDNN through its C interface, declared here as far as it is needed, because no header may be installed. Versions
// 2 and 3 differ in who makes a memory descriptor (2: a struct of the caller's, 3: an opaque pointer) and in one step
// before a primitive (2: an operation descriptor); executing is the same.
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "cells/kernels/cpu/packed_memory.h"
#include "tests/bench/peers.h"

namespace cellbatch {
namespace {

using Status = int;
using Dims = int64_t[12];
struct Argument {
  int index;
  void* memory;
};
struct VersionInfo {
  int major, minor, patch;
};
constexpr int kCpu = 1, kF32 = 3, kInference = 96, kAnyTag = 1, kWeightsDescriptor = 131;
constexpr int kSource = 1, kDestination = 17, kWeights = 33;

// The functions that both versions have alike.
struct Api {
  explicit Api(void* of) : library(of) {
    Find("dnnl_version", &version);
    Find("dnnl_engine_create", &engine_create);
    Find("dnnl_stream_create", &stream_create);
    Find("dnnl_stream_wait", &stream_wait);
    Find("dnnl_memory_create", &memory_create);
    Find("dnnl_memory_destroy", &memory_destroy);
    Find("dnnl_primitive_create", &primitive_create);
    Find("dnnl_primitive_destroy", &primitive_destroy);
    Find("dnnl_primitive_execute", &execute);
    Find("dnnl_primitive_desc_query_md", &query_descriptor);
    Find("dnnl_reorder_primitive_desc_create", &reorder_create);
    Find("dnnl_memory_desc_get_size", &descriptor_size);
  }
  template <class F>
  F* Find(const char* name, F** to = nullptr) const {
    F* const found = reinterpret_cast<F*>(dlsym(library, name));
    if (to != nullptr) *to = found;
    return found;
  }

  void* library;
  const VersionInfo* (*version)();
  Status (*engine_create)(void** engine, int kind, size_t index);
  Status (*stream_create)(void** stream, void* engine, unsigned flags);
  Status (*stream_wait)(void* stream);
  Status (*memory_create)(void** memory, const void* descriptor, void* engine, void* handle);
  Status (*memory_destroy)(void* memory);
  Status (*primitive_create)(void** primitive, const void* descriptor);
  Status (*primitive_destroy)(void* primitive);
  Status (*execute)(const void* primitive, void* stream, int count, const Argument* arguments);
  const void* (*query_descriptor)(const void* primitive_descriptor, int what, int index);
  size_t (*descriptor_size)(const void* descriptor);
  Status (*reorder_create)(void** to, const void* from_descriptor, void* from_engine,
                           const void* to_descriptor, void* to_engine, const void* attributes);
};

// A memory descriptor of either version: bytes for the struct of version 2, room for the pointer of version 3.
struct Descriptor {
  alignas(64) std::array<std::byte, 4096> bytes{};
  void* pointer = nullptr;
  const void* Get(int major) const { return major >= 3 ? pointer : bytes.data(); }
};

enum class Primitive { kMatmul, kInnerProduct };

class OneDnn : public ProductPeer {
 public:
  OneDnn(std::string name, Api api, Primitive primitive)
      : ProductPeer(std::move(name)), api_(api), primitive_(primitive) {
    major_ = api_.version()->major;
    // A build for SYCL has no engine where there is no OpenCL driver for the CPU.
    usable_ =
        api_.engine_create(&engine_, kCpu, 0) == 0 && api_.stream_create(&stream_, engine_, 1) == 0;
  }
  bool usable() const { return usable_; }
  ~OneDnn() override { Drop(); }

  bool Prepare(int b, int k, int n, const float* weights) override {
    Drop();
    const bool inner = primitive_ == Primitive::kInnerProduct;
    const Dims source = {b, k}, destination = {b, n}, row_major = {n, 1};
    const Dims x_strides = {k, 1}, inner_weights = {n, k}, transposed = {1, n};
    const Dims matmul_weights = {k, n};
    Descriptor x, y, plain, any;
    const auto& weight_dims = inner ? inner_weights : matmul_weights;
    if (!Describe(source, x_strides, &x) || !Describe(destination, row_major, &y) ||
        !Describe(weight_dims, inner ? transposed : row_major, &plain) ||
        !Describe(weight_dims, nullptr, &any)) {
      return false;
    }
    void* const chosen = CreateProduct(x, any, y);
    if (chosen == nullptr || api_.primitive_create(&product_, chosen) != 0) return false;
    const void* packed = api_.query_descriptor(chosen, kWeightsDescriptor, 0);
    void* from = nullptr;
    void* const borrowed = const_cast<float*>(weights);
    if (api_.memory_create(&from, plain.Get(major_), engine_, borrowed) != 0 ||
        api_.memory_create(&weights_, packed, engine_, HugePages(packed)) != 0 ||
        !Reorder(plain.Get(major_), from, packed, weights_)) {
      return false;
    }
    api_.memory_destroy(from);
    x_descriptor_ = x, y_descriptor_ = y;
    return true;
  }

  void Multiply(const float* x, float* y) override {
    if (x != x_ || y != y_) Bind(x, y);
    const Argument arguments[] = {
        {kSource, x_memory_}, {kWeights, weights_}, {kDestination, y_memory_}};
    api_.execute(product_, stream_, 3, arguments);
    api_.stream_wait(stream_);
  }

 private:
  // Room for what a descriptor describes, on huge pages like our own weights: they are worth up to half the time of a
  // small batch, and are no merit of a kernel.
  void* HugePages(const void* descriptor) {
    const size_t bytes = api_.descriptor_size(descriptor);
    packed_ = kernels::PackedMemory(static_cast<int64_t>(bytes / sizeof(float) + 1));
    return packed_.data();
  }

  bool Describe(const Dims& dims, const int64_t* strides, Descriptor* to) const {
    const bool tag = strides == nullptr;
    if (major_ >= 3) {
      using WithTag = Status(void**, int, const int64_t*, int, int);
      using WithStrides = Status(void**, int, const int64_t*, int, const int64_t*);
      return tag ? api_.Find<WithTag>("dnnl_memory_desc_create_with_tag")(&to->pointer, 2, dims,
                                                                          kF32, kAnyTag) == 0
                 : api_.Find<WithStrides>("dnnl_memory_desc_create_with_strides")(
                       &to->pointer, 2, dims, kF32, strides) == 0;
    }
    using WithTag = Status(void*, int, const int64_t*, int, int);
    using WithStrides = Status(void*, int, const int64_t*, int, const int64_t*);
    return tag ? api_.Find<WithTag>("dnnl_memory_desc_init_by_tag")(to->bytes.data(), 2, dims, kF32,
                                                                    kAnyTag) == 0
               : api_.Find<WithStrides>("dnnl_memory_desc_init_by_strides")(
                     to->bytes.data(), 2, dims, kF32, strides) == 0;
  }

  void* CreateProduct(const Descriptor& x, const Descriptor& w, const Descriptor& y) const {
    void* chosen = nullptr;
    const bool inner = primitive_ == Primitive::kInnerProduct;
    const void *px = x.Get(major_), *pw = w.Get(major_), *py = y.Get(major_);
    if (major_ >= 3) {
      using Matmul =
          Status(void**, void*, const void*, const void*, const void*, const void*, const void*);
      using Inner = Status(void**, void*, int, const void*, const void*, const void*, const void*,
                           const void*);
      if (inner) {
        api_.Find<Inner>("dnnl_inner_product_forward_primitive_desc_create")(
            &chosen, engine_, kInference, px, pw, nullptr, py, nullptr);
      } else {
        api_.Find<Matmul>("dnnl_matmul_primitive_desc_create")(&chosen, engine_, px, pw, nullptr,
                                                               py, nullptr);
      }
      return chosen;
    }
    alignas(64) std::array<std::byte, 16384> operation{};
    if (inner) {
      using Inner = Status(void*, int, const void*, const void*, const void*, const void*);
      api_.Find<Inner>("dnnl_inner_product_forward_desc_init")(operation.data(), kInference, px, pw,
                                                               nullptr, py);
    } else {
      using Matmul = Status(void*, const void*, const void*, const void*, const void*);
      api_.Find<Matmul>("dnnl_matmul_desc_init")(operation.data(), px, pw, nullptr, py);
    }
    using Create = Status(void**, const void*, const void*, void*, const void*);
    api_.Find<Create>("dnnl_primitive_desc_create")(&chosen, operation.data(), nullptr, engine_,
                                                    nullptr);
    return chosen;
  }

  bool Reorder(const void* from_descriptor, void* from, const void* to_descriptor, void* to) const {
    void *chosen = nullptr, *reorder = nullptr;
    if (api_.reorder_create(&chosen, from_descriptor, engine_, to_descriptor, engine_, nullptr) !=
            0 ||
        api_.primitive_create(&reorder, chosen) != 0) {
      return false;
    }
    const Argument arguments[] = {{kSource, from}, {kDestination, to}};
    const bool done = api_.execute(reorder, stream_, 2, arguments) == 0;
    api_.stream_wait(stream_);
    api_.primitive_destroy(reorder);
    return done;
  }

  void Bind(const float* x, float* y) {
    x_ = x, y_ = y;
    api_.memory_create(&x_memory_, x_descriptor_.Get(major_), engine_, const_cast<float*>(x));
    api_.memory_create(&y_memory_, y_descriptor_.Get(major_), engine_, y);
  }

  void Drop() {
    for (void** memory : {&weights_, &x_memory_, &y_memory_}) {
      if (*memory != nullptr) api_.memory_destroy(*memory);
      *memory = nullptr;
    }
    if (product_ != nullptr) api_.primitive_destroy(product_);
    product_ = nullptr;
    x_ = nullptr, y_ = nullptr;
  }

  Api api_;
  Primitive primitive_;
  int major_;
  bool usable_ = false;
  void *engine_ = nullptr, *stream_ = nullptr, *product_ = nullptr;
  void *weights_ = nullptr, *x_memory_ = nullptr, *y_memory_ = nullptr;
  Descriptor x_descriptor_, y_descriptor_;
  kernels::PackedMemory packed_;
  const float* x_ = nullptr;
  float* y_ = nullptr;
};

}  // namespace

std::vector<std::unique_ptr<ProductPeer>> OneDnnPeers(void* library) {
  const Api api(library);
  std::vector<std::unique_ptr<ProductPeer>> peers;
  if (api.version == nullptr || api.execute == nullptr) return peers;
  // The OpenMP builds ask this; the others see the one CPU that the thread is pinned to.
  if (auto threads = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads")))
    threads(1);
  const VersionInfo* v = api.version();
  if (v->major < 2) return peers;
  const std::string name = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) +
                           "." + std::to_string(v->patch);
  for (const auto& [suffix, primitive] : {std::pair(" matmul", Primitive::kMatmul),
                                          std::pair(" inner product", Primitive::kInnerProduct)}) {
    auto peer = std::make_unique<OneDnn>(name + suffix, api, primitive);
    if (peer->usable()) peers.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace cellbatch

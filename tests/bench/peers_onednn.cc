// The primitives of oneDNN that can compute an LSTM step: two that multiply, and its own LSTM.
#include <memory>
#include <string>
#include <utility>

#include "tests/bench/onednn.h"
#include "tests/bench/peers.h"

namespace cellbatch {
namespace {

using onednn::Argument;
using onednn::Descriptor;
using onednn::Dims;
using onednn::Library;
using onednn::Status;

enum class Primitive { kMatmul, kInnerProduct };

class OneDnnProduct : public ProductPeer {
 public:
  OneDnnProduct(std::string name, const Library& library, Primitive primitive)
      : ProductPeer(std::move(name)), library_(library), primitive_(primitive) {}
  ~OneDnnProduct() override { Drop(); }

  bool Prepare(int b, int k, int n, const float* weights) override {
    Drop();
    const bool inner = primitive_ == Primitive::kInnerProduct;
    const Dims source = {b, k}, destination = {b, n}, row_major = {n, 1};
    const Dims x_strides = {k, 1}, transposed = {1, n};
    const Dims weight_dims = {inner ? n : k, inner ? k : n};
    Descriptor plain, any;
    if (!library_.Describe(2, source, x_strides, &x_descriptor_) ||
        !library_.Describe(2, destination, row_major, &y_descriptor_) ||
        !library_.Describe(2, weight_dims, inner ? transposed : row_major, &plain) ||
        !library_.Describe(2, weight_dims, nullptr, &any)) {
      return false;
    }
    void* const chosen = Choose(any);
    product_ = library_.Primitive(chosen);
    if (product_ == nullptr) return false;
    weights_ = library_.Packed(chosen, 0, plain, weights, &packed_);
    return weights_ != nullptr;
  }

  void Multiply(const float* x, float* y) override {
    if (x != x_ || y != y_) Bind(x, y);
    const Argument arguments[] = {{onednn::kSource, x_memory_},
                                  {onednn::kWeights, weights_},
                                  {onednn::kDestination, y_memory_}};
    library_.Execute(product_, arguments, 3);
  }

 private:
  void* Choose(const Descriptor& weights) const {
    const int major = library_.major();
    const bool inner = primitive_ == Primitive::kInnerProduct;
    const void *x = x_descriptor_.Get(major), *w = weights.Get(major),
               *y = y_descriptor_.Get(major);
    void* chosen = nullptr;
    if (major >= 3 && inner) {
      using Inner = Status(void**, void*, int, const void*, const void*, const void*, const void*,
                           const void*);
      library_.Find<Inner>("dnnl_inner_product_forward_primitive_desc_create")(
          &chosen, library_.engine(), onednn::kInference, x, w, nullptr, y, nullptr);
    } else if (major >= 3) {
      using Matmul =
          Status(void**, void*, const void*, const void*, const void*, const void*, const void*);
      library_.Find<Matmul>("dnnl_matmul_primitive_desc_create")(&chosen, library_.engine(), x, w,
                                                                 nullptr, y, nullptr);
    } else {
      alignas(64) std::array<std::byte, 16384> operation{};
      if (inner) {
        using Inner = Status(void*, int, const void*, const void*, const void*, const void*);
        library_.Find<Inner>("dnnl_inner_product_forward_desc_init")(
            operation.data(), onednn::kInference, x, w, nullptr, y);
      } else {
        using Matmul = Status(void*, const void*, const void*, const void*, const void*);
        library_.Find<Matmul>("dnnl_matmul_desc_init")(operation.data(), x, w, nullptr, y);
      }
      chosen = library_.Chosen(operation.data());
    }
    return chosen;
  }

  void Bind(const float* x, float* y) {
    library_.Destroy(&x_memory_);
    library_.Destroy(&y_memory_);
    x_ = x, y_ = y;
    x_memory_ = library_.MemoryAt(x_descriptor_.Get(library_.major()), x);
    y_memory_ = library_.MemoryAt(y_descriptor_.Get(library_.major()), y);
  }

  void Drop() {
    for (void** memory : {&weights_, &x_memory_, &y_memory_}) library_.Destroy(memory);
    library_.DestroyPrimitive(&product_);
    x_ = nullptr, y_ = nullptr;
  }

  const Library library_;
  const Primitive primitive_;
  void *product_ = nullptr, *weights_ = nullptr, *x_memory_ = nullptr, *y_memory_ = nullptr;
  Descriptor x_descriptor_, y_descriptor_;
  kernels::PackedMemory packed_;
  const float* x_ = nullptr;
  float* y_ = nullptr;
};

// One layer, one direction, one time step; the states of the batch go in and come out.
class OneDnnLstm : public LstmPeer {
 public:
  OneDnnLstm(std::string name, const Library& library)
      : LstmPeer(std::move(name)), library_(library) {}
  ~OneDnnLstm() override { Drop(); }

  bool Prepare(int b, int h, const float* input, const float* recurrent,
               const LstmState& state) override {
    Drop();
    const int64_t row = h, rows = int64_t{b} * h, block = int64_t{4} * h * h;
    const Dims layer = {1, b, h}, layer_strides = {rows, row, 1};
    const Dims states = {1, 1, b, h}, state_strides = {rows, rows, row, 1};
    const Dims biases = {1, 1, 4, h}, bias_strides = {4 * row, 4 * row, row, 1};
    const Dims weights = {1, 1, h, 4, h}, by_input = {block, block, 4 * row, row, 1};
    Descriptor plain, any;
    if (!library_.Describe(3, layer, layer_strides, &layer_) ||
        !library_.Describe(4, states, state_strides, &state_) ||
        !library_.Describe(4, biases, bias_strides, &bias_) ||
        !library_.Describe(5, weights, by_input, &plain) ||
        !library_.Describe(5, weights, nullptr, &any)) {
      return false;
    }
    void* const chosen = Choose(any);
    primitive_ = library_.Primitive(chosen);
    if (primitive_ == nullptr) return false;
    top_h_ = kernels::PackedMemory(rows);
    zeros_ = kernels::PackedMemory(4 * row);
    const void* const layer_at = layer_.Get(library_.major());
    const void* const state_at = state_.Get(library_.major());
    arguments_ = {{
        {onednn::kSource, library_.MemoryAt(layer_at, state.x)},
        {onednn::kSourceState, library_.MemoryAt(state_at, state.h)},
        {onednn::kSourceCell, library_.MemoryAt(state_at, state.c)},
        {onednn::kWeights, library_.Packed(chosen, 0, plain, input, &packed_[0])},
        {onednn::kStateWeights, library_.Packed(chosen, 1, plain, recurrent, &packed_[1])},
        {onednn::kBias, library_.MemoryAt(bias_.Get(library_.major()), zeros_.data())},
        {onednn::kDestination, library_.MemoryAt(layer_at, top_h_.data())},
        {onednn::kDestinationState, library_.MemoryAt(state_at, state.next_h)},
        {onednn::kDestinationCell, library_.MemoryAt(state_at, state.next_c)},
    }};
    for (const Argument& a : arguments_) {
      if (a.memory == nullptr) return false;
    }
    return library_.Execute(primitive_, arguments_.data(), static_cast<int>(arguments_.size()));
  }

  void Step() override {
    library_.Execute(primitive_, arguments_.data(), static_cast<int>(arguments_.size()));
  }

 private:
  void* Choose(const Descriptor& weights) const {
    const int major = library_.major();
    const void *x = layer_.Get(major), *s = state_.Get(major), *w = weights.Get(major),
               *b = bias_.Get(major);
    void* chosen = nullptr;
    if (major >= 3) {
      constexpr int kLeftToRight = 1;
      using Create = Status(void**, void*, int, int, const void*, const void*, const void*,
                            const void*, const void*, const void*, const void*, const void*,
                            const void*, const void*, const void*, unsigned, const void*);
      library_.Find<Create>("dnnl_lstm_forward_primitive_desc_create")(
          &chosen, library_.engine(), onednn::kInference, kLeftToRight, x, s, s, w, w, nullptr,
          nullptr, b, x, s, s, 0, nullptr);
    } else {
      constexpr int kLeftToRight = 0;
      alignas(64) std::array<std::byte, 65536> operation{};
      using Describe =
          Status(void*, int, int, const void*, const void*, const void*, const void*, const void*,
                 const void*, const void*, const void*, const void*, unsigned);
      library_.Find<Describe>("dnnl_lstm_forward_desc_init")(
          operation.data(), onednn::kInference, kLeftToRight, x, s, s, w, w, b, x, s, s, 0);
      chosen = library_.Chosen(operation.data());
    }
    return chosen;
  }

  void Drop() {
    for (Argument& a : arguments_) library_.Destroy(&a.memory);
    library_.DestroyPrimitive(&primitive_);
  }

  const Library library_;
  void* primitive_ = nullptr;
  Descriptor layer_, state_, bias_;
  std::array<Argument, 9> arguments_ = {};
  kernels::PackedMemory packed_[2], zeros_, top_h_;  // the last: the layer's output, next_h again
};

}  // namespace

bool AddOneDnnPeers(void* shared_object, Peers* peers) {
  Library library;
  if (!library.Open(shared_object)) return false;
  for (const auto& [suffix, primitive] : {std::pair(" matmul", Primitive::kMatmul),
                                          std::pair(" inner product", Primitive::kInnerProduct)}) {
    peers->products.push_back(
        std::make_unique<OneDnnProduct>(library.name() + suffix, library, primitive));
  }
  peers->lstms.push_back(std::make_unique<OneDnnLstm>(library.name() + " LSTM", library));
  return true;
}

}  // namespace cellbatch

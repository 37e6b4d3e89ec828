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
using onednn::Numbers;
using onednn::Status;

enum class Primitive { kMatmul, kInnerProduct };

// A place for numbers of another kind beside floats, and a primitive that fills one from the other.
class Converted {
 public:
  // `dims`, `strides`: of both. False: the library cannot.
  bool Prepare(const Library& library, int num_dims, const Dims& dims, const int64_t* strides,
               int64_t count) {
    bf16_ = kernels::PackedMemory(count / 2 + 1);
    return library.Describe(num_dims, dims, strides, &floats_) &&
           library.Describe(num_dims, dims, strides, &halves_, Numbers::kBf16);
  }
  const void* descriptor(int major) const { return halves_.Get(major); }
  void* Memory(const Library& library) const {
    return library.MemoryAt(halves_.Get(library.major()), bf16_.data());
  }
  // Between the bf16 and those floats, by Execute from then on.
  bool Bind(const Library& library, const float* floats, bool to_floats) {
    Drop(library);
    const int major = library.major();
    const Descriptor &from = to_floats ? halves_ : floats_, &to = to_floats ? floats_ : halves_;
    conversion_ = library.Conversion(from.Get(major), to.Get(major));
    void* const other = library.MemoryAt(floats_.Get(major), floats);
    void* const own = Memory(library);
    arguments_ = {{{onednn::kSource, to_floats ? own : other},
                   {onednn::kDestination, to_floats ? other : own}}};
    return conversion_ != nullptr && own != nullptr && other != nullptr;
  }
  bool Execute(const Library& library) const {
    return library.Execute(conversion_, arguments_.data(), 2);
  }
  void Drop(const Library& library) {
    for (Argument& a : arguments_) library.Destroy(&a.memory);
    library.DestroyPrimitive(&conversion_);
  }

 private:
  Descriptor floats_, halves_;
  kernels::PackedMemory bf16_;
  void* conversion_ = nullptr;
  std::array<Argument, 2> arguments_ = {};
};

class OneDnnProduct : public ProductPeer {
 public:
  OneDnnProduct(std::string name, const Library& library, Primitive primitive, Numbers numbers)
      : ProductPeer(std::move(name)), library_(library), primitive_(primitive), numbers_(numbers) {}
  ~OneDnnProduct() override { Drop(); }

  bool Prepare(int b, int k, int n, const float* weights) override {
    Drop();
    const bool inner = primitive_ == Primitive::kInnerProduct;
    const Dims source = {b, k}, destination = {b, n}, row_major = {n, 1};
    const Dims x_strides = {k, 1}, transposed = {1, n};
    const Dims weight_dims = {inner ? n : k, inner ? k : n};
    Descriptor plain, any;
    if (!library_.Describe(2, source, x_strides, &x_descriptor_, numbers_) ||
        !library_.Describe(2, destination, row_major, &y_descriptor_) ||
        !library_.Describe(2, weight_dims, inner ? transposed : row_major, &plain) ||
        !library_.Describe(2, weight_dims, nullptr, &any, numbers_) ||
        !x_bf16_.Prepare(library_, 2, source, x_strides, int64_t{b} * k)) {
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
    if (numbers_ == Numbers::kBf16) x_bf16_.Execute(library_);
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
    if (numbers_ == Numbers::kBf16) {
      x_bf16_.Bind(library_, x, false);
      x_memory_ = x_bf16_.Memory(library_);
    } else {
      x_memory_ = library_.MemoryAt(x_descriptor_.Get(library_.major()), x);
    }
    y_memory_ = library_.MemoryAt(y_descriptor_.Get(library_.major()), y);
  }

  void Drop() {
    for (void** memory : {&weights_, &x_memory_, &y_memory_}) library_.Destroy(memory);
    x_bf16_.Drop(library_);
    library_.DestroyPrimitive(&product_);
    x_ = nullptr, y_ = nullptr;
  }

  const Library library_;
  const Primitive primitive_;
  const Numbers numbers_;
  Converted x_bf16_;
  void *product_ = nullptr, *weights_ = nullptr, *x_memory_ = nullptr, *y_memory_ = nullptr;
  Descriptor x_descriptor_, y_descriptor_;
  kernels::PackedMemory packed_;
  const float* x_ = nullptr;
  float* y_ = nullptr;
};

// One layer, one direction, one time step; the states of the batch go in and come out.
class OneDnnLstm : public LstmPeer {
 public:
  OneDnnLstm(std::string name, const Library& library, Numbers numbers)
      : LstmPeer(std::move(name)), library_(library), numbers_(numbers) {}
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
    if (!library_.Describe(3, layer, layer_strides, &layer_, numbers_) ||
        !library_.Describe(4, states, state_strides, &state_, numbers_) ||
        !library_.Describe(4, states, state_strides, &cell_) ||
        !library_.Describe(4, biases, bias_strides, &bias_) ||
        !library_.Describe(5, weights, by_input, &plain) ||
        !library_.Describe(5, weights, nullptr, &any, numbers_) ||
        !x_bf16_.Prepare(library_, 3, layer, layer_strides, rows) ||
        !h_bf16_.Prepare(library_, 4, states, state_strides, rows) ||
        !next_h_bf16_.Prepare(library_, 4, states, state_strides, rows)) {
      return false;
    }
    void* const chosen = Choose(any);
    primitive_ = library_.Primitive(chosen);
    if (primitive_ == nullptr) return false;
    top_h_ = kernels::PackedMemory(rows);
    zeros_ = kernels::PackedMemory(4 * row);
    const void* const layer_at = layer_.Get(library_.major());
    const void* const state_at = state_.Get(library_.major());
    const void* const cell_at = cell_.Get(library_.major());
    const bool bf16 = numbers_ == Numbers::kBf16;
    if (bf16 &&
        !(x_bf16_.Bind(library_, state.x, false) && h_bf16_.Bind(library_, state.h, false) &&
          next_h_bf16_.Bind(library_, state.next_h, true))) {
      return false;
    }
    const auto at = [&](const Converted& converted, const void* descriptor, const float* floats) {
      return bf16 ? converted.Memory(library_) : library_.MemoryAt(descriptor, floats);
    };
    arguments_ = {{
        {onednn::kSource, at(x_bf16_, layer_at, state.x)},
        {onednn::kSourceState, at(h_bf16_, state_at, state.h)},
        {onednn::kSourceCell, library_.MemoryAt(cell_at, state.c)},
        {onednn::kWeights, library_.Packed(chosen, 0, plain, input, &packed_[0])},
        {onednn::kStateWeights, library_.Packed(chosen, 1, plain, recurrent, &packed_[1])},
        {onednn::kBias, library_.MemoryAt(bias_.Get(library_.major()), zeros_.data())},
        {onednn::kDestination, library_.MemoryAt(layer_at, top_h_.data())},
        {onednn::kDestinationState, at(next_h_bf16_, state_at, state.next_h)},
        {onednn::kDestinationCell, library_.MemoryAt(cell_at, state.next_c)},
    }};
    for (const Argument& a : arguments_) {
      if (a.memory == nullptr) return false;
    }
    return library_.Execute(primitive_, arguments_.data(), static_cast<int>(arguments_.size()));
  }

  void Step() override {
    if (numbers_ == Numbers::kBf16) x_bf16_.Execute(library_), h_bf16_.Execute(library_);
    library_.Execute(primitive_, arguments_.data(), static_cast<int>(arguments_.size()));
    if (numbers_ == Numbers::kBf16) next_h_bf16_.Execute(library_);
  }

 private:
  void* Choose(const Descriptor& weights) const {
    const int major = library_.major();
    const void *x = layer_.Get(major), *s = state_.Get(major), *w = weights.Get(major),
               *b = bias_.Get(major), *c = cell_.Get(major);
    void* chosen = nullptr;
    if (major >= 3) {
      constexpr int kLeftToRight = 1;
      using Create = Status(void**, void*, int, int, const void*, const void*, const void*,
                            const void*, const void*, const void*, const void*, const void*,
                            const void*, const void*, const void*, unsigned, const void*);
      library_.Find<Create>("dnnl_lstm_forward_primitive_desc_create")(
          &chosen, library_.engine(), onednn::kInference, kLeftToRight, x, s, c, w, w, nullptr,
          nullptr, b, x, s, c, 0, nullptr);
    } else {
      constexpr int kLeftToRight = 0;
      alignas(64) std::array<std::byte, 65536> operation{};
      using Describe =
          Status(void*, int, int, const void*, const void*, const void*, const void*, const void*,
                 const void*, const void*, const void*, const void*, unsigned);
      library_.Find<Describe>("dnnl_lstm_forward_desc_init")(
          operation.data(), onednn::kInference, kLeftToRight, x, s, c, w, w, b, x, s, c, 0);
      chosen = library_.Chosen(operation.data());
    }
    return chosen;
  }

  void Drop() {
    for (Argument& a : arguments_) library_.Destroy(&a.memory);
    for (Converted* c : {&x_bf16_, &h_bf16_, &next_h_bf16_}) c->Drop(library_);
    library_.DestroyPrimitive(&primitive_);
  }

  const Library library_;
  const Numbers numbers_;
  void* primitive_ = nullptr;
  Descriptor layer_, state_, cell_, bias_;
  Converted x_bf16_, h_bf16_, next_h_bf16_;
  std::array<Argument, 9> arguments_ = {};
  kernels::PackedMemory packed_[2], zeros_, top_h_;  // the last: the layer's output, next_h again
};

}  // namespace

bool AddOneDnnPeers(void* shared_object, Peers* peers) {
  Library library;
  if (!library.Open(shared_object)) return false;
  for (const auto& [suffix, primitive] : {std::pair(" matmul", Primitive::kMatmul),
                                          std::pair(" inner product", Primitive::kInnerProduct)}) {
    const std::string name = library.name() + suffix;
    peers->products.push_back(
        std::make_unique<OneDnnProduct>(name, library, primitive, Numbers::kFp32));
    peers->bf16_products.push_back(
        std::make_unique<OneDnnProduct>(name + " in bf16", library, primitive, Numbers::kBf16));
  }
  const std::string name = library.name() + " LSTM";
  peers->lstms.push_back(std::make_unique<OneDnnLstm>(name, library, Numbers::kFp32));
  peers->bf16_lstms.push_back(
      std::make_unique<OneDnnLstm>(name + " in bf16", library, Numbers::kBf16));
  return true;
}

}  // namespace cellbatch

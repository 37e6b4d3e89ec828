#include "tests/bench/step_contenders.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace cellbatch {
namespace {

using kernels::PackedMemory;
using kernels::PackedProduct;
using kernels::ProductScratch;
using kernels::RowColumn;
using kernels::RowSource;

kernels::ProductSpec InPrecision(kernels::ProductSpec spec, Precision precision) {
  spec.precision = precision;
  return spec;
}

// Contenders whose states lie in StepRows.
class OnRows : public Contender {
 public:
  explicit OnRows(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  std::vector<float> StepAndShow() override {
    Step();
    std::vector<float> hidden;
    for (int r = 0; r < rows_->b(); ++r) {
      hidden.insert(hidden.end(), rows_->Hidden(r), rows_->Hidden(r) + rows_->h());
    }
    return hidden;
  }

 protected:
  std::optional<StepRows> rows_;

 private:
  const std::string name_;
};

class Kernel final : public OnRows {
 public:
  Kernel(const StepSetting& setting, const PackedProduct& product)
      : OnRows(product.precision() == Precision::kFp32 ? "kernel" : Name(product.precision())),
        setting_(setting),
        product_(product),
        scratch_(setting.tuning) {}

  bool Start(int b, uint64_t seed) override {
    rows_.emplace(setting_.weights.h, b, seed);
    rounded_ = PackedMemory(b * RoundedStride());
    return true;
  }
  void Step() override {
    RowSource inputs[] = {rows_->x(), rows_->hidden()};
    const RowColumn columns[] = {rows_->cell(), rows_->next_cell(), rows_->next_hidden()};
    const int h = rows_->h();
    float* to = rounded_.data();
    for (RowSource& in : inputs) {
      const bool split = product_.precision() == Precision::kFp32Split;
      if (!split && product_.precision() != Precision::kBf16) break;
      const auto round = split ? setting_.kernels.split_to_bf16 : setting_.kernels.round_to_bf16;
      round(in, h, rows_->b(), {to, RoundedStride()});
      in = {to, RoundedStride()};
      to += RoundedWidth();
    }
    kernels::ProductArgs args = {rows_->b(), inputs, nullptr, columns};
    args.from_last = walk_.FromLast(kernels::PassesOf(rows_->b()));  // as devices do
    setting_.kernels.run_product(product_, args, 0, product_.num_panels(), &scratch_);
    rows_->Advance();
  }

 private:
  // As devices lay what is rounded (cells/device/cpu/cell_run.cc).
  int64_t RoundedWidth() const {
    const bool pairs = product_.precision() == Precision::kBf16 && setting_.kernels.bf16_in_pairs;
    const int64_t floats = pairs ? (setting_.weights.h + 1) / 2 : (setting_.weights.h + 1) / 2 * 2;
    return (floats + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes;
  }
  int64_t RoundedStride() const { return 2 * RoundedWidth() + kernels::kLanes; }

  const StepSetting& setting_;
  const PackedProduct& product_;
  kernels::PanelWalk walk_;
  ProductScratch scratch_;
  PackedMemory rounded_;
};

class WithProduct final : public OnRows {
 public:
  WithProduct(const StepSetting& setting, ProductPeer& peer)
      : OnRows(peer.name()), setting_(setting), peer_(peer), scratch_(setting.tuning) {}

  bool Start(int b, uint64_t seed) override {
    const int h = setting_.weights.h;
    rows_.emplace(h, b, seed);
    x_ = PackedMemory(int64_t{b} * 2 * h);
    y_ = PackedMemory(int64_t{b} * 4 * h);
    return peer_.Prepare(b, 2 * h, 4 * h, setting_.for_products.data());
  }
  void Step() override {
    const int h = rows_->h();
    setting_.kernels.copy_rows(rows_->x(), h, rows_->b(), {x_.data(), 2 * h});
    setting_.kernels.copy_rows(rows_->hidden(), h, rows_->b(), {x_.data() + h, 2 * h});
    peer_.Multiply(x_.data(), y_.data());
    const RowSource sums{y_.data(), int64_t{4} * h};
    const RowColumn columns[] = {rows_->cell(), rows_->next_cell(), rows_->next_hidden()};
    setting_.kernels.run_product(setting_.gates, {rows_->b(), nullptr, &sums, columns}, 0,
                                 setting_.gates.num_panels(), &scratch_);
    rows_->Advance();
  }

 private:
  const StepSetting& setting_;
  ProductPeer& peer_;
  ProductScratch scratch_;
  PackedMemory x_, y_;
};

class WithLstm final : public OnRows {
 public:
  WithLstm(const StepSetting& setting, LstmPeer& peer)
      : OnRows(peer.name()), setting_(setting), peer_(peer) {}

  bool Start(int b, uint64_t seed) override {
    const int h = setting_.weights.h;
    rows_.emplace(h, b, seed);
    for (PackedMemory* m : {&x_, &h_, &c_, &next_h_, &next_c_}) *m = PackedMemory(int64_t{b} * h);
    return peer_.Prepare(b, h, setting_.by_input[0].data(), setting_.by_input[1].data(),
                         {x_.data(), h_.data(), c_.data(), next_h_.data(), next_c_.data()});
  }
  void Step() override {
    const int h = rows_->h(), b = rows_->b();
    setting_.kernels.copy_rows(rows_->x(), h, b, {x_.data(), h});
    setting_.kernels.copy_rows(rows_->hidden(), h, b, {h_.data(), h});
    setting_.kernels.copy_rows(rows_->cell_values(), h, b, {c_.data(), h});
    peer_.Step();
    setting_.kernels.copy_rows({next_h_.data(), h}, h, b, rows_->next_hidden());
    setting_.kernels.copy_rows({next_c_.data(), h}, h, b, rows_->next_cell());
    rows_->Advance();
  }

 private:
  const StepSetting& setting_;
  LstmPeer& peer_;
  PackedMemory x_, h_, c_, next_h_, next_c_;
};

std::optional<PackedProduct> SplitProduct(const StepWeights& weights,
                                          const kernels::CpuKernels& kernels) {
  if (kernels.split_to_bf16 == nullptr) return std::nullopt;
  return std::optional<PackedProduct>(
      std::in_place, InPrecision(weights.Spec(true), Precision::kFp32Split), kernels.packing);
}

}  // namespace

StepSetting::StepSetting(int h, uint64_t seed, const kernels::CpuKernels& of_kernels,
                         kernels::Tuning of_tuning)
    : kernels(of_kernels),
      tuning(of_tuning),
      weights(h, seed),
      product(weights.Spec(true), kernels.packing),
      gates(weights.Spec(false)),
      product_w8(InPrecision(weights.Spec(true), Precision::kW8), kernels.packing),
      product_bf16(InPrecision(weights.Spec(true), Precision::kBf16), kernels.packing),
      product_split(SplitProduct(weights, kernels)),
      for_products(weights.ForProducts()),
      by_input{weights.ByInput(weights.input), weights.ByInput(weights.recurrent)} {}

std::unique_ptr<Contender> KernelContender(const StepSetting& setting, Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:  // which CPUs compute so
      return std::make_unique<Kernel>(setting, setting.product);
    case Precision::kBf16:
      return std::make_unique<Kernel>(setting, setting.product_bf16);
    case Precision::kW8:
      return std::make_unique<Kernel>(setting, setting.product_w8);
    case Precision::kFp32Split:
      return std::make_unique<Kernel>(setting, setting.product_split.value());
  }
  NoSuchEnumerator();
}
std::unique_ptr<Contender> PeerContender(const StepSetting& setting, ProductPeer& peer) {
  return std::make_unique<WithProduct>(setting, peer);
}
std::unique_ptr<Contender> PeerContender(const StepSetting& setting, LstmPeer& peer) {
  return std::make_unique<WithLstm>(setting, peer);
}

}  // namespace cellbatch

#include "tests/testing/headed_cell.h"

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cells/check.h"

namespace cellbatch::testing {
namespace {

class HeadMaker {
 public:
  HeadMaker(const CellDefinition& cell, uint64_t seed)
      : cell_(cell),
        random_(seed),
        ops_(cell.ops().begin(), cell.ops().end()),
        parameters_(cell.parameters().begin(), cell.parameters().end()),
        outputs_(cell.outputs().begin(), cell.outputs().end()) {
    for (size_t v = 0; v < ops_.size(); ++v) {
      const Op& op = ops_[v];
      const bool vector = op.shape.is_vector() && op.type == ElementType::kFp32;
      if (vector && op.kind != OpKind::kParameter && op.kind != OpKind::kConstant) {
        vectors_.emplace_back(static_cast<int64_t>(v));
      }
    }
  }

  CellDefinition Make() {
    for (int32_t i = 1 + Below(4); i > 0; --i) vectors_.push_back(Step());
    const int32_t n = 1 + Below(30);
    ValueId y = Product(vectors_.back(), n);
    if (Below(2) == 0) y = Push(OpKind::kAdd, {y, Product(Any(), n)}, n);
    if (Below(2) == 0) y = Push(OpKind::kAdd, {y, Parameter(1, n)}, n);
    outputs_.push_back({"y", y});
    if (Below(2) == 0) outputs_.push_back({"z", Push(OpKind::kSoftmax, {y}, n)});
    if (Below(2) == 0) {
      outputs_.push_back({"best", Push(OpKind::kArgMax, {y}, 1, ElementType::kInt32)});
    }
    auto made = CellDefinition::Create(cell_.name() + " with heads", std::move(ops_),
                                       {cell_.inputs().begin(), cell_.inputs().end()},
                                       std::move(parameters_), std::move(outputs_), cell_.carry());
    Check(made.ok(), made.status().ToString());
    return *std::move(made);
  }

 private:
  int32_t Below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); }
  ValueId Any() {
    return vectors_[static_cast<size_t>(Below(static_cast<int32_t>(vectors_.size())))];
  }
  int32_t Width(ValueId v) const { return ops_[static_cast<size_t>(v.value())].shape.cols; }

  ValueId Push(OpKind kind, std::array<ValueId, 3> args, int32_t width,
               ElementType type = ElementType::kFp32) {
    ops_.push_back({.kind = kind, .args = args, .shape = Shape::Vector(width), .type = type});
    return ValueId(static_cast<int64_t>(ops_.size()) - 1);
  }
  ValueId Parameter(int32_t rows, int32_t columns) {
    parameters_.push_back({"head" + std::to_string(parameters_.size()), {rows, columns}});
    ops_.push_back({.kind = OpKind::kParameter,
                    .attr = {static_cast<int32_t>(parameters_.size()) - 1, 0},
                    .shape = {rows, columns}});
    return ValueId(static_cast<int64_t>(ops_.size()) - 1);
  }
  ValueId Product(ValueId x, int32_t n) {
    const ValueId weights = Parameter(n, Width(x));
    return Push(OpKind::kMatMul, {x, weights}, n);
  }
  ValueId Squashed(ValueId a) { return Push(OpKind::kTanh, {a}, Width(a)); }
  ValueId Step() {
    const ValueId a = Any();
    switch (Below(5)) {
      case 0:
        return Squashed(a);
      case 1:
        return Squashed(Product(a, 1 + Below(25)));
      case 2:
        return Push(OpKind::kMul, {a, Push(OpKind::kSigmoid, {a}, Width(a))}, Width(a));
      case 3:
        return Push(OpKind::kSoftmax, {a}, Width(a));
      default:
        return Product(a, 1 + Below(25));
    }
  }

  const CellDefinition& cell_;
  std::mt19937_64 random_;
  std::vector<Op> ops_;
  std::vector<cellbatch::Parameter> parameters_;
  std::vector<Output> outputs_;
  std::vector<ValueId> vectors_;  // that heads may read
};

}  // namespace

CellDefinition WithHeads(const CellDefinition& cell, uint64_t seed) {
  return HeadMaker(cell, seed).Make();
}

}  // namespace cellbatch::testing

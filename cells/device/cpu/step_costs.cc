#include "cells/device/cpu/step_costs.h"

#include "cells/check.h"

namespace cellbatch {
namespace {

int64_t CostOf(TailOpKind kind) {
  switch (kind) {
    case TailOpKind::kConstant:
      return 0;
    case TailOpKind::kAccumulator:
    case TailOpKind::kScalar:
    case TailOpKind::kParameter:
    case TailOpKind::kAdd:
    case TailOpKind::kSub:
    case TailOpKind::kMul:
    case TailOpKind::kMax:
    case TailOpKind::kRelu:
      return 1;
    case TailOpKind::kColumn:
    case TailOpKind::kStore:  // a line of each row for 16 units
      return kCopyCost;
    case TailOpKind::kDiv:
      return 16;
    case TailOpKind::kExp:
      return 20;
    case TailOpKind::kLog:
    case TailOpKind::kSigmoid:
    case TailOpKind::kTanh:
      return 25;
  }
  NoSuchEnumerator();
}

}  // namespace

int64_t TailCost(const TailProgram& tail) {
  int64_t cost = 0;
  for (const TailOp& op : tail.ops) cost += CostOf(op.kind);
  return cost;
}

int64_t PlainStepCost(const PlainStep& step) {
  int64_t read = 0;
  for (const Shape& s : step.shapes) read += s.size();
  const int64_t written = step.shape.size();
  switch (step.kind) {
    case PlainKind::kMatMulByRows:
    case PlainKind::kMatMulByColumns:  // some 50 multiply-adds a nanosecond
      return 2 * written * step.shapes[0].cols;
    case PlainKind::kSoftmax:  // number by number
      return 500 * read;
    case PlainKind::kTranspose:
      return 100 * read;
    case PlainKind::kCopy:
    case PlainKind::kBroadcast:
    case PlainKind::kSlice:
      return kCopyCost * written;
    case PlainKind::kSum:
    case PlainKind::kMean:
    case PlainKind::kArgMax:
      return kAddCost * read;
    case PlainKind::kSumSquares:
    case PlainKind::kMeanSquares:
      return 2 * kAddCost * read;
  }
  NoSuchEnumerator();
}

int64_t RoundingCost(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return 16;
    case Precision::kFp32Split:  // twice, and what is left
      return 32;
    case Precision::kFp32:
    case Precision::kTf32:
    case Precision::kW8:
      break;
  }
  Check(false, "products of bf16 alone read rounded rows");
  return 0;
}

}  // namespace cellbatch

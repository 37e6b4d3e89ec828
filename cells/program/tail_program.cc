#include "cells/program/tail_program.h"

#include "cells/check.h"

namespace cellbatch {
namespace {

std::string CheckIndex(const TailOp& op, const TailProgram& tail, int groups) {
  int end = 1;
  const char* what = "";
  switch (op.kind) {
    case TailOpKind::kAccumulator:
      end = groups, what = "accumulator";
      break;
    case TailOpKind::kColumn:
    case TailOpKind::kScalar:
    case TailOpKind::kStore:
      end = tail.num_columns, what = "column";
      break;
    case TailOpKind::kParameter:
      end = tail.num_parameters, what = "parameter";
      break;
    case TailOpKind::kConstant:
    case TailOpKind::kAdd:
    case TailOpKind::kSub:
    case TailOpKind::kMul:
    case TailOpKind::kDiv:
    case TailOpKind::kMax:
    case TailOpKind::kSigmoid:
    case TailOpKind::kTanh:
    case TailOpKind::kRelu:
    case TailOpKind::kExp:
    case TailOpKind::kLog:
      return "";
  }
  if (op.index >= 0 && op.index < end) return "";
  return "names " + std::string(what) + " " + std::to_string(op.index) + " of " +
         std::to_string(end);
}

}  // namespace

int NumOperands(TailOpKind kind) {
  switch (kind) {
    case TailOpKind::kAccumulator:
    case TailOpKind::kColumn:
    case TailOpKind::kScalar:
    case TailOpKind::kParameter:
    case TailOpKind::kConstant:
      return 0;
    case TailOpKind::kAdd:
    case TailOpKind::kSub:
    case TailOpKind::kMul:
    case TailOpKind::kDiv:
    case TailOpKind::kMax:
      return 2;
    case TailOpKind::kSigmoid:
    case TailOpKind::kTanh:
    case TailOpKind::kRelu:
    case TailOpKind::kExp:
    case TailOpKind::kLog:
    case TailOpKind::kStore:
      return 1;
  }
  NoSuchEnumerator();
}

std::string CheckTail(const TailProgram& tail, int groups) {
  bool storing = false;
  std::vector<bool> stored(tail.num_columns, false), scalar(tail.num_columns, false);
  for (size_t i = 0; i < tail.ops.size(); ++i) {
    const TailOp& op = tail.ops[i];
    const std::string where = "operation " + std::to_string(i) + " of the tail ";
    const std::string index = CheckIndex(op, tail, groups);
    if (!index.empty()) return where + index;
    const bool store = op.kind == TailOpKind::kStore;
    for (int n = 0; n < NumOperands(op.kind); ++n) {
      const int value = n == 0 ? op.a : op.b;
      if (value < 0 || value >= static_cast<int>(i)) {
        return where + "reads value " + std::to_string(value);
      }
      if (tail.ops[value].kind == TailOpKind::kStore) return where + "reads what a store made";
    }
    if (storing && !store) return where + "comes after a store and is none";
    if (store && stored[op.index]) return where + "stores a column twice";
    // Units are stored one after the other: the later ones would read what the first left.
    if (store && scalar[op.index]) return where + "stores where one number is read";
    if (store) stored[op.index] = true;
    if (op.kind == TailOpKind::kScalar) scalar[op.index] = true;
    storing = storing || store;
  }
  return storing ? "" : "a tail that stores nothing";
}

}  // namespace cellbatch

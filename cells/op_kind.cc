#include "cells/op_kind.h"

#include "cells/check.h"

namespace cellbatch {

std::optional<OpFacts> FactsOf(OpKind kind) {
  switch (kind) {
    case OpKind::kInput:
      return OpFacts{"Input", OpFamily::kLeaf, 0, 0};
    case OpKind::kParameter:
      return OpFacts{"Parameter", OpFamily::kLeaf, 0, 0};
    case OpKind::kConstant:
      return OpFacts{"Constant", OpFamily::kLeaf, 0, 0};
    case OpKind::kLookup:
      return OpFacts{"Lookup", OpFamily::kLookup, 2, 2};
    case OpKind::kMatMul:
      return OpFacts{"MatMul", OpFamily::kProduct, 2, 2};
    case OpKind::kAdd:
      return OpFacts{"Add", OpFamily::kBinary, 2, 2};
    case OpKind::kSub:
      return OpFacts{"Sub", OpFamily::kBinary, 2, 2};
    case OpKind::kMul:
      return OpFacts{"Mul", OpFamily::kBinary, 2, 2};
    case OpKind::kDiv:
      return OpFacts{"Div", OpFamily::kBinary, 2, 2};
    case OpKind::kMax:
      return OpFacts{"Max", OpFamily::kBinary, 2, 2};
    case OpKind::kSigmoid:
      return OpFacts{"Sigmoid", OpFamily::kUnary, 1, 1};
    case OpKind::kTanh:
      return OpFacts{"Tanh", OpFamily::kUnary, 1, 1};
    case OpKind::kRelu:
      return OpFacts{"Relu", OpFamily::kUnary, 1, 1};
    case OpKind::kExp:
      return OpFacts{"Exp", OpFamily::kUnary, 1, 1};
    case OpKind::kLog:
      return OpFacts{"Log", OpFamily::kUnary, 1, 1};
    case OpKind::kSlice:
      return OpFacts{"Slice", OpFamily::kRearranging, 1, 1};
    case OpKind::kConcat:
      return OpFacts{"Concat", OpFamily::kRearranging, 2, 3};
    case OpKind::kTranspose:
      return OpFacts{"Transpose", OpFamily::kRearranging, 1, 1};
    case OpKind::kSum:
      return OpFacts{"Sum", OpFamily::kReduction, 1, 1};
    case OpKind::kMean:
      return OpFacts{"Mean", OpFamily::kReduction, 1, 1};
    case OpKind::kSoftmax:
      return OpFacts{"Softmax", OpFamily::kReduction, 1, 1};
    case OpKind::kArgMax:
      return OpFacts{"ArgMax", OpFamily::kReduction, 1, 1};
  }
  return std::nullopt;
}

const char* Name(OpKind kind) {
  const std::optional<OpFacts> facts = FactsOf(kind);
  return facts.has_value() ? facts->name : "?";
}

OpFamily Family(OpKind kind) {
  const std::optional<OpFacts> facts = FactsOf(kind);
  Check(facts.has_value(), "an operator that exists");
  return facts->family;
}

}  // namespace cellbatch

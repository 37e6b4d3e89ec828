#include "cells/kernels/cpu/tail_code.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "cells/check.h"
#include "cells/kernels/cpu/product_limits.h"

namespace cellbatch::kernels {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

TailInstructionKind KindOf(TailOpKind kind) {
  using To = TailInstructionKind;
  switch (kind) {
    case TailOpKind::kColumn:
      return To::kLoad;
    case TailOpKind::kScalar:
      return To::kLoadOne;
    case TailOpKind::kStore:
      return To::kStore;
    case TailOpKind::kAdd:
      return To::kAdd;
    case TailOpKind::kSub:
      return To::kSub;
    case TailOpKind::kMul:
      return To::kMul;
    case TailOpKind::kDiv:
      return To::kDiv;
    case TailOpKind::kMax:
      return To::kMax;
    case TailOpKind::kSigmoid:
      return To::kSigmoid;
    case TailOpKind::kTanh:
      return To::kTanh;
    case TailOpKind::kRelu:
      return To::kRelu;
    case TailOpKind::kExp:
      return To::kExp;
    case TailOpKind::kLog:
      return To::kLog;
    case TailOpKind::kAccumulator:
    case TailOpKind::kParameter:
    case TailOpKind::kConstant:
      break;  // no instruction
  }
  NoSuchEnumerator();
}

class Coder {
 public:
  explicit Coder(const TailProgram& tail) : tail_(tail), parts_(tail.ops.size()) {
    FindReaders();
    for (int i = 0; i < size(); ++i) {
      if (parts_[Index(i)].readers > 0) Join(i);
    }
    for (int i = 0; i < size(); ++i) {
      Part& part = parts_[Index(i)];
      if (!part.needed()) continue;
      for (const int value : {part.a, part.b, part.c}) {
        if (value >= 0) parts_[Index(value)].last_reader = i;
      }
    }
  }

  TailCode Make() {
    for (int i = 0; i < size(); ++i) {
      if (parts_[Index(i)].needed()) Add(i);
    }
    return std::move(code_);
  }

 private:
  // What becomes of an operation.
  struct Part {
    int a = -1, b = -1, c = -1;  // values read
    int readers = 0;             // a store has one: the world
    bool joined = false;         // a part of a later instruction
    std::optional<TailInstructionKind> made_of_two = {};
    int last_reader = -1;
    TailOperand where = {};
    bool needed() const { return readers > 0 && !joined; }
  };

  int size() const { return static_cast<int>(tail_.ops.size()); }

  void FindReaders() {
    for (int i = size(); i-- > 0;) {
      const TailOp& op = tail_.ops[Index(i)];
      Part& part = parts_[Index(i)];
      if (op.kind == TailOpKind::kStore) part.readers = 1;
      if (part.readers == 0) continue;
      const int operands = NumOperands(op.kind);
      if (operands > 0) part.a = op.a;
      if (operands > 1) part.b = op.b;
      for (const int value : {part.a, part.b}) {
        if (value >= 0) ++parts_[Index(value)].readers;
      }
    }
  }

  // Whether such an operation makes value `value`, by an instruction of its own, for one reader.
  bool IsAlone(int value, TailOpKind kind) const {
    const Part& part = parts_[Index(value)];
    return tail_.ops[Index(value)].kind == kind && part.readers == 1 && !part.made_of_two;
  }

  void Join(int i) {
    const Part& part = parts_[Index(i)];
    const TailOpKind kind = tail_.ops[Index(i)].kind;
    if (kind != TailOpKind::kMul && kind != TailOpKind::kAdd) return;
    // Either operand may be the other: products and sums of two have the same bits in both orders.
    for (const auto& [first, second] : {std::pair(part.a, part.b), std::pair(part.b, part.a)}) {
      if (first == second) return;
      if (kind == TailOpKind::kMul ? JoinProduct(i, first, second) : JoinSum(i, first, second)) {
        return;
      }
    }
  }

  bool JoinProduct(int i, int first, int second) {
    if (IsAlone(first, TailOpKind::kSigmoid) && IsAlone(second, TailOpKind::kTanh)) {
      parts_[Index(first)].joined = parts_[Index(second)].joined = true;
      Become(i, TailInstructionKind::kSigmoidTanh, parts_[Index(first)].a, parts_[Index(second)].a);
      return true;
    }
    if (!IsAlone(first, TailOpKind::kSub)) return false;
    Take(i, TailInstructionKind::kSubMul, first, second);
    return true;
  }

  bool JoinSum(int i, int first, int second) {
    if (!IsAlone(first, TailOpKind::kMul)) return false;
    Take(i, TailInstructionKind::kMulAdd, first, second);
    return true;
  }

  // Operation `i` does that of `first`, too, before its own with `second`.
  void Take(int i, TailInstructionKind kind, int first, int second) {
    parts_[Index(first)].joined = true;
    Become(i, kind, parts_[Index(first)].a, parts_[Index(first)].b, second);
  }

  void Become(int i, TailInstructionKind kind, int a, int b, int c = -1) {
    Part& part = parts_[Index(i)];
    part.made_of_two = kind;
    part.a = a;
    part.b = b;
    part.c = c;
  }

  void Add(int i) {
    const TailOp& op = tail_.ops[Index(i)];
    Part& part = parts_[Index(i)];
    if (op.kind == TailOpKind::kAccumulator || op.kind == TailOpKind::kParameter) {
      const bool sum = op.kind == TailOpKind::kAccumulator;
      part.where = {sum ? TailOperand::kAccumulator : TailOperand::kParameter, op.index};
      return;
    }
    if (op.kind == TailOpKind::kConstant) {
      const size_t before = code_.constants.size() / Index(kLanes);
      part.where = {TailOperand::kConstant, static_cast<int16_t>(before)};
      code_.constants.insert(code_.constants.end(), Index(kLanes), op.constant);
      return;
    }
    TailInstruction instruction;
    instruction.kind = part.made_of_two.has_value() ? *part.made_of_two : KindOf(op.kind);
    instruction.column = op.index;
    if (part.a >= 0) instruction.a = parts_[Index(part.a)].where;
    if (part.b >= 0) instruction.b = parts_[Index(part.b)].where;
    if (part.c >= 0) instruction.c = parts_[Index(part.c)].where;
    // A row's operands are read before its result is written, so the result may take their place.
    Release(part.a, i);
    if (part.b != part.a) Release(part.b, i);
    if (part.c != part.a && part.c != part.b) Release(part.c, i);
    if (op.kind != TailOpKind::kStore) {
      part.where = {TailOperand::kSlot, TakeSlot()};
      instruction.to = part.where.index;
    }
    code_.instructions.push_back(instruction);
  }

  void Release(int value, int reader) {
    if (value < 0) return;
    const Part& part = parts_[Index(value)];
    if (part.last_reader == reader && part.where.from == TailOperand::kSlot) {
      free_.push_back(part.where.index);
    }
  }

  int16_t TakeSlot() {
    if (free_.empty()) return static_cast<int16_t>(code_.slots++);
    const int16_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  const TailProgram& tail_;
  std::vector<Part> parts_;
  std::vector<int16_t> free_;
  TailCode code_;
};

}  // namespace

TailCode MakeTailCode(const TailProgram& tail) { return Coder(tail).Make(); }

}  // namespace cellbatch::kernels

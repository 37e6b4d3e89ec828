#include "cells/kernels/cpu/tail_code.h"

#include <algorithm>
#include <array>
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
      for (const int value : part.reads) {
        if (value >= 0) parts_[Index(value)].last_reader = i;
      }
      if (!IsNormalisation(part)) continue;
      for (const int o : {1, 2}) ++parts_[Index(part.reads[o])].readers_of_one;
    }
  }

  TailCode Make() {
    for (int i = 0; i < size(); ++i) {
      if (parts_[Index(i)].needed()) Add(i);
    }
    return std::move(code_);
  }

 private:
  using Values = std::array<int, 6>;
  // What becomes of an operation.
  struct Part {
    Values reads = {-1, -1, -1, -1, -1, -1};        // a to f of its instruction
    int readers = 0;                                // a store has one: the world
    int readers_of_one = 0;                         // of which so many look at one lane
    bool joined = false;                            // a part of a later instruction
    std::optional<TailInstructionKind> joint = {};  // made of several operations
    int last_reader = -1;
    TailOperand where = {};
    int16_t slot = -1;  // that it holds
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
      if (operands > 0) part.reads[0] = op.a;
      if (operands > 1) part.reads[1] = op.b;
      for (const int value : part.reads) {
        if (value >= 0) ++parts_[Index(value)].readers;
      }
    }
  }

  // Whether such an operation makes value `value`, by an instruction of its own, for one reader.
  bool IsAlone(int value, TailOpKind kind) const {
    const Part& part = parts_[Index(value)];
    return tail_.ops[Index(value)].kind == kind && part.readers == 1 && !part.joint;
  }

  void Join(int i) {
    const Part& part = parts_[Index(i)];
    const TailOpKind kind = tail_.ops[Index(i)].kind;
    if (kind != TailOpKind::kMul && kind != TailOpKind::kAdd) return;
    // Either operand may be the other: products and sums of two have the same bits in both orders.
    const int a = part.reads[0], b = part.reads[1];
    for (const auto& [first, second] : {std::pair(a, b), std::pair(b, a)}) {
      if (first == second) return;
      if (kind == TailOpKind::kMul ? JoinProduct(i, first, second) : JoinSum(i, first, second)) {
        return;
      }
    }
  }

  bool JoinProduct(int i, int first, int second) {
    if (IsAlone(first, TailOpKind::kSigmoid) && IsAlone(second, TailOpKind::kTanh)) {
      parts_[Index(first)].joined = parts_[Index(second)].joined = true;
      Become(i, TailInstructionKind::kSigmoidTanh,
             {parts_[Index(first)].reads[0], parts_[Index(second)].reads[0], -1, -1, -1, -1});
      return true;
    }
    if (!IsAlone(first, TailOpKind::kSub)) return false;
    Take(i, TailInstructionKind::kSubMul, first, second);
    return true;
  }

  bool JoinSum(int i, int first, int second) {
    Part& part = parts_[Index(first)];
    if (part.joint == TailInstructionKind::kNormalise && part.readers == 1) {
      part.joined = true;
      Values reads = part.reads;
      reads.back() = second;
      Become(i, TailInstructionKind::kNormaliseAdd, reads);
      return true;
    }
    if (!IsAlone(first, TailOpKind::kMul)) return false;
    if (!JoinNormalise(i, first, second)) Take(i, TailInstructionKind::kMulAdd, first, second);
    return true;
  }

  static bool IsNormalisation(const Part& part) {
    return part.joint == TailInstructionKind::kNormalise ||
           part.joint == TailInstructionKind::kNormaliseAdd;
  }

  // `first` times something that every row has the same of, and it (a - b) * c, where b and c are numbers of the row: with
  // `second` likewise, all five at once.
  bool JoinNormalise(int i, int first, int second) {
    const int x = parts_[Index(first)].reads[0], y = parts_[Index(first)].reads[1];
    for (const auto& [scaled, gain] : {std::pair(x, y), std::pair(y, x)}) {
      const Part& part = parts_[Index(scaled)];
      if (part.joint != TailInstructionKind::kSubMul || part.readers != 1) continue;
      if (!IsOfAllRows(gain) || !IsOfAllRows(second)) continue;
      if (!IsOfAllUnits(part.reads[1]) || !IsOfAllUnits(part.reads[2])) continue;
      parts_[Index(first)].joined = parts_[Index(scaled)].joined = true;
      const Values& of = part.reads;
      Become(i, TailInstructionKind::kNormalise, {of[0], of[1], of[2], gain, second, -1});
      return true;
    }
    return false;
  }

  bool IsOfAllRows(int value) const {
    const TailOpKind kind = tail_.ops[Index(value)].kind;
    return kind == TailOpKind::kParameter || kind == TailOpKind::kConstant;
  }

  bool IsOfAllUnits(int value) const { return tail_.ops[Index(value)].kind == TailOpKind::kScalar; }

  // Operation `i` does that of `first`, too, before its own with `second`.
  void Take(int i, TailInstructionKind kind, int first, int second) {
    parts_[Index(first)].joined = true;
    const auto& reads = parts_[Index(first)].reads;
    Become(i, kind, {reads[0], reads[1], second, -1, -1, -1});
  }

  void Become(int i, TailInstructionKind kind, const Values& reads) {
    parts_[Index(i)].joint = kind;
    parts_[Index(i)].reads = reads;
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
    instruction.kind = part.joint.has_value() ? *part.joint : KindOf(op.kind);
    instruction.column = op.index;
    TailOperand* const operands[] = {&instruction.a, &instruction.b, &instruction.c,
                                     &instruction.d, &instruction.e, &instruction.f};
    for (size_t o = 0; o < part.reads.size(); ++o) {
      if (part.reads[o] >= 0) *operands[o] = parts_[Index(part.reads[o])].where;
    }
    // A row's operands are read before its result is written, so the result may take their place.
    for (const int value : part.reads) Release(value, i);
    if (op.kind != TailOpKind::kStore) {
      part.slot = TakeSlot();
      part.where = {TailOperand::kSlot, part.slot};
      instruction.to = part.slot;
    }
    const bool of_one = op.kind == TailOpKind::kScalar && part.readers_of_one == part.readers;
    if ((op.kind == TailOpKind::kColumn || of_one) && looks_ < kMaxTailColumns &&
        !StoresWhileRead(i)) {
      instruction.kind = of_one ? TailInstructionKind::kLookOne : TailInstructionKind::kLook;
      instruction.look = looks_++;
      part.where = {TailOperand::kColumn, instruction.look};
    }
    code_.instructions.push_back(instruction);
  }

  // Whether anything is stored, wherever that may lie, between operation `i` and the last one that reads its value.
  bool StoresWhileRead(int i) const {
    const auto begin = tail_.ops.begin() + i,
               end = tail_.ops.begin() + parts_[Index(i)].last_reader;
    return std::any_of(begin, end, [](const TailOp& op) { return op.kind == TailOpKind::kStore; });
  }

  void Release(int value, int reader) {
    if (value < 0) return;
    Part& part = parts_[Index(value)];
    if (part.last_reader != reader || part.slot < 0) return;
    free_.push_back(part.slot);
    part.slot = -1;
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
  int16_t looks_ = 0;
  TailCode code_;
};

}  // namespace

TailCode MakeTailCode(const TailProgram& tail) { return Coder(tail).Make(); }

}  // namespace cellbatch::kernels

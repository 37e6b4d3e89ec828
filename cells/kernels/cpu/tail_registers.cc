#include "cells/kernels/cpu/tail_registers.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch::kernels {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

int OperandsOf(TailInstructionKind kind) {
  using Kind = TailInstructionKind;
  switch (kind) {
    case Kind::kLoad:
    case Kind::kLook:
    case Kind::kLoadOne:
    case Kind::kLookOne:
      return 0;
    case Kind::kStore:
    case Kind::kSigmoid:
    case Kind::kTanh:
    case Kind::kRelu:
    case Kind::kExp:
    case Kind::kLog:
      return 1;
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kMul:
    case Kind::kDiv:
    case Kind::kMax:
    case Kind::kSigmoidTanh:
      return 2;
    case Kind::kMulAdd:
    case Kind::kSubMul:
      return 3;
    case Kind::kNormalise:
      return 5;
    case Kind::kNormaliseAdd:
      return 6;
  }
  NoSuchEnumerator();
}

// What a look finds stays where it lies.
bool MakesValue(TailInstructionKind kind) {
  using Kind = TailInstructionKind;
  return kind != Kind::kStore && kind != Kind::kLook && kind != Kind::kLookOne;
}

}  // namespace

TailRegisters::TailRegisters(const TailCode& code, TailAssembler& to)
    : to_(to),
      made_(code.instructions.size(), -1),
      value_of_slot_(Index(code.slots), -1),
      touched_(Index(to.groups()), false),
      holder_(Index(to.groups()), -1) {
  for (int i = 0; i < static_cast<int>(code.instructions.size()); ++i) {
    const TailInstruction& instruction = code.instructions[Index(i)];
    const TailOperand* const operands[] = {&instruction.a, &instruction.b, &instruction.c,
                                           &instruction.d, &instruction.e, &instruction.f};
    for (int o = 0; o < OperandsOf(instruction.kind); ++o) {
      if (operands[o]->from != TailOperand::kSlot) continue;
      ValueIn(operands[o]->index).readers.push_back(i);
    }
    if (!MakesValue(instruction.kind)) continue;
    made_[Index(i)] = value_of_slot_[Index(instruction.to)] = static_cast<int>(values_.size());
    values_.push_back({instruction.to, {}});
  }
  std::fill(value_of_slot_.begin(), value_of_slot_.end(), -1);
}

int TailRegisters::StackBytes(const TailCode& code, const TailAssembler& to) {
  return code.slots * to.most_rows() * TailAssembler::kBlockBytes;
}

void TailRegisters::Begin(int instruction) {
  instruction_ = instruction;
  std::fill(touched_.begin(), touched_.end(), false);
  for (int& holder : holder_) {
    if (holder < 0 || NextReader(values_[Index(holder)]) >= 0) continue;
    values_[Index(holder)].group = -1;
    holder = -1;
  }
}

int TailRegisters::NextReader(const Value& value) const {
  const auto next = std::lower_bound(value.readers.begin(), value.readers.end(), instruction_);
  return next == value.readers.end() ? -1 : *next;
}

int TailRegisters::Take(int group) {
  touched_[Index(group)] = true;
  return group;
}

int TailRegisters::GroupOf(int slot) {
  Value& value = ValueIn(slot);
  if (value.group >= 0) return Take(value.group);
  const int group = Spare();
  for (int i = 0; i < to_.abreast(); ++i) to_.vmovups(to_.Register(group, i), StackOf(value, i));
  value.group = group;
  holder_[Index(group)] = value_of_slot_[Index(slot)];
  return group;
}

int TailRegisters::TakeOver(int slot) {
  Value& value = ValueIn(slot);
  if (value.readers.back() != instruction_) return -1;
  const int group = GroupOf(slot);
  holder_[Index(group)] = -1;
  value.group = -1;
  return group;
}

int TailRegisters::Spare() {
  int furthest = -1, reader = -1;
  for (int g = 0; g < to_.groups(); ++g) {
    if (touched_[Index(g)]) continue;
    if (holder_[Index(g)] < 0) return Take(g);
    const int next = NextReader(values_[Index(holder_[Index(g)])]);
    if (next > reader) reader = next, furthest = g;
  }
  Check(furthest >= 0, "an instruction of a tail that touches more groups than there are");
  Push(furthest);
  return Take(furthest);
}

void TailRegisters::Push(int group) {
  Value& value = values_[Index(holder_[Index(group)])];
  if (!value.stacked) {
    value.stacked = true;
    for (int i = 0; i < to_.abreast(); ++i) to_.vmovups(StackOf(value, i), to_.Register(group, i));
  }
  value.group = holder_[Index(group)] = -1;
}

void TailRegisters::Define(int group) {
  const int made = made_[Index(instruction_)];
  Value& value = values_[Index(made)];
  value.group = group;
  value_of_slot_[Index(value.slot)] = holder_[Index(group)] = made;
}

// (A value has the place of its slot: no two of one slot are alive at once.)
Xbyak::Address TailRegisters::StackOf(const Value& value, int i) const {
  const int of_slot = value.slot * to_.most_rows() * TailAssembler::kBlockBytes;
  return to_.ptr[to_.rsp + of_slot + i * to_.register_bytes()];
}

}  // namespace cellbatch::kernels

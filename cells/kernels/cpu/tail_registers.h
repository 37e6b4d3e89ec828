// Which registers hold the values of a tail that is being compiled (compiled_tail.h): groups of them (tail_assembler.h), and
// where there are too few, rows of the stack. Nearly no tail needs those: what accumulators and columns hold is read where it
// lies, and taken into registers by who reads it.
//
//   a value is made by one instruction ..read.. and its group is free after the last one that reads it
//   no group is free: of those that this instruction does not touch, the value read furthest on goes to the stack
//
// One thread, at load.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_REGISTERS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_REGISTERS_H_

#include <cstddef>
#include <vector>

#include "cells/kernels/cpu/tail_assembler.h"
#include "cells/kernels/cpu/tail_code.h"

namespace cellbatch::kernels {

class TailRegisters {
 public:
  TailRegisters(const TailCode& code, TailAssembler& to);

  // The instruction that is written now. Values that none from here on reads leave their groups.
  void Begin(int instruction);

  // The group that holds operand `slot` of this instruction; read only.
  int GroupOf(int slot);
  // The same, to be written: that group itself if nothing reads it after this, else none (-1).
  int TakeOver(int slot);
  // This instruction has no more to do with that group.
  void Leave(int group) { touched_[static_cast<size_t>(group)] = false; }
  // A group that holds nothing, until the next instruction.
  int Spare();
  // From here on the value that this instruction makes is in `group`.
  void Define(int group);

  // Bytes of the stack, from its pointer on, that a tail of so many slots may take.
  static int StackBytes(const TailCode& code, const TailAssembler& to);

 private:
  struct Value {
    int slot;
    std::vector<int> readers;  // instructions, in order
    int group = -1;
    bool stacked = false;  // too, in its slot's place
  };

  Value& ValueIn(int slot) {
    return values_[static_cast<size_t>(value_of_slot_[static_cast<size_t>(slot)])];
  }
  // From this instruction on; -1: none.
  int NextReader(const Value& value) const;
  int Take(int group);
  void Push(int group);
  Xbyak::Address StackOf(const Value& value, int i) const;

  TailAssembler& to_;
  std::vector<Value> values_;
  std::vector<int> made_;           // by instruction: the value that it makes, or -1
  std::vector<int> value_of_slot_;  // before this instruction's own
  std::vector<bool> touched_;       // by group: by this instruction
  std::vector<int> holder_;         // by group: value, or -1
  int instruction_ = -1;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_REGISTERS_H_

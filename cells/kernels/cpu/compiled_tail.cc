#include "cells/kernels/cpu/compiled_tail.h"

#include <array>
#include <cstddef>
#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/product_limits.h"
#include "cells/kernels/cpu/tail_assembler.h"
#include "cells/kernels/cpu/tail_registers.h"

namespace cellbatch::kernels {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr int kPointerBytes = static_cast<int>(sizeof(void*));

using Kind = TailInstructionKind;
using Xbyak::Address;
using Xbyak::Operand;
using Xbyak::Reg64;
using Xbyak::Zmm;

bool AreSame(const TailOperand& a, const TailOperand& b) {
  return a.from == b.from && a.index == b.index;
}

}  // namespace

// Writes a tail. Its general registers are those that a function may change.
class CompiledTail::Code : public TailAssembler {
 public:
  Code(const TailCode& code, const Layout& layout) : code_(code), layout_(layout) {
    WriteFunction();
    WriteNumbers();
    readyRE();
  }

 private:
  void WriteFunction() {
    push(rbp);
    mov(rbp, rsp);
    if (TailRegisters::StackBytes(code_) > 0) sub(rsp, TailRegisters::StackBytes(code_));
    and_(rsp, -kRegisterBytes);
    mov(parameters_, ptr[call_ + offsetof(Call, parameters)]);
    mov(columns_, ptr[call_ + offsetof(Call, rows)]);
    mov(unit_, ptr[call_ + offsetof(Call, unit_bytes)]);
    if (by_blocks()) {
      WriteRowsOfBlocks();
    } else {
      mov(sums_, ptr[call_ + offsetof(Call, accumulators)]);
      mov(stride_, ptr[call_ + offsetof(Call, accumulator_stride)]);
      lea(three_strides_, ptr[stride_ + stride_ * 2]);
      mov(left_, ptr[call_ + offsetof(Call, num_rows)]);
      WriteLoop(kMostRows);
      WriteLoop(1);
    }
    vzeroupper();
    leave();
    ret();
  }

  // Row after row, its blocks abreast. (There is one of each at least.)
  void WriteRowsOfBlocks() {
    Xbyak::Label next;
    mov(rows_left_, ptr[call_ + offsetof(Call, num_rows)]);
    mov(blocks_, ptr[call_ + offsetof(Call, num_blocks)]);
    L(next);
    mov(left_, blocks_);
    WriteLoop(kMostRows);
    WriteLoop(1);
    // Back to the first block, of the next row.
    imul(left_, blocks_, kRegisterBytes);
    sub(unit_, left_);
    sub(parameters_, left_);
    add(columns_, kPointerBytes);
    dec(rows_left_);
    jnz(next, T_NEAR);
  }

  // While there are so many rows, or blocks of one.
  void WriteLoop(int rows) {
    Xbyak::Label next, end;
    L(next);
    cmp(left_, rows);
    jl(end, T_NEAR);
    SetRows(rows);
    TailRegisters registers(code_, *this);
    registers_ = &registers;
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      registers.Begin(static_cast<int>(i));
      Write(code_.instructions[i]);
    }
    if (by_blocks()) {
      add(unit_, rows * kRegisterBytes);
      add(parameters_, rows * kRegisterBytes);
    } else {
      for (int r = 0; r < rows; ++r) add(sums_, stride_);
      add(columns_, rows * kPointerBytes);
    }
    sub(left_, rows);
    jmp(next, T_NEAR);
    L(end);
  }

  void Write(const TailInstruction& i) {
    switch (i.kind) {
      case Kind::kLoad:
      case Kind::kLoadOne:
        return Load(i.column, i.kind == Kind::kLoadOne);
      case Kind::kLook:
      case Kind::kLookOne:
        looks_[static_cast<size_t>(i.look)] = {i.column, i.kind == Kind::kLookOne};
        return;
      case Kind::kStore:
        return Store(i);
      case Kind::kAdd:
        return OfTwo(i, &Code::Add);
      case Kind::kSub:
        return OfTwo(i, &Code::Sub);
      case Kind::kMul:
        return OfTwo(i, &Code::Mul);
      case Kind::kDiv:
        return OfTwo(i, &Code::Div);
      case Kind::kMax:
        return OfTwo(i, &Code::Max);
      case Kind::kMulAdd:
        return InSteps<2>(i, {{{&Code::Mul, i.b}, {&Code::Add, i.c}}});
      case Kind::kSubMul:
        return InSteps<2>(i, {{{&Code::Sub, i.b}, {&Code::Mul, i.c}}});
      case Kind::kNormalise:
        return InSteps<4>(
            i, {{{&Code::Sub, i.b}, {&Code::Mul, i.c}, {&Code::Mul, i.d}, {&Code::Add, i.e}}});
      case Kind::kNormaliseAdd:
        return InSteps<5>(i, {{{&Code::Sub, i.b},
                               {&Code::Mul, i.c},
                               {&Code::Mul, i.d},
                               {&Code::Add, i.e},
                               {&Code::Add, i.f}}});
      case Kind::kSigmoid:
      case Kind::kTanh:
      case Kind::kRelu:
      case Kind::kExp:
      case Kind::kLog:
      case Kind::kSigmoidTanh:
        return Function(i);
    }
    NoSuchEnumerator();
  }

  void Add(const Zmm& to, const Zmm& a, const Operand& b) { vaddps(to, a, b); }
  void Sub(const Zmm& to, const Zmm& a, const Operand& b) { vsubps(to, a, b); }
  void Mul(const Zmm& to, const Zmm& a, const Operand& b) { vmulps(to, a, b); }
  void Div(const Zmm& to, const Zmm& a, const Operand& b) { vdivps(to, a, b); }
  void Max(const Zmm& to, const Zmm& a, const Operand& b) { vmaxps(to, a, b); }
  using Operation = void (Code::*)(const Zmm& to, const Zmm& a, const Operand& b);
  struct Step {
    Operation operation;
    TailOperand last;
  };

  void OfTwo(const TailInstruction& i, Operation operation) { InSteps<1>(i, {{{operation, i.b}}}); }

  // a, and to what that leaves one operand after the other.
  template <size_t N>
  void InSteps(const TailInstruction& i, const std::array<Step, N>& steps) {
    bool alone = true;
    for (const Step& step : steps) alone = alone && !AreSame(step.last, i.a);
    int from =
        i.a.from == TailOperand::kSlot && !alone ? registers_->GroupOf(i.a.index) : Own(i.a, alone);
    const int to = alone ? from : registers_->Spare();
    for (size_t i = 0; i < N; ++i) {
      EachRowOf(steps[i].last, static_cast<int>(i), [&](int r, const Operand& last) {
        (this->*steps[i].operation)(Register(to, r), Register(from, r), last);
      });
      from = to;
    }
    registers_->Define(to);
  }

  void Function(const TailInstruction& i) {
    TailRegisters& registers = *registers_;
    if (i.kind == Kind::kSigmoidTanh) {
      const bool alone = !AreSame(i.a, i.b);
      const int x = Own(i.a, alone), y = Own(i.b, alone);
      SigmoidTimesTanh(x, y, {registers.Spare(), registers.Spare(), registers.Spare()});
      return registers.Define(x);
    }
    const int x = Own(i.a, true);
    if (i.kind == Kind::kRelu) Relu(x);
    if (i.kind == Kind::kSigmoid) Sigmoid(x, registers.Spare(), registers.Spare());
    if (i.kind == Kind::kExp) Exp(x, registers.Spare(), registers.Spare());
    if (i.kind == Kind::kLog) Log(x, registers.Spare(), registers.Spare());
    if (i.kind == Kind::kTanh) Tanh(x, registers.Spare(), registers.Spare(), registers.Spare());
    registers.Define(x);
  }

  void Load(int column, bool one) {
    const int to = registers_->Spare();
    for (int r = 0; r < rows(); ++r) LoadRow(Register(to, r), {column, one}, r);
    registers_->Define(to);
  }

  void Store(const TailInstruction& i) {
    const int from =
        i.a.from == TailOperand::kSlot ? registers_->GroupOf(i.a.index) : Own(i.a, false);
    for (int r = 0; r < rows(); ++r) {
      FindRow(i.column, r);
      vmovups(Units(r), Register(from, r));
    }
  }

  // A group with that operand that may be written. `alone`: nothing else of this instruction reads it.
  int Own(const TailOperand& o, bool alone) {
    const bool slot = o.from == TailOperand::kSlot;
    if (slot && alone) {
      const int own = registers_->TakeOver(o.index);
      if (own >= 0) return own;
    }
    const int from = slot ? registers_->GroupOf(o.index) : -1, to = registers_->Spare();
    for (int r = 0; r < rows(); ++r) {
      if (slot) {
        vmovaps(Register(to, r), Register(from, r));
      } else {
        LoadOperand(Register(to, r), o, r);
      }
    }
    if (slot && alone) registers_->Leave(from);
    return to;
  }

  // f(r, the operand in row r, as an instruction's last): where all have the same, out of one register, `step`'s own.
  template <class F>
  void EachRowOf(const TailOperand& o, int step, F f) {
    const int group = o.from == TailOperand::kSlot ? registers_->GroupOf(o.index) : -1;
    const bool held = rows() > 1 && IsOfAll(o);
    if (held) LoadOperand(Constant(step % kConstants), o, 0);
    for (int r = 0; r < rows(); ++r) {
      if (held) {
        f(r, Constant(step % kConstants));
      } else if (group >= 0) {
        f(r, Register(group, r));
      } else {
        f(r, InMemory(o, r));
      }
    }
  }

  // Whether what lies abreast has one value of it: rows one of a parameter, blocks one of a row's single number.
  bool IsOfAll(const TailOperand& o) const {
    if (o.from == TailOperand::kColumn) return by_blocks() && LookOf(o).one;
    return o.from == TailOperand::kConstant || (o.from == TailOperand::kParameter && !by_blocks());
  }
  // What is no slot.
  void LoadOperand(const Zmm& to, const TailOperand& o, int r) {
    if (o.from == TailOperand::kColumn) return LoadRow(to, LookOf(o), r);
    if (o.from == TailOperand::kConstant) return vbroadcastss(to, One(NumberOf(o)));
    vmovups(to, InMemory(o, r));
  }

  Address InMemory(const TailOperand& o, int r) {
    switch (o.from) {
      case TailOperand::kAccumulator:
        return ptr[Sums(r) + o.index * kRegisterBytes];
      case TailOperand::kParameter:
        return ptr[parameters_ + o.index * layout_.parameter_bytes + BlocksOn(r)];
      case TailOperand::kConstant:
        return Each(NumberOf(o));
      case TailOperand::kColumn: {
        FindRow(LookOf(o).column, r);
        return LookOf(o).one ? ptr_b[at_] : Units(r);
      }
      case TailOperand::kSlot:
        break;
    }
    NoSuchEnumerator();
  }

  // What a column has for a row: 16 units, or one number.
  struct Look {
    int column = 0;
    bool one = false;
  };
  const Look& LookOf(const TailOperand& o) const { return looks_[static_cast<size_t>(o.index)]; }
  void LoadRow(const Zmm& to, const Look& look, int r) {
    FindRow(look.column, r);
    if (look.one) {
      vbroadcastss(to, ptr[at_]);
    } else {
      vmovups(to, Units(r));
    }
  }

  Xbyak::RegExp Sums(int r) const {
    if (r == 0) return sums_;
    return r == 3 ? sums_ + three_strides_ : sums_ + stride_ * r;
  }
  // at_ = where a column's row starts, for its r-th abreast: blocks are all of one row, found by the first.
  void FindRow(int column, int r) {
    if (by_blocks() && r > 0) return;
    const int row = by_blocks() ? 0 : r;
    mov(at_, ptr[columns_ + (column * layout_.column_rows + row) * kPointerBytes]);
  }
  Address Units(int r) const { return ptr[at_ + unit_ + BlocksOn(r)]; }
  int BlocksOn(int r) const { return by_blocks() ? r * kRegisterBytes : 0; }
  bool by_blocks() const { return layout_.by_blocks; }
  float NumberOf(const TailOperand& o) const {
    return code_.constants[static_cast<size_t>(o.index) * kLanes];
  }

  const Reg64 call_ = rdi, parameters_ = rsi, unit_ = rdx, columns_ = r10, at_ = rax, left_ = r11;
  const Reg64 three_strides_ = rcx, sums_ = r8, stride_ = r9;  // of rows abreast
  const Reg64 rows_left_ = rcx, blocks_ = r8;                  // of blocks
  const TailCode& code_;
  const Layout layout_;
  TailRegisters* registers_ = nullptr;
  std::array<Look, kMaxTailColumns> looks_;
};

bool CompiledTail::IsUseful() {
  static const bool useful = !kSanitized && DetectCpuFeatures().avx512;
  return useful;
}

std::unique_ptr<CompiledTail> CompiledTail::Make(const TailCode& code, const Layout& layout) {
  try {
    return std::unique_ptr<CompiledTail>(
        new CompiledTail(std::make_unique<Code>(code, layout), layout.by_blocks));
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
}

CompiledTail::CompiledTail(std::unique_ptr<Code> code, bool by_blocks)
    : code_(std::move(code)),
      by_blocks_(by_blocks),
      run_(code_->getCode<void (*)(const Call*)>()) {}

CompiledTail::~CompiledTail() = default;

}  // namespace cellbatch::kernels

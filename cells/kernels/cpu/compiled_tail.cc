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
    mov(sums_, ptr[rdi + offsetof(Call, accumulators)]);
    mov(stride_, ptr[rdi + offsetof(Call, accumulator_stride)]);
    mov(parameters_, ptr[rdi + offsetof(Call, parameters)]);
    mov(columns_, ptr[rdi + offsetof(Call, rows)]);
    mov(unit_, ptr[rdi + offsetof(Call, unit_bytes)]);
    mov(left_, ptr[rdi + offsetof(Call, num_rows)]);
    lea(three_strides_, ptr[stride_ + stride_ * 2]);
    WriteLoop(kMostRows);
    WriteLoop(1);
    vzeroupper();
    leave();
    ret();
  }

  // While there are so many rows.
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
    for (int r = 0; r < rows; ++r) add(sums_, stride_);
    add(columns_, rows * kPointerBytes);
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
    for (const Step& step : steps) {
      EachRowOf(step.last, [&](int r, const Operand& last) {
        (this->*step.operation)(Register(to, r), Register(from, r), last);
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
      mov(at_, RowOf(i.column, r));
      vmovups(ptr[at_ + unit_], Register(from, r));
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
      } else if (o.from == TailOperand::kColumn) {
        LoadRow(Register(to, r), looks_[static_cast<size_t>(o.index)], r);
      } else if (o.from == TailOperand::kConstant) {
        vbroadcastss(Register(to, r), One(Constant(o)));
      } else {
        vmovups(Register(to, r), InMemory(o, r));
      }
    }
    if (slot && alone) registers_->Leave(from);
    return to;
  }

  // f(r, the operand in row r, as an instruction's last).
  template <class F>
  void EachRowOf(const TailOperand& o, F f) {
    const int group = o.from == TailOperand::kSlot ? registers_->GroupOf(o.index) : -1;
    for (int r = 0; r < rows(); ++r) {
      if (group >= 0) {
        f(r, Register(group, r));
      } else {
        f(r, InMemory(o, r));
      }
    }
  }

  Address InMemory(const TailOperand& o, int r) {
    switch (o.from) {
      case TailOperand::kAccumulator:
        return ptr[Sums(r) + o.index * kRegisterBytes];
      case TailOperand::kParameter:
        return ptr[parameters_ + o.index * layout_.parameter_bytes];
      case TailOperand::kConstant:
        return Each(Constant(o));
      case TailOperand::kColumn: {
        const Look& look = looks_[static_cast<size_t>(o.index)];
        mov(at_, RowOf(look.column, r));
        return look.one ? ptr_b[at_] : ptr[at_ + unit_];
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
  void LoadRow(const Zmm& to, const Look& look, int r) {
    mov(at_, RowOf(look.column, r));
    if (look.one) {
      vbroadcastss(to, ptr[at_]);
    } else {
      vmovups(to, ptr[at_ + unit_]);
    }
  }

  Xbyak::RegExp Sums(int r) const {
    if (r == 0) return sums_;
    return r == 3 ? sums_ + three_strides_ : sums_ + stride_ * r;
  }
  Address RowOf(int column, int r) const {
    return ptr[columns_ + (column * layout_.column_rows + r) * kPointerBytes];
  }
  float Constant(const TailOperand& o) const {
    return code_.constants[static_cast<size_t>(o.index) * kLanes];
  }

  const Reg64 left_ = rdi, parameters_ = rsi, unit_ = rdx, three_strides_ = rcx, sums_ = r8,
              stride_ = r9, columns_ = r10, at_ = rax;
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
    return std::unique_ptr<CompiledTail>(new CompiledTail(std::make_unique<Code>(code, layout)));
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
}

CompiledTail::CompiledTail(std::unique_ptr<Code> code)
    : code_(std::move(code)), run_(code_->getCode<void (*)(const Call*)>()) {}

CompiledTail::~CompiledTail() = default;

}  // namespace cellbatch::kernels

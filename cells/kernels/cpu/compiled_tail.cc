#include "cells/kernels/cpu/compiled_tail.h"

#include <array>
#include <cstddef>
#include <utility>

#include "cells/check.h"
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
using Xbyak::Reg64;

bool AreSame(const TailOperand& a, const TailOperand& b) {
  return a.from == b.from && a.index == b.index;
}

}  // namespace

// Writes a tail. Its general registers are those that a function may change.
class CompiledTail::Code : public TailAssembler {
 public:
  Code(const TailCode& code, TailIsa isa, const Layout& layout)
      : TailAssembler(isa), code_(code), layout_(layout) {
    WriteFunction();
    WriteNumbers();
    readyRE();
  }

 private:
  void WriteFunction() {
    push(rbp);
    mov(rbp, rsp);
    const int stack_bytes = TailRegisters::StackBytes(code_, *this);
    if (stack_bytes > 0) sub(rsp, stack_bytes);
    and_(rsp, -register_bytes());
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
      WriteLoops();
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
    WriteLoops();
    // Back to the first block, of the next row.
    imul(left_, blocks_, kBlockBytes);
    sub(unit_, left_);
    sub(parameters_, left_);
    add(columns_, kPointerBytes);
    dec(rows_left_);
    jnz(next, T_NEAR);
  }

  void WriteLoops() {
    if (most_rows() > 1) WriteLoop(most_rows());
    WriteLoop(1);
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
      add(unit_, rows * kBlockBytes);
      add(parameters_, rows * kBlockBytes);
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

  void Add(const Vector& to, const Vector& a, const Operand& b) { vaddps(to, a, b); }
  void Sub(const Vector& to, const Vector& a, const Operand& b) { vsubps(to, a, b); }
  void Mul(const Vector& to, const Vector& a, const Operand& b) { vmulps(to, a, b); }
  void Div(const Vector& to, const Vector& a, const Operand& b) { vdivps(to, a, b); }
  void Max(const Vector& to, const Vector& a, const Operand& b) { vmaxps(to, a, b); }
  using Operation = void (Code::*)(const Vector& to, const Vector& a, const Operand& b);
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
      EachOf(steps[i].last, static_cast<int>(i), [&](int j, const Operand& last) {
        (this->*steps[i].operation)(Register(to, j), Register(from, j), last);
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
    for (int i = 0; i < abreast(); ++i) LoadColumn(Register(to, i), {column, one}, i);
    registers_->Define(to);
  }

  void Store(const TailInstruction& i) {
    const int from =
        i.a.from == TailOperand::kSlot ? registers_->GroupOf(i.a.index) : Own(i.a, false);
    for (int j = 0; j < abreast(); ++j) {
      FindRow(i.column, j);
      vmovups(Units(j), Register(from, j));
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
    for (int i = 0; i < abreast(); ++i) {
      if (slot) {
        vmovaps(Register(to, i), Register(from, i));
      } else {
        LoadOperand(Register(to, i), o, i);
      }
    }
    if (slot && alone) registers_->Leave(from);
    return to;
  }

  // f(i, what the i-th register abreast has of the operand, as an instruction's last): where all have the same, out of one
  // register, `step`'s own.
  template <class F>
  void EachOf(const TailOperand& o, int step, F f) {
    const int group = o.from == TailOperand::kSlot ? registers_->GroupOf(o.index) : -1;
    const Vector constant = Constant(step % constants());
    const bool held = abreast() > 1 && IsOfAll(o);
    if (held) LoadOperand(constant, o, 0);
    for (int i = 0; i < abreast(); ++i) {
      if (held) {
        f(i, constant);
      } else if (group >= 0) {
        f(i, Register(group, i));
      } else {
        f(i, InMemory(o, i));
      }
    }
  }

  // Whether all that lies abreast has one value of it: the same units of rows one of a parameter, one row's units one of its
  // single number.
  bool IsOfAll(const TailOperand& o) const {
    if (o.from == TailOperand::kColumn) return LookOf(o).one && (by_blocks() || rows() == 1);
    if (o.from == TailOperand::kParameter) return !by_blocks() && halves() == 1;
    return o.from == TailOperand::kConstant;
  }
  // What is no slot.
  void LoadOperand(const Vector& to, const TailOperand& o, int i) {
    if (o.from == TailOperand::kColumn) return LoadColumn(to, LookOf(o), i);
    if (o.from == TailOperand::kConstant) return vbroadcastss(to, One(NumberOf(o)));
    vmovups(to, InMemory(o, i));
  }

  // (A single number, of AVX-512 only: who reads one with AVX2 has one row abreast.)
  Address InMemory(const TailOperand& o, int i) {
    switch (o.from) {
      case TailOperand::kAccumulator:
        return ptr[Sums(RowOf(i)) + o.index * kBlockBytes + UnitsOn(i)];
      case TailOperand::kParameter:
        return ptr[parameters_ + o.index * layout_.parameter_bytes + UnitsOn(i)];
      case TailOperand::kConstant:
        return Each(NumberOf(o));
      case TailOperand::kColumn: {
        FindRow(LookOf(o).column, i);
        return LookOf(o).one ? ptr_b[at_] : Units(i);
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
  void LoadColumn(const Vector& to, const Look& look, int i) {
    FindRow(look.column, i);
    if (look.one) {
      vbroadcastss(to, ptr[at_]);
    } else {
      vmovups(to, Units(i));
    }
  }

  // Of the i-th register abreast: its row of those, and how far on its units are.
  int RowOf(int i) const { return by_blocks() ? 0 : i / halves(); }
  int UnitsOn(int i) const { return (by_blocks() ? i : i % halves()) * register_bytes(); }

  Xbyak::RegExp Sums(int r) const {
    if (r == 0) return sums_;
    return r == 3 ? sums_ + three_strides_ : sums_ + stride_ * r;
  }
  // at_ = where a column's row starts, for the i-th register abreast: found by the first of that row.
  void FindRow(int column, int i) {
    if (i > 0 && RowOf(i) == RowOf(i - 1)) return;
    mov(at_, ptr[columns_ + (column * layout_.column_rows + RowOf(i)) * kPointerBytes]);
  }
  Address Units(int i) const { return ptr[at_ + unit_ + UnitsOn(i)]; }
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

bool CompiledTail::IsUseful(TailIsa isa) { return !kSanitized && isa != TailIsa::kNone; }

std::unique_ptr<CompiledTail> CompiledTail::Make(const TailCode& code, TailIsa isa,
                                                 const Layout& layout) {
  try {
    return std::unique_ptr<CompiledTail>(
        new CompiledTail(std::make_unique<Code>(code, isa, layout), layout.by_blocks));
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

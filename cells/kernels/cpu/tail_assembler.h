// The functions of vector_math.h as instructions of AVX-512 or AVX2, written into memory: what a compiled tail (compiled_tail.h)
// is made of. Each is done to a group of registers that hold what lies abreast, operation by operation, so that long chains lie
// side by side (abreast.h says why). Operations and their order are those of vector_math.h and of the instruction set's Vec,
// and so are all bits but a NaN's.
//
//   AVX-512: four rows, a register each; or one                 AVX2: one row, its two halves
//   zmm0 ...                  ... zmm27   zmm28 .. 31           ymm0 ...                  ... ymm13   ymm14, 15
//   | group 0 | group 1 | ... | group 6 | constants |           | group 0 | group 1 | ... | group 6 | constants |
//
// One thread, at load. Throws Xbyak::Error: no memory.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_ASSEMBLER_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_ASSEMBLER_H_

#include <xbyak/xbyak.h>

#include <bit>
#include <cstdint>
#include <map>

#include "cells/kernels/cpu/product_limits.h"
#include "cells/kernels/cpu/tail_isa.h"

namespace cellbatch::kernels {

class TailAssembler : public Xbyak::CodeGenerator {
 public:
  // A register of either instruction set, and what may be an instruction's last operand.
  using Vector = Xbyak::Xmm;
  using Operand = Xbyak::Operand;

  // What a row has of a block of units.
  static constexpr int kBlockBytes = kLanes * static_cast<int>(sizeof(float));
  static constexpr int kMostGroups = 8;  // of one row, too: no tail needs more to be fast

  // REQUIRES: `isa` is one.
  explicit TailAssembler(TailIsa isa)
      : CodeGenerator(Xbyak::DEFAULT_MAX_CODE_SIZE, Xbyak::AutoGrow),
        is_avx512_(isa == TailIsa::kAvx512) {}

  bool is_avx512() const { return is_avx512_; }
  int register_bytes() const { return is_avx512_ ? kBlockBytes : kBlockBytes / 2; }
  // Registers that a block of one row takes.
  int halves() const { return kBlockBytes / register_bytes(); }

  // Rows (or blocks of one) abreast from here on. At most most_rows(): more leave too few groups.
  void SetRows(int rows) { rows_ = rows; }
  int rows() const { return rows_; }
  int most_rows() const { return is_avx512_ ? 4 : 1; }
  // Registers of a group.
  int abreast() const { return rows_ * halves(); }
  int groups() const {
    const int groups = group_registers() / abreast();
    return groups < kMostGroups ? groups : kMostGroups;
  }
  Vector Register(int group, int i) const { return Numbered(group * abreast() + i); }
  // Registers that hold what all of a group have the same of. Functions write the first two.
  int constants() const { return is_avx512_ ? 4 : 2; }
  Vector Constant(int i) const { return Numbered(group_registers() + i); }

  // A number that stands behind the code, once; `Each`: in every lane, as an instruction's last operand.
  Xbyak::Address One(float number) { return OneOf(std::bit_cast<uint32_t>(number)); }
  Xbyak::Address Each(float number) { return EachOf(std::bit_cast<uint32_t>(number)); }
  // The numbers. Call last, once.
  void WriteNumbers();

  // x = exp(x), and so on. Groups that are written beside the result: any that hold nothing.
  void Exp(int x, int n, int q);
  void Log(int x, int n, int q);
  void Sigmoid(int x, int n, int q);
  void Tanh(int x, int n, int q, int y);
  // x = sigmoid(x) * tanh(y); y is lost.
  struct Spare {
    int n, q, z;
  };
  void SigmoidTimesTanh(int x, int y, Spare spare);
  void Relu(int x);

 private:
  template <class F>
  void EachOfGroup(F f) {
    for (int i = 0; i < abreast(); ++i) f(i);
  }
  int group_registers() const { return (is_avx512_ ? 32 : 16) - constants(); }
  Vector Numbered(int i) const { return Vector(is_avx512_ ? Operand::ZMM : Operand::YMM, i); }
  Xbyak::Address OneOf(uint32_t bits) { return ptr[rip + numbers_[bits]]; }
  Xbyak::Address EachOf(uint32_t bits) {
    return is_avx512_ ? ptr_b[rip + numbers_[bits]] : ptr[rip + numbers_[bits]];
  }
  // Constant register i = number.
  Vector Hold(int i, float number);

  // x = x between the two; a NaN stays one.
  void Clamp(int x, float least, float most);
  // Of exp(x) = 2^n (1 + p): n, and p in q. x is lost.
  void ReduceExp(int x, int n, int q);
  // q = exp(-x) / 2. x and n are lost.
  void HalfExpOfMinus(int x, int n, int q);
  // n = expm1(2 |x|), y = that with x's sign. q is lost.
  void SplitTanh(int x, int n, int q, int y);
  // f = log's mantissa less 1, n its exponent: Vec::SplitLog. `t` is lost.
  void SplitLog(Vector x, Vector f, Vector n, Vector t);
  void LogOrLimit(int x, int log);

  // What one instruction set has an instruction for (tail_assembler_isa.cc): Vec's functions of these names, in place, of a
  // group. `q` of HalfPower: p; of Scale: what is scaled. n is lost.
  void RoundToInt(int n);
  void Scale(int q, int n);
  void HalfPower(int q, int n);
  void PowerOf2(int n);
  void CopySign(int to, int magnitude, int sign);
  void And(const Vector& to, const Vector& a, uint32_t bits);
  void Zero(const Vector& to);
  // log = number where the comparison of x holds. `with`: a register, for AVX2's mask.
  void LimitWhere(const Vector& log, const Vector& x, float other, uint8_t comparison,
                  uint32_t number, const Vector& with);

  const bool is_avx512_;
  int rows_ = 1;
  std::map<uint32_t, Xbyak::Label> numbers_;  // by their bits
};

// Comparisons, as _CMP_LT_OQ and so on.
enum TailComparison : uint8_t { kEqual = 0x00, kLess = 0x11, kNotGreaterOrEqual = 0x19 };

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_ASSEMBLER_H_

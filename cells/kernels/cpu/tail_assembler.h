// The functions of vector_math.h as AVX-512 instructions, written into memory: what a compiled tail (compiled_tail.h) is made of.
// Each is done to a group of registers, one a row, operation by operation, so that long chains lie side by side (abreast.h says
// why). Operations and their order are those of vector_math.h and vec_avx512.h, and so are all bits but a NaN's.
//
//   zmm0 ...                  ... zmm27   zmm28 .. 31
//   | group 0 | group 1 | ... | group 6 | constants |       4 rows; of one row a group is one register
//
// One thread, at load. Throws Xbyak::Error: no memory.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_ASSEMBLER_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_ASSEMBLER_H_

#include <xbyak/xbyak.h>

#include <bit>
#include <cstdint>
#include <map>

namespace cellbatch::kernels {

class TailAssembler : public Xbyak::CodeGenerator {
 public:
  static constexpr int kGroupRegisters = 28, kConstants = 4;
  static constexpr int kRegisterBytes = 64;
  static constexpr int kMostRows = 4;
  static constexpr int kMostGroups = 8;  // of one row, too: no tail needs more to be fast

  TailAssembler() : CodeGenerator(Xbyak::DEFAULT_MAX_CODE_SIZE, Xbyak::AutoGrow) {}

  // Rows of a group from here on.
  void SetRows(int rows) { rows_ = rows; }
  int rows() const { return rows_; }
  int groups() const {
    const int groups = kGroupRegisters / rows_;
    return groups < kMostGroups ? groups : kMostGroups;
  }
  Xbyak::Zmm Register(int group, int row) const { return Xbyak::Zmm(group * rows_ + row); }
  // Registers that hold what all rows have the same of. Functions write them.
  Xbyak::Zmm Constant(int i) const { return Xbyak::Zmm(kGroupRegisters + i); }

  // A number that stands behind the code, once; `Each`: in every lane.
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
  void EachRow(F f) {
    for (int r = 0; r < rows_; ++r) f(r);
  }
  Xbyak::Address OneOf(uint32_t bits) { return ptr[rip + numbers_[bits]]; }
  Xbyak::Address EachOf(uint32_t bits) { return ptr_b[rip + numbers_[bits]]; }
  // Constant register i = number.
  Xbyak::Zmm Hold(int i, float number);

  // x = x between the two; a NaN stays one.
  void Clamp(int x, float least, float most);
  // Of exp(x) = 2^n (1 + p): n, and p in q. x is lost.
  void ReduceExp(int x, int n, int q);
  // q = exp(-x) / 2. x and n are lost.
  void HalfExpOfMinus(int x, int n, int q);
  // n = expm1(2 |x|), y = that with x's sign. q is lost.
  void SplitTanh(int x, int n, int q, int y);
  void LogOrLimit(int x, int log);

  int rows_ = 1;
  std::map<uint32_t, Xbyak::Label> numbers_;  // by their bits
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_ASSEMBLER_H_

// Tails as machine code against the kernel that runs any tail: bit for bit, on whatever this CPU can run. (Of the portable
// kernels, and under sanitizers, nothing is compiled, and both are that kernel.)
#include "cells/kernels/cpu/compiled_tail.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product_limits.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

using K = TailOpKind;

constexpr uint64_t kSeed = 20261127;
constexpr int kDepth = 5;

TailOp Op(K kind, int a = -1, int b = -1, int index = 0) {
  return {kind, static_cast<int16_t>(a), static_cast<int16_t>(b), static_cast<int16_t>(index)};
}

// Whether both are the same bits, or no numbers at all.
bool AreAlike(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// One product with a tail, run as machine code and not, on the same rows.
class TwoWays {
 public:
  TwoWays(const CpuKernels& kernels, Random& random, const TailProgram& tail, int units, int groups)
      : kernels_(kernels),
        random_(random),
        product_(random, units, groups, std::vector<int>(groups > 0 ? 1 : 0, kDepth), tail) {}

  // What a column holds before, of rows that a list names or that follow each other; by default small numbers.
  std::vector<float> values;

  // Empty, or where they differ.
  std::string Difference(int rows, bool listed) {
    RandomRows x(random_, kDepth, rows + 3, rows);
    std::vector<RandomRows> columns;
    for (int c = 0; c < product_.spec.tail.num_columns; ++c) {
      RandomRows& made = columns.emplace_back(random_, product_.spec.units, rows + 3, rows);
      if (!listed) std::iota(made.rows.begin(), made.rows.end(), 1);
      for (size_t i = 0; i < made.data.size() && !values.empty(); ++i) {
        made.data[i] = values[(i + static_cast<size_t>(c)) % values.size()];
      }
    }
    std::vector<RandomRows> other = columns;
    Run(x, columns, rows, listed, true);
    Run(x, other, rows, listed, false);
    for (size_t c = 0; c < columns.size(); ++c) {
      for (size_t i = 0; i < columns[c].data.size(); ++i) {
        if (AreAlike(columns[c].data[i], other[c].data[i])) continue;
        return "column " + std::to_string(c) + ", float " + std::to_string(i) + ": " +
               std::to_string(columns[c].data[i]) + ", not " + std::to_string(other[c].data[i]);
      }
    }
    return "";
  }

 private:
  void Run(const RandomRows& x, std::vector<RandomRows>& columns, int rows, bool listed,
           bool compiled) {
    const TailIsa isa = kernels_.packing.tails;
    const PackedProduct packed(product_.spec,
                               {kernels_.packing.order, compiled ? isa : TailIsa::kNone});
    ASSERT_EQ(packed.compiled_tail(isa) != nullptr, compiled && CompiledTail::IsUseful(isa));
    std::vector<RowColumn> bound;
    for (RandomRows& c : columns) {
      bound.push_back(c.column());
      if (!listed) bound.back() = {c.data.data() + c.stride, c.stride, nullptr};
    }
    const RowSource in = x.source();
    ProductScratch scratch;
    kernels_.run_product(packed, {rows, &in, nullptr, bound.data()}, 0, packed.num_panels(),
                         &scratch);
  }

  const CpuKernels& kernels_;
  Random& random_;
  const RandomProduct product_;
};

class CompiledTailTest : public testing::TestWithParam<const CpuKernels*> {
 protected:
  // Of a product, whose rows lie abreast, and of none: a row's blocks do.
  void ExpectTheSame(const TailProgram& tail, int groups, const std::string& name,
                     const std::vector<float>& values = {}) {
    ExpectOne(tail, groups, name, values);
    ExpectOne(SumsAsColumns(tail, groups), 0, name + ", of no product", values);
  }

  // Every number of rows, and of blocks, that is four at once and some left, in every way to lie.
  void ExpectOne(const TailProgram& tail, int groups, const std::string& name,
                 const std::vector<float>& values) {
    ASSERT_EQ(ClassifyTail(tail).shape, TailShape::kGeneral) << name;
    for (const int units : {16, 48, 61, 117}) {
      TwoWays ways(*GetParam(), random_, tail, units, groups);
      ways.values = values;
      for (const int rows : {1, 3, 4, 7, 19, kChunkRows + 2}) {
        for (const bool listed : {false, true}) {
          ASSERT_EQ(ways.Difference(rows, listed), "")
              << name << ", " << units << " units, " << rows << " rows, listed " << listed;
        }
      }
    }
  }

  Random random_{kSeed};
};

INSTANTIATE_TEST_SUITE_P(All, CompiledTailTest,
                         testing::ValuesIn(RunnableKernels(DetectCpuFeatures())),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

// Of two columns and a sum, an operation, and its operands again.
TailProgram OperationTail(K kind) {
  const bool two = kind <= K::kMax;
  return {{Op(K::kColumn, -1, -1, 0), Op(K::kColumn, -1, -1, 1), Op(K::kAccumulator, -1, -1, 0),
           two ? Op(kind, 0, 1) : Op(kind, 0), two ? Op(kind, 3, 3) : Op(kind, 3),
           two ? Op(kind, 2, 4) : Op(kind, 2), Op(K::kStore, 3, -1, 2), Op(K::kStore, 4, -1, 3),
           Op(K::kStore, 5, -1, 4)},
          5,
          0};
}

TEST_P(CompiledTailTest, EveryOperationHasTheSameBits) {
  for (int kind = static_cast<int>(K::kAdd); kind <= static_cast<int>(K::kLog); ++kind) {
    ExpectTheSame(OperationTail(static_cast<K>(kind)), 1, "operation " + std::to_string(kind));
  }
}

TEST_P(CompiledTailTest, AlsoOfWhatIsNoNumberOrHardlyOne) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {
      0.0f,    -0.0f,    infinity, -infinity, std::nanf(""), 1e-40f,    -1e-40f,  1e-30f, -1e-30f,
      88.7f,   -88.7f,   89.7f,    -87.3f,    104.0f,        -104.0f,   106.0f,   9.01f,  -9.03f,
      3.4e38f, -3.4e38f, 1.0f,     -1.0f,     0.5f,          0x1p-126f, 0x1p-127f};
  for (int kind = static_cast<int>(K::kAdd); kind <= static_cast<int>(K::kLog); ++kind) {
    ExpectTheSame(OperationTail(static_cast<K>(kind)), 1, "operation " + std::to_string(kind),
                  values);
  }
}

TEST_P(CompiledTailTest, EveryInstructionOfSeveralOperationsHasTheSameBits) {
  ExpectTheSame(NormalisingTail(), 4, "normalised");
  ExpectTheSame(NormalisedSumTail(), 4, "normalised and added to");
  ExpectTheSame(ScaledDifferenceTail(), 4, "scaled difference");
  ExpectTheSame(WithAnotherStore(GatedCellTail()), 4, "gated cell");
  ExpectTheSame(WithAnotherStore(GatedUpdateTail()), 4, "gated update");
}

// Both are read by the one instruction that sigmoid(x) tanh(x) is; and once more after it.
TEST_P(CompiledTailTest, AnInstructionMayReadOneValueTwice) {
  TailProgram tail = {
      {Op(K::kColumn, -1, -1, 0), Op(K::kAccumulator, -1, -1, 0), Op(K::kAdd, 0, 1),
       Op(K::kSigmoid, 2), Op(K::kTanh, 2), Op(K::kMul, 3, 4), Op(K::kStore, 5, -1, 1)},
      2,
      0};
  const TailCode code = MakeTailCode(tail);
  ASSERT_TRUE(std::any_of(code.instructions.begin(), code.instructions.end(), [](const auto& i) {
    return i.kind == TailInstructionKind::kSigmoidTanh && i.a.index == i.b.index;
  }));
  ExpectTheSame(tail, 1, "for the last time");
  tail.ops.back() = Op(K::kMul, 5, 2);
  tail.ops.push_back(Op(K::kStore, 6, -1, 1));
  ExpectTheSame(tail, 1, "and once more");
}

TEST_P(CompiledTailTest, TailsAtRandomHaveTheSameBits) {
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    const TailProgram tail = RandomTail(random_, 4, 3, 2);
    if (ClassifyTail(tail).shape != TailShape::kGeneral) continue;
    ExpectTheSame(tail, 4, "at random, the " + std::to_string(i) + "th");
    if (HasFatalFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

// Twenty values alive at once, of four rows each or two halves: registers hold seven. Read in the order in which they were made, and backwards.
TEST_P(CompiledTailTest, ValuesThatRegistersDoNotHoldAreKept) {
  constexpr int kValues = 20;
  TailProgram tail = {{}, 2, 0};
  for (int i = 0; i < kValues; ++i) {
    tail.ops.push_back(Op(K::kConstant));
    tail.ops.back().constant = 0.1f * static_cast<float>(i);
    tail.ops.push_back(Op(K::kAccumulator));
    tail.ops.push_back(Op(K::kAdd, 3 * i, 3 * i + 1));
  }
  for (const bool backwards : {false, true}) {
    TailProgram sums = tail;
    int sum = 2;
    for (int i = 0; i < kValues; ++i) {
      const int value = 3 * (backwards ? kValues - 1 - i : i) + 2;
      sums.ops.push_back(Op(i % 5 == 0 ? K::kSub : K::kAdd, sum, value));
      sum = static_cast<int>(sums.ops.size()) - 1;
    }
    sums.ops.push_back(Op(K::kTanh, sum));
    sums.ops.push_back(Op(K::kStore, sum + 1, -1, 1));
    ASSERT_LE(sums.ops.size(), size_t{kMaxTailOps});
    ExpectTheSame(sums, 1, backwards ? "backwards" : "in order");
  }
}

// What a system does that never lets a program run what it wrote (systemd's MemoryDenyWriteExecute does it so).
void ForbidToExecute() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::exit(77);
  }
}

TEST(CompiledTailDeathTest, WhereMemoryMayNotBeExecutedTailsRunAsTheyAre) {
  Random random(kSeed);
  const TailCode code = MakeTailCode(OperationTail(K::kTanh));
  for (const TailIsa isa : {TailIsa::kAvx2, TailIsa::kAvx512}) {
    EXPECT_NE(CompiledTail::Make(code, isa, {64, kChunkRows, false}), nullptr);
  }
  EXPECT_EXIT(
      {
        ForbidToExecute();
        for (const TailIsa isa : {TailIsa::kAvx2, TailIsa::kAvx512}) {
          if (CompiledTail::Make(code, isa, {64, kChunkRows, false}) != nullptr) std::exit(1);
        }
        const RandomProduct product(random, 16, 1, {kDepth}, OperationTail(K::kTanh));
        const CpuKernels& kernels = BestKernels(DetectCpuFeatures());
        const PackedProduct packed(product.spec, kernels.packing);
        if (packed.compiled_tail(kernels.packing.tails) != nullptr) std::exit(2);
        RandomRows x(random, kDepth, 4, 1);
        std::vector<RandomRows> columns;
        std::vector<RowColumn> bound;
        for (int c = 0; c < 5; ++c) columns.emplace_back(random, 16, 4, 1);
        for (RandomRows& c : columns) bound.push_back(c.column());
        const float before = *columns[0].Row(0);
        const RowSource in = x.source();
        ProductScratch scratch;
        kernels.run_product(packed, {1, &in, nullptr, bound.data()}, 0, 1, &scratch);
        std::exit(std::abs(*columns[2].Row(0) - std::tanh(before)) < 1e-6f ? 0 : 3);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cellbatch::kernels

#include "cells/kernels/cpu/tail_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

using Kind = TailOpKind;

TailOp Op(Kind kind, int a = -1, int b = -1, int index = 0, float constant = 0.0f) {
  return {kind, static_cast<int16_t>(a), static_cast<int16_t>(b), static_cast<int16_t>(index),
          constant};
}

TEST(CheckTailTest, WellFormedTailsPass) {
  EXPECT_EQ(CheckTail(IdentityTail(), 1), "");
  EXPECT_EQ(CheckTail(GatedCellTail(), 4), "");
  EXPECT_EQ(CheckTail(GatedUpdateTail(), 4), "");
  Random random(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(CheckTail(RandomTail(random, 3, 2, 1), 3), "");
}

TEST(ClassifyTailTest, KnowsTheOneLiners) {
  EXPECT_EQ(ClassifyTail(IdentityTail()).shape, TailShape::kIdentity);
  EXPECT_EQ(ClassifyTail(UnaryTail(Kind::kSigmoid)).shape, TailShape::kSigmoid);
  EXPECT_EQ(ClassifyTail(UnaryTail(Kind::kTanh)).shape, TailShape::kTanh);
  EXPECT_EQ(ClassifyTail(UnaryTail(Kind::kRelu)).shape, TailShape::kRelu);
  EXPECT_EQ(ClassifyTail(UnaryTail(Kind::kExp)).shape, TailShape::kGeneral);
}

TEST(ClassifyTailTest, SumsOfSeveralGroupsAreStoredAsTheyAreIfEachGoesToOneColumn) {
  TailProgram tail = {{Op(Kind::kAccumulator, -1, -1, 2), Op(Kind::kAccumulator, -1, -1, 0),
                       Op(Kind::kStore, 0, -1, 1), Op(Kind::kStore, 1, -1, 0)},
                      3,
                      0};
  const TailMatch m = ClassifyTail(tail);
  ASSERT_EQ(m.shape, TailShape::kIdentity);
  EXPECT_EQ(std::vector<int>(m.stored, m.stored + 4), (std::vector<int>{0, -1, 1, -1}));
  tail.ops.push_back(Op(Kind::kStore, 0, -1, 2));  // twice
  EXPECT_EQ(ClassifyTail(tail).shape, TailShape::kGeneral);
  tail.ops.back() = Op(Kind::kTanh, 0);
  EXPECT_EQ(ClassifyTail(tail).shape, TailShape::kIdentity) << "nobody reads it";
  tail.ops.push_back(Op(Kind::kStore, 4, -1, 2));
  EXPECT_EQ(ClassifyTail(tail).shape, TailShape::kGeneral);
}

TEST(ClassifyTailTest, FindsWhoPlaysWhichPart) {
  TailProgram cell = GatedCellTail();
  for (TailOp& op : cell.ops) {
    if (op.kind == Kind::kAccumulator) op.index = 3 - op.index;  // gates in another order
    if (op.kind == Kind::kAdd) std::swap(op.a, op.b);
  }
  const TailMatch m = ClassifyTail(cell);
  ASSERT_EQ(m.shape, TailShape::kGatedCell);
  EXPECT_EQ(std::vector<int>(m.group, m.group + 4), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(m.in, 0);
  EXPECT_EQ(m.out2, 1);
  EXPECT_EQ(m.out, 2);

  TailProgram update = GatedUpdateTail();
  for (TailOp& op : update.ops) {
    if (op.kind == Kind::kAdd || op.kind == Kind::kMul) std::swap(op.a, op.b);
  }
  const TailMatch n = ClassifyTail(update);
  ASSERT_EQ(n.shape, TailShape::kGatedUpdate);
  EXPECT_EQ(std::vector<int>(n.group, n.group + 4), (std::vector<int>{0, 1, 2, 3}));
}

TEST(ClassifyTailTest, NearlyTheSameIsNotTheSame) {
  for (const TailProgram& tail : {GatedCellTail(), GatedUpdateTail()}) {
    ASSERT_NE(ClassifyTail(tail).shape, TailShape::kGeneral);
    for (size_t i = 0; i < tail.ops.size(); ++i) {
      TailProgram other = tail;
      TailOp& op = other.ops[i];
      switch (op.kind) {
        case Kind::kAdd:
          op.kind = Kind::kMax;
          break;
        case Kind::kSub:
          std::swap(op.a, op.b);
          break;
        case Kind::kMul:
          op.kind = Kind::kAdd;
          break;
        case Kind::kSigmoid:
          op.kind = Kind::kTanh;
          break;
        case Kind::kTanh:
          op.kind = Kind::kSigmoid;
          break;
        case Kind::kConstant:
          op.constant = 2.0f;
          break;
        default:
          continue;  // another group or column is another part, not another shape
      }
      EXPECT_EQ(ClassifyTail(other).shape, TailShape::kGeneral) << "operation " << i;
    }
  }
}

class TailShapeTest : public testing::TestWithParam<const CpuKernels*> {};
INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, TailShapeTest,
                         testing::ValuesIn(RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(TailShapeTest, SpecialisedKernelsAgreeWithTheOneThatRunsAnyTail) {
  constexpr uint64_t kSeed = 99;
  Random random(kSeed);
  TailProgram other_update = GatedUpdateTail();  // n + z * (h - n)
  other_update.ops.resize(9);                    // up to n, value 8
  for (const TailOp& op : {Op(Kind::kColumn), Op(Kind::kSub, 9, 8), Op(Kind::kMul, 3, 10),
                           Op(Kind::kAdd, 8, 11), Op(Kind::kStore, 12, -1, 1)}) {
    other_update.ops.push_back(op);
  }
  for (const TailProgram& tail :
       {IdentityTail(), StoreAllTail(4), UnaryTail(Kind::kSigmoid), UnaryTail(Kind::kTanh),
        UnaryTail(Kind::kRelu), GatedCellTail(), GatedUpdateTail(), other_update}) {
    ASSERT_NE(ClassifyTail(tail).shape, TailShape::kGeneral);
    for (int units : {1, 15, 16, 17, 61}) {
      const RandomProduct fast(random, units, 4, {33}, tail);
      ProductSpec slow = fast.spec;
      slow.tail = WithAnotherStore(tail);
      ASSERT_EQ(ClassifyTail(slow.tail).shape, TailShape::kGeneral);

      const int rows = 19;
      RandomRows x(random, 33, rows, rows);
      std::vector<RandomRows> columns;
      for (int c = 0; c < slow.tail.num_columns; ++c)
        columns.emplace_back(random, units, rows, rows);
      std::vector<RandomRows> fast_columns = columns, slow_columns = columns;
      const auto run = [&](const ProductSpec& spec, std::vector<RandomRows>& out) {
        const PackedProduct packed(spec, GetParam()->packing);
        std::vector<RowColumn> bound;
        for (RandomRows& c : out) bound.push_back(c.column());
        const RowSource in = x.source();
        ProductScratch scratch;
        GetParam()->run_product(packed, {rows, &in, nullptr, bound.data()}, 0, packed.num_panels(),
                                &scratch);
      };
      run(fast.spec, fast_columns);
      run(slow, slow_columns);
      for (int c = 0; c < tail.num_columns; ++c) {
        EXPECT_TRUE(fast_columns[c].OthersUntouched());
        for (size_t i = 0; i < columns[c].data.size(); ++i) {
          ASSERT_NEAR(fast_columns[c].data[i], slow_columns[c].data[i], 5e-7)
              << "seed " << kSeed << ", " << units << " units, column " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch::kernels

#include "cells/compile/lower.h"

#include <gtest/gtest.h>

#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/cpu/tail_shape.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;

std::string Lowered(const CellDefinition& cell) {
  const absl::StatusOr<CellProgram> program = Lower(cell, kCpuLimits);
  return program.ok() ? Describe(*program) : program.status().ToString();
}

TEST(LowerTest, AnLstmIsOneProductOfFourGroupsHoweverItIsWritten) {
  const std::string one = "product 4x5 in0.0[3] in1.0[5] tail 16 -> out0 -> out1\n";
  EXPECT_EQ(Lowered(testing::LstmCell(3, 5)), one);
  EXPECT_EQ(Lowered(testing::LstmCellByGate(3, 5)), one);
  EXPECT_EQ(Lowered(testing::LstmCellConcat(3, 5)), one);
}

TEST(LowerTest, AnLstmsTailIsRecognised) {
  const CellProgram program = *Lower(testing::LstmCell(3, 5), kCpuLimits);
  const auto& step = std::get<ProductStep>(program.steps[0]);
  EXPECT_EQ(CheckProduct(step, kCpuLimits), "");
  EXPECT_EQ(kernels::ClassifyTail(step.tail).shape, kernels::TailShape::kGatedCell);
  EXPECT_EQ(step.bias[0].size(), 2u);  // PyTorch's two biases, added up at load
  EXPECT_EQ(program.scratch_width, 0);
}

TEST(LowerTest, AGruIsOneProductWhoseFourthGroupSeesOnlyTheState) {
  EXPECT_EQ(Lowered(testing::GruCell(3, 5)),
            "product 4x5 in0.0[3]@012 in1.0[5]@123 tail 16 -> out0\n");
  const CellProgram program = *Lower(testing::GruCell(3, 5), kCpuLimits);
  const auto& step = std::get<ProductStep>(program.steps[0]);
  EXPECT_EQ(kernels::ClassifyTail(step.tail).shape, kernels::TailShape::kGatedUpdate);
}

TEST(LowerTest, ResetBeforeTheProductTakesTwo) {
  EXPECT_EQ(Lowered(testing::GruV1Cell(3, 5)),
            "product 2x5 in0.0[3] in1.0[5] tail 12 -> scratch -> scratch+16 -> scratch+32\n"
            "product 1x5 in0.0[3] scratch[5] tail 7 -> out0\n");
}

// y = v tanh(V sigmoid(W x)), where v is made of inputs alone: by whoever reads it, unless that would be two. Biases make
// other expressions of what reads a product, and not more of them.
TEST(LowerTest, WhatReadsOnlyWhatLiesSomewhereIsMadeWhereItIsRead) {
  for (const auto& [read_twice, biased] :
       {std::pair(false, false), std::pair(false, true), std::pair(true, false)}) {
    CellBuilder b("late");
    const auto product = [&b, &biased](const char* w, ValueId x) {
      const ValueId made = b.MatMul(x, b.Matrix(w, 5, 5));
      return biased ? b.Add(made, b.Vector(std::string("b") + w, 5)) : made;
    };
    const ValueId x = b.Read("x", "x", 5), gate = b.Read("gate", "gate", 5);
    const ValueId v = b.Op1(OpKind::kSigmoid, b.Mul(gate, x));
    const ValueId inner = b.Op1(OpKind::kSigmoid, product("W", x));
    b.Leave("y", b.Mul(v, b.Tanh(product("V", inner))));
    if (read_twice) b.Leave("z", b.Tanh(v));
    EXPECT_EQ(Lowered(b.Build()),
              read_twice ? "product 1x5 in0.0[5] tail 10 -> out1 -> scratch -> scratch+16\n"
                           "product 1x5 scratch+16[5] tail 5 -> out0\n"
                         : "product 1x5 in0.0[5] tail 3 -> scratch\n"
                           "product 1x5 scratch[5] tail 8 -> out0\n");
  }
}

// Behind a product nothing waits: its sums are nobody else's.
TEST(LowerTest, WhatReadsAProductIsStoredForLaterReaders) {
  CellBuilder b("product");
  const ValueId x = b.Read("x", "x", 5);
  const ValueId v = b.Op1(OpKind::kSigmoid, b.MatMul(x, b.Matrix("U", 5, 5)));
  const ValueId inner = b.Op1(OpKind::kSigmoid, b.MatMul(x, b.Matrix("W", 5, 5)));
  b.Leave("y", b.Mul(v, b.Tanh(b.MatMul(inner, b.Matrix("V", 5, 5)))));
  EXPECT_EQ(Lowered(b.Build()),
            "product 2x5 in0.0[5] tail 6 -> scratch -> scratch+16\n"
            "product 1x5 scratch+16[5] tail 5 -> out0\n");
}

TEST(LowerTest, AnElmanCellIsOneGroup) {
  const CellProgram program = *Lower(testing::ElmanCell(3, 5, OpKind::kRelu), kCpuLimits);
  EXPECT_EQ(Describe(program), "product 1x5 in0.0[3] in1.0[5] tail 3 -> out0\n");
  const auto& step = std::get<ProductStep>(program.steps[0]);
  EXPECT_EQ(kernels::ClassifyTail(step.tail).shape, kernels::TailShape::kRelu);
}

TEST(LowerTest, ATokensTableRowComesFirstInTheSum) {
  EXPECT_EQ(Lowered(testing::TokenLstmCell(100, 3, 5)),
            "index table0\nproduct 4x5 table0[3] in1.0[5] tail 16 -> out0 -> out1\n");
  const CellProgram program = *Lower(testing::TokenLstmCell(100, 3, 5), kCpuLimits);
  EXPECT_EQ(program.lookups[0].rows, 100);
  EXPECT_EQ(program.lookups[0].stride, 3);
}

TEST(LowerTest, JoinedInputsAreSegmentsOfOneProduct) {
  EXPECT_EQ(Lowered(testing::TwoInputLstmCell(3, 4, 5)),
            "product 4x5 in0.0[3] in1.0[4] in2.0[5] tail 16 -> out0 -> out1\n");
  const CellProgram program = *Lower(testing::TwoInputLstmCell(3, 4, 5), kCpuLimits);
  const auto& step = std::get<ProductStep>(program.steps[0]);
  EXPECT_EQ(step.segments[1].weights[2]->offset - step.segments[0].weights[2]->offset,
            3);  // behind x
  EXPECT_EQ(step.segments[1].weights[2]->unit_stride, 7);
}

TEST(LowerTest, AnEmbeddingIsACopy) {
  EXPECT_EQ(Lowered(testing::EmbeddingCell(100, 7)), "index table0\ncopy table0 [7] -> out0\n");
}

TEST(LowerTest, ChildrenAreSummedInFront) {
  EXPECT_EQ(Lowered(testing::ChildSumCell(3, 5)),
            "sum in1.0 [5] -> scratch\nproduct 1x5 in0.0[3] scratch[5] tail 3 -> out0\n");
}

TEST(LowerTest, LogitsAreStoredForTheirReductions) {
  EXPECT_EQ(Lowered(testing::DecodeCell(4, 9)),
            "product 1x9 in0.0[4] tail 2 -> scratch\n"
            "argmax scratch [1] -> out0\n"
            "softmax scratch [9] -> out1\n");
}

// A decoder: h, then the best word of its logits.
CellBuilder GreedyBuilder() {
  CellBuilder b("greedy");
  const ValueId h = b.Tanh(b.MatMul(b.Read("x", "x", 3), b.Matrix("W", 4, 3)));
  const ValueId logits = b.Add(b.Vector("b", 90), b.MatMul(h, b.Matrix("V", 90, 4)));
  b.Leave("word", b.Op1(OpKind::kArgMax, logits));
  b.Leave("mean", b.Op1(OpKind::kMean, h));
  return b;
}

TEST(LowerTest, LogitsThatOnlyAnArgMaxReadsAreNotStored) {
  const CellDefinition greedy = GreedyBuilder().Build();
  EXPECT_EQ(Lowered(greedy),
            "product 1x4 in0.0[3] tail 3 -> scratch\n"
            "product 1x90 scratch[4] tail 2 largest -> out0\n"
            "mean scratch [1] -> out1\n");
  EXPECT_EQ(Lower(greedy, kCpuLimits)->scratch_width, 16);  // h alone
  ProgramLimits without = kCpuLimits;
  without.arg_max_of_product = false;
  EXPECT_EQ(Lower(greedy, without)->scratch_width, 16 + 96);  // a device that cannot
}

TEST(LowerTest, AWordThatIsLookedUpAtOnceNeedsNoLogitsEither) {
  CellBuilder b("feed_back");
  const ValueId x = b.Read("x", "x", 9);
  const ValueId word = b.Op1(OpKind::kArgMax, b.MatMul(x, b.Matrix("W", 40, 9)));
  b.Leave("next", b.MatMul(b.Lookup(b.Matrix("E", 40, 6), word), b.Matrix("V", 5, 6)));
  EXPECT_EQ(Lowered(b.Build()),
            "product 1x40 in0.0[9] tail 2 largest -> scratch\n"
            "index table0\n"
            "product 1x5 table0[6] tail 2 -> out0\n");
  EXPECT_EQ(Lower(b.Build(), kCpuLimits)->scratch_width, 16);
  EXPECT_EQ(Lower(b.Build(), kCpuLimits)->lookups[0].token.offset, 0);
}

TEST(LowerTest, LogitsThatAnybodyElseReadsStay) {
  CellBuilder output("output"), part("part"), two("two");
  const auto logits = [](CellBuilder& b) {
    return b.MatMul(b.Read("x", "x", 3), b.Matrix("W", 40, 3));
  };
  const ValueId left = logits(output);
  output.Leave("logits", left);
  output.Leave("word", output.Op1(OpKind::kArgMax, left));
  EXPECT_EQ(Lowered(output.Build()),
            "product 1x40 in0.0[3] tail 2 -> out0\nargmax out0 [1] -> out1\n");
  const ValueId sliced = logits(part);
  part.Leave("word", part.Op1(OpKind::kArgMax, sliced));
  part.Leave("some", part.Op1(OpKind::kSoftmax, part.Slice(sliced, 3, 8)));
  EXPECT_EQ(Lowered(part.Build()).find("largest"), std::string::npos) << Lowered(part.Build());
  const ValueId twice = logits(two);
  two.Leave("word", two.Op1(OpKind::kArgMax, twice));
  two.Leave("best", two.Op1(OpKind::kArgMax, two.Concat(twice, two.Read("y", "y", 3))));
  EXPECT_EQ(Lowered(two.Build()).find("largest"), std::string::npos) << Lowered(two.Build());
}

TEST(LowerTest, WhatIsAnOutputNeedsNoScratch) {
  CellBuilder b("two_layers");
  const ValueId x = b.Read("x", "x", 3);
  const ValueId h = b.Tanh(b.MatMul(x, b.Matrix("W", 4, 3)));
  b.Leave("h", h);
  b.Leave("y", b.MatMul(h, b.Matrix("V", 2, 4)));
  EXPECT_EQ(Lowered(b.Build()),
            "product 1x4 in0.0[3] tail 3 -> out0\nproduct 1x2 out0[4] tail 2 -> out1\n");
}

TEST(LowerTest, ATransposedParameterIsReadAsItLies) {
  CellBuilder b("transposed");
  const ValueId x = b.Read("x", "x", 3);
  b.Leave("y", b.MatMul(x, b.Op1(OpKind::kTranspose, b.Matrix("W", 3, 4))));
  const CellProgram program = *Lower(b.Build(), kCpuLimits);
  const auto& step = std::get<ProductStep>(program.steps[0]);
  EXPECT_EQ(step.segments[0].weights[0]->unit_stride, 1);
  EXPECT_EQ(step.segments[0].weights[0]->depth_stride, 4);
}

CellDefinition SixGates() {
  CellBuilder b("six");
  const ValueId x = b.Read("x", "x", 3);
  ValueId product = b.Sigmoid(b.MatMul(x, b.Matrix("W0", 4, 3)));
  for (const char* w : {"W1", "W2", "W3", "W4", "W5"}) {
    product = b.Mul(product, b.Sigmoid(b.MatMul(x, b.Matrix(w, 4, 3))));
  }
  b.Leave("y", product);
  return b.Build();
}

TEST(LowerTest, SixGatesThatMeetAreStoredAndMeetInASecondStep) {
  EXPECT_EQ(Lowered(SixGates()),
            "product 5x4 in0.0[3] tail 10 -> scratch -> scratch+16 -> scratch+32 -> scratch+48 -> "
            "scratch+64\n"
            "product 1x4 in0.0[3] tail 2 -> scratch+80\n"
            "product 0x4 tail 18 -> out0\n");
}

TEST(LowerTest, ALongTailIsCutInTwo) {
  CellBuilder b("long");
  ValueId v = b.Read("x", "x", 3);
  for (int i = 0; i < 100; ++i) v = b.Tanh(b.Add(v, b.Constant(0.5f)));
  b.Leave("y", v);
  const CellProgram program = *Lower(b.Build(), kCpuLimits);
  EXPECT_GE(program.steps.size(), 3u);
  for (const Step& step : program.steps) {
    const auto& product = std::get<ProductStep>(step);
    EXPECT_EQ(CheckProduct(product, kCpuLimits), "");
  }
}

TEST(LowerTest, ValuesThatDoubleDoNotTakeForEver) {
  CellBuilder b("doubling");
  ValueId v = b.MatMul(b.Read("x", "x", 3), b.Matrix("W", 3, 3));
  for (int i = 0; i < 150; ++i) v = b.Mul(v, b.Tanh(v));
  b.Leave("y", v);
  EXPECT_TRUE(Lower(b.Build(), kCpuLimits).ok());
}

TEST(LowerTest, WhatNoStepCanExpressIsNamed) {
  CellBuilder b("narrow");
  b.Leave("y", b.Read("x", "x", 3, ElementType::kBf16));
  EXPECT_EQ(
      Lowered(b.Build()),
      "UNIMPLEMENTED: cell \"narrow\": input \"x\" reads BF16 columns, which no step does yet");
  CellBuilder c("turned_table");
  const ValueId token = c.Read("token", "token", 1, ElementType::kInt32);
  const ValueId table = c.Op1(OpKind::kTranspose, c.Matrix("E", 4, 3));
  c.Leave("y", c.Lookup(table, token));
  EXPECT_EQ(Lowered(c.Build()),
            "UNIMPLEMENTED: cell \"turned_table\": op 3 (Lookup): the table must be a parameter, "
            "rows one behind the other");
}

TEST(LowerTest, RandomCellsLowerToWellFormedProducts) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const absl::StatusOr<CellProgram> program = Lower(testing::RandomCell(seed), kCpuLimits);
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    for (const Step& step : program->steps) {
      const auto* const product = std::get_if<ProductStep>(&step);
      if (product == nullptr) continue;
      EXPECT_EQ(CheckProduct(*product, kCpuLimits), "") << "seed " << seed;
    }
  }
}

TEST(LowerTest, NoStepHoldsMoreThanItsDevice) {
  const ProgramLimits devices[] = {
      {.groups = 1, .segments = 1, .tail_ops = 5, .tail_columns = 3, .scratch_alignment = 1},
      {.groups = 2, .segments = 2, .tail_ops = 8, .tail_columns = 4, .scratch_alignment = 4},
      {.groups = 8, .segments = 3, .tail_ops = 200, .tail_columns = 40, .scratch_alignment = 32}};
  for (const ProgramLimits& limits : devices) {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}, {} groups", seed, limits.groups));
      const absl::StatusOr<CellProgram> program = Lower(testing::RandomCell(seed), limits);
      ASSERT_TRUE(program.ok()) << program.status();
      EXPECT_EQ(program->scratch_width % limits.scratch_alignment, 0);
      for (const Step& step : program->steps) {
        const auto* const product = std::get_if<ProductStep>(&step);
        if (product == nullptr) continue;
        EXPECT_EQ(CheckProduct(*product, limits), "");
      }
    }
  }
}

TEST(LowerTest, ADeviceThatHoldsMoreTakesFewerSteps) {
  ProgramLimits narrow = kCpuLimits, wide = kCpuLimits;
  narrow.groups = 2;
  wide.groups = 6;
  const auto steps = [](const CellDefinition& cell, const ProgramLimits& limits) {
    return Lower(cell, limits)->steps.size();
  };
  EXPECT_EQ(steps(testing::LstmCell(3, 5), kCpuLimits), 1u);
  EXPECT_EQ(steps(testing::LstmCell(3, 5), narrow), 3u);  // two gates, two gates, the state
  EXPECT_EQ(steps(SixGates(), kCpuLimits), 3u);
  EXPECT_EQ(steps(SixGates(), wide), 1u);
}

}  // namespace
}  // namespace cellbatch

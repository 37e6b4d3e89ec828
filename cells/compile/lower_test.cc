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

TEST(LowerTest, SlicesAreReadWhereTheyLie) {
  CellBuilder b("slices");
  const ValueId x = b.Read("x", "x", 6), token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId all = b.Read("all", "h", 7, ElementType::kFp32, Arity::kSum);
  const ValueId row = b.Lookup(b.Slice(b.Matrix("E", 9, 8), 1, 7), token);
  const ValueId joined = b.Concat(x, b.Read("y", "y", 4));
  const auto times = [&b](const char* w, ValueId v, int32_t width) {
    return b.MatMul(v, b.Matrix(w, 4, width));
  };
  ValueId sum = b.Add(times("U", b.Slice(all, 3, 5), 2), b.Slice(b.Vector("b", 9), 2, 6));
  sum = b.Add(sum, b.Add(times("V", b.Slice(row, 2, 5), 3), times("W", b.Slice(x, 1, 5), 4)));
  sum = b.Add(sum, times("X", b.Slice(joined, 6, 10), 4));  // all of y, nothing of x
  sum = b.Add(sum, times("Y", b.Slice(joined, 4, 7), 3));   // the end of x, the first of y
  b.Leave("y", b.Tanh(sum));
  const CellProgram program = *Lower(b.Build(), kCpuLimits);
  EXPECT_EQ(Describe(program),
            "sum in2.0 [7] -> scratch\n"
            "index table0\n"
            "product 1x4 table0+2[3] in0.0+1[4] in3.0[4] in0.0+4[2] in3.0[1] scratch+3[2] tail 3 "
            "-> out0\n");
  EXPECT_EQ(program.lookups[0].offset, 1);
  EXPECT_EQ(program.lookups[0].stride, 8);
  const auto& product = std::get<ProductStep>(program.steps[2]);
  EXPECT_EQ(std::get<ParameterView>(product.bias[0][0]).offset, 2);
  EXPECT_EQ(product.segments[3].weights[0]->offset, 0);
  EXPECT_EQ(product.segments[4].weights[0]->offset, 2);
}

// x, then what is computed of it, then the state: in whichever order a cell adds them.
TEST(LowerTest, WhatIsComputedComesBetweenInputsAndTheCarry) {
  CellBuilder b("order");
  const ValueId x = b.Read("x", "x", 3), h = b.Carry("before", "h", 5);
  const ValueId from_h = b.MatMul(h, b.Matrix("U", 5, 5));
  const ValueId inner = b.Op1(OpKind::kSoftmax, b.MatMul(x, b.Matrix("V", 4, 3)));
  const ValueId sum = b.Add(from_h, b.MatMul(inner, b.Matrix("R", 5, 4)));
  b.Leave("h", b.Tanh(b.Add(sum, b.MatMul(x, b.Matrix("W", 5, 3)))));
  EXPECT_EQ(Lowered(b.Build()),
            "product 1x4 in0.0[3] tail 2 -> scratch+16\n"
            "softmax scratch+16 [4] -> scratch\n"
            "product 1x5 in0.0[3] scratch[4] in1.0[5] tail 3 -> out0\n");
}

TEST(LowerTest, TurningVectorsJoiningCuttingAndRepeatingTakeNoSteps) {
  const auto lowered = [](const auto& value) {
    CellBuilder b("free");
    const ValueId x = b.Read("x", "x", 6), y = b.Read("y", "y", 4);
    b.Leave("y", value(b, x, y));
    return Lowered(b.Build());
  };
  const auto turned = [](CellBuilder& b, ValueId x, ValueId) {
    return b.Tanh(b.Op1(OpKind::kTranspose, b.Op1(OpKind::kTranspose, x)));
  };
  EXPECT_EQ(lowered(turned), "product 0x6 tail 3 -> out0\n");
  const auto cut = [](CellBuilder& b, ValueId x, ValueId y) {
    return b.Tanh(b.Slice(b.Concat(x, y), 6, 10));
  };
  EXPECT_EQ(lowered(cut), "product 0x4 tail 3 -> out0\n");
  const auto twice = [](CellBuilder& b, ValueId x, ValueId) {
    return b.Add(b.Tanh(x), b.Tanh(x));  // loaded, tanh, added, stored
  };
  EXPECT_EQ(lowered(twice), "product 0x6 tail 4 -> out0\n");
}

TEST(LowerTest, PartsOfWhatIsStoredAreReadThere) {
  CellBuilder b("parts");
  const ValueId p = b.Op1(OpKind::kSoftmax, b.Read("x", "x", 6));
  b.Leave("first", b.Tanh(b.Slice(p, 0, 3)));
  b.Leave("last", b.MatMul(b.Slice(p, 4, 6), b.Matrix("W", 5, 2)));
  b.Leave("copied", b.Slice(p, 0, 2));
  EXPECT_EQ(Lowered(b.Build()),
            "softmax in0.0 [6] -> scratch\n"
            "copy scratch [2] -> out2\n"
            "product 0x3 tail 3 -> out0\n"
            "product 1x5 scratch+4[2] tail 2 -> out1\n");
}

// Squares are no row, nor is what is above one number; what is above a row is one.
TEST(LowerTest, SquaresOfWhatIsAboveANumberAreSummedWhereItLies) {
  const auto lowered = [](int32_t width) {
    CellBuilder b("squares");
    const ValueId x = b.Read("x", "x", 6), above = b.Sub(x, b.Read("y", "y", width));
    b.Leave("sum", b.Op1(OpKind::kSum, b.Mul(above, above)));
    return Lowered(b.Build());
  };
  EXPECT_EQ(lowered(1), "sum_squares in0.0 in1.0 [1] -> out0\n");
  EXPECT_EQ(lowered(6), "product 0x6 tail 4 -> scratch\nsum_squares scratch [1] -> out0\n");
}

// A parameter of one element is the same number to every unit.
TEST(LowerTest, OneElementOfAParameterIsReadByAllUnits) {
  CellBuilder b("number");
  b.Leave("y", b.Mul(b.Read("x", "x", 6), b.Vector("p", 1)));
  const CellProgram program = *Lower(b.Build(), kCpuLimits);
  EXPECT_EQ(Describe(program), "product 0x6 tail 4 -> out0\n");
  EXPECT_EQ(std::get<ProductStep>(program.steps[0]).parameters,
            (std::vector<ParameterView>{{ParameterId(0), 0, 0}}));
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

TEST(LowerTest, OnlyAProductThatLeavesNothingElseEndsInItsArgMax) {
  CellBuilder plain("no product"), two("two columns");
  plain.Leave("word", plain.Op1(OpKind::kArgMax, plain.Tanh(plain.Read("x", "x", 40))));
  EXPECT_EQ(Lowered(plain.Build()), "product 0x40 tail 3 -> scratch\nargmax scratch [1] -> out0\n");
  CellBuilder fixed("no input");
  fixed.Leave("word", fixed.Op1(OpKind::kArgMax, fixed.Tanh(fixed.Vector("p", 40))));
  EXPECT_EQ(Lowered(fixed.Build()),
            "at load: product 0x40 tail 3 -> scratch\n"
            "at load: argmax scratch [1] -> out0\n"
            "product 0x1 tail 2 -> out0\n");
  const ValueId logits = two.MatMul(two.Read("x", "x", 3), two.Matrix("W", 40, 3));
  two.Leave("word", two.Op1(OpKind::kArgMax, logits));
  two.Leave("p", two.Sigmoid(logits));
  EXPECT_EQ(Lowered(two.Build()),
            "product 1x40 in0.0[3] tail 4 -> out1 -> scratch\nargmax scratch [1] -> out0\n");
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
  CellBuilder part("part");  // rows 1 and 2 of W, turned round
  const ValueId turned = part.Op1(OpKind::kTranspose, part.Matrix("W", 3, 4));
  part.Leave("y", part.MatMul(part.Read("x", "x", 2), part.Slice(turned, 1, 3)));
  const CellProgram of_part = *Lower(part.Build(), kCpuLimits);
  EXPECT_EQ(std::get<ProductStep>(of_part.steps[0]).segments[0].weights[0],
            (ParameterView{ParameterId(0), 4, 1, 4}));
}

// Four rows x of three: a parameter, or a part of one, is read where it lies, whichever way it lies.
TEST(LowerTest, AProductOfMatricesReadsParametersAsTheyLie) {
  const auto step = [](const auto& matrix) {
    CellBuilder b("matrices");
    const ValueId w = matrix(b), x = b.Read("x", "x", 1);
    b.Leave("y", b.MatMul(b.Mul(x, b.Matrix("P", 4, 3)), w));
    const CellProgram program = *Lower(b.Build(), kCpuLimits);
    EXPECT_EQ(program.steps.size(), 2u) << Describe(program);
    return std::get<PlainStep>(program.steps.back());
  };
  const PlainStep rows = step([](CellBuilder& b) { return b.Slice(b.Matrix("W", 5, 6), 2, 5); });
  EXPECT_EQ(rows.kind, PlainKind::kMatMulByRows);
  EXPECT_EQ(rows.args[1], (Place{PlaceKind::kParameter, 0, 0, 2}));
  EXPECT_EQ(rows.strides, (std::vector<int64_t>{3, 6}));
  const PlainStep turned = step(
      [](CellBuilder& b) { return b.Op1(OpKind::kTranspose, b.Slice(b.Matrix("W", 3, 7), 2, 7)); });
  EXPECT_EQ(turned.kind, PlainKind::kMatMulByColumns);
  EXPECT_EQ(turned.args[1], (Place{PlaceKind::kParameter, 0, 0, 2}));
  EXPECT_EQ(turned.strides, (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(turned.shapes[1], (Shape{3, 5}));
}

// What a node computes is turned round by who multiplies by it; what is multiplied, by a step of its own.
TEST(LowerTest, MatricesThatANodeComputesAreCutAndTurnedByTheirReaders) {
  const auto lowered = [](const auto& value) {
    CellBuilder b("matrices");
    const ValueId v = b.Read("v", "v", 4), x = b.Read("x", "x", 1);
    b.Leave("y", value(b, v, b.Mul(x, b.Matrix("P", 4, 3))));
    return *Lower(b.Build(), kCpuLimits);
  };
  const auto by_columns = [](CellBuilder& b, ValueId v, ValueId matrix) {
    return b.MatMul(v, b.Op1(OpKind::kTranspose, matrix));
  };
  EXPECT_EQ(Describe(lowered(by_columns)),
            "product 0x12 tail 4 -> scratch\nmatmul_by_columns in0.0 scratch [3] -> out0\n");
  const auto turned = [](CellBuilder& b, ValueId, ValueId matrix) {
    return b.MatMul(b.Op1(OpKind::kTranspose, matrix), b.Matrix("W", 5, 4));
  };
  EXPECT_NE(Describe(lowered(turned)).find("\ntranspose scratch"), std::string::npos)
      << Describe(lowered(turned));
  const CellProgram cut =
      lowered([](CellBuilder& b, ValueId, ValueId matrix) { return b.Slice(matrix, 1, 3); });
  EXPECT_EQ(std::get<PlainStep>(cut.steps.back()).kind, PlainKind::kSlice);
  EXPECT_EQ(std::get<PlainStep>(cut.steps.back()).begin, 1);
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

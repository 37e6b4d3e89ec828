#include "cells/program/cell_program.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

constexpr ProgramLimits kLimits = {.groups = 2, .segments = 1, .tail_ops = 2, .tail_columns = 1};

// One group of one segment, stored as it is.
ProductStep Plain() {
  ProductStep step;
  step.units = 3;
  step.segments = {{.source = {PlaceKind::kInput}, .depth = 4, .weights = {ParameterView()}}};
  step.bias = {{Constant()}};
  step.tail = {{{TailOpKind::kAccumulator}, {.kind = TailOpKind::kStore, .a = 0}}, 1, 0};
  step.columns = {{PlaceKind::kOutput}};
  return step;
}

TEST(CheckProductTest, SaysWhatIsMoreThanAStepHolds) {
  EXPECT_EQ(CheckProduct(Plain(), kLimits), "");
  ProductStep step = Plain();
  step.bias.resize(3);
  EXPECT_EQ(CheckProduct(step, kLimits), "3 groups, at most 2 are possible");
  step = Plain();
  step.segments.push_back(step.segments[0]);
  EXPECT_EQ(CheckProduct(step, kLimits), "2 segments, at most 1 are possible");
  step = Plain();
  step.tail.ops.push_back({.kind = TailOpKind::kStore, .a = 0, .index = 1});
  EXPECT_EQ(CheckProduct(step, kLimits), "3 operations, at most 2 are possible");
  step = Plain();
  step.columns.push_back({PlaceKind::kScratch});
  EXPECT_EQ(CheckProduct(step, kLimits), "2 columns, at most 1 are possible");
}

TEST(CheckProductTest, SaysWhatDoesNotFitTogether) {
  ProductStep step = Plain();
  step.bias.resize(2);
  EXPECT_EQ(CheckProduct(step, kLimits), "a segment with other groups than the product");
  step = Plain();
  step.tail.num_parameters = 1;
  EXPECT_EQ(CheckProduct(step, kLimits),
            "a tail with other columns or parameters than the product");
  step = Plain();
  step.tail.ops[0].index = 1;
  EXPECT_EQ(CheckProduct(step, kLimits), "operation 0 of the tail names accumulator 1 of 1");
}

TEST(CheckProductTest, OneNumberForAllUnitsIsForDevicesWhoseTailsReadIt) {
  ProductStep step = Plain();
  step.tail = {{{TailOpKind::kScalar}, {.kind = TailOpKind::kStore, .a = 0, .index = 1}}, 2, 0};
  step.columns = {{PlaceKind::kScratch}, {PlaceKind::kOutput}};
  ProgramLimits limits = kLimits;
  limits.tail_columns = 2;
  EXPECT_EQ(CheckProduct(step, limits), "one number for all units");
  limits.scalars = true;
  EXPECT_EQ(CheckProduct(step, limits), "");
}

TEST(ConstantTest, BitsTellConstantsApart) {
  EXPECT_NE(Constant{0}, Constant{0x80000000u});
  EXPECT_EQ(Constant{0x7fc00000u}, Constant{0x7fc00000u});
}

}  // namespace
}  // namespace cellbatch

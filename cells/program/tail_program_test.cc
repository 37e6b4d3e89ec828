#include "cells/program/tail_program.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

using Kind = TailOpKind;

TailOp Op(Kind kind, int a = -1, int b = -1, int index = 0) {
  return {kind, static_cast<int16_t>(a), static_cast<int16_t>(b), static_cast<int16_t>(index)};
}

TEST(CheckTailTest, AWellFormedTailPasses) {
  EXPECT_EQ(CheckTail({{Op(Kind::kAccumulator), Op(Kind::kTanh, 0), Op(Kind::kStore, 1)}, 1, 0}, 1),
            "");
}

TEST(CheckTailTest, SaysWhichOperationIsWrongAndHow) {
  const TailOp load = Op(Kind::kAccumulator), store = Op(Kind::kStore, 0);
  EXPECT_EQ(CheckTail({{}, 1, 0}, 1), "a tail that stores nothing");
  EXPECT_EQ(CheckTail({{load}, 1, 0}, 1), "a tail that stores nothing");
  EXPECT_EQ(CheckTail({{Op(Kind::kAccumulator, -1, -1, 1), store}, 1, 0}, 1),
            "operation 0 of the tail names accumulator 1 of 1");
  EXPECT_EQ(CheckTail({{Op(Kind::kParameter, -1, -1, 2), store}, 1, 2}, 1),
            "operation 0 of the tail names parameter 2 of 2");
  EXPECT_EQ(CheckTail({{load, Op(Kind::kStore, 0, -1, 1)}, 1, 0}, 1),
            "operation 1 of the tail names column 1 of 1");
  EXPECT_EQ(CheckTail({{load, Op(Kind::kAdd, 0, 1), store}, 1, 0}, 1),
            "operation 1 of the tail reads value 1");
  EXPECT_EQ(CheckTail({{load, store, Op(Kind::kStore, 1)}, 1, 0}, 1),
            "operation 2 of the tail reads what a store made");
  EXPECT_EQ(CheckTail({{load, store, load}, 1, 0}, 1),
            "operation 2 of the tail comes after a store and is none");
  EXPECT_EQ(CheckTail({{load, store, store}, 1, 0}, 1),
            "operation 2 of the tail stores a column twice");
  EXPECT_EQ(CheckTail({{Op(Kind::kScalar), store}, 1, 0}, 1),
            "operation 1 of the tail stores where one number is read");
  EXPECT_EQ(CheckTail({{Op(Kind::kScalar, -1, -1, 2), store}, 2, 0}, 1),
            "operation 0 of the tail names column 2 of 2");
}

}  // namespace
}  // namespace cellbatch

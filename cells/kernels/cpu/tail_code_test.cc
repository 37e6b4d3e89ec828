#include "cells/kernels/cpu/tail_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cells/kernels/cpu/product_limits.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

using Kind = TailOpKind;
using To = TailInstructionKind;

TailOp Op(Kind kind, int a = -1, int b = -1, int index = 0) {
  return {kind, static_cast<int16_t>(a), static_cast<int16_t>(b), static_cast<int16_t>(index)};
}

int Count(const TailCode& code, To kind) {
  return static_cast<int>(
      std::count_if(code.instructions.begin(), code.instructions.end(),
                    [kind](const TailInstruction& i) { return i.kind == kind; }));
}

double Sigma(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// What a row's unit reads: numbers that no two places share.
double Accumulator(int i) { return 0.3 + 0.11 * i; }
double Parameter(int i) { return -0.7 + 0.13 * i; }
double ColumnValue(int i) { return 0.9 - 0.17 * i; }

// What is one in a row for all units.
double ScalarValue(int i) { return 0.21 + 0.19 * i; }

double Compute(To kind, double a, double b, double c) {
  switch (kind) {
    case To::kAdd:
      return a + b;
    case To::kSub:
      return a - b;
    case To::kMul:
      return a * b;
    case To::kDiv:
      return a / b;
    case To::kMax:
      return std::max(a, b);
    case To::kSigmoid:
      return Sigma(a);
    case To::kTanh:
      return std::tanh(a);
    case To::kRelu:
      return std::max(a, 0.0);
    case To::kExp:
      return std::exp(a);
    case To::kLog:
      return std::log(a);
    case To::kSigmoidTanh:
      return Sigma(a) * std::tanh(b);
    case To::kMulAdd:
      return a * b + c;
    case To::kSubMul:
      return (a - b) * c;
    case To::kNormalise:     // of five
    case To::kNormaliseAdd:  // of six
    case To::kLoad:
    case To::kLook:
    case To::kLoadOne:
    case To::kLookOne:
    case To::kStore:
      break;
  }
  ADD_FAILURE() << "computes nothing";
  return 0.0;
}

// By column, what the code stores. A slot that nothing wrote yet is NaN. `lie`: rows of columns follow each other, so that who
// looks at one sees what is stored to it meanwhile.
std::map<int, double> Stored(const TailCode& code, bool lie) {
  std::vector<double> slots(static_cast<size_t>(code.slots), std::nan(""));
  std::map<int, double> stored;
  std::vector<TailInstruction> looks(kMaxTailColumns);
  const auto column = [&](int c) { return stored.count(c) > 0 ? stored.at(c) : ColumnValue(c); };
  const auto one = [&](int c) { return stored.count(c) > 0 ? stored.at(c) : ScalarValue(c); };
  const auto value = [&](const TailOperand& o) {
    switch (o.from) {
      case TailOperand::kSlot:
        return slots.at(static_cast<size_t>(o.index));
      case TailOperand::kAccumulator:
        return Accumulator(o.index);
      case TailOperand::kParameter:
        return Parameter(o.index);
      case TailOperand::kConstant:
        return double{code.constants.at(static_cast<size_t>(o.index) * kLanes)};
      case TailOperand::kColumn: {
        const TailInstruction& look = looks.at(static_cast<size_t>(o.index));
        if (!lie) return slots.at(static_cast<size_t>(look.to));
        return look.kind == To::kLook ? column(look.column) : one(look.column);
      }
    }
    return std::nan("");
  };
  for (const TailInstruction& i : code.instructions) {
    if (i.kind == To::kStore) {
      stored[i.column] = value(i.a);
    } else if (i.kind == To::kLoad || i.kind == To::kLook) {
      if (i.kind == To::kLook) looks.at(static_cast<size_t>(i.look)) = i;
      if (i.kind == To::kLoad || !lie) slots.at(static_cast<size_t>(i.to)) = column(i.column);
    } else if (i.kind == To::kLoadOne || i.kind == To::kLookOne) {
      if (i.kind == To::kLookOne) looks.at(static_cast<size_t>(i.look)) = i;
      if (i.kind == To::kLoadOne || !lie) slots.at(static_cast<size_t>(i.to)) = one(i.column);
    } else if (i.kind == To::kNormalise || i.kind == To::kNormaliseAdd) {
      const double normal = (value(i.a) - value(i.b)) * value(i.c) * value(i.d) + value(i.e);
      slots.at(static_cast<size_t>(i.to)) = i.kind == To::kNormalise ? normal : normal + value(i.f);
    } else {
      const bool three = i.kind == To::kMulAdd || i.kind == To::kSubMul;
      const bool two = i.kind <= To::kMax || i.kind == To::kSigmoidTanh || three;
      slots.at(static_cast<size_t>(i.to)) =
          Compute(i.kind, value(i.a), two ? value(i.b) : 0.0, three ? value(i.c) : 0.0);
    }
  }
  return stored;
}

// Either way.
std::map<int, double> Stored(const TailCode& code) {
  const std::map<int, double> stored = Stored(code, true);
  EXPECT_EQ(Stored(code, false), stored);
  return stored;
}

// By column, what the tail means: value after value, each its own.
std::map<int, double> Meaning(const TailProgram& tail) {
  std::map<int, double> stored;
  std::vector<double> values;
  const auto at = [&](int value) { return value < 0 ? 0.0 : values[static_cast<size_t>(value)]; };
  for (const TailOp& op : tail.ops) {
    double v = 0.0;
    if (op.kind == Kind::kAccumulator) {
      v = Accumulator(op.index);
    } else if (op.kind == Kind::kColumn) {
      v = ColumnValue(op.index);
    } else if (op.kind == Kind::kScalar) {
      v = ScalarValue(op.index);
    } else if (op.kind == Kind::kParameter) {
      v = Parameter(op.index);
    } else if (op.kind == Kind::kConstant) {
      v = double{op.constant};
    } else if (op.kind == Kind::kStore) {
      stored[op.index] = at(op.a);
    } else {
      const int kind = static_cast<int>(op.kind) - static_cast<int>(Kind::kAdd);
      v = Compute(static_cast<To>(static_cast<int>(To::kAdd) + kind), at(op.a), at(op.b), 0.0);
    }
    values.push_back(v);
  }
  return stored;
}

TEST(TailCodeTest, StoresWhatTheTailMeansWhateverSlotsItShares) {
  constexpr uint64_t kSeed = 41;
  Random random(kSeed);
  int shared = 0;
  for (int i = 0; i < 2000; ++i) {
    const TailProgram tail = RandomTail(random, 4, 3, 2);
    const TailCode code = MakeTailCode(tail);
    const std::map<int, double> expected = Meaning(tail), got = Stored(code);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [column, value] : expected) {
      ASSERT_EQ(got.at(column), value)
          << "seed " << kSeed << ", tail " << i << ", column " << column;
    }
    int values = 0;
    for (const TailInstruction& instruction : code.instructions) {
      values += instruction.kind != To::kStore ? 1 : 0;
    }
    shared += values > code.slots ? 1 : 0;
  }
  EXPECT_GT(shared, 500);
}

TEST(TailCodeTest, WhatLiesSomewhereAlreadyIsNotCopied) {
  const TailCode code = MakeTailCode(GatedCellTail());
  EXPECT_EQ(code.instructions.size(), 7u);  // of 16 operations
  EXPECT_EQ(Count(code, To::kLook), 1);
  EXPECT_EQ(Count(code, To::kStore), 2);
  EXPECT_EQ(Count(code, To::kSigmoid), 1);
  EXPECT_EQ(Count(code, To::kSigmoidTanh), 2);
  EXPECT_EQ(Count(code, To::kMulAdd), 1);
  EXPECT_LE(code.slots, 3);
}

TEST(TailCodeTest, WhatNoStoreNeedsIsLeftOut) {
  const TailProgram tail = {{Op(Kind::kAccumulator), Op(Kind::kColumn), Op(Kind::kTanh, 0),
                             Op(Kind::kMul, 1, 2), Op(Kind::kExp, 0), Op(Kind::kStore, 4, -1, 1)},
                            2,
                            0};
  const TailCode code = MakeTailCode(tail);
  ASSERT_EQ(code.instructions.size(), 2u);
  EXPECT_EQ(code.instructions[0].kind, To::kExp);
}

// sigmoid(0) * tanh(1), and whatever else.
TailProgram Gate(std::vector<TailOp> more, bool turned) {
  TailProgram tail = {
      {Op(Kind::kAccumulator, -1, -1, 0), Op(Kind::kAccumulator, -1, -1, 1), Op(Kind::kSigmoid, 0),
       Op(Kind::kTanh, 1), turned ? Op(Kind::kMul, 3, 2) : Op(Kind::kMul, 2, 3)},
      2,
      0};
  tail.ops.insert(tail.ops.end(), more.begin(), more.end());
  return tail;
}

TEST(TailCodeTest, ASigmoidTimesATanhIsOneInstructionUnlessEitherIsReadElsewhere) {
  for (const bool turned : {false, true}) {
    const TailCode alone = MakeTailCode(Gate({Op(Kind::kStore, 4)}, turned));
    EXPECT_EQ(alone.instructions.size(), 2u);
    EXPECT_EQ(Count(alone, To::kSigmoidTanh), 1);
    EXPECT_EQ(Stored(alone), Meaning(Gate({Op(Kind::kStore, 4)}, turned)));
    for (const int read : {2, 3}) {
      const TailProgram tail = Gate({Op(Kind::kStore, 4), Op(Kind::kStore, read, -1, 1)}, turned);
      EXPECT_EQ(Count(MakeTailCode(tail), To::kSigmoidTanh), 0);
      EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
    }
  }
}

// Of two values and a third: value 3 is `inner`, value 4 reads it, in either order.
TailProgram OfThree(Kind inner, Kind outer, bool turned, std::vector<TailOp> more) {
  TailProgram tail = {{Op(Kind::kAccumulator), Op(Kind::kScalar), Op(Kind::kParameter),
                       Op(inner, 0, 1), turned ? Op(outer, 2, 3) : Op(outer, 3, 2)},
                      3,
                      1};
  tail.ops.insert(tail.ops.end(), more.begin(), more.end());
  return tail;
}

TEST(TailCodeTest, AProductAndASumOfItAreOneInstructionUnlessTheProductIsReadElsewhere) {
  const TailOp store = Op(Kind::kStore, 4, -1, 1), other = Op(Kind::kStore, 3, -1, 2);
  const std::pair<std::pair<Kind, Kind>, To> joined[] = {{{Kind::kMul, Kind::kAdd}, To::kMulAdd},
                                                         {{Kind::kSub, Kind::kMul}, To::kSubMul}};
  for (const auto& [kinds, to] : joined) {
    for (const bool turned : {false, true}) {
      const TailProgram alone = OfThree(kinds.first, kinds.second, turned, {store});
      EXPECT_EQ(MakeTailCode(alone).instructions.size(), 3u);  // the scalar, this, a store
      EXPECT_EQ(Count(MakeTailCode(alone), to), 1);
      EXPECT_EQ(Stored(MakeTailCode(alone)), Meaning(alone));
      const TailProgram both = OfThree(kinds.first, kinds.second, turned, {store, other});
      EXPECT_EQ(Count(MakeTailCode(both), to), 0);
      EXPECT_EQ(Stored(MakeTailCode(both)), Meaning(both));
    }
  }
}

// (x - mean) * scale * gain + bias, each product and the sum turned or not; `gain` and `bias` are operations.
TailProgram Normal(int turned, TailOp gain, TailOp bias, std::vector<TailOp> more) {
  const auto pair = [turned](int bit, Kind kind, int a, int b) {
    return (turned >> bit & 1) == 0 ? Op(kind, a, b) : Op(kind, b, a);
  };
  TailProgram tail = {
      {Op(Kind::kAccumulator), Op(Kind::kScalar), Op(Kind::kScalar, -1, -1, 1), gain, bias,
       Op(Kind::kSub, 0, 1), pair(0, Kind::kMul, 5, 2), pair(1, Kind::kMul, 6, 3),
       pair(2, Kind::kAdd, 7, 4), Op(Kind::kStore, 8, -1, 2)},
      4,
      2};
  tail.ops.insert(tail.ops.end(), more.begin(), more.end());
  return tail;
}

TEST(TailCodeTest, WhatANormalisationDoesWithAnElementIsOneInstruction) {
  const TailOp gain = Op(Kind::kParameter), bias = Op(Kind::kParameter, -1, -1, 1);
  const TailOp constant = {Kind::kConstant, -1, -1, 0, 0.75f}, column = Op(Kind::kColumn);
  for (int turned = 0; turned < 8; ++turned) {
    for (const auto& [g, b] : {std::pair(gain, bias), std::pair(gain, constant)}) {
      const TailProgram tail = Normal(turned, g, b, {});
      EXPECT_EQ(MakeTailCode(tail).instructions.size(), 4u);  // two numbers, this, a store
      EXPECT_EQ(Count(MakeTailCode(tail), To::kNormalise), 1);
      EXPECT_EQ(Count(MakeTailCode(tail), To::kLookOne), 2);
      EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
    }
    for (const auto& [g, b] : {std::pair(column, bias), std::pair(gain, column)}) {
      const TailProgram tail = Normal(turned, g, b, {});
      EXPECT_EQ(Count(MakeTailCode(tail), To::kNormalise), 0) << "each row has its own";
      EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
    }
    for (const int read : {5, 6, 7}) {
      const TailProgram tail = Normal(turned, gain, bias, {Op(Kind::kStore, read, -1, 3)});
      EXPECT_EQ(Count(MakeTailCode(tail), To::kNormalise), 0)
          << "something else reads a part of it";
      EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
    }
  }
}

// One lane of it would not be enough for another reader, nor where it lies once something is stored there.
TEST(TailCodeTest, ANumberOfARowIsReadWhereItLiesIfOnlyNormalisationsReadIt) {
  const TailOp gain = Op(Kind::kParameter), bias = Op(Kind::kParameter, -1, -1, 1);
  TailProgram tail = Normal(0, gain, bias, {Op(Kind::kStore, 1, -1, 3)});
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLookOne), 1);  // the scale
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLoadOne), 1);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
  tail = Normal(0, gain, bias, {});
  tail.ops.insert(tail.ops.begin() + 3,
                  Op(Kind::kStore, 0));  // values behind it are one further on
  for (size_t i = 4; i < tail.ops.size(); ++i) {
    for (int16_t* const operand : {&tail.ops[i].a, &tail.ops[i].b}) {
      if (*operand >= 3) ++*operand;
    }
  }
  EXPECT_EQ(Count(MakeTailCode(tail), To::kNormalise), 1);
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLookOne), 0);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
}

TEST(TailCodeTest, WhatIsNormalisedByVectorsIsNoNormalisation) {
  TailProgram tail = Normal(0, Op(Kind::kParameter), Op(Kind::kParameter, -1, -1, 1), {});
  for (const size_t number : {1, 2}) {
    TailProgram other = tail;
    other.ops[number] = Op(Kind::kColumn, -1, -1, other.ops[number].index);
    EXPECT_EQ(Count(MakeTailCode(other), To::kNormalise), 0);
    EXPECT_EQ(Stored(MakeTailCode(other)), Meaning(other));
  }
}

TEST(TailCodeTest, WhatIsNormalisedAndASumOfItAreOneInstructionUnlessItIsReadElsewhere) {
  const TailOp gain = Op(Kind::kParameter), bias = Op(Kind::kParameter, -1, -1, 1);
  const TailOp another = Op(Kind::kAccumulator, -1, -1, 1);  // value 10: 9 is a store
  for (const bool turned : {false, true}) {
    const TailOp sum = turned ? Op(Kind::kAdd, 10, 8) : Op(Kind::kAdd, 8, 10);
    TailProgram tail = Normal(0, gain, bias, {another, sum, Op(Kind::kStore, 11, -1, 3)});
    EXPECT_EQ(Count(MakeTailCode(tail), To::kNormaliseAdd), 0) << "the first store reads it";
    EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
    tail.ops[9] = Op(Kind::kStore, 0, -1, 2);
    EXPECT_EQ(Count(MakeTailCode(tail), To::kNormaliseAdd), 1);
    EXPECT_EQ(Count(MakeTailCode(tail), To::kNormalise), 0);
    EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
  }
  // Of two that are normalised one is the other's f.
  TailProgram two =
      Normal(0, gain, bias,
             {another, Op(Kind::kSub, 10, 1), Op(Kind::kMul, 11, 2), Op(Kind::kMul, 12, 3),
              Op(Kind::kAdd, 13, 4), Op(Kind::kAdd, 8, 14), Op(Kind::kStore, 15, -1, 3)});
  two.ops[9] = Op(Kind::kStore, 0, -1, 2);
  EXPECT_EQ(Count(MakeTailCode(two), To::kNormaliseAdd), 1);
  EXPECT_EQ(Count(MakeTailCode(two), To::kNormalise), 1);
  EXPECT_EQ(Stored(MakeTailCode(two)), Meaning(two));
}

TEST(TailCodeTest, AColumnIsReadWhereItLiesUnlessSomethingIsStoredBeforeItsLastReader) {
  TailProgram tail = {{Op(Kind::kColumn), Op(Kind::kTanh, 0), Op(Kind::kMul, 0, 1),
                       Op(Kind::kStore, 2, -1, 1), Op(Kind::kStore, 1, -1, 2)},
                      3,
                      0};
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLook), 1);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
  // Where column 1 may lie in the same rows.
  tail.ops.push_back(Op(Kind::kStore, 0, -1, 0));
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLook), 0);
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLoad), 1);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
}

TEST(TailCodeTest, MoreColumnsThanAreLookedAtAreCopied) {
  TailProgram tail = {{}, kMaxTailColumns, 0};
  for (int c = 0; c < kMaxTailColumns + 3; ++c) {
    tail.ops.push_back(Op(Kind::kColumn, -1, -1, c % kMaxTailColumns));
  }
  for (int c = 1, sum = 0; c < kMaxTailColumns + 3; ++c) {
    tail.ops.push_back(Op(Kind::kAdd, sum, c));
    sum = static_cast<int>(tail.ops.size()) - 1;
  }
  tail.ops.push_back(Op(Kind::kStore, static_cast<int>(tail.ops.size()) - 1));
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLook), kMaxTailColumns);
  EXPECT_EQ(Count(MakeTailCode(tail), To::kLoad), 3);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
}

TEST(TailCodeTest, AValueTwiceInOneSumIsNotJoined) {
  const TailProgram tail = {{Op(Kind::kAccumulator), Op(Kind::kParameter), Op(Kind::kMul, 0, 1),
                             Op(Kind::kAdd, 2, 2), Op(Kind::kStore, 3)},
                            1,
                            1};
  EXPECT_EQ(Count(MakeTailCode(tail), To::kMulAdd), 0);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
}

// The sigmoid's operand is read where the product stands: its slot is not given away before.
TEST(TailCodeTest, OperandsOfAJoinedInstructionStayUntilItReadsThem) {
  const TailProgram tail = {{Op(Kind::kAccumulator), Op(Kind::kParameter), Op(Kind::kAdd, 0, 1),
                             Op(Kind::kSigmoid, 2), Op(Kind::kExp, 0), Op(Kind::kRelu, 4),
                             Op(Kind::kTanh, 5), Op(Kind::kMul, 6, 3), Op(Kind::kStore, 7)},
                            1,
                            1};
  EXPECT_EQ(Count(MakeTailCode(tail), To::kSigmoidTanh), 1);
  EXPECT_EQ(Stored(MakeTailCode(tail)), Meaning(tail));
}

}  // namespace
}  // namespace cellbatch::kernels

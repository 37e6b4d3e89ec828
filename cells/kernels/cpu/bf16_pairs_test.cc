// Products of bf16 against one multiply-add after the other: the same sums, bit by bit, whatever the numbers, also where two
// are multiplied at a time. In plain arithmetic for the tilings of all instruction sets; and by every table of this CPU.
// And those of tile registers, emulated or this CPU's, against what the manual says of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cells/kernels/cpu/emulated_tiles.h"
#include "cells/kernels/cpu/flush_denormals.h"
#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/plain_pairs.h"
#include "cells/kernels/cpu/plain_tiles.h"
#include "cells/kernels/cpu/random_product.h"
#include "cells/kernels/cpu/tile_trial.h"

namespace cellbatch::kernels {
namespace {

// What makes the order of sums, flushing and signs visible: numbers that cancel, denormals, zeros of both signs.
float Delicate(Random& random) {
  const int kind = RandomInt(random, 0, 15);
  const float sign = RandomInt(random, 0, 1) == 0 ? 1.0f : -1.0f;
  if (kind == 0) return sign * 0.0f;
  if (kind == 1) return sign * 1e-39f;
  if (kind == 2) return sign * std::ldexp(1.0f, RandomInt(random, -126, -100));
  return sign *
         std::ldexp(static_cast<float>(RandomInt(random, 128, 255)), RandomInt(random, -12, 2));
}

// What a product is asked: rows for each segment, not rounded yet.
struct Question {
  RandomProduct product;
  std::vector<std::vector<float>> x;
  int rows;
};

Question RandomQuestion(Random& random, int trial, Precision precision) {
  const int groups = 1 + trial % kMaxGroups, rows = RandomInt(random, 1, trial % 4 == 0 ? 40 : 9);
  Question q = {
      RandomProduct(random, RandomInt(random, 1, 90), groups,
                    {RandomInt(random, 1, 2 * kMostBlockOfK + 90), RandomInt(random, 1, 30)},
                    StoreAllTail(groups), 0.9),
      {},
      rows};
  q.product.spec.precision = precision;
  for (std::vector<float>& numbers : q.product.memory) {
    for (float& n : numbers) n = Delicate(random);
  }
  for (const SegmentSpec& s : q.product.spec.segments) {
    q.x.emplace_back(static_cast<size_t>(s.depth * rows));
    for (float& n : q.x.back()) n = Delicate(random);
  }
  if (trial % 5 == 1) q.x[1][0] = INFINITY;
  if (trial % 5 == 2) q.x[1][0] = NAN;
  return q;
}

float Rounded(float value) { return std::isnan(value) ? value : FromBf16(RoundedToBf16(value)); }

// [group][row][unit].
using Sums = std::vector<float>;

// How a segment is added to a sum.
enum class Order : uint8_t {
  kChain,       // one multiply and one addition after the other: the portable table
  kFusedChain,  // the two rounded once: all others that have no tiles
  kTiles,       // 32 at a time, those of even and of odd k apart, from 0
  kSplitTiles,  // the same of upper parts, of upper ones and the weights' lower ones, and of lower ones
};

// By one multiplication of tiles.
float AddedTile(float sum, const std::vector<float>& x, const std::vector<float>& w) {
  float even = 0.0f, odd = 0.0f;
  for (size_t k = 0; k < x.size(); ++k) {
    float& half = k % 2 == 0 ? even : odd;
    half = std::fma(x[k], w[k], half);
  }
  return sum + (even + odd);
}

float Upper(float value) { return std::isnan(value) ? value : FromBf16(SplitBf16(value).upper); }
float Lower(float value) { return std::isnan(value) ? value : FromBf16(SplitBf16(value).lower); }

// The sum and the product of a row of `depth` and a unit's weights.
float Added(float sum, const float* x, const WeightView& w, int unit, int depth, Order order) {
  const auto weight = [&](int k) { return w.data[unit * w.unit_stride + k * w.depth_stride]; };
  const auto tile = [&](int from, float (*of_x)(float), float (*of_w)(float)) {
    std::vector<float> xs, ws;
    for (int k = from; k < std::min(depth, from + 32); ++k) {
      xs.push_back(of_x(x[k]));
      ws.push_back(of_w(weight(k)));
    }
    sum = AddedTile(sum, xs, ws);
  };
  for (int k = 0; order == Order::kTiles && k < depth; k += 32) tile(k, Rounded, Rounded);
  for (int k = 0; order == Order::kSplitTiles && k < depth; k += 32) {
    tile(k, Upper, Upper);
    tile(k, Upper, Lower);
    tile(k, Lower, Upper);
  }
  if (order == Order::kTiles || order == Order::kSplitTiles) return sum;
  for (int k = 0; k < depth; ++k) {
    const float a = Rounded(x[k]), b = Rounded(weight(k));
    sum = order == Order::kFusedChain ? std::fma(a, b, sum) : a * b + sum;
  }
  return sum;
}

Sums ExpectedSums(const Question& q, Order order) {
  const ProductSpec& spec = q.product.spec;
  Sums sums;
  for (int g = 0; g < spec.groups; ++g) {
    for (int r = 0; r < q.rows; ++r) {
      for (int u = 0; u < spec.units; ++u) {
        float sum = spec.bias[g] != nullptr ? spec.bias[g][u] : 0.0f;
        for (size_t s = 0; s < q.x.size(); ++s) {
          const SegmentSpec& segment = spec.segments[s];
          if (segment.weights[g].data == nullptr) continue;
          sum = Added(sum, q.x[s].data() + r * segment.depth, segment.weights[g], u, segment.depth,
                      order);
        }
        sums.push_back(sum);
      }
    }
  }
  return sums;
}

struct Answer {
  Sums stored, accumulators;
};

// By a table: its own rounding first.
Answer Ask(const CpuKernels& kernels, const Question& q, StreamWay way) {
  const ProductSpec& spec = q.product.spec;
  const PackedProduct product(spec, kernels.packing);
  std::vector<PackedMemory> rounded;
  std::vector<RowSource> inputs;
  for (size_t s = 0; s < q.x.size(); ++s) {
    const int32_t width = spec.segments[s].depth;
    rounded.emplace_back(int64_t{q.rows} * (width + 1));
    const RowColumn to = {rounded.back().data(), width + 1};
    const auto prepare =
        spec.precision == Precision::kFp32Split ? kernels.split_to_bf16 : kernels.round_to_bf16;
    prepare({q.x[s].data(), width}, width, q.rows, to);
    inputs.push_back({to.base, to.stride});
  }
  Tuning tuning;
  tuning.near.fill(way);
  ProductScratch scratch(tuning);
  Answer answer;
  const int64_t of_group = int64_t{q.rows} * spec.units;
  answer.stored.resize(static_cast<size_t>(of_group * spec.groups));
  std::vector<RowColumn> columns;
  for (int g = 0; g < spec.groups; ++g) {
    columns.push_back({answer.stored.data() + g * of_group, spec.units});
  }
  kernels.run_product(product, {q.rows, inputs.data(), nullptr, columns.data()}, 0,
                      product.num_panels(), &scratch);
  const int64_t width = product.accumulator_width();
  PackedMemory sums(width * q.rows);
  kernels.run_accumulators(product, {q.rows, inputs.data()}, 0, product.num_panels(), &scratch,
                           sums.data(), width);
  for (int g = 0; g < spec.groups; ++g) {
    for (int r = 0; r < q.rows; ++r) {
      for (int u = 0; u < spec.units; ++u) {
        const int64_t at = (int64_t{u} / kLanes * spec.groups + g) * kLanes + u % kLanes;
        answer.accumulators.push_back(sums.data()[r * width + at]);
      }
    }
  }
  return answer;
}

// Which number differs, NaN being NaN; nothing if none does.
std::string Difference(const Sums& one, const Sums& other) {
  if (one.size() != other.size()) return "other sums";
  for (size_t i = 0; i < one.size(); ++i) {
    if (std::isnan(one[i]) && std::isnan(other[i])) continue;
    if (std::bit_cast<uint32_t>(one[i]) == std::bit_cast<uint32_t>(other[i])) continue;
    return "number " + std::to_string(i) + ": " + std::to_string(one[i]) + " and " +
           std::to_string(other[i]);
  }
  return "";
}

void ExpectSums(const CpuKernels& kernels, Order order) {
  const FlushDenormals flushed;
  Random random(20261126);
  for (int trial = 0; trial < 40; ++trial) {
    const bool split = order == Order::kSplitTiles;
    const Question q =
        RandomQuestion(random, trial, split ? Precision::kFp32Split : Precision::kBf16);
    const Sums expected = ExpectedSums(q, order);
    const Answer answer = Ask(kernels, q, static_cast<StreamWay>(trial % kNumWays));
    EXPECT_EQ(Difference(expected, answer.accumulators), "") << "trial " << trial;
    EXPECT_EQ(Difference(expected, answer.stored), "") << "trial " << trial;
  }
}

// In plain arithmetic, the tiles of each instruction set.
class PairsTest : public testing::TestWithParam<CpuKernels (*)()> {};

INSTANTIATE_TEST_SUITE_P(EveryTiling, PairsTest,
                         testing::Values(&PlainAvx512Pairs, &PlainAvx2Pairs, &PlainPortablePairs),
                         [](const auto& info) { return std::string(info.param().name); });

TEST_P(PairsTest, TheCheckOfKernelsFindsNothingWrong) {
  EXPECT_EQ(CheckRounding(GetParam()()), "");
  EXPECT_EQ(CheckProducts(GetParam()(), Precision::kBf16), "");
}

TEST_P(PairsTest, SumsHaveTheBitsOfOneMultiplyAddAfterTheOther) {
  ExpectSums(GetParam()(), Order::kChain);
}

// Those of this CPU, the one with dot products among them where it has them: so all of them agree.
class Bf16Test : public testing::TestWithParam<const CpuKernels*> {};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, Bf16Test, testing::ValuesIn(RunnableAndEmulated()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(Bf16Test, SumsHaveTheBitsOfOneMultiplyAddAfterTheOtherOrOfTiles) {
  const bool portable = GetParam() == RunnableKernels(CpuFeatures()).front();
  ExpectSums(*GetParam(), GetParam()->bf16_in_tiles ? Order::kTiles
                          : portable                ? Order::kChain
                                                    : Order::kFusedChain);
  if (GetParam()->split_to_bf16 != nullptr) ExpectSums(*GetParam(), Order::kSplitTiles);
}

TEST(EmulatedTilesTest, TheCheckOfKernelsFindsNothingWrong) {
  EXPECT_EQ(CheckRounding(EmulatedTiles()), "");
  EXPECT_EQ(CheckProducts(EmulatedTiles(), Precision::kBf16), "");
  EXPECT_EQ(CheckProducts(EmulatedTiles(), Precision::kFp32Split), "");
}

// Of each register of sums the first multiplication, the last and some between.
TEST(EmulatedTilesTest, TheCheckOfKernelsFindsOneMultiplicationLeftOut) {
  Random random(20261127);
  const std::pair<Precision, int> kinds[] = {{Precision::kBf16, 1},
                                             {Precision::kBf16, 2},
                                             {Precision::kBf16, 5},
                                             {Precision::kFp32Split, 4}};
  for (const auto& [precision, groups] : kinds) {
    for (int sums = 0; sums < kRowTile; ++sums) {
      const CpuKernels& kernels = TilesThatSkip(sums, -1);
      ASSERT_EQ(CheckProducts(kernels, precision, groups), "");
      const int64_t met = TilesMet();
      ASSERT_GT(met, 0) << "register " << sums;
      for (const int64_t at : {int64_t{0}, met / 2 + RandomInt(random, 0, 99), met - 1}) {
        TilesThatSkip(sums, at);
        EXPECT_NE(CheckProducts(kernels, precision, groups), "")
            << Name(precision) << ", register " << sums << ", multiplication " << at << " of "
            << met;
      }
    }
  }
}

// What a CPU's registers are asked before they are used.
struct SkipsSecondRows {
  static bool Skips(int sums) { return sums >= 2; }
};
TEST(EmulatedTilesTest, TheirTrialTellsRightFromWrong) {
  EXPECT_TRUE(TileTrial<PlainTiles<>>().IsRight());
  EXPECT_FALSE(TileTrial<PlainTiles<SkipsSecondRows>>().IsRight());
}

}  // namespace
}  // namespace cellbatch::kernels

// Products of bf16 in pairs against the same ones element by element: the same sums, bit by bit, whatever the numbers. In
// plain arithmetic for the tilings of all instruction sets, on any machine; and as the CPU does it, where it can.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "cells/kernels/cpu/flush_denormals.h"
#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/random_product.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {
namespace {

// A table with what it has of its own in pairs, for products of bf16 only.
CpuKernels Over(CpuKernels rest, const CpuKernels& pairs) {
  rest.bf16_in_pairs = true;
  rest.run_product = pairs.run_product;
  rest.run_accumulators = pairs.run_accumulators;
  rest.round_to_bf16 = pairs.round_to_bf16;
  return rest;
}

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

struct Sums {
  std::vector<float> with_tails, accumulators;
};

// The sums of `x` by one table: its own rounding first.
Sums SumsBy(const CpuKernels& kernels, const ProductSpec& spec,
            const std::vector<std::vector<float>>& x, int rows, StreamWay way) {
  const PackedProduct product(spec, kernels.weight_order);
  std::vector<PackedMemory> rounded;
  std::vector<RowSource> inputs;
  for (size_t s = 0; s < x.size(); ++s) {
    const int32_t width = spec.segments[s].depth;
    rounded.emplace_back(int64_t{rows} * (width + 1));
    const RowColumn to = {rounded.back().data(), width + 1};
    kernels.round_to_bf16({x[s].data(), width}, width, rows, to);
    inputs.push_back({to.base, to.stride});
  }
  Tuning tuning;
  tuning.near.fill(way);
  ProductScratch scratch(tuning);
  std::vector<RandomRows> stored;
  std::vector<RowColumn> columns;
  Random random(1);
  stored.reserve(static_cast<size_t>(spec.groups));
  for (int g = 0; g < spec.groups; ++g) {
    stored.emplace_back(random, spec.units, rows, rows);
    columns.push_back(stored.back().column());
  }
  PackedMemory sums(product.accumulator_width() * rows);
  kernels.run_product(product, {rows, inputs.data(), nullptr, columns.data()}, 0,
                      product.num_panels(), &scratch);
  kernels.run_accumulators(product, {rows, inputs.data()}, 0, product.num_panels(), &scratch,
                           sums.data(), product.accumulator_width());
  Sums all;
  for (const RandomRows& r : stored) {
    all.with_tails.insert(all.with_tails.end(), r.data.begin(), r.data.end());
  }
  all.accumulators.assign(sums.data(), sums.data() + sums.size());
  return all;
}

// Which number differs, NaN being NaN; nothing if none does.
std::string Difference(const std::vector<float>& one, const std::vector<float>& other) {
  for (size_t i = 0; i < one.size(); ++i) {
    if (std::isnan(one[i]) && std::isnan(other[i])) continue;
    if (std::bit_cast<uint32_t>(one[i]) == std::bit_cast<uint32_t>(other[i])) continue;
    return "number " + std::to_string(i) + ": " + std::to_string(one[i]) + " and " +
           std::to_string(other[i]);
  }
  return "";
}

void ExpectSameBits(const CpuKernels& one_by_one, const CpuKernels& pairs) {
  const FlushDenormals flushed;
  Random random(20261126);
  for (int trial = 0; trial < 40; ++trial) {
    const int groups = 1 + trial % kMaxGroups, rows = RandomInt(random, 1, trial % 4 == 0 ? 40 : 9);
    RandomProduct product(random, RandomInt(random, 1, 90), groups,
                          {RandomInt(random, 1, 2 * kMostBlockOfK + 90), RandomInt(random, 1, 30)},
                          StoreAllTail(groups), 0.9);
    product.spec.precision = Precision::kBf16;
    for (std::vector<float>& numbers : product.memory) {
      for (float& n : numbers) n = Delicate(random);
    }
    std::vector<std::vector<float>> x;
    for (const SegmentSpec& s : product.spec.segments) {
      x.emplace_back(static_cast<size_t>(s.depth * rows));
      for (float& n : x.back()) n = Delicate(random);
    }
    if (trial % 5 == 1) x[1][0] = INFINITY;
    if (trial % 5 == 2) x[1][0] = NAN;
    const auto way = static_cast<StreamWay>(trial % kNumWays);
    const Sums expected = SumsBy(one_by_one, product.spec, x, rows, way);
    const Sums got = SumsBy(pairs, product.spec, x, rows, way);
    EXPECT_EQ(Difference(expected.accumulators, got.accumulators), "") << "trial " << trial;
    EXPECT_EQ(Difference(expected.with_tails, got.with_tails), "") << "trial " << trial;
  }
}

template <class Tiling>
class PairsTest : public testing::Test {
 protected:
  static constexpr CpuKernels kOneByOne = MakeKernels<Vec, Tiling>("one by one");
  static CpuKernels Pairs() { return Over(kOneByOne, MakePairKernels<Vec, Tiling>("pairs")); }
};
using Tilings = testing::Types<Avx512Tiling, Avx2Tiling, PortableTiling>;
TYPED_TEST_SUITE(PairsTest, Tilings);

TYPED_TEST(PairsTest, TheCheckOfKernelsFindsNothingWrong) {
  EXPECT_EQ(CheckRounding(this->Pairs()), "");
  EXPECT_EQ(CheckProducts(this->Pairs(), Precision::kBf16), "");
}

TYPED_TEST(PairsTest, SumsHaveTheBitsOfThoseElementByElement) {
  ExpectSameBits(this->kOneByOne, this->Pairs());
}

TEST(DotProductTest, TheInstructionOfThisCpuLeavesTheBitsOfTwoMultiplyAdds) {
  const std::vector<const CpuKernels*> tables = RunnableKernels(DetectCpuFeatures());
  const auto of = [&](const std::string& name) {
    const auto found = std::find_if(tables.begin(), tables.end(),
                                    [&](const CpuKernels* k) { return k->name == name; });
    return found == tables.end() ? nullptr : *found;
  };
  if (of("avx512_bf16") == nullptr) GTEST_SKIP() << "this CPU has no dot products of bf16";
  ExpectSameBits(*of("avx512"), *of("avx512_bf16"));
  ExpectSameBits(*of("avx2"), *of("avx512_bf16"));
}

}  // namespace
}  // namespace cellbatch::kernels

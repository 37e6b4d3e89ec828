#include "cells/kernels/cpu/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "cells/kernels/cpu/flush_denormals.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

constexpr uint64_t kSeed = 20260101;

class ProductTest : public testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& kernels() const { return *GetParam(); }
  Random random_{kSeed};
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, ProductTest,
                         testing::ValuesIn(RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

// A product with rows to run it on.
struct Case {
  Case(Random& random, const CpuKernels& kernels, RandomProduct p, int rows)
      : product(std::move(p)),
        pack(std::make_shared<PackedProduct>(product.spec, kernels.packing)),
        packed(*pack) {
    const int table_rows = rows + 3;
    for (const SegmentSpec& s : product.spec.segments) {
      inputs.push_back(
          RandomInputs(random, kernels, product.spec.precision, s.depth, table_rows, rows));
    }
    for (int c = 0; c < product.spec.tail.num_columns; ++c) {
      columns.emplace_back(random, product.spec.units, table_rows, rows);
    }
    num_rows = rows;
  }

  // Rows [first, first + count) of the lists. `run`: as one of its calls, of a thread that has many.
  void Run(const CpuKernels& kernels, int first, int count, int first_panel, int last_panel,
           const RowSource* initial = nullptr, uint64_t run = 0) {
    std::vector<RowSource> x;
    for (RandomRows& r : inputs) x.push_back(r.source());
    for (RowSource& r : x) r.rows += first;
    std::vector<RowColumn> c;
    for (RandomRows& r : columns) c.push_back(r.column());
    for (RowColumn& r : c) r.rows += first;
    ProductArgs args{count, x.data(), initial, c.data()};
    args.run = run;
    args.panels_of_run = kLeastPanelsToPackFor;
    kernels.run_product(packed, args, first_panel, last_panel, scratch.get());
  }
  void RunAll(const CpuKernels& kernels) { Run(kernels, 0, num_rows, 0, packed.num_panels()); }

  std::vector<std::vector<double>> Reference(int r) const {
    std::vector<const float*> x, c;
    for (const RandomRows& rows : inputs) x.push_back(rows.Row(r));
    for (const RandomRows& rows : columns) {
      c.push_back(rows.before.data() + rows.stride * rows.rows[r]);
    }
    return product.Reference(x, c);
  }

  RandomProduct product;
  std::shared_ptr<const PackedProduct> pack;  // copies of a case share it
  const PackedProduct& packed;
  int num_rows;
  std::vector<RandomRows> inputs, columns;
  std::shared_ptr<ProductScratch> scratch = std::make_shared<ProductScratch>();
};

Case RandomCase(Random& random, const CpuKernels& kernels, int most_rows, Precision precision) {
  const int groups = RandomInt(random, 1, kMaxGroups), units = RandomInt(random, 1, 300);
  std::vector<int> depths;
  for (int s = RandomInt(random, 1, 3); s > 0; --s) depths.push_back(RandomInt(random, 1, 300));
  TailProgram tail = RandomTail(random, groups, RandomInt(random, 1, 3), RandomInt(random, 0, 2));
  RandomProduct product(random, units, groups, depths, std::move(tail), 0.8);
  product.spec.precision = precision;
  return Case(random, kernels, std::move(product), RandomInt(random, 1, most_rows));
}

TEST_P(ProductTest, RandomShapesTermsAndTailsAgreeWithDoubleArithmetic) {
  for (int trial = 0; trial < 120; ++trial) {
    Case c = RandomCase(random_, kernels(), 70, kPrecisions[trial % 3]);
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", trial " + std::to_string(trial));
    c.RunAll(kernels());
    for (int r = 0; r < c.num_rows; r += 1 + c.num_rows / 7) {
      const auto expected = c.Reference(r);
      for (size_t i = 0; i < expected.size(); ++i) {
        if (expected[i].empty()) continue;
        EXPECT_LE(Excess(expected[i], c.columns[i].Row(r)), 1.0) << "row " << r << " column " << i;
      }
    }
    for (const RandomRows& rows : c.columns) EXPECT_TRUE(rows.OthersUntouched());
  }
}

TEST_P(ProductTest, BitsOfARowDoNotDependOnItsCompanyItsPlaceOrThePanelSplit) {
  for (int trial = 0; trial < 45; ++trial) {
    Case together = RandomCase(random_, kernels(), 70, kPrecisions[trial % 3]);
    Case apart = together;
    together.RunAll(kernels());
    for (int first = 0; first < apart.num_rows;) {
      const int count = std::min(RandomInt(random_, 1, 9), apart.num_rows - first);
      for (int p = 0; p < apart.packed.num_panels(); ++p) {
        apart.Run(kernels(), first, count, p, p + 1);
      }
      first += count;
    }
    for (size_t i = 0; i < apart.columns.size(); ++i) {
      EXPECT_EQ(0, std::memcmp(apart.columns[i].data.data(), together.columns[i].data.data(),
                               together.columns[i].data.size() * sizeof(float)));
    }
  }
}

TEST_P(ProductTest, FiveHundredRowsHaveTheBitsOfEachAlone) {
  for (const Precision precision : kPrecisions) {
    RandomProduct product(random_, 48, 4, {97, 48}, GatedCellTail());
    product.spec.precision = precision;
    Case together(random_, kernels(), std::move(product), 500);
    Case apart = together;
    together.RunAll(kernels());
    for (int r = 0; r < 500; ++r) apart.Run(kernels(), r, 1, 0, apart.packed.num_panels());
    EXPECT_EQ(apart.columns[1].data, together.columns[1].data) << Name(precision);
    EXPECT_EQ(apart.columns[2].data, together.columns[2].data) << Name(precision);
  }
}

TEST_P(ProductTest, TuningChangesSpeedAndNoBit) {
  for (int trial = 0; trial < 90; ++trial) {
    Case plain = RandomCase(random_, kernels(), 6 * kMostBlockRows, kPrecisions[trial % 3]);
    Case usual = plain;
    for (int p = 0; p < plain.packed.num_panels(); ++p) {
      plain.Run(kernels(), 0, plain.num_rows, p, p + 1);
    }
    usual.RunAll(kernels());
    for (const StreamWay way : {StreamWay::kUndisturbed, StreamWay::kPaired, StreamWay::kPrefetched,
                                StreamWay::kSpread, StreamWay::kShort}) {
      Tuning tuning;
      tuning.near.fill(way);
      Case tuned = plain;
      for (RandomRows& rows : tuned.columns) rows.data = rows.before;
      tuned.scratch = std::make_shared<ProductScratch>(tuning);
      tuned.RunAll(kernels());
      for (size_t i = 0; i < plain.columns.size(); ++i) {
        EXPECT_EQ(plain.columns[i].data, usual.columns[i].data) << "trial " << trial;
        EXPECT_EQ(plain.columns[i].data, tuned.columns[i].data)
            << "trial " << trial << ", way " << static_cast<int>(way);
      }
    }
  }
}

// Calls of a run pack its rows once, those of a later run again; and a segment that is too deep for the room there is lies where
// it lay.
TEST_P(ProductTest, RowsThatARunPacksHaveTheBitsOfRowsReadWhereTheyLie) {
  constexpr int kTooDeep = ProductScratch::kPackedFloats / kChunkRows + 1;
  uint64_t run = 0;
  for (const int depth : {41, kTooDeep}) {
    for (const int rows : {7, 11, 16, 25, kChunkRows, kChunkRows + 1}) {
      Case packed(random_, kernels(), RandomProduct(random_, 70, 4, {depth, 33}, GatedCellTail()),
                  rows);
      for (const bool again : {false, true}) {
        Case plain = packed;
        plain.scratch = std::make_shared<ProductScratch>();
        plain.RunAll(kernels());
        ++run;
        for (int p = 0; p < packed.packed.num_panels(); ++p) {
          packed.Run(kernels(), 0, rows, p, p + 1, nullptr, run);
        }
        EXPECT_EQ(packed.columns[1].data, plain.columns[1].data) << rows << " rows, " << again;
        EXPECT_EQ(packed.columns[2].data, plain.columns[2].data) << rows << " rows, " << again;
        for (RandomRows& r : packed.inputs) std::reverse(r.rows.begin(), r.rows.end());
      }
    }
  }
}

// Row r's panel p lies where row 0's panel r + p does: so what is left there says which was last. Chunks of rows go by turns
// from the first panel to the last and back.
TEST_P(ProductTest, PanelsAreRunFromTheEndThatIsAskedAndChunksByTurns) {
  constexpr int kPanels = 5;
  const int units = kPanels * kPanelUnits;
  RandomProduct product(random_, units, 1, {40}, StoreAllTail(1));
  const PackedProduct packed(product.spec, kernels().packing);
  ASSERT_EQ(packed.num_panels(), kPanels);
  for (const bool from_last : {false, true}) {
    for (const int rows : {12, 2 * kChunkRows}) {
      const RandomRows in(random_, 40, rows, rows);
      const RowSource x = in.source();
      ProductScratch scratch;
      const auto run = [&](std::vector<float>& to, int64_t stride) {
        const RowColumn column{to.data(), stride};
        ProductArgs args{rows, &x, nullptr, &column};
        args.from_last = from_last;
        kernels().run_product(packed, args, 0, kPanels, &scratch);
      };
      std::vector<float> apart(static_cast<size_t>(rows) * units);
      std::vector<float> over(static_cast<size_t>(rows + kPanels) * kPanelUnits);
      run(apart, units);
      run(over, kPanelUnits);
      for (int place = 0; place < rows + kPanels - 1; ++place) {
        // The last chunk that has rows here left what is here: its first row with its last panel, or the other way round.
        const int chunks = PassesOf(rows), of_chunk = rows / chunks;
        const int chunk = std::min(place / of_chunk, chunks - 1), first = chunk * of_chunk;
        const bool backwards = from_last != (chunk % 2 == 1);
        const int row = backwards ? std::min(place, first + of_chunk - 1)
                                  : std::max(place - (kPanels - 1), first);
        const float* const expected = apart.data() + row * units + (place - row) * kPanelUnits;
        ASSERT_EQ(0, std::memcmp(over.data() + place * kPanelUnits, expected,
                                 sizeof(float) * kPanelUnits))
            << rows << " rows, place " << place << (from_last ? ", from the last" : "");
      }
    }
  }
}

TEST(PanelWalkTest, ARunStartsWhereTheOneBeforeEnded) {
  Random random{kSeed};
  PanelWalk walk;
  bool at_last = false;
  for (int run = 0; run < 200; ++run) {
    const int passes = RandomInt(random, 1, 5);
    bool backwards = walk.FromLast(passes);
    EXPECT_EQ(backwards, at_last) << "run " << run;
    for (int pass = 0; pass < passes; ++pass, backwards = !backwards) at_last = !backwards;
  }
}

TEST_P(ProductTest, StartingFromAccumulatorsOfTheInputPartGivesTheBitsOfThePlainPath) {
  for (int i = 0; i < kMaxGroups * 3; ++i) {
    const int groups = i / 3 + 1, units = 77, tokens = 9, rows = 31;
    RandomProduct whole(random_, units, groups, {53, 77}, RandomTail(random_, groups, 2, 1), 0.8);
    whole.spec.precision = kPrecisions[i % 3];
    ProductSpec input_part = whole.spec, recurrent_part = whole.spec;
    input_part.segments = {whole.spec.segments[0]};
    recurrent_part.segments = {whole.spec.segments[1]};
    std::fill_n(recurrent_part.bias, kMaxGroups, nullptr);

    Case plain(random_, kernels(), whole, rows);
    const PackedProduct input(input_part, kernels().packing);
    const RandomRows embedding =
        RandomInputs(random_, kernels(), whole.spec.precision, 53, tokens, tokens);
    const RowSource vocabulary{embedding.base(), embedding.stride};
    PackedMemory fold(input.accumulator_width() * tokens);
    const ProductArgs args{tokens, &vocabulary};
    kernels().run_accumulators(input, args, 0, input.num_panels(), plain.scratch.get(), fold.data(),
                               input.accumulator_width());

    std::vector<int32_t> token(rows + 3), token_rows(plain.inputs[0].rows);
    for (int32_t& t : token) t = RandomInt(random_, 0, tokens - 1);
    const RowSource looked_up{embedding.base(), embedding.stride, token_rows.data(), token.data()};
    const RowSource folded{fold.data(), input.accumulator_width(), token_rows.data(), token.data()};
    const PackedProduct recurrent(recurrent_part, kernels().packing);
    std::vector<RandomRows> plain_out = plain.columns, folded_out = plain.columns;
    const RowSource x[2] = {looked_up, plain.inputs[1].source()};
    const RowColumn to_plain[2] = {plain_out[0].column(), plain_out[1].column()};
    const RowColumn to_folded[2] = {folded_out[0].column(), folded_out[1].column()};
    kernels().run_product(plain.packed, {rows, x, nullptr, to_plain}, 0, plain.packed.num_panels(),
                          plain.scratch.get());
    kernels().run_product(recurrent, {rows, x + 1, &folded, to_folded}, 0, recurrent.num_panels(),
                          plain.scratch.get());
    EXPECT_NE(plain_out[0].data, plain_out[0].before);
    EXPECT_EQ(plain_out[0].data, folded_out[0].data) << groups << " groups";
    EXPECT_EQ(plain_out[1].data, folded_out[1].data) << groups << " groups";
  }
}

// Sums that a chain of fma(+0, w, sum) changes, or might: -0 before weights of every sign, denormals, and what is no number.
void MakeSumsDelicate(RandomProduct& product) {
  const float delicate[] = {-0.0f, 0.0f, -1e-41f, 1e-41f, 1.5f, -INFINITY, INFINITY, NAN};
  ProductSpec& spec = product.spec;
  for (int g = 0; g < spec.groups; ++g) {
    float* const bias = const_cast<float*>(spec.bias[g]);
    for (int u = 0; bias != nullptr && u < spec.units; ++u) bias[u] = delicate[(u * 7 + g) % 8];
    for (SegmentSpec& s : spec.segments) {
      const WeightView& w = s.weights[g];
      if (w.data == nullptr) continue;
      for (int u = 0; u < spec.units; ++u) {
        for (int k = 0; k < s.depth; ++k) {
          float& weight = const_cast<float*>(w.data)[u * w.unit_stride + k * w.depth_stride];
          if (u % 3 > 0) weight = -std::abs(weight);  // all but, perhaps, the last
          if (u % 3 == 2 && k == s.depth - 1) weight = 0.0f;
        }
      }
    }
  }
}

TEST_P(ProductTest, ASegmentOfZerosThatIsNotMultipliedLeavesTheBitsOfOneThatIs) {
  for (const bool flush : {false, true}) {
    std::optional<FlushDenormals> flushed;
    if (flush) flushed.emplace();
    for (int i = 0; i < kMaxGroups * 3; ++i) {
      const int groups = i / 3 + 1;
      RandomProduct product(random_, 77, groups, {9, 21}, RandomTail(random_, groups, 2, 0), 0.8);
      product.spec.precision = kPrecisions[i % 3];
      // Dot products of pairs flush, whatever the thread does.
      if (!flush && kernels().bf16_in_pairs && kPrecisions[i % 3] == Precision::kBf16) continue;
      MakeSumsDelicate(product);
      const PackedProduct packed(product.spec, kernels().packing);
      const std::vector<float> zeros(22);
      const Precision precision = product.spec.precision;
      const RandomRows x = RandomInputs(random_, kernels(), precision, 9, 12, 10),
                       h = RandomInputs(random_, kernels(), precision, 21, 12, 10);
      for (const bool zero_x : {true, false}) {
        const RowSource zero_row = {zeros.data(), 0};
        const RowSource multiplied[2] = {zero_x ? zero_row : x.source(),
                                         zero_x ? h.source() : zero_row};
        const RowSource known[2] = {zero_x ? RowSource() : x.source(),
                                    zero_x ? h.source() : RowSource()};
        std::vector<float> sums[2];
        for (const RowSource* inputs : {multiplied, known}) {
          PackedMemory out(packed.accumulator_width() * 10);
          ProductScratch scratch;
          kernels().run_accumulators(packed, {10, inputs}, 0, packed.num_panels(), &scratch,
                                     out.data(), packed.accumulator_width());
          sums[inputs == known].assign(out.data(), out.data() + out.size());
        }
        EXPECT_EQ(0, std::memcmp(sums[0].data(), sums[1].data(), sums[0].size() * sizeof(float)))
            << groups << " groups, x " << zero_x << ", flushed " << flush;
      }
    }
  }
}

TEST_P(ProductTest, GroupsThatStartFromRowsOfFloatsHaveTheBitsOfOnesThatBeginThere) {
  for (int i = 0; i < kMaxGroups * 3; ++i) {
    const int groups = i / 3 + 1, units = 77, rows = 31;  // the last block is no whole one
    RandomProduct whole(random_, units, groups, {53, 77}, RandomTail(random_, groups, 2, 1), 0.8);
    whole.spec.precision = kPrecisions[i % 3];
    Case plain(random_, kernels(), whole, rows);
    // Sums of x for every second group, as another product leaves them in columns.
    std::vector<RandomRows> columns = plain.columns, begun;
    std::vector<RowSource> starts(kMaxGroups);
    ProductSpec rest = whole.spec;
    begun.reserve(kMaxGroups);
    for (int g = 0; g < groups; g += 2) {
      ProductSpec one = whole.spec;
      one.groups = 1;
      one.segments.resize(1);
      one.segments[0].weights[0] = whole.spec.segments[0].weights[g];
      one.bias[0] = whole.spec.bias[g];
      one.tail = IdentityTail();
      one.parameters.clear();
      const PackedProduct sum(one, kernels().packing);
      const RowSource x = plain.inputs[0].source();
      begun.emplace_back(random_, units, rows, rows);
      const RowColumn out = begun.back().column();
      kernels().run_product(sum, {rows, &x, nullptr, &out}, 0, sum.num_panels(),
                            plain.scratch.get());
      starts[g] = begun.back().source();
      rest.segments[0].weights[g] = {};
      rest.bias[g] = nullptr;
    }
    const PackedProduct step(rest, kernels().packing);
    const RowSource inputs[2] = {plain.inputs[0].source(), plain.inputs[1].source()};
    const RowColumn to[2] = {columns[0].column(), columns[1].column()};
    ProductArgs args{rows, inputs, nullptr, to};
    args.starts = starts.data();
    kernels().run_product(step, args, 0, step.num_panels(), plain.scratch.get());
    plain.RunAll(kernels());
    EXPECT_EQ(plain.columns[0].data, columns[0].data) << groups << " groups";
    EXPECT_EQ(plain.columns[1].data, columns[1].data) << groups << " groups";
  }
}

// Where rows of their columns follow each other: sums begun elsewhere or not, inputs of zeros, several chunks of rows, a last
// block that is no whole one.
TEST_P(ProductTest, SumsThatATailOnlyStoresHaveTheSameBitsWhereverTheyAreAddedUp) {
  for (int i = 0; i < kMaxGroups * 3 * 4; ++i) {
    const int groups = i / 12 + 1, units = i % 2 == 0 ? 128 : 77, rows = i % 5 == 0 ? 203 : 7;
    const bool started = i % 4 == 1, zeros = i % 4 == 2;
    RandomProduct product(random_, units, groups, {53, 77}, StoreAllTail(groups), 0.8);
    product.spec.precision = kPrecisions[i % 3];
    Case c(random_, kernels(), std::move(product), rows);
    const RandomRows begun(random_, units, rows, rows);
    std::vector<RowSource> starts(static_cast<size_t>(groups));
    starts[0] = begun.source();
    const RowSource inputs[2] = {zeros ? RowSource() : c.inputs[0].source(), c.inputs[1].source()};
    // One row behind the other, all groups of a row side by side.
    const int64_t stride = groups * units + 5;
    std::vector<float> in_order(static_cast<size_t>(rows * stride), 7.0f);
    std::vector<RowColumn> apart, together;
    for (int g = 0; g < groups; ++g) {
      apart.push_back(c.columns[static_cast<size_t>(g)].column());
      together.push_back({in_order.data() + (groups - 1 - g) * units, stride});
    }
    for (const std::vector<RowColumn>* columns : {&apart, &together}) {
      ProductArgs args{rows, inputs, nullptr, columns->data()};
      if (started) args.starts = starts.data();
      kernels().run_product(c.packed, args, 0, c.packed.num_panels(), c.scratch.get());
    }
    SCOPED_TRACE(std::to_string(i) + ": " + std::to_string(groups) + " groups");
    for (int r = 0; r < rows; ++r) {
      for (int g = 0; g < groups; ++g) {
        ASSERT_EQ(0, std::memcmp(together[g].Row(r), apart[g].Row(r), sizeof(float) * units));
      }
      const float* const beside = in_order.data() + r * stride + groups * units;
      ASSERT_TRUE(std::all_of(beside, beside + 5, [](float x) { return x == 7.0f; }));
    }
  }
}

TEST_P(ProductTest, StateMayBeUpdatedInPlace) {
  RandomProduct product(random_, 37, 4, {20, 37}, GatedCellTail());
  Case apart(random_, kernels(), std::move(product), 13);
  Case in_place = apart;
  apart.RunAll(kernels());
  const RowSource x[2] = {in_place.inputs[0].source(), in_place.inputs[1].source()};
  const RowColumn columns[3] = {in_place.columns[0].column(), in_place.columns[0].column(),
                                in_place.columns[2].column()};
  kernels().run_product(in_place.packed, {13, x, nullptr, columns}, 0, in_place.packed.num_panels(),
                        in_place.scratch.get());
  for (int r = 0; r < 13; ++r) {
    EXPECT_EQ(0, std::memcmp(apart.columns[1].Row(r), in_place.columns[0].Row(r), 37 * 4));
    EXPECT_EQ(0, std::memcmp(apart.columns[2].Row(r), in_place.columns[2].Row(r), 37 * 4));
  }
}

TEST_P(ProductTest, WithoutGroupsItIsAnElementWiseProgram) {
  for (int trial = 0; trial < 20; ++trial) {
    TailProgram tail = RandomTail(random_, 0, 3, 1);
    RandomProduct product(random_, RandomInt(random_, 1, 300), 0, {}, std::move(tail));
    Case c(random_, kernels(), std::move(product), 11);
    c.RunAll(kernels());
    for (int r = 0; r < 11; ++r) {
      EXPECT_LE(Excess(c.Reference(r)[0], c.columns[0].Row(r)), 1.0) << "trial " << trial;
    }
  }
}

TEST_P(ProductTest, ThreeHundredStepsOfAGatedCellStayWithinTheBoundOfTheReference) {
  const int units = 45, steps = 330;
  RandomProduct product(random_, units, 4, {units}, GatedCellTail());
  const PackedProduct packed(product.spec, kernels().packing);
  ProductScratch scratch;
  std::vector<float> h(units, 0.0f), c(units, 0.0f), next(units);
  std::vector<double> h64(units, 0.0), c64(units, 0.0);
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  for (int step = 0; step < steps; ++step) {
    const RowSource x{h.data(), 0};
    const RowColumn columns[3] = {{c.data()}, {c.data()}, {next.data()}};
    kernels().run_product(packed, {1, &x, nullptr, columns}, 0, packed.num_panels(), &scratch);
    h = next;
    std::vector<double> sums(4 * units);
    for (int i = 0; i < 4 * units; ++i) {
      sums[i] = product.spec.bias[i / units][i % units];
      const WeightView& w = product.spec.segments[0].weights[i / units];
      for (int k = 0; k < units; ++k) {
        sums[i] += h64[k] * w.data[(i % units) * w.unit_stride + k * w.depth_stride];
      }
    }
    for (int u = 0; u < units; ++u) {
      c64[u] =
          sigmoid(sums[units + u]) * c64[u] + sigmoid(sums[u]) * std::tanh(sums[2 * units + u]);
      h64[u] = sigmoid(sums[3 * units + u]) * std::tanh(c64[u]);
    }
  }
  EXPECT_LE(Excess(h64, h.data()), 1.0);
  EXPECT_LE(Excess(c64, c.data()), 1.0);
}

TEST(PackedProductTest, PanelsAreFourColumnsWideWhateverTheGroups) {
  Random random(kSeed);
  const int panels[] = {0, 2, 4, 7, 7, 7};  // of 7 blocks of 16 units, by groups
  for (int groups = 1; groups <= kMaxGroups; ++groups) {
    const RandomProduct p(random, 100, groups, {5}, IdentityTail());
    const PackedProduct packed(p.spec);
    EXPECT_EQ(packed.num_panels(), panels[groups]);
    EXPECT_EQ(packed.accumulator_width(), 7 * groups * 16);
  }
}

TEST(PackedProductTest, PanelsAreFourColumnsWideInTheSegmentThatHasMost) {
  Random random(kSeed);
  const auto blocks = [&random](int groups, const std::vector<std::vector<int>>& of_segment) {
    RandomProduct p(random, 100, groups, std::vector<int>(of_segment.size(), 5), IdentityTail());
    for (size_t s = 0; s < of_segment.size(); ++s) {
      for (int g = 0; g < groups; ++g) {
        const bool there = std::count(of_segment[s].begin(), of_segment[s].end(), g) > 0;
        if (!there) p.spec.segments[s].weights[g] = {};
      }
    }
    return PackedProduct(p.spec).blocks_per_panel();
  };
  EXPECT_EQ(blocks(4, {{0, 1}, {2, 3}}), 2);
  EXPECT_EQ(blocks(2, {{0}, {1}}), 4);
  EXPECT_EQ(blocks(2, {{0, 1}, {1}}), 2);
  EXPECT_EQ(blocks(4, {{0, 1, 2}, {3}}), 1);
  EXPECT_EQ(blocks(5, {{0}, {1}, {2}, {3}, {4}}), 1);  // of eight columns of sums
  EXPECT_EQ(blocks(3, {{0}, {1}, {2}}), 2);
}

TEST_P(ProductTest, WhatIsNoNumberStaysInItsRowInEveryPrecision) {
  for (const Precision precision : kPrecisions) {
    RandomProduct product(random_, 70, 4, {40, 70}, StoreAllTail(4));
    product.spec.precision = precision;
    Case sound(random_, kernels(), std::move(product), 20);
    Case spoilt = sound;
    const float strange[] = {INFINITY, -INFINITY, NAN, 1e-40f};
    for (int r = 0; r < 20; r += 5) {
      spoilt.inputs[1].data[spoilt.inputs[1].stride * spoilt.inputs[1].rows[r] + r] =
          strange[r / 5];
    }
    if (!spoilt.inputs[1].pairs.empty()) spoilt.inputs[1].MakePairs();
    sound.RunAll(kernels());
    spoilt.RunAll(kernels());
    for (int r = 0; r < 20; ++r) {
      bool finite = true;
      for (size_t c = 0; c < 4; ++c) {
        const float* const row = spoilt.columns[c].Row(r);
        for (int u = 0; u < 70; ++u) finite &= std::isfinite(row[u]);
        if (r % 5 == 0) continue;
        EXPECT_EQ(0, std::memcmp(sound.columns[c].Row(r), row, 70 * sizeof(float)));
      }
      EXPECT_EQ(finite, r % 5 != 0 || r == 15) << Name(precision) << ", row " << r;
    }
  }
}

TEST(PackedProductTest, AScaleIsTheLargestMagnitudeOver127AndRoundsToTheNearest) {
  EXPECT_EQ(ScaleOfLargest(254.0f), 2.0f);
  EXPECT_EQ(Quantised(254.0f, 2.0f), 127);
  EXPECT_EQ(Quantised(-254.0f, 2.0f), -127);
  EXPECT_EQ(Quantised(5.0f, 2.0f), 2);  // 2.5: to even
  EXPECT_EQ(Quantised(7.0f, 2.0f), 4);
  EXPECT_EQ(Quantised(-0.9f, 2.0f), 0);
  EXPECT_EQ(ScaleOfLargest(0.0f), 0.0f);
  EXPECT_EQ(ScaleOfLargest(1e-37f), 0.0f) << "a scale that may be flushed is none";
  EXPECT_EQ(Quantised(1e-37f, 0.0f), 0);
  EXPECT_EQ(RoundedToBf16(1.0f), 0x3f80);
  EXPECT_EQ(RoundedToBf16(-0.0f), 0x8000);
  EXPECT_EQ(RoundedToBf16(1.00390625f), 0x3f80);  // between two: to even
  EXPECT_EQ(RoundedToBf16(1.01171875f), 0x3f82);
}

TEST(PackedProductTest, SegmentsHaveScalesOfTheirOwnUnlessTheyAreTold) {
  Random random(kSeed);
  RandomProduct p(random, 20, 2, {30, 40}, IdentityTail());
  p.spec.precision = Precision::kW8;
  const std::vector<float> told(20, 12.7f);
  p.spec.segments[1].largest[1] = told.data();
  const PackedProduct packed(p.spec);
  for (int u = 0; u < 20; ++u) {
    const int64_t at = u / 16 * 32 + u % 16;
    float largest = 0.0f;
    const WeightView& w = p.spec.segments[0].weights[0];
    for (int k = 0; k < 30; ++k) {
      largest = std::max(largest, std::abs(w.data[u * w.unit_stride + k * w.depth_stride]));
    }
    EXPECT_EQ(packed.Scales(0)[at], largest / 127.0f);
    EXPECT_EQ(packed.Scales(1)[at + 16], 12.7f / 127.0f);
  }
}

TEST(PackedProductTest, StoredWeightsTakeOneByteOrTwo) {
  Random random(kSeed);
  RandomProduct p(random, 32, 4, {11, 20}, GatedUpdateTail());
  EXPECT_EQ(PackedProduct(p.spec).weight_bytes(), 4 * 32 * 4 * 31);
  p.spec.precision = Precision::kW8;
  EXPECT_EQ(PackedProduct(p.spec).weight_bytes(), 32 * 4 * 31);
  p.spec.precision = Precision::kBf16;
  EXPECT_EQ(PackedProduct(p.spec).weight_bytes(), 2 * 32 * 4 * 32) << "an odd depth is padded";
}

TEST(PackedProductTest, AbsentTermsTakeNoRoom) {
  Random random(kSeed);
  RandomProduct p(random, 32, 4, {10, 20}, GatedUpdateTail());
  p.spec.segments[0].weights[3] = {};
  p.spec.segments[1].weights[2] = {};
  EXPECT_EQ(PackedProduct(p.spec).weight_bytes(), 4 * 32 * (3 * 10 + 3 * 20));
}

// (k, group) of a step and column, in the order in which they lie.
std::vector<std::pair<int, int>> OrderOf(WeightOrder order, int depth, int groups) {
  std::vector<std::pair<int, int>> all;
  for (int i = 0; i < depth * groups; ++i) {
    all.emplace_back(order == WeightOrder::kStepByStep ? std::pair(i / groups, i % groups)
                                                       : std::pair(i % depth, i / depth));
  }
  return all;
}

TEST(PackedProductTest, WeightsLieInTheOrderTheyAreReadAndPadWithZeros) {
  Random random(kSeed);
  const RandomProduct p(random, 17, 3, {2, 3}, IdentityTail());
  for (const WeightOrder order : {WeightOrder::kStepByStep, WeightOrder::kColumnByColumn}) {
    const PackedProduct packed(p.spec, Packing{order});
    const float* at = packed.Weights(0, packed.segments()[0]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0u);
    for (int panel = 0; panel < 2; ++panel) {
      for (const SegmentSpec& s : p.spec.segments) {
        for (const auto& [k, g] : OrderOf(order, s.depth, 3)) {
          for (int lane = 0; lane < 16; ++lane, ++at) {
            const int u = panel * 16 + lane;
            const WeightView& w = s.weights[g];
            EXPECT_EQ(*at, u < 17 ? w.data[u * w.unit_stride + k * w.depth_stride] : 0.0f);
          }
        }
      }
    }
  }
}

TEST(PackedProductTest, PairsOfBf16HaveTheirFirstAboveAndAnOddDepthEndsInMinusZero) {
  Random random(kSeed);
  RandomProduct p(random, 16, 3, {3}, IdentityTail());
  p.spec.precision = Precision::kBf16;
  for (const WeightOrder order : {WeightOrder::kStepByStep, WeightOrder::kColumnByColumn}) {
    const PackedProduct packed(p.spec, Packing{order});
    const uint16_t* at = packed.Weights<uint16_t>(0, packed.segments()[0]);
    for (const auto& [pair, g] : OrderOf(order, 2, 3)) {
      const WeightView& w = p.spec.segments[0].weights[g];
      for (int lane = 0; lane < 16; ++lane) {
        for (int k = 2 * pair + 1; k >= 2 * pair; --k, ++at) {  // what is above is behind
          const float weight = k < 3 ? w.data[lane * w.unit_stride + k * w.depth_stride] : -0.0f;
          EXPECT_EQ(*at, RoundedToBf16(weight)) << "group " << g << ", k " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch::kernels

// Cells in two parts on the CPU: what the step and its deferred part leave has the bits of the whole.
#include "cells/defer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cell_rows.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/cpu/emulated_tiles.h"
#include "tests/testing/builders.h"
#include "tests/testing/headed_cell.h"

namespace cellbatch {
namespace {

constexpr int32_t kRows = 23;
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kW8, Precision::kBf16};

// One of the three cells, packed, on rows of its own.
class Trial {
 public:
  Trial(std::shared_ptr<const CellDefinition> cell, const Weights& weights, Precision precision,
        const kernels::CpuKernels& kernels)
      : rows_(*cell, kRows, kRows) {
    type_.name = cell->name();
    type_.definition = std::move(cell);
    type_.weights = weights;
    CellProgram program = *Lower(*type_.definition, kCpuLimits.In(precision));
    program.precision = type_.precision = precision;
    packed_ = std::make_unique<PackedCell>(type_, std::move(program), CellFolds(), kernels);
  }

  // Every input but `from`'s, which is a row that it left.
  void Fill(uint64_t seed) {
    for (const std::vector<ColumnArray>& input : rows_.columns().inputs) {
      for (const ColumnArray& column : input) {
        const auto values = testing::RandomFloats(int64_t{kRows} * column.width, ++seed);
        for (Row r = 0; r < kRows; ++r) {
          std::memcpy(column.At(r), values.data() + r * column.width, size_t{4} * column.width);
        }
      }
    }
  }
  void FillFrom(const Trial& step) {
    const Input& input = type_.definition->inputs()[0];
    for (size_t c = 0; c < input.reads.size(); ++c) {
      const ColumnArray& to = rows_.columns().inputs[0][c];
      const size_t from = step.ColumnOf(input.reads[c].name);
      for (Row r = 0; r < kRows; ++r) {
        std::memcpy(to.At(r), step.rows_.Left(r)[from].data(), size_t{4} * to.width);
      }
    }
  }
  void Run(int32_t nodes) {
    std::vector<std::vector<Row>> read;
    std::vector<Row> out;
    for (Row r = 0; r < nodes; ++r) {
      read.push_back({r});
      out.push_back(r);
    }
    CoreTeam team(1, {}, {});
    std::vector<kernels::ProductScratch> product_scratch(1);
    CellScratch scratch({&packed_->program()});
    rows_.Run(*packed_, CellRows::Reads(rows_.columns().inputs.size(), read), out, scratch,
              {&team, &product_scratch});
  }
  // What it left in row `row` under that name.
  std::vector<float> Left(Row row, const std::string& column) const {
    return rows_.Left(row)[ColumnOf(column)];
  }
  std::string program() const { return Describe(packed_->program()); }

 private:
  size_t ColumnOf(const std::string& name) const {
    const absl::Span<const Column> columns = type_.definition->columns();
    size_t c = 0;
    while (columns[c].name != name) ++c;
    return c;
  }

  CellType type_;
  CellRows rows_;
  std::unique_ptr<PackedCell> packed_;
};

// The carry's columns stay, the others go.
std::vector<ColumnPart> PartsOf(const CellDefinition& cell) {
  std::vector<ColumnPart> parts;
  for (const Column& column : cell.columns()) {
    const std::vector<Column>& carry =
        cell.inputs()[static_cast<size_t>(cell.carry()->value())].reads;
    const bool stays = std::find(carry.begin(), carry.end(), column) != carry.end();
    parts.push_back(stays ? ColumnPart::kStep : ColumnPart::kDeferred);
  }
  return parts;
}

// The bits of every node and column by either way, alone and in a batch; false: there is nothing to defer.
bool AgreesToTheBit(const CellDefinition& cell, const std::vector<ColumnPart>& parts, uint64_t seed,
                    Precision precision, const kernels::CpuKernels& kernels) {
  const auto split = Defer(cell, parts, kCpuLimits);
  if (!split.has_value()) return false;
  const Weights weights = testing::RandomWeights(cell, seed);
  Trial whole(std::make_shared<const CellDefinition>(cell), weights, precision, kernels);
  Trial step(split->step, weights, precision, kernels);
  Trial deferred(split->deferred, weights, precision, kernels);
  whole.Fill(seed * 31);
  step.Fill(seed * 31);
  whole.Run(kRows);
  step.Run(kRows);
  deferred.FillFrom(step);
  for (const int32_t batch : {1, kRows}) {
    step.Run(batch);
    deferred.Run(batch);
    for (Row r = 0; r < batch; ++r) {
      for (size_t c = 0; c < parts.size(); ++c) {
        const std::string& name = cell.columns()[c].name;
        const auto bits = whole.Left(r, name);
        const auto is_left_by = [&](const Trial& part) {
          const auto left = part.Left(r, name);
          return left.size() == bits.size() &&
                 std::memcmp(left.data(), bits.data(), 4 * bits.size()) == 0;
        };
        const bool agree = (parts[c] == ColumnPart::kDeferred || is_left_by(step)) &&
                           (parts[c] == ColumnPart::kStep || is_left_by(deferred));
        EXPECT_TRUE(agree) << name << "\n" << step.program() << "then\n" << deferred.program();
      }
    }
  }
  return true;
}

using Random = std::function<CellDefinition(uint64_t)>;

int AgreeToTheBit(const Random& random_cell, Precision precision, bool both = false,
                  const kernels::CpuKernels& kernels = kernels::BestKernels(DetectCpuFeatures())) {
  int deferred = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(std::string(Name(precision)) + ", seed " + std::to_string(seed));
    const CellDefinition cell = testing::WithHeads(random_cell(seed), seed);
    std::vector<ColumnPart> parts = PartsOf(cell);
    if (both) std::replace(parts.begin(), parts.end(), ColumnPart::kStep, ColumnPart::kBoth);
    deferred += AgreesToTheBit(cell, parts, seed, precision, kernels) ? 1 : 0;
    if (::testing::Test::HasFailure()) break;
  }
  return deferred;
}

TEST(DeferTest, AThousandRandomCellsWithHeadsKeepTheirBits) {
  for (const Precision precision : kPrecisions) {
    EXPECT_GT(AgreeToTheBit(testing::RandomCell, precision), 700);
  }
}

TEST(DeferTest, TheyKeepThemByTileRegisters) {
  EXPECT_GT(AgreeToTheBit(testing::RandomCell, Precision::kBf16, false, kernels::EmulatedTiles()),
            700);
}

TEST(DeferTest, AThousandRandomCellsOfParametersWithHeadsKeepTheirBits) {
  for (const Precision precision : kPrecisions) {
    EXPECT_GT(AgreeToTheBit(testing::RandomCellOfParameters, precision), 300);
  }
}

TEST(DeferTest, ColumnsThatAreReadBesideDeferredOnesAreLeftByBothParts) {
  EXPECT_GT(AgreeToTheBit(testing::RandomCell, Precision::kFp32, /*both=*/true), 700);
}

// An LSTM that leaves logits and their softmax at each step, by a projection of h and a skip from x.
CellDefinition Tagger(int32_t d, int32_t h, int32_t n, bool skip_first = true) {
  testing::CellBuilder b("tagger");
  const ValueId x = b.Read("x", "x", d), before = b.Carry("before", "h", h);
  const ValueId state =
      b.Tanh(b.Add(b.MatMul(x, b.Matrix("W", h, d)), b.MatMul(before, b.Matrix("U", h, h))));
  const ValueId skip = b.MatMul(x, b.Matrix("S", n, d));
  const ValueId from_state = b.MatMul(state, b.Matrix("P", n, h));
  const ValueId y = skip_first ? b.Add(skip, from_state) : b.Add(from_state, skip);
  b.Leave("h", state);
  b.Leave("y", b.Op1(OpKind::kSoftmax, y));
  return b.Build();
}

constexpr ColumnPart kStep = ColumnPart::kStep, kDeferred = ColumnPart::kDeferred;

TEST(DeferTest, AProjectionIsDeferredWithWhatOnlyItNeeds) {
  const auto split = Defer(Tagger(5, 16, 30), {kStep, kDeferred}, kCpuLimits);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(ColumnsText(split->step->columns()), "{h FP32[16], deferred 1 FP32[5]}")
      << "x is passed on";
  EXPECT_EQ(ColumnsText(split->deferred->columns()), "{y FP32[30]}");
  EXPECT_EQ(ColumnsText(split->deferred->inputs()[0].reads), "{deferred 1 FP32[5], h FP32[16]}");
  EXPECT_FALSE(split->deferred->carry().has_value());
  EXPECT_EQ(split->step->carry(), InputId(1));
  EXPECT_EQ(split->deferred->flops(), 2 * 30 * (5 + 16) + 30 + 30);
}

// Wherever a whole cell's sum runs inputs before what it computes, the deferred part would run them as they are written.
TEST(DeferTest, WhatWouldAddInAnotherOrderStaysWhole) {
  EXPECT_FALSE(Defer(Tagger(5, 16, 30, false), {kStep, kDeferred}, kCpuLimits).has_value());
}

TEST(DeferTest, WhatComputesNothingStaysWhole) {
  testing::CellBuilder b("twice");
  const ValueId x = b.Read("x", "x", 4), before = b.Carry("before", "h", 4);
  const ValueId state = b.Tanh(b.Add(b.MatMul(x, b.Matrix("W", 4, 4)), before));
  b.Leave("h", state);
  b.Leave("again", state);
  b.Leave("x", x);
  EXPECT_FALSE(Defer(b.Build(), {kStep, kDeferred, kDeferred}, kCpuLimits).has_value());
}

}  // namespace
}  // namespace cellbatch

// Hoisted cells on the CPU: a step that starts from sums which another cell began has the bits of the whole.
#include "cells/hoist.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "cells/compile/lower.h"
#include "cells/compile/start_from_sums.h"
#include "cells/device/cpu/cell_rows.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/cpu/emulated_tiles.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr int32_t kRows = 23;
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kW8, Precision::kBf16};

// One of the three cells, packed, on rows of its own: of inputs alike, the same rows.
class Trial {
 public:
  Trial(std::shared_ptr<const CellDefinition> cell, const Weights& weights,
        std::vector<HoistedSum> hoisted, Precision precision, const kernels::CpuKernels& kernels)
      : rows_(*cell, kRows, kRows) {
    type_.name = cell->name();
    type_.definition = std::move(cell);
    type_.weights = weights;
    type_.hoisted = std::move(hoisted);
    CellProgram program = *Lower(*type_.definition, kCpuLimits.In(precision));
    StartFromSums(type_.hoisted, program);
    program.precision = type_.precision = precision;
    packed_ = std::make_unique<PackedCell>(type_, std::move(program), CellFolds(), kernels);
  }

  void Fill(const std::string& input, uint64_t seed) {
    for (const ColumnArray& column : InputNamed(input)) {
      const std::vector<float> values =
          testing::RandomFloats(int64_t{kRows} * column.width, ++seed);
      for (Row r = 0; r < kRows; ++r) {
        std::memcpy(column.At(r), values.data() + r * column.width, size_t{4} * column.width);
      }
    }
  }
  void CopyLeft(const std::string& input, const Trial& from) {
    for (size_t c = 0; c < InputNamed(input).size(); ++c) {
      const ColumnArray& to = InputNamed(input)[c];
      for (Row r = 0; r < kRows; ++r) {
        std::memcpy(to.At(r), from.rows_.Left(r)[c].data(), size_t{4} * to.width);
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
  std::vector<std::vector<float>> Left(Row row) const { return rows_.Left(row); }
  int64_t bytes() const { return packed_->bytes(); }
  std::string program() const { return Describe(packed_->program()); }

 private:
  const std::vector<ColumnArray>& InputNamed(const std::string& name) const {
    const absl::Span<const Input> inputs = type_.definition->inputs();
    size_t i = 0;
    while (inputs[i].name != name) ++i;
    return rows_.columns().inputs[i];
  }

  CellType type_;
  CellRows rows_;
  std::unique_ptr<PackedCell> packed_;
};

// Inputs that are no carry and sum nothing.
std::vector<bool> Brought(const CellDefinition& cell) {
  std::vector<bool> brought;
  for (size_t i = 0; i < cell.inputs().size(); ++i) {
    brought.push_back(cell.carry() != InputId(static_cast<int64_t>(i)) &&
                      cell.inputs()[i].arity == Arity::kOne);
  }
  return brought;
}

// The bits of every node by either way, alone and in a batch; false: there is nothing to hoist.
bool AgreesToTheBit(const CellDefinition& cell, uint64_t seed, Precision precision,
                    const kernels::CpuKernels& kernels) {
  const auto hoisted = Hoist(cell, Brought(cell), kCpuLimits);
  if (!hoisted.has_value()) return false;
  const Weights weights = testing::RandomWeights(cell, seed);
  Trial whole(std::make_shared<const CellDefinition>(cell), weights, {}, precision, kernels);
  Trial eager(hoisted->eager, weights, {}, precision, kernels);
  Trial step(hoisted->step, weights, hoisted->sums, precision, kernels);
  for (const Input& input : cell.inputs()) {
    whole.Fill(input.name, seed * 31 + input.name.size());
    step.Fill(input.name, seed * 31 + input.name.size());
  }
  for (const InputId i : hoisted->reads) {
    const std::string& name = cell.inputs()[static_cast<size_t>(i.value())].name;
    eager.Fill(name, seed * 31 + name.size());
  }
  eager.Run(kRows);
  step.CopyLeft(hoisted->step->inputs().back().name, eager);
  whole.Run(kRows);
  for (const int32_t batch : {1, kRows}) {
    step.Run(batch);
    for (Row r = 0; r < batch; ++r) EXPECT_EQ(whole.Left(r), step.Left(r)) << step.program();
  }
  EXPECT_EQ(whole.bytes(), eager.bytes() + step.bytes()) << "each weight is packed once";
  return true;
}

TEST(HoistTest, AStepThatStartsFromHoistedSumsHasTheBitsOfTheWhole) {
  for (const kernels::CpuKernels* table : kernels::RunnableAndEmulated()) {
    for (const CellDefinition& cell :
         {testing::LstmCell(13, 37), testing::LstmCellByGate(5, 18), testing::LstmCellConcat(7, 19),
          testing::TwoInputLstmCell(3, 4, 21), testing::GruCell(13, 37), testing::GruV1Cell(13, 37),
          testing::ElmanCell(13, 70), testing::ElmanCell(1, 1, OpKind::kRelu)}) {
      for (const Precision precision : kPrecisions) {
        EXPECT_TRUE(AgreesToTheBit(cell, 3, precision, *table)) << cell.name() << Name(precision);
      }
    }
  }
}

// Of a thousand cells; how many have something to hoist.
int AgreeToTheBit(CellDefinition (*random_cell)(uint64_t), Precision precision,
                  const kernels::CpuKernels& kernels = kernels::BestKernels(DetectCpuFeatures())) {
  int hoisted = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(std::string(Name(precision)) + ", seed " + std::to_string(seed));
    hoisted += AgreesToTheBit(random_cell(seed), seed, precision, kernels) ? 1 : 0;
    if (::testing::Test::HasFailure()) break;
  }
  return hoisted;
}

TEST(HoistTest, AThousandRandomCellsKeepTheirBits) {
  for (const Precision precision : kPrecisions) {
    EXPECT_GT(AgreeToTheBit(testing::RandomCell, precision), 200);
  }
}

TEST(HoistTest, TheyKeepThemByTileRegisters) {
  EXPECT_GT(AgreeToTheBit(testing::RandomCell, Precision::kBf16, kernels::EmulatedTiles()), 200);
}

TEST(HoistTest, AThousandRandomCellsOfParametersKeepTheirBits) {
  for (const Precision precision : kPrecisions) {
    EXPECT_GT(AgreeToTheBit(testing::RandomCellOfParameters, precision), 100);
  }
}

TEST(HoistTest, WhatIsHoistedIsReadOffTheProgram) {
  const CellDefinition lstm = testing::LstmCell(32, 64);
  const auto hoisted = Hoist(lstm, {true, false}, kCpuLimits);
  ASSERT_TRUE(hoisted.has_value());
  EXPECT_EQ(hoisted->multiply_adds(), 4 * 64 * 32);
  EXPECT_EQ(hoisted->eager->columns().size(), 4u);
  CellProgram program = *Lower(*hoisted->step, kCpuLimits);
  EXPECT_EQ(Describe(program), Describe(*Lower(lstm, kCpuLimits)));
  StartFromSums(hoisted->sums, program);
  EXPECT_EQ(Describe(program),
            "product 4x64 in1.0[64] 0:in2.0 1:in2.1 2:in2.2 3:in2.3 tail 16 -> out0 -> out1\n");
}

// A text may call its inputs as the parts' own are called.
TEST(HoistTest, InputsMayHaveAnyNames) {
  const kernels::CpuKernels& kernels = kernels::BestKernels(DetectCpuFeatures());
  using Names = std::pair<const char*, const char*>;
  for (const auto& [x, before] :
       {Names("x", "hoisted sums"), Names("hoisted after", "before"),
        Names("hoisted after", "hoisted sums"), Names("hoisted sums", "hoisted sums 2")}) {
    testing::CellBuilder b("named");
    const ValueId from_x = b.MatMul(b.Read(x, "x", 13), b.Matrix("W", 37, 13));
    b.Leave("h", b.Tanh(b.Add(from_x, b.MatMul(b.Carry(before, "h", 37), b.Matrix("U", 37, 37)))));
    EXPECT_TRUE(AgreesToTheBit(b.Build(), 3, Precision::kFp32, kernels)) << x << ", " << before;
  }
}

// x in pieces, each with a parameter of its own, which has the rows of all gates.
CellDefinition CellOfPieces(int32_t pieces, int32_t gates) {
  constexpr int32_t kPiece = 2, kUnits = 4;
  testing::CellBuilder b("pieces");
  const ValueId x = b.Read("x", "x", pieces * kPiece);
  ValueId sum, h;
  for (int32_t p = 0; p < pieces; ++p) {
    const ValueId w = b.Matrix("W" + std::to_string(p), gates * kUnits, kPiece);
    const ValueId term = b.MatMul(b.Slice(x, p * kPiece, (p + 1) * kPiece), w);
    sum = p == 0 ? term : b.Add(sum, term);
  }
  const ValueId u = b.Matrix("U", gates * kUnits, kUnits);
  sum = b.Add(sum, b.MatMul(b.Carry("before", "h", kUnits), u));
  for (int32_t g = 0; g < gates; ++g) {
    const ValueId gate = b.Tanh(b.Slice(sum, g * kUnits, (g + 1) * kUnits));
    h = g == 0 ? gate : b.Mul(h, gate);
  }
  b.Leave("h", h);
  return b.Build();
}

// Each of 7 terms of each gate's sum takes 5 operators, and one to add it.
TEST(HoistTest, WhatWouldTakeMoreOperatorsThanACellMayHaveStaysWhole) {
  const auto most = Hoist(CellOfPieces(7, 12), {true, false}, kCpuLimits);
  ASSERT_TRUE(most.has_value());
  EXPECT_GT(most->eager->ops().size(), 490u);
  EXPECT_FALSE(Hoist(CellOfPieces(7, 16), {true, false}, kCpuLimits).has_value());
}

TEST(HoistTest, NothingIsHoistedOfWhatIsNotBroughtOrNotRecurrent) {
  EXPECT_FALSE(Hoist(testing::LstmCell(5, 7), {false, false}, kCpuLimits).has_value());
  EXPECT_FALSE(Hoist(testing::LinearCell(5, 7), {true}, kCpuLimits).has_value());
  EXPECT_FALSE(Hoist(testing::TokenLstmCell(50, 5, 7), {true, false}, kCpuLimits).has_value());
}

}  // namespace
}  // namespace cellbatch

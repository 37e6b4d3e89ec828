// Programs as CUDA kernels, run thread by thread on the CPU: every shipped cell and cells at random agree with the interpreter,
// bits do not depend on company or on how wide a launch is, and nothing is touched that is not the task's.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cuda/cuda_limits.h"
#include "tests/cuda_kernels/emulated_cell.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_builder.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

using testing::CellTrial;
using testing::TrialOptions;

constexpr int32_t kNodes = 50;  // more than three blocks of a product, the last of them not full

// Depths and widths that are no multiple of a piece or a block, and more than one of each.
const Sizes kSizes = {{"D", 35}, {"H", 41}, {"V", 100}, {"C", 3}, {"F", 2},  {"B", 3},
                      {"L", 4},  {"M", 6},  {"P", 4},   {"S", 2}, {"BOS", 1}};

TrialOptions On(EmulatedCell& emulated) {
  TrialOptions options;
  options.rows = kNodes;
  options.words = 120;  // beyond the vocabulary: clamped
  options.limits = kCudaLimits;
  options.run = emulated.Runner();
  options.positive = {"before.n"};
  return options;
}

const kernels::CpuKernels& Kernels() { return kernels::BestKernels(DetectCpuFeatures()); }

void ExpectAgreement(const CellTrial& trial, int32_t nodes) {
  for (int32_t node = 0; node < nodes; ++node) {
    const std::string disagreement = trial.Disagreement(node);
    ASSERT_EQ(disagreement, "");
  }
}

void TryCell(const CellDefinition& cell, uint64_t seed, const CudaTarget& target) {
  SCOPED_TRACE(cell.name());
  EmulatedCell emulated({.seed = seed, .target = target, .shape = 1});
  CellTrial trial(cell, seed, Kernels(), On(emulated));
  for (const int32_t nodes : {1, 17, kNodes}) {
    trial.Run(nodes);
    ExpectAgreement(trial, nodes);
  }
  EXPECT_EQ(emulated.Findings(), std::vector<std::string>());
}

// How fp32 is multiplied.
constexpr CudaTarget kFp32[] = {{.fp32 = Fp32By::kTensorCores}, {.fp32 = Fp32By::kFma}};

class ShippedCudaTest : public ::testing::TestWithParam<std::tuple<ShippedCell, CudaTarget>> {};

TEST_P(ShippedCudaTest, AgreesWithTheInterpreterAndTouchesNothingElse) {
  const auto& [shipped, target] = GetParam();
  TryCell(testing::ShippedDefinition(shipped.name, kSizes), 3, target);
}

std::vector<ShippedCell> Shipped() {
  const auto all = ShippedCells();
  return {all.begin(), all.end()};
}

INSTANTIATE_TEST_SUITE_P(Cells, ShippedCudaTest,
                         ::testing::Combine(::testing::ValuesIn(Shipped()),
                                            ::testing::ValuesIn(kFp32)),
                         [](const auto& info) {
                           const bool tf32 = std::get<1>(info.param).fp32 == Fp32By::kTensorCores;
                           return std::string(std::get<0>(info.param).name) +
                                  (tf32 ? "_3xtf32" : "");
                         });

TEST(CellSourceTest, RandomCellsAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const CudaTarget& target : kFp32) {
      TryCell(testing::RandomCell(seed), seed, target);
      TryCell(testing::RandomCellOfParameters(seed), seed, target);
    }
  }
}

TEST(CellSourceTest, BitsDoNotDependOnCompanyNorOnTheWidthOfALaunch) {
  for (const char* name : {"lstm", "gru_v1", "treelstm_internal", "treelstm_childsum"}) {
    SCOPED_TRACE(name);
    const CudaTarget fma = {.fp32 = Fp32By::kFma};
    EmulatedCell narrow({.seed = 1, .target = fma});
    EmulatedCell wide({.seed = 2, .target = fma, .launch_nodes = 200});
    const CellDefinition cell = testing::ShippedDefinition(name, kSizes);
    CellTrial alone(cell, 5, Kernels(), On(narrow)), together(cell, 5, Kernels(), On(wide));
    std::vector<Row> rows(kNodes);
    for (Row r = 0; r < kNodes; ++r) rows[static_cast<size_t>(r)] = r;
    CoreTeam team(1, {}, {});
    together.Run(rows, team);
    for (const Row row : {0, 1, 15, 16, 31, 49}) {
      alone.Run({row}, team);
      EXPECT_EQ(alone.Left(0), together.Left(row)) << row;
    }
    EXPECT_EQ(wide.Findings(), std::vector<std::string>());
  }
}

// bf16, by tensor cores ---------------------------------------------------------------------------

TrialOptions InBf16(EmulatedCell& emulated) {
  TrialOptions options = On(emulated);
  options.precision = Precision::kBf16;
  return options;
}

// Of blocks, for few nodes and many.
size_t Shapes(const CudaTarget& target) { return target.wgmma ? 7 : 5; }

// Of Hopper and of others.
constexpr CudaTarget kTargets[] = {{.wgmma = false}, {.wgmma = true}};

class Bf16CudaTest : public ::testing::TestWithParam<std::tuple<ShippedCell, CudaTarget>> {};

// As tests/conformance/precision_test says of CPUs: two roundings of relative 2^-9 for each product. And the CPU's own products of
// the same rounded numbers differ by nothing but the order of sums.
void TryCellInBf16(const CellDefinition& cell, const CudaTarget& target) {
  EmulatedCell emulated({.seed = 3, .target = target, .shape = 1});
  CellTrial trial(cell, 3, Kernels(), InBf16(emulated));
  TrialOptions on_cpu = InBf16(emulated);
  on_cpu.run = nullptr;
  CellTrial cpu(cell, 3, Kernels(), on_cpu);
  for (const int32_t nodes : {1, 17, kNodes}) {
    trial.Run(nodes);
    cpu.Run(nodes);
    for (int32_t node = 0; node < nodes; ++node) {
      const RowValues expected = cpu.LeftValues(node), got = trial.LeftValues(node);
      for (size_t c = 0; c < got.size(); ++c) {
        for (size_t u = 0; u < got[c].size(); ++u) {
          const double most = std::max(1.0, std::abs(expected[c][u]));
          ASSERT_NEAR(got[c][u], expected[c][u], 1e-3 * most)
              << "node " << node << ", column " << c;
        }
      }
    }
  }
  EXPECT_EQ(emulated.Findings(), std::vector<std::string>());
}

TEST_P(Bf16CudaTest, IsNearTheInterpreterAndTheCpuAndTouchesNothingElse) {
  const auto& [shipped, target] = GetParam();
  TryCellInBf16(testing::ShippedDefinition(shipped.name, kSizes), target);
}

INSTANTIATE_TEST_SUITE_P(Cells, Bf16CudaTest,
                         ::testing::Combine(::testing::ValuesIn(Shipped()),
                                            ::testing::ValuesIn(kTargets)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param).wgmma ? "_hopper" : "");
                         });

// y = tanh(W x[3 .. ] + U h + b), in pieces of both kinds: rows of x begin where 16 bytes cannot be loaded at once, so they are stored
// where those of h are copied. No shipped cell has such rows.
CellDefinition CellOfUnalignedRows() {
  constexpr int32_t kWidth = 140, kBegin = 3, kDepth = kWidth - kBegin, kUnits = 41;
  testing::CellBuilder b("unaligned");
  const ValueId x = b.Slice(b.Read("x", "x", kWidth), kBegin, kWidth);
  const ValueId h = b.Carry("before", "h", kUnits);
  const ValueId w = b.Matrix("W", kUnits, kDepth), u = b.Matrix("U", kUnits, kUnits);
  const ValueId sum = b.Add(b.MatMul(x, w), b.MatMul(h, u));
  b.Leave("h", b.Tanh(b.Add(sum, b.Vector("b", kUnits))));
  return b.Build();
}

TEST(Bf16RowsTest, ThoseThatAreStoredAreThereWhenTheyAreTold) {
  for (const CudaTarget& target : kTargets) TryCellInBf16(CellOfUnalignedRows(), target);
}

// That both kinds are in there, and who looks at them sees the difference.
TEST(Bf16RowsTest, ThoseThatAreStoredAndToldAsCopiesAreNoticed) {
  const auto findings = [](const std::string& from, const std::string& to) {
    EmulatedCell emulated(
        {.seed = 3, .target = {.wgmma = true}, .shape = 1, .rewrite = Plant(from, to)});
    CellTrial trial(CellOfUnalignedRows(), 3, Kernels(), InBf16(emulated));
    trial.Run(kNodes);
    return emulated.Findings();
  };
  const std::vector<std::string> stored =
      findings("      Arrive(full);", "      ArriveWhenCopied(full);");
  ASSERT_FALSE(stored.empty());
  EXPECT_NE(stored[0].find(": race: reads "), std::string::npos) << stored[0];
  EXPECT_FALSE(findings("      ArriveWhenCopied(full);", "      Arrive(full);").empty());
}

// tf32, by tensor cores ---------------------------------------------------------------------------

class Tf32CudaTest : public ::testing::TestWithParam<ShippedCell> {};

// Numbers of three bits more than bf16's: an eighth of what those leave (tests/conformance/precision_test).
TEST_P(Tf32CudaTest, IsNearTheInterpreterAndTouchesNothingElse) {
  const CellDefinition cell = testing::ShippedDefinition(GetParam().name, kSizes);
  EmulatedCell emulated({.seed = 3, .shape = 1});
  TrialOptions options = On(emulated);
  options.precision = Precision::kTf32;
  CellTrial trial(cell, 3, Kernels(), options);
  for (const int32_t nodes : {1, kNodes}) {
    trial.Run(nodes);
    for (int32_t node = 0; node < nodes; ++node) {
      const RowValues expected = trial.Expected(node), got = trial.LeftValues(node);
      for (size_t c = 0; c < got.size(); ++c) {
        for (size_t u = 0; u < got[c].size(); ++u) {
          const double most = std::max(1.0, std::abs(expected[c][u]));
          ASSERT_NEAR(got[c][u], expected[c][u], 1.25e-3 * most)
              << "node " << node << ", column " << c;
        }
      }
    }
  }
  EXPECT_EQ(emulated.Findings(), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Cells, Tf32CudaTest, ::testing::ValuesIn(Shipped()),
                         [](const auto& info) { return std::string(info.param.name); });

void ExpectTheSameBitsOfEveryShape(const CellDefinition& cell, const CudaTarget& target,
                                   Precision precision) {
  EmulatedCell first({.seed = 1, .target = target, .shape = 0, .every_shape = true});
  TrialOptions options = On(first);
  options.precision = precision;
  CellTrial expected(cell, 5, Kernels(), options);
  expected.Run(kNodes);
  for (size_t shape = 1; shape < Shapes(target); ++shape) {
    EmulatedCell emulated(
        {.seed = 2, .target = target, .launch_nodes = 200, .shape = shape, .every_shape = true});
    options.run = emulated.Runner();
    CellTrial trial(cell, 5, Kernels(), options);
    for (const int32_t nodes : {3, kNodes}) {
      trial.Run(nodes);
      for (int32_t node = 0; node < nodes; ++node) {
        EXPECT_EQ(trial.Left(node), expected.Left(node)) << node << " in shape " << shape;
      }
    }
    EXPECT_EQ(emulated.Findings(), std::vector<std::string>());
  }
}

TEST(MmaSourceTest, EveryShapeOfABlockLeavesTheSameBits) {
  for (const char* name : {"lstm", "gru", "gru_v1", "treelstm_internal", "linear_softmax"}) {
    for (const CudaTarget& target : kTargets) {
      SCOPED_TRACE(name + std::string(target.wgmma ? " on Hopper" : ""));
      const CellDefinition cell = testing::ShippedDefinition(name, kSizes);
      ExpectTheSameBitsOfEveryShape(cell, target, Precision::kBf16);
      if (!target.wgmma) ExpectTheSameBitsOfEveryShape(cell, target, Precision::kFp32);
    }
  }
}

TEST(MmaSourceTest, InTf32EveryShapeOfABlockLeavesTheSameBits) {
  for (const char* name : {"lstm", "gru_v1"}) {
    SCOPED_TRACE(name);
    const CellDefinition cell = testing::ShippedDefinition(name, kSizes);
    ExpectTheSameBitsOfEveryShape(cell, kTargets[0], Precision::kTf32);
  }
}

// Five pieces: more than shared memory holds at once.
Sizes LongRows() {
  Sizes sizes = kSizes;
  sizes["H"] = 150;
  return sizes;
}

// In how many of five runs, each by a seed of its own, it shows: in what the cell leaves or in what is found.
int Noticed(const char* cell, const std::string& from, const std::string& to) {
  int noticed = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EmulatedCell emulated(
        {.seed = seed, .target = {.fp32 = Fp32By::kFma}, .rewrite = Plant(from, to)});
    CellTrial trial(testing::ShippedDefinition(cell, LongRows()), 7, Kernels(), On(emulated));
    trial.Run(kNodes);
    bool wrong = !emulated.Findings().empty();
    for (int32_t node = 0; node < kNodes; ++node) wrong |= !trial.Disagreement(node).empty();
    noticed += wrong ? 1 : 0;
  }
  return noticed;
}

TEST(CellSourceTest, PlantedBugsAreNoticed) {
  EXPECT_EQ(Noticed("lstm", "WaitForAllBut<kStages - 2>();\n    __syncthreads();",
                    "WaitForAllBut<kStages - 2>();"),
            5)
      << "a missing barrier";
  EXPECT_EQ(Noticed("lstm", "if (k < depth) {", "if (true) {"), 5) << "rows read beyond their end";
  EXPECT_EQ(Noticed("lstm", "const int next = p + kStages - 1;", "const int next = p + kStages;"),
            5)
      << "a piece that is never loaded";
  EXPECT_EQ(Noticed("lstm", "next % kStages * PieceFloats", "(next + 1) % kStages * PieceFloats"),
            5)
      << "a piece loaded where another one is read";
  EXPECT_EQ(Noticed("linear_softmax",
                    "    __syncthreads();\n    if (static_cast<int>(threadIdx.x) < half)",
                    "    if (static_cast<int>(threadIdx.x) < half)"),
            5)
      << "a sum of parts that are not there yet";
}

// The kinds of what the checker finds, whatever the cell leaves, by any of three seeds: the same for all of them.
std::set<std::string> Found(const char* cell, const std::string& from, const std::string& to) {
  static const std::regex kKind(": (out of bounds|misaligned|not written|race|copy under way): ");
  std::set<std::string> all;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EmulatedCell emulated(
        {.seed = seed, .target = {.fp32 = Fp32By::kFma}, .rewrite = Plant(from, to)});
    CellTrial trial(testing::ShippedDefinition(cell, LongRows()), 7, Kernels(), On(emulated));
    trial.Run(kNodes);
    std::set<std::string> kinds;
    for (const std::string& finding : emulated.Findings()) {
      std::smatch kind;
      EXPECT_TRUE(std::regex_search(finding, kind, kKind)) << finding;
      kinds.insert(kind[1]);
    }
    EXPECT_TRUE(seed == 1 || kinds == all) << from << " by seed " << seed;
    all.insert(kinds.begin(), kinds.end());
  }
  return all;
}

TEST(CellSourceTest, TheCheckerFindsPlantedBugsWhateverTheyLeave) {
  using Kinds = std::set<std::string>;
  EXPECT_EQ(Found("lstm", "inline", "inline"), Kinds()) << "no bug";

  constexpr char kWait[] = "WaitForAllBut<kStages - 2>();\n";
  EXPECT_EQ(Found("lstm", "  __syncthreads();  // all of piece p", "  // all of piece p"),
            Kinds({"not written"}))
      << "a piece of the ring read without a barrier";
  EXPECT_EQ(Found("lstm", "__syncthreads();  // whoever read", "// whoever read"),
            Kinds({"copy under way", "race"}))
      << "a segment loaded where the one before is read";
  EXPECT_EQ(Found("lstm", kWait, ""), Kinds({"copy under way"})) << "a wait left out";
  EXPECT_EQ(Found("lstm", kWait, "WaitForAllBut<kStages - 1>();\n"), Kinds({"copy under way"}))
      << "a wait for one group less";
  EXPECT_EQ(
      Found("lstm", "    CloseGroup();\n    const float* const x", "    const float* const x"),
      Kinds({"copy under way"}))
      << "groups that are never closed";
  EXPECT_EQ(Found("lstm", "if (k < depth) {", "if (true) {"), Kinds({"out of bounds"}))
      << "rows read beyond their end";

  const std::string inner = "    __syncthreads();\n    if (static_cast<int>(threadIdx.x) < half)";
  EXPECT_EQ(Found("linear_softmax", inner, inner.substr(inner.find("    if"))),
            Kinds({"not written", "race"}))
      << "parts added up without a barrier";
  EXPECT_EQ(Found("linear_softmax", "__syncthreads();\n  parts[threadIdx.x] = mine;",
                  "parts[threadIdx.x] = mine;"),
            Kinds({"race"}))
      << "parts left where the sum before is read";
  EXPECT_EQ(Found("linear_softmax", "__syncthreads();\n  return parts[0];", "return parts[0];"),
            Kinds({"race"}))
      << "a sum read before it is there";

  EXPECT_EQ(Found("treelstm_childsum", "    to[u] = sum;", "    if (u != 1) to[u] = sum;"),
            Kinds({"not written"}))
      << "scratch that nobody wrote";
}

// Of the kernels that have warps of their own to load, and barriers instead of the block's: by a shape of which two blocks share
// weights, with room for three pieces of five.
TEST(CellSourceTest, PlantedBugsOnHopperAreNoticed) {
  constexpr char kShape[] = "WgmmaShape<32, 1, 1, 4, 12, 2, 128, 2>";
  Sizes sizes = kSizes;
  sizes["H"] = 200;
  const auto left = [&](uint64_t seed, const std::string& from, const std::string& to) {
    const auto rewrite = [&](std::string text) {
      return Plant(from, to)(Plant(kShape, "WgmmaShape<32, 1, 1, 4, 3, 2, 128, 1>")(text));
    };
    EmulatedCell emulated({.seed = seed,
                           .target = {.wgmma = true},
                           .launch_nodes = 64,
                           .shape = 3,
                           .rewrite = rewrite});
    CellTrial trial(testing::ShippedDefinition("lstm", sizes), 7, Kernels(), InBf16(emulated));
    trial.Run(kNodes);
    std::vector<RowValues> rows;
    for (int32_t node = 0; node < kNodes; ++node) rows.push_back(trial.LeftValues(node));
    return std::pair(rows, emulated.Findings().empty());
  };
  const auto right = left(1, "inline", "inline");
  EXPECT_TRUE(right.second);
  const auto noticed = [&](const std::string& from, const std::string& to) {
    int noticed = 0;
    for (uint64_t seed = 1; seed <= 2; ++seed) noticed += left(seed, from, to) == right ? 0 : 1;
    return noticed;
  };
  EXPECT_EQ(noticed("inline", "inline"), 0) << "no bug";
  EXPECT_EQ(noticed("    places.WaitUntilFree();\n", ""), 2) << "a place filled while it is read";
  EXPECT_EQ(noticed("      places.WaitUntilFull();\n", ""), 2) << "a piece that is not there yet";
  EXPECT_EQ(noticed("      ArriveWhenCopied(full);", "      Arrive(full);"), 2)
      << "rows that are on their way, told as there";
  EXPECT_EQ(noticed("    Release(at);\n", ""), 2) << "places that are never free again";
  EXPECT_EQ(noticed("    Release(at);\n", "    Release(at + kCount + 1);\n"), 2)
      << "places told free before they are read";
  EXPECT_EQ(noticed("ArriveAndExpect(full, Shape::kPacks * kBytes);",
                    "ArriveAndExpect(full, Shape::kPacks * kBytes / Shape::kCluster);"),
            2)
      << "weights of the other block, of which nobody is told";
  EXPECT_EQ(noticed("ArriveAt(places.free + multiplied.place, lane);",
                    "Arrive(places.free + multiplied.place);"),
            2)
      << "a place told free to its own block alone";
  EXPECT_EQ(noticed("ClusterPart<Shape::kCluster>() * kPart", "0 * kPart"), 2)
      << "both blocks bring the same part";
  EXPECT_EQ(noticed("InitBarrier(free + threadIdx.x, kCluster * Shape::kConsumers / 32);",
                    "InitBarrier(free + threadIdx.x, Shape::kConsumers / 32);"),
            2)
      << "a place free before the other block has read it";
  EXPECT_EQ(noticed("p >= Shape::kStages && Shape::Loader() == 0", "Shape::Loader() == 0"), 2)
      << "weights loaded twice";
}

}  // namespace
}  // namespace cellbatch

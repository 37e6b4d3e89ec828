#include "cells/device/cpu/cell_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/device/cpu/self_test.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"

namespace cellbatch {
namespace {

using testing::CellTrial;
using testing::TrialOptions;

const kernels::CpuKernels& Best() { return kernels::BestKernels(DetectCpuFeatures()); }

std::vector<Row> Shuffled(int32_t n, int32_t rows) {
  std::vector<Row> list;
  for (int32_t i = 0; i < n; ++i) list.push_back((i * 7 + 3) % rows);
  return list;
}

std::vector<CellDefinition> Cells() {
  std::vector<CellDefinition> cells;
  cells.push_back(testing::LstmCell(13, 37));
  cells.push_back(testing::LstmCellByGate(5, 18));
  cells.push_back(testing::LstmCellConcat(7, 19));
  cells.push_back(testing::TwoInputLstmCell(3, 4, 21));
  cells.push_back(testing::TokenLstmCell(50, 9, 17));
  cells.push_back(testing::GruCell(13, 37));
  cells.push_back(testing::GruV1Cell(13, 37));
  cells.push_back(testing::ElmanCell(13, 70));
  cells.push_back(testing::ElmanCell(1, 1, OpKind::kRelu));
  cells.push_back(testing::LinearCell(33, 5));
  cells.push_back(testing::EmbeddingCell(1000, 19));
  cells.push_back(testing::ChildSumCell(6, 11));
  cells.push_back(testing::DecodeCell(12, 45));
  return cells;
}

// Cells nobody would write, for the corners of the compiler.
CellDefinition PassThroughCell() {
  testing::CellBuilder b("pass_through");
  const ValueId x = b.Read("x", "x", 7), token = b.Read("t", "t", 1, ElementType::kInt32);
  const ValueId words = b.Read("w", "w", 3, ElementType::kInt32);
  const ValueId y = b.Tanh(x);
  b.Leave("x", x);
  b.Leave("t", token);
  b.Leave("constant", b.Constant(0.25f, Shape::Vector(5)));
  b.Leave("parameter", b.Vector("p", 9));
  b.Leave("y", y);
  b.Leave("y_again", y);
  b.Leave("part", b.Slice(y, 2, 5));
  b.Leave("words", b.Concat(token, b.Slice(words, 1, 3)));
  b.Leave("joined", b.Concat(y, b.Concat(x, b.Slice(x, 1, 2)), b.Constant(2.0f)));
  return b.Build();
}

CellDefinition MatrixCell() {
  testing::CellBuilder b("matrices");
  const ValueId flat = b.Read("m", "m", 12);
  const ValueId x = b.Read("x", "x", 3);
  const ValueId w = b.Matrix("W", 5, 3), one = b.Vector("one", 3);
  const ValueId outer = b.MatMul(b.Op1(OpKind::kTranspose, x), b.Op1(OpKind::kTranspose, one));
  b.Leave("outer", outer);  // [3, 1] x [3, 1]: [3, 3]
  b.Leave("square", b.MatMul(outer, outer));
  b.Leave("moved", b.MatMul(x, b.Op1(OpKind::kTanh, outer)));  // by a computed matrix
  b.Leave("several", b.MatMul(outer, w));                      // [3, 5]
  b.Leave("columns", b.Slice(b.Op1(OpKind::kTranspose, b.MatMul(outer, w)), 1, 3));
  b.Leave("sum", b.Add(outer, outer));
  b.Leave("fixed", b.MatMul(one, w));  // a product of parameters
  b.Leave("flat", b.Op1(OpKind::kSum, flat));
  return b.Build();
}

CellDefinition FeedBackCell() {
  testing::CellBuilder b("feed_back");
  const ValueId x = b.Read("x", "x", 9);
  const ValueId logits = b.MatMul(x, b.Matrix("W", 40, 9));
  const ValueId word = b.Op1(OpKind::kArgMax, logits);
  const ValueId embedded = b.Lookup(b.Matrix("E", 40, 6), word);
  b.Leave("word", word);
  b.Leave("next", b.Tanh(b.Add(b.MatMul(embedded, b.Matrix("V", 5, 6)), b.Slice(x, 0, 5))));
  b.Leave("p", b.Slice(b.Op1(OpKind::kSoftmax, logits), 3, 8));
  b.Leave("scaled", b.Mul(embedded, b.Op1(OpKind::kMean, logits)));
  return b.Build();
}

CellDefinition ManyPiecesCell() {
  testing::CellBuilder b("many_pieces");
  const ValueId children = b.Read("children", "h", 20, ElementType::kFp32, Arity::kSum);
  ValueId pieces = b.Slice(children, 0, 2);
  for (int i = 1; i < 10; ++i) {
    const ValueId piece = b.Slice(children, i, i + 2);
    pieces = b.Concat(pieces, i % 2 == 0 ? b.Tanh(piece) : piece);
  }
  ValueId sum = b.MatMul(pieces, b.Matrix("W", 6, 20));
  for (const char* w : {"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9"}) {
    sum = b.Add(sum, b.MatMul(b.Slice(children, 3, 3 + w[1] - '0'), b.Matrix(w, 6, w[1] - '0')));
  }
  b.Leave("h", sum);
  return b.Build();
}

TEST(CellRunTest, CornersOfTheCompilerAgreeWithTheInterpreter) {
  CoreTeam one(1, {}, {}), two(2, {}, std::chrono::microseconds(50));
  for (const auto make : {PassThroughCell, MatrixCell, FeedBackCell, ManyPiecesCell}) {
    for (CoreTeam* team : {&one, &two}) {
      CellTrial trial(make(), 3, Best(), {.rows = 40, .fold = true});
      const std::vector<Row> rows = Shuffled(33, 40);
      trial.Run(rows, *team);
      for (Row r = 0; r < 33; ++r) EXPECT_EQ(trial.Disagreement(r), "");
    }
  }
}

// Equal numbers, or none at all, that are other constants.
CellDefinition ConstantsCell() {
  testing::CellBuilder b("constants");
  const ValueId x = b.Read("x", "x", 3);
  const ValueId zero = b.Constant(0.0f), minus_zero = b.Constant(-0.0f);
  b.Leave("zero", zero);
  b.Leave("minus_zero", minus_zero);
  b.Leave("over_zero", b.Op2(OpKind::kDiv, x, zero));
  b.Leave("over_minus_zero", b.Op2(OpKind::kDiv, x, minus_zero));
  b.Leave("none", b.Integer(0));
  b.Leave("least", b.Integer(std::numeric_limits<int32_t>::min()));
  for (const int32_t nan_bits : {0x7fc00001, 0x7fc00002, -1}) {
    b.Leave(fmt::format("integer_{}", nan_bits), b.Integer(nan_bits, Shape::Vector(2)));
  }
  return b.Build();
}

TEST(CellRunTest, ConstantsAreToldApartByTheirBits) {
  CoreTeam team(1, {}, {});
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    CellTrial trial(ConstantsCell(), 3, *table, {.rows = 9});
    trial.Run({4, 2, 7}, team);
    const std::vector<std::vector<float>> left = trial.Left(1);
    const RowValues expected = trial.Expected(1);
    for (size_t c = 0; c < left.size(); ++c) {
      for (size_t u = 0; u < left[c].size(); ++u) {
        const bool integer =
            trial.packed().type().definition->columns()[c].type == ElementType::kInt32;
        const int32_t bits = integer ? static_cast<int32_t>(expected[c][u])
                                     : std::bit_cast<int32_t>(static_cast<float>(expected[c][u]));
        EXPECT_EQ(std::bit_cast<int32_t>(left[c][u]), bits)
            << trial.packed().type().definition->columns()[c].name << " with " << table->name;
      }
    }
  }
}

TEST(CellRunTest, EveryCellAgreesWithTheInterpreter) {
  CoreTeam team(1, {}, {});
  for (const CellDefinition& cell : Cells()) {
    CellTrial trial(cell, 3, Best(), {.rows = 70});
    const std::vector<Row> rows = Shuffled(67, 70);
    trial.Run(rows, team);
    for (int32_t i : {0, 1, 33, 66}) EXPECT_EQ(trial.Disagreement(i), "");
  }
}

TEST(CellRunTest, RandomCellsAgreeWithTheInterpreter) {
  CoreTeam team(1, {}, {});
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    CellTrial trial(testing::RandomCell(seed), seed, Best(), {.rows = 9});
    trial.Run({4, 2, 7}, team);
    EXPECT_EQ(trial.Disagreement(1), "");
  }
}

// What is cut in two elsewhere: other steps, the same cell.
TEST(CellRunTest, ProgramsForASmallerDeviceAgreeWithTheInterpreter) {
  CoreTeam team(1, {}, {});
  const ProgramLimits small = {
      .groups = 2, .segments = 1, .tail_ops = 6, .tail_columns = 3, .scratch_alignment = 16};
  std::vector<CellDefinition> cells = Cells();
  for (uint64_t seed = 1; seed <= 50; ++seed) cells.push_back(testing::RandomCell(seed));
  for (const CellDefinition& cell : cells) {
    CellTrial trial(cell, 3, Best(), {.rows = 9, .limits = small});
    trial.Run({4, 2, 7}, team);
    EXPECT_EQ(trial.Disagreement(1), "");
  }
}

TEST(CellRunTest, EveryKernelTableAgreesWithTheInterpreter) {
  CoreTeam team(1, {}, {});
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    SCOPED_TRACE(table->name);
    for (const CellDefinition& cell : Cells()) {
      CellTrial trial(cell, 5, *table, {.rows = 40});
      trial.Run(Shuffled(9, 40), team);
      EXPECT_EQ(trial.Disagreement(8), "");
    }
  }
}

TEST(CellRunTest, BitsDependOnNeitherCompanyNorPlaceNorCores) {
  CoreTeam one(1, {}, {}), three(3, {}, std::chrono::microseconds(50));
  std::vector<CellDefinition> cells = Cells();
  cells.push_back(testing::LstmCell(130, 260));  // large enough to be split
  for (uint64_t seed = 1; seed <= 20; ++seed) cells.push_back(testing::RandomCell(seed));
  for (const CellDefinition& cell : cells) {
    CellTrial trial(cell, 3, Best(), {.rows = 1200});
    trial.Run({5}, one);
    const std::vector<std::vector<float>> alone = trial.Left(0);
    for (const int32_t n : {7, 64, 300, 1100}) {  // the last takes three chunks
      for (CoreTeam* team : {&one, &three}) {
        for (const int32_t at : {0, n / 2, n - 1}) {
          std::vector<Row> rows = Shuffled(n, 1200);
          rows[static_cast<size_t>(at)] = 5;
          trial.Run(rows, *team);
          const std::vector<std::vector<float>> together = trial.Left(at);
          for (size_t c = 0; c < alone.size(); ++c) {
            ASSERT_EQ(std::memcmp(alone[c].data(), together[c].data(), alone[c].size() * 4), 0)
                << cell.name() << " column " << c << " at " << at << " of " << n;
          }
        }
      }
    }
  }
}

// The best of 3001, with ties by the dozen (`ties`) or without; the same with logits that somebody else reads, too.
CellDefinition BestCell(bool ties, bool keep_logits) {
  testing::CellBuilder b("best");
  const ValueId x = b.Read("x", "x", 16);
  ValueId logits = b.Add(b.Vector("b", 3001), b.MatMul(x, b.Matrix("W", 3001, 16)));
  if (ties)
    logits = b.Op2(OpKind::kMax, b.Constant(-1.0f), b.Sigmoid(b.Mul(logits, b.Constant(80.0f))));
  b.Leave("word", b.Op1(OpKind::kArgMax, logits));
  if (keep_logits) b.Leave("logits", logits);
  return b.Build();
}

TEST(CellRunTest, AnArgMaxWithoutARowOfLogitsChoosesWhatOneWithItDoes) {
  CoreTeam one(1, {}, {}), three(3, {}, std::chrono::microseconds(500));
  constexpr int32_t kNodes = 530;  // two chunks
  const std::vector<Row> rows = Shuffled(kNodes, 700);
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    for (const bool ties : {false, true}) {
      CellTrial with(BestCell(ties, true), 3, *table, {.rows = 700});
      CellTrial without(BestCell(ties, false), 3, *table, {.rows = 700});
      ASSERT_EQ(without.packed().program().scratch_width, 0);
      with.Run(rows, one);
      for (CoreTeam* team : {&one, &three, &three}) {
        without.Run(rows, *team);
        for (Row r = 0; r < kNodes; ++r) {
          ASSERT_EQ(without.Left(r)[0], with.Left(r)[0]) << table->name << " row " << r;
        }
      }
      for (Row r = 0; r < kNodes; r += 100) {
        const std::vector<float> logits = with.Left(r)[1];
        EXPECT_EQ(std::bit_cast<int32_t>(without.Left(r)[0][0]),
                  std::max_element(logits.begin(), logits.end()) - logits.begin());
      }
      if (ties) continue;  // the interpreter's do not fall together
      EXPECT_EQ(without.Disagreement(0), "");
    }
  }
}

// A few panels and sixteen threads: rows are split, too; those of an argmax likewise.
TEST(CellRunTest, FewPanelsAreSplitByRowsAndNoBitDependsOnIt) {
  testing::CellBuilder b("few_panels");
  const ValueId x = b.Read("x", "x", 300);
  const ValueId gate = b.Sigmoid(b.MatMul(x, b.Matrix("W_gate", 100, 300)));
  const ValueId sum = b.Add(b.Vector("b", 100), b.MatMul(x, b.Matrix("W", 100, 300)));
  b.Leave("out", b.Mul(gate, sum));
  b.Leave("word", b.Op1(OpKind::kArgMax, b.MatMul(x, b.Matrix("W_word", 90, 300))));
  const CellDefinition cell = b.Build();
  constexpr int32_t kNodes = 530;  // two chunks
  const std::vector<Row> rows = Shuffled(kNodes, 700);
  CoreTeam one(1, {}, {}), sixteen(16, {}, std::chrono::microseconds(500));
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    CellTrial alone(cell, 3, *table, {.rows = 700}), split(cell, 3, *table, {.rows = 700});
    alone.Run(rows, one);
    split.Run(rows, sixteen);
    for (const Row r : {0, 33, 529}) EXPECT_EQ(split.Disagreement(r), "") << table->name;
    for (Row r = 0; r < kNodes; ++r) {
      const std::vector<std::vector<float>> left = alone.Left(r), there = split.Left(r);
      for (size_t c = 0; c < left.size(); ++c) {
        ASSERT_EQ(std::memcmp(left[c].data(), there[c].data(), left[c].size() * 4), 0)
            << table->name << " column " << c << " of row " << r;
      }
    }
  }
}

// Around the smallest normal number, on both sides of it.
CellDefinition NearlyNothingCell() {
  testing::CellBuilder b("nearly_nothing");
  const ValueId x = b.Read("x", "x", 300);
  const ValueId small = b.Mul(x, b.Constant(2e-38f));
  b.Leave("small", small);
  b.Leave("product", b.MatMul(small, b.Matrix("W", 300, 300)));
  b.Leave("exp", b.Op1(OpKind::kExp, b.Sub(x, b.Constant(87.5f))));
  return b.Build();
}

TEST(CellRunTest, DenormalsAreZerosOnEveryCoreAndWithEveryKernelTable) {
  CoreTeam one(1, {}, {}), three(3, {}, std::chrono::microseconds(500));
  std::vector<float> small;  // one multiplication: the same with every table
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    SCOPED_TRACE(table->name);
    CellTrial alone(NearlyNothingCell(), 3, *table, {.rows = 200});
    CellTrial split(NearlyNothingCell(), 3, *table, {.rows = 200});
    const std::vector<Row> rows = Shuffled(200, 200);
    alone.Run(rows, one);
    split.Run(rows, three);
    int zeros = 0, others = 0;
    for (Row r = 0; r < 200; ++r) {
      const std::vector<std::vector<float>> left = alone.Left(r), there = split.Left(r);
      for (size_t c = 0; c < left.size(); ++c) {
        ASSERT_EQ(std::memcmp(left[c].data(), there[c].data(), left[c].size() * 4), 0) << c;
        for (const float v : left[c]) {
          ASSERT_NE(std::fpclassify(v), FP_SUBNORMAL) << "column " << c;
          ++(v == 0.0f ? zeros : others);
        }
      }
    }
    EXPECT_GT(zeros, 1000);
    EXPECT_GT(others, 1000);
    if (small.empty()) small = alone.Left(7)[0];
    EXPECT_EQ(std::memcmp(small.data(), alone.Left(7)[0].data(), small.size() * 4), 0);
  }
}

TEST(CellRunTest, AFoldedTableHasTheBitsOfThePlainPath) {
  CoreTeam team(1, {}, {});
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    CellTrial plain(testing::TokenLstmCell(200, 300, 35), 3, *table, {.rows = 64});
    CellTrial folded(testing::TokenLstmCell(200, 300, 35), 3, *table, {.rows = 64, .fold = true});
    EXPECT_GT(folded.packed().bytes(), 200 * 35 * 4 * 4);
    const std::vector<Row> rows = Shuffled(50, 64);
    plain.Run(rows, team);
    folded.Run(rows, team);
    for (Row r = 0; r < 50; ++r) EXPECT_EQ(plain.Left(r), folded.Left(r)) << table->name;
    EXPECT_EQ(folded.Disagreement(3), "");
  }
}

// Two tables of one token, of which one is shorter; a word found by what was computed; columns of both types.
CellDefinition LeafCell() {
  testing::CellBuilder b("leaf");
  const ValueId token = b.Slice(b.Read("word", "ids", 3, ElementType::kInt32), 1, 2);
  const ValueId x = b.Lookup(b.Matrix("E", 200, 30), token);
  const ValueId y = b.Lookup(b.Matrix("F", 70, 35), token);
  const ValueId h = b.Tanh(b.Add(b.MatMul(x, b.Matrix("W", 35, 30)), b.Vector("b", 35)));
  const ValueId best = b.Op1(OpKind::kArgMax, b.MatMul(h, b.Matrix("O", 40, 35)));
  b.Leave("h", b.Add(h, y));
  b.Leave("best", best);
  b.Leave("again", b.Lookup(b.Matrix("G", 900, 5), best));
  return b.Build();
}

TEST(CellRunTest, ACellFoldedAsAWholeHasTheBitsOfThePlainPath) {
  CoreTeam one(1, {}, {}), two(2, {}, std::chrono::microseconds(50));
  for (const kernels::CpuKernels* table : kernels::RunnableKernels(DetectCpuFeatures())) {
    CellTrial plain(LeafCell(), 3, *table, {.rows = 64, .words = 300});  // beyond both tables, too
    CellTrial folded(LeafCell(), 3, *table, {.rows = 64, .words = 300, .fold_whole = true});
    EXPECT_EQ(folded.packed().steps().size(), 2u);
    EXPECT_EQ(folded.counted_bytes(), folded.packed().bytes());
    EXPECT_EQ(folded.packed().bytes(), 200 * (48 + 1 + 16) * 4);
    const std::vector<Row> rows = Shuffled(50, 64);
    plain.Run(rows, one);
    folded.Run(rows, two);
    for (Row r = 0; r < 50; ++r) {
      EXPECT_EQ(plain.Left(r), folded.Left(r)) << table->name;
      EXPECT_EQ(folded.Disagreement(r), "");
    }
  }
}

TEST(CellRunTest, AFirstStepFromZerosHasTheBitsOfOneThatMultipliesThem) {
  CoreTeam one(1, {}, {}), two(2, {}, std::chrono::microseconds(50));
  std::vector<CellDefinition> cells = Cells();
  for (uint64_t seed = 1; seed <= 200; ++seed) cells.push_back(testing::RandomCell(seed));
  for (const CellDefinition& cell : cells) {
    const TrialOptions options = {.rows = 40, .zero_row = true};
    CellTrial alone(cell, 3, Best(), options), company(cell, 3, Best(), options);
    alone.Run(std::vector<Row>(5, kZeroRow), one, 1);
    company.Run({kZeroRow, 7, kZeroRow, 9}, two, 1);
    for (const Row node : {0, 2}) {
      const auto skipped = alone.Left(node), multiplied = company.Left(node);
      for (size_t c = 0; c < skipped.size(); ++c) {
        EXPECT_EQ(std::memcmp(skipped[c].data(), multiplied[c].data(), skipped[c].size() * 4), 0)
            << cell.name() << " column " << c;
      }
    }
    EXPECT_EQ(alone.Disagreement(4), "");
  }
}

// Row 0 is said to be zeros and is not: so it shows who read it.
TEST(CellRunTest, WhatIsMultipliedByRowsOfZerosIsSparedWhereTheyAreSaidToBeThat) {
  const CellTrial trial(testing::LstmCell(16, 16), 3, Best(), {.rows = 3});
  CellColumns columns = trial.columns();
  CoreTeam team(1, {}, {});
  std::vector<kernels::ProductScratch> product_scratch(1);
  CellScratch scratch({&trial.packed().program()});
  const Row zeros[2] = {kZeroRow, kZeroRow}, out[2] = {1, 2};
  InputRows inputs[kMaxInputs];
  for (InputRows& input : inputs) input.rows = zeros;
  const auto left = [&](bool said) {
    columns.zero_row = said;
    RunCell(trial.packed(), columns, {2, inputs, out}, scratch, {&team, &product_scratch});
    return trial.LeftValues(1)[0];
  };
  EXPECT_NE(left(true), left(false));
}

// What run_product was asked, by call. (A table's functions carry nothing.)
std::vector<bool> asked_from_last;
void AskedProduct(const kernels::PackedProduct& product, const kernels::ProductArgs& args,
                  int first, int last, kernels::ProductScratch* scratch) {
  asked_from_last.push_back(args.from_last);
  Best().run_product(product, args, first, last, scratch);
}

TEST(CellRunTest, AProductStartsWhereItEndedTheTimeBeforeWhateverRanBetween) {
  kernels::CpuKernels kernels = Best();
  kernels.run_product = AskedProduct;
  const CellTrial lstm(testing::LstmCell(16, 64), 3, kernels, {.rows = 300});
  const CellTrial gru(testing::GruCell(16, 64), 3, kernels, {.rows = 300});
  CoreTeam team(1, {}, {});
  std::vector<kernels::ProductScratch> product_scratch(1);
  CellScratch scratch({&lstm.packed().program(), &gru.packed().program()});
  CellScratch of_another_device({&lstm.packed().program()});
  std::vector<Row> rows(300);
  std::iota(rows.begin(), rows.end(), 0);
  InputRows inputs[kMaxInputs];
  for (InputRows& input : inputs) input.rows = rows.data();
  const auto asked = [&](const CellTrial& cell, int32_t nodes, CellScratch& of_device) {
    asked_from_last.clear();
    RunCell(cell.packed(), cell.columns(), {nodes, inputs, rows.data()}, of_device,
            {&team, &product_scratch});
    return asked_from_last;
  };
  const std::vector<bool> first(asked(gru, 5, scratch).size(), false), last(first.size(), true);
  EXPECT_GE(first.size(), 1u);
  EXPECT_EQ(asked(lstm, 5, scratch), std::vector<bool>{false});
  EXPECT_EQ(asked(lstm, 5, scratch), std::vector<bool>{true});
  EXPECT_EQ(asked(gru, 5, scratch), last);
  EXPECT_EQ(asked(lstm, 5, scratch), std::vector<bool>{false});
  EXPECT_EQ(asked(lstm, 5, of_another_device), std::vector<bool>{false});
  // To the first panel and back: the next run starts at the last again.
  EXPECT_EQ(asked(lstm, kernels::kChunkRows + 1, scratch), std::vector<bool>{true});
  EXPECT_EQ(asked(lstm, 5, scratch), std::vector<bool>{true});
  EXPECT_EQ(asked(lstm, 5, scratch), std::vector<bool>{false});
  EXPECT_EQ(asked(gru, 5, scratch), first);
}

TEST(CellRunTest, WhatPackingAndScratchTakeIsKnownBefore) {
  std::vector<CellDefinition> cells = Cells();
  cells.push_back(FeedBackCell());
  cells.push_back(MatrixCell());
  for (uint64_t seed = 1; seed <= 50; ++seed) cells.push_back(testing::RandomCell(seed));
  for (const CellDefinition& cell : cells) {
    for (const bool fold : {false, true}) {
      const CellTrial trial(cell, 3, Best(), {.rows = 2, .fold = fold});
      EXPECT_EQ(trial.counted_bytes(), trial.packed().bytes()) << cell.name() << fold;
      const std::vector<const CellProgram*> programs = {&trial.packed().program()};
      EXPECT_EQ(CellScratch::BytesFor(programs), CellScratch(programs).bytes()) << cell.name();
    }
  }
}

TEST(CellRunTest, SumsOfNoNodesAreZeros) {
  CoreTeam team(1, {}, {});
  CellTrial trial(testing::ChildSumCell(6, 11), 3, Best(), {.rows = 9});
  trial.Run({4, 5}, team, 0);
  const RowValues expected = trial.Expected(1);
  for (size_t u = 0; u < 11; ++u) EXPECT_NEAR(trial.Left(1)[0][u], expected[0][u], 1e-6);
}

TEST(CellRunTest, TheSelfTestPassesForEveryCell) {
  for (const CellDefinition& cell : Cells()) {
    const CellTrial trial(cell, 3, Best(), {.rows = 2, .fold = true});
    CellScratch scratch({&trial.packed().program()});
    EXPECT_EQ(SelfTest(trial.packed(), scratch), absl::OkStatus());
  }
}

}  // namespace
}  // namespace cellbatch

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

// One operation, whatever it is, and what it may read besides accumulators, each stored: no shape of its own.
TailProgram OperationTail(TailOpKind kind) {
  using K = TailOpKind;
  const bool binary = kind <= K::kMax, divides = kind == K::kDiv;
  const int16_t a = kind == K::kLog ? 2 : 1, b = !binary ? -1 : divides ? 2 : 0;
  return {{{K::kAccumulator, -1, -1, 0},
           {K::kAccumulator, -1, -1, 1},
           {K::kSigmoid, 0},  // what may be divided by, and has a logarithm
           {K::kColumn, -1, -1, 0},
           {K::kParameter, -1, -1, 0},
           {K::kConstant, -1, -1, 0, 0.75f},
           {kind, a, b},
           {K::kStore, 6, -1, 1},
           {K::kStore, 3, -1, 2},
           {K::kStore, 4, -1, 3},
           {K::kStore, 5, -1, 4}},
          5,
          1};
}

// One tail on rows of its own: against double arithmetic, row by row alone, and where rows follow each other. More rows than are
// taken at a time.
class TailCheck {
 public:
  TailCheck(const CpuKernels& kernels, Random& random, const TailProgram& tail, int groups,
            int units, bool compiled)
      : kernels_(kernels),
        product_(random, units, groups, std::vector<int>(groups > 0 ? 1 : 0, 33), tail),
        packed_(product_.spec,
                {kernels.packing.order, compiled ? kernels.packing.tails : TailIsa::kNone}),
        input_(random, 33, kRows + 2, kRows) {
    for (int c = 0; c < tail.num_columns; ++c) {
      blank_.emplace_back(random, units, kRows + 2, kRows);
    }
  }

  std::string Run() {
    std::vector<RandomRows> together = blank_, alone = blank_;
    RunRows(together, 0, kRows);
    for (int r = 0; r < kRows; ++r) RunRows(alone, r, 1);
    for (int r = 0; r < kRows; ++r) {
      std::vector<const float*> before;
      for (const RandomRows& c : blank_) before.push_back(c.Row(r));
      const auto expected = product_.Reference({input_.Row(r)}, before);
      for (size_t c = 0; c < together.size(); ++c) {
        const std::string where = "column " + std::to_string(c) + " of row " + std::to_string(r);
        if (!expected[c].empty() && Excess(expected[c], together[c].Row(r)) > 1.0) return where;
      }
    }
    for (size_t c = 0; c < together.size(); ++c) {
      if (!together[c].OthersUntouched()) return "memory beside its rows was written";
      const size_t bytes = sizeof(float) * together[c].data.size();
      if (std::memcmp(together[c].data.data(), alone[c].data.data(), bytes) == 0) continue;
      return "column " + std::to_string(c) + " of rows alone has other bits than together";
    }
    return RunsInOrder(together);
  }

 private:
  static constexpr int kRows = kTailRowsAtOnce + 3;

  // Rows of columns follow each other, so that a tail may read them where they lie.
  std::string RunsInOrder(const std::vector<RandomRows>& expected) const {
    const int units = packed_.units(),
              stride = units + 5;  // what is beside a row is not a tail's either
    std::vector<std::vector<float>> columns;
    std::vector<RowColumn> bound;
    for (const RandomRows& c : blank_) {
      std::vector<float>& rows = columns.emplace_back(static_cast<size_t>(kRows * stride), 7.0f);
      for (int r = 0; r < kRows; ++r) std::copy_n(c.Row(r), units, rows.data() + r * stride);
    }
    for (std::vector<float>& rows : columns) bound.push_back({rows.data(), stride});
    const RowSource in = input_.source();
    ProductScratch scratch;
    kernels_.run_product(packed_, {kRows, &in, nullptr, bound.data()}, 0, packed_.num_panels(),
                         &scratch);
    for (size_t c = 0; c < columns.size(); ++c) {
      for (int r = 0; r < kRows; ++r) {
        const float* const row = columns[c].data() + r * stride;
        const bool same =
            std::memcmp(row, expected[c].Row(r), sizeof(float) * static_cast<size_t>(units)) == 0;
        const bool beside =
            std::any_of(row + units, row + stride, [](float x) { return x != 7.0f; });
        if (beside) return "memory beside rows that follow each other was written";
        if (!same) {
          return "column " + std::to_string(c) + " has other bits where rows follow each other";
        }
      }
    }
    return "";
  }

  void RunRows(std::vector<RandomRows>& columns, int first, int rows) const {
    RowSource in = input_.source();
    in.rows += first;
    std::vector<RowColumn> bound;
    for (RandomRows& c : columns) {
      bound.push_back(c.column());
      bound.back().rows += first;
    }
    ProductScratch scratch;
    kernels_.run_product(packed_, {rows, &in, nullptr, bound.data()}, 0, packed_.num_panels(),
                         &scratch);
  }

  const CpuKernels& kernels_;
  const RandomProduct product_;
  const PackedProduct packed_;
  const RandomRows input_;
  std::vector<RandomRows> blank_;
};

// Of a product, and of none: then of several panels, of whole blocks and a rest, and of single numbers.
std::string CheckTail(const CpuKernels& kernels, Random& random, const TailProgram& tail,
                      const std::string& name) {
  constexpr int kGroups = 4;
  const auto check = [&](const TailProgram& checked, int groups, int units) -> std::string {
    for (const bool compiled : {true, false}) {
      const std::string wrong = TailCheck(kernels, random, checked, groups, units, compiled).Run();
      if (wrong.empty()) continue;
      return "tail " + name + ", " + std::to_string(groups) + " groups of " +
             std::to_string(units) + " units: " + wrong;
    }
    return "";
  };
  std::string wrong;
  for (const int units : {13, 16, 61}) {
    if (wrong.empty()) wrong = check(tail, kGroups, units);
  }
  for (const int units : {1, 61, 117}) {
    if (wrong.empty()) wrong = check(SumsAsColumns(tail, kGroups), 0, units);
  }
  return wrong;
}

}  // namespace

std::string CheckTails(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  const std::pair<TailProgram, const char*> tails[] = {
      {IdentityTail(), "identity"},
      {StoreAllTail(4), "sums as they are"},
      {UnaryTail(TailOpKind::kSigmoid), "sigmoid"},
      {UnaryTail(TailOpKind::kTanh), "tanh"},
      {UnaryTail(TailOpKind::kRelu), "relu"},
      {GatedCellTail(), "gated cell"},
      {GatedUpdateTail(), "gated update"},
      {WithAnotherStore(GatedCellTail()), "gated cell and another store"},
      {NormalisingTail(), "normalised"},
      {NormalisedSumTail(), "normalised and added to"},
      {ScaledDifferenceTail(), "scaled difference"}};
  std::string wrong;
  for (const auto& [tail, name] : tails) {
    if (wrong.empty()) wrong = CheckTail(kernels, random, tail, name);
  }
  const int first = static_cast<int>(TailOpKind::kAdd), last = static_cast<int>(TailOpKind::kLog);
  for (int kind = first; kind <= last && wrong.empty(); ++kind) {
    wrong = CheckTail(kernels, random, OperationTail(static_cast<TailOpKind>(kind)),
                      "of operation " + std::to_string(kind));
  }
  for (int i = 0; i < 10 && wrong.empty(); ++i) {
    wrong = CheckTail(kernels, random, RandomTail(random, 4, 2, 1), "at random");
  }
  return wrong;
}

}  // namespace cellbatch::kernels

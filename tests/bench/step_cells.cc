#include "tests/bench/step_cells.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/statusor.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/core_team.h"
#include "cells/kernels/cpu/tuning.h"
#include "tests/bench/cpu_slices.h"
#include "tests/bench/report.h"
#include "tests/bench/round_ceilings.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kLinks = 2;  // rows of each input that is a sum

// Of one node: two for each multiply-add of a product.
double ProductFlops(const CellDefinition& cell) {
  double flops = 0;
  for (const Op& op : cell.ops()) {
    if (op.kind != OpKind::kMatMul) continue;
    flops += 2.0 * static_cast<double>(op.shape.size()) * cell.op(op.args[0]).shape.cols;
  }
  return flops;
}

// One cell of one width: compiled, with rows of its own.
class CellStep {
 public:
  CellStep(CellDefinition cell, int most, const kernels::CpuKernels& kernels,
           kernels::Tuning tuning)
      : name_(cell.name()),
        flops_(ProductFlops(cell)),
        rows_(2 * most + 16),
        trial_(std::move(cell), kSeed, kernels, {.rows = rows_, .positive = {"before.n"}}),
        scratch_({&trial_.packed().program()}),
        team_(1, {}, {}) {
    product_scratch_.emplace_back(tuning);
  }

  const std::string& name() const { return name_; }
  double flops() const { return flops_; }

  // Empty, or where the cell disagrees with its definition.
  std::string Disagreement() {
    constexpr int kNodes = 3;
    trial_.Run(kNodes);
    std::string wrong;
    for (int node = 0; node < kNodes && wrong.empty(); ++node) wrong = trial_.Disagreement(node);
    return wrong;
  }

  void Start(int b) {
    std::mt19937_64 random(kSeed);
    std::vector<Row> all(static_cast<size_t>(rows_));
    std::iota(all.begin(), all.end(), 0);
    reads_.clear();
    for (const Input& input : trial_.type().definition->inputs()) {
      const int links = input.arity == Arity::kSum ? kLinks : 1;
      std::shuffle(all.begin(), all.end(), random);
      reads_.emplace_back(all.begin(), all.begin() + links * b);
    }
    offsets_.clear();
    for (int r = 0; r <= b; ++r) offsets_.push_back(r * kLinks);
    std::shuffle(all.begin(), all.end(), random);
    left_.assign(all.begin(), all.begin() + b);
  }

  void Step() {
    InputRows inputs[kMaxInputs];
    for (size_t i = 0; i < reads_.size(); ++i) {
      const bool sums = trial_.type().definition->inputs()[i].arity == Arity::kSum;
      inputs[i] = {reads_[i].data(), sums ? offsets_.data() : nullptr};
    }
    RunCell(trial_.packed(), trial_.columns(),
            {static_cast<int32_t>(left_.size()), inputs, left_.data()}, scratch_,
            {&team_, &product_scratch_});
  }

 private:
  const std::string name_;
  const double flops_;
  const int rows_;
  testing::CellTrial trial_;
  CellScratch scratch_;
  std::vector<kernels::ProductScratch> product_scratch_;
  CoreTeam team_;
  std::vector<std::vector<Row>> reads_;
  std::vector<int32_t> offsets_;
  std::vector<Row> left_;
};

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class CellsBench {
 public:
  CellsBench(const CellsAsked& asked, const kernels::CpuKernels& kernels, kernels::Tuning tuning,
             const std::vector<std::string>& prefixes, Findings& to)
      : asked_(asked),
        kernels_(kernels),
        tuning_(tuning),
        prefixes_(prefixes),
        to_(to),
        ceilings_(kernels.name) {}

  bool Run() {
    to_.Fact(std::string(kernels_.name) + ": ways of streaming weights, by rows",
             kernels::Describe(tuning_));
    for (const int h : asked_.h) {
      const std::vector<std::unique_ptr<CellStep>> cells = Cells(h);
      if (cells.empty()) return false;
      Table table(Head());
      std::vector<std::vector<std::string>> lines;
      for (const auto& cell : cells)
        lines.push_back({cell->name(), Number(cell->flops() * 1e-6, 2)});
      for (const int b : asked_.b) Measure(h, b, cells, lines);
      for (std::vector<std::string>& line : lines) table.Add(std::move(line));
      to_.Text("\nCells, " + std::string(kernels_.name) + ", h = " + std::to_string(h) +
               "; us, and share of peak over lstm's (quartiles); median of rounds\n" +
               table.ToString() + "\n");
    }
    to_.Fact(std::string(kernels_.name) + ": multiply-adds of one core, by round (quartiles)",
             ceilings_.Peaks() + " in registers, " + ceilings_.Feds() + " of a tile in L1");
    return agree_;
  }

 private:
  std::vector<std::string> Head() const {
    std::vector<std::string> head = {"cell", "Mflop a row"};
    for (const int b : asked_.b) {
      const std::string of = "b = " + std::to_string(b);
      head.insert(head.end(), {of + ": us", "of peak", "of lstm"});
    }
    return head;
  }

  // Empty: one of them cannot be had.
  std::vector<std::unique_ptr<CellStep>> Cells(int h) {
    std::vector<std::unique_ptr<CellStep>> cells;
    const int most = *std::max_element(asked_.b.begin(), asked_.b.end());
    const auto add = [&](std::string_view text, const std::string& name) {
      absl::StatusOr<CellDefinition> cell = testing::DefinitionOfWidth(text, name, h);
      if (!cell.ok()) {
        to_.Text("CANNOT: " + name + ": " + std::string(cell.status().message()) + "\n");
        return false;
      }
      cells.push_back(std::make_unique<CellStep>(*std::move(cell), most, kernels_, tuning_));
      const std::string wrong = cells.back()->Disagreement();
      if (!wrong.empty()) to_.Text("WRONG: " + wrong + "\n");
      agree_ = agree_ && wrong.empty();
      if (cells.back()->flops() > 0) return true;
      to_.Text("CANNOT: " + name + " has no product, and so no share of the peak\n");
      return false;
    };
    for (const std::string& name : asked_.shipped) {
      if (!add(testing::ShippedText(name), name)) return {};
    }
    for (const std::string& file : asked_.definitions) {
      const std::optional<std::string> text = ReadFile(file);
      if (!text.has_value()) to_.Text("CANNOT: there is no file " + file + "\n");
      if (!text.has_value() || !add(*text, file)) return {};
    }
    return cells;
  }

  void Measure(int h, int b, const std::vector<std::unique_ptr<CellStep>>& cells,
               std::vector<std::vector<std::string>>& lines) {
    std::vector<std::vector<double>> us(cells.size()), of_lstm(cells.size()), of_peak(cells.size());
    for (const auto& cell : cells) cell->Start(b);
    for (int round = 0; round < asked_.rounds; ++round) {
      ceilings_.Begin();
      double lstm = 0.0;  // flops a microsecond
      for (size_t i = 0; i < cells.size(); ++i) {
        us[i].push_back(MedianOfSlice([&] { cells[i]->Step(); }, asked_.slice_ms));
        const double rate = cells[i]->flops() / us[i].back();
        if (i == 0) lstm = rate;
        of_lstm[i].push_back(rate / lstm);
      }
      ceilings_.End();
      for (size_t i = 0; i < cells.size(); ++i) {
        of_peak[i].push_back(b * cells[i]->flops() / (us[i].back() * 1e-6) / ceilings_.peak());
      }
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      const Quartiles time = QuartilesOf(us[i]), ratio = QuartilesOf(of_lstm[i]);
      const Quartiles share = QuartilesOf(of_peak[i]);
      const std::string name =
          cells[i]->name() + ".h" + std::to_string(h) + "_b" + std::to_string(b) + ".";
      for (const std::string& prefix : prefixes_) {
        to_.Figure(prefix + name + "us", time.median, "us", &time);
        to_.Figure(prefix + name + "of_peak", share.median, "x", &share);
        to_.Figure(prefix + name + "of_lstm", ratio.median, "x", &ratio);
      }
      lines[i].insert(lines[i].end(),
                      {Number(time.median, 1), Number(share.median, 2), Number(ratio, 2)});
    }
  }

  const CellsAsked& asked_;
  const kernels::CpuKernels& kernels_;
  const kernels::Tuning tuning_;
  const std::vector<std::string>& prefixes_;
  Findings& to_;
  RoundCeilings ceilings_;
  bool agree_ = true;
};

}  // namespace

const std::vector<std::string>& CellsOfTheZoo() {
  static const std::vector<std::string> kCells = {"lstm",
                                                  "gru",
                                                  "gru_v1",
                                                  "lstmp",
                                                  "mingru",
                                                  "slstm",
                                                  "lstm_layernorm",
                                                  "nmt_encoder_lstm",
                                                  "treelstm_internal",
                                                  "treelstm_childsum",
                                                  "treegru_internal"};
  return kCells;
}

bool MeasureCells(const CellsAsked& asked, const kernels::CpuKernels& kernels,
                  kernels::Tuning tuning, const std::vector<std::string>& prefixes, Findings& to) {
  return CellsBench(asked, kernels, tuning, prefixes, to).Run();
}

}  // namespace cellbatch

#include "tests/bench/batched_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/batched/batched_cell.h"
#include "cells/batched/plan_batched.h"
#include "cells/check.h"
#include "cells/compile/lower.h"
#include "cells/device/cpu/cell_rows.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/blas/openblas.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "tests/testing/builders.h"
#include "tests/testing/table2.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 15;
constexpr double kRoundMicroseconds = 2000.0;
// Sums of the two executors run in other orders, so that they agree to some roundings of values of order one.
constexpr float kAgreement = 1e-4f;

struct Setting {
  int32_t units, nodes;
};
constexpr Setting kSettings[] = {{64, 8}, {64, 64}, {256, 8}, {256, 64}};

struct NamedLayout {
  const char* name;
  BatchedLayout layout;
  bool vendor = true;  // whose products
};
constexpr NamedLayout kLayouts[] = {{"naive", BatchedLayout::kNaive},
                                    {"naive_packed", BatchedLayout::kNaivePacked},
                                    {"planned", BatchedLayout::kPlanned},
                                    {"full", BatchedLayout::kFull},
                                    {"naive_own", BatchedLayout::kNaive, false},
                                    {"planned_own", BatchedLayout::kPlanned, false}};

struct Contestant {
  std::string name;
  std::function<void(const NodeLists&)> run;
  int runs = 1;  // a round
  std::vector<double> microseconds = {};
};

double Microseconds(const Contestant& contestant, const NodeLists& nodes) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < contestant.runs; ++i) contestant.run(nodes);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return took.count() / contestant.runs;
}

// One cell at one setting: rows as a task that found them in order would have them, and all that runs on them.
class Contest {
 public:
  Contest(const testing::Table2Cell& cell, Setting setting, const kernels::OpenBlas& blas)
      : nodes_(setting.nodes),
        rows_(cell.definition, setting.nodes, setting.nodes),
        team_(1, {}, {}),
        product_scratch_(1) {
    type_.name = cell.name;
    type_.weights = testing::RandomWeights(cell.definition, 7);
    type_.definition = std::make_shared<const CellDefinition>(cell.definition);
    Fill();
    for (const NamedLayout& layout : kLayouts) AddBatched(cell, layout, blas);
    AddFused();
  }

  // Medians by contestant, who take turns.
  std::vector<Contestant> Run() {
    CellRows::Reads reads(type_.definition->inputs().size());
    std::vector<Row> out;
    for (Row row = 0; row < nodes_; ++row) {
      for (auto& input : reads) input.push_back({row});
      out.push_back(row);
    }
    rows_.WithLists(*type_.definition, reads, out, [&](const NodeLists& nodes) { Measure(nodes); });
    return std::move(contestants_);
  }

 private:
  void Fill();
  void AddBatched(const testing::Table2Cell& cell, const NamedLayout& layout,
                  const kernels::OpenBlas& blas);
  void AddFused();
  void Measure(const NodeLists& nodes);
  std::vector<float> LeftAll() const;

  const int32_t nodes_;
  CellType type_;
  CellRows rows_;
  CoreTeam team_;
  std::vector<kernels::ProductScratch> product_scratch_;
  std::vector<Contestant> contestants_;
};

void Contest::Fill() {
  uint64_t seed = 11;
  for (const auto& columns : rows_.columns().inputs) {
    for (const ColumnArray& column : columns) {
      const std::vector<float> values =
          testing::RandomFloats(int64_t{nodes_} * column.width, ++seed);
      for (Row r = 0; r < nodes_; ++r) {
        std::copy_n(values.data() + int64_t{r} * column.width, column.width, column.At(r));
      }
    }
  }
}

void Contest::AddBatched(const testing::Table2Cell& cell, const NamedLayout& layout,
                         const kernels::OpenBlas& blas) {
  absl::StatusOr<BatchedPlan> plan =
      PlanBatched(cell.definition, layout.layout, nodes_, cell.placed);
  Check(plan.ok(), plan.status().ToString());
  const auto batched = std::make_shared<const BatchedCell>(
      type_, std::move(plan->program), kernels::BestKernels(DetectCpuFeatures()),
      layout.vendor ? std::optional(blas) : std::nullopt);
  const auto scratch = std::make_shared<BatchedScratch>(batched->program(), nodes_);
  contestants_.push_back({layout.name, [this, batched, scratch](const NodeLists& nodes) {
                            RunBatched(*batched, rows_.columns(), nodes, *scratch);
                          }});
}

void Contest::AddFused() {
  absl::StatusOr<CellProgram> program = Lower(*type_.definition, kCpuLimits);
  Check(program.ok(), program.status().ToString());
  const auto packed = std::make_shared<const PackedCell>(type_, *std::move(program), CellFolds(),
                                                         kernels::BestKernels(DetectCpuFeatures()));
  const auto scratch =
      std::make_shared<CellScratch>(std::vector<const CellProgram*>{&packed->program()});
  contestants_.push_back(
      {"fused", [this, packed, scratch](const NodeLists& nodes) {
         RunCell(*packed, rows_.columns(), nodes, *scratch, {&team_, &product_scratch_});
       }});
}

std::vector<float> Contest::LeftAll() const {
  std::vector<float> all;
  for (Row r = 0; r < nodes_; ++r) {
    for (const std::vector<float>& column : rows_.Left(r)) {
      all.insert(all.end(), column.begin(), column.end());
    }
  }
  return all;
}

void Contest::Measure(const NodeLists& nodes) {
  std::vector<float> first;
  for (Contestant& c : contestants_) {
    c.run(nodes);
    const std::vector<float> left = LeftAll();
    if (first.empty()) first = left;
    for (size_t i = 0; i < left.size(); ++i) {
      Check(std::abs(left[i] - first[i]) <= kAgreement, "executors agree: " + type_.name);
    }
    c.runs = std::max(1, static_cast<int>(kRoundMicroseconds / Microseconds(c, nodes)));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Contestant& c : contestants_) c.microseconds.push_back(Microseconds(c, nodes));
  }
}

void AddRow(const std::string& name, Setting setting, std::vector<Contestant> contestants,
            Table& table, Report& report) {
  const std::string at = "h" + std::to_string(setting.units) + "_b" + std::to_string(setting.nodes);
  std::vector<std::string> row = {name, at};
  std::map<std::string, double> medians;
  for (Contestant& c : contestants) {
    const Quartiles us = QuartilesOf(std::move(c.microseconds));
    row.push_back(Number(us, 1));
    medians[c.name] = us.median;
    // The paper's setting has the plain name.
    const bool papers = setting.units == 64 && setting.nodes == 8;
    const std::string where = papers ? "" : "." + at;
    report.Figure("memplan." + name + where + "." + c.name + ".us", us.median, "us", &us);
  }
  const auto times = [&](const char* slower, const char* faster) {
    row.push_back(Number(medians[slower] / medians[faster], 2));
  };
  times("naive", "planned");
  times("naive_own", "planned_own");
  times("planned", "fused");
  times("planned_own", "fused");
  table.Add(std::move(row));
}

}  // namespace

void BatchedTimeFigures(Report& report) {
  const absl::StatusOr<kernels::OpenBlas> blas = kernels::OpenBlas::Load();
  Check(blas.ok(), blas.status().ToString());
  report.Fact("products of the batched executor", blas->name());
  Table table({"cell", "at", "naive, us", "packed", "planned", "full", "naive, own", "planned, own",
               "fused", "naive/planned", "own", "planned/fused", "own"});
  for (const Setting setting : kSettings) {
    for (const testing::Table2Cell& cell : testing::Table2(setting.units, setting.nodes)) {
      AddRow(cell.name, setting, Contest(cell, setting, *blas).Run(), table, report);
    }
  }
  report.Text(
      "Wall time of a task, one core. naive: weights copied in every task, as the paper counts it; "
      "packed: the same layout,\nweights stacked at load; full: inputs in the plan, too; own: "
      "products by our kernels instead of the library's.\nRows lie as the cell reads them.\n" +
      table.ToString());
}

}  // namespace cellbatch

// Rows of a node's columns side by side, against an array for each column: the time of a task, rows near and scattered
//
//   rows.CELL.hH.bB.{near,scattered}.speedup    time with arrays of their own ÷ time side by side, of the same task
//
// The same packed cell runs over both, in turns, on one core: only where rows lie differs. Near: rows of a few thousand nodes,
// one behind the other; scattered: any of some tens of thousands, as when requests of all ages share a table.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/core_team.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/device/cpu/mapped_memory.h"
#include "cells/device/table_rows.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 7;
constexpr uint64_t kSeed = 1;
constexpr int32_t kNear = 4096;
constexpr double kSliceMultiplyAdds = 4e8;  // of one round

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Tables of a cell: what each input reads, and what nodes leave; every row holds numbers.
class Tables {
 public:
  Tables(const CellDefinition& cell, int32_t rows, bool side_by_side)
      : rows_(rows), side_by_side_(side_by_side) {
    for (const Input& input : cell.inputs()) columns_.inputs.push_back(Make(input.reads));
    const absl::Span<const Column> left = cell.columns();
    columns_.outputs = Make({left.begin(), left.end()});
  }
  const CellColumns& columns() const { return columns_; }

 private:
  std::vector<ColumnArray> Make(const std::vector<Column>& columns) {
    std::vector<ColumnArray> made(columns.size());
    if (!side_by_side_) {
      for (size_t c = 0; c < columns.size(); ++c) made[c] = Place({columns[c]}, {0})[0];
      return made;
    }
    std::vector<int32_t> order;
    for (size_t c = 0; c < columns.size(); ++c) order.push_back(static_cast<int32_t>(c));
    return Place(columns, order);
  }
  std::vector<ColumnArray> Place(const std::vector<Column>& columns,
                                 const std::vector<int32_t>& order) {
    const TableRows laid = LayTable({"table", columns}, order);
    const int64_t elements = laid.strides[0] * rows_;
    memory_.push_back(Require(MappedMemory::Map(elements * 4), "rows"));
    auto* const base = reinterpret_cast<float*>(memory_.back().data());
    std::fill_n(base, elements, 0.01f);
    std::vector<ColumnArray> made;
    for (size_t c = 0; c < columns.size(); ++c) {
      made.push_back(
          {base + laid.columns[c].offset, laid.strides[0], columns[c].width, columns[c].type});
    }
    return made;
  }

  const int32_t rows_;
  const bool side_by_side_;
  std::vector<MappedMemory> memory_;
  CellColumns columns_;
};

// Rows of many tasks: by task, by input (the last: output), by node.
using Tasks = std::vector<std::vector<std::vector<Row>>>;

Tasks Draw(size_t inputs, int b, int tasks, int32_t rows, bool scattered) {
  std::mt19937_64 random(kSeed);
  std::vector<Row> any(static_cast<size_t>(rows - 1));
  for (size_t i = 0; i < any.size(); ++i) any[i] = static_cast<Row>(i + 1);
  if (scattered) std::shuffle(any.begin(), any.end(), random);
  const size_t of = scattered ? any.size() : kNear;
  Tasks drawn(static_cast<size_t>(tasks), std::vector<std::vector<Row>>(inputs + 1));
  size_t at = 0;
  for (auto& task : drawn) {
    for (auto& list : task) {
      for (int n = 0; n < b; ++n) list.push_back(any[at++ % of]);
    }
  }
  return drawn;
}

class Runs {
 public:
  Runs(const std::string& name, int32_t h)
      : cell_(testing::ShippedDefinition(name, {{"D", h}, {"H", h}})),
        rows_(h < 512 ? 60'000 : 20'000),
        model_(testing::OneCellModel(cell_)),
        packed_(model_->types[0], Require(Lower(cell_, kCpuLimits), name), {},
                kernels::BestKernels(DetectCpuFeatures())),
        scratch_({&packed_.program()}),
        apart_(cell_, rows_, false),
        together_(cell_, rows_, true) {}

  Quartiles Speedup(int b, bool scattered) {
    const auto tasks = static_cast<int>(
        std::max(10.0, kSliceMultiplyAdds / (static_cast<double>(cell_.flops()) / 2 * b)));
    const Tasks drawn = Draw(cell_.inputs().size(), b, tasks, rows_, scattered);
    std::vector<double> speedup;
    for (int round = -1; round < kRounds; ++round) {
      const double apart = Run(apart_, drawn), together = Run(together_, drawn);
      if (round >= 0) speedup.push_back(apart / together);
    }
    return QuartilesOf(speedup);
  }

 private:
  double Run(const Tables& tables, const Tasks& tasks) {
    const double start = NowUs();
    for (const auto& task : tasks) {
      std::vector<InputRows> inputs(task.size() - 1);
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i].rows = task[i].data();
      const auto nodes = static_cast<int32_t>(task.back().size());
      RunCell(packed_, tables.columns(), {nodes, inputs.data(), task.back().data()}, scratch_,
              {&team_, &product_scratch_});
    }
    return NowUs() - start;
  }

  const CellDefinition cell_;
  const int32_t rows_;
  const std::shared_ptr<Model> model_;
  const PackedCell packed_;
  CellScratch scratch_;
  CoreTeam team_{1, {}, {}};
  std::vector<kernels::ProductScratch> product_scratch_{1};
  const Tables apart_, together_;
};

int Main(int argc, char** argv) {
  const std::string json = JsonArgument("rows", argc, argv);
  Report report("rows");
  Table table({"cell", "h", "b", "near", "scattered"});
  for (const std::string name : {"lstm", "treelstm_internal"}) {
    for (const int32_t h : {64, 256, 1024}) {
      Runs runs(name, h);
      for (const int b : {1, 4, 16, 64}) {
        const Quartiles near = runs.Speedup(b, false), scattered = runs.Speedup(b, true);
        table.Add(
            {name, std::to_string(h), std::to_string(b), Number(near, 2), Number(scattered, 2)});
        const std::string figure =
            "rows." + name + ".h" + std::to_string(h) + ".b" + std::to_string(b);
        report.Figure(figure + ".near.speedup", near.median, "x", &near);
        report.Figure(figure + ".scattered.speedup", scattered.median, "x", &scattered);
      }
    }
  }
  report.Text("Time of a task with an array a column over that with columns side by side.\n" +
              table.ToString());
  return report.Finish(json) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }

// Memory copies inside a cell, naive against planned (ED-Batch's Table 2), their times, and how planning scales
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "memplan/cost_report.h"
#include "memplan/naive_layout.h"
#include "memplan/operator_batcher.h"
#include "memplan/pq_tree.h"
#include "memplan/validator.h"
#include "tests/bench/batched_times.h"
#include "tests/bench/planned_cells.h"
#include "tests/bench/planned_load.h"
#include "tests/bench/report.h"
#include "tests/bench/thread_time.h"
#include "tests/testing/table2.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 21;
constexpr uint64_t kSeed = 3;

double Kilobytes(int64_t bytes) { return static_cast<double>(bytes) / 1024.0; }

void Die(const std::string& what) {
  std::cerr << "memplan: " << what << "\n";
  std::exit(1);
}

// Batches and plans the cell; the validator must agree.
CostReport Planned(const LayoutProblem& graph, std::vector<double>& milliseconds,
                   LayoutProblem* batches) {
  const double start = ThreadMilliseconds();
  const auto batched = BatchOperators(graph);
  milliseconds.push_back(ThreadMilliseconds() - start);
  if (!batched.ok()) Die(std::string(batched.status().message()));
  const absl::Status verdict = Validate(batched->problem, batched->layout);
  if (!verdict.ok()) Die(std::string(verdict.message()));
  if (batches != nullptr) *batches = batched->problem;
  return Cost(batched->problem, batched->layout);
}

std::string CopyText(int kernels, int64_t bytes) {
  return std::to_string(kernels) + " / " + Number(Kilobytes(bytes), 1);
}

void CellFigures(const testing::Table2Cell& cell, Table& table, Report& report) {
  std::vector<double> planned_ms, full_ms;
  LayoutProblem batches;
  CostReport planned, full;
  for (int round = 0; round < kRounds; ++round) {
    planned = Planned(cell.graph, planned_ms, &batches);
    full = Planned(InFull(cell.graph), full_ms, nullptr);
  }
  const CostReport naive = Cost(batches, *NaiveLayout(batches));
  const Quartiles in_paper = QuartilesOf(planned_ms), in_full = QuartilesOf(full_ms);
  const Quartiles& slower = in_paper.median > in_full.median ? in_paper : in_full;
  table.Add({cell.name, std::to_string(cell.graph.batches.size()),
             std::to_string(planned.num_batches), CopyText(naive.kernels(), naive.bytes()),
             CopyText(planned.kernels(), planned.bytes()),
             CopyText(planned.input_gathers, planned.input_bytes),
             CopyText(full.kernels(), full.bytes()), CopyText(full.input_gathers, full.input_bytes),
             std::to_string(full.launches), Number(slower, 2)});
  const std::string name = "memplan." + cell.name;
  const auto figures = [&](const std::string& setting, const CostReport& cost) {
    report.Figure(name + "." + setting + ".kernels", cost.kernels(), "copies");
    report.Figure(name + "." + setting + ".bytes", Kilobytes(cost.bytes()), "kB");
  };
  figures("naive", naive);
  figures("planned", planned);
  figures("full", full);
  report.Figure(name + ".full.input_gathers", full.input_gathers, "copies");
  report.Figure(name + ".plan_ms", slower.median, "ms", &slower);
}

// Reduces n leaves by n intervals of a hidden order, eight long at most; ns per leaf of all sets together.
double ReduceNanoseconds(int n, std::mt19937_64& random) {
  std::vector<int> hidden(n);
  std::iota(hidden.begin(), hidden.end(), 0);
  std::shuffle(hidden.begin(), hidden.end(), random);
  std::vector<std::vector<int>> sets;
  size_t entries = 0;
  for (int i = 0; i < n; ++i) {
    const size_t begin = random() % n, end = std::min<size_t>(n, begin + 2 + random() % 7);
    sets.emplace_back(hidden.begin() + begin, hidden.begin() + end);
    entries += end - begin;
  }
  PqTree tree(n);
  const double start = ThreadMilliseconds();
  for (const std::vector<int>& set : sets) {
    if (!tree.Reduce(set)) Die("a true interval was refused");
  }
  return (ThreadMilliseconds() - start) * 1e6 / static_cast<double>(entries);
}

// So many LSTM cells side by side as one problem; ns per variable.
double PlanNanoseconds(const LayoutProblem& cell, int copies) {
  LayoutProblem all;
  all.broadcasts = cell.broadcasts;
  for (int i = 0; i < copies; ++i) {
    const VariableId base = static_cast<VariableId>(all.variables.size());
    all.variables.insert(all.variables.end(), cell.variables.begin(), cell.variables.end());
    for (OperandBatch batch : cell.batches) {
      for (Operand& operand : batch.operands) {
        for (VariableId& v : operand) v += base;
      }
      all.batches.push_back(std::move(batch));
    }
  }
  const double start = ThreadMilliseconds();
  const auto layout = Plan(all);
  const double nanoseconds = (ThreadMilliseconds() - start) * 1e6;
  if (!layout.ok() || !layout->copies.empty())
    Die("cells side by side were not planned without copies");
  return nanoseconds / static_cast<double>(all.variables.size());
}

void ScalingFigures(Report& report) {
  Table table({"variables", "Reduce, ns/entry", "Plan, ns/variable"});
  std::mt19937_64 random(kSeed);
  LayoutProblem lstm;
  for (const testing::Table2Cell& cell : testing::Table2()) {
    if (cell.name == "lstm") lstm = BatchOperators(InFull(cell.graph))->problem;
  }
  std::vector<double> reduce_small, reduce_large, plan_small, plan_large;
  for (int n : {100, 1'000, 10'000, 100'000}) {
    std::vector<double> reduce, plan;
    for (int round = 0; round < 5; ++round) {
      reduce.push_back(ReduceNanoseconds(n, random));
      plan.push_back(
          PlanNanoseconds(lstm, std::max<int>(1, n / static_cast<int>(lstm.variables.size()))));
    }
    table.Add({std::to_string(n), Number(QuartilesOf(reduce), 0), Number(QuartilesOf(plan), 0)});
    if (n == 1'000) reduce_small = reduce, plan_small = plan;
    if (n == 100'000) reduce_large = reduce, plan_large = plan;
  }
  report.Text(table.ToString());
  const auto median = [](const std::vector<double>& samples) {
    return QuartilesOf(samples).median;
  };
  report.Figure("memplan.reduce_ns", median(reduce_large), "ns");
  report.Figure("memplan.reduce_growth", median(reduce_large) / median(reduce_small), "x");
  report.Figure("memplan.plan_growth", median(plan_large) / median(plan_small), "x");
}

int Main(int argc, char** argv) {
  const std::string json = JsonArgument("memplan", argc, argv);
  Report report("memplan");
  report.Text(
      "h = 64, 8 instances, fp32; copies / kB. planned: the paper's setting (inputs where they "
      "arrive, but the LSTM's c;\n"
      "broadcasts copied). full: inputs in the plan, broadcasts by stride; `inputs` are the copies "
      "that bring them there.\n"
      "naive: declaration order, weights copied each time. ms: batching and planning together, the "
      "slower setting.\n");
  Table table({"cell", "operators", "batches", "naive", "planned", "its inputs", "full",
               "its inputs", "its launches", "ms"});
  for (const testing::Table2Cell& cell : testing::Table2()) CellFigures(cell, table, report);
  report.Text(table.ToString());
  BatchedTimeFigures(report);
  PlannedCellFigures(report);
  PlannedLoadFigures(report);
  ScalingFigures(report);
  return report.Finish(json) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }

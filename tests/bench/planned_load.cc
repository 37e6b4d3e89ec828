#include "tests/bench/planned_load.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cells/check.h"
#include "cells/compile/apply_plan.h"
#include "cells/compile/plan_cell.h"
#include "cells/compile/skeleton.h"
#include "cells/device/cpu/cpu_limits.h"
#include "server/repository/model_loader.h"
#include "tests/bench/in_process.h"
#include "tests/bench/stepped.h"
#include "tests/bench/thread_time.h"
#include "tests/zoo/workload.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 21;
constexpr int64_t kHidden = 64;  // the smaller the cells, the more planning counts
constexpr int32_t kRows = 64;

// From its folder into `memory`, till it could be warmed.
double LoadMilliseconds(Memory& memory, const std::string& folder, const std::string& name) {
  const double start = ThreadMilliseconds();
  const auto model = Require(LoadModel(folder, name, 1, ModelId(0), {}), "reading " + name);
  RowBudget rows;
  rows.rows.assign(model->tables.size(), kRows);
  const auto loaded = memory.Load(*model, rows);
  const double took = ThreadMilliseconds() - start;
  Require(loaded.status(), "loading " + name);
  return took;
}

// Of all cell types: the plan, and the program written by it.
double PlanMilliseconds(const std::vector<CellSkeleton>& skeletons,
                        CellPlan (*plan)(const CellSkeleton&)) {
  const double start = ThreadMilliseconds();
  for (const CellSkeleton& skeleton : skeletons) {
    const CellProgram program = ApplyPlan(skeleton, plan(skeleton), kCpuLimits);
    Check(program.steps.size() == skeleton.steps.size(), "a plan adds no step");
  }
  return ThreadMilliseconds() - start;
}

}  // namespace

void PlannedLoadFigures(Report& report) {
  DeviceSet devices = MakeDevices("cpu:0");
  Table table(
      {"model", "cell types", "planned", "load, ms", "planning", "without", "load / without"});
  for (const std::string_view name : zoo::WorkloadNames()) {
    const zoo::Workload workload = zoo::MakeWorkload(name, zoo::Sizes::Benchmark(kHidden), 1);
    const WorkloadFolder folder(workload);
    const std::shared_ptr<const Model> model = Require(
        LoadModel(folder.model(), workload.name, 1, ModelId(0), {}), "reading " + workload.name);
    std::vector<CellSkeleton> skeletons;
    std::set<const CellDefinition*> known;  // a load plans each once, too
    for (const CellType& type : model->types) {
      if (!known.insert(type.definition.get()).second) continue;
      skeletons.push_back(Require(MakeSkeleton(*type.definition, kCpuLimits), type.name));
    }
    std::vector<double> planned, declared, planning, asked_nobody, ratios;
    for (int round = 0; round < kRounds; ++round) {
      planned.push_back(LoadMilliseconds(*devices.memories.front(), folder.model(), workload.name));
      planning.push_back(PlanMilliseconds(skeletons, PlanCell));
      asked_nobody.push_back(PlanMilliseconds(skeletons, DeclaredPlan));
      declared.push_back(planned.back() - (planning.back() - asked_nobody.back()));
      ratios.push_back(planned.back() / declared.back());
    }
    const Quartiles load = QuartilesOf(planned), without = QuartilesOf(declared);
    const Quartiles ratio = QuartilesOf(ratios);
    table.Add({std::string(name), std::to_string(model->types.size()),
               std::to_string(skeletons.size()), Number(load, 2), Number(QuartilesOf(planning), 2),
               Number(QuartilesOf(asked_nobody), 2), Number(ratio, 3)});
    const std::string figure = "memplan.load." + std::string(name);
    report.Figure(figure + ".planned.ms", load.median, "ms", &load);
    report.Figure(figure + ".declared.ms", without.median, "ms", &without);
    report.Figure(figure + ".load_ratio", ratio.median, "x", &ratio);
  }
  report.Text(
      "Loads of the zoo's models, widths of 64, from their folders, with plans and without.\n" +
      table.ToString());
}

}  // namespace cellbatch

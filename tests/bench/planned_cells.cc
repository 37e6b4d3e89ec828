#include "tests/bench/planned_cells.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cells/check.h"
#include "cells/compile/apply_plan.h"
#include "cells/compile/plan_cell.h"
#include "cells/compile/skeleton.h"
#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_limits.h"
#include "tests/bench/thread_time.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 21;
constexpr int32_t kUnits = 64;
constexpr int kMostGrus = 25;  // 499 operators

const Sizes kSizes = {{"D", 64}, {"H", 64}, {"V", 1000}, {"C", 64}, {"F", 64}, {"B", 64},
                      {"L", 64}, {"M", 64}, {"P", 64},   {"S", 64}, {"BOS", 1}};

// Values that some step stores and another reads.
std::set<int32_t> Spills(const CellSkeleton& skeleton) {
  std::set<int32_t> values;
  for (const Step& step : skeleton.steps) {
    ForEachPlace(step, skeleton.lookups, [&](const Place& place) {
      if (place.kind == PlaceKind::kScratch) values.insert(place.index);
    });
  }
  return values;
}

// A place of its own for each, as it was before there was a plan.
int64_t UnsharedElements(const CellSkeleton& skeleton) {
  int64_t elements = 0;
  for (const int32_t value : Spills(skeleton)) {
    const int64_t alignment = kCpuLimits.scratch_alignment;
    const int64_t own = skeleton.scratch[static_cast<size_t>(value)];
    elements += (own + alignment - 1) / alignment * alignment;
  }
  return elements;
}

int SegmentsOf(const std::vector<Step>& steps) {
  int segments = 0;
  for (const Step& step : steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    if (product != nullptr) segments += static_cast<int>(product->segments.size());
  }
  return segments;
}

// Of planning and of writing the program.
Quartiles PlanMilliseconds(const CellSkeleton& skeleton) {
  std::vector<double> milliseconds;
  for (int round = 0; round < kRounds; ++round) {
    const double start = ThreadMilliseconds();
    const CellProgram program = ApplyPlan(skeleton, PlanCell(skeleton), kCpuLimits);
    milliseconds.push_back(ThreadMilliseconds() - start);
    Check(program.steps.size() == skeleton.steps.size(), "a plan adds no step");
  }
  return QuartilesOf(milliseconds);
}

}  // namespace

void PlannedCellFigures(Report& report) {
  Table table({"cell", "steps", "spills", "scratch, bytes", "shared", "segments", "merged", "ms"});
  for (const ShippedCell& shipped : ShippedCells()) {
    const absl::StatusOr<CellSkeleton> skeleton =
        MakeSkeleton(testing::ShippedDefinition(shipped.name, kSizes), kCpuLimits);
    Check(skeleton.ok(), skeleton.status().ToString());
    const CellProgram program = ApplyPlan(*skeleton, PlanCell(*skeleton), kCpuLimits);
    const Quartiles plan_ms = PlanMilliseconds(*skeleton);
    const auto steps = static_cast<int>(program.steps.size());
    const auto spills = static_cast<int>(Spills(*skeleton).size());
    const int64_t before = UnsharedElements(*skeleton) * 4, after = program.scratch_width * 4;
    table.Add({std::string(shipped.name), std::to_string(steps), std::to_string(spills),
               std::to_string(before), std::to_string(after),
               std::to_string(SegmentsOf(skeleton->steps)),
               std::to_string(SegmentsOf(program.steps)), Number(plan_ms, 2)});
    const std::string name = "memplan.compiled." + std::string(shipped.name);
    report.Figure(name + ".steps", steps, "steps");
    report.Figure(name + ".spills", spills, "values");
    report.Figure(name + ".scratch_unshared", static_cast<double>(before), "bytes");
    report.Figure(name + ".scratch", static_cast<double>(after), "bytes");
    report.Figure(name + ".plan_ms", plan_ms.median, "ms", &plan_ms);
  }
  report.Text("Shipped cells as the compiler plans them, widths of 64; scratch of one node.\n" +
              table.ToString());
  const absl::StatusOr<CellSkeleton> most =
      MakeSkeleton(testing::GrusSideBySide(kUnits, kMostGrus, /*alike=*/false), kCpuLimits);
  Check(most.ok(), most.status().ToString());
  const Quartiles plan_ms = PlanMilliseconds(*most);
  report.Text("A cell of nearly the most operators, 25 GRUs of different widths: planned in " +
              Number(plan_ms, 2) + " ms.\n");
  report.Figure("memplan.compiled.most_operators.plan_ms", plan_ms.median, "ms", &plan_ms);
}

}  // namespace cellbatch

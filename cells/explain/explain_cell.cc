#include "cells/explain/explain_cell.h"

#include <utility>
#include <variant>

#include "cells/compile/apply_plan.h"
#include "cells/compile/operator_problem.h"
#include "cells/compile/plan_cell.h"
#include "cells/compile/skeleton.h"
#include "cells/explain/equations.h"
#include "cells/explain/plan_names.h"
#include "memplan/cost_report.h"
#include "memplan/draw.h"
#include "memplan/naive_layout.h"
#include "memplan/operator_batcher.h"

namespace cellbatch {
namespace {

// For a picture, not for what is served: a cell of hundreds of operators is batched well enough by a short search.
constexpr BatchOptions kShortSearch = {
    .max_states = 2000,
    .max_plans = 4,
    .plan = {.max_checks = kMaxPlanChecks, .max_work = 4 * kMaxPlanWork}};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TaskCopies Of(const CostReport& cost) { return {cost.launches, cost.kernels(), cost.bytes()}; }

// Plain copies are all that a program moves: its other steps compute.
TaskCopies OfProgram(const CellProgram& program, int nodes) {
  TaskCopies task;
  for (const Step& step : program.steps) {
    const auto* const plain = std::get_if<PlainStep>(&step);
    if (plain == nullptr || plain->kind != PlainKind::kCopy) {
      ++task.launches;
      continue;
    }
    ++task.copies;
    task.bytes += plain->shape.size() * 4 * nodes;
  }
  return task;
}

absl::StatusOr<ComparedCopies> Compare(const CellDefinition& cell, const CellProgram& program,
                                       int nodes, int& operators) {
  const absl::StatusOr<LayoutProblem> graph = OperatorProblem(cell, nodes, {});
  if (!graph.ok()) return graph.status();
  operators = static_cast<int>(graph->batches.size());
  const absl::StatusOr<Batched> batched = BatchOperators(*graph, kShortSearch);
  if (!batched.ok()) return batched.status();
  const absl::StatusOr<MemoryLayout> naive = NaiveLayout(batched->problem);
  if (!naive.ok()) return naive.status();
  return ComparedCopies{nodes, Of(Cost(batched->problem, *naive)),
                        Of(Cost(batched->problem, batched->layout)), OfProgram(program, nodes)};
}

}  // namespace

absl::StatusOr<CellExplanation> ExplainCell(const CellDefinition& cell,
                                            const ProgramLimits& limits) {
  const absl::StatusOr<CellSkeleton> skeleton = MakeSkeleton(cell, limits);
  if (!skeleton.ok()) return skeleton.status();
  const CellPlan plan = PlanCell(*skeleton);
  const CellProgram program = ApplyPlan(*skeleton, plan, limits);
  CellExplanation explained;
  explained.equations = Equations(cell);
  explained.steps = Lines(DescribeSteps(program));
  if (program.at_load != nullptr) explained.at_load = Lines(DescribeSteps(*program.at_load));
  explained.scratch_bytes = program.scratch_width * 4;
  explained.least = plan.layout.least;
  bool asks = false;
  for (const OperandBatch& batch : plan.problem.batches) asks |= batch.size() > 1;
  if (asks) explained.plan = DrawText(WithNames(cell, *skeleton, plan), plan.layout);
  for (const int nodes : kExplainedNodes) {
    absl::StatusOr<ComparedCopies> compared = Compare(cell, program, nodes, explained.operators);
    // Not every program has a problem of single operators; then there is nothing to compare with.
    if (compared.ok()) explained.copies.push_back(*std::move(compared));
  }
  return explained;
}

}  // namespace cellbatch

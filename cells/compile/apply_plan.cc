#include "cells/compile/apply_plan.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/compile/scratch_space.h"

namespace cellbatch {
namespace {

using Origin = PlannedVariable::Origin;

// Groups of a product as the plan places them, first to last.
std::vector<int32_t> GroupOrder(const CellPlan& plan, int32_t step) {
  std::vector<int32_t> order;
  for (const VariableId v : plan.layout.order) {
    const PlannedVariable& from = plan.variables[static_cast<size_t>(v)];
    if (from.origin == Origin::kWeightGroup && from.step == step) order.push_back(from.index);
  }
  return order;
}

// Whether what an operand names lies side by side and in the order in which its operators run.
bool LiesInPlace(const MemoryLayout& layout, const OperandRef& operand) {
  return std::none_of(layout.copies.begin(), layout.copies.end(),
                      [&](const OperandCopy& copy) { return copy.where == operand; });
}

// Neighbours in the plan that some step reads in one piece.
std::set<std::pair<VariableId, VariableId>> ReadTogether(const CellPlan& plan) {
  std::set<std::pair<VariableId, VariableId>> together;
  const std::vector<OperandBatch>& batches = plan.problem.batches;
  for (size_t b = 0; b < batches.size(); ++b) {
    for (size_t o = 1; o < batches[b].operands.size(); ++o) {
      if (!LiesInPlace(plan.layout, {static_cast<int32_t>(b), static_cast<int32_t>(o)})) continue;
      const std::vector<int32_t>& operators = plan.layout.operator_order[b];
      for (size_t i = 1; i < operators.size(); ++i) {
        together.emplace(batches[b].operands[o][static_cast<size_t>(operators[i - 1])],
                         batches[b].operands[o][static_cast<size_t>(operators[i])]);
      }
    }
  }
  return together;
}

std::vector<ScratchRun> ScratchRuns(const CellPlan& plan) {
  const std::set<std::pair<VariableId, VariableId>> together = ReadTogether(plan);
  std::vector<ScratchRun> runs;
  VariableId last = -1;
  for (const VariableId v : plan.layout.order) {
    const PlannedVariable& from = plan.variables[static_cast<size_t>(v)];
    if (from.origin != Origin::kScratchValue) continue;
    if (!together.contains({last, v})) runs.emplace_back();
    runs.back().push_back(from.index);
    last = v;
  }
  return runs;
}

// Group i of `step` is what was group order[i].
void OrderGroups(const std::vector<int32_t>& order, ProductStep& step) {
  const auto groups = static_cast<size_t>(step.groups());
  Check(order.size() == groups, "a plan names every group of a product");
  const auto reordered = [&](const auto& by_group) {
    auto result = by_group;
    for (size_t i = 0; i < groups; ++i) result[i] = by_group[static_cast<size_t>(order[i])];
    return result;
  };
  step.bias = reordered(step.bias);
  if (!step.starts.empty()) step.starts = reordered(step.starts);
  for (SegmentPlan& segment : step.segments) segment.weights = reordered(segment.weights);
  for (TailOp& op : step.tail.ops) {
    if (op.kind != TailOpKind::kAccumulator) continue;
    op.index =
        static_cast<int16_t>(std::find(order.begin(), order.end(), op.index) - order.begin());
  }
}

// Segments whose rows and weights follow on each other become one. Sums run as before: all of the first, then the second.
void MergeSegments(int joined_depth, ProductStep& step) {
  std::vector<SegmentPlan> merged;
  for (SegmentPlan& segment : step.segments) {
    if (!merged.empty()) {
      Place behind = merged.back().source;
      behind.offset += merged.back().depth;
      if (merged.back().depth % joined_depth == 0 && segment.source == behind &&
          ContinuesBehind(merged.back(), segment)) {
        merged.back().depth += segment.depth;
        continue;
      }
    }
    merged.push_back(std::move(segment));
  }
  step.segments = std::move(merged);
}

}  // namespace

CellProgram ApplyPlan(const CellSkeleton& skeleton, const CellPlan& plan,
                      const ProgramLimits& limits) {
  const ScratchSpace scratch = PlaceScratch(skeleton, ScratchRuns(plan), limits.scratch_alignment);
  CellProgram program = {skeleton.steps, skeleton.lookups, scratch.width, skeleton.prepared};
  if (skeleton.at_load != nullptr) {
    const CellSkeleton& at_load = *skeleton.at_load;
    program.at_load =
        std::make_shared<const CellProgram>(ApplyPlan(at_load, PlanCell(at_load), limits));
  }
  for (size_t s = 0; s < program.steps.size(); ++s) {
    ForEachPlace(program.steps[s], program.lookups, [&](Place& place) {
      if (place.kind != PlaceKind::kScratch) return;
      place.offset += scratch.offset[static_cast<size_t>(std::exchange(place.index, 0))];
    });
    auto* const product = std::get_if<ProductStep>(&program.steps[s]);
    if (product == nullptr) continue;
    OrderGroups(GroupOrder(plan, static_cast<int32_t>(s)), *product);
    MergeSegments(limits.joined_depth, *product);
  }
  return program;
}

}  // namespace cellbatch

#include "cells/compile/apply_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cells/check.h"

namespace cellbatch {
namespace {

using Origin = PlannedVariable::Origin;

// Variables of one origin as the plan places them: first to last, by index.
std::vector<int32_t> InOrder(const CellPlan& plan, Origin origin, int32_t step) {
  std::vector<int32_t> order;
  for (const VariableId v : plan.layout.order) {
    const PlannedVariable& from = plan.variables[static_cast<size_t>(v)];
    if (from.origin == origin && from.step == step) order.push_back(from.index);
  }
  return order;
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
  for (SegmentPlan& segment : step.segments) segment.weights = reordered(segment.weights);
  for (TailOp& op : step.tail.ops) {
    if (op.kind != TailOpKind::kAccumulator) continue;
    op.index =
        static_cast<int16_t>(std::find(order.begin(), order.end(), op.index) - order.begin());
  }
}

std::vector<bool> UsedScratch(const CellSkeleton& skeleton) {
  std::vector<bool> used(skeleton.scratch.size(), false);
  for (const Step& step : skeleton.steps) {
    ForEachPlace(step, skeleton.lookups, [&](const Place& place) {
      if (place.kind == PlaceKind::kScratch) used[static_cast<size_t>(place.index)] = true;
    });
  }
  return used;
}

}  // namespace

CellProgram ApplyPlan(const CellSkeleton& skeleton, const CellPlan& plan,
                      const ProgramLimits& limits) {
  CellProgram program = {skeleton.steps, skeleton.lookups};
  const std::vector<bool> used = UsedScratch(skeleton);
  std::vector<int64_t> offset(skeleton.scratch.size());
  for (const int32_t value : InOrder(plan, Origin::kScratchValue, -1)) {
    if (!used[static_cast<size_t>(value)]) continue;
    offset[static_cast<size_t>(value)] = program.scratch_width;
    const int64_t alignment = limits.scratch_alignment;
    const int64_t elements = skeleton.scratch[static_cast<size_t>(value)];
    program.scratch_width += (elements + alignment - 1) / alignment * alignment;
  }
  for (size_t s = 0; s < program.steps.size(); ++s) {
    ForEachPlace(program.steps[s], program.lookups, [&](Place& place) {
      if (place.kind != PlaceKind::kScratch) return;
      place.offset += offset[static_cast<size_t>(std::exchange(place.index, 0))];
    });
    auto* const product = std::get_if<ProductStep>(&program.steps[s]);
    if (product == nullptr) continue;
    OrderGroups(InOrder(plan, Origin::kWeightGroup, static_cast<int32_t>(s)), *product);
  }
  return program;
}

}  // namespace cellbatch

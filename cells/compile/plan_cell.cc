#include "cells/compile/plan_cell.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "cells/check.h"
#include "fmt/format.h"
#include "memplan/naive_layout.h"
#include "memplan/planner.h"

namespace cellbatch {
namespace {

using Origin = PlannedVariable::Origin;

// Segments that can run as one batched product: of one depth, for each group at most one.
struct Slot {
  int32_t depth = 0;
  std::vector<const SegmentPlan*> of_group;  // null: this group has none here
};

std::vector<Slot> SlotsOf(const ProductStep& step) {
  std::vector<Slot> slots;
  const auto groups = static_cast<size_t>(step.groups());
  const auto fits = [&](const Slot& slot, const SegmentPlan& segment) {
    bool free = slot.depth == segment.depth;
    for (size_t g = 0; g < groups; ++g) {
      free &= !segment.weights[g].has_value() || slot.of_group[g] == nullptr;
    }
    return free;
  };
  for (const SegmentPlan& segment : step.segments) {
    auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return fits(s, segment); });
    if (slot == slots.end()) {
      slots.push_back({segment.depth, std::vector<const SegmentPlan*>(groups)});
      slot = std::prev(slots.end());
    }
    for (size_t g = 0; g < groups; ++g) {
      if (segment.weights[g].has_value()) slot->of_group[g] = &segment;
    }
  }
  return slots;
}

// By operation of a tail: the groups that its value depends on, as bits.
std::vector<uint64_t> GroupsBehind(const TailProgram& tail) {
  std::vector<uint64_t> behind;  // far more bits than any device has groups
  for (const TailOp& op : tail.ops) {
    uint64_t groups = op.kind == TailOpKind::kAccumulator ? uint64_t{1} << op.index : 0;
    if (NumOperands(op.kind) > 0) groups |= behind[static_cast<size_t>(op.a)];
    if (NumOperands(op.kind) > 1) groups |= behind[static_cast<size_t>(op.b)];
    behind.push_back(groups);
  }
  return behind;
}

Origin OriginOf(PlaceKind kind) {
  switch (kind) {
    case PlaceKind::kInput:
      return Origin::kInputColumn;
    case PlaceKind::kOutput:
      return Origin::kOutputColumn;
    case PlaceKind::kScratch:
      return Origin::kScratchValue;
    case PlaceKind::kTableRow:
      return Origin::kTableRow;
    case PlaceKind::kParameter:
      return Origin::kWeights;
  }
  NoSuchEnumerator();
}

class ProblemBuilder {
 public:
  explicit ProblemBuilder(const CellSkeleton& skeleton) : skeleton_(skeleton) {
    plan_.problem.broadcasts = Broadcasts::kByStride;
    for (size_t v = 0; v < skeleton.scratch.size(); ++v) {
      scratch_.push_back(Add({.origin = Origin::kScratchValue, .index = static_cast<int32_t>(v)},
                             fmt::format("scratch{}", v), VariableKind::kValue,
                             skeleton.scratch[v]));
    }
    for (size_t s = 0; s < skeleton.steps.size(); ++s) {
      const auto* const product = std::get_if<ProductStep>(&skeleton.steps[s]);
      if (product != nullptr) AddProduct(static_cast<int32_t>(s), *product);
    }
    FixWeights();
    FixColumns();
  }

  CellPlan Take() && { return std::move(plan_); }

 private:
  using ViewKey = std::tuple<int32_t, int64_t, int64_t, int32_t, int32_t, int64_t>;
  using ColumnKey = std::tuple<PlaceKind, int32_t, int32_t, int64_t, int32_t>;

  VariableId Add(PlannedVariable from, std::string name, VariableKind kind, int64_t elements);
  VariableId Weights(const ParameterView& view, int32_t depth, int32_t units);
  std::optional<VariableId> Row(const Place& place, int32_t elements);
  void AddProduct(int32_t number, const ProductStep& step);
  std::optional<OperandBatch> BatchOf(const Slot& slot, int32_t units,
                                      const std::vector<VariableId>& sums);
  void AddStores(const ProductStep& step, const std::vector<VariableId>& groups);
  void AddPieces(int32_t number, const ProductStep& step);
  void FixWeights();
  void FixColumns();

  const CellSkeleton& skeleton_;
  CellPlan plan_;
  std::vector<VariableId> scratch_;          // by value
  std::map<ViewKey, VariableId> weights_;    // what is stacked on each other side by side, in order
  std::map<ColumnKey, VariableId> columns_;  // likewise
};

VariableId ProblemBuilder::Add(PlannedVariable from, std::string name, VariableKind kind,
                               int64_t elements) {
  const int64_t bytes = std::min<int64_t>(elements * 4, kMaxVariableBytes);
  plan_.problem.variables.push_back({std::move(name), kind, bytes});
  plan_.variables.push_back(from);
  return static_cast<VariableId>(plan_.variables.size()) - 1;
}

VariableId ProblemBuilder::Weights(const ParameterView& view, int32_t depth, int32_t units) {
  const int32_t parameter = view.parameter.value();
  const ViewKey key(parameter, view.unit_stride, view.depth_stride, units, depth, view.offset);
  const auto there = weights_.find(key);
  if (there != weights_.end()) return there->second;
  return weights_[key] = Add({.origin = Origin::kWeights,
                              .index = parameter,
                              .offset = view.offset,
                              .unit_stride = view.unit_stride,
                              .depth = depth},
                             fmt::format("W{}+{}", parameter, view.offset), VariableKind::kConstant,
                             int64_t{depth} * units);
}

// The variable that a product's segment reads; none: a part of a value, whose place is that of the whole.
std::optional<VariableId> ProblemBuilder::Row(const Place& place, int32_t elements) {
  if (place.kind == PlaceKind::kScratch) {
    const auto value = static_cast<size_t>(place.index);
    if (place.offset != 0 || elements != skeleton_.scratch[value]) return std::nullopt;
    return scratch_[value];
  }
  const ColumnKey key(place.kind, place.index, place.column, place.offset, elements);
  if (const auto there = columns_.find(key); there != columns_.end()) return there->second;
  const VariableKind kind =
      place.kind == PlaceKind::kOutput ? VariableKind::kOutput : VariableKind::kInput;
  return columns_[key] = Add({.origin = OriginOf(place.kind),
                              .index = place.index,
                              .column = place.column,
                              .offset = place.offset},
                             Describe(place), kind, elements);
}

// What the groups in `slot` read, behind what they continue; none: fewer than two, which need no order.
std::optional<OperandBatch> ProblemBuilder::BatchOf(const Slot& slot, int32_t units,
                                                    const std::vector<VariableId>& sums) {
  OperandBatch batch = {"product", {{}, {}}};
  Operand& so_far = batch.operands[0];
  Operand& weights = batch.operands[1];
  Operand rows;
  for (size_t g = 0; g < sums.size(); ++g) {
    const SegmentPlan* const segment = slot.of_group[g];
    if (segment == nullptr) continue;
    so_far.push_back(sums[g]);
    weights.push_back(Weights(*segment->weights[g], slot.depth, units));
    const std::optional<VariableId> row = Row(segment->source, slot.depth);
    if (row.has_value()) rows.push_back(*row);
  }
  if (rows.size() == so_far.size()) batch.operands.push_back(std::move(rows));
  if (batch.size() < 2) return std::nullopt;
  return batch;
}

void ProblemBuilder::AddProduct(int32_t number, const ProductStep& step) {
  std::vector<VariableId> groups;
  for (int32_t g = 0; g < step.groups(); ++g) {
    groups.push_back(Add({.origin = Origin::kWeightGroup, .step = number, .index = g},
                         fmt::format("g{}.{}", number, g), VariableKind::kValue, step.units));
  }
  OperandBatch all = {"product", {groups}};
  std::vector<OperandBatch> some;
  for (const Slot& slot : SlotsOf(step)) {
    std::optional<OperandBatch> batch = BatchOf(slot, step.units, groups);
    if (!batch.has_value()) continue;
    const bool every = batch->size() == step.groups();
    if (every) {
      all.operands.insert(all.operands.end(), batch->operands.begin() + 1, batch->operands.end());
    } else {
      some.push_back(*std::move(batch));
    }
  }
  if (groups.size() > 1) plan_.problem.batches.push_back(std::move(all));
  for (OperandBatch& batch : some) {
    // Each continues the sums of those before it: another variable, or it would be written twice.
    Operand sums;
    for (const VariableId g : batch.operands[0]) {
      const int32_t group = plan_.variables[static_cast<size_t>(g)].index;
      sums.push_back(Add({.origin = Origin::kPartialSum, .step = number, .index = group},
                         fmt::format("g{}.{}+", number, group), VariableKind::kValue, step.units));
    }
    batch.operands.insert(batch.operands.begin(), std::move(sums));
    plan_.problem.batches.push_back(std::move(batch));
  }
  AddStores(step, groups);
  AddPieces(number, step);
}

// Values that are made of one group each lie in the order of the groups.
void ProblemBuilder::AddStores(const ProductStep& step, const std::vector<VariableId>& groups) {
  const std::vector<uint64_t> behind = GroupsBehind(step.tail);
  std::set<uint64_t> seen;
  OperandBatch batch = {"store", {{}, {}}};
  for (const TailOp& op : step.tail.ops) {
    if (op.kind != TailOpKind::kStore || step.arg_max.has_value()) continue;
    const Place& to = step.columns[static_cast<size_t>(op.index)];
    const uint64_t of = behind[static_cast<size_t>(op.a)];
    for (size_t g = 0; g < groups.size(); ++g) {
      if (of != uint64_t{1} << g || to.kind != PlaceKind::kScratch) continue;
      const std::optional<VariableId> value = Row(to, step.units);
      if (!value.has_value() || !seen.insert(of).second) continue;
      batch.operands[0].push_back(*value);
      batch.operands[1].push_back(groups[g]);
    }
  }
  if (batch.size() > 1) plan_.problem.batches.push_back(std::move(batch));
}

// Values that one product reads as the pieces of a long row (a concatenation) lie as the columns of its weights do.
void ProblemBuilder::AddPieces(int32_t number, const ProductStep& step) {
  for (size_t s = 0; s < step.segments.size(); ++s) {
    std::vector<VariableId> values;
    size_t end = s;
    for (; end < step.segments.size(); ++end) {
      const SegmentPlan& segment = step.segments[end];
      if (segment.source.kind != PlaceKind::kScratch) break;
      if (end > s && !ContinuesBehind(step.segments[end - 1], segment)) break;
      const std::optional<VariableId> value = Row(segment.source, segment.depth);
      if (!value.has_value() || segment.depth != step.segments[s].depth) break;
      values.push_back(*value);
    }
    if (values.size() < 2) continue;
    OperandBatch batch = {"pieces", {{}, std::move(values)}};
    for (size_t p = s; p < end; ++p) {
      const auto piece = static_cast<int32_t>(p);
      batch.operands[0].push_back(Add({.origin = Origin::kPiece, .step = number, .index = piece},
                                      fmt::format("piece{}.{}", number, piece),
                                      VariableKind::kValue, step.segments[p].depth));
    }
    plan_.problem.fixed.push_back(batch.operands[0]);
    plan_.problem.batches.push_back(std::move(batch));
    s = end - 1;
  }
}

// Blocks of units that a parameter stacks arrive in that order; one alone may lie anywhere.
void ProblemBuilder::FixWeights() {
  std::vector<VariableId> run;
  std::optional<ViewKey> next;  // the block that would continue the run
  const auto close = [&] {
    if (run.size() > 1) plan_.problem.fixed.push_back(run);
    run.clear();
  };
  for (const auto& [key, variable] : weights_) {
    if (next != key) close();
    run.push_back(variable);
    const auto& [parameter, unit_stride, depth_stride, units, depth, offset] = key;
    next.emplace(parameter, unit_stride, depth_stride, units, depth, offset + units * unit_stride);
  }
  close();
}

void ProblemBuilder::FixColumns() {
  std::optional<ColumnKey> last;
  for (const auto& [key, variable] : columns_) {
    const auto& [kind, index, column, offset, elements] = key;
    const bool follows = last.has_value() &&
                         std::tie(kind, index, column) ==
                             std::tie(std::get<0>(*last), std::get<1>(*last), std::get<2>(*last)) &&
                         offset == std::get<3>(*last) + std::get<4>(*last);
    if (!follows) plan_.problem.fixed.emplace_back();
    plan_.problem.fixed.back().push_back(variable);
    last = key;
  }
}

}  // namespace

CellPlan DeclaredPlan(const CellSkeleton& skeleton) {
  CellPlan plan = ProblemBuilder(skeleton).Take();
  absl::StatusOr<MemoryLayout> layout = NaiveLayout(plan.problem);
  Check(layout.ok(), layout.status().ToString());
  plan.layout = *std::move(layout);
  return plan;
}

CellPlan PlanCell(const CellSkeleton& skeleton) {
  CellPlan plan = ProblemBuilder(skeleton).Take();
  absl::StatusOr<MemoryLayout> layout =
      Plan(plan.problem, {.max_checks = kMaxPlanChecks, .max_work = kMaxPlanWork});
  Check(layout.ok(), layout.status().ToString());
  plan.layout = *std::move(layout);
  return plan;
}

}  // namespace cellbatch

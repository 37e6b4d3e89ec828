#include "cells/compile/at_each_node.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cellbatch {
namespace {

class Unfolding {
 public:
  Unfolding(const CellDefinition& cell, CellSkeleton skeleton)
      : cell_(cell), skeleton_(std::move(skeleton)), given_(cell.parameters().size()) {}

  CellSkeleton Run() {
    if (skeleton_.at_load == nullptr) return std::move(skeleton_);
    std::vector<Step> steps = StepsAtLoad();
    for (Step& step : skeleton_.steps) {
      ForEachPlace(step, skeleton_.lookups, [this](Place& place) { place = InScratch(place); });
      if (auto* const product = std::get_if<ProductStep>(&step)) Unfold(*product);
      steps.push_back(std::move(step));
    }
    skeleton_.steps = std::move(steps);
    return std::move(skeleton_);
  }

 private:
  std::vector<Step> StepsAtLoad();
  Place InScratch(const Place& place) const;
  void Unfold(ProductStep& step) const;
  void UnfoldTail(ProductStep& step) const;

  const CellDefinition& cell_;
  CellSkeleton skeleton_;
  const size_t given_;
  int32_t first_ = 0;  // value of what is prepared
};

// Their values come behind those there are, what they leave comes last.
std::vector<Step> Unfolding::StepsAtLoad() {
  CellSkeleton at_load = *skeleton_.at_load;
  const auto behind = static_cast<int32_t>(skeleton_.scratch.size());
  skeleton_.scratch.insert(skeleton_.scratch.end(), at_load.scratch.begin(), at_load.scratch.end());
  first_ = static_cast<int32_t>(skeleton_.scratch.size());
  for (const PreparedParameter& p : skeleton_.prepared) skeleton_.scratch.push_back(p.width);
  for (Step& step : at_load.steps) {
    ForEachPlace(step, at_load.lookups, [&](Place& place) {
      if (place.kind == PlaceKind::kScratch) place.index += behind;
      if (place.kind != PlaceKind::kOutput) return;
      place = {PlaceKind::kScratch, first_ + place.index, 0, place.offset};
    });
    const auto* const index = std::get_if<IndexStep>(&step);
    if (index == nullptr) continue;
    const auto lookup = static_cast<size_t>(index->lookup);
    skeleton_.lookups[lookup] = at_load.lookups[lookup];
  }
  return std::move(at_load.steps);
}

Place Unfolding::InScratch(const Place& place) const {
  if (place.kind != PlaceKind::kParameter || static_cast<size_t>(place.index) < given_) {
    return place;
  }
  const auto number = place.index - static_cast<int32_t>(given_);
  return {PlaceKind::kScratch, first_ + number, 0, place.offset};
}

void Unfolding::Unfold(ProductStep& step) const {
  for (size_t g = 0; g < step.bias.size(); ++g) {
    if (step.bias[g].size() != 1) continue;
    const auto* const view = std::get_if<ParameterView>(&step.bias[g][0]);
    if (view == nullptr || !IsPrepared(*view, cell_)) continue;
    step.starts.resize(step.bias.size());
    step.starts[g] = InScratch({PlaceKind::kParameter, view->parameter.value(), 0, view->offset});
    step.bias[g].clear();
  }
  if (!step.arg_max.has_value()) UnfoldTail(step);
}

// What was a parameter of the tail is a column of it. Kernels of their own know columns, and not parameters: so that the
// tail is no other kernel's than it was, what it computes with is the larger one of the column and itself.
void Unfolding::UnfoldTail(ProductStep& step) const {
  const TailProgram tail = std::exchange(step.tail, {});
  const std::vector<ParameterView> parameters = std::exchange(step.parameters, {});
  std::vector<int16_t> number(
      tail.ops.size());  // of what is an operation of `tail`, to compute with
  std::vector<int16_t> to_store(tail.ops.size());  // likewise, to be stored
  const auto append = [&](const TailOp& op) {
    step.tail.ops.push_back(op);
    return static_cast<int16_t>(step.tail.ops.size() - 1);
  };
  for (size_t i = 0; i < tail.ops.size(); ++i) {
    TailOp op = tail.ops[i];
    if (op.kind == TailOpKind::kParameter) {
      const ParameterView& view = parameters[static_cast<size_t>(op.index)];
      if (IsPrepared(view, cell_)) {
        op = {.kind = TailOpKind::kColumn, .index = static_cast<int16_t>(step.columns.size())};
        step.columns.push_back(
            InScratch({PlaceKind::kParameter, view.parameter.value(), 0, view.offset}));
        to_store[i] = append(op);
        number[i] = append({.kind = TailOpKind::kMax, .a = to_store[i], .b = to_store[i]});
        continue;
      }
      op.index = static_cast<int16_t>(step.parameters.size());
      step.parameters.push_back(view);
    }
    const std::vector<int16_t>& operands = op.kind == TailOpKind::kStore ? to_store : number;
    if (NumOperands(op.kind) > 0) op.a = operands[static_cast<size_t>(op.a)];
    if (NumOperands(op.kind) > 1) op.b = operands[static_cast<size_t>(op.b)];
    to_store[i] = number[i] = append(op);
  }
  step.tail.num_columns = static_cast<int>(step.columns.size());
  step.tail.num_parameters = static_cast<int>(step.parameters.size());
}

}  // namespace

CellSkeleton ComputedAtEachNode(const CellDefinition& cell, CellSkeleton skeleton) {
  return Unfolding(cell, std::move(skeleton)).Run();
}

}  // namespace cellbatch

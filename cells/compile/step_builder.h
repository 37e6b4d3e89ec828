// Writes one product step: some stored expressions of one level and width, their accumulators and their tail.
// Part of skeleton.cc.
#ifndef CELLBATCH_CELLS_COMPILE_STEP_BUILDER_H_
#define CELLBATCH_CELLS_COMPILE_STEP_BUILDER_H_

#include <map>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "cells/compile/expr_placement.h"
#include "cells/compile/lane_graph.h"

namespace cellbatch {

class StepBuilder {
 public:
  StepBuilder(const LaneGraph& graph, const ExprPlacement& placement, const ProgramLimits& limits)
      : graph_(graph), placement_(placement), limits_(limits) {}

  // The step that stores `roots`; nullopt if that takes more than one step can hold.
  std::optional<ProductStep> Build(absl::Span<const ExprId> roots);

 private:
  int16_t Append(TailOp op);
  int16_t Operand(ExprId reader, ExprId e);
  int16_t Compute(ExprId e);
  int16_t Load(ExprId e);
  int16_t ParameterIndex(const ParameterView& view);
  int16_t ColumnIndex(Place place);
  void BuildSegments();
  void AddToSegments(size_t group, const Term& term);
  bool Fits() const;

  const LaneGraph& graph_;
  const ExprPlacement& placement_;
  const ProgramLimits limits_;
  ProductStep step_;
  std::map<ExprId, int16_t> made_;  // operations that computed an expression
  std::vector<ExprId> groups_;      // accumulators, by group
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_STEP_BUILDER_H_

// The first half of lowering a cell: which steps there are and what each reads, computes and leaves, but no number that
// says where anything lies. Who names the numbers is a plan (plan_cell.h); who writes them is ApplyPlan (apply_plan.h).
//
//   skeleton   product 2x64  before.h@01     -> value 0 -> value 1      groups and values are names: 0 is as good as 1
//   program    product 2x64  before.h@01     -> scratch+64 -> scratch   a place for each, groups in the order they run
//
//   1. Slices are pushed down to products and parameters; sums of products become accumulators (lane_graph.h).
//   2. Every expression gets a level: how many steps must run before it. Products of what is not computed yet wait.
//   3. Expressions of one level and width that share accumulators become one product with one tail: gates meet here.
//   4. What a later level needs, or a product or reduction reads, is stored: to an output column if it is one, else
//      to scratch. What does not fit one step of the device that will run it (`limits`) is cut in two.
//   5. What parameters alone make has steps of its own, which run once, at load.
//   6. Numbers that a node has one of are read by tails as they are, and sums of squares square what they read, where the
//      device can.
//   7. An argmax over what nobody else reads becomes the end of its product (fuse_arg_max.h).
//
// Pure, any thread; load time (milliseconds).
#ifndef CELLBATCH_CELLS_COMPILE_SKELETON_H_
#define CELLBATCH_CELLS_COMPILE_SKELETON_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "cells/program/cell_program.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// A program's steps, read differently in two ways. A place in scratch names a value: `index` is its number, `offset` lies
// behind its start. The numbers of a product's groups are names, too: any order of them is the same step. Segments stand
// in the order in which sums run, which no plan changes, so bits do not depend on one.
struct CellSkeleton {
  std::vector<Step> steps;
  std::vector<LookupSpec> lookups;
  std::vector<int32_t> scratch;  // by value: elements; who does not occur in a step takes no space
  // As in a program (cell_program.h).
  std::vector<PreparedParameter> prepared = {};
  std::shared_ptr<const CellSkeleton> at_load = {};
};

// UNIMPLEMENTED or INVALID_ARGUMENT name the cell and the op.
absl::StatusOr<CellSkeleton> MakeSkeleton(const CellDefinition& cell, const ProgramLimits& limits);

// Whether the weights of `b` lie behind those of `a`, group by group, as if both were columns of one matrix: rows that lie
// side by side, too, are one segment then.
bool ContinuesBehind(const SegmentPlan& a, const SegmentPlan& b);

// Calls visit(place) for each place that a step reads or writes: for an index step its lookup's token.
template <typename AnyStep, typename Lookups, typename Visit>
void ForEachPlace(AnyStep& step, Lookups& lookups, const Visit& visit) {
  if (auto* const sum = std::get_if<SumStep>(&step)) visit(sum->to);
  if (auto* const index = std::get_if<IndexStep>(&step)) {
    visit(lookups[static_cast<size_t>(index->lookup)].token);
  }
  if (auto* const product = std::get_if<ProductStep>(&step)) {
    for (auto& segment : product->segments) visit(segment.source);
    for (auto& column : product->columns) visit(column);
    for (auto& start : product->starts) {
      if (start.has_value()) visit(*start);
    }
    if (product->arg_max.has_value()) visit(*product->arg_max);
  }
  if (auto* const plain = std::get_if<PlainStep>(&step)) {
    for (auto& arg : plain->args) visit(arg);
    visit(plain->to);
  }
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_SKELETON_H_

// A model whose recurrent cells do not compute at each step what no step reads: a type of its own does that, "NAME
// deferred", for many steps of many requests at once (defer.h), and for those only that are returned or read. Requests are
// unfolded by the model's own unfolder and then rewritten:
//
//   chain L of T  {h, c, y} --h--> next layer          step L of T  {h, c} --h--> next layer
//                           --y--> answer       ==>         | h, step by step
//                                                           v
//                                                      set "L deferred" of T  {y} --> answer
//
// A table that recurrent types leave is taken apart whole, so that whoever reads it finds its rows in one of two tables:
// there the step's, here the deferred ones (with columns of the step's where one input reads both). Bits are those of the
// model as it was.
//
// It costs rows: those of the step are kept until the deferred part has read them, and its own lie there for every step at
// once. It pays where a step's time is reading weights that only answers need. When the deferred types run is the
// scheduler's (scheduler/policy/decider.h).
#ifndef CELLBATCH_CELLS_DEFERRED_MODEL_H_
#define CELLBATCH_CELLS_DEFERRED_MODEL_H_

#include <cstdint>
#include <memory>

#include "cells/model.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// The most nodes of a deferred task: full row blocks, of 6 or of 8.
inline constexpr int32_t kDeferredNodes = 48;

struct DeferRule {
  int64_t least_operations = 0;  // of one node's deferred part (CellDefinition::flops)
  ProgramLimits limits;          // of the device that will run it
  bool stops = false;            // whether graphs may end chains early
};

// Null: no type has enough to defer. REQUIRES: `cells` is valid and has an unfolder; its graphs do not grow (they would be
// refused). Load time.
std::shared_ptr<Model> DeferModel(std::shared_ptr<const Model> cells, const DeferRule& rule);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEFERRED_MODEL_H_

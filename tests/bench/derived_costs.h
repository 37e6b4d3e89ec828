// What tasks would take on one H200, on paper: no GPU was asked. From a cell's definition alone, as the founder derived the
// step of an LSTM of 1,024 units (the design's performance notes, section 6), which derived_costs_test holds it to:
//
//   T(b) = 3 us + the larger of  b * flops of a node / what the chip sustains
//                                bytes of the weights / what it reads from L2 a second
//
// One fused launch a step: the product, gather and gates in it, and 3 us for the launch and the first loads. That is the
// fastest step we expect to write, so the hardest on whoever has to keep such devices fed. Traffic of states and rows is
// left out, as there. Plain functions; any thread.
#ifndef CELLBATCH_TESTS_BENCH_DERIVED_COSTS_H_
#define CELLBATCH_TESTS_BENCH_DERIVED_COSTS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "cells/model.h"
#include "scheduler/offline/world/task_costs.h"

namespace cellbatch {

struct H200Arithmetic {
  std::string_view name;
  double tflops = 0;         // sustained
  int64_t weight_bytes = 4;  // of one weight
};

// "bf16", "tf32", "3xtf32", "fp32"; none: another name.
std::optional<H200Arithmetic> H200ArithmeticOf(std::string_view name);

// Of one task of a cell with so many flops a node, two for each of its weights.
int64_t H200TaskNs(const H200Arithmetic& arithmetic, int64_t flops, int32_t nodes);

// Of every cell type of the model, batches of at most max_batch.
TaskCosts H200Costs(const H200Arithmetic& arithmetic, const Model& model, int32_t max_batch);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_DERIVED_COSTS_H_

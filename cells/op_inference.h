// Infers the shape and type of what each operator of a cell makes, in order. For cell_definition.cc; anything else asks a
// CellDefinition, in which it was done. Pure; any thread; O(ops).
#ifndef CELLBATCH_CELLS_OP_INFERENCE_H_
#define CELLBATCH_CELLS_OP_INFERENCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/cell_definition.h"

namespace cellbatch {

// What one value may hold: far beyond any real cell, small enough that offsets in bytes fit int32.
inline constexpr int64_t kMaxValueElements = int64_t{1} << 28;

// Writes shape and type of all ops but leaves, whose own it checks. INVALID_ARGUMENT names the cell, the op and what
// disagrees, operators and values by `names` (of ops; none: by their number), leaves by their own.
// REQUIRES: inputs and parameters are well formed.
absl::Status InferOps(std::string_view cell, const std::vector<Input>& inputs,
                      const std::vector<Parameter>& parameters, absl::Span<const std::string> names,
                      std::vector<Op>& ops);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_OP_INFERENCE_H_

// What the planner answers: where each variable lies, in which order each batch runs its operators, and what must still be
// copied. A plain value: anybody may make one, the validator judges it, the cost report prices it.
//
//   order   a  b  c  x  y            memory, first to last: variable v starts at offset[v] bytes
//           '--'                     an operand that lies in place is (address, count)
//           '--.--.--'               one that does not is gathered (a source) or scattered (a result)
#ifndef CELLBATCH_MEMPLAN_MEMORY_LAYOUT_H_
#define CELLBATCH_MEMPLAN_MEMORY_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "memplan/layout_problem.h"

namespace cellbatch {

// Why an operand is copied.
enum class CopyReason {
  kBroadcast,  // it repeats a variable, and the kernels want every repetition written out
  kPlaces,  // it takes variables from several fixed runs, or from one and the plan: never neighbours
  kConflict,  // it could lie in place, but does not here: the planner gave it up for operands that cost more
};

struct OperandRef {
  int32_t batch = 0;
  int32_t operand = 0;  // 0 is the result

  friend auto operator<=>(const OperandRef&, const OperandRef&) = default;
};

struct OperandCopy {
  OperandRef where;
  CopyReason reason = CopyReason::kConflict;
  int64_t bytes = 0;  // as if each entry were read once

  bool is_scatter() const { return where.operand == 0; }
  friend bool operator==(const OperandCopy&, const OperandCopy&) = default;
};

inline constexpr int64_t kElsewhere = -1;

struct MemoryLayout {
  std::vector<VariableId> order;  // every variable that is not fixed, once
  std::vector<int64_t>
      offset;         // per variable, bytes from the start of the plan; kElsewhere when it is fixed
  int64_t bytes = 0;  // of all of `order`

  // Per batch, its operators in the order they run: entry j of an operand in memory is operands[o][operator_order[b][j]].
  std::vector<std::vector<int32_t>> operator_order;

  std::vector<OperandCopy> copies;  // at every execution; by batch, then operand
  std::vector<OperandRef>
      packed;          // operands of constants stored a second time, in operator order, at load
  bool least = false;  // proved: no layout copies fewer bytes
  int64_t work = 0;    // of planning: leaves that were looked at, by all tries together

  friend bool operator==(const MemoryLayout&, const MemoryLayout&) = default;
};

// Places the variables in this order and finds out what must be copied: an operand lies in place when its variables, read
// in the operator order, are neighbours; repeated ones as Broadcasts says; a constant that fills an operand alone is
// read as it is (one product with a shared weight). Operands of constants that do not lie in place are packed, or, without
// `pack`, copied. O(problem).
MemoryLayout LayOut(const LayoutProblem& problem, std::vector<VariableId> order,
                    std::vector<std::vector<int32_t>> operator_order, bool pack);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_MEMORY_LAYOUT_H_

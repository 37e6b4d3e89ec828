// What the planner is asked: variables with sizes, and batches of operators that want to read and write them in place
// (ED-Batch, section 3). Plain values; nothing here allocates memory or knows a tensor.
//
//   constant Wa 16384   constant Wb 16384   input x 2048   value a 2048   value b 2048   output y 2048
//   batch matmul (a b) = (Wa Wb) (x x)        operands: 0 the result (a b), 1 the source (Wa Wb), 2 the source (x x)
//   batch add    (y)   = (a) (b)              one operator: nothing to align
//
// An operand of k variables can be passed to a batched kernel as it lies when its variables stand next to each other
// and in the order of the batch's operators, whatever order that is; otherwise it is copied.
#ifndef CELLBATCH_MEMPLAN_LAYOUT_PROBLEM_H_
#define CELLBATCH_MEMPLAN_LAYOUT_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace cellbatch {

using VariableId = int32_t;  // index into LayoutProblem::variables

enum class VariableKind {
  kConstant,  // known at load (a weight): may be stored a second time in another order, once, for memory and no time
  kInput,     // brought by whoever runs the cell
  kValue,     // written by an operator
  kOutput,    // written by an operator, wanted by others
};

struct Variable {
  std::string name;
  VariableKind kind = VariableKind::kValue;
  int64_t bytes = 0;  // of all instances of a task together; a constant is shared by them

  friend bool operator==(const Variable&, const Variable&) = default;
};

// Entry i belongs to operator i of the batch.
using Operand = std::vector<VariableId>;

struct OperandBatch {
  std::string name;               // of what its operators do, for people
  std::vector<Operand> operands;  // the result, then the sources; all of one length

  int size() const { return operands.empty() ? 0 : static_cast<int>(operands[0].size()); }
  friend bool operator==(const OperandBatch&, const OperandBatch&) = default;
};

// What the kernels do with a source operand that names a variable more than once, like (x x x).
enum class Broadcasts {
  kCopied,    // every repetition is written out: a copy (the paper's setting)
  kByStride,  // repetitions are read with stride zero: (x x h h), repeated ones side by side, or (x h x h), neighbours
  // again and again; of products that share x, as one product with stacked weights. Where one launch
  // cannot say it, as in (x x x h h), the batch is cut into several, which are counted
};

struct LayoutProblem {
  std::vector<Variable> variables;  // in declaration order, which is the naive layout
  std::vector<OperandBatch> batches;
  // Runs that arrive laid out by someone else, each in its order, each in a place of its own; a variable is in at most
  // one. All other variables are the planner's.
  std::vector<std::vector<VariableId>> fixed;
  Broadcasts broadcasts = Broadcasts::kCopied;

  friend bool operator==(const LayoutProblem&, const LayoutProblem&) = default;
};

// The other setting than the paper's: every input has a place in the plan (somebody copies it there), and broadcasts are
// read by stride.
LayoutProblem InFull(LayoutProblem problem);

// Most that one text or call may ask; far beyond any cell, small enough that nothing overflows.
inline constexpr int64_t kMaxVariables = 1'000'000;
inline constexpr int64_t kMaxVariableBytes = int64_t{1} << 40;
inline constexpr int64_t kMaxOperandEntries = 4'000'000;

// OK, or what is wrong, with names: ids in range, operands of a batch equally long, one size a variable within an operand,
// each variable written at most once and only if it is a value or an output, fixed runs disjoint. O(problem).
absl::Status CheckProblem(const LayoutProblem& problem);

// The same piece by piece, for who builds a problem and wants to say which line is wrong. Of a batch: its ids, lengths and
// sizes, and that it writes what may be written and is not `written` yet (by variable; noted). Of a run: that its
// variables are not `fixed` yet (by variable; noted).
absl::Status CheckVariable(const Variable& variable);
absl::Status CheckBatch(const LayoutProblem& problem, const OperandBatch& batch,
                        std::vector<bool>& written);
absl::Status CheckFixedRun(const LayoutProblem& problem, const std::vector<VariableId>& run,
                           std::vector<bool>& fixed);

// Bytes of all variables of an operand, repetitions included: what copying it moves.
int64_t OperandBytes(const LayoutProblem& problem, const Operand& operand);

// Whether the operand holds constants only, so that a second copy at load is as good as a place in the plan.
bool IsConstant(const LayoutProblem& problem, const Operand& operand);

// Per variable, the fixed run it lies in, or -1.
std::vector<int> FixedRunOf(const LayoutProblem& problem);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_LAYOUT_PROBLEM_H_

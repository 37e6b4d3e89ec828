// Layout problems as text, for files, tests and the command line. One thing a line; # starts a comment.
//
//   broadcasts stride                what kernels do with (x x): `stride` or `copied` (the default)
//   input x 2048                     a variable: constant, input, value or output, its name, its bytes
//   value a 2048
//   fixed x y                        a run that arrives in this order, in a place of its own
//   batch matmul (a b) = (Wa Wb) (x x)
//   op tanh c = a                    a batch of one operator
//
// Names are of letters, digits and _ . ' - and have at most 64 characters. A variable stands before who names it.
#ifndef CELLBATCH_MEMPLAN_PROBLEM_TEXT_H_
#define CELLBATCH_MEMPLAN_PROBLEM_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "memplan/layout_problem.h"

namespace cellbatch {

inline constexpr size_t kMaxTextBytes = 16 << 20;
inline constexpr size_t kMaxNameBytes = 64;

// A problem that CheckProblem accepts, or "line 7: ..." with what is wrong there. Whatever the bytes; O(text).
absl::StatusOr<LayoutProblem> ParseProblem(std::string_view text);

// Text that parses to the same problem, if its names are names.
std::string PrintProblem(const LayoutProblem& problem);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_PROBLEM_TEXT_H_

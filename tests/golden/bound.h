// When numbers agree with a reference (design.md, Numbers). A plain function.
#ifndef CELLBATCH_TESTS_GOLDEN_BOUND_H_
#define CELLBATCH_TESTS_GOLDEN_BOUND_H_

#include <vector>

namespace cellbatch::golden {

// How far an answer is from the reference's, as parts of the bound of design.md (Numbers): at most 1 is
// within it. Infinite where sizes differ or something is not finite.
//   |y - y64|_2 <= 1e-5 |y64|_2   and   max |y - y64| <= 1e-5 max(1, max |y64|)
double PartOfBound(const std::vector<double>& expected, const std::vector<double>& got);

}  // namespace cellbatch::golden

#endif  // CELLBATCH_TESTS_GOLDEN_BOUND_H_

// Dimensions in cell definitions: "4*H", "H/2", "(D + 1) * 3". Small integer expressions over named
// sizes, and the one equation a weight's shape makes of each.
//
// Plain functions; any thread; O(length), and the length is bounded.
#ifndef CELLBATCH_SERVER_CELLS_DIMENSION_H_
#define CELLBATCH_SERVER_CELLS_DIMENSION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace cellbatch {

using Sizes = std::map<std::string, int64_t>;  // what the symbols stand for

inline constexpr size_t kMaxDimensionText = 128;                  // bytes
inline constexpr int64_t kMaxDimension = (int64_t{1} << 31) - 1;  // and of values on the way

// The value of `text`. NOT_FOUND: a size that is not known (named). INVALID_ARGUMENT: no such expression, a division
// that does not come out even, a value beyond the limit.
absl::StatusOr<int64_t> EvaluateDimension(std::string_view text, const Sizes& sizes);

// If `text` has exactly one unknown size and can only be `value` when that size is a certain whole
// number: that size and number. None where nothing, or not this, can be concluded.
std::optional<std::pair<std::string, int64_t>> SolveDimension(std::string_view text, int64_t value,
                                                              const Sizes& sizes);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CELLS_DIMENSION_H_

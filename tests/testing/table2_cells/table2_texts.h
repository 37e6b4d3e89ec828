// Definitions of those cells of ED-Batch's Table 2 that the paper computes with other operators than our shipped ones: the
// files beside this one, in the program.
#ifndef CELLBATCH_TESTS_TESTING_TABLE2_CELLS_TABLE2_TEXTS_H_
#define CELLBATCH_TESTS_TESTING_TABLE2_CELLS_TABLE2_TEXTS_H_

#include <string_view>

#include "absl/types/span.h"

namespace cellbatch::testing {

struct Table2Text {
  std::string_view name, text;
};

// By name. They live as long as the program.
absl::Span<const Table2Text> Table2Texts();

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_TABLE2_CELLS_TABLE2_TEXTS_H_

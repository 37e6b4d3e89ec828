// The cells that the server ships, and others written as text, built at the sizes of a test or a benchmark.
#ifndef CELLBATCH_TESTS_TESTING_SHIPPED_CELL_H_
#define CELLBATCH_TESTS_TESTING_SHIPPED_CELL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "server/cells/dimension.h"

namespace cellbatch::testing {

// Empty: there is none of that name.
std::string_view ShippedText(std::string_view name);

// Ends the process where there is none of that name, or it does not fit the sizes.
CellDefinition ShippedDefinition(std::string_view name, const Sizes& sizes);

// Of any text, which errors call `file`; every size that it names is `width`.
absl::StatusOr<CellDefinition> DefinitionOfWidth(std::string_view text, const std::string& file,
                                                 int64_t width);

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_SHIPPED_CELL_H_

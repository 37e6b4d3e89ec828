// The cells that the server ships, built at the sizes of a test or a benchmark.
#ifndef CELLBATCH_TESTS_TESTING_SHIPPED_CELL_H_
#define CELLBATCH_TESTS_TESTING_SHIPPED_CELL_H_

#include <string_view>

#include "cells/cell_definition.h"
#include "server/dimension.h"

namespace cellbatch::testing {

// Ends the process where there is none of that name, or it does not fit the sizes.
CellDefinition ShippedDefinition(std::string_view name, const Sizes& sizes);

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_SHIPPED_CELL_H_

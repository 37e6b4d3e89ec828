// The seven cells of ED-Batch's Table 2 as operator graphs in the paper's setting (h = 64, 8 instances, fp32; inputs fixed,
// broadcasts copied): from the definitions of the shipped cells where those compute what the paper's do operator by
// operator, else from memplan/cells.
#ifndef CELLBATCH_TESTS_TESTING_TABLE2_H_
#define CELLBATCH_TESTS_TESTING_TABLE2_H_

#include <string>
#include <vector>

#include "memplan/layout_problem.h"

namespace cellbatch::testing {

struct Table2Cell {
  std::string name;
  LayoutProblem graph;  // of single operators
};

// By name. Ends the process if one cannot be read.
std::vector<Table2Cell> Table2();

// A shipped cell's, derived from its definition.
LayoutProblem OperatorsOf(const std::string& shipped_cell, const std::vector<std::string>& placed);

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_TABLE2_H_

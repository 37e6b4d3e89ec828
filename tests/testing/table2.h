// The seven cells of ED-Batch's Table 2: definitions, and the operator graphs derived from them in the paper's setting
// (h = 64, 8 instances, fp32; inputs fixed, broadcasts copied). The LSTM and the TreeLSTM's two are shipped cells, taken apart
// operator by operator; the other four are written as the paper computes them (table2_cells).
#ifndef CELLBATCH_TESTS_TESTING_TABLE2_H_
#define CELLBATCH_TESTS_TESTING_TABLE2_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cells/cell_definition.h"
#include "memplan/layout_problem.h"

namespace cellbatch::testing {

struct Table2Cell {
  std::string name;
  CellDefinition definition;
  // Inputs that have a place in the plan: in the paper's LSTM the state comes out of an operator of the cell.
  std::vector<std::string> placed;
  LayoutProblem graph;  // of single operators
};

// By name, of so many units and instances. Ends the process if one cannot be read.
std::vector<Table2Cell> Table2(int32_t units = 64, int32_t instances = 8);

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_TABLE2_H_

// print_source UNITS [CELL..]: the kernels of every task, and those of shipped cells (of all), every size of them so wide, as
// NVRTC will get them; for nvcc and for people.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cells/check.h"
#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "cells/kernels/cuda/cell_source.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

void AddCell(const std::string& name, int64_t units, std::string& source) {
  const std::string_view text = testing::ShippedText(name);
  Check(!text.empty(), "no shipped cell has the name " + name);
  const auto cell = testing::DefinitionOfWidth(text, name, units);
  Check(cell.ok(), cell.status().ToString());
  const Weights weights = testing::RandomWeights(*cell, 1);
  const auto program = Lower(*cell, kCudaLimits);
  Check(program.ok(), program.status().ToString());
  // What is prepared at load is not made here: values are no part of the text.
  std::vector<std::vector<float>> prepared;
  for (const PreparedParameter& p : program->prepared) {
    prepared.emplace_back(static_cast<size_t>(p.width));
  }
  const auto data = [&](ParameterId p) {
    const auto number = static_cast<size_t>(p.value());
    return number < weights.size() ? weights[number].data.get()
                                   : prepared[number - weights.size()].data();
  };
  AddCellSource(name, *program, data, source);
}

int Print(const std::vector<std::string>& arguments) {
  const int64_t units = arguments.empty() ? 0 : std::atoll(arguments[0].c_str());
  if (units < 1) {
    std::fputs("print_source UNITS [CELL..]\n", stderr);
    return 2;
  }
  std::string source = TaskKernelSource();
  for (size_t i = 1; i < arguments.size(); ++i) AddCell(arguments[i], units, source);
  if (arguments.size() == 1) {
    for (const ShippedCell& cell : ShippedCells()) AddCell(std::string(cell.name), units, source);
  }
  std::fputs(source.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Print({argv + 1, argv + argc}); }

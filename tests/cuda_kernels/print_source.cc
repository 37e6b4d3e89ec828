// print_source UNITS [CELL|CELL:bf16..]: the kernels of every task, and those of shipped cells (of all, in each precision), every
// size of them so wide, as NVRTC will get them; for nvcc and for people.
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

void AddCell(const std::string& name, int64_t units, Precision precision, std::string& source) {
  const std::string_view text = testing::ShippedText(name);
  Check(!text.empty(), "no shipped cell has the name " + name);
  const auto cell = testing::DefinitionOfWidth(text, name, units);
  Check(cell.ok(), cell.status().ToString());
  const Weights weights = testing::RandomWeights(*cell, 1);
  auto program = Lower(*cell, kCudaLimits);
  Check(program.ok(), program.status().ToString());
  program->precision = precision;
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
  const auto is_rounded = [](const Place&) { return true; };
  AddCellSource(precision == Precision::kBf16 ? name + "_bf16" : name, *program, data, is_rounded,
                {.wgmma = true}, source);
}

int Print(const std::vector<std::string>& arguments) {
  const int64_t units = arguments.empty() ? 0 : std::atoll(arguments[0].c_str());
  if (units < 1) {
    std::fputs("print_source UNITS [CELL|CELL:bf16..]\n", stderr);
    return 2;
  }
  std::string source = TaskKernelSource();
  for (size_t i = 1; i < arguments.size(); ++i) {
    const size_t colon = arguments[i].find(':');
    const bool bf16 = colon != std::string::npos && arguments[i].substr(colon) == ":bf16";
    AddCell(arguments[i].substr(0, colon), units, bf16 ? Precision::kBf16 : Precision::kFp32,
            source);
  }
  for (const ShippedCell& cell : ShippedCells()) {
    if (arguments.size() > 1) break;
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      AddCell(std::string(cell.name), units, precision, source);
    }
  }
  std::fputs(source.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Print({argv + 1, argv + argc}); }

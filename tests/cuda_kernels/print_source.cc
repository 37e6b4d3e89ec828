// print_source [--shared=KIB] UNITS [CELL|CELL:bf16|CELL:3xtf32|CELL:tf32..]: the kernels of every task, and those of shipped cells (of
// all, in each precision and way: "lstm", "lstm_bf16", "lstm_3xtf32", "lstm_tf32"), every size of them so wide, as NVRTC will get them; for
// nvcc and for people. Of Hopper, or of another GPU whose blocks have so much shared memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cells/check.h"
#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/kernels/cuda/cuda_limits.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

struct Way {
  std::string name;
  Precision precision;
  Fp32By fp32;
};
const Way kWays[] = {{"", Precision::kFp32, Fp32By::kFma},
                     {"bf16", Precision::kBf16, Fp32By::kFma},
                     {"3xtf32", Precision::kFp32, Fp32By::kTensorCores},
                     {"tf32", Precision::kTf32, Fp32By::kTensorCores}};

void AddCell(const std::string& name, int64_t units, const Way& way, CudaTarget target,
             std::string& source) {
  const std::string_view text = testing::ShippedText(name);
  Check(!text.empty(), "no shipped cell has the name " + name);
  const auto cell = testing::DefinitionOfWidth(text, name, units);
  Check(cell.ok(), cell.status().ToString());
  const Weights weights = testing::RandomWeights(*cell, 1);
  auto program = Lower(*cell, kCudaLimits);
  Check(program.ok(), program.status().ToString());
  program->precision = way.precision;
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
  target.fp32 = way.fp32;
  AddCellSource(way.name.empty() ? name : name + "_" + way.name, *program, data, is_rounded, target,
                source);
}

int Print(std::vector<std::string> arguments) {
  CudaTarget target = {.wgmma = true};
  constexpr std::string_view kShared = "--shared=";
  if (!arguments.empty() && arguments[0].starts_with(kShared)) {
    target = {.most_shared = std::atoi(arguments[0].c_str() + kShared.size()) << 10};
    arguments.erase(arguments.begin());
  }
  const int64_t units = arguments.empty() ? 0 : std::atoll(arguments[0].c_str());
  if (units < 1) {
    std::fputs("print_source [--shared=KIB] UNITS [CELL|CELL:bf16|CELL:3xtf32|CELL:tf32..]\n",
               stderr);
    return 2;
  }
  std::string source = TaskKernelSource();
  for (size_t i = 1; i < arguments.size(); ++i) {
    const size_t colon = std::min(arguments[i].find(':'), arguments[i].size());
    for (const Way& way : kWays) {
      const bool meant = arguments[i].substr(colon) == (way.name.empty() ? "" : ":" + way.name);
      if (meant) AddCell(arguments[i].substr(0, colon), units, way, target, source);
    }
  }
  for (const ShippedCell& cell : ShippedCells()) {
    if (arguments.size() > 1) break;
    for (const Way& way : kWays) AddCell(std::string(cell.name), units, way, target, source);
  }
  std::fputs(source.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Print({argv + 1, argv + argc}); }

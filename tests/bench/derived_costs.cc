#include "tests/bench/derived_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr double kLaunchNs = 3'000;
constexpr double kL2BytesPerNs = 5'500;
constexpr int32_t kLargest = 2048;  // in the notes' table

// Dense peak of the chip times the part of it that large products reach.
constexpr std::array<H200Arithmetic, 4> kKnown = {{
    {"bf16", 989 * 0.68, 2},
    {"tf32", 494 * 0.65, 4},
    {"3xtf32", 494 * 0.65 / 3, 4},  // three products of halves: as exact as fp32
    {"fp32", 67 * 0.8, 4},
}};

}  // namespace

std::optional<H200Arithmetic> H200ArithmeticOf(std::string_view name) {
  for (const H200Arithmetic& known : kKnown) {
    if (known.name == name) return known;
  }
  return std::nullopt;
}

int64_t H200TaskNs(const H200Arithmetic& arithmetic, int64_t flops, int32_t nodes) {
  const auto of_node = static_cast<double>(flops);
  const double compute_ns = nodes * of_node / (arithmetic.tflops * 1e3);
  const double weights_ns =
      of_node / 2 * static_cast<double>(arithmetic.weight_bytes) / kL2BytesPerNs;
  return std::llround(kLaunchNs + std::max(compute_ns, weights_ns));
}

TaskCosts H200Costs(const H200Arithmetic& arithmetic, const Model& model, int32_t max_batch) {
  std::vector<TypeCosts> types;
  for (const CellType& type : model.types) {
    TypeCosts& costs = types.emplace_back();
    costs.max_batch = max_batch;
    for (int32_t b = 1; b <= kLargest; ++b) {
      costs.points.push_back({b, H200TaskNs(arithmetic, type.definition->flops(), b)});
    }
  }
  absl::StatusOr<TaskCosts> made = TaskCosts::Of(std::move(types));
  Check(made.ok(), made.status().ToString());
  return *std::move(made);
}

}  // namespace cellbatch

#include "cells/device/held_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace cellbatch {
namespace {

// What is nearest to it is no number from there on: the largest one of so many bits, and half of what its lowest one stands for.
float LeastNotHeld(Precision precision) {
  if (precision == Precision::kBf16) return 0x1.ffp127f;
  return precision == Precision::kTf32 ? 0x1.ffep127f : std::numeric_limits<float>::infinity();
}
bool Holds(Precision precision, float weight) {
  return std::abs(weight) < LeastNotHeld(precision);  // NaN is not
}

// The first weight of the view that has no number in the precision: its place in the parameter.
std::optional<int64_t> FirstNotHeld(const float* parameter, const ParameterView& view,
                                    int32_t units, int32_t depth, Precision precision) {
  for (int32_t u = 0; u < units; ++u) {
    for (int32_t k = 0; k < depth; ++k) {
      const int64_t at = view.offset + u * view.unit_stride + k * view.depth_stride;
      if (!Holds(precision, parameter[at])) return at;
    }
  }
  return std::nullopt;
}

std::string ParameterText(ParameterId p, const CellType& type, const CellProgram& program) {
  const auto number = static_cast<size_t>(p.value()), given = type.weights.size();
  const auto parameters = type.definition->parameters();
  if (number < given) return fmt::format("parameter \"{}\"", parameters[number].name);
  std::string of;
  for (const ParameterId made_of : program.prepared[number - given].of) {
    of += fmt::format("{}\"{}\"", of.empty() ? "" : ", ",
                      parameters[static_cast<size_t>(made_of.value())].name);
  }
  return fmt::format("what is computed of {} at load", of.empty() ? "constants" : of);
}

}  // namespace

absl::Status CheckHeld(const SegmentPlan& segment, int32_t units, const CellType& type,
                       const CellProgram& program,
                       absl::FunctionRef<const float*(ParameterId)> data) {
  if (program.precision == Precision::kFp32) return absl::OkStatus();
  for (const std::optional<ParameterView>& w : segment.weights) {
    if (!w.has_value()) continue;
    const float* const values = data(w->parameter);
    const std::optional<int64_t> bad =
        FirstNotHeld(values, *w, units, segment.depth, program.precision);
    if (!bad.has_value()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "cell type \"{}\": {}: element {} is {}, for which {} has no number", type.name,
        ParameterText(w->parameter, type, program), *bad, values[*bad], Name(program.precision)));
  }
  return absl::OkStatus();
}

}  // namespace cellbatch

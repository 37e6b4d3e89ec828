#include "cells/kernels/cuda/step_writer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cells/check.h"
#include "cells/kernels/cuda/kernel_abi.h"
#include "fmt/format.h"

namespace cellbatch {

StepWriter::StepWriter(std::string name, const CellProgram& program, ParameterData data,
                       cellbatch::IsRounded is_rounded, const CudaTarget& target, std::string& text)
    : program_(program),
      data_(data),
      is_rounded_(is_rounded),
      target_(target),
      name_(std::move(name)),
      text_(text) {}

int StepWriter::ColumnNumber(const Place& place) {
  const auto found = std::find(step_.columns.begin(), step_.columns.end(), place);
  if (found == step_.columns.end()) {
    step_.columns.push_back(place);
    Check(step_.columns.size() <= size_t{cuda_abi::kMostColumns}, "columns of a step are numbered");
    return static_cast<int>(step_.columns.size()) - 1;
  }
  return static_cast<int>(found - step_.columns.begin());
}

int StepWriter::Value(std::vector<float> floats) {
  step_.values.push_back({{}, std::move(floats)});
  Check(step_.values.size() <= size_t{cuda_abi::kMostValues}, "values of a step are numbered");
  return static_cast<int>(step_.values.size()) - 1;
}

int StepWriter::Value(ParameterId parameter) {
  const auto found = std::find_if(step_.values.begin(), step_.values.end(),
                                  [&](const CudaValue& v) { return v.parameter == parameter; });
  if (found != step_.values.end()) return static_cast<int>(found - step_.values.begin());
  const int number = Value(std::vector<float>());
  step_.values.back().parameter = parameter;
  return number;
}

std::string StepWriter::Row(const Place& place, const std::string& node) {
  switch (place.kind) {
    case PlaceKind::kInput:
      return fmt::format("RowAt(a.columns[{}], now.inputs[{}].rows[{}])", ColumnNumber(place),
                         place.index, node);
    case PlaceKind::kOutput:
      return fmt::format("RowAt(a.columns[{}], now.output_rows[{}])", ColumnNumber(place), node);
    case PlaceKind::kScratch:
      return fmt::format("(a.scratch + {} * a.scratch_stride + {})", node, place.offset);
    case PlaceKind::kTableRow: {
      const LookupSpec& lookup = program_.lookups[static_cast<size_t>(place.index)];
      return fmt::format(
          "const_cast<float*>(a.values[{}] + {} + a.tokens[{} * a.most_nodes + {}] * {}LL)",
          Value(lookup.table), lookup.offset + place.offset, place.index, node, lookup.stride);
    }
    case PlaceKind::kParameter:
      return fmt::format("const_cast<float*>(a.values[{}] + {})", Value(ParameterId(place.index)),
                         place.offset);
  }
  NoSuchEnumerator();
}

std::string StepWriter::RoundedRow(const Place& place, const std::string& node) {
  switch (place.kind) {
    case PlaceKind::kInput:
      return fmt::format("RoundedRowAt(a.columns[{}], now.inputs[{}].rows[{}])",
                         ColumnNumber(place), place.index, node);
    case PlaceKind::kOutput:
      return fmt::format("RoundedRowAt(a.columns[{}], now.output_rows[{}])", ColumnNumber(place),
                         node);
    case PlaceKind::kScratch:
      return fmt::format("(a.rounded + {} * a.scratch_stride + {})", node, place.offset);
    case PlaceKind::kTableRow:
    case PlaceKind::kParameter:
      break;  // never written: WriteMmaProduct packs them
  }
  NoSuchEnumerator();
}

namespace {

bool ReadsScratch(const ProductStep& step, int64_t from, int64_t to) {
  return std::any_of(step.segments.begin(), step.segments.end(), [&](const SegmentPlan& segment) {
    const Place& source = segment.source;
    return source.kind == PlaceKind::kScratch && source.offset < to &&
           from < source.offset + segment.depth;
  });
}

}  // namespace

bool StepWriter::IsRounded(const Place& place, int64_t width) const {
  if (program_.precision != Precision::kBf16) return false;
  if (place.kind == PlaceKind::kOutput) return is_rounded_(place);
  return place.kind == PlaceKind::kScratch &&
         std::any_of(program_.steps.begin(), program_.steps.end(), [&](const Step& step) {
           const auto* const product = std::get_if<ProductStep>(&step);
           return product != nullptr && ReadsScratch(*product, place.offset, place.offset + width);
         });
}

const char* const StepWriter::kBegin =
    "  GridDependencyWait();\n  GridDependentsMayBegin();\n  StampBegin(a);\n"
    "  const cellbatch::cuda_abi::TaskNow& now = *a.now;\n";

void StepWriter::AddShape(const std::string& suffix, CudaShape shape, const std::string& body) {
  shape.name = name_ + suffix;
  text_ += fmt::format(
      "\nextern \"C\" __global__ void {}__launch_bounds__({}{}) {}("
      "cellbatch::cuda_abi::StepArgs a) {{\n"
      "  using namespace cellbatch::cuda_kernels;\n"
      "{}}}\n",
      shape.cluster == 1 ? "" : fmt::format("__cluster_dims__(1, {}, 1) ", shape.cluster),
      shape.threads, shape.all_registers ? ", 1" : "", shape.name, body);
  step_.shapes.push_back(std::move(shape));
}

}  // namespace cellbatch

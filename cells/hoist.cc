#include "cells/hoist.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "cells/compile/lower.h"
#include "cells/compile/start_from_sums.h"
#include "cells/free_name.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr char kSumsInput[] = "hoisted sums", kAfterInput[] = "hoisted after";

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Writes sums as a definition.
class SumWriter {
 public:
  explicit SumWriter(const CellDefinition& cell) : cell_(cell) {}

  // False: a weight or bias is no part of a parameter that operators could cut out, as where it is prepared at load.
  bool Add(const HoistedSum& sum) {
    ValueId value;
    for (const UnitValues& bias : sum.bias) {
      const ValueId term = Bias(bias, sum.units);
      if (!term.valid()) return false;
      value = value.valid() ? Push({.kind = OpKind::kAdd, .args = {value, term}}) : term;
    }
    for (const HoistedTerm& t : sum.terms) {
      const ValueId weights = Weights(t.w, sum.units, t.depth);
      if (!weights.valid()) return false;
      const ValueId x = Columns(Read(t.source), t.source.offset, t.depth);
      const ValueId term = Push({.kind = OpKind::kMatMul, .args = {x, weights}});
      value = value.valid() ? Push({.kind = OpKind::kAdd, .args = {value, term}}) : term;
    }
    outputs_.push_back({fmt::format("sum{}", outputs_.size()), value});
    return true;
  }

  // Null: it would have more than a cell may. Where weights of many terms lie side by side in one parameter each is cut out by
  // operators of its own, and those of all terms may be too many.
  std::shared_ptr<const CellDefinition> Finish() {
    const absl::Span<const Parameter> parameters = cell_.parameters();
    inputs_.push_back({.name = FreeNameAmong(inputs_, kAfterInput), .reads = {cell_.columns()[0]}});
    auto made =
        CellDefinition::Create(cell_.name() + " hoisted", std::move(ops_), std::move(inputs_),
                               {parameters.begin(), parameters.end()}, std::move(outputs_), {});
    if (!made.ok()) return nullptr;
    return std::make_shared<const CellDefinition>(*std::move(made));
  }
  const std::vector<InputId>& reads() const { return reads_; }

 private:
  ValueId Push(const Op& op) {
    ops_.push_back(op);
    shapes_.push_back(op.shape);
    return ValueId(static_cast<int64_t>(ops_.size()) - 1);
  }

  // A column of one of the cell's inputs, whole.
  ValueId Read(const Place& place) {
    const auto [at, is_new] = columns_.emplace(std::pair(place.index, place.column), ValueId());
    if (!is_new) return at->second;
    const InputId input(place.index);
    const auto known = std::find(reads_.begin(), reads_.end(), input);
    const auto number = static_cast<int32_t>(known - reads_.begin());
    const Input& declared = cell_.inputs()[Index(place.index)];
    if (known == reads_.end()) {
      reads_.push_back(input);
      inputs_.push_back(declared);
    }
    const Shape shape = Shape::Vector(declared.reads[Index(place.column)].width);
    return at->second =
               Push({.kind = OpKind::kInput, .attr = {number, place.column}, .shape = shape});
  }

  ValueId ParameterOf(ParameterId id) {
    const auto [at, is_new] = parameters_.emplace(id.value(), ValueId());
    if (!is_new) return at->second;
    const auto number = static_cast<int32_t>(id.value());
    return at->second = Push({.kind = OpKind::kParameter,
                              .attr = {number, 0},
                              .shape = cell_.parameters()[Index(number)].shape});
  }

  // Columns [first, first + width) of a matrix or vector.
  ValueId Columns(ValueId of, int64_t first, int64_t width) {
    const Shape from = shapes_[Index(of.value())];
    if (first == 0 && width == from.cols) return of;
    return Push({.kind = OpKind::kSlice,
                 .args = {of},
                 .attr = {static_cast<int32_t>(first), static_cast<int32_t>(first + width)},
                 .shape = {from.rows, static_cast<int32_t>(width)}});
  }
  ValueId Turned(ValueId of) {
    const Shape from = shapes_[Index(of.value())];
    return Push({.kind = OpKind::kTranspose, .args = {of}, .shape = {from.cols, from.rows}});
  }
  ValueId Rows(ValueId of, int64_t first, int64_t count) {
    if (first == 0 && count == shapes_[Index(of.value())].rows) return of;
    return Turned(Columns(Turned(of), first, count));
  }

  // [units, depth] as the view reads it: a part of a parameter, by rows or turned round.
  ValueId Weights(const ParameterView& w, int32_t units, int32_t depth) {
    if (IsPrepared(w, cell_)) return {};
    const Shape shape = cell_.parameters()[Index(w.parameter.value())].shape;
    const int64_t row = w.offset / shape.cols, column = w.offset % shape.cols;
    const bool by_rows = w.unit_stride == shape.cols && w.depth_stride == 1;
    const bool by_columns = w.unit_stride == 1 && w.depth_stride == shape.cols;
    const int64_t rows = by_rows ? units : depth, columns = by_rows ? depth : units;
    if (!by_rows && !by_columns) return {};
    if (row + rows > shape.rows || column + columns > shape.cols) return {};
    const ValueId part = Rows(Columns(ParameterOf(w.parameter), column, columns), row, rows);
    return by_rows ? part : Turned(part);
  }

  ValueId Bias(const UnitValues& values, int32_t units) {
    const auto* const view = std::get_if<ParameterView>(&values);
    if (view == nullptr || view->unit_stride != 1 || IsPrepared(*view, cell_)) return {};
    const Shape shape = cell_.parameters()[Index(view->parameter.value())].shape;
    if (shape.rows != 1 || view->offset + units > shape.cols) return {};
    return Columns(ParameterOf(view->parameter), view->offset, units);
  }

  const CellDefinition& cell_;
  std::vector<Op> ops_;
  std::vector<Shape> shapes_;  // by value, of leaves and of what is cut out of parameters
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<InputId> reads_;
  std::map<std::pair<int32_t, int32_t>, ValueId> columns_;
  std::map<int64_t, ValueId> parameters_;
};

// Null: it would have more than a cell may.
std::shared_ptr<const CellDefinition> WithSums(const CellDefinition& cell,
                                               absl::Span<const Column> sums) {
  std::vector<Input> inputs(cell.inputs().begin(), cell.inputs().end());
  inputs.push_back(
      {.name = FreeNameAmong(inputs, kSumsInput), .reads = {sums.begin(), sums.end()}});
  auto made =
      CellDefinition::Create(cell.name(), {cell.ops().begin(), cell.ops().end()}, std::move(inputs),
                             {cell.parameters().begin(), cell.parameters().end()},
                             {cell.outputs().begin(), cell.outputs().end()}, cell.carry());
  if (!made.ok()) return nullptr;
  return std::make_shared<const CellDefinition>(*std::move(made));
}

}  // namespace

int64_t HoistedCell::multiply_adds() const {
  int64_t all = 0;
  for (const HoistedSum& sum : sums) {
    for (const HoistedTerm& t : sum.terms) all += int64_t{t.depth} * sum.units;
  }
  return all;
}

std::optional<HoistedCell> Hoist(const CellDefinition& cell, const std::vector<bool>& brought,
                                 const ProgramLimits& limits) {
  if (!cell.carry().has_value() || cell.inputs().size() == kMaxInputs) return std::nullopt;
  const absl::StatusOr<CellProgram> program = Lower(cell, limits);
  if (!program.ok()) return std::nullopt;  // who loads it says why
  HoistedCell hoisted;
  hoisted.sums = BegunSums(*program, brought);
  if (hoisted.sums.empty() || hoisted.sums.size() > kMaxColumns) return std::nullopt;
  hoisted.sums_input = InputId(static_cast<int64_t>(cell.inputs().size()));
  SumWriter writer(cell);
  for (size_t i = 0; i < hoisted.sums.size(); ++i) {
    if (!writer.Add(hoisted.sums[i])) return std::nullopt;
    hoisted.sums[i].at = {.kind = PlaceKind::kInput,
                          .index = static_cast<int32_t>(hoisted.sums_input.value()),
                          .column = static_cast<int32_t>(i)};
  }
  hoisted.reads = writer.reads();
  hoisted.eager = writer.Finish();
  if (hoisted.eager == nullptr) return std::nullopt;
  hoisted.after_input = InputId(static_cast<int64_t>(hoisted.reads.size()));
  hoisted.step = WithSums(cell, hoisted.eager->columns());
  if (hoisted.step == nullptr) return std::nullopt;
  return hoisted;
}

}  // namespace cellbatch

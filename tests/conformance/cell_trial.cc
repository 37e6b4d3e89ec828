#include "tests/conformance/cell_trial.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "cells/check.h"
#include "cells/compile/lower.h"
#include "cells/device/cpu/core_team.h"
#include "cells/device/cpu/cpu_limits.h"
#include "tests/testing/builders.h"

namespace cellbatch::conformance {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

int32_t Bits(float f) {
  int32_t bits;
  std::memcpy(&bits, &f, sizeof(bits));
  return bits;
}

double Number(const ColumnArray& column, float f) {
  return column.type == ElementType::kInt32 ? Bits(f) : static_cast<double>(f);
}

}  // namespace

CellTrial::CellTrial(CellDefinition definition, uint64_t seed, const kernels::CpuKernels& kernels,
                     int32_t words, const std::set<std::string>& positive) {
  type_.name = definition.name();
  type_.weights = testing::RandomWeights(definition, seed);
  type_.definition = std::make_shared<const CellDefinition>(std::move(definition));
  absl::StatusOr<CellProgram> program = Lower(*type_.definition, kCpuLimits);
  Check(program.ok(), program.status().ToString());
  packed_ = std::make_unique<PackedCell>(type_, *std::move(program), std::vector<int>(), kernels);
  for (const Input& input : type_.definition->inputs()) {
    columns_.inputs.emplace_back();
    for (const Column& c : input.reads) {
      columns_.inputs.back().push_back(Make(c, kRows));
      Fill(columns_.inputs.back().back(), seed * 77 + memory_.size(), words,
           positive.contains(input.name + "." + c.name));
    }
  }
}

ColumnArray CellTrial::Make(const Column& column, int32_t rows) {
  ColumnArray made = {
      .stride = kernels::PaddedStride(column.width), .width = column.width, .type = column.type};
  memory_.emplace_back(made.stride * rows);
  made.base = memory_.back().data();
  return made;
}

void CellTrial::Fill(const ColumnArray& column, uint64_t seed, int32_t words, bool positive) const {
  const std::vector<float> values = testing::RandomFloats(int64_t{kRows} * column.width, seed);
  for (int32_t r = 0; r < kRows; ++r) {
    for (int32_t u = 0; u < column.width; ++u) {
      float value = values[Index(r * column.width + u)];
      if (positive) value = std::abs(value) + 0.1f;
      if (column.type == ElementType::kInt32) {
        const auto word =
            static_cast<int32_t>((value + 1.0f) * 0.4999f * static_cast<float>(words));
        std::memcpy(&value, &word, sizeof(value));
      }
      column.At(r)[u] = value;
    }
  }
}

// Any row of the table once, or none to three of them.
std::vector<Row> CellTrial::RowsOf(size_t input, int32_t node) const {
  const auto row = [&](int32_t i) {
    return (node * 7 + i * 3 + static_cast<int32_t>(input)) % kRows;
  };
  if (type_.definition->inputs()[input].arity == Arity::kOne) return {row(0)};
  std::vector<Row> rows;
  for (int32_t i = 0; i < (node + static_cast<int32_t>(input)) % 4; ++i) rows.push_back(row(i));
  return rows;
}

void CellTrial::Run(int32_t nodes) {
  columns_.outputs.clear();
  for (const Column& c : type_.definition->columns()) columns_.outputs.push_back(Make(c, nodes));
  std::vector<std::vector<Row>> rows(type_.definition->inputs().size());
  std::vector<std::vector<int32_t>> offsets(rows.size(), {0});
  InputRows inputs[kMaxInputs];
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int32_t node = 0; node < nodes; ++node) {
      for (const Row row : RowsOf(i, node)) rows[i].push_back(row);
      offsets[i].push_back(static_cast<int32_t>(rows[i].size()));
    }
    const bool sums = type_.definition->inputs()[i].arity == Arity::kSum;
    inputs[i] = {rows[i].data(), sums ? offsets[i].data() : nullptr};
  }
  std::vector<Row> out;
  for (int32_t node = 0; node < nodes; ++node) out.push_back(node);
  CoreTeam team(1, {}, {});
  std::vector<kernels::ProductScratch> product_scratch(1);
  CellScratch scratch({&packed_->program()});
  RunCell(*packed_, columns_, {nodes, inputs, out.data()}, scratch, {&team, &product_scratch});
}

std::vector<RowValues> CellTrial::Inputs(int32_t node) const {
  std::vector<RowValues> inputs;
  for (size_t i = 0; i < columns_.inputs.size(); ++i) {
    inputs.push_back(ZeroRow(type_.definition->inputs()[i]));
    for (const Row row : RowsOf(i, node)) {
      for (size_t c = 0; c < columns_.inputs[i].size(); ++c) {
        const ColumnArray& column = columns_.inputs[i][c];
        for (int32_t u = 0; u < column.width; ++u) {
          inputs[i][c][Index(u)] += Number(column, column.At(row)[u]);
        }
      }
    }
  }
  return inputs;
}

std::vector<std::vector<float>> CellTrial::Left(int32_t node) const {
  std::vector<std::vector<float>> left;
  for (const ColumnArray& c : columns_.outputs) left.emplace_back(c.At(node), c.At(node) + c.width);
  return left;
}

RowValues CellTrial::LeftValues(int32_t node) const {
  RowValues values;
  for (const ColumnArray& c : columns_.outputs) {
    values.emplace_back();
    for (int32_t u = 0; u < c.width; ++u) values.back().push_back(Number(c, c.At(node)[u]));
  }
  return values;
}

}  // namespace cellbatch::conformance

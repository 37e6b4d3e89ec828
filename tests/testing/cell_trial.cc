#include "tests/testing/cell_trial.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "cells/check.h"
#include "cells/compile/apply_plan.h"
#include "cells/compile/at_each_node.h"
#include "cells/compile/lower.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"

namespace cellbatch::testing {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

double Number(const ColumnArray& column, float f) {
  return column.type == ElementType::kInt32 ? std::bit_cast<int32_t>(f) : static_cast<double>(f);
}

absl::StatusOr<CellProgram> Compile(const CellDefinition& cell, const TrialOptions& options) {
  const ProgramLimits limits = options.limits.In(options.limits.Computed(options.precision));
  if (!options.plan && options.prepare) return Lower(cell, limits);
  absl::StatusOr<CellSkeleton> skeleton = MakeSkeleton(cell, limits);
  if (!skeleton.ok()) return skeleton.status();
  if (!options.prepare) skeleton = ComputedAtEachNode(cell, *std::move(skeleton));
  const CellPlan plan = options.plan ? options.plan(*skeleton) : PlanCell(*skeleton);
  return ApplyPlan(*skeleton, plan, limits);
}

std::vector<int> FoldableSteps(const CellProgram& program) {
  std::vector<int> steps;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const auto* const p = std::get_if<ProductStep>(&program.steps[s]);
    if (p == nullptr || p->segments.empty()) continue;
    if (p->segments[0].source.kind == PlaceKind::kTableRow) steps.push_back(static_cast<int>(s));
  }
  return steps;
}

// Each row of a matrix as int8 times its scale. REQUIRES: all matrices are weights of products, a row for each unit.
Weights DequantisedRows(const CellDefinition& cell, const Weights& weights) {
  Weights meant = weights;
  for (size_t p = 0; p < weights.size(); ++p) {
    const Shape shape = cell.parameters()[p].shape;
    if (shape.rows == 1) continue;
    std::shared_ptr<float[]> values(new float[Index(shape.size())]);
    for (int64_t row = 0; row < shape.rows; ++row) {
      const float* const from = weights[p].data.get() + row * shape.cols;
      float largest = 0.0f;
      for (int k = 0; k < shape.cols; ++k) largest = std::max(largest, std::abs(from[k]));
      const float scale = largest / 127.0f;
      for (int k = 0; k < shape.cols; ++k) {
        // In fp32, whose rounding is far below the bound.
        values[row * shape.cols + k] = std::nearbyint(from[k] / double{scale}) * scale;
      }
    }
    meant[p].data = std::move(values);
  }
  return meant;
}

}  // namespace

CellTrial::CellTrial(CellDefinition definition, uint64_t seed, const kernels::CpuKernels& kernels,
                     const TrialOptions& options)
    : options_(options), rows_(definition, options.rows, options.rows) {
  type_.name = definition.name();
  type_.weights = RandomWeights(definition, seed);
  type_.definition = std::make_shared<const CellDefinition>(std::move(definition));
  options_.limits.splits = kernels.split_to_bf16 != nullptr;
  absl::StatusOr<CellProgram> program = Compile(*type_.definition, options_);
  Check(program.ok(), program.status().ToString());
  CellFolds folds;
  folds.whole = options_.fold_whole;
  if (options_.fold) folds.steps = FoldableSteps(*program);
  type_.precision = options_.precision;
  program->precision = options_.limits.Computed(options_.precision);
  counted_bytes_ = PackedBytes(*type_.definition, *program, folds);
  packed_ = std::make_unique<PackedCell>(type_, *std::move(program), folds, kernels);
  if (options_.batched) {
    std::optional<kernels::OpenBlas> blas;
    if (options_.vendor_products) {
      absl::StatusOr<kernels::OpenBlas> loaded = kernels::OpenBlas::Load();
      Check(loaded.ok(), loaded.status().ToString());
      blas = *std::move(loaded);
    }
    batched_ = std::make_unique<BatchedCell>(type_, options_.batched(*type_.definition), kernels,
                                             std::move(blas));
  }
  uint64_t column_seed = seed * 77;
  for (size_t i = 0; i < type_.definition->inputs().size(); ++i) {
    const Input& input = type_.definition->inputs()[i];
    for (size_t c = 0; c < input.reads.size(); ++c) {
      const bool positive = options_.positive.contains(input.name + "." + input.reads[c].name);
      Fill(rows_.columns().inputs[i][c], ++column_seed, positive);
    }
  }
  if (options_.zero_row) rows_.ZeroRow();
}

void CellTrial::Fill(const ColumnArray& column, uint64_t seed, bool positive) const {
  const std::vector<float> values = RandomFloats(int64_t{options_.rows} * column.width, seed);
  const float words = 0.4999f * static_cast<float>(options_.words);
  for (int32_t r = 0; r < options_.rows; ++r) {
    for (int32_t u = 0; u < column.width; ++u) {
      const float value = values[Index(int64_t{r} * column.width + u)];
      if (column.type == ElementType::kInt32) {
        column.Int32At(r)[u] = static_cast<int32_t>((value + 1.0f) * words);
      } else {
        column.At(r)[u] = positive ? std::abs(value) + 0.1f : value;
      }
    }
  }
}

void CellTrial::Run(int32_t nodes) {
  reads_.assign(type_.definition->inputs().size(), {});
  for (int32_t i = 0; i < static_cast<int32_t>(reads_.size()); ++i) {
    const bool sums = type_.definition->inputs()[Index(i)].arity == Arity::kSum;
    for (int32_t node = 0; node < nodes; ++node) {
      std::vector<Row> rows;
      for (int32_t n = 0; n < (sums ? (node + i) % 4 : 1); ++n) {
        rows.push_back((node * 7 + n * 3 + i) % options_.rows);
      }
      reads_[Index(i)].push_back(std::move(rows));
    }
  }
  CoreTeam team(1, {}, {});
  RunReads(nodes, team);
}

void CellTrial::Run(const std::vector<Row>& rows, CoreTeam& team, int32_t arity) {
  reads_.assign(type_.definition->inputs().size(), {});
  for (size_t i = 0; i < reads_.size(); ++i) {
    const bool sums = type_.definition->inputs()[i].arity == Arity::kSum;
    for (const Row first : rows) {
      std::vector<Row> read;
      for (int32_t n = 0; n < (sums ? arity : 1); ++n) read.push_back((first + n) % options_.rows);
      reads_[i].push_back(std::move(read));
    }
  }
  RunReads(static_cast<int32_t>(rows.size()), team);
}

void CellTrial::RunReads(int32_t nodes, CoreTeam& team) {
  Check(nodes <= options_.rows, "as many rows as nodes");
  std::vector<Row> out;
  for (Row node = 0; node < nodes; ++node) out.push_back(node);
  if (batched_ != nullptr) {
    BatchedScratch scratch(batched_->program(), nodes);
    return rows_.WithLists(*type_.definition, reads_, out, [&](const NodeLists& lists) {
      counts_ = RunBatched(*batched_, rows_.columns(), lists, scratch);
    });
  }
  if (options_.run) {
    return rows_.WithLists(*type_.definition, reads_, out, [&](const NodeLists& lists) {
      options_.run(*packed_, rows_.columns(), lists);
    });
  }
  std::vector<kernels::ProductScratch> product_scratch(Index(team.threads()));
  CellScratch scratch({&packed_->program()});
  rows_.Run(*packed_, reads_, out, scratch, {&team, &product_scratch});
}

std::vector<RowValues> CellTrial::Inputs(int32_t node) const {
  std::vector<RowValues> inputs;
  for (size_t i = 0; i < reads_.size(); ++i) {
    inputs.push_back(ZeroRow(type_.definition->inputs()[i]));
    for (const Row row : reads_[i][Index(node)]) {
      for (size_t c = 0; c < inputs[i].size(); ++c) {
        const ColumnArray& column = rows_.columns().inputs[i][c];
        for (int32_t u = 0; u < column.width; ++u) {
          inputs[i][c][Index(u)] += Number(column, column.At(row)[u]);
        }
      }
    }
  }
  return inputs;
}

RowValues CellTrial::LeftValues(int32_t node) const {
  RowValues values;
  for (const ColumnArray& c : rows_.columns().outputs) {
    values.emplace_back();
    for (int32_t u = 0; u < c.width; ++u) values.back().push_back(Number(c, c.At(node)[u]));
  }
  return values;
}

RowValues CellTrial::Expected(int32_t node) const {
  if (options_.precision == Precision::kW8) {
    const Weights meant = DequantisedRows(*type_.definition, type_.weights);
    return InterpretNode(*type_.definition, meant, Inputs(node));
  }
  return InterpretNode(*type_.definition, type_.weights, Inputs(node));
}

std::string CellTrial::Disagreement(int32_t node) const {
  const RowValues expected = Expected(node), got = LeftValues(node);
  for (size_t c = 0; c < expected.size(); ++c) {
    double error = 0, norm = 0, most = 0, worst = 0;
    for (size_t u = 0; u < expected[c].size(); ++u) {
      const double off = got[c][u] - expected[c][u];
      error += off * off;
      norm += expected[c][u] * expected[c][u];
      worst = std::max(worst, std::abs(off));
      most = std::max(most, std::abs(expected[c][u]));
    }
    // NaN agrees with nothing.
    if (std::sqrt(error) <= 1e-5 * std::sqrt(norm) + 1e-30 && worst <= 1e-5 * std::max(1.0, most)) {
      continue;
    }
    return fmt::format("cell \"{}\" node {} column {}: off by {} of {}, at worst {} of {}\n{}",
                       type_.name, node, c, std::sqrt(error), std::sqrt(norm), worst, most,
                       Describe(packed_->program()));
  }
  return "";
}

}  // namespace cellbatch::testing

// CpuMemory::Account: what computes each step, and what is computed once, at load.
#include <algorithm>
#include <utility>
#include <variant>

#include "cells/check.h"
#include "cells/device/cpu/cpu_memory.h"
#include "cells/kernels/cpu/tail_code.h"
#include "cells/kernels/cpu/tail_shape.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using kernels::TailShape;

// A few structures have a kernel of their own.
std::string KernelOf(const TailProgram& tail) {
  switch (kernels::ClassifyTail(tail).shape) {
    case TailShape::kGeneral:
      return fmt::format("kernel of any tail, {} instructions",
                         kernels::MakeTailCode(tail).instructions.size());
    case TailShape::kIdentity:
      return "kernel of its own: sums alone";
    case TailShape::kSigmoid:
      return "kernel of its own: sigmoid";
    case TailShape::kTanh:
      return "kernel of its own: tanh";
    case TailShape::kRelu:
      return "kernel of its own: relu";
    case TailShape::kGatedCell:
      return "kernel of its own: gated cell (LSTM)";
    case TailShape::kGatedUpdate:
      return "kernel of its own: gated update (GRU)";
  }
  NoSuchEnumerator();
}

struct StepAccount {
  bool folded = false;

  std::string operator()(const SumStep&) const { return "rows added in the order of their links"; }
  std::string operator()(const IndexStep&) const { return "tokens read, clamped"; }
  std::string operator()(const PlainStep&) const { return "row by row"; }
  std::string operator()(const ProductStep& product) const {
    if (product.groups() == 0) {
      return "element-wise; " + KernelOf(product.tail);
    }
    const std::string from = folded ? "starts from a folded row; " : "";
    if (product.arg_max.has_value()) return from + "keeps the largest, stores no row";
    return from + KernelOf(product.tail);
  }
};

PreparedPart FoldedPart(const CellDefinition& cell, const CellProgram& program, int step) {
  const auto& product = std::get<ProductStep>(program.steps[static_cast<size_t>(step)]);
  const auto lookup = static_cast<size_t>(product.segments[0].source.index);
  const LookupSpec& spec = program.lookups[lookup];
  const auto table = static_cast<size_t>(spec.table.value());
  return {fmt::format("folded table: \"{}\" times the weights of step {}, {} rows",
                      cell.parameters()[table].name, step, spec.rows),
          FoldedRowFloats(product) * spec.rows * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

absl::StatusOr<ModelAccount> CpuMemory::Account(const Model& model) const {
  const absl::StatusOr<Plan> plan = PlanCells(model);
  if (!plan.ok()) return plan.status();
  ModelAccount account;
  account.kernels = kernels_.name;
  for (size_t t = 0; t < plan->programs.size(); ++t) {
    const CellProgram& program = plan->programs[t];
    const std::vector<int>& folded = plan->folded[t];
    CellAccount& cell = account.types.emplace_back();
    cell.weight_bytes = PackedBytes(program, folded);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const bool fold =
          std::find(folded.begin(), folded.end(), static_cast<int>(s)) != folded.end();
      cell.steps.push_back(std::visit(StepAccount{fold}, program.steps[s]));
    }
    for (const int step : folded) {
      cell.prepared.push_back(FoldedPart(*model.types[t].definition, program, step));
    }
  }
  return account;
}

}  // namespace cellbatch

// CpuMemory::Account: what computes each step, and what is computed once, at load.
#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "cells/check.h"
#include "cells/device/cpu/cpu_memory.h"
#include "cells/kernels/cpu/product_limits.h"
#include "cells/kernels/cpu/tail_code.h"
#include "cells/kernels/cpu/tail_shape.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using kernels::TailShape;

// A few structures have a kernel of their own.
std::string KernelOf(const ProductStep& product) {
  switch (kernels::ClassifyTail(product.tail).shape) {
    case TailShape::kGeneral:
      return fmt::format(
          "kernel of any tail, {} instructions{}",
          kernels::MakeTailCode(product.tail).instructions.size(),
          product.units < kernels::kLanes ? "" : ", compiled where the CPU has AVX-512");
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
  Precision precision;
  bool folded = false;  // its first segment

  std::string operator()(const SumStep&) const { return "rows added in the order of their links"; }
  std::string operator()(const IndexStep&) const { return "tokens read, clamped"; }
  std::string operator()(const PlainStep&) const { return "row by row"; }
  std::string operator()(const ProductStep& product) const {
    if (product.groups() == 0) {
      return "element-wise; " + KernelOf(product);
    }
    std::string from = precision == Precision::kFp32 ? "" : fmt::format("in {}; ", Name(precision));
    if (folded) from += "starts from a folded row; ";
    if (!product.starts.empty()) from += "starts from hoisted sums; ";
    if (product.arg_max.has_value()) return from + "keeps the largest, stores no row";
    return from + KernelOf(product);
  }
};

const LookupSpec& LookupOf(const CellProgram& program, int32_t lookup) {
  return program.lookups[static_cast<size_t>(lookup)];
}

PreparedPart FoldedPart(const CellDefinition& cell, const CellProgram& program, int step) {
  const auto& product = std::get<ProductStep>(program.steps[static_cast<size_t>(step)]);
  const LookupSpec& spec = LookupOf(program, product.segments[0].source.index);
  const auto table = static_cast<size_t>(spec.table.value());
  const std::string name =
      table < cell.parameters().size() ? cell.parameters()[table].name : "a table computed at load";
  return {fmt::format("folded table: \"{}\" times the weights of step {}, {} rows", name, step,
                      spec.rows),
          FoldedRowFloats(product) * spec.rows * static_cast<int64_t>(sizeof(float))};
}

PreparedPart ComputedPart(const CellDefinition& cell, const PreparedParameter& prepared) {
  std::string of;
  for (const ParameterId p : prepared.of) {
    const std::string& name = cell.parameters()[static_cast<size_t>(p.value())].name;
    of += fmt::format("{}\"{}\"", of.empty() ? "" : ", ", name);
  }
  return {
      fmt::format("computed of {} alone: {} values", of.empty() ? "constants" : of, prepared.width),
      BytesOf(prepared)};
}

std::string Rate(const FoldOffer& offer, const char* what_became) {
  const std::string table = offer.step == FoldOffer::kWhole
                                ? "of the whole cell"
                                : fmt::format("for step {}", offer.step);
  return fmt::format("table {}, {} bytes: a task of {} nodes saves {:.2f} multiply-adds a byte; {}",
                     table, offer.bytes, kFoldBatch, offer.rate, what_became);
}

CellAccount AccountOf(const CellDefinition& cell, const CellProgram& program,
                      const CellFolds& folds) {
  CellAccount account;
  account.weight_bytes = PackedBytes(cell, program, folds);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const bool fold =
        std::find(folds.steps.begin(), folds.steps.end(), static_cast<int>(s)) != folds.steps.end();
    const std::string by = std::visit(StepAccount{program.precision, fold}, program.steps[s]);
    account.steps.push_back(folds.whole ? "at load, for each token; " + by : by);
  }
  for (const PreparedParameter& prepared : program.prepared) {
    if (!folds.whole) account.prepared.push_back(ComputedPart(cell, prepared));
  }
  for (const int step : folds.steps) account.prepared.push_back(FoldedPart(cell, program, step));
  if (folds.whole) {
    const int32_t rows = LookupOf(program, *LookupOfWhole(program)).rows;
    account.prepared.push_back(
        {fmt::format("whole cell: what it leaves for each token, {} rows", rows), folds.bytes});
  }
  for (const FoldOffer& offer : folds.taken) account.folds.push_back(Rate(offer, "made"));
  for (const FoldOffer& offer : folds.refused) {
    account.folds.push_back(Rate(offer, "no room in the budget"));
  }
  return account;
}

}  // namespace

absl::StatusOr<ModelAccount> CpuMemory::Account(const Model& model) const {
  absl::StatusOr<Plan> plan = PlanCells(model);
  if (!plan.ok()) return plan.status();
  if (std::optional<ModelFolds> taken = fold_budget_.FoldsOf(model); taken.has_value()) {
    plan->folds = *std::move(taken);
  }
  ModelAccount account;
  account.kernels = kernels_.name;
  for (size_t t = 0; t < plan->programs.size(); ++t) {
    account.types.push_back(
        AccountOf(*model.types[t].definition, plan->programs[t], plan->folds[t]));
  }
  return account;
}

}  // namespace cellbatch

#include "memplan/naive_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace cellbatch {
namespace {

MemoryLayout InDeclarationOrder(const LayoutProblem& problem, bool pack) {
  const std::vector<int> run_of = FixedRunOf(problem);
  std::vector<VariableId> order;
  for (size_t v = 0; v < problem.variables.size(); ++v) {
    if (run_of[v] < 0) order.push_back(static_cast<VariableId>(v));
  }
  std::vector<std::vector<int32_t>> operator_order;
  for (const OperandBatch& batch : problem.batches) {
    std::vector<int32_t>& operators = operator_order.emplace_back(batch.size());
    std::iota(operators.begin(), operators.end(), 0);
    const Operand& result = batch.operands[0];
    std::sort(operators.begin(), operators.end(),
              [&](int32_t a, int32_t b) { return result[a] < result[b]; });
  }
  return LayOut(problem, std::move(order), std::move(operator_order), pack);
}

}  // namespace

absl::StatusOr<MemoryLayout> NaiveLayout(const LayoutProblem& problem) {
  if (absl::Status status = CheckProblem(problem); !status.ok()) return status;
  return InDeclarationOrder(problem, /*pack=*/false);
}

MemoryLayout NaivePackedLayout(const LayoutProblem& problem) {
  return InDeclarationOrder(problem, /*pack=*/true);
}

}  // namespace cellbatch

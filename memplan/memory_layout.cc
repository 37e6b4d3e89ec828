#include "memplan/memory_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace cellbatch {
namespace {

class Placer {
 public:
  explicit Placer(const LayoutProblem& problem)
      : problem_(problem), run_of_(FixedRunOf(problem)), rank_(problem.variables.size(), 0) {}

  void Place(MemoryLayout& layout) {
    layout.offset.assign(problem_.variables.size(), kElsewhere);
    for (size_t i = 0; i < layout.order.size(); ++i) {
      const VariableId v = layout.order[i];
      layout.offset[v] = layout.bytes;
      layout.bytes += problem_.variables[v].bytes;
      rank_[v] = static_cast<int64_t>(i);
    }
    for (const auto& run : problem_.fixed) {
      for (size_t i = 0; i < run.size(); ++i) rank_[run[i]] = static_cast<int64_t>(i);
    }
  }

  // Why an operand, in operator order, does not lie in place; none: it does.
  std::optional<CopyReason> WhyCopied(const Operand& in_order) const {
    std::set<VariableId> distinct(in_order.begin(), in_order.end());
    if (distinct.size() == in_order.size()) return WhyNotNeighbours(in_order);
    const bool constant = IsConstant(problem_, in_order);
    if (constant && distinct.size() == 1) return std::nullopt;
    if (constant || problem_.broadcasts == Broadcasts::kCopied) return CopyReason::kBroadcast;
    return IsBlocks(in_order, distinct.size()) ? std::nullopt : WhyNotRuns(in_order);
  }

 private:
  std::optional<CopyReason> WhyNotNeighbours(const Operand& operand) const {
    for (VariableId v : operand) {
      if (run_of_[v] != run_of_[operand[0]]) return CopyReason::kPlaces;
    }
    for (size_t i = 1; i < operand.size(); ++i) {
      if (rank_[operand[i]] != rank_[operand[i - 1]] + 1) return CopyReason::kConflict;
    }
    return std::nullopt;
  }

  // The same neighbours again and again.
  bool IsBlocks(const Operand& operand, size_t block) const {
    if (operand.size() % block != 0) return false;
    for (size_t i = block; i < operand.size(); ++i) {
      if (operand[i] != operand[i - block]) return false;
    }
    return !WhyNotNeighbours(Operand(operand.begin(), operand.begin() + block)).has_value();
  }

  // Repetitions next to each other, and what is not repeated next to each other and in place.
  std::optional<CopyReason> WhyNotRuns(const Operand& operand) const {
    std::map<VariableId, int> times;
    for (VariableId v : operand) ++times[v];
    Operand singles;
    bool conflict = false;
    for (size_t i = 0; i < operand.size(); ++i) {
      const bool again = i > 0 && operand[i] == operand[i - 1];
      if (times[operand[i]] == 1) {
        conflict |= !singles.empty() && operand[i - 1] != singles.back();
        singles.push_back(operand[i]);
      } else if (!again) {
        // Its repetitions must all be here: then this is the only time one begins.
        const size_t end = i + times[operand[i]];
        conflict |= end > operand.size() || operand[end - 1] != operand[i];
      }
    }
    const std::optional<CopyReason> why = WhyNotNeighbours(singles);
    if (why.has_value()) return why;
    return conflict ? std::optional(CopyReason::kConflict) : std::nullopt;
  }

  const LayoutProblem& problem_;
  const std::vector<int> run_of_;
  std::vector<int64_t> rank_;  // among the neighbours in its place
};

}  // namespace

MemoryLayout LayOut(const LayoutProblem& problem, std::vector<VariableId> order,
                    std::vector<std::vector<int32_t>> operator_order, bool pack) {
  MemoryLayout layout;
  layout.order = std::move(order);
  layout.operator_order = std::move(operator_order);
  Placer placer(problem);
  placer.Place(layout);
  Operand in_order;
  for (size_t b = 0; b < problem.batches.size(); ++b) {
    const OperandBatch& batch = problem.batches[b];
    for (size_t o = 0; o < batch.operands.size(); ++o) {
      in_order.clear();
      for (int32_t i : layout.operator_order[b]) in_order.push_back(batch.operands[o][i]);
      const std::optional<CopyReason> why = placer.WhyCopied(in_order);
      if (!why.has_value()) continue;
      const OperandRef where = {static_cast<int32_t>(b), static_cast<int32_t>(o)};
      if (pack && IsConstant(problem, in_order)) {
        layout.packed.push_back(where);
      } else {
        layout.copies.push_back({where, *why, OperandBytes(problem, in_order)});
      }
    }
  }
  return layout;
}

}  // namespace cellbatch

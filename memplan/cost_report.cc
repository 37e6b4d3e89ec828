#include "memplan/cost_report.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {
namespace {

bool IsListed(const MemoryLayout& layout, const OperandRef& where) {
  const auto copied =
      std::lower_bound(layout.copies.begin(), layout.copies.end(), where,
                       [](const OperandCopy& copy, const OperandRef& w) { return copy.where < w; });
  if (copied != layout.copies.end() && copied->where == where) return true;
  return std::binary_search(layout.packed.begin(), layout.packed.end(), where);
}

// Where an operand that lies in place starts anew: positions in operator order.
void AddCuts(const LayoutProblem& problem, const MemoryLayout& layout, const Operand& in_order,
             std::set<int>& cuts) {
  std::vector<std::pair<VariableId, int>> stretches;  // variable, times
  for (VariableId v : in_order) {
    if (!stretches.empty() && stretches.back().first == v) {
      ++stretches.back().second;
    } else {
      stretches.push_back({v, 1});
    }
  }
  const bool repeats = stretches.size() < in_order.size();
  if (!repeats || stretches.size() == 1) return;
  bool regular = true;  // equally often, and the variables neighbours: two strides say it
  for (size_t i = 1; i < stretches.size(); ++i) {
    const auto [before, times] = stretches[i - 1];
    regular &= stretches[i].second == times && layout.offset[before] != kElsewhere &&
               layout.offset[stretches[i].first] ==
                   layout.offset[before] + problem.variables[before].bytes;
  }
  if (regular) return;
  int at = 0;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const bool goes_on = i > 0 && stretches[i].second == 1 && stretches[i - 1].second == 1;
    if (i > 0 && !goes_on) cuts.insert(at);
    at += stretches[i].second;
  }
}

std::string Names(const LayoutProblem& problem, const Operand& operand) {
  std::string names;
  for (VariableId v : operand) names += (names.empty() ? "" : " ") + problem.variables[v].name;
  return "(" + names + ")";
}

std::string_view Reason(CopyReason reason) {
  switch (reason) {
    case CopyReason::kBroadcast:
      return "repeats a variable";
    case CopyReason::kPlaces:
      return "takes variables from several places";
    case CopyReason::kConflict:
      return "does not lie side by side in this order";
  }
  return "";
}

}  // namespace

std::vector<int> LaunchesOfBatches(const LayoutProblem& problem, const MemoryLayout& layout) {
  std::vector<int> launches;
  for (size_t b = 0; b < problem.batches.size(); ++b) {
    std::set<int> cuts;
    for (size_t o = 0; o < problem.batches[b].operands.size(); ++o) {
      if (IsListed(layout, {static_cast<int32_t>(b), static_cast<int32_t>(o)})) continue;
      Operand in_order;
      for (int32_t i : layout.operator_order[b])
        in_order.push_back(problem.batches[b].operands[o][i]);
      AddCuts(problem, layout, in_order, cuts);
    }
    launches.push_back(1 + static_cast<int>(cuts.size()));
  }
  return launches;
}

CostReport Cost(const LayoutProblem& problem, const MemoryLayout& layout) {
  CostReport report;
  report.num_batches = static_cast<int>(problem.batches.size());
  for (int launches : LaunchesOfBatches(problem, layout)) report.launches += launches;
  for (const OperandCopy& copy : layout.copies) {
    (copy.is_scatter() ? report.scatters : report.gathers) += 1;
    (copy.is_scatter() ? report.scatter_bytes : report.gather_bytes) += copy.bytes;
  }
  for (VariableId v : layout.order) {
    if (problem.variables[v].kind != VariableKind::kInput) continue;
    ++report.input_gathers;
    report.input_bytes += problem.variables[v].bytes;
  }
  report.plan_bytes = layout.bytes;
  for (const OperandRef& packed : layout.packed) {
    report.packed_bytes +=
        OperandBytes(problem, problem.batches[packed.batch].operands[packed.operand]);
  }
  return report;
}

std::string Describe(const LayoutProblem& problem, const MemoryLayout& layout) {
  const CostReport cost = Cost(problem, layout);
  std::string text =
      fmt::format("{} batches in {} launches; {} copies of {} bytes ({} gathers, {} scatters){}\n",
                  cost.num_batches, cost.launches, cost.kernels(), cost.bytes(), cost.gathers,
                  cost.scatters, layout.least ? "; no layout copies fewer bytes" : "");
  text += fmt::format(
      "{} inputs of {} bytes brought to their places; {} bytes of constants stored twice at load\n",
      cost.input_gathers, cost.input_bytes, cost.packed_bytes);
  for (const OperandCopy& copy : layout.copies) {
    const OperandBatch& batch = problem.batches[copy.where.batch];
    text += fmt::format("  {} {} operand {} {} {} bytes: {}\n",
                        copy.is_scatter() ? "scatter" : "gather", batch.name, copy.where.operand,
                        Names(problem, batch.operands[copy.where.operand]), copy.bytes,
                        Reason(copy.reason));
  }
  for (const OperandRef& where : layout.packed) {
    const OperandBatch& batch = problem.batches[where.batch];
    text += fmt::format("  packed at load: {} operand {} {}\n", batch.name, where.operand,
                        Names(problem, batch.operands[where.operand]));
  }
  return text;
}

}  // namespace cellbatch

#include "memplan/independent_parts.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

namespace cellbatch {
namespace {

// Which leaves hang together.
class Islands {
 public:
  explicit Islands(int num_leaves) : parent_(static_cast<size_t>(num_leaves)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int Find(int leaf) {
    while (parent_[leaf] != leaf) leaf = parent_[leaf] = parent_[parent_[leaf]];
    return leaf;
  }
  template <typename Leaves>
  void Join(int with, const Leaves& leaves) {
    for (const int leaf : leaves) parent_[Find(leaf)] = Find(with);
  }

 private:
  std::vector<int> parent_;
};

// Moves what a part needs of the whole into it, under new numbers.
class Builder {
 public:
  Builder(const LayoutProblem& whole, PlanPart& part) : whole_(whole), part_(part) {
    part_.problem.broadcasts = whole.broadcasts;
  }
  void AddVariable(VariableId v) {
    number_[v] = static_cast<VariableId>(part_.problem.variables.size());
    part_.problem.variables.push_back({"", whole_.variables[v].kind, whole_.variables[v].bytes});
  }
  void AddOperand(const OperandRef& where) {
    if (part_.from.empty() || part_.from.back().back().batch != where.batch) {
      part_.from.emplace_back();
      part_.problem.batches.emplace_back();
    }
    part_.from.back().push_back(where);
    part_.problem.batches.back().operands.push_back(
        Renumbered(whole_.batches[where.batch].operands[where.operand]));
  }
  void AddFixed(const std::vector<VariableId>& run) {
    part_.problem.fixed.push_back(Renumbered(run));
  }

 private:
  std::vector<VariableId> Renumbered(std::vector<VariableId> variables) const {
    for (VariableId& v : variables) v = number_.at(v);
    return variables;
  }

  const LayoutProblem& whole_;
  PlanPart& part_;
  std::map<VariableId, VariableId> number_;
};

Islands FindIslands(const LayoutProblem& problem, const Wishes& wishes) {
  Islands islands(wishes.num_leaves());
  for (const auto& run : problem.fixed) {
    if (!run.empty()) islands.Join(run[0], run);
  }
  for (const Wish& wish : wishes.all()) {
    const int first = wishes.first_operator(wish.where.batch);
    for (int i = 0; i < problem.batches[wish.where.batch].size(); ++i) {
      islands.Join(first, std::vector<int>{first + i});
    }
    // All that the operand names, wherever an option uses it.
    islands.Join(first, problem.batches[wish.where.batch].operands[wish.where.operand]);
  }
  return islands;
}

}  // namespace

std::vector<PlanPart> IndependentParts(const LayoutProblem& problem, const Wishes& wishes) {
  Islands islands = FindIslands(problem, wishes);
  std::vector<OperandRef> wished;
  for (const Wish& wish : wishes.all()) wished.push_back(wish.where);
  std::sort(wished.begin(), wished.end());
  std::map<int, size_t> part_of;  // by island
  for (const OperandRef& where : wished) {
    part_of.try_emplace(islands.Find(wishes.first_operator(where.batch)), part_of.size());
  }
  std::vector<PlanPart> parts(part_of.size());
  std::vector<Builder> builders;
  for (PlanPart& part : parts) builders.emplace_back(problem, part);
  for (size_t v = 0; v < problem.variables.size(); ++v) {
    const auto part = part_of.find(islands.Find(static_cast<int>(v)));
    if (part != part_of.end()) builders[part->second].AddVariable(static_cast<VariableId>(v));
  }
  for (const OperandRef& where : wished) {
    builders[part_of.at(islands.Find(wishes.first_operator(where.batch)))].AddOperand(where);
  }
  for (const auto& run : problem.fixed) {
    if (run.empty()) continue;
    const auto part = part_of.find(islands.Find(run[0]));
    if (part != part_of.end()) builders[part->second].AddFixed(run);
  }
  return parts;
}

}  // namespace cellbatch

#include "memplan/wishes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "memplan/order_pass.h"

namespace cellbatch {

Price PriceOf(const LayoutProblem& problem, const MemoryLayout& layout) {
  Price price;
  for (const OperandCopy& copy : layout.copies) price = price + Price{copy.bytes, 1, 0};
  for (const OperandRef& packed : layout.packed) {
    price.packed_bytes +=
        OperandBytes(problem, problem.batches[packed.batch].operands[packed.operand]);
  }
  return price;
}

Wishes::Wishes(const LayoutProblem& problem) : problem_(problem), run_of_(FixedRunOf(problem)) {
  num_leaves_ = static_cast<int>(problem.variables.size());
  for (const OperandBatch& batch : problem.batches) {
    first_operator_.push_back(num_leaves_);
    if (batch.size() > 1) num_leaves_ += batch.size();
  }
  for (size_t b = 0; b < problem.batches.size(); ++b) {
    if (problem.batches[b].size() < 2) continue;
    for (size_t o = 0; o < problem.batches[b].operands.size(); ++o) {
      Add({static_cast<int32_t>(b), static_cast<int32_t>(o)});
    }
  }
  std::stable_sort(wishes_.begin(), wishes_.end(),
                   [](const Wish& a, const Wish& b) { return b.price < a.price; });
}

void Wishes::Add(OperandRef where) {
  const Operand& operand = problem_.batches[where.batch].operands[where.operand];
  const PqTree::NodeId first = first_operator_[where.batch];
  const int64_t bytes = OperandBytes(problem_, operand);
  Wish wish;
  wish.where = where;
  wish.price = IsConstant(problem_, operand) ? Price{0, 0, bytes} : Price{bytes, 1, 0};
  Operand sorted = operand;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    AddRepeated(operand, first, wish);
  } else if (InOnePlace(operand)) {
    AlignedPair& pair = wish.options.emplace_back().pairs.emplace_back();
    for (size_t i = 0; i < operand.size(); ++i) pair.left.push_back(first + static_cast<int>(i));
    pair.right = operand;
  }
  if (!wish.options.empty()) wishes_.push_back(std::move(wish));
}

// (x x h h y): operators that read one variable stand together; those that share with nobody stand together and in order of
// what they read. No option: no layout can grant it, or every layout does.
void Wishes::AddRepeated(const Operand& operand, PqTree::NodeId first, Wish& wish) {
  if (problem_.broadcasts == Broadcasts::kCopied || IsConstant(problem_, operand)) return;
  std::map<VariableId, std::vector<PqTree::NodeId>> readers_of;
  for (size_t i = 0; i < operand.size(); ++i) {
    readers_of[operand[i]].push_back(first + static_cast<int>(i));
  }
  if (readers_of.size() == 1) return;
  std::vector<std::vector<PqTree::NodeId>> readers;
  std::vector<VariableId> variables;
  WishOption runs;
  AlignedPair singles;
  for (const auto& [variable, operators] : readers_of) {
    variables.push_back(variable);
    readers.push_back(operators);
    if (operators.size() > 1) {
      runs.together.push_back(operators);
    } else {
      singles.left.push_back(operators[0]);
      singles.right.push_back(variable);
    }
  }
  if (InOnePlace(singles.right)) {
    if (singles.right.size() > 1) runs.pairs.push_back(std::move(singles));
    wish.options.push_back(std::move(runs));
  }
  AddBlocks(std::move(readers), variables, wish);
}

// (x h x h): as often as each variable is read, a block of operators that read each once, in the order of the variables,
// which are neighbours. Any reader of x may share a block with any reader of h.
void Wishes::AddBlocks(std::vector<std::vector<PqTree::NodeId>> readers,
                       const std::vector<VariableId>& block, Wish& wish) {
  const size_t times = readers[0].size();
  for (const auto& operators : readers) {
    if (operators.size() != times) return;
  }
  if (!InOnePlace(block)) return;
  for (;;) {
    if (wish.options.size() == kMaxWishOptions) {
      exhaustive_ = false;
      return;
    }
    WishOption& option = wish.options.emplace_back();
    for (size_t t = 0; t < times; ++t) {
      AlignedPair& pair = option.pairs.emplace_back();
      for (const auto& operators : readers) pair.left.push_back(operators[t]);
      pair.right = block;
    }
    // The next way: like a counter whose digits are the orders of the readers of each variable but the first.
    size_t digit = 1;
    while (digit < readers.size() &&
           !std::next_permutation(readers[digit].begin(), readers[digit].end()))
      ++digit;
    if (digit == readers.size()) return;
  }
}

bool Wishes::InOnePlace(const Operand& operand) const {
  return std::all_of(operand.begin(), operand.end(),
                     [&](VariableId v) { return run_of_[v] == run_of_[operand[0]]; });
}

std::optional<std::vector<PqTree::NodeId>> Wishes::Order(const Choice& chosen,
                                                         PlanTrace* trace) const {
  PqTree tree(num_leaves_);
  for (const auto& run : problem_.fixed) {
    for (size_t i = 1; i < run.size(); ++i)
      tree.Reduce(std::vector<PqTree::NodeId>{run[i - 1], run[i]});
  }
  std::vector<AlignedPair> pairs;
  for (size_t w = 0; w < wishes_.size(); ++w) {
    if (chosen[w] == kGivenUp) continue;
    const WishOption& option = wishes_[w].options[chosen[w]];
    for (const auto& operators : option.together) {
      if (!tree.Reduce(operators)) return std::nullopt;
    }
    for (const AlignedPair& pair : option.pairs) {
      if (!tree.Reduce(pair.left) || !tree.Reduce(pair.right)) return std::nullopt;
      pairs.push_back(pair);
    }
  }
  if (trace != nullptr) trace->adjacent = tree;
  if (!BroadcastConstraints(pairs, tree)) return std::nullopt;
  if (trace != nullptr) trace->alike = tree;
  return DecideOrder(pairs, problem_.fixed, tree);
}

}  // namespace cellbatch

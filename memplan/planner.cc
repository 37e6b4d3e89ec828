#include "memplan/planner.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "memplan/independent_parts.h"
#include "memplan/naive_layout.h"
#include "memplan/wishes.h"

namespace cellbatch {
namespace {

// Of the checks beyond the greedy ones of one search: a bound in work, not in time, so that plans do not depend on the machine.
constexpr int64_t kMaxLeavesLookedAt = 2'000'000;

// Which wishes to grant, and how, so that what is given up costs least.
class Search {
 public:
  // `work_left`: of all searches together.
  Search(const Wishes& wishes, int max_checks, int64_t& work_left)
      : wishes_(wishes),
        checks_left_(Affordable(wishes, max_checks)),
        work_left_(work_left),
        best_(wishes.all().size(), kGivenUp),
        best_price_(Dropped(best_)) {}

  // Everything, each by its first option; else each by its second, if it has one. True: all is granted.
  bool GrantAll() {
    Choice all(best_.size(), 0);
    if (TryKeep(all)) return true;
    bool other = false;
    for (size_t w = 0; w < all.size(); ++w) {
      all[w] = std::min<int8_t>(1, LastOption(wishes_.all()[w]));
      other |= all[w] > 0;
    }
    return other && MayTry() && TryKeep(all);
  }
  // Most expensive first, each if it can be granted beside those before it.
  void GrantGreedily() {
    Choice kept(best_.size(), kGivenUp);
    const int all = static_cast<int>(best_.size());
    // All of them, or one that was tried by its only option, were refused already.
    if (all == 1 && LastOption(wishes_.all()[0]) == 0) return;
    Greedy(0, all / 2, kept);
    Greedy(all / 2, all, kept);
  }
  // Looks for better ones, as far as the tries go. True: nothing cheaper can be given up.
  bool Improve() {
    return Branch(0, Choice(best_.size(), kGivenUp), Price{}) && wishes_.exhaustive();
  }

  const Choice& best() const { return best_; }
  // Of the last try.
  std::optional<std::vector<PqTree::NodeId>> TakeLeaves() { return std::move(leaves_); }

 private:
  static int8_t LastOption(const Wish& wish) {
    return static_cast<int8_t>(wish.options.size() - 1);
  }
  // One check looks at every leaf a few times.
  static int Affordable(const Wishes& wishes, int max_checks) {
    const int64_t affordable = kMaxLeavesLookedAt / (1 + wishes.num_leaves());
    return static_cast<int>(std::min<int64_t>(max_checks, affordable));
  }
  bool MayTry() const { return work_left_ > 0; }
  bool Possible(const Choice& chosen) {
    work_left_ -= wishes_.num_leaves();
    leaves_ = wishes_.Order(chosen, nullptr);
    return leaves_.has_value();
  }

  Price Dropped(const Choice& chosen) const {
    Price price;
    for (size_t w = 0; w < chosen.size(); ++w) {
      if (chosen[w] == kGivenUp) price = price + wishes_.all()[w].price;
    }
    return price;
  }

  // Remembers a choice if it can be granted and is the cheapest so far.
  bool TryKeep(const Choice& chosen) {
    if (!Possible(chosen)) return false;
    Keep(chosen);
    return true;
  }
  void Keep(const Choice& chosen) {
    const Price price = Dropped(chosen);
    if (price < best_price_) {
      best_price_ = price;
      best_ = chosen;
    }
  }

  // Grants the wishes begin..end beside `kept`, most expensive first, each if it can be granted beside those before it.
  // By halves: d wishes given up of n cost d * log n tries.
  void Greedy(int begin, int end, Choice& kept) {
    if (begin == end || !MayTry()) return;
    Choice with = kept;
    std::fill(with.begin() + begin, with.begin() + end, int8_t{0});
    const bool one = end - begin == 1;
    while (!TryKeep(with)) {
      if (!one) {
        const int middle = begin + (end - begin) / 2;
        Greedy(begin, middle, kept);
        Greedy(middle, end, kept);
        return;
      }
      if (with[begin]++ == LastOption(wishes_.all()[begin]) || !MayTry()) return;
    }
    kept = std::move(with);
  }

  // Every choice that gives up less than the best so far. `kept` (wishes before w) can be granted. False: out of tries.
  bool Branch(size_t w, Choice kept, Price dropped) {
    // With each wish there is the same question; the deeper calls are those that grant it.
    for (; w < kept.size(); ++w) {
      for (kept[w] = 0; kept[w] <= LastOption(wishes_.all()[w]); ++kept[w]) {
        if (!(dropped < best_price_)) return true;
        if (checks_left_-- <= 0 || !MayTry()) return false;
        if (!Possible(kept)) continue;
        Keep(kept);
        if (!Branch(w + 1, kept, dropped)) return false;
      }
      kept[w] = kGivenUp;
      dropped = dropped + wishes_.all()[w].price;
    }
    return true;
  }

  const Wishes& wishes_;
  int checks_left_;
  int64_t& work_left_;
  Choice best_;
  Price best_price_;
  std::optional<std::vector<PqTree::NodeId>> leaves_;
};

struct Chosen {
  Choice choice;
  bool least = true;
  std::optional<std::vector<PqTree::NodeId>> leaves =
      std::nullopt;  // where they were found already
};

// One of several parts, under search, for all that ask the same.
struct PartSearch {
  PartSearch(const PlanPart& of, int max_checks, int64_t& work_left)
      : part(of), wishes(of.problem), search(wishes, max_checks, work_left) {}

  const PlanPart& part;
  const Wishes wishes;
  Search search;
  bool all = false;  // is granted
};

// The names apart, which parts do not have: cells side by side are many times one problem.
bool IsSameQuestion(const LayoutProblem& a, const LayoutProblem& b) {
  return a.variables == b.variables && a.batches == b.batches && a.fixed == b.fixed;
}

// All are granted what can be had greedily before any is looked at longer, so that a bound on work takes proofs first.
Chosen ChooseByParts(const std::vector<PlanPart>& parts, const Wishes& wishes, int max_checks,
                     int64_t& work_left) {
  std::deque<PartSearch> searches;  // of different questions
  std::vector<PartSearch*> search_of;
  for (const PlanPart& part : parts) {
    const auto same = std::find_if(searches.begin(), searches.end(), [&](const PartSearch& s) {
      return IsSameQuestion(s.part.problem, part.problem);
    });
    if (same != searches.end()) {
      search_of.push_back(&*same);
      continue;
    }
    PartSearch& one = searches.emplace_back(part, max_checks, work_left);
    search_of.push_back(&one);
    one.all = one.search.GrantAll();
    if (!one.all) one.search.GrantGreedily();
  }
  std::map<OperandRef, size_t> number;
  for (size_t w = 0; w < wishes.all().size(); ++w) number[wishes.all()[w].where] = w;
  Chosen chosen = {Choice(wishes.all().size(), kGivenUp)};
  for (PartSearch& one : searches) {
    if (!one.all) chosen.least &= one.search.Improve();
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::vector<Wish>& asked = search_of[p]->wishes.all();
    for (size_t w = 0; w < asked.size(); ++w) {
      const OperandRef& where = asked[w].where;
      const OperandRef& of_whole = parts[p].from[where.batch][where.operand];
      chosen.choice[number.at(of_whole)] = search_of[p]->search.best()[w];
    }
  }
  return chosen;
}

Chosen Choose(const LayoutProblem& problem, const Wishes& wishes, int max_checks,
              int64_t& work_left) {
  Search whole(wishes, max_checks, work_left);
  if (whole.GrantAll()) return {whole.best(), true, whole.TakeLeaves()};
  const std::vector<PlanPart> parts = IndependentParts(problem, wishes);
  if (parts.size() > 1) return ChooseByParts(parts, wishes, max_checks, work_left);
  whole.GrantGreedily();
  const bool least = whole.Improve();
  return {whole.best(), least};
}

// From an order of all leaves to places and operator orders.
MemoryLayout FromLeaves(const LayoutProblem& problem, const Wishes& wishes,
                        const std::vector<PqTree::NodeId>& leaves) {
  const std::vector<int> run_of = FixedRunOf(problem);
  const int num_variables = static_cast<int>(problem.variables.size());
  std::vector<VariableId> order;
  std::vector<int64_t> rank(wishes.num_leaves());
  for (size_t i = 0; i < leaves.size(); ++i) {
    rank[leaves[i]] = static_cast<int64_t>(i);
    if (leaves[i] < num_variables && run_of[leaves[i]] < 0) order.push_back(leaves[i]);
  }
  std::vector<std::vector<int32_t>> operator_order;
  for (size_t b = 0; b < problem.batches.size(); ++b) {
    std::vector<int32_t>& operators = operator_order.emplace_back(problem.batches[b].size());
    std::iota(operators.begin(), operators.end(), 0);
    if (operators.size() < 2) continue;
    const PqTree::NodeId first = wishes.first_operator(static_cast<int>(b));
    std::sort(operators.begin(), operators.end(),
              [&](int32_t x, int32_t y) { return rank[first + x] < rank[first + y]; });
  }
  return LayOut(problem, std::move(order), std::move(operator_order), /*pack=*/true);
}

}  // namespace

absl::StatusOr<MemoryLayout> Plan(const LayoutProblem& problem, const PlanOptions& options,
                                  PlanTrace* trace) {
  if (absl::Status status = CheckProblem(problem); !status.ok()) return status;
  const Wishes wishes(problem);
  int64_t work_left = options.max_work;
  Chosen chosen = Choose(problem, wishes, options.max_checks, work_left);
  auto leaves = std::move(chosen.leaves);
  if (!leaves.has_value() || trace != nullptr) leaves = wishes.Order(chosen.choice, trace);
  MemoryLayout layout = FromLeaves(problem, wishes, *leaves);
  if (trace != nullptr) {
    trace->num_variables = static_cast<int>(problem.variables.size());
    trace->leaves = *leaves;
  }
  if (const Price price = PriceOf(problem, layout); Price() < price) {
    MemoryLayout naive = NaivePackedLayout(problem);
    if (PriceOf(problem, naive) < price) layout = std::move(naive);
  }
  layout.least = chosen.least;
  layout.work = options.max_work - work_left;
  return layout;
}

}  // namespace cellbatch

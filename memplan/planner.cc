#include "memplan/planner.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "memplan/naive_layout.h"
#include "memplan/wishes.h"

namespace cellbatch {
namespace {

// Of all checks of the search together: a bound in work, not in time, so that plans do not depend on the machine.
constexpr int64_t kMaxLeavesLookedAt = 2'000'000;

// Which wishes to grant, and how, so that what is given up costs least.
class Search {
 public:
  Search(const Wishes& wishes, int max_checks)
      : wishes_(wishes),
        checks_left_(max_checks),
        best_(wishes.all().size(), kGivenUp),
        best_price_(Dropped(best_)) {}

  // True: nothing cheaper can be given up.
  bool Run() {
    // Everything, each by its first option; else each by its second, if it has one.
    for (int8_t option = 0; option < 2; ++option) {
      Choice all;
      for (const Wish& wish : wishes_.all())
        all.push_back(std::min<int8_t>(option, LastOption(wish)));
      if (TryKeep(all)) return true;
    }
    Choice kept(best_.size(), kGivenUp);
    Greedy(0, static_cast<int>(best_.size()), kept);
    return Branch(0, Choice(best_.size(), kGivenUp), Price{}) && wishes_.exhaustive();
  }

  const Choice& best() const { return best_; }

 private:
  static int8_t LastOption(const Wish& wish) {
    return static_cast<int8_t>(wish.options.size() - 1);
  }
  bool Possible(const Choice& chosen) const { return wishes_.Order(chosen, nullptr).has_value(); }

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
    if (begin == end) return;
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
      if (with[begin]++ == LastOption(wishes_.all()[begin])) return;
    }
    kept = std::move(with);
  }

  // Every choice that gives up less than the best so far. `kept` (wishes before w) can be granted. False: out of tries.
  bool Branch(size_t w, Choice kept, Price dropped) {
    // With each wish there is the same question; the deeper calls are those that grant it.
    for (; w < kept.size(); ++w) {
      for (kept[w] = 0; kept[w] <= LastOption(wishes_.all()[w]); ++kept[w]) {
        if (!(dropped < best_price_)) return true;
        if (checks_left_-- <= 0) return false;
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
  Choice best_;
  Price best_price_;
};

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
  // One check looks at every leaf a few times.
  const int64_t affordable = kMaxLeavesLookedAt / (1 + wishes.num_leaves());
  Search search(wishes, static_cast<int>(std::min<int64_t>(options.max_checks, affordable)));
  const bool least = search.Run();
  const auto leaves = wishes.Order(search.best(), trace);
  MemoryLayout layout = FromLeaves(problem, wishes, *leaves);
  if (trace != nullptr) {
    trace->num_variables = static_cast<int>(problem.variables.size());
    trace->leaves = *leaves;
  }
  MemoryLayout naive = NaivePackedLayout(problem);
  if (PriceOf(problem, naive) < PriceOf(problem, layout)) layout = std::move(naive);
  layout.least = least;
  return layout;
}

}  // namespace cellbatch

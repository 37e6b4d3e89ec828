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

// Which wishes to give up, so that the others can be granted together.
class Search {
 public:
  Search(const Wishes& wishes, int max_checks)
      : wishes_(wishes), checks_left_(max_checks), best_(wishes.all().size(), false) {}

  // True: nothing cheaper can be given up.
  bool Run() {
    std::vector<bool> chosen(best_.size(), true);
    best_ = std::vector<bool>(best_.size(), false);
    best_price_ = Dropped(best_);
    if (TryKeep(chosen)) return true;
    std::vector<bool> kept(best_.size(), false);
    Greedy(0, static_cast<int>(best_.size()), kept);
    if (Branch(0, std::vector<bool>(best_.size(), false), Price{})) return true;
    return false;
  }

  const std::vector<bool>& best() const { return best_; }

 private:
  bool Possible(const std::vector<bool>& chosen) const {
    return wishes_.Order(chosen, nullptr).has_value();
  }

  Price Dropped(const std::vector<bool>& chosen) const {
    Price price;
    for (size_t w = 0; w < chosen.size(); ++w) {
      if (!chosen[w]) price = price + wishes_.all()[w].price;
    }
    return price;
  }

  // Remembers a set of wishes if it can be granted and is the cheapest so far.
  bool TryKeep(const std::vector<bool>& chosen) {
    if (!Possible(chosen)) return false;
    Keep(chosen);
    return true;
  }
  void Keep(const std::vector<bool>& chosen) {
    const Price price = Dropped(chosen);
    if (price < best_price_) {
      best_price_ = price;
      best_ = chosen;
    }
  }

  // Adds the wishes begin..end to `kept`, most expensive first, each if it can be granted beside those before it. By halves:
  // d wishes given up of n cost d * log n tries.
  void Greedy(int begin, int end, std::vector<bool>& kept) {
    if (begin == end) return;
    std::vector<bool> with = kept;
    std::fill(with.begin() + begin, with.begin() + end, true);
    if (TryKeep(with)) {
      kept = std::move(with);
      return;
    }
    if (end - begin == 1) return;
    const int middle = begin + (end - begin) / 2;
    Greedy(begin, middle, kept);
    Greedy(middle, end, kept);
  }

  // Every set that gives up less than the best so far. `kept` (wishes before w) can be granted. False: out of tries.
  bool Branch(size_t w, std::vector<bool> kept, Price dropped) {
    // With each wish there is the same choice; the deeper call is the one that keeps it.
    for (; w < kept.size(); ++w) {
      if (!(dropped < best_price_)) return true;
      if (checks_left_-- <= 0) return false;
      kept[w] = true;
      if (Possible(kept)) {
        Keep(kept);
        if (!Branch(w + 1, kept, dropped)) return false;
      }
      kept[w] = false;
      dropped = dropped + wishes_.all()[w].price;
    }
    return true;
  }

  const Wishes& wishes_;
  int checks_left_;
  std::vector<bool> best_;
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

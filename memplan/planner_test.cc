#include "memplan/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <string>
#include <tuple>

#include "memplan/cost_report.h"
#include "memplan/naive_layout.h"
#include "memplan/random_problem.h"
#include "memplan/validator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20230723;
using Price = std::tuple<int64_t, int64_t, int64_t>;  // bytes, copies, bytes packed

Price PriceOf(const LayoutProblem& problem, const MemoryLayout& layout) {
  const CostReport cost = Cost(problem, layout);
  return {cost.bytes(), cost.kernels(), cost.packed_bytes};
}

// Every order of the variables, every order of every batch's operators: what must be copied at least.
class BruteForce {
 public:
  explicit BruteForce(const LayoutProblem& problem)
      : problem_(problem), run_of_(FixedRunOf(problem)) {}

  Price Least() {
    std::vector<VariableId> order;
    rank_.resize(problem_.variables.size());
    for (size_t v = 0; v < rank_.size(); ++v) {
      if (run_of_[v] < 0) order.push_back(static_cast<VariableId>(v));
    }
    for (const auto& run : problem_.fixed) {
      for (size_t i = 0; i < run.size(); ++i) rank_[run[i]] = static_cast<int>(i);
    }
    Price least = {INT64_MAX, 0, 0};
    do {
      for (size_t i = 0; i < order.size(); ++i) rank_[order[i]] = static_cast<int>(i);
      Price price = {0, 0, 0};
      for (const OperandBatch& batch : problem_.batches) {
        price = Sum(price, LeastOf(batch));
        if (!(price < least)) break;
      }
      least = std::min(least, price);
    } while (std::next_permutation(order.begin(), order.end()));
    return least;
  }

 private:
  static Price Sum(const Price& a, const Price& b) {
    return {std::get<0>(a) + std::get<0>(b), std::get<1>(a) + std::get<1>(b),
            std::get<2>(a) + std::get<2>(b)};
  }

  Price LeastOf(const OperandBatch& batch) const {
    std::vector<int> operators(batch.size());
    std::iota(operators.begin(), operators.end(), 0);
    Price least = {INT64_MAX, 0, 0};
    do {
      Price price = {0, 0, 0};
      for (const Operand& operand : batch.operands) {
        Operand as_run;
        for (int i : operators) as_run.push_back(operand[i]);
        if (Lies(as_run)) continue;
        const int64_t bytes = OperandBytes(problem_, operand);
        price = Sum(price, IsConstant(problem_, operand) ? Price{0, 0, bytes} : Price{bytes, 1, 0});
      }
      least = std::min(least, price);
    } while (std::next_permutation(operators.begin(), operators.end()));
    return least;
  }

  bool Lies(const Operand& o) const {
    // A block of neighbours, again and again.
    for (size_t block = 2; block < o.size(); ++block) {
      bool lies = problem_.broadcasts == Broadcasts::kByStride && !IsConstant(problem_, o);
      for (size_t i = 0; i < o.size(); ++i) {
        lies = lies && o[i] == o[i % block];
        if (i > 0 && i < block) lies = lies && Follows(o[i - 1], o[i]);
      }
      if (lies && o.size() % block == 0) return true;
    }
    return LiesInRuns(o);
  }

  bool Follows(VariableId before, VariableId v) const {
    return run_of_[v] == run_of_[before] && rank_[v] == rank_[before] + 1;
  }

  bool LiesInRuns(const Operand& o) const {
    const auto times = [&](VariableId v) { return std::count(o.begin(), o.end(), v); };
    Operand singles;
    size_t first_single = 0;
    bool repeats = false;
    for (size_t i = 0; i < o.size(); ++i) {
      if (times(o[i]) == 1) {
        if (singles.empty()) first_single = i;
        if (first_single + singles.size() != i) return false;
        singles.push_back(o[i]);
        continue;
      }
      repeats = true;
      const auto first = std::find(o.begin(), o.end(), o[i]);
      if (std::count(first, first + times(o[i]), o[i]) != times(o[i])) return false;
    }
    if (repeats && IsConstant(problem_, o) && times(o[0]) != static_cast<int>(o.size()))
      return false;
    if (repeats && !IsConstant(problem_, o) && problem_.broadcasts == Broadcasts::kCopied)
      return false;
    for (size_t i = 1; i < singles.size(); ++i) {
      if (run_of_[singles[i]] != run_of_[singles[0]] ||
          rank_[singles[i]] != rank_[singles[0]] + static_cast<int>(i)) {
        return false;
      }
    }
    return true;
  }

  const LayoutProblem& problem_;
  const std::vector<int> run_of_;
  std::vector<int> rank_;
};

LayoutProblem Values(std::vector<std::string> names, std::vector<OperandBatch> batches) {
  LayoutProblem problem;
  for (std::string& name : names)
    problem.variables.push_back({std::move(name), VariableKind::kValue, 4});
  problem.batches = std::move(batches);
  return problem;
}

TEST(PlannerTest, AnExampleLikeThePapersNeedsNoCopy) {
  // After the paper's figure 3 (whose formulas are lost): declaration order costs gathers and a scatter.
  const LayoutProblem problem = Values({"x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8"},
                                       {{"b1", {{3, 4}, {2, 0}}}, {"b2", {{7, 5, 6}, {3, 4, 2}}}});
  const auto layout = Plan(problem);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_TRUE(Validate(problem, *layout).ok()) << Validate(problem, *layout);
  EXPECT_TRUE(layout->copies.empty()) << Describe(problem, *layout);
  EXPECT_TRUE(layout->least);
  const auto naive = NaiveLayout(problem);
  ASSERT_TRUE(naive.ok());
  EXPECT_GE(Cost(problem, *naive).kernels(), 2);
}

TEST(PlannerTest, OfTwoOrdersThatContradictTheCheaperOperandIsCopied) {
  // (a b) twice as source, once against the order that the results demand elsewhere.
  LayoutProblem problem = Values({"a", "b", "p", "q", "r", "s", "t", "u", "x"},
                                 {{"one", {{2, 3}, {0, 1}}}, {"two", {{4, 5}, {1, 0}, {2, 3}}}});
  const auto layout = Plan(problem);
  ASSERT_TRUE(layout.ok());
  ASSERT_TRUE(Validate(problem, *layout).ok()) << Validate(problem, *layout);
  ASSERT_EQ(layout->copies.size(), 1u) << Describe(problem, *layout);
  EXPECT_EQ(layout->copies[0].reason, CopyReason::kConflict);
  EXPECT_TRUE(layout->least);
}

TEST(PlannerTest, AConflictIsSettledByBytesNotByTheOrderOfArrival) {
  // Three pairs in a triangle over a, b, c; the pair (a b) is large in no way but that it is wanted twice.
  const LayoutProblem problem = Values({"a", "b", "c", "p", "q", "r", "s", "t", "u", "v", "w"},
                                       {{"one", {{3, 4}, {0, 2}}},
                                        {"two", {{5, 6}, {1, 2}}},
                                        {"three", {{7, 8}, {0, 1}}},
                                        {"four", {{9, 10}, {0, 1}}}});
  const auto layout = Plan(problem);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->copies.size(), 1u) << Describe(problem, *layout);
  EXPECT_LE(layout->copies[0].where.batch, 1);
}

TEST(PlannerTest, AFixedRunKeepsItsOrderAndTheResultsFollowIt) {
  LayoutProblem problem =
      Values({"c", "a", "b", "p", "q", "r"}, {{"copy", {{3, 4, 5}, {1, 2, 0}}}});
  problem.fixed = {{0, 1, 2}};  // c a b arrive so
  const auto layout = Plan(problem);
  ASSERT_TRUE(layout.ok());
  EXPECT_TRUE(layout->copies.empty()) << Describe(problem, *layout);
  EXPECT_EQ(layout->order, (std::vector<VariableId>{5, 3, 4}));
  EXPECT_EQ(layout->offset[0], kElsewhere);
}

TEST(PlannerTest, ThreePermutedOperandsAreAlignedThroughAPNode) {
  // Two batches that tie three P-nodes by different permutations, consistently.
  const LayoutProblem problem =
      Values({"a", "b", "c", "p", "q", "r", "x", "y", "z"},
             {{"one", {{3, 4, 5}, {1, 2, 0}}}, {"two", {{6, 7, 8}, {5, 3, 4}, {0, 1, 2}}}});
  const auto layout = Plan(problem);
  ASSERT_TRUE(layout.ok());
  EXPECT_TRUE(Validate(problem, *layout).ok());
  EXPECT_TRUE(layout->copies.empty()) << Describe(problem, *layout);
}

TEST(PlannerTest, ProblemsThatMakeNoSenseAreRefusedByName) {
  LayoutProblem problem = Values({"a", "b", "p", "q"}, {{"add", {{2, 3}, {0}}}});
  EXPECT_EQ(Plan(problem).status().message(),
            "batch add: operand 1 has 1 variables, the result has 2");
  problem.batches = {{"add", {{2, 7}, {0, 1}}}};
  EXPECT_EQ(Plan(problem).status().message(), "batch add: operand 0 names variable 7 of 4");
  problem.batches = {{"add", {{2, 2}, {0, 1}}}};
  EXPECT_EQ(Plan(problem).status().message(), "batch add writes p a second time");
  problem.batches = {};
  problem.fixed = {{0, 1}, {1}};
  EXPECT_EQ(Plan(problem).status().message(), "variable b is fixed twice");
}

TEST(PlannerTest, RandomPlansAreValidDeterministicAndNeverWorseThanNaive) {
  std::cout << "seed " << kSeed << "\n";
  RandomProblem random(kSeed);
  int copies = 0, naive_copies = 0;
  for (int round = 0; round < 3000; ++round) {
    const LayoutProblem problem = random.Make({.num_variables = 3 + random.Below(20),
                                               .max_batches = 8,
                                               .max_operators = 5,
                                               .anything = round % 2 == 0});
    const auto layout = Plan(problem, {.max_checks = 200});
    ASSERT_TRUE(layout.ok()) << layout.status();
    ASSERT_TRUE(Validate(problem, *layout).ok()) << Validate(problem, *layout);
    const auto naive = NaiveLayout(problem);
    ASSERT_TRUE(Validate(problem, *naive).ok()) << Validate(problem, *naive);
    ASSERT_LE(PriceOf(problem, *layout), PriceOf(problem, NaivePackedLayout(problem)));
    ASSERT_LE(Cost(problem, *layout).bytes(), Cost(problem, *naive).bytes());
    if (round % 10 == 0) {
      ASSERT_EQ(*Plan(problem, {.max_checks = 200}), *layout);
    }
    copies += static_cast<int>(layout->copies.size());
    naive_copies += static_cast<int>(naive->copies.size());
  }
  std::cout << copies << " copies planned, " << naive_copies << " naive\n";
}

// So many times three operators whose two matrices each arrive in an order, and the orders contradict each other: one of the
// two is packed.
LayoutProblem ManyConflicts(int times, bool alike) {
  LayoutProblem problem;
  int64_t bytes = 64;
  const auto three = [&](VariableKind kind) {
    Operand made;
    for (int i = 0; i < 3; ++i) {
      made.push_back(static_cast<VariableId>(problem.variables.size()));
      problem.variables.push_back({"v" + std::to_string(made.back()), kind, bytes});
    }
    if (kind == VariableKind::kConstant) problem.fixed.push_back(made);
    return made;
  };
  for (int i = 0; i < times; ++i) {
    const Operand u = three(VariableKind::kConstant), w = three(VariableKind::kConstant);
    problem.batches.push_back({"product", {three(VariableKind::kValue), u, {w[1], w[0], w[2]}}});
    if (!alike) ++bytes;
  }
  return problem;
}

TEST(PlannerTest, ConflictsThatNothingJoinsAreProvedOneByOne) {
  const auto one = Plan(ManyConflicts(1, true), {.max_checks = 20});
  ASSERT_TRUE(one.ok());
  EXPECT_TRUE(one->least);
  EXPECT_EQ(one->packed.size(), 1u);
  const LayoutProblem problem = ManyConflicts(40, /*alike=*/false);
  const auto many = Plan(problem, {.max_checks = 20});
  ASSERT_TRUE(many.ok());
  EXPECT_TRUE(Validate(problem, *many).ok());
  EXPECT_TRUE(many->least);
  EXPECT_EQ(many->packed.size(), 40u);
  // Each costs what one alone costs, and the whole, of 12 leaves each, is tried once before.
  EXPECT_LE(many->work, 40 * one->work + 40 * 12);
}

TEST(PlannerTest, PartsThatAreAlikeAreSearchedOnce) {
  const LayoutProblem problem = ManyConflicts(40, /*alike=*/true);
  const auto one = Plan(ManyConflicts(1, true)), many = Plan(problem);
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_TRUE(Validate(problem, *many).ok());
  EXPECT_TRUE(many->least);
  EXPECT_EQ(many->packed.size(), 40u);
  EXPECT_LE(many->work, one->work + 40 * 12);
}

TEST(PlannerTest, WorkIsBoundedHoweverManyConflictsThereAre) {
  const LayoutProblem problem = ManyConflicts(500, /*alike=*/false);
  constexpr int64_t kLeavesOfOne = 12, kLeaves = 500 * kLeavesOfOne, kWork = 10'000;
  const auto layout = Plan(problem, {.max_work = kWork});
  ASSERT_TRUE(layout.ok());
  EXPECT_TRUE(Validate(problem, *layout).ok());
  EXPECT_FALSE(layout->least);
  EXPECT_LE(layout->work, kWork + kLeaves + kLeavesOfOne);
  EXPECT_GT(Plan(problem)->work, 2 * layout->work);
  EXPECT_LE(PriceOf(problem, *layout), PriceOf(problem, NaivePackedLayout(problem)));
}

TEST(PlannerTest, PlansOfUpToEightVariablesAreTheOptimumOfBruteForce) {
  std::cout << "seed " << kSeed << "\n";
  RandomProblem random(kSeed);
  int optimal = 0, total = 0, with_conflicts = 0;
  for (int round = 0; round < 1500; ++round) {
    const LayoutProblem problem = random.Make(
        {.num_variables = 3 + random.Below(round % 30 == 0 ? 6 : 5), .anything = round % 3 != 0});
    const auto layout = Plan(problem);
    ASSERT_TRUE(layout.ok());
    ASSERT_TRUE(Validate(problem, *layout).ok()) << Validate(problem, *layout);
    const Price least = BruteForce(problem).Least(), mine = PriceOf(problem, *layout);
    ASSERT_LE(least, mine) << "the brute force is wrong";
    ++total;
    optimal += mine == least;
    with_conflicts += std::get<0>(least) > 0;
    ASSERT_TRUE(!layout->least || mine == least) << "said to be the least: " << std::get<0>(mine)
                                                 << " against " << std::get<0>(least) << "\n"
                                                 << Describe(problem, *layout);
  }
  std::cout << optimal << " of " << total << " optimal; " << with_conflicts << " need copies\n";
  EXPECT_EQ(optimal, total);
  EXPECT_GT(with_conflicts, 300);
}

}  // namespace
}  // namespace cellbatch

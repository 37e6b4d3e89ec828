// Damaged and contradictory operand batches: text that means nothing gets an error that names its line, text that means
// something gets a plan that the validator accepts and that is never worse than declaration order.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "memplan/cost_report.h"
#include "memplan/draw.h"
#include "memplan/naive_layout.h"
#include "memplan/operator_batcher.h"
#include "memplan/planner.h"
#include "memplan/problem_text.h"
#include "memplan/random_problem.h"
#include "memplan/validator.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/table2.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20230719;

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  for (const testing::Table2Cell& cell : testing::Table2()) {
    corpus.push_back(PrintProblem(cell.graph));
    corpus.push_back(PrintProblem(BatchOperators(InFull(cell.graph))->problem));
  }
  RandomProblem random(kSeed);
  for (int i = 0; i < 30; ++i) {
    corpus.push_back(
        PrintProblem(random.Make({.num_variables = 4 + random.Below(12), .max_batches = 6})));
  }
  return corpus;
}

// Another variable where one stood, or a line said elsewhere: text that is mostly read, and means something else.
std::string Contradict(const std::string& text, Mutator& mutator) {
  std::vector<std::string> lines, names;
  for (std::istringstream stream(text); stream;) {
    std::string line;
    if (std::getline(stream, line)) lines.push_back(line);
  }
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string kind, name, bytes;
    if (words >> kind >> name >> bytes &&
        (kind == "value" || kind == "input" || kind == "constant")) {
      names.push_back(name);
    }
  }
  for (uint64_t change = 0; change < 3 && !names.empty(); ++change) {
    std::string& line = lines[mutator.Below(lines.size())];
    const size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const size_t begin =
        line.find_first_not_of(" (", equals + 1 + mutator.Below(line.size() - equals));
    if (begin == line.npos) continue;
    const size_t end = std::min(line.find_first_of(" )", begin), line.size());
    line.replace(begin, end - begin, names[mutator.Below(names.size())]);
  }
  if (mutator.Below(4) == 0 && !names.empty())
    lines.push_back("fixed " + names[mutator.Below(names.size())]);
  if (mutator.Below(4) == 0) std::swap(lines[mutator.Below(lines.size())], lines.back());
  std::string joined;
  for (const std::string& line : lines) joined += line + "\n";
  return joined;
}

// Everything that may be asked of a text. True: it was accepted.
bool Try(const std::string& text) {
  const auto problem = ParseProblem(text);
  if (!problem.ok()) {
    EXPECT_EQ(problem.status().message().substr(0, 5), "line ") << problem.status();
    return false;
  }
  EXPECT_EQ(CheckProblem(*problem), absl::OkStatus());
  EXPECT_EQ(*ParseProblem(PrintProblem(*problem)), *problem);
  PlanTrace trace;
  const auto layout = Plan(*problem, {.max_checks = 30}, &trace);
  EXPECT_TRUE(layout.ok()) << layout.status() << "\n" << text;
  if (!layout.ok()) return true;
  EXPECT_EQ(Validate(*problem, *layout), absl::OkStatus()) << text;
  const auto naive = NaiveLayout(*problem);
  EXPECT_EQ(Validate(*problem, *naive), absl::OkStatus()) << text;
  EXPECT_LE(Cost(*problem, *layout).bytes(), Cost(*problem, *naive).bytes()) << text;
  EXPECT_FALSE(DrawText(*problem, *layout).empty());
  EXPECT_FALSE(DrawSvg(*problem, *layout, &trace).empty());
  const auto batched =
      BatchOperators(*problem, {.max_states = 200, .max_plans = 2, .plan = {.max_checks = 30}});
  if (batched.ok()) {
    EXPECT_EQ(Validate(batched->problem, batched->layout), absl::OkStatus()) << text;
  }
  return true;
}

TEST(MemplanFuzzTest, DamagedProblemsAreRefusedByLineOrPlannedRightly) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(
      kSeed, {"batch", "op", "fixed", "broadcasts stride\n", "input", "(", ")", "=", "\n", "#",
              " x ", " h ", "v1 v1", "v2 v3", "v0", "18446744073709551615", "-1", "0", "2048"});
  const std::vector<std::string> corpus = Corpus();
  for (const std::string& valid : corpus) ASSERT_TRUE(Try(valid)) << valid;
  int accepted = 0, refused = 0;
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    const std::string& valid = corpus[mutator.Below(corpus.size())];
    const std::string damaged =
        budget.cases() % 2 == 0 ? mutator.Mutate(valid) : Contradict(valid, mutator);
    (Try(damaged) ? accepted : refused) += 1;
  }
  std::cout << accepted << " planned, " << refused << " refused\n";
  EXPECT_GT(accepted, budget.cases() / 20);
  EXPECT_GT(refused, budget.cases() / 20);
}

TEST(MemplanFuzzTest, ContradictoryProblemsArePlannedRightly) {
  std::cout << "seed " << kSeed << "\n";
  RandomProblem random(kSeed + 1);
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    const LayoutProblem problem =
        random.Make({.num_variables = 2 + random.Below(30), .max_batches = 12, .max_operators = 8});
    const auto layout = Plan(problem, {.max_checks = 20});
    ASSERT_TRUE(layout.ok()) << layout.status();
    ASSERT_EQ(Validate(problem, *layout), absl::OkStatus()) << PrintProblem(problem);
    ASSERT_LE(Cost(problem, *layout).bytes(), Cost(problem, *NaiveLayout(problem)).bytes());
  }
}

}  // namespace
}  // namespace cellbatch

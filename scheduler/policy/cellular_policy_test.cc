#include "scheduler/policy/cellular_policy.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TypeView View(int type, int ready, int in_flight, int max_batch, int priority) {
  TypeView view;
  view.type = CellTypeId(type);
  view.ready = ready;
  view.tasks_in_flight = in_flight;
  view.max_batch = max_batch;
  view.priority = priority;
  return view;
}

// The type that is chosen.
std::optional<CellTypeId> Chosen(const std::vector<TypeView>& frontier) {
  const std::optional<Choice> choice = CellularPolicy().Choose(frontier);
  if (!choice) return std::nullopt;
  return choice->type;
}

TEST(CellularPolicyTest, AFullBatchGoesBeforePriority) {
  EXPECT_EQ(Chosen({View(0, 63, 0, 64, 9), View(1, 64, 3, 64, 0)}), CellTypeId(1));
}

TEST(CellularPolicyTest, WithoutAFullBatchATypeOfWhichNothingRunsGoesFirst) {
  EXPECT_EQ(Chosen({View(0, 63, 1, 64, 9), View(1, 1, 0, 64, 0)}), CellTypeId(1));
}

TEST(CellularPolicyTest, OtherwiseAnyReadyTypeByPriorityThenId) {
  EXPECT_EQ(Chosen({View(0, 1, 1, 64, 1), View(1, 5, 1, 64, 2)}), CellTypeId(1));
  EXPECT_EQ(Chosen({View(2, 1, 1, 64, 2), View(1, 5, 1, 64, 2)}), CellTypeId(1));
}

TEST(CellularPolicyTest, NothingReadyMeansNoTask) {
  EXPECT_EQ(Chosen({View(0, 0, 0, 64, 1), View(1, 0, 0, 64, 2)}), std::nullopt);
  EXPECT_EQ(Chosen({}), std::nullopt);
}

// The paper's text, set by set.
std::optional<CellTypeId> AsPrinted(const std::vector<TypeView>& views) {
  std::vector<TypeView> set;
  for (const TypeView& v : views) {
    if (v.ready >= v.max_batch) set.push_back(v);
  }
  if (set.empty()) {
    for (const TypeView& v : views) {
      if (v.tasks_in_flight == 0 && v.ready > 0) set.push_back(v);
    }
  }
  if (set.empty()) {
    for (const TypeView& v : views) {
      if (v.ready > 0) set.push_back(v);
    }
  }
  std::optional<TypeView> best;
  for (const TypeView& v : set) {
    if (!best || v.priority > best->priority) best = v;
  }
  if (!best) return std::nullopt;
  return best->type;
}

TEST(CellularPolicyTest, AgreesWithThePaperOnRandomFrontiers) {
  constexpr uint32_t kSeed = 1018;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20000; ++round) {
    std::vector<TypeView> views;
    const int types = 1 + static_cast<int>(random() % 5);
    for (int t = 0; t < types; ++t) {
      views.push_back(View(t, static_cast<int>(random() % 6), static_cast<int>(random() % 2),
                           1 + static_cast<int>(random() % 4), static_cast<int>(random() % 3)));
    }
    ASSERT_EQ(Chosen(views), AsPrinted(views)) << "seed " << kSeed << " round " << round;
  }
}

}  // namespace
}  // namespace cellbatch

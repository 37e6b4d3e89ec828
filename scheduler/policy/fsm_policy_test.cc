// Claims about the FSM: its states are those of the paper, with equal counts by id; a table answers for the states it
// has, LB-greedy for the others; what cannot be a state or a table is refused.
#include "scheduler/policy/fsm_policy.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using Kind = StateEncoding::Kind;

std::vector<TypeView> Of(const std::vector<int32_t>& ready) {
  std::vector<TypeView> views(ready.size());
  for (size_t t = 0; t < ready.size(); ++t) {
    views[t].type = CellTypeId(static_cast<int64_t>(t));
    views[t].ready = ready[t];
    views[t].nodes.remaining = views[t].nodes.tops = views[t].nodes.total = 2 * ready[t];
    views[t].nodes.ready_tops = ready[t];
  }
  return views;
}

std::vector<int> State(Kind kind, const std::vector<int32_t>& ready) {
  std::vector<int> types;
  for (const CellTypeId type : TypesOf(StateOf({kind, 1}, Of(ready)))) {
    types.push_back(type.value());
  }
  return types;
}

StateKey Key(const StateEncoding& encoding, const std::vector<int>& types, int phase = 0) {
  std::vector<CellTypeId> ids;
  for (const int type : types) ids.emplace_back(type);
  return *MakeState(encoding, ids, phase);
}

std::string Refused(const StateEncoding& encoding, const std::vector<int>& types, int phase = 0) {
  std::vector<CellTypeId> ids;
  for (const int type : types) ids.emplace_back(type);
  const absl::StatusOr<StateKey> key = MakeState(encoding, ids, phase);
  return key.ok() ? "taken" : std::string(key.status().message());
}

TEST(FsmStateTest, TheThreeEncodingsAreThoseOfThePaperWithEqualCountsById) {
  const std::vector<int32_t> ready = {3, 0, 7, 3, 1};
  EXPECT_EQ(State(Kind::kBase, ready), (std::vector<int>{0, 2, 3, 4}));
  EXPECT_EQ(State(Kind::kMax, ready), (std::vector<int>{0, 2, 3, 4, 2}));
  EXPECT_EQ(State(Kind::kSort, ready), (std::vector<int>{2, 0, 3, 4}));
  EXPECT_EQ(State(Kind::kMax, {0, 5, 5}), (std::vector<int>{1, 2, 1}));
  EXPECT_TRUE(StateOf({Kind::kSort, 1}, Of({0, 0})).empty());
}

// The definitions of the paper, by sorting.
std::vector<int> AsDefined(Kind kind, const std::vector<int32_t>& ready) {
  std::vector<int> types;
  for (size_t t = 0; t < ready.size(); ++t) {
    if (ready[t] > 0) types.push_back(static_cast<int>(t));
  }
  std::vector<int> sorted = types;
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    return ready[static_cast<size_t>(a)] > ready[static_cast<size_t>(b)];
  });
  if (kind == Kind::kSort) return sorted;
  if (kind == Kind::kMax && !types.empty()) types.push_back(sorted.front());
  return types;
}

TEST(FsmStateTest, RandomFrontiersOfUpToTheMostTypesAreEncodedAsDefinedAndReadBack) {
  constexpr uint32_t kSeed = 22;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 5000; ++round) {
    std::vector<int32_t> ready(1 + random() % StateEncoding::kMostTypes);
    for (int32_t& n : ready) n = static_cast<int32_t>(random() % 5);
    for (const Kind kind : {Kind::kBase, Kind::kMax, Kind::kSort}) {
      const std::vector<int> types = State(kind, ready);
      ASSERT_EQ(types, AsDefined(kind, ready)) << "seed " << kSeed << " round " << round;
      if (types.empty()) continue;
      ASSERT_EQ(Key({kind, 1}, types), StateOf({kind, 1}, Of(ready)));
    }
  }
}

TEST(FsmStateTest, ThePhaseIsHowFarTheRunningRequestsAre) {
  const StateEncoding encoding = {Kind::kBase, 4};
  std::vector<TypeView> views = Of({1, 1});
  const auto phase = [&](int64_t total, int64_t remaining) {
    views[0].nodes.total = total;
    views[0].nodes.remaining = remaining;
    views[1].nodes.total = views[1].nodes.remaining = 0;
    return PhaseOf(StateOf(encoding, views));
  };
  EXPECT_EQ(phase(100, 100), 0);
  EXPECT_EQ(phase(100, 76), 0);
  EXPECT_EQ(phase(100, 75), 1);
  EXPECT_EQ(phase(100, 1), 3);
  EXPECT_EQ(phase(100, 0), 3);
  EXPECT_EQ(phase(0, 0), 0);
  EXPECT_NE(Key(encoding, {0, 1}, 1), Key(encoding, {0, 1}, 2));
}

TEST(FsmStateTest, LoweringSaysOfWhichReadyTypesABatchWouldLowerTheBound) {
  const StateEncoding plain = {Kind::kSort, 1}, telling = {Kind::kSort, 1, true};
  std::vector<TypeView> views = Of({3, 0, 7});
  const auto lowering = [&](const StateEncoding& encoding) {
    std::vector<int> types;
    for (const CellTypeId type : LoweringOf(StateOf(encoding, views))) {
      types.push_back(type.value());
    }
    return types;
  };
  EXPECT_EQ(lowering(telling), std::vector<int>{}) << "type 1 has no tops, and is not ready";
  views[2].nodes.ready_tops = views[2].nodes.tops;
  EXPECT_EQ(lowering(telling), std::vector<int>{2});
  const StateKey key = *MakeState(telling, {{CellTypeId(2), CellTypeId(0)}}, 0, {{CellTypeId(2)}});
  EXPECT_EQ(key, StateOf(telling, views));
  EXPECT_NE(key, StateOf(plain, views));
  views[0].nodes.ready_tops = views[0].nodes.tops;
  EXPECT_EQ(lowering(telling), (std::vector<int>{0, 2}));
  EXPECT_EQ(lowering(plain), std::vector<int>{});
}

TEST(FsmStateTest, WhatDoesNotLowerIsRefused) {
  using testing::HasSubstr;
  const auto refused = [](bool telling, const std::vector<int>& lowering) {
    std::vector<CellTypeId> ids;
    for (const int type : lowering) ids.emplace_back(type);
    const auto key = MakeState({Kind::kSort, 1, telling}, {{CellTypeId(2), CellTypeId(0)}}, 0, ids);
    return key.ok() ? "taken" : std::string(key.status().message());
  };
  EXPECT_EQ(refused(true, {0, 2}), "taken");
  EXPECT_THAT(refused(true, {1}), HasSubstr("none of the state's types, or not in order: types 1"));
  EXPECT_THAT(refused(true, {2, 0}), HasSubstr("not in order"));
  EXPECT_THAT(refused(false, {0}), HasSubstr("its encoding does not"));
}

TEST(FsmStateTest, FillSaysOfWhichReadyTypesThatPartOfTheLargestBatchIsThere) {
  std::vector<TypeView> views = Of({3, 0, 7});
  views[0].max_batch = 12;
  views[1].max_batch = 1;
  views[2].max_batch = 15;
  const auto filled = [&](int fill) {
    std::vector<int> types;
    for (const CellTypeId type : FilledOf(StateOf({Kind::kBase, 1, true, fill}, views))) {
      types.push_back(type.value());
    }
    return types;
  };
  EXPECT_EQ(filled(0), std::vector<int>{});
  EXPECT_EQ(filled(1), std::vector<int>{});
  EXPECT_EQ(filled(2), std::vector<int>{}) << "7 are less than half of 15";
  EXPECT_EQ(filled(3), std::vector<int>{2});
  EXPECT_EQ(filled(4), (std::vector<int>{0, 2}))
      << "3 are a quarter of 12; of type 1 nothing is ready";
  const StateEncoding encoding = {Kind::kBase, 1, false, 3};
  EXPECT_EQ(*MakeState(encoding, {CellTypeId(0), CellTypeId(2)}, 0, {}, {CellTypeId(2)}),
            StateOf(encoding, views));
  EXPECT_NE(StateOf(encoding, views), StateOf({Kind::kBase, 1, false, 4}, views));
  EXPECT_FALSE(MakeState({Kind::kBase, 1}, {CellTypeId(0)}, 0, {}, {CellTypeId(0)}).ok());
}

TEST(FsmStateTest, WhatNoFrontierLooksLikeIsRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(Refused({Kind::kBase, 1}, {}), HasSubstr("no types"));
  EXPECT_THAT(Refused({Kind::kMax, 1}, {2}), HasSubstr("no types"));
  EXPECT_THAT(Refused({Kind::kBase, 1}, {2, 0}), HasSubstr("not in order: types 2 0"));
  EXPECT_EQ(Refused({Kind::kSort, 1}, {2, 0}), "taken");
  EXPECT_THAT(Refused({Kind::kSort, 1}, {2, 0, 2}), HasSubstr("twice"));
  EXPECT_THAT(Refused({Kind::kMax, 1}, {0, 2, 1}), HasSubstr("none of the state's"));
  EXPECT_THAT(Refused({Kind::kSort, 1}, {0, 23}), HasSubstr("largest id"));
  EXPECT_THAT(Refused({Kind::kSort, 1}, {0, -1}), HasSubstr("largest id"));
  EXPECT_THAT(Refused({Kind::kSort, 4}, {0}, 4), HasSubstr("phase 4 of 4"));
}

std::string Chosen(const FsmPolicy& policy, const std::vector<TypeView>& frontier) {
  const std::optional<Choice> choice = policy.Choose(frontier);
  if (!choice) return "nothing";
  return std::to_string(choice->type.value()) + " " +
         std::string(policy.reasons()[static_cast<size_t>(choice->reason)]);
}

TEST(FsmPolicyTest, TheTableAnswersForItsStatesAndLbGreedyForTheOthers) {
  const StateEncoding encoding = {Kind::kSort, 1};
  absl::StatusOr<FsmTable> table = FsmTable::Create(
      encoding, {{Key(encoding, {0, 1}), CellTypeId(1)}, {Key(encoding, {1, 0}), CellTypeId(0)}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 2u);
  const FsmPolicy fsm(*std::move(table));
  EXPECT_EQ(Chosen(fsm, Of({5, 2, 0})), "1 learned");
  EXPECT_EQ(Chosen(fsm, Of({2, 5, 0})), "0 learned");
  std::vector<TypeView> unseen = Of({2, 5, 1});
  EXPECT_EQ(Chosen(fsm, unseen), "2 unseen_state");
  unseen[0].nodes.ready_tops = unseen[0].nodes.tops;
  EXPECT_EQ(Chosen(fsm, unseen), "0 unseen_state");
  EXPECT_EQ(Chosen(fsm, Of({0, 0, 0})), "nothing");
}

TEST(FsmPolicyTest, StatesThatDifferInWhatLowersTheBoundAreDifferentStates) {
  const StateEncoding encoding = {Kind::kSort, 1, true};
  const std::vector<CellTypeId> types = {CellTypeId(1), CellTypeId(0)};
  const FsmPolicy fsm(*FsmTable::Create(
      encoding, {{*MakeState(encoding, types, 0), CellTypeId(1)},
                 {*MakeState(encoding, types, 0, {{CellTypeId(0)}}), CellTypeId(0)}}));
  std::vector<TypeView> views = Of({2, 5});
  EXPECT_EQ(Chosen(fsm, views), "1 learned");
  views[0].nodes.ready_tops = views[0].nodes.tops;
  EXPECT_EQ(Chosen(fsm, views), "0 learned");
  views[1].nodes.ready_tops = views[1].nodes.tops;
  EXPECT_EQ(Chosen(fsm, views), "1 unseen_state");
}

TEST(FsmPolicyTest, ATableFindsAllItHasAndNothingElse) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  const StateEncoding encoding = {Kind::kSort, 3};
  std::vector<FsmTable::Rule> rules;
  std::set<std::pair<uint64_t, uint64_t>> seen;
  std::vector<StateKey> absent;
  for (int i = 0; i < 4000; ++i) {
    std::vector<int> types = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    std::shuffle(types.begin(), types.end(), random);
    types.resize(1 + random() % 15);
    const StateKey key = Key(encoding, types, static_cast<int>(random() % 3));
    if (!seen.insert({key.words[0], key.words[1]}).second) continue;
    if (i % 4 == 0) {
      absent.push_back(key);
    } else {
      rules.push_back({key, CellTypeId(types[random() % types.size()])});
    }
  }
  const absl::StatusOr<FsmTable> table = FsmTable::Create(encoding, rules);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const FsmTable::Rule& rule : rules) ASSERT_EQ(table->Find(rule.state), rule.action);
  for (const StateKey& key : absent) ASSERT_FALSE(table->Find(key).valid());
}

TEST(FsmPolicyTest, ATableWithAForeignActionOrAStateTwiceIsRefused) {
  using testing::HasSubstr;
  const StateEncoding encoding = {Kind::kSort, 1};
  const auto refused = [&](const std::vector<FsmTable::Rule>& rules) {
    return std::string(FsmTable::Create(encoding, rules).status().message());
  };
  const StateKey both = Key(encoding, {1, 0});
  EXPECT_THAT(refused({{both, CellTypeId(2)}}),
              HasSubstr("none of its state's types: types 1 0, phase 0, action 2"));
  EXPECT_THAT(refused({{both, CellTypeId()}}), HasSubstr("none of its state's types"));
  EXPECT_THAT(refused({{both, CellTypeId(0)}, {both, CellTypeId(1)}}), HasSubstr("comes twice"));
  EXPECT_THAT(refused({{StateKey{}, CellTypeId(0)}}), HasSubstr("no types"));
}

TEST(FsmPolicyTest, ItAsksForWhatItReads) {
  const auto needs = [](int phases) {
    return FsmPolicy(*FsmTable::Create({Kind::kBase, phases}, {})).needs();
  };
  EXPECT_EQ(needs(1), FrontierNeeds::kHeights);
  EXPECT_EQ(needs(4), FrontierNeeds::kNodes) << "the phase is counted from all nodes";
}

}  // namespace
}  // namespace cellbatch

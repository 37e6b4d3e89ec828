// Claims about the papers' policies, each on frontiers written by hand.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/random_policy.h"
#include "scheduler/policy/sufficient_policy.h"

namespace cellbatch {
namespace {

std::vector<TypeView> Numbered(std::vector<TypeView> views) {
  for (size_t t = 0; t < views.size(); ++t) views[t].type = CellTypeId(static_cast<int64_t>(t));
  return views;
}

TypeView Ready(int32_t ready, TypeNodes nodes = {}) {
  TypeView view;
  view.ready = ready;
  view.nodes = nodes;
  return view;
}

// "TYPE REASON", and " at DEPTH" where there is one.
std::string Chosen(const Policy& policy, const std::vector<TypeView>& frontier) {
  const std::vector<TypeView> views = Numbered(frontier);
  const std::optional<Choice> choice = policy.Choose(views);
  if (!choice) return "nothing";
  std::string text = std::to_string(choice->type.value()) + " " +
                     std::string(policy.reasons()[static_cast<size_t>(choice->reason)]);
  if (choice->depth != Choice::kAnyDepth) text += " at " + std::to_string(choice->depth);
  return text;
}

TypeNodes Depths(int64_t total, int64_t total_depths, int64_t remaining, int64_t remaining_depths) {
  TypeNodes nodes;
  nodes.total = total;
  nodes.total_depths = total_depths;
  nodes.remaining = remaining;
  nodes.remaining_depths = remaining_depths;
  return nodes;
}

TypeNodes Least(int32_t depth) {
  TypeNodes nodes;
  nodes.least_depth = depth;
  return nodes;
}

TypeNodes Tops(int64_t ready_tops, int64_t tops, int32_t tallest, int64_t remaining) {
  TypeNodes nodes;
  nodes.ready_tops = ready_tops;
  nodes.tops = tops;
  nodes.tallest = tallest;
  nodes.remaining = remaining;
  return nodes;
}

TypeNodes Heads(int64_t heads) {
  TypeNodes nodes;
  nodes.heads = heads;
  return nodes;
}

TEST(AgendaPolicyTest, TheLeastMeanDepthGoesFirstOfTheWholeGraphOrOfWhatRemains) {
  const std::vector<TypeView> frontier = {Ready(1, Depths(4, 12, 1, 5)),  // 3; 5
                                          Ready(9, Depths(2, 7, 2, 7)),   // 3.5; 3.5
                                          Ready(0, Depths(1, 0, 1, 0))};  // nothing ready
  EXPECT_EQ(Chosen(AgendaPolicy(AgendaMean::kWholeGraph), frontier), "0 lowest_mean_depth");
  EXPECT_EQ(Chosen(AgendaPolicy(AgendaMean::kRemaining), frontier), "1 lowest_mean_depth");
}

TEST(AgendaPolicyTest, EqualMeansGoByIdHoweverTheyAreWritten) {
  const std::vector<TypeView> frontier = {Ready(1, Depths(3, 1, 3, 1)),
                                          Ready(5, Depths(9, 3, 9, 3))};
  EXPECT_EQ(Chosen(AgendaPolicy(AgendaMean::kWholeGraph), frontier), "0 lowest_mean_depth");
}

TEST(DepthPolicyTest, TheLeastDepthGoesFirstThenTheLowerId) {
  const DepthPolicy depth;
  EXPECT_EQ(Chosen(depth, {Ready(1, Least(3)), Ready(1, Least(2)), Ready(7, Least(2))}),
            "1 least_depth at 2");
  EXPECT_EQ(Chosen(depth, {Ready(0, Least(-1)), Ready(1, Least(8))}), "1 least_depth at 8");
  EXPECT_TRUE(depth.picks_depth());
}

TEST(SufficientPolicyTest, TheLargestPartOfTheTypesOwnFrontierThenMoreNodesThenTheHigherId) {
  const SufficientPolicy sufficient;
  EXPECT_EQ(Chosen(sufficient, {Ready(3, Heads(4)), Ready(2, Heads(2)), Ready(9, Heads(10))}),
            "1 sufficient");
  EXPECT_EQ(Chosen(sufficient, {Ready(4, Heads(8)), Ready(5, Heads(10)), Ready(0, Heads(0))}),
            "1 largest_part");
  EXPECT_EQ(Chosen(sufficient, {Ready(5, Heads(10)), Ready(4, Heads(8))}), "0 largest_part");
  EXPECT_EQ(Chosen(sufficient, {Ready(2, Heads(2)), Ready(2, Heads(2))}), "1 sufficient");
}

TEST(LbGreedyPolicyTest, ATypeOfWhichAllTopsAreReadyGoesFirstThenTheLargestPartOfThem) {
  const LbGreedyPolicy greedy;
  EXPECT_EQ(Chosen(greedy, {Ready(2, Tops(1, 2, 9, 20)), Ready(1, Tops(1, 1, 2, 40))}),
            "1 lowers_bound");
  EXPECT_EQ(Chosen(greedy, {Ready(2, Tops(2, 3, 9, 20)), Ready(9, Tops(1, 2, 9, 9))}),
            "0 most_tops");
}

TEST(LbGreedyPolicyTest, ThenTheLargestPartOfWhatRemainsThenTheHigherId) {
  const LbGreedyPolicy greedy;
  EXPECT_EQ(Chosen(greedy, {Ready(2, Tops(1, 1, 1, 3)), Ready(3, Tops(1, 1, 1, 6))}),
            "0 lowers_bound");
  EXPECT_EQ(Chosen(greedy, {Ready(2, Tops(1, 1, 1, 4)), Ready(3, Tops(1, 1, 1, 6))}),
            "1 lowers_bound");
}

TEST(LbGreedyPolicyTest, TheOptionPrefersTheTallerOfTypesThatLowerTheBound) {
  LbGreedyPolicy::Options options;
  options.taller_first = true;
  const std::vector<TypeView> frontier = {Ready(1, Tops(1, 1, 5, 30)), Ready(3, Tops(1, 1, 4, 3))};
  EXPECT_EQ(Chosen(LbGreedyPolicy(), frontier), "1 lowers_bound");
  EXPECT_EQ(Chosen(LbGreedyPolicy(options), frontier), "0 lowers_bound");
  EXPECT_EQ(
      Chosen(LbGreedyPolicy(options), {Ready(1, Tops(1, 2, 5, 30)), Ready(3, Tops(1, 2, 4, 4))}),
      "1 most_tops")
      << "the option is for types that lower the bound";
}

TEST(RandomPolicyTest, EveryReadyTypeIsAsLikelyAndTheSameFrontierGetsTheSameChoice) {
  constexpr uint64_t kSeeds = 3000;
  const std::vector<TypeView> frontier = {Ready(3), Ready(0), Ready(1), Ready(900)};
  std::map<std::string, int> chosen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RandomPolicy random(seed);
    ++chosen[Chosen(random, frontier)];
    EXPECT_EQ(Chosen(random, frontier), Chosen(RandomPolicy(seed), frontier));
  }
  ASSERT_EQ(chosen.size(), 3u);
  for (const auto& [what, times] : chosen) EXPECT_NEAR(times, kSeeds / 3, 150) << what;
}

TEST(RandomPolicyTest, OneSeedThrowsItsDiceAnewForEachFrontier) {
  const RandomPolicy random(7);
  std::map<std::string, int> chosen;
  for (int32_t ready = 1; ready <= 1000; ++ready) {
    ++chosen[Chosen(random, {Ready(ready), Ready(5)})];
  }
  EXPECT_NEAR(chosen["0 random"], 500, 80);
}

TEST(PolicyFamilyTest, NothingReadyMeansNoTask) {
  const AgendaPolicy agenda(AgendaMean::kRemaining);
  const DepthPolicy depth;
  const SufficientPolicy sufficient;
  const LbGreedyPolicy greedy;
  const RandomPolicy random(1);
  for (const Policy* policy :
       std::vector<const Policy*>{&agenda, &depth, &sufficient, &greedy, &random}) {
    EXPECT_EQ(Chosen(*policy, {Ready(0), Ready(0)}), "nothing");
    EXPECT_EQ(Chosen(*policy, {}), "nothing");
    EXPECT_FALSE(policy->repeats_type());
  }
}

}  // namespace
}  // namespace cellbatch

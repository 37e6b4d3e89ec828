// Makes a table better by trying, where requests come and go: another action in one state, the same arrivals played again
// in the world (scheduler/offline/world), kept where the latencies got better. As table_search does with batches; what is
// measured here is what users wait for, with joins, batch limits, the guard and what tasks take all in force.
//
// Every trial sees the same arrivals, so two tables differ by what they do and not by who came when. They still differ by
// chance: one other decision early on moves all that comes after it. So a change is kept only where it gains more, in the
// mean over the lessons, than the standard error of that.
//
// Where it starts from LB-greedy the table is sparse: a state that it does not have is left to LB-greedy, as in the server,
// and a rule is only there for what was better. Deterministic under a seed. Stops when its budget of nodes is spent, or
// when every single change has been tried in vain. One thread.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_SEARCH_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_SEARCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/world/serving_world.h"
#include "scheduler/policy/fsm_policy.h"
#include "scheduler/policy/policy_spec.h"

namespace cellbatch {

// A model as it is served: what is the same whatever decides.
struct ServedModel {
  std::shared_ptr<const Model> model;
  TaskCosts costs;
  MakeGraph make;
  int32_t shapes = 0;  // how many requests `make` knows
  WorldOptions world = {};
};

// A world of it that this decides. REQUIRES: a policy that MakePolicy makes.
std::unique_ptr<ServingWorld> WorldOf(const ServedModel& served, LaneRules rules);
std::unique_ptr<ServingWorld> WorldOf(const ServedModel& served, const PolicySpec& spec);

// What is to be small, in ns: of a report, (1 - tail_weight) mean + tail_weight p99.
double ObjectiveOf(const WorldReport& report, double tail_weight);

// Of so many arrivals those whose latencies do not count: they find a world that is not full yet.
constexpr size_t SkippedOf(size_t arrivals) { return arrivals / 20; }

struct ServingSearchOptions {
  StateEncoding encoding;
  // What is done in a state that was not changed. kLbGreedy: such states are left out.
  PolicyKind start = PolicyKind::kLbGreedy;
  std::vector<FsmTable::Rule> from = {};  // of that encoding; states that it begins with
  double tail_weight = 0.5;
  uint64_t seed = 1;
  int64_t most_nodes = 5'000'000;
};

struct ServingPoint {
  int64_t trials;
  double objective_ns;  // the mean over the lessons, of the table as it was then
};

struct ServingSearchResult {
  std::vector<FsmTable::Rule> rules;  // none: nothing was better than to leave all to LB-greedy
  std::vector<ServingPoint> curve;    // the first table, and every better one
  int64_t trials = 0, nodes = 0;      // tables tried; nodes run for it
};

// `lessons`: lists of arrivals. REQUIRES: two, and shapes that `served` has.
ServingSearchResult SearchServing(const ServedModel& served,
                                  absl::Span<const std::vector<Arrival>> lessons,
                                  const ServingSearchOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_SEARCH_H_

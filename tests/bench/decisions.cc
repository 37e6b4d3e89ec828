// What one decision of each policy costs, by itself and within its guard, with eight cell types and with three
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "scheduler/policy/decider.h"
#include "scheduler/policy/policy_spec.h"
#include "tests/bench/report.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 15, kFrontiers = 512, kTimes = 400;
constexpr uint64_t kSeed = 8;

double Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// A frontier as a lane in the midst of things has it: most types ready, none full, nobody overdue.
std::vector<TypeView> DrawFrontier(int types, std::mt19937_64& random) {
  std::vector<TypeView> views(static_cast<size_t>(types));
  for (size_t t = 0; t < views.size(); ++t) {
    TypeView& view = views[t];
    view.type = CellTypeId(static_cast<int64_t>(t));
    view.max_batch = 512;
    view.tasks_in_flight = static_cast<int32_t>(random() % 2);
    view.ready = random() % 4 == 0 ? 0 : static_cast<int32_t>(1 + random() % 300);
    TypeNodes& nodes = view.nodes;
    nodes.heads = nodes.tops = view.ready + static_cast<int64_t>(random() % 50) + 1;
    nodes.ready_tops = std::min<int64_t>(view.ready, nodes.tops);
    nodes.tallest = static_cast<int32_t>(1 + random() % 60);
    nodes.remaining = view.ready + static_cast<int64_t>(random() % 5000) + 1;
    nodes.total = nodes.remaining + static_cast<int64_t>(random() % 5000);
    nodes.remaining_depths = nodes.remaining * static_cast<int64_t>(random() % 40);
    nodes.total_depths = nodes.total * static_cast<int64_t>(random() % 40);
    nodes.least_depth = view.ready > 0 ? static_cast<int32_t>(random() % 40) : -1;
    nodes.at_least_depth = view.ready / 2;
  }
  return views;
}

using Frontiers = std::vector<std::vector<TypeView>>;

// Of an FSM a table that has all of these states but every eighth.
PolicySpec SpecOf(PolicyKind kind, const Frontiers& frontiers, bool lowering) {
  PolicySpec spec;
  spec.kind = kind;
  if (kind != PolicyKind::kFsm) return spec;
  spec.encoding.lowering = lowering;
  std::vector<StateKey> known;
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const StateKey state = StateOf(spec.encoding, frontiers[i]);
    if (i % 8 == 0 || state.empty()) continue;
    if (std::find(known.begin(), known.end(), state) != known.end()) continue;
    known.push_back(state);
    spec.rules.push_back({state, TypesOf(state).front()});
  }
  return spec;
}

template <typename Decide>
double NsPerDecision(const Frontiers& frontiers, Decide decide) {
  int64_t sum = 0;
  const double start = Nanoseconds();
  for (int i = 0; i < kTimes; ++i) {
    for (const std::vector<TypeView>& frontier : frontiers) {
      const std::optional<Choice> choice = decide(frontier);
      sum += choice ? choice->type.value() : -1;
    }
  }
  const double ns = Nanoseconds() - start;
  if (sum == INT64_MIN) std::cout << "\n";  // so that the choices are used
  return ns / (static_cast<double>(kTimes) * static_cast<double>(frontiers.size()));
}

void Measure(int types, Report& report) {
  std::mt19937_64 random(kSeed);
  Frontiers frontiers;
  for (int i = 0; i < kFrontiers; ++i) frontiers.push_back(DrawFrontier(types, random));
  Table table({"policy, " + std::to_string(types) + " types", "ns a decision", "guarded"});
  for (const PolicyKind kind : kPolicyKinds) {
    for (const bool lowering : {false, true}) {
      if (lowering && kind != PolicyKind::kFsm) continue;
      const std::string name = std::string(Name(kind)) + (lowering ? "_lowering" : "");
      const PolicySpec spec = SpecOf(kind, frontiers, lowering);
      const auto policy = *MakePolicy(spec, static_cast<size_t>(types));
      const Decider decider(*MakePolicy(spec, static_cast<size_t>(types)), 20);
      std::vector<double> bare, guarded;
      for (int round = 0; round < kRounds; ++round) {
        bare.push_back(NsPerDecision(frontiers, [&](Frontier f) { return policy->Choose(f); }));
        guarded.push_back(NsPerDecision(frontiers, [&](Frontier f) { return decider.Decide(f); }));
      }
      const Quartiles q = QuartilesOf(bare), g = QuartilesOf(guarded);
      table.Add({name, Number(q, 1), Number(g, 1)});
      report.Figure("decisions." + name + ".ns_" + std::to_string(types), q.median, "ns", &q);
    }
  }
  report.Text(table.ToString());
}

int Main(int argc, char** argv) {
  const std::string json = JsonArgument("decisions", argc, argv);
  Report report("decisions");
  Measure(8, report);
  Measure(3, report);
  return report.Finish(json) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }

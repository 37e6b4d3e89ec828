// Batches that each policy makes of the papers' workloads in the closed loop, beside the lower bound; learning time.
//
//   batches.WORKLOAD_bB.POLICY    B requests, the file's first, no batch limit, no guard, node-by-node readiness
//   batches.WORKLOAD_bB.bound     no schedule makes fewer
//   batches.WORKLOAD_bB.depth_TOLD, agenda_TOLD    what policies are told of depth (unfolding.h), and rows by level
//   batches.WORKLOAD.learn_s      CPU time of learning and proving (one thread)
//   batches.random.POLICY_exact   share of 1,000 random small graphs on which it takes as few as an exact search
//   batches.replay.ns_a_node      of a whole replay, LB-greedy on 256 lattices
//
// `fsm` is what the trainer publishes from requests 256 to 463 of the file, which none of the counts asks about: a
// table, or where none is as good on its proofs, the best rule of thumb; the text says which. Beside the zoo's ten stand
// edbatch_lattice (ED-Batch's own lattices) and two_types (inner types in turn), as reference/algorithms.md 4.2 draws them.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_split.h"
#include "scheduler/offline/exact.h"
#include "scheduler/offline/learn/trainer.h"
#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/offline/test_graphs.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/cellular_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/policy/random_policy.h"
#include "scheduler/policy/sufficient_policy.h"
#include "tests/bench/report.h"
#include "tests/bench/unfolding.h"
#include "tests/ordering/paper_graphs.h"
#include "tests/ordering/zoo_graphs.h"
#include "tests/zoo/workload.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "", "Which, commas between; empty: all, and the random graphs.");
ABSL_FLAG(uint64_t, seed, 1, "Of learning, and of the random policy.");

namespace cellbatch {
namespace {

constexpr size_t kSizes[] = {8, 32, 64, 256};
constexpr size_t kAsked = 256;  // requests that are asked about; others are learned from

// Of this thread: what runs beside us does not count.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct NamedPolicy {
  const char* name;
  std::unique_ptr<const Policy> policy;
};

// All of design.md section 8, and DyNet's agenda as ED-Batch's code has it.
std::vector<NamedPolicy> Family(const OrderCandidate& learned, int32_t num_types) {
  std::vector<NamedPolicy> family;
  family.push_back({"cellular", std::make_unique<CellularPolicy>()});
  family.push_back({"random", std::make_unique<RandomPolicy>(absl::GetFlag(FLAGS_seed))});
  family.push_back({"depth", std::make_unique<DepthPolicy>()});
  family.push_back({"agenda", std::make_unique<AgendaPolicy>(AgendaMean::kWholeGraph)});
  family.push_back({"agenda_dyn", std::make_unique<AgendaPolicy>(AgendaMean::kRemaining)});
  family.push_back({"sufficient", std::make_unique<SufficientPolicy>()});
  family.push_back({"lb_greedy", std::make_unique<LbGreedyPolicy>()});
  family.push_back({"fsm", *MakePolicy(SpecOf(learned), static_cast<size_t>(num_types))});
  return family;
}

struct Workload {
  std::string name, source;
  bool in_zoo;
  std::vector<int32_t> priorities;
  std::vector<TypedGraph> requests;
  // The first so many as one graph.
  std::function<TypedGraph(size_t)> first;
};

std::optional<Workload> PaperWorkload(const std::string& name) {
  using ordering::PaperGraph;
  const bool lattice = name == "edbatch_lattice";
  const auto rows = std::make_shared<const ordering::PaperRows>(lattice ? PaperGraph::kLattice
                                                                        : PaperGraph::kTwoTypes);
  if (!rows->is_real()) return std::nullopt;
  Workload made{name,  rows->source(),
                false, {},
                {},    [rows](size_t count) {
                  return rows->Graph(static_cast<int32_t>(count)); }};
  for (size_t i = 0; i < kAsked + 2 * kMostLearnedFrom; ++i) {
    made.requests.push_back(rows->Graph(1, static_cast<int32_t>(i)));
  }
  return made;
}

std::optional<Workload> Load(const std::string& name) {
  if (name == "edbatch_lattice" || name == "two_types") return PaperWorkload(name);
  const auto zoo = std::make_shared<const ordering::ZooGraphs>(ordering::UnfoldZoo(name));
  return Workload{name,          zoo->source,
                  true,          zoo->priorities,
                  zoo->requests, [zoo](size_t count) { return zoo->Batch(0, count); }};
}

TrainingResult Learn(const Workload& workload, Report& report) {
  const double start = Seconds();
  const LessonBooks books = DealOut(absl::MakeConstSpan(workload.requests).subspan(kAsked));
  TrainingOptions options;
  options.seed = absl::GetFlag(FLAGS_seed);
  TrainingResult result = TrainOrder(books.learn.lessons(), books.prove.lessons(), options);
  const double took = Seconds() - start;
  report.Figure("batches." + workload.name + ".learn_s", took, "s");
  report.Text("\n" + workload.name + " (" + workload.source + "): " + result.published.name + ", " +
              std::to_string(result.published.rules.size()) + " states, " +
              Number(result.published.over_bound, 3) + " of the bound where it was proved; " +
              std::to_string(result.candidates.size() - 3) + " tables tried, " +
              Number(static_cast<double>(result.nodes) * 1e-6, 1) + " million nodes, " +
              Number(took, 2) + " s\n");
  return result;
}

void Measure(const Workload& workload, Report& report) {
  const TrainingResult learned = Learn(workload, report);
  const std::vector<NamedPolicy> family =
      Family(learned.published, workload.requests[0].num_types());
  std::vector<std::string> head = {"B", "nodes", "bound"};
  for (const NamedPolicy& p : family) head.push_back(p.name);
  head.insert(head.end(), {"fsm/bound", "fsm nodes a batch"});
  Table table(head);
  for (const size_t size : kSizes) {
    const TypedGraph graph = workload.first(size);
    const GraphFacts facts(graph);
    const int32_t bound = LowerBound(graph);
    const std::string name = "batches." + workload.name + "_b" + std::to_string(size) + ".";
    report.Figure(name + "bound", bound, "batches");
    std::vector<std::string> row = {std::to_string(size), std::to_string(graph.size()),
                                    std::to_string(bound)};
    ReplayReport last;
    for (const NamedPolicy& p : family) {
      last = RunClosed(facts, *p.policy, workload.priorities);
      const std::string fault = FaultOf(graph, last.schedule);
      if (!fault.empty()) {
        std::fprintf(stderr, "batches: %s%s: %s\n", name.c_str(), p.name, fault.c_str());
        std::exit(1);
      }
      report.Figure(name + p.name, last.batches, "batches");
      row.push_back(std::to_string(last.batches));
    }
    row.push_back(Number(static_cast<double>(last.batches) / bound, 3));
    row.push_back(Number(last.mean_fill, 1));
    table.Add(row);
  }
  report.Text(table.ToString());
  if (workload.in_zoo) MeasureUnfolding(workload.name, *family.back().policy, kSizes, report);
}

// How many batches more than the fewest, graph by graph.
struct Excess {
  static constexpr size_t kMost = 4;  // and more
  std::array<int, kMost + 1> graphs = {};
  void Add(int32_t over) { ++graphs[std::min(static_cast<size_t>(over), kMost)]; }
};

// A table is learned for each graph by itself, so what it misses its states cannot say, or the learner did not find.
void RandomGraphs(Report& report) {
  constexpr int kGraphs = 1000;
  constexpr int64_t kNodesReplayed = 100'000;
  std::mt19937_64 random(12);
  std::vector<std::string> names;
  std::vector<Excess> excess;
  for (int round = 0; round < kGraphs; ++round) {
    LessonBook book;
    book.Add(offline_testing::RandomGraph(random, 14, 3));
    const GraphFacts& facts = *book.lessons()[0].facts;
    const int32_t fewest = FewestBatches(facts.graph);
    TrainingOptions options;
    options.seed = absl::GetFlag(FLAGS_seed);
    options.most_nodes = kNodesReplayed;
    const TrainingResult learned = TrainOrder(book.lessons(), book.lessons(), options);
    const std::vector<NamedPolicy> family = Family(learned.published, facts.graph.num_types());
    excess.resize(family.size());
    names.resize(family.size());
    for (size_t i = 0; i < family.size(); ++i) {
      names[i] = family[i].name;
      excess[i].Add(RunClosed(facts, *family[i].policy).batches - fewest);
    }
  }
  report.Text(
      "\n1,000 random graphs of 14 nodes and 3 types: graphs by batches above the exact optimum\n");
  Table table({"policy", "0", "1", "2", "3", "more"});
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> row = {names[i]};
    for (const int graphs : excess[i].graphs) row.push_back(std::to_string(graphs));
    table.Add(row);
    report.Figure("batches.random." + names[i] + "_exact",
                  static_cast<double>(excess[i].graphs[0]) / kGraphs, "of graphs");
  }
  report.Text(table.ToString());
}

// Replays alone, most of what a decision costs offline.
void ReplaySpeed(const Workload& workload, Report& report) {
  const TypedGraph graph = workload.first(kAsked);
  const GraphFacts facts(graph);
  Replay replay(facts);
  const LbGreedyPolicy policy;
  std::vector<double> ns_a_node, decisions_per_s;
  for (int round = 0; round < 21; ++round) {
    const double start = Seconds();
    for (replay.Reset(); !replay.done();) replay.Execute(*policy.Choose(replay.frontier()));
    const double took = Seconds() - start;
    ns_a_node.push_back(took * 1e9 / graph.size());
    decisions_per_s.push_back(replay.batches() / took);
  }
  const Quartiles q = QuartilesOf(ns_a_node), d = QuartilesOf(decisions_per_s);
  report.Figure("batches.replay.ns_a_node", q.median, "ns", &q);
  report.Figure("batches.replay.decisions_per_s", d.median, "/s", &d);
}

std::vector<std::string> Names() {
  if (const std::string named = absl::GetFlag(FLAGS_workloads); !named.empty()) {
    return absl::StrSplit(named, ',');
  }
  std::vector<std::string> names(zoo::WorkloadNames().begin(), zoo::WorkloadNames().end());
  names.insert(names.end(), {"edbatch_lattice", "two_types"});
  return names;
}

int Main() {
  Report report("batches");
  for (const std::string& name : Names()) {
    const std::optional<Workload> workload = Load(name);
    if (!workload.has_value()) {
      report.Text("\n" + name + " is left out: its file is not in the data folder\n");
      continue;
    }
    Measure(*workload, report);
    if (name == "latticelstm") ReplaySpeed(*workload, report);
  }
  if (absl::GetFlag(FLAGS_workloads).empty()) RandomGraphs(report);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("batches [--workloads=latticelstm,nmt] [--seed=1] [--json=FILE]");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

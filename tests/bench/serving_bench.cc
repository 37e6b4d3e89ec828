// Serving-aware learning in virtual time: what a table learned for latency is worth beside those that need no such learning.
//
//   serving.WORKLOAD.POLICY.objective_LOAD   us: (1 - w) mean + w p99 on held-out requests and arrivals, at LOAD % of what
//                                            Algorithm 1 (cellular) answers in a closed loop of 256
//   serving.WORKLOAD.POLICY.p99_LOAD         us
//   serving.WORKLOAD.gain_LOAD               %: by how much the table learned for latency is better than the best of the
//                                            others; below 0: worse, and not published
//   serving.world_node_ns                    CPU of the world, a node
//
// The real scheduler on simulated devices, whose tasks take what this machine's took at the start of the benchmark (or
// what --costs says): noise of the machine is in the costs, and nowhere else. `fewest_batches` is cellbatch-learn's other
// table. Requests are the zoo's, half to learn from and half to prove on.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/offline/learn/lessons.h"
#include "scheduler/offline/learn/serving_trainer.h"
#include "scheduler/offline/learn/trainer.h"
#include "scheduler/offline/unfolded_graph.h"
#include "server/learn/learn_folder.h"
#include "server/learn/measured_costs.h"
#include "tests/bench/in_process.h"
#include "tests/bench/probes.h"
#include "tests/bench/report.h"
#include "tests/bench/stepped.h"
#include "tests/zoo/workload.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "treelstm,treelstm_2type,nmt,latticelstm",
          "Of the zoo; commas between.");
ABSL_FLAG(std::string, loads, "30,60,90", "Per cent; commas between.");
ABSL_FLAG(int, h, 512, "Units of every recurrent cell.");
ABSL_FLAG(int, requests, 416, "Of each workload, from its smallest to its largest.");
ABSL_FLAG(double, tail_weight, 0.5, "Of p99; the rest is the mean's.");
ABSL_FLAG(int64_t, most_nodes, 60'000'000, "To learn with.");
ABSL_FLAG(std::string, devices, "auto", "Whose tasks are measured.");
ABSL_FLAG(std::string, costs, "",
          "A folder of WORKLOAD.costs.textproto to read, or write where there is none.");
ABSL_FLAG(uint64_t, seed, 1, "Of learning and of arrivals.");

namespace cellbatch {
namespace {

struct Loaded {
  std::shared_ptr<zoo::Workload> workload;
  ServedModel served;
  std::vector<TypedGraph> graphs;
  std::string costs;  // where they come from
};

MeasuredCosts CostsOf(const std::string& name, const ServedModel& served) {
  const std::string folder = absl::GetFlag(FLAGS_costs);
  const std::string file = absl::StrCat(folder, "/", name, ".costs.textproto");
  if (!folder.empty() && std::filesystem::exists(file)) {
    return Require(ReadCosts(file, *served.model), "reading " + file);
  }
  MeasuredCosts costs =
      Require(MeasureCosts(absl::GetFlag(FLAGS_devices), served.model, served.make, served.shapes),
              "measuring " + name);
  if (!folder.empty()) Require(WriteWhole(file, CostsText(costs, *served.model)), "writing costs");
  return costs;
}

Loaded Load(const std::string& name) {
  Loaded loaded;
  loaded.workload = std::make_shared<zoo::Workload>(
      zoo::MakeWorkload(name, zoo::Sizes::Benchmark(absl::GetFlag(FLAGS_h)),
                        static_cast<size_t>(absl::GetFlag(FLAGS_requests))));
  ServedModel& served = loaded.served;
  served.model = LoadWorkload(*loaded.workload, ModelId(1));
  served.shapes = static_cast<int32_t>(loaded.workload->requests.size());
  served.make = [workload = loaded.workload, model = served.model](int32_t shape, int in_flight) {
    return std::move(MakeRequest(model, workload->requests[static_cast<size_t>(shape)],
                                 workload->paper_outputs, in_flight)
                         ->graph);
  };
  for (int32_t i = 0; i < served.shapes; ++i) {
    AppendUnfolded(served.make(i, 2), *served.model,
                   loaded.graphs.emplace_back(static_cast<int32_t>(served.model->types.size())));
  }
  const MeasuredCosts costs = CostsOf(name, served);
  served.costs = costs.InWorld();
  served.world.wake_ns = costs.wake_ns;
  double times = 0;
  for (const double t : costs.served) times += t / static_cast<double>(costs.served.size());
  loaded.costs =
      absl::StrCat(costs.origin, "; served ", Number(times, 2), " times as long, ",
                   Number(static_cast<double>(costs.task_overhead_ns) * 1e-3, 1), " us a task, ",
                   Number(static_cast<double>(costs.wake_ns) * 1e-3, 0), " us to wake");
  return loaded;
}

std::vector<NamedPolicy> FewestBatches(const Loaded& loaded) {
  const LessonBooks books = DealOut(loaded.graphs);
  TrainingOptions options;
  options.seed = absl::GetFlag(FLAGS_seed);
  const TrainingResult training = TrainOrder(books.learn.lessons(), books.prove.lessons(), options);
  // The zoo gives its types no priorities. Algorithm 1 wants them, and higher ones for later stages.
  NamedPolicy prioritised = {"cellular_by_stage", PolicySpec()};
  for (const CellType& type : loaded.served.model->types) {
    prioritised.priorities.push_back(type.id.value());
  }
  return {{"fewest_batches", SpecOf(training.published)}, std::move(prioritised)};
}

// A small table, to be read.
std::string RulesOf(const PolicySpec& spec, const Model& model) {
  constexpr size_t kMostShown = 8;
  if (spec.rules.size() > kMostShown) return "";
  std::string text;
  const auto add = [&](const char* what, const std::vector<CellTypeId>& types) {
    if (types.empty()) return;
    absl::StrAppend(&text, what);
    for (const CellTypeId type : types) absl::StrAppend(&text, " ", model.type(type).name);
  };
  for (const FsmTable::Rule& rule : spec.rules) {
    add("  ready", TypesOf(rule.state));
    add(", lowering", LoweringOf(rule.state));
    add(", filled", FilledOf(rule.state));
    absl::StrAppend(&text, ", phase ", PhaseOf(rule.state), ": run ", model.type(rule.action).name,
                    "\n");
  }
  return text;
}

struct Work {
  double seconds = 0;
  int64_t nodes = 0;
};

void Measure(const std::string& name, Report& report, Work& work) {
  const Loaded loaded = Load(name);
  const std::vector<NamedPolicy> others = FewestBatches(loaded);
  Table table({"load", "policy", "mean us", "p99 us", "objective us", "of Algorithm 1", "fill"});
  std::string said;
  for (const absl::string_view load : absl::StrSplit(absl::GetFlag(FLAGS_loads), ',')) {
    ServingTrainingOptions options;
    options.load = std::stod(std::string(load)) / 100;
    options.tail_weight = absl::GetFlag(FLAGS_tail_weight);
    options.seed = absl::GetFlag(FLAGS_seed);
    options.most_nodes = absl::GetFlag(FLAGS_most_nodes);
    const int64_t begin = ThreadCpuNs();
    const ServingTrainingResult r = TrainServing(loaded.served, others, options);
    const double took = static_cast<double>(ThreadCpuNs() - begin) * 1e-9;
    work.seconds += took;
    work.nodes += r.nodes;
    for (const ServingCandidate& c : r.candidates) {
      if (c.proofs_ns.empty()) continue;
      const std::string policy = c.is_table ? "serving_aware" : c.name;
      table.Add({std::string(load), policy, Number(c.mean_ns * 1e-3, 0), Number(c.p99_ns * 1e-3, 0),
                 Number(c.objective_ns * 1e-3, 0),
                 Number(c.objective_ns / r.candidates[0].objective_ns, 3), Number(c.mean_fill, 1)});
      const std::string figure = absl::StrCat("serving.", name, ".", policy, ".");
      report.Figure(absl::StrCat(figure, "objective_", load), c.objective_ns * 1e-3, "us");
      report.Figure(absl::StrCat(figure, "p99_", load), c.p99_ns * 1e-3, "us");
      if (c.is_table) {
        const double percent = 100 / (c.objective_ns + r.gain_ns);
        report.Figure(absl::StrCat("serving.", name, ".gain_", load), r.gain_ns * percent, "%");
        absl::StrAppend(&said, load, " %: ", Number(r.requests_per_s, 1), " requests/s; ", c.name,
                        ", ", c.spec.rules.size(), " states; ", Number(r.gain_ns * percent, 1),
                        " % (standard error ", Number(r.gain_error_ns * percent, 1),
                        ") less than the best of the others; ",
                        r.table_is_best ? "published" : "not published", "; ",
                        Number(took, 1), " s of a core\n", RulesOf(c.spec, *loaded.served.model));
      }
    }
  }
  report.Text(absl::StrCat("\n", name, ", ", loaded.workload->source, "; ", loaded.costs, "\n",
                           table.ToString(), said));
}

int Main() {
  Report report("serving");
  Work work;
  for (const absl::string_view name : absl::StrSplit(absl::GetFlag(FLAGS_workloads), ',')) {
    Measure(std::string(name), report, work);
  }
  report.Figure("serving.world_node_ns", work.seconds * 1e9 / static_cast<double>(work.nodes),
                "ns");
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serving-aware learning in virtual time.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

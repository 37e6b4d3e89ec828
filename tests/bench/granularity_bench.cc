// The JIT paper's Table 1: batches and scheduling time of 256 child-sum trees by what one node is.
//
//   granularity.operator     every operator of a cell is a node, batched as DyNet does
//   granularity.whole_cell   the paper's own "cell": a cell type for each number of children, edges inside
//   granularity.arity_split  our cells, but words with different numbers of children do not batch
//   granularity.cell         our cells: split where the number of children enters, one type for all numbers
//
// each with .nodes, .batches, .scheduling_ms, .device_ms and .unfold_ms of 256 trees of ud_ewt_test.tsv (in the file's
// order; means of counts and medians of times over all groups of 256), outputs at the root. All 256 are submitted, then
// steps are made until all are done, on one core; a batch has what is ready, up to 4096 nodes. Scheduling is the CPU
// time of manager and worker without the device's (stepped.h); unfolding includes sealing and submitting. All four
// compute the same: their answers are compared.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "cells/arity_split.h"
#include "cells/unfold/unfolder.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/bench/stepped.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, h, 256, "Units of every cell, and width of embeddings.");
ABSL_FLAG(int, trees, 256, "In one group.");
ABSL_FLAG(int, groups, 0, "How many; 0: as many as the file has.");
ABSL_FLAG(std::string, devices, "cpu:0", "One device, as cellbatch-server's --devices names it.");

namespace cellbatch {
namespace {

constexpr int32_t kMostArity = 13;  // more than any word's children
constexpr int32_t kNoLimit = 4096;  // the most there is

struct Granularity {
  std::string name, workload, more;
  std::function<std::shared_ptr<const Model>(std::shared_ptr<const Model>)> changed;
};

std::vector<Granularity> Granularities() {
  const auto as_it_is = [](std::shared_ptr<const Model> model) { return model; };
  const auto split = [](std::shared_ptr<const Model> model) -> std::shared_ptr<const Model> {
    return SplitByArity(std::move(model), kMostArity);
  };
  return {{"operator", "childsum", "granularity: OPERATOR\n", as_it_is},
          {"whole_cell", "childsum_by_arity", "", as_it_is},
          {"arity_split", "childsum", "", split},
          {"cell", "childsum", "", as_it_is}};
}

struct Measured {
  std::vector<double> nodes, batches, scheduling_ms, device_ms, unfold_ms;
  std::vector<std::vector<float>> answers;  // by tree
};

double Milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

int64_t Tasks(Stepped& stepped) {
  return static_cast<int64_t>(stepped.scheduler().stats().Devices()[0].tasks);
}

// One group, `first` its first tree.
void Measure(Stepped& stepped, const std::shared_ptr<const Model>& model,
             const zoo::Workload& workload, size_t first, Measured& measured) {
  static const std::vector<std::string> kRoot = {"OUTPUT"};
  const auto trees = static_cast<size_t>(absl::GetFlag(FLAGS_trees));
  const int64_t start = stepped.NowNs();
  for (size_t i = 0; i < trees; ++i) {
    auto request = MakeRequest(model, workload.requests[first + i], kRoot,
                               stepped.scheduler().max_tasks_in_flight());
    request->tag = i;
    if (!stepped.scheduler().Submit(request)) {
      Require(absl::InternalError("queue full"), "submitting");
    }
  }
  measured.unfold_ms.push_back(Milliseconds(stepped.NowNs() - start));
  const Stepped::Times before = stepped.times();
  const int64_t tasks = Tasks(stepped);
  stepped.Resume();
  stepped.StepUntilIdle();
  const Stepped::Times times = stepped.times() - before;
  measured.batches.push_back(static_cast<double>(Tasks(stepped) - tasks));
  measured.scheduling_ms.push_back(Milliseconds(times.scheduling()));
  measured.device_ms.push_back(Milliseconds(times.device));
  std::vector<std::unique_ptr<Request>> finished(trees);
  const int n = stepped.scheduler().Take(OutboxId(0), absl::MakeSpan(finished));
  if (static_cast<size_t>(n) != trees) Require(absl::InternalError("not all are done"), "stepping");
  measured.answers.resize(first + trees);
  double nodes = 0;
  for (const auto& request : finished) {
    Require(request->status, "a request");
    nodes += static_cast<double>(request->nodes_executed);
    const auto bytes = request->graph.tensors()[0].bytes;
    std::vector<float>& answer = measured.answers[first + request->tag];
    answer.resize(bytes.size() / sizeof(float));
    std::memcpy(answer.data(), bytes.data(), bytes.size());
  }
  measured.nodes.push_back(nodes);
}

Measured Run(const Granularity& granularity) {
  const zoo::Workload workload = zoo::MakeWorkload(
      granularity.workload, zoo::Sizes::Benchmark(absl::GetFlag(FLAGS_h)), /*items=*/0);
  const auto model = granularity.changed(LoadWorkload(workload, ModelId(1), granularity.more));
  SchedulerOptions options;
  options.calibrate = false;
  options.batch_limit = kNoLimit;
  Stepped stepped(options, absl::GetFlag(FLAGS_devices), model);
  const auto trees = static_cast<size_t>(absl::GetFlag(FLAGS_trees));
  size_t groups = workload.requests.size() / trees;
  if (absl::GetFlag(FLAGS_groups) > 0) {
    groups = std::min(groups, static_cast<size_t>(absl::GetFlag(FLAGS_groups)));
  }
  Measured warm, measured;
  Measure(stepped, model, workload, 0, warm);
  for (size_t g = 0; g < groups; ++g) Measure(stepped, model, workload, g * trees, measured);
  return measured;
}

// Ends the program where answers differ by more than sums in another order explain.
void Compare(const Measured& a, const Measured& b, const std::string& name) {
  constexpr float kTolerance = 1e-4f;
  float most = a.answers.size() == b.answers.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.answers.size(), b.answers.size()); ++i) {
    if (a.answers[i].size() != b.answers[i].size()) most = INFINITY;
    for (size_t k = 0; k < std::min(a.answers[i].size(), b.answers[i].size()); ++k) {
      most = std::max(most, std::abs(a.answers[i][k] - b.answers[i][k]));
    }
  }
  if (!(most <= kTolerance)) {
    Require(absl::InternalError("answers differ by " + std::to_string(most)), name);
  }
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

int Main() {
  Report report("granularity");
  const auto trees = std::to_string(absl::GetFlag(FLAGS_trees));
  report.Fact("units", std::to_string(absl::GetFlag(FLAGS_h)));
  Table table({"a node is", "nodes", "batches", "nodes a batch", "scheduling ms", "device ms",
               "unfold ms", "trees/s"});
  std::vector<Measured> all;
  for (const Granularity& granularity : Granularities()) {
    const Measured& m = all.emplace_back(Run(granularity));
    Compare(all.front(), m, granularity.name);
    const double nodes = Mean(m.nodes), batches = Mean(m.batches);
    const Quartiles scheduling = QuartilesOf(m.scheduling_ms), device = QuartilesOf(m.device_ms),
                    unfold = QuartilesOf(m.unfold_ms);
    const double rate =
        absl::GetFlag(FLAGS_trees) * 1e3 / (scheduling.median + device.median + unfold.median);
    table.Add({granularity.name, Number(nodes, 0), Number(batches, 1), Number(nodes / batches, 1),
               Number(scheduling, 2), Number(device, 1), Number(unfold, 2), Number(rate, 0)});
    const std::string name = "granularity." + granularity.name;
    report.Figure(name + ".nodes", nodes, "nodes");
    report.Figure(name + ".batches", batches, "batches");
    report.Figure(name + ".scheduling_ms", scheduling.median, "ms", &scheduling);
    report.Figure(name + ".device_ms", device.median, "ms", &device);
    report.Figure(name + ".unfold_ms", unfold.median, "ms", &unfold);
  }
  report.Text(trees + " child-sum trees of ud_ewt_test.tsv\n" + table.ToString());
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Batches and scheduling time by granularity.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

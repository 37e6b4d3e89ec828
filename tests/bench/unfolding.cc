#include "tests/bench/unfolding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "scheduler/offline/replay.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "tests/ordering/zoo_graphs.h"

namespace cellbatch {
namespace {

struct Told {
  const char* name;
  const char* config;
};
constexpr std::array kTold = {
    Told{"plain", "phases: OFF ghosts: OFF"},
    Told{"phases", "phases: ON ghosts: OFF"},
    Told{"ghosts", "phases: OFF ghosts: ON"},
    Told{"both", "phases: ON ghosts: ON"},
};

struct NamedPolicy {
  const char* name;
  std::unique_ptr<const Policy> policy;
};

std::vector<NamedPolicy> ThatLookAtDepth() {
  std::vector<NamedPolicy> policies;
  policies.push_back({"depth", std::make_unique<DepthPolicy>()});
  policies.push_back({"agenda", std::make_unique<AgendaPolicy>(AgendaMean::kWholeGraph)});
  policies.push_back({"agenda_dyn", std::make_unique<AgendaPolicy>(AgendaMean::kRemaining)});
  return policies;
}

// Rows, one of them a node's or several; the mean length of their runs without gaps.
class Runs {
 public:
  void Add(std::vector<int64_t> rows) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (size_t i = 0; i < rows.size(); ++i) runs_ += i == 0 || rows[i] != rows[i - 1] + 1;
    rows_ += static_cast<int64_t>(rows.size());
  }
  double mean() const {
    return runs_ == 0 ? 0 : static_cast<double>(rows_) / static_cast<double>(runs_);
  }

 private:
  int64_t rows_ = 0, runs_ = 0;
};

struct RowRuns {
  double written, read;
};

RowRuns RunsOf(const ordering::ZooGraphs& requests, size_t size, const Policy& policy) {
  const TypedGraph graph = requests.Batch(0, size);
  const GraphFacts facts(graph);
  const std::vector<int64_t> rows = requests.BatchRows(0, size);
  Runs written, read;
  for (const std::vector<int32_t>& batch : RunClosed(facts, policy, requests.priorities).schedule) {
    std::vector<int64_t> writes, reads;
    for (const int32_t v : batch) {
      writes.push_back(rows[static_cast<size_t>(v)]);
      for (const int32_t p : graph.predecessors(v)) reads.push_back(rows[static_cast<size_t>(p)]);
    }
    written.Add(std::move(writes));
    read.Add(std::move(reads));
  }
  return {written.mean(), read.mean()};
}

}  // namespace

void MeasureUnfolding(const std::string& workload, const Policy& learned,
                      absl::Span<const size_t> sizes, Report& report) {
  const std::vector<NamedPolicy> policies = ThatLookAtDepth();
  std::vector<ordering::ZooGraphs> told;
  for (const Told& t : kTold) told.push_back(ordering::UnfoldZoo(workload, t.config, sizes.back()));
  const ordering::ZooGraphs by_level =
      ordering::UnfoldZoo(workload, "phases: OFF ghosts: OFF level_rows: ON", sizes.back());
  std::vector<std::string> head = {"B"};
  for (const NamedPolicy& p : policies) {
    for (const Told& t : kTold) head.push_back(std::string(p.name) + " " + t.name);
  }
  head.insert(head.end(), {"rows a run, by level", "read, by level"});
  Table table(head);
  for (const size_t size : sizes) {
    const std::string name = "batches." + workload + "_b" + std::to_string(size) + ".";
    std::vector<std::string> row = {std::to_string(size)};
    for (const NamedPolicy& p : policies) {
      for (size_t t = 0; t < kTold.size(); ++t) {
        const TypedGraph graph = told[t].Batch(0, size);
        const int32_t batches = RunClosed(GraphFacts(graph), *p.policy, told[t].priorities).batches;
        row.push_back(std::to_string(batches));
        if (t > 0) report.Figure(name + p.name + "_" + kTold[t].name, batches, "batches");
      }
    }
    const RowRuns off = RunsOf(told[0], size, learned), on = RunsOf(by_level, size, learned);
    report.Figure(name + "run_rows", off.written, "rows");
    report.Figure(name + "run_rows_by_level", on.written, "rows");
    report.Figure(name + "read_rows", off.read, "rows");
    report.Figure(name + "read_rows_by_level", on.read, "rows");
    row.push_back(Number(off.written, 1) + ", " + Number(on.written, 1));
    row.push_back(Number(off.read, 1) + ", " + Number(on.read, 1));
    table.Add(row);
  }
  report.Text(table.ToString());
}

}  // namespace cellbatch

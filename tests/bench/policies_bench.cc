// What users get of each policy and of graph batching: the real server, Poisson arrivals at 30, 60 and 90 % load, gRPC.
//
//   policies.WORKLOAD.POLICY.requests_per_s   answers in a closed loop of --in_flight requests, median of the rounds
//   policies.WORKLOAD.POLICY.p50_LOAD         ms from when a request was due to its answer, at LOAD % of what Algorithm 1
//   policies.WORKLOAD.POLICY.p99_LOAD         (cellular) answers in the closed loop; medians of the rounds
//   policies.WORKLOAD.POLICY.p99_of_cellular_LOAD   that p99 by Algorithm 1's of the same round; their median
//   policies.WORKLOAD.POLICY.most             of graph batching: requests of a batch, at which it answers most
//
// One cellbatch-server for a workload, with the same model once for each policy (served_policies.h). In each round every
// policy is measured once, one after the other. `fsm` is what cellbatch-learn publishes from requests that it makes up at
// the start, `fsm_latency` the same with --objective latency. Graph batching is swept over --most before, a closed loop
// each, and goes on with the best: `whole_graphs_depth` and `_agenda` are merged graphs; of sequences (lstm) `packed`,
// `padded` and `bucketed` (scheduler/policy/whole_graphs.h). Batches are answered together, as where a batch is one
// graph. Rounds that the load generator does not call VALID count for no figure; with fewer than half there is none, and
// the table marks what was seen.
//
// --seconds is about what all of it takes. A look: --seconds=40 --rounds=1 --h=64 --workloads=lstm
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/bench/report.h"
#include "tests/bench/served_policies.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "treelstm,nmt,latticelstm,lstm", "Of the zoo; commas between.");
ABSL_FLAG(std::string, policies, "",
          "Which, commas between, of cellular (always one), fsm, fsm_latency, lb_greedy, agenda, "
          "depth, and of graph batching. Empty: the first three and graph batching.");
ABSL_FLAG(int, h, 512, "Units of every recurrent cell.");
ABSL_FLAG(double, seconds, 1100, "About what measuring takes, of all workloads.");
ABSL_FLAG(int, rounds, 3, "In each, every policy is measured once at each load.");
ABSL_FLAG(std::string, most, "16,32,64,128", "Limits of graph batching that are tried.");
ABSL_FLAG(int, in_flight, 256, "Requests of the closed loop.");
ABSL_FLAG(std::string, devices, "auto", "cellbatch-server's --devices.");
ABSL_FLAG(uint64_t, seed, 1, "Of learning, of the requests and of their arrivals.");

namespace cellbatch {
namespace {

constexpr int kLoads[] = {30, 60, 90};  // per cent
// Of what a closed loop and a run take beyond what they measure: warming up, connecting, awaiting the last answers.
constexpr double kClosedTakes = 1.6, kOpenTakes = 1.45;
constexpr int kClosedRounds = 2;

// One way of deciding, and what is known of it.
struct Line {
  std::string name;           // as figures call it
  std::vector<Rival> rivals;  // of graph batching one for each limit
  size_t best = 0;            // of them
  std::unique_ptr<Workload> load = {};
  double per_second = 0;
  std::vector<Rounds> at = {};  // by load
};

std::vector<std::string> GraphKinds(const std::string& workload) {
  if (workload == "lstm") return {"packed", "padded", "bucketed"};
  return {"whole_graphs_depth", "whole_graphs_agenda"};
}

std::vector<int> Limits() {
  std::vector<int> limits;
  for (const absl::string_view text : absl::StrSplit(absl::GetFlag(FLAGS_most), ',')) {
    int most = 0;
    if (absl::SimpleAtoi(text, &most)) limits.push_back(most);
  }
  return limits;
}

// In the order in which they are measured; Algorithm 1 first.
std::vector<Line> LinesOf(const std::string& workload, Report& report) {
  const std::string flag = absl::GetFlag(FLAGS_policies);
  const std::vector<std::string> chosen = absl::StrSplit(flag, ',');
  const auto wanted = [&](const std::string& name, bool usually) {
    if (flag.empty()) return usually;
    return std::find(chosen.begin(), chosen.end(), name) != chosen.end();
  };
  std::vector<Line> lines;
  lines.push_back({"cellular", {CellularRival()}});
  const bool one_type = workload == "lstm";  // nothing to choose
  if (wanted("fsm", !one_type)) lines.push_back({"fsm", {FsmRival()}});
  if (wanted("fsm_latency", !one_type)) {
    if (auto c = LatencyFsmRival(report)) lines.push_back({"fsm_latency", {*c}});
  }
  for (const auto& [name, kind] : {std::pair("lb_greedy", "LB_GREEDY"),
                                   std::pair("agenda", "AGENDA"), std::pair("depth", "DEPTH")}) {
    if (!wanted(name, false)) continue;
    lines.push_back({name, {{name, absl::StrCat("policy { kind: ", kind, " }")}}});
  }
  for (const std::string& kind : GraphKinds(workload)) {
    if (!wanted(kind, true)) continue;
    Line& line = lines.emplace_back(Line{kind, {}});
    for (const int most : Limits()) line.rivals.push_back(GraphRival(kind, most));
  }
  return lines;
}

// Of how many seconds one run may be, of all that is measured.
double RunSeconds(const std::vector<std::vector<Line>>& all) {
  double runs = 0;
  for (const std::vector<Line>& lines : all) {
    for (const Line& line : lines) {
      const auto swept = static_cast<double>(line.rivals.size() > 1 ? line.rivals.size() : 0);
      runs += kClosedTakes * (kClosedRounds + swept / 2) +
              kOpenTakes * absl::GetFlag(FLAGS_rounds) * std::size(kLoads);
    }
  }
  return absl::GetFlag(FLAGS_seconds) / runs;
}

// Of each baseline the limit at which it answers most.
void Sweep(const ServedPolicies& served, const std::string& prefix, double seconds,
           std::vector<Line>& lines, Report& report) {
  for (Line& line : lines) {
    line.best = served.BestOf(line.rivals, absl::GetFlag(FLAGS_in_flight), seconds / 2, report);
    if (line.rivals.size() > 1) {
      report.Figure(prefix + line.name + ".most", Limits()[line.best], "requests");
    }
    line.load = served.Load(line.rivals[line.best].name);
  }
}

void MeasureClosed(const ServedPolicies& served, double seconds, std::vector<Line>& lines) {
  std::vector<std::vector<double>> seen(lines.size());
  for (int round = 0; round < kClosedRounds; ++round) {
    for (size_t i = 0; i < lines.size(); ++i) {
      const size_t at = round % 2 == 0 ? i : lines.size() - 1 - i;
      seen[at].push_back(
          served.PerSecond(*lines[at].load, absl::GetFlag(FLAGS_in_flight), seconds));
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) lines[i].per_second = QuartilesOf(seen[i]).median;
}

void MeasureOpen(const ServedPolicies& served, double seconds, std::vector<Line>& lines) {
  const double capacity = lines[0].per_second;  // Algorithm 1's
  for (Line& line : lines) line.at.resize(std::size(kLoads));
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    for (size_t l = 0; l < std::size(kLoads); ++l) {
      for (Line& line : lines) {
        line.at[l].Add(served.RunAt(*line.load, capacity * kLoads[l] / 100, seconds));
      }
    }
  }
}

void Tell(const std::string& workload, const std::string& prefix, const std::vector<Line>& lines,
          Report& report) {
  std::vector<std::string> head = {"policy", "requests/s"};
  for (const int percent : kLoads) {
    for (const char* tail : {"p50", "p99"}) {
      head.push_back(absl::StrCat(tail, " ms at ", percent, " %"));
    }
  }
  Table table(head);
  for (const Line& line : lines) {
    const std::string figure = prefix + line.name + ".";
    std::vector<std::string> row = {line.rivals[line.best].name, Number(line.per_second, 1)};
    report.Figure(figure + "requests_per_s", line.per_second, "1/s");
    for (size_t l = 0; l < std::size(kLoads); ++l) {
      for (const auto& [tail, name] :
           {std::pair(size_t{0}, "p50_"), std::pair(size_t{2}, "p99_")}) {
        row.push_back(line.at[l].Told(tail));
        const std::optional<double> ms = line.at[l].Median(tail);
        if (ms) report.Figure(absl::StrCat(figure, name, kLoads[l]), *ms, "ms");
      }
      std::vector<std::optional<double>> ratios = line.at[l].Ms(2);
      const std::vector<std::optional<double>> cellular = lines[0].at[l].Ms(2);
      for (size_t r = 0; r < ratios.size(); ++r) {
        if (ratios[r] && cellular[r]) {
          *ratios[r] /= *cellular[r];
        } else {
          ratios[r].reset();
        }
      }
      const std::optional<double> ratio = Rounds::MedianOf(ratios);
      if (ratio && &line != &lines[0]) {
        report.Figure(absl::StrCat(figure, "p99_of_cellular_", kLoads[l]), *ratio, "x");
      }
    }
    table.Add(row);
  }
  report.Text(absl::StrCat("\n", workload, ", ", lines[0].load->description(), "\n",
                           table.ToString(),
                           "!: not VALID, no figure; +: the server fell behind\n"));
  for (const Line& line : lines) {
    for (size_t l = 0; l < std::size(kLoads); ++l) {
      for (const std::string& finding : line.at[l].findings()) {
        report.Text(absl::StrCat(line.name, " at ", kLoads[l], " %: ", finding, "\n"));
      }
    }
  }
}

void Measure(const std::string& workload, double seconds, std::vector<Line> lines, Report& report) {
  std::vector<Rival> rivals;
  for (const Line& line : lines) {
    rivals.insert(rivals.end(), line.rivals.begin(), line.rivals.end());
  }
  const std::string prefix = "policies." + workload + ".";
  const ServedPolicies served(workload, absl::GetFlag(FLAGS_h), rivals,
                              absl::GetFlag(FLAGS_devices), absl::GetFlag(FLAGS_seed), report);
  Sweep(served, prefix, seconds, lines, report);
  MeasureClosed(served, seconds, lines);
  MeasureOpen(served, seconds, lines);
  Tell(workload, prefix, lines, report);
}

int Main() {
  Report report("policies");
  GoToRunfiles();
  const std::vector<std::string> workloads = absl::StrSplit(absl::GetFlag(FLAGS_workloads), ',');
  std::vector<std::vector<Line>> all;
  for (const std::string& workload : workloads) all.push_back(LinesOf(workload, report));
  const double seconds = RunSeconds(all);
  report.Fact("seconds of a run", Number(seconds, 2));
  report.Fact("rounds", std::to_string(absl::GetFlag(FLAGS_rounds)));
  report.Fact("units", std::to_string(absl::GetFlag(FLAGS_h)));
  for (size_t w = 0; w < workloads.size(); ++w) {
    Measure(workloads[w], seconds, std::move(all[w]), report);
  }
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Policies and graph batching through the real server.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

// What users get of each policy and of graph batching: the real server, Poisson arrivals at 30, 60 and 90 % load, gRPC.
//
//   policies.WORKLOAD.POLICY.requests_per_s   answers in a closed loop of --in_flight requests, mean of two
//   policies.WORKLOAD.POLICY.p50_LOAD         ms from when a request was due to its answer, at LOAD % of what Algorithm 1
//   policies.WORKLOAD.POLICY.p99_LOAD         (cellular) answers in the closed loop
//
// One cellbatch-server for a workload, with the same model once for each policy. Requests are the load generator's
// built-in ones, the same at the same moments for each policy. `fsm` is what cellbatch-learn publishes from requests
// that it makes up at the start. `whole_graphs_depth` and `_agenda` are graph batching of up to --most requests, merged
// graphs (scheduler/policy/whole_graphs.h). The load generator shares the machine with the server. Of a run that it does
// not call VALID there is no figure; the table has it, marked.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "loadgen/capacity.h"
#include "loadgen/run.h"
#include "loadgen/workload.h"
#include "tests/bench/report.h"
#include "tests/e2e/server_process.h"
#include "tests/zoo/workload.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "treelstm,nmt,latticelstm", "Of the zoo; commas between.");
ABSL_FLAG(std::string, policies, "", "Which, commas between; empty: all. cellular is always one.");
ABSL_FLAG(int, h, 512, "Units of every recurrent cell.");
ABSL_FLAG(double, seconds, 20, "Length of one measured phase.");
ABSL_FLAG(int, most, 64, "Requests of a batch of whole graphs.");
ABSL_FLAG(int, in_flight, 256, "Requests of the closed loop.");
ABSL_FLAG(std::string, devices, "auto", "cellbatch-server's --devices.");
ABSL_FLAG(uint64_t, seed, 1, "Of learning, of the requests and of their arrivals.");

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr int kLoads[] = {30, 60, 90};  // per cent

// Ends the program with a message unless it is OK. (Not in_process.h's: that speaks of the server's own types, and so
// does the client of its own, by the same names.)
void Require(const absl::Status& status, const std::string& doing) {
  if (status.ok()) return;
  std::fprintf(stderr, "policies: %s: %s\n", doing.c_str(), status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Require(absl::StatusOr<T> value, const std::string& doing) {
  Require(value.status(), doing);
  return *std::move(value);
}

struct Contender {
  std::string name, config;
};

std::vector<Contender> Contenders() {
  const std::string join =
      absl::StrCat(" join { whole_graphs { most: ", absl::GetFlag(FLAGS_most), " } }");
  const std::vector<Contender> all = {{"cellular", "policy { kind: CELLULAR }"},
                                      {"fsm", "policy { kind: LEARNED }"},
                                      {"lb_greedy", "policy { kind: LB_GREEDY }"},
                                      {"agenda", "policy { kind: AGENDA }"},
                                      {"depth", "policy { kind: DEPTH }"},
                                      {"whole_graphs_depth", "policy { kind: DEPTH }" + join},
                                      {"whole_graphs_agenda", "policy { kind: AGENDA }" + join}};
  const std::string flag = absl::GetFlag(FLAGS_policies);
  if (flag.empty()) return all;
  std::vector<Contender> chosen = {all[0]};
  for (const absl::string_view name : absl::StrSplit(flag, ',')) {
    if (name == all[0].name) continue;
    const auto known =
        std::find_if(all.begin(), all.end(), [&](const Contender& c) { return c.name == name; });
    if (known == all.end()) {
      Require(absl::InvalidArgumentError(absl::StrCat("no such policy: ", name)), "--policies");
    }
    chosen.push_back(*known);
  }
  return chosen;
}

// What cellbatch-learn, as people run it, makes of made-up requests: a table, or the rule that was better than any.
void Learn(const std::string& repository, const std::string& model,
           const std::vector<std::string>& outputs, Report& report) {
  const std::string command =
      absl::StrCat("server/cellbatch-learn --model-repository ", repository, " --model ", model,
                   " --outputs ", absl::StrJoin(outputs, ","), " --seed ",
                   absl::GetFlag(FLAGS_seed), " | grep '^learned\\|^proved\\|^published'");
  std::string said;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) Require(absl::InternalError(command), "learning");
  char block[512];
  for (size_t n = 0; (n = fread(block, 1, sizeof(block), pipe)) > 0;) said.append(block, n);
  const int exit_code = pclose(pipe);
  if (exit_code != 0) Require(absl::InternalError(command), "learning");
  report.Text(said);
}

// Models of one workload, by policy, in a folder that goes with it, and their server.
class Served {
 public:
  Served(const std::string& workload, const std::vector<Contender>& contenders, Report& report)
      : model_(zoo::MakeWorkload(workload, zoo::Sizes::Benchmark(absl::GetFlag(FLAGS_h)), 1)) {
    std::string folder = fs::temp_directory_path() / "cellbatch-policies-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) Require(absl::InternalError(folder), "a folder");
    folder_ = folder;
    for (const Contender& c : contenders) {
      model_.model.Write(folder_, c.name, c.config);
      if (c.name == "fsm") Learn(folder_, c.name, model_.paper_outputs, report);
    }
    server_ = ServerProcess::Serving(
        folder_, {"--devices=" + absl::GetFlag(FLAGS_devices), "--row-budget=256MiB"});
    if (server_ == nullptr) Require(absl::UnavailableError("it ended"), "starting the server");
    client_ = Require(Client::Connect({.url = server_->grpc()}), "connecting");
  }
  ~Served() { fs::remove_all(folder_); }

  AsyncCallerOptions caller() const {
    AsyncCallerOptions options;
    options.url = server_->grpc();
    options.timeout = std::chrono::seconds(60);
    return options;
  }
  // What the papers' programs compute, of built-in items.
  std::unique_ptr<Workload> Load(const std::string& model) const {
    MixEntry entry;
    entry.model = model;
    entry.outputs = model_.paper_outputs;
    return Require(MakeWorkload(*client_, {entry}, absl::GetFlag(FLAGS_seed)), "requests");
  }

 private:
  const zoo::Workload model_;
  std::string folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

double PerSecond(const Served& served, const Workload& load) {
  CapacityOptions options;
  options.caller = served.caller();
  options.in_flight = absl::GetFlag(FLAGS_in_flight);
  options.seconds = absl::GetFlag(FLAGS_seconds) / 2;
  options.warmup_seconds = options.seconds / 2;
  options.seed = absl::GetFlag(FLAGS_seed);
  const std::atomic<bool> stop = false;
  return Require(MeasureCapacity(options, load, stop), "the closed loop").per_second;
}

RunResult RunAt(const Served& served, const Workload& load, double rate) {
  RunOptions options;
  options.caller = served.caller();
  options.rate = rate;
  options.seconds = absl::GetFlag(FLAGS_seconds);
  options.warmup_seconds = options.seconds / 4;
  options.seed = absl::GetFlag(FLAGS_seed);
  const std::atomic<bool> stop = false;
  return Require(RunOpenLoop(options, load, {}, stop), "the open loop");
}

// A percentile of a run for the table, and where the run is VALID as a figure.
std::string Told(const RunResult& run, size_t tail, const std::string& figure, Report& report) {
  const std::optional<int64_t> ns = run.summary.response.percentiles[tail];
  if (!ns) return "-";
  const double ms = static_cast<double>(*ns) * 1e-6;
  if (run.verdict.valid()) report.Figure(figure, ms, "ms");
  return Number(ms, 2) + (run.verdict.valid() ? "" : "!") + (run.verdict.overload ? "+" : "");
}

struct Line {
  Contender contender;
  std::unique_ptr<Workload> load;
  double per_second = 0;
  std::vector<std::string> cells = {};
};

// Of each, the mean of two closed loops: all in their order, and all in the other, so that what the machine does first or
// last is nobody's alone.
void MeasureClosed(const Served& served, std::vector<Line>& lines) {
  for (Line& line : lines) line.per_second = PerSecond(served, *line.load) / 2;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    line->per_second += PerSecond(served, *line->load) / 2;
  }
}

void Measure(const std::string& workload, const std::vector<Contender>& contenders,
             Report& report) {
  const Served served(workload, contenders, report);
  std::vector<Line> lines;
  for (const Contender& c : contenders) lines.push_back({c, served.Load(c.name)});
  MeasureClosed(served, lines);
  for (Line& line : lines) {
    line.cells = {line.contender.name, Number(line.per_second, 1)};
    report.Figure("policies." + workload + "." + line.contender.name + ".requests_per_s",
                  line.per_second, "1/s");
  }
  const double capacity = lines[0].per_second;  // Algorithm 1's
  std::vector<std::string> head = {"policy", "requests/s"}, findings;
  for (const int percent : kLoads) {
    for (const char* tail : {"p50", "p99"}) {
      head.push_back(absl::StrCat(tail, " ms at ", percent, " %"));
    }
    // One after another at each load, so that what changes on the machine changes for all.
    for (Line& line : lines) {
      const RunResult run = RunAt(served, *line.load, capacity * percent / 100);
      const std::string figure = "policies." + workload + "." + line.contender.name + ".";
      line.cells.push_back(Told(run, 0, absl::StrCat(figure, "p50_", percent), report));
      line.cells.push_back(Told(run, 2, absl::StrCat(figure, "p99_", percent), report));
      for (const Finding& f : run.verdict.findings) {
        findings.push_back(absl::StrCat(line.contender.name, " at ", percent, " %: ", f.reason));
      }
    }
  }
  Table table(head);
  for (const Line& line : lines) table.Add(line.cells);
  report.Text(absl::StrCat("\n", workload, ", ", lines[0].load->description(), "\n",
                           table.ToString(),
                           "!: not VALID, no figure; +: the server fell behind\n"));
  for (const std::string& finding : findings) report.Text(finding + "\n");
}

// The server lies among this program's runfiles.
void GoToRunfiles() {
  const fs::path runfiles = fs::canonical("/proc/self/exe").string() + ".runfiles/cellbatch";
  if (fs::exists(runfiles)) fs::current_path(runfiles);
}

int Main() {
  Report report("policies");
  const std::vector<Contender> contenders = Contenders();
  report.Fact("seconds of a run", Number(absl::GetFlag(FLAGS_seconds), 1));
  report.Fact("units", std::to_string(absl::GetFlag(FLAGS_h)));
  GoToRunfiles();
  for (const absl::string_view workload : absl::StrSplit(absl::GetFlag(FLAGS_workloads), ',')) {
    Measure(std::string(workload), contenders, report);
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

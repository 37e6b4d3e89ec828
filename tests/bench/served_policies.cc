#include "tests/bench/served_policies.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "loadgen/capacity.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

// Not in_process.h's: that speaks of the server's own types, and so does the client of its own, by the same names.
void Require(const absl::Status& status, const std::string& doing) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", doing.c_str(), status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Require(absl::StatusOr<T> value, const std::string& doing) {
  Require(value.status(), doing);
  return *std::move(value);
}

// What the command prints; none: it failed.
std::optional<std::string> OutputOf(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string said;
  char block[512];
  for (size_t n = 0; (n = fread(block, 1, sizeof(block), pipe)) > 0;) said.append(block, n);
  return pclose(pipe) == 0 ? std::optional(said) : std::nullopt;
}

// Of what `--explain` prints of a model of one cell type: behind the heading "b  T(b), us  us a node", a row for each b.
absl::StatusOr<double> MostNodesPerSecond(const std::string& explained) {
  double least_us = std::numeric_limits<double>::infinity();
  int tables = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(explained, '\n'))) {
    if (absl::StrContains(line, "T(b), us")) ++tables;
    int batch = 0;
    double task_us = 0, node_us = 0;
    if (tables > 0 && std::sscanf(line.c_str(), "%d %lf %lf", &batch, &task_us, &node_us) == 3) {
      least_us = std::min(least_us, node_us);
    }
  }
  if (tables != 1 || !(least_us > 0)) return absl::InternalError("not one table of T(b)");
  return 1e6 / least_us;
}

AsyncCallerOptions CallerOf(const ServerProcess& server) {
  AsyncCallerOptions options;
  options.url = server.grpc();
  options.timeout = std::chrono::seconds(60);
  return options;
}

}  // namespace

Rival CellularRival() { return {"cellular", "policy { kind: CELLULAR }"}; }

Rival FsmRival() { return {"fsm", "policy { kind: LEARNED }", "", true}; }

std::optional<Rival> LatencyFsmRival(Report& report) {
  const std::optional<std::string> help = OutputOf("server/cellbatch-learn --help");
  if (help && help->find("--objective") != std::string::npos) {
    return Rival{"fsm_latency", "policy { kind: LEARNED }", " --objective latency", true};
  }
  report.Text("this cellbatch-learn learns for fewest batches alone: no fsm_latency\n");
  return std::nullopt;
}

Rival GraphRival(const std::string& kind, int most) {
  struct Way {
    const char *kind, *policy, *join;
  };
  constexpr Way kWays[] = {
      {"packed", "CELLULAR", "leave_together: true"},
      {"packed_early", "CELLULAR", ""},
      {"padded", "CELLULAR", "padding: TO_THE_LONGEST leave_together: true"},
      {"bucketed", "CELLULAR", "bucket_width: 10 padding: TO_THE_BUCKET leave_together: true"},
      {"whole_graphs_depth", "DEPTH", "leave_together: true"},
      {"whole_graphs_agenda", "AGENDA", "leave_together: true"},
  };
  for (const Way& way : kWays) {
    if (kind != way.kind) continue;
    return {absl::StrCat(kind, "_", most),
            absl::StrCat("policy { kind: ", way.policy, " } join { whole_graphs { most: ", most,
                         " ", way.join, " } }")};
  }
  Require(absl::InvalidArgumentError(kind), "no such way of graph batching");
  return {};
}

ServedPolicies::ServedPolicies(const std::string& workload, int h, const std::vector<Rival>& rivals,
                               const std::string& devices, uint64_t seed, Report& report)
    : model_(zoo::MakeWorkload(workload, zoo::Sizes::Benchmark(h), 1)),
      devices_(devices),
      seed_(seed) {
  std::string folder = fs::temp_directory_path() / "cellbatch-policies-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) Require(absl::InternalError(folder), "a folder");
  folder_ = folder;
  for (const Rival& c : rivals) {
    model_.model.Write(folder_, c.name, c.config);
    if (c.learns) Learn(c, report);
  }
  server_ = ServerProcess::Serving(folder_, {"--devices=" + devices, "--row-budget=256MiB"});
  if (server_ == nullptr) Require(absl::UnavailableError("it ended"), "starting the server");
  client_ = Require(Client::Connect({.url = server_->grpc()}), "connecting");
}

ServedPolicies::~ServedPolicies() { fs::remove_all(folder_); }

// From requests that it makes up: a table, or the rule that was better than any.
void ServedPolicies::Learn(const Rival& rival, Report& report) const {
  const std::string command = absl::StrCat(
      "server/cellbatch-learn --model-repository ", folder_, " --model ", rival.name, " --outputs ",
      absl::StrJoin(model_.paper_outputs, ","), " --seed ", seed_, rival.learn_with);
  const std::optional<std::string> said = OutputOf(command);
  if (!said) Require(absl::InternalError(command), "learning");
  for (const absl::string_view line : absl::StrSplit(*said, '\n')) {
    for (const char* what : {"learned", "proved", "published", "objective"}) {
      if (line.substr(0, std::string(what).size()) == what) {
        report.Text(absl::StrCat(rival.name, ": ", line, "\n"));
      }
    }
  }
}

std::unique_ptr<Workload> ServedPolicies::Load(const std::string& rival, int32_t length) const {
  MixEntry entry;
  entry.model = rival;
  entry.outputs = model_.paper_outputs;
  if (length > 0) {
    entry.lengths = absl::StrCat(folder_, ".length_", length);
    std::ofstream(entry.lengths) << length << "\n";
  }
  std::unique_ptr<Workload> load = Require(MakeWorkload(*client_, {entry}, seed_), "requests");
  if (length > 0) fs::remove(entry.lengths);
  return load;
}

double ServedPolicies::PerSecond(const Workload& load, int in_flight, double seconds) const {
  CapacityOptions options;
  options.caller = CallerOf(*server_);
  options.in_flight = in_flight;
  options.seconds = seconds;
  options.warmup_seconds = seconds / 2;
  options.seed = seed_;
  const std::atomic<bool> stop = false;
  return Require(MeasureCapacity(options, load, stop), "the closed loop").per_second;
}

size_t ServedPolicies::BestOf(const std::vector<Rival>& rivals, int in_flight, double seconds,
                              Report& report) const {
  if (rivals.size() == 1) return 0;
  std::vector<std::vector<double>> rates(rivals.size());
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < rivals.size(); ++i) {
      rates[i].push_back(PerSecond(*Load(rivals[i].name), in_flight, seconds));
    }
  }
  size_t best = 0;
  double most = 0;
  std::string told;
  for (size_t i = 0; i < rivals.size(); ++i) {
    const double per_second = QuartilesOf(rates[i]).median;
    absl::StrAppend(&told, "  ", rivals[i].name, " ", Number(per_second, 1));
    if (per_second <= most) continue;
    most = per_second;
    best = i;
  }
  report.Text(absl::StrCat("requests/s:", told, "\n"));
  return best;
}

double ServedPolicies::IdealNodesPerSecond(const std::string& rival) const {
  const std::string command =
      absl::StrCat("server/cellbatch-server --explain ", rival, " --model-repository ", folder_,
                   " --devices=", devices_);
  std::vector<double> rates;
  for (int i = 0; i < 3; ++i) {
    const std::optional<std::string> said = OutputOf(command);
    if (!said) Require(absl::InternalError(command), "measuring T(b)");
    rates.push_back(Require(MostNodesPerSecond(*said), command));
  }
  return QuartilesOf(rates).median;
}

RunResult ServedPolicies::RunAt(const Workload& load, double rate, double seconds,
                                std::chrono::nanoseconds timeout) const {
  RunOptions options;
  options.caller = CallerOf(*server_);
  options.caller.timeout = timeout;
  options.rate = rate;
  options.seconds = seconds;
  options.warmup_seconds = seconds / 4;
  options.seed = seed_;
  const std::atomic<bool> stop = false;
  return Require(RunOpenLoop(options, load, {}, stop), "the open loop");
}

void Rounds::Add(const RunResult& run) {
  Round& round = rounds_.emplace_back();
  round.valid = run.verdict.valid();
  round.behind = run.verdict.overload;
  for (size_t t = 0; t < kTails.size(); ++t) {
    const std::optional<int64_t> ns = run.summary.response.percentiles[t];
    if (ns) round.ms[t] = static_cast<double>(*ns) * 1e-6;
  }
  for (const Finding& f : run.verdict.findings) findings_.push_back(f.reason);
}

std::optional<double> Rounds::MedianOf(const std::vector<std::optional<double>>& rounds) {
  std::vector<double> there;
  for (const std::optional<double>& value : rounds) {
    if (value) there.push_back(*value);
  }
  if (there.empty() || 2 * there.size() < rounds.size()) return std::nullopt;
  return QuartilesOf(there).median;
}

std::vector<std::optional<double>> Rounds::Ms(size_t tail) const {
  std::vector<std::optional<double>> ms;
  for (const Round& r : rounds_) ms.push_back(r.valid ? r.ms[tail] : std::nullopt);
  return ms;
}

std::optional<double> Rounds::Median(size_t tail) const { return MedianOf(Ms(tail)); }

std::string Rounds::Told(size_t tail) const {
  std::vector<double> all;
  int64_t behind = 0;
  for (const Round& r : rounds_) {
    if (r.ms[tail]) all.push_back(*r.ms[tail]);
    behind += r.behind ? 1 : 0;
  }
  if (all.empty()) return "-";
  const std::optional<double> figure = Median(tail);
  return Number(figure ? *figure : QuartilesOf(all).median, 2) + (figure ? "" : "!") +
         (2 * behind > static_cast<int64_t>(rounds_.size()) ? "+" : "");
}

}  // namespace cellbatch

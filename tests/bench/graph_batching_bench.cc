// Cellular batching against graph batching of sequences, same cells and kernels, each at its best limit, over gRPC.
//
//   graph_batching.step_us                  T(1): one step of one sequence
//   graph_batching.beside_steps_us          of a sequence that has the server to itself: all that is not a step (the wire,
//                                           both ends of it)
//   graph_batching.slowdown_alone_p99       what that alone makes of slowdown_p99: below it is nobody who answers through this wire
//   graph_batching.ideal_per_s              requests/s of the best batches without a gap, by T(b) as the server measures it
//   graph_batching.RIVAL.requests_per_s answers in a closed loop of --in_flight requests
//   graph_batching.RIVAL.p99            ms, at 30 % of the ideal
//   graph_batching.RIVAL.slowdown_p99   the p99 of latency / (length T(1)), in the same runs
//   graph_batching.RIVAL.within         requests/s, the most at which p99 <= 2 T(1) times the p99 of the lengths; no
//                                           figure where it is more at the least rate that tells a p99
//   graph_batching.p99_of_packed, .p99_of_bucketed, .p99_of_padded      cellular's by theirs
//   graph_batching.slowdown_of_packed       cellular's slowdown by packed's
//   graph_batching.within_of_better         cellular's `within` by that of the better of packed and bucketed; where neither
//                                           has one, by that least rate, so that it is more still, and the report says so
//
// RIVAL: cellular, packed, padded (to the longest of the batch), bucketed (width 10, to the bucket's upper edge, in
// turns). Batches of graphs are answered together. One LSTM of 1,024 units as in the paper, Europarl-like lengths (mean
// 24, p99 about 100); open loops are Poisson arrivals, each rival once in a round, medians of the rounds.
//
// --seconds is about what all of it takes; a run of an open loop is as long as a p99 needs, whatever that says. A look:
// --seconds=25 --rounds=1 --h=256. --limits=packed:128,padded:16,bucketed:128 looks for no limits, which takes most of the
// time where cells are large: those are an earlier run's.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "tests/bench/report.h"
#include "tests/bench/served_policies.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, h, 1024, "Units of the LSTM.");
ABSL_FLAG(double, seconds, 300, "About what measuring takes.");
ABSL_FLAG(int, rounds, 3, "In each, every rival is measured once.");
ABSL_FLAG(bool, within, true, "Look for the rates within a p99, too: more than half of the time.");
ABSL_FLAG(std::vector<std::string>, limits, {},
          "RIVAL:LIMIT of those that are known; empty: all are looked for.");
ABSL_FLAG(int, in_flight, 256, "Requests of the closed loop.");
ABSL_FLAG(std::string, devices, "auto", "cellbatch-server's --devices.");
ABSL_FLAG(uint64_t, seed, 1, "Of the requests and of their arrivals.");

namespace cellbatch {
namespace {

constexpr const char* kNames[] = {"cellular", "packed", "padded", "bucketed"};
constexpr size_t kCellular = 0, kPacked = 1, kBucketed = 3;
constexpr int kLimits[] = {16, 32, 64, 128};
constexpr int kShort = 20, kLong = 100;  // lengths between which a step is measured
constexpr int kHalvings = 4;             // of a rate that is looked for
constexpr double kTries = 2.3;           // at each: two runs, now and then a third
constexpr int kAlone = 3;         // measurements of what is alone, before the rounds and after them
constexpr size_t kP99 = 2;        // of kTails
constexpr double kLoad = 0.3;     // of the ideal rate
constexpr double kAnswers = 500;  // enough for a p99
constexpr double kSpare = 1.1;    // arrivals are drawn: now and then a tenth fewer

struct Line {
  std::string name;
  std::vector<Rival> rivals;
  std::unique_ptr<Workload> load = {};
  double per_second = 0;
  Rounds rounds = {};
  std::vector<std::optional<double>> p99_step_ns = {};
  std::optional<double> within = {};
};

std::vector<int> LimitsOf(const std::string& rival) {
  for (const std::string& known : absl::GetFlag(FLAGS_limits)) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(known, ':');
    int limit = 0;
    if (parts.first == rival && absl::SimpleAtoi(parts.second, &limit) && limit > 0) return {limit};
  }
  return {std::begin(kLimits), std::end(kLimits)};
}

std::vector<Line> Lines() {
  std::vector<Line> lines;
  for (const char* name : kNames) lines.push_back({name, {}});
  lines[kCellular].rivals = {CellularRival()};
  for (size_t i = kCellular + 1; i < lines.size(); ++i) {
    for (const int most : LimitsOf(lines[i].name)) {
      lines[i].rivals.push_back(GraphRival(lines[i].name, most));
    }
  }
  return lines;
}

// Of what all is, in runs of one length: closed loops, steps, rounds, searches.
double RunSeconds(const std::vector<Line>& lines) {
  constexpr double kClosed = 1.6, kOpen = 1.45;
  double runs = 4 * kAlone * kClosed / 2;
  for (const Line& line : lines) {
    const double swept = line.rivals.size() > 1
                             ? ServedPolicies::kSweeps * static_cast<double>(std::size(kLimits))
                             : 0;
    const double searched = absl::GetFlag(FLAGS_within) ? kTries * (1 + kHalvings) : 0;
    runs += kClosed * (2 + swept / 2) + kOpen * (absl::GetFlag(FLAGS_rounds) + searched);
  }
  return absl::GetFlag(FLAGS_seconds) / runs;
}

// Of a sequence that has the server to itself: seconds of a step, and of all else together.
struct Alone {
  double step, rest;
  double Slowdown(int64_t length) const { return 1 + rest / (step * static_cast<double>(length)); }
};

// From one request at a time of two lengths: what is not a step's falls out of the difference.
class AloneMeasurements {
 public:
  void Add(const ServedPolicies& served, double seconds) {
    const auto longer = served.Load("cellular", kLong), shorter = served.Load("cellular", kShort);
    for (int i = 0; i < kAlone; ++i) {
      const double long_s = 1 / served.PerSecond(*longer, 1, seconds);
      const double short_s = 1 / served.PerSecond(*shorter, 1, seconds);
      steps_.push_back((long_s - short_s) / (kLong - kShort));
      rests_.push_back(short_s - kShort * steps_.back());
    }
  }
  Alone Median() const { return {QuartilesOf(steps_).median, QuartilesOf(rests_).median}; }

 private:
  std::vector<double> steps_, rests_;
};

double IdealPerSecond(const ServedPolicies& served, absl::Span<const int64_t> lengths) {
  const double mean =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
  return served.IdealNodesPerSecond("cellular") / mean;
}

std::vector<int64_t> SortedLengths(const Workload& load) {
  std::vector<int64_t> lengths;
  for (uint32_t i = 0; i < load.size(); ++i) lengths.push_back(load.length({0, i}));
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

// The shortest sequences are slowed down most.
double P99SlowdownAlone(const Alone& alone, absl::Span<const int64_t> sorted_lengths) {
  std::vector<int64_t> permille;
  for (auto length = sorted_lengths.rbegin(); length != sorted_lengths.rend(); ++length) {
    permille.push_back(static_cast<int64_t>(1000 * alone.Slowdown(*length)));
  }
  return static_cast<double>(PercentileOf(permille, kTails[kP99])) / 1000;
}

// Of latency / length: by T(1), it is the slowdown's.
std::optional<double> P99StepNs(const RunResult& run) {
  if (!run.verdict.valid()) return std::nullopt;
  std::vector<int64_t> ns;
  for (size_t i = run.samples->first_measured(); i < run.samples->size(); ++i) {
    const Samples::Record r = run.samples->at(i);
    if (r.outcome == SampleOutcome::kCompleted) {
      ns.push_back(static_cast<int64_t>((r.done - r.intended) / run.lengths[i]));
    }
  }
  if (static_cast<int64_t>(ns.size()) < ValuesNeeded(kTails[kP99])) return std::nullopt;
  std::sort(ns.begin(), ns.end());
  return static_cast<double>(PercentileOf(ns, kTails[kP99]));
}

// The most requests/s with a p99 of at most `ms`, between the least rate that tells one and what it answers at all. Two
// runs of three decide at each rate: one bad moment would send the search far down.
std::optional<double> MostWithin(const ServedPolicies& served, const Line& line, double ms,
                                 double seconds, Report& report) {
  std::string tried;
  const auto held = [&](double rate) {
    const RunResult run = served.RunAt(*line.load, rate, seconds);
    const std::optional<int64_t> p99 = run.summary.response.percentiles[kP99];
    absl::StrAppend(&tried, "  ", Number(rate, 0), "/s ",
                    p99 ? Number(static_cast<double>(*p99) * 1e-6, 1) + " ms" : "no p99");
    return p99 && static_cast<double>(*p99) <= ms * 1e6;
  };
  const absl::Cleanup tell = [&] {
    report.Text(absl::StrCat("p99 of ", line.rivals[0].name, " at", tried, "\n"));
  };
  const auto holds = [&](double rate) {
    const bool first = held(rate), second = held(rate);
    return first == second ? first : held(rate);
  };
  double low = kAnswers / seconds, high = line.per_second;
  if (low >= high || !holds(low)) return std::nullopt;
  for (int i = 0; i < kHalvings; ++i) {
    const double rate = (low + high) / 2;
    (holds(rate) ? low : high) = rate;
  }
  return low;
}

void TellAlone(const Alone& alone, absl::Span<const int64_t> sorted_lengths, Report& report) {
  report.Figure("graph_batching.step_us", alone.step * 1e6, "us");
  report.Figure("graph_batching.beside_steps_us", alone.rest * 1e6, "us");
  report.Figure("graph_batching.slowdown_alone_p99", P99SlowdownAlone(alone, sorted_lengths), "x");
}

void Tell(const std::vector<Line>& lines, double step_s, double least_rate, Report& report) {
  Table table({"", "requests/s", "p50 ms", "p99 ms", "p99 slowdown", "requests/s within"});
  const auto told = [](std::optional<double> value, int digits) {
    return value ? Number(*value, digits) : std::string("-");
  };
  const auto slowdown_of = [&](const Line& line) {
    std::optional<double> p99 = Rounds::MedianOf(line.p99_step_ns);
    if (p99) *p99 /= step_s * 1e9;
    return p99;
  };
  for (const Line& line : lines) {
    const std::string figure = "graph_batching." + line.name + ".";
    const std::optional<double> p99 = line.rounds.Median(kP99), slowdown = slowdown_of(line);
    report.Figure(figure + "requests_per_s", line.per_second, "1/s");
    if (p99) report.Figure(figure + "p99", *p99, "ms");
    if (slowdown) report.Figure(figure + "slowdown_p99", *slowdown, "x");
    if (line.within) report.Figure(figure + "within", *line.within, "1/s");
    table.Add({line.rivals[0].name, Number(line.per_second, 1), line.rounds.Told(0),
               line.rounds.Told(kP99), told(slowdown, 2), told(line.within, 1)});
  }
  report.Text("\n" + table.ToString());
  for (const Line& line : lines) {
    for (const std::string& f : line.rounds.findings()) report.Text(line.name + ": " + f + "\n");
  }
  for (size_t i = kCellular + 1; i < lines.size(); ++i) {
    const auto ours = lines[kCellular].rounds.Median(kP99), theirs = lines[i].rounds.Median(kP99);
    if (ours && theirs) {
      report.Figure("graph_batching.p99_of_" + lines[i].name, *ours / *theirs, "x");
    }
  }
  const auto ours = slowdown_of(lines[kCellular]), theirs = slowdown_of(lines[kPacked]);
  if (ours && theirs) report.Figure("graph_batching.slowdown_of_packed", *ours / *theirs, "x");
  const std::optional<double> better = std::max(lines[kPacked].within, lines[kBucketed].within);
  if (!lines[kCellular].within) return;
  if (!better) {
    report.Text(absl::StrCat("neither packed nor bucketed keeps that p99 at ",
                             Number(least_rate, 1), " requests/s: within_of_better is more\n"));
  }
  report.Figure("graph_batching.within_of_better",
                *lines[kCellular].within / better.value_or(least_rate), "x");
}

// Each with its best limit, and what it answers with it: there and back, so that none is only first or last.
void FindLimits(const ServedPolicies& served, double seconds, std::vector<Line>& lines,
                Report& report) {
  const int in_flight = absl::GetFlag(FLAGS_in_flight);
  for (Line& line : lines) {
    const size_t best = served.BestOf(line.rivals, in_flight, seconds / 2, report);
    line.rivals = {line.rivals[best]};
    line.load = served.Load(line.rivals[0].name);
  }
  for (Line& line : lines) line.per_second = served.PerSecond(*line.load, in_flight, seconds) / 2;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    line->per_second += served.PerSecond(*line->load, in_flight, seconds) / 2;
  }
}

int Main() {
  Report report("graph_batching");
  GoToRunfiles();
  std::vector<Line> lines = Lines();
  const double seconds = RunSeconds(lines);
  report.Fact("seconds of a run", Number(seconds, 2));
  report.Fact("units", std::to_string(absl::GetFlag(FLAGS_h)));
  std::vector<Rival> all;
  for (const Line& line : lines) {
    all.insert(all.end(), line.rivals.begin(), line.rivals.end());
  }
  const ServedPolicies served("lstm", absl::GetFlag(FLAGS_h), all, absl::GetFlag(FLAGS_devices),
                              absl::GetFlag(FLAGS_seed), report);
  FindLimits(served, seconds, lines, report);
  AloneMeasurements alone;
  alone.Add(served, seconds / 2);
  const std::vector<int64_t> lengths = SortedLengths(*lines[kCellular].load);
  const auto length = static_cast<double>(PercentileOf(lengths, kTails[kP99]));
  report.Text(absl::StrCat(lines[kCellular].load->description(), "\n"));
  report.Fact("p99 of the lengths", Number(length, 0));
  const double ideal = IdealPerSecond(served, lengths);
  report.Figure("graph_batching.ideal_per_s", ideal, "1/s");
  const double open_seconds = std::max(seconds, kSpare * kAnswers / (kLoad * ideal));
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    for (Line& line : lines) {
      const RunResult run = served.RunAt(*line.load, kLoad * ideal, open_seconds);
      line.rounds.Add(run);
      line.p99_step_ns.push_back(P99StepNs(run));
    }
  }
  alone.Add(served, seconds / 2);
  const double step_s = alone.Median().step;
  TellAlone(alone.Median(), lengths, report);
  if (absl::GetFlag(FLAGS_within)) {
    const double bound_ms = 2 * step_s * length * 1e3;
    report.Fact("p99 that is allowed, ms", Number(bound_ms, 2));
    for (Line& line : lines) line.within = MostWithin(served, line, bound_ms, seconds, report);
  }
  Tell(lines, step_s, kAnswers / seconds, report);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Cellular batching against graph batching of sequences.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

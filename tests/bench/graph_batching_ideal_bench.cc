// What `graph_batching` would see if nothing took time but the tasks: no wire, no threads to wake, no scheduler.
//
//   graph_batching_ideal.step_us             T(1), as the server measures it at load
//   graph_batching_ideal.served             x: how much longer tasks take while a closed loop is served; not in any other figure
//   graph_batching_ideal.ideal_per_s         requests/s of largest batches without a gap: design.md section 9 loads it by 30 %
//   graph_batching_ideal.RIVAL.requests_per_s, .p99, .slowdown_p99, .within      as in graph_batching, each of them in virtual time
//   graph_batching_ideal.p99_of_RIVAL, .slowdown_of_packed, .within_of_better
//
// The same scheduler and rules of joining in the serving world, tasks that take the T(b) of this machine, one LSTM over
// Europarl's lengths (or lengths like them), the same arrivals for each, each graph batching with the best of its four
// limits. So these are ends: who serves over a wire, with this T(b) and with tasks that are not interrupted, is beyond them.
// Noise of the machine is in T(b) and nowhere else. A minute, nearly all of it measuring T(b).
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
#include "absl/strings/str_cat.h"
#include "scheduler/offline/world/serving_world.h"
#include "scheduler/policy/make_rules.h"
#include "server/learn/measured_costs.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, h, 1024, "Units of the LSTM.");
ABSL_FLAG(double, load, 0.3, "Of the ideal rate.");
ABSL_FLAG(int, in_flight, 256, "Requests of the closed loop.");
ABSL_FLAG(int, requests, 20'000, "Of each open run.");
ABSL_FLAG(std::string, devices, "auto", "Whose tasks are measured.");
ABSL_FLAG(uint64_t, seed, 1, "Of the arrivals.");

namespace cellbatch {
namespace {

constexpr int kLimits[] = {16, 32, 64, 128};
constexpr int32_t kVocabulary = 256;  // as the zoo's
constexpr int kHalvings = 10;         // of a rate that is looked for
constexpr int kAnswersOfClosed = 4096;
using Padding = GraphBatching::Padding;

struct Tails {
  double p99_ms = 0, slowdown_p99 = 0;
};

// One lane of one type, and what its tasks take.
class Ideal {
 public:
  Ideal(std::shared_ptr<const Model> model, std::vector<int32_t> lengths)
      : model_(std::move(model)),
        lengths_(std::move(lengths)),
        requests_(model_, *std::max_element(lengths_.begin(), lengths_.end()),
                  absl::GetFlag(FLAGS_seed)),
        make_([this](int32_t shape, int in_flight) {
          return std::move(requests_.Make(lengths_[static_cast<size_t>(shape)], in_flight)->graph);
        }),
        measured_(Require(MeasureCosts(absl::GetFlag(FLAGS_devices), model_, make_, shapes()),
                          "measuring")),
        costs_(measured_.alone) {}

  double TimesAsLongServed() const { return measured_.served[0]; }
  double StepMs() const { return static_cast<double>(costs_.Ns(CellTypeId(0), 1)) * 1e-6; }
  double IdealPerSecond() const {
    const int32_t most = costs_.types()[0].max_batch;
    const double seconds = static_cast<double>(costs_.Ns(CellTypeId(0), most)) * 1e-9;
    double length = 0;
    for (const int32_t l : lengths_) length += static_cast<double>(l);
    return most / (seconds * length / static_cast<double>(lengths_.size()));
  }
  double LengthP99() const {
    return static_cast<double>(
        QuantileOf(std::vector<int64_t>(lengths_.begin(), lengths_.end()), 0.99));
  }

  double PerSecond(const JoinSpec& join) const {
    const std::vector<Arrival> list =
        PoissonArrivals(1, kAnswersOfClosed, shapes(), absl::GetFlag(FLAGS_seed));
    return World(join).RunClosed(list, absl::GetFlag(FLAGS_in_flight)).requests_per_s;
  }

  Tails At(const JoinSpec& join, double rate) const {
    const auto count = static_cast<size_t>(absl::GetFlag(FLAGS_requests));
    const std::vector<Arrival> list =
        PoissonArrivals(rate, count, shapes(), absl::GetFlag(FLAGS_seed));
    const size_t skipped = count / 5;
    const WorldReport report = World(join).Run(list, skipped);
    std::vector<int64_t> permille;
    for (size_t i = skipped; i < list.size(); ++i) {
      const double alone_ns = lengths_[static_cast<size_t>(list[i].shape)] * StepMs() * 1e6;
      permille.push_back(static_cast<int64_t>(
          1000 * static_cast<double>(report.answers[i].latency_ns()) / alone_ns));
    }
    return {static_cast<double>(report.p99_ns) * 1e-6,
            static_cast<double>(QuantileOf(std::move(permille), 0.99)) * 1e-3};
  }

  // The most requests/s with such a p99.
  double MostWithin(const JoinSpec& join, double p99_ms, double high) const {
    double low = 0;
    for (int i = 0; i < kHalvings; ++i) {
      const double rate = (low + high) / 2;
      (At(join, rate).p99_ms <= p99_ms ? low : high) = rate;
    }
    return low;
  }

 private:
  int32_t shapes() const { return static_cast<int32_t>(lengths_.size()); }
  ServingWorld World(const JoinSpec& join) const {
    std::vector<WorldLane> lanes;
    lanes.push_back({model_, costs_, make_,
                     Require(MakeRules(PolicySpec(), join, model_->types.size()), Name(join))});
    return ServingWorld(WorldOptions(), std::move(lanes));
  }

  const std::shared_ptr<const Model> model_;
  const std::vector<int32_t> lengths_;
  mutable ChainRequests requests_;
  const MakeGraph make_;
  const MeasuredCosts measured_;
  const TaskCosts& costs_;
};

struct Line {
  std::string name;
  GraphBatching batching = {};
  JoinSpec join = {};  // with the best limit
  double per_second = 0, within = 0;
  Tails tails = {};
};

std::vector<Line> Lines() {
  return {{"cellular"},
          {"packed", {.leave_together = true}},
          {"padded", {.padding = Padding::kLongest, .leave_together = true}},
          {"bucketed", {.padding = Padding::kBucket, .bucket_width = 10, .leave_together = true}}};
}

void FindLimit(const Ideal& ideal, Line& line) {
  if (!line.batching.any()) {
    line.per_second = ideal.PerSecond(line.join);
    return;
  }
  for (const int most : kLimits) {
    const JoinSpec join = {.whole_graphs = most, .batching = line.batching};
    const double per_second = ideal.PerSecond(join);
    if (per_second <= line.per_second) continue;
    line.per_second = per_second;
    line.join = join;
  }
}

void Tell(const std::vector<Line>& lines, Report& report) {
  Table table({"", "requests/s", "p99 ms", "p99 slowdown", "requests/s within"});
  for (const Line& line : lines) {
    const std::string figure = "graph_batching_ideal." + line.name + ".";
    report.Figure(figure + "requests_per_s", line.per_second, "1/s");
    report.Figure(figure + "p99", line.tails.p99_ms, "ms");
    report.Figure(figure + "slowdown_p99", line.tails.slowdown_p99, "x");
    report.Figure(figure + "within", line.within, "1/s");
    table.Add({absl::StrCat(line.name, ", ", Name(line.join)), Number(line.per_second, 1),
               Number(line.tails.p99_ms, 2), Number(line.tails.slowdown_p99, 2),
               Number(line.within, 1)});
  }
  report.Text("\n" + table.ToString());
  const Line &ours = lines[0], &packed = lines[1], &bucketed = lines[3];
  for (size_t i = 1; i < lines.size(); ++i) {
    report.Figure("graph_batching_ideal.p99_of_" + lines[i].name,
                  ours.tails.p99_ms / lines[i].tails.p99_ms, "x");
  }
  report.Figure("graph_batching_ideal.slowdown_of_packed",
                ours.tails.slowdown_p99 / packed.tails.slowdown_p99, "x");
  report.Figure("graph_batching_ideal.within_of_better",
                ours.within / std::max(packed.within, bucketed.within), "x");
}

int Main() {
  Report report("graph_batching_ideal");
  const Lengths lengths = Lengths::Europarl();
  const int32_t h = absl::GetFlag(FLAGS_h);
  const Ideal ideal(
      MakeChainModel({.cell = "lstm", .hidden = h, .tokens = true, .vocabulary = kVocabulary}, 1),
      lengths.values);
  const double rate = absl::GetFlag(FLAGS_load) * ideal.IdealPerSecond();
  const double bound_ms = 2 * ideal.StepMs() * ideal.LengthP99();
  report.Fact("lengths", lengths.source);
  report.Fact("units", std::to_string(h));
  report.Fact("p99 of the lengths", Number(ideal.LengthP99(), 0));
  report.Fact("p99 that is allowed, ms", Number(bound_ms, 2));
  report.Fact("requests/s of the open runs", Number(rate, 1));
  report.Figure("graph_batching_ideal.step_us", ideal.StepMs() * 1e3, "us");
  report.Figure("graph_batching_ideal.served", ideal.TimesAsLongServed(), "x");
  report.Figure("graph_batching_ideal.ideal_per_s", ideal.IdealPerSecond(), "1/s");
  std::vector<Line> lines = Lines();
  for (Line& line : lines) {
    FindLimit(ideal, line);
    line.tails = ideal.At(line.join, rate);
    line.within = ideal.MostWithin(line.join, bound_ms, line.per_second);
  }
  Tell(lines, report);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Graph batching and cellular batching where only tasks take time.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

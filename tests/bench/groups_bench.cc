// Do launches of several tasks make anybody wait longer? One simulated GPU that runs 1 or N tasks a launch; no GPU here.
//
//   groups.tasks_N.requests_per_s             4 * b_max requests out at any time
//   groups.load_L.tasks_N.{mean,p50,p99}_us   from arrival to answer: L % of what is answered so with 1 task a launch, as a
//                                             Poisson process
//   groups.load_L.tasks_N.gain                x: mean with 1 task a launch ÷ mean with N
//
// An LSTM of 1,024 units in bf16 over words, Europarl's lengths. A task takes what derived_costs.h says; around the tasks of a
// launch lies --launch_us more: what an H200 takes from a step's end to the next one's begin where each task is a launch of its
// own (10.5 us), less the 3 us that are in a step's cost. The scheduler is the real one in virtual time, and as far ahead of the
// device as that asks for (DeviceInfo::tasks_in_flight); what it takes itself is left out. The same figures on every machine.
//
// Predicted: 1.5 times the requests where batches are small, 1.4 at b_max. Where load is low a chain's steps become shorter by
// 5.6 us each, and who joins waits for 8 tasks instead of 2, some 45 us more: of a mean of 28 steps a gain of 1.3, of requests of
// less than 8 steps none.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "scheduler/offline/world/serving_world.h"
#include "tests/bench/derived_costs.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::vector<std::string>, tasks, std::vector<std::string>({"1", "2", "4"}),
          "Tasks a launch; the first is 1.");
ABSL_FLAG(std::vector<std::string>, loads,
          std::vector<std::string>({"1", "5", "10", "20", "30", "60", "80", "90"}), "In percent.");
ABSL_FLAG(double, launch_us, 7.5, "Around the tasks of a launch.");
ABSL_FLAG(int, b_max, 512, "Largest batch.");
ABSL_FLAG(int, requests, 20'000, "Of each run.");
ABSL_FLAG(int, most_length, 330, "Longer requests are made so long.");
ABSL_FLAG(uint64_t, seed, 1, "Of lengths and arrivals.");

namespace cellbatch {
namespace {

constexpr int kShapes = 2'000;  // different requests
constexpr int64_t kRowBudgetBytes = int64_t{48} << 30;

std::vector<int> Numbers(const std::vector<std::string>& texts, const std::string& flag) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    const bool right = absl::SimpleAtoi(text, &numbers.emplace_back()) && numbers.back() > 0;
    Require(right ? absl::OkStatus() : absl::InvalidArgumentError(text), flag);
  }
  return numbers;
}

// What a device that runs so many tasks a launch does with requests of one model.
class Gpu {
 public:
  Gpu(std::shared_ptr<const Model> model, std::vector<int32_t> lengths)
      : requests_(model, absl::GetFlag(FLAGS_most_length), absl::GetFlag(FLAGS_seed)),
        lengths_(std::move(lengths)),
        costs_(H200Costs(*H200ArithmeticOf("bf16"), *model, absl::GetFlag(FLAGS_b_max))),
        model_(std::move(model)) {}

  double RequestsPerSecond(int tasks) {
    const int in_flight = 4 * absl::GetFlag(FLAGS_b_max);
    ServingWorld world(OptionsFor(tasks), Lanes());
    return world.RunClosed(Arrivals(1), in_flight).requests_per_s;
  }

  // From arrival to answer, which the host sees when the launch is done.
  std::vector<int64_t> Latencies(int tasks, double per_s) {
    const std::vector<Arrival> arrivals = Arrivals(per_s);
    std::vector<int64_t> latencies;
    ServingWorld* asked = nullptr;
    int64_t begin_ns = 0;
    WorldOptions options = OptionsFor(tasks);
    options.answered = [&](uint64_t tag, const Request& request) {
      Require(request.status, "a request");
      latencies.push_back(asked->now_ns() - begin_ns - arrivals[tag].at_ns);
    };
    ServingWorld world(options, Lanes());
    asked = &world;
    begin_ns = world.now_ns();
    world.Run(arrivals);
    return latencies;
  }

 private:
  static WorldOptions OptionsFor(int tasks) {
    WorldOptions options;
    options.runs_by_itself = true;
    options.row_budget_bytes = kRowBudgetBytes;
    options.tasks_a_launch = tasks;
    options.launch_ns = static_cast<int64_t>(absl::GetFlag(FLAGS_launch_us) * 1e3);
    return options;
  }
  std::vector<WorldLane> Lanes() {
    std::vector<WorldLane> lanes;
    lanes.push_back({model_, costs_, [this](int32_t shape, int max_tasks_in_flight) {
                       const int32_t length = lengths_[static_cast<size_t>(shape)];
                       return std::move(requests_.Make(length, max_tasks_in_flight)->graph);
                     }});
    return lanes;
  }
  static std::vector<Arrival> Arrivals(double per_s) {
    return PoissonArrivals(per_s, static_cast<size_t>(absl::GetFlag(FLAGS_requests)), kShapes,
                           absl::GetFlag(FLAGS_seed));
  }

  ChainRequests requests_;
  const std::vector<int32_t> lengths_;
  const TaskCosts costs_;
  const std::shared_ptr<const Model> model_;
};

double MeanUs(const std::vector<int64_t>& ns) {
  double sum = 0;
  for (const int64_t one : ns) sum += static_cast<double>(one);
  return sum / static_cast<double>(ns.size()) / 1e3;
}

double QuantileUs(const std::vector<int64_t>& ns, double quantile) {
  return static_cast<double>(QuantileOf(ns, quantile)) / 1e3;
}

int Main() {
  const std::vector<int> tasks = Numbers(absl::GetFlag(FLAGS_tasks), "--tasks");
  Require(tasks.front() == 1 ? absl::OkStatus() : absl::InvalidArgumentError("the first is not 1"),
          "--tasks");
  Report report("groups");
  Lengths given = Lengths::Europarl();
  report.Fact("lengths", given.source);
  report.Fact("devices", "one, simulated, steps of an H200 as derived on paper; not run on a GPU");
  LengthStream stream(given, absl::GetFlag(FLAGS_seed));
  std::vector<int32_t> lengths;
  for (int i = 0; i < kShapes; ++i) {
    lengths.push_back(std::min(stream.Next(), absl::GetFlag(FLAGS_most_length)));
  }
  ChainModelSpec spec;
  spec.tokens = true;
  spec.precision = Precision::kBf16;
  Gpu gpu(MakeChainModel(spec, 1), std::move(lengths));
  std::vector<double> full;
  for (const int n : tasks) {
    full.push_back(gpu.RequestsPerSecond(n));
    report.Figure(absl::StrCat("groups.tasks_", n, ".requests_per_s"), full.back(), "1/s");
  }
  Table table({"load %", "tasks a launch", "mean us", "p50", "p99", "gain"});
  for (const int load : Numbers(absl::GetFlag(FLAGS_loads), "--loads")) {
    double alone_us = 0;
    for (const int n : tasks) {
      const std::vector<int64_t> ns = gpu.Latencies(n, full.front() * load / 100);
      const double mean_us = MeanUs(ns), p50_us = QuantileUs(ns, 0.5),
                   p99_us = QuantileUs(ns, 0.99);
      if (n == 1) alone_us = mean_us;
      table.Add({std::to_string(load), std::to_string(n), Number(mean_us, 0), Number(p50_us, 0),
                 Number(p99_us, 0), Number(alone_us / mean_us, 2)});
      const std::string name = absl::StrCat("groups.load_", load, ".tasks_", n);
      report.Figure(name + ".mean_us", mean_us, "us");
      report.Figure(name + ".p50_us", p50_us, "us");
      report.Figure(name + ".p99_us", p99_us, "us");
      report.Figure(name + ".gain", alone_us / mean_us, "x");
    }
  }
  report.Text(table.ToString());
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Launches of several tasks on a simulated GPU.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

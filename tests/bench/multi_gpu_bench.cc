// Does one manager keep 1, 2, 4, 8 GPUs busy? Simulated devices with what steps would take on an H200 on paper; no GPU here.
//
//   multi_gpu.WORKLOAD.scaling_N               x: requests/s of N devices ÷ N times those of one, where deciding takes no time
//   multi_gpu.WORKLOAD.managed_scaling_N       x: the same where the manager takes what it took here
//   multi_gpu.WORKLOAD.manager_requests_per_s  the most that were served so at any N: where the manager is the limit, if they
//                                              are less than N devices'
//   multi_gpu.WORKLOAD.manager_nodes_per_s     their nodes
//   multi_gpu.WORKLOAD.manager_devices         x: the same ÷ what one device serves where deciding takes no time
//   multi_gpu.WORKLOAD.manager_node_ns         the core's time that a node takes the manager, at the largest N
//
// WORKLOAD: lstm (Europarl-like lengths), nmt and treelstm (tests/zoo, real data), h = 1024. Steps are derived_costs.h's,
// in bf16, the fastest; another --arithmetic stands in the names as WORKLOAD_tf32 and so on. The scheduler is the real
// one in virtual time (scheduler/offline/world): each device has a memory of its own and runs by itself, two tasks are in
// flight on each, and 4 * b_max requests for each device are out at any time, each answer letting the next one in.
//
// How time is told. scaling_N is virtual time alone, and the same on every machine. managed_scaling_N charges the manager:
// the CPU clock of the thread is read before and after each of its steps, the world's time goes on by the difference (less
// what reading takes), and only then are its tasks enqueued; devices run meanwhile. So a device is idle in the world when
// this manager, on this core, would have left it idle. It sees no neighbour: CPU time stops where the thread does. What it
// leaves out: submitting, taking answers and enqueueing are other threads', so free; but they ran on this core, so what
// the manager reads lay in its caches more often than in a server. The clock that stamps requests is virtual: reading it is
// cheaper than a real one by some 30 ns a request.
//
// Predicted before it was run (2 cores of a shared EPYC): scaling_8 0.99 lstm, 0.97 nmt, 0.96 treelstm (the rest: batches
// that are not full where few of a type are ready, and requests bound to the device they joined); a manager of 15 ns a
// node for chains and 30 for trees (the benchmark `scheduler`, less the worker's half), so 2.7 M, 1.3 M and 0.9 M
// requests/s; bf16 steps of 512 take 31 ns a node, so it keeps 2 such devices busy, and 9 in 3xtf32.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/offline/world/serving_world.h"
#include "tests/bench/derived_costs.h"
#include "tests/bench/in_process.h"
#include "tests/bench/probes.h"
#include "tests/bench/report.h"
#include "tests/bench/stepped.h"
#include "tests/zoo/workload.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "lstm,nmt,treelstm", "Of the zoo; commas between.");
ABSL_FLAG(std::string, arithmetic, "bf16,3xtf32",
          "bf16, tf32, 3xtf32, fp32: what steps take; commas between.");
ABSL_FLAG(std::string, devices, "1,2,4,8", "Numbers of devices; the first is 1.");
ABSL_FLAG(int, h, 1024, "Units of every recurrent cell, and width of embeddings.");
ABSL_FLAG(int, b_max, 512, "Largest batch of every cell type.");
ABSL_FLAG(int, full_batches, 4, "Requests in flight for each device, in batches of b_max.");
ABSL_FLAG(int, rounds, 3, "Of runs that charge the manager; figures are medians over them.");
ABSL_FLAG(int, turns, 8, "How often all that are in flight are answered, in one run.");
ABSL_FLAG(uint64_t, seed, 1, "Of the requests' order.");

namespace cellbatch {
namespace {

constexpr int64_t kRowBudgetBytes = int64_t{48} << 30;  // of 141 GB
constexpr int kShapes = 2'000;                          // different requests of a workload

// What two readings of the clock tell of each other where nothing lies between.
int64_t ReadingNs() {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 10'000; ++i) {
    const int64_t before = ThreadCpuNs();
    least = std::min(least, ThreadCpuNs() - before);
  }
  return least;
}

// A model and its requests; shape k of a world is requests[k].
class Requests {
 public:
  explicit Requests(const std::string& name)
      : workload_(zoo::MakeWorkload(name, zoo::Sizes::Benchmark(absl::GetFlag(FLAGS_h)), kShapes)) {
    if (name == "lstm") UseEuroparlLengths();
    model_ = LoadWorkload(workload_, ModelId(1));
  }

  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::string& source() const { return workload_.source; }

  MakeGraph maker() const {
    return [this](int32_t shape, int max_tasks_in_flight) {
      const zoo::Asked& asked = workload_.requests[static_cast<size_t>(shape)];
      return std::move(
          MakeRequest(model_, asked, workload_.paper_outputs, max_tasks_in_flight)->graph);
    };
  }

  // Whole permutations of the requests, so that any two runs see the same mix.
  std::vector<Arrival> Order(size_t count) const {
    std::mt19937_64 random(absl::GetFlag(FLAGS_seed));
    std::vector<int32_t> order(workload_.requests.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<Arrival> arrivals(count);
    for (size_t i = 0; i < count; ++i) {
      if (i % order.size() == 0) std::shuffle(order.begin(), order.end(), random);
      arrivals[i].shape = order[i % order.size()];
    }
    return arrivals;
  }

 private:
  // Sentences of the lengths that all of Europarl has, words at random.
  void UseEuroparlLengths() {
    const Lengths lengths = Lengths::Europarl();
    LengthStream stream(lengths, absl::GetFlag(FLAGS_seed));
    std::mt19937_64 random(absl::GetFlag(FLAGS_seed));
    workload_.source = lengths.source;
    workload_.requests.resize(kShapes, workload_.requests.front());
    for (zoo::Asked& asked : workload_.requests) {
      std::vector<int32_t> tokens(static_cast<size_t>(stream.Next()));
      for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 256);
      Tensor& tensor = asked.inputs.front();
      tensor.shape = {static_cast<int64_t>(tokens.size())};
      tensor.bytes.assign(reinterpret_cast<const char*>(tokens.data()), 4 * tokens.size());
    }
  }

  zoo::Workload workload_;
  std::shared_ptr<const Model> model_;
};

class Devices {
 public:
  Devices(const Requests& requests, const H200Arithmetic& arithmetic)
      : requests_(requests),
        costs_(H200Costs(arithmetic, *requests.model(), absl::GetFlag(FLAGS_b_max))),
        reading_ns_(ReadingNs()) {}

  WorldReport Serve(int devices, bool charge_manager) const {
    const int in_flight = absl::GetFlag(FLAGS_full_batches) * absl::GetFlag(FLAGS_b_max) * devices;
    WorldOptions options;
    options.devices = devices;
    options.own_memories = true;
    options.runs_by_itself = true;
    options.max_requests = 2 * in_flight;
    options.row_budget_bytes = kRowBudgetBytes;
    if (charge_manager) {
      // Between two readings lies one reading more than what is asked for.
      options.manager_ns = [this, readings = int64_t{0}]() mutable {
        return ThreadCpuNs() - reading_ns_ * readings++;
      };
    }
    std::vector<WorldLane> lanes;
    lanes.push_back({requests_.model(), costs_, requests_.maker()});
    ServingWorld world(options, std::move(lanes));
    const auto count =
        static_cast<size_t>(in_flight) * static_cast<size_t>(absl::GetFlag(FLAGS_turns));
    // Once before, so that every request was made and lies where it will lie.
    world.RunClosed(requests_.Order(static_cast<size_t>(in_flight)), in_flight);
    return world.RunClosed(requests_.Order(count), in_flight);
  }

 private:
  const Requests& requests_;
  const TaskCosts costs_;
  const int64_t reading_ns_;
};

// Of the rounds at one number of devices.
struct Managed {
  std::vector<double> requests_per_s, nodes_per_s, node_ns, busy, fill;
  void Add(const WorldReport& report) {
    const auto nodes = static_cast<double>(report.nodes);
    requests_per_s.push_back(report.requests_per_s);
    nodes_per_s.push_back(report.requests_per_s * nodes /
                          static_cast<double>(report.answers.size()));
    node_ns.push_back(static_cast<double>(report.manager_ns) / nodes);
    busy.push_back(report.device_busy);
    fill.push_back(report.mean_fill());
  }
};

double Median(const std::vector<double>& values) { return QuartilesOf(values).median; }

// The most that was served at any number of devices, and what the manager took at the last.
struct Limit {
  Quartiles requests_per_s, nodes_per_s;
  void Add(const Managed& managed) {
    const Quartiles rate = QuartilesOf(managed.requests_per_s);
    if (rate.median <= requests_per_s.median) return;
    requests_per_s = rate;
    nodes_per_s = QuartilesOf(managed.nodes_per_s);
  }
};

void ShowLimit(Report& report, const std::string& name, const Limit& limit, const Managed& last,
               double one) {
  report.Figure(name + ".manager_requests_per_s", limit.requests_per_s.median, "1/s",
                &limit.requests_per_s);
  report.Figure(name + ".manager_nodes_per_s", limit.nodes_per_s.median, "1/s", &limit.nodes_per_s);
  report.Figure(name + ".manager_devices", limit.requests_per_s.median / one, "x");
  const Quartiles node_ns = QuartilesOf(last.node_ns);
  report.Figure(name + ".manager_node_ns", node_ns.median, "ns", &node_ns);
}

void Run(const std::string& workload, const Requests& requests, const std::string& arithmetic,
         Report& report, Table& table) {
  const std::string name = "multi_gpu." + workload + (arithmetic == "bf16" ? "" : "_" + arithmetic);
  const Devices devices(requests, *H200ArithmeticOf(arithmetic));
  double one = 0, managed_one = 0;
  Managed managed;
  Limit limit;
  const std::vector<std::string> numbers = absl::StrSplit(absl::GetFlag(FLAGS_devices), ',');
  for (const std::string& text : numbers) {
    const int n = std::stoi(text);
    const WorldReport free = devices.Serve(n, /*charge_manager=*/false);
    managed = Managed();
    for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) managed.Add(devices.Serve(n, true));
    limit.Add(managed);
    const double per_s = Median(managed.requests_per_s);
    if (n == 1) one = free.requests_per_s, managed_one = per_s;
    const double scaling = free.requests_per_s / (n * one), charged = per_s / (n * managed_one);
    table.Add({workload, arithmetic, text, Number(free.requests_per_s * 1e-6, 3),
               Number(scaling, 3), Number(free.mean_fill(), 0),
               Number(100 * free.device_busy, 1) + " %", Number(per_s * 1e-6, 3),
               Number(charged, 3), Number(Median(managed.fill), 0),
               Number(100 * Median(managed.busy), 1) + " %", Number(Median(managed.node_ns), 1)});
    if (n == 1) continue;
    report.Figure(absl::StrCat(name, ".scaling_", n), scaling, "x");
    report.Figure(absl::StrCat(name, ".managed_scaling_", n), charged, "x");
  }
  ShowLimit(report, name, limit, managed, one);
}

int Main() {
  const std::vector<std::string> arithmetics = absl::StrSplit(absl::GetFlag(FLAGS_arithmetic), ',');
  for (const std::string& name : arithmetics) {
    if (H200ArithmeticOf(name).has_value()) continue;
    std::fprintf(stderr, "multi_gpu: --arithmetic: \"%s\" is not known\n", name.c_str());
    return 2;
  }
  if (!absl::GetFlag(FLAGS_devices).starts_with('1')) {
    std::fprintf(stderr,
                 "multi_gpu: --devices: the first number is 1, what others are compared to\n");
    return 2;
  }
  Report report("multi_gpu");
  report.Fact("units", std::to_string(absl::GetFlag(FLAGS_h)));
  report.Fact("b_max", std::to_string(absl::GetFlag(FLAGS_b_max)));
  report.Fact("devices", "simulated, steps of an H200 as derived on paper; not run on a GPU");
  Table table({"workload", "steps", "devices", "M requests/s", "of linear", "batch", "busy",
               "with the manager", "of linear", "batch", "busy", "its ns a node"});
  const std::vector<std::string> workloads = absl::StrSplit(absl::GetFlag(FLAGS_workloads), ',');
  for (const std::string& workload : workloads) {
    const Requests requests{workload};
    report.Fact(workload, requests.source());
    for (const std::string& arithmetic : arithmetics) {
      Run(workload, requests, arithmetic, report, table);
    }
  }
  report.Text(table.ToString());
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("One manager and 1 to 8 simulated GPUs.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

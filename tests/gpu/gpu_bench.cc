// What tests/gpu/check measures on GPUs: signals, steps against what they should take on paper, and requests in process.
//
//   gpu.signal.{end_kernel,signal_kernel,stream_write}.us   from the launch of an empty task until the host sees it done
//   gpu.step.CELL_hH_bB_PRECISION.us                        a step of B nodes, of many in a row
//   gpu.step.CELL_hH_bB_PRECISION.of_bound                  x: that ÷ the derived bound of an H200 (tests/bench/derived_costs.h)
//   gpu.launch.us                                           CPU time of launching, by task, of all those steps
//   gpu.saturation.NAME.requests_per_s, .mean_batch         chains as Europarl's, and a backlog of them
//   gpu.saturation.NAME.tasks_a_launch                      mean
//   gpu.saturation.NAME.of_ideal                            x: as `saturation` says, over the steps measured here: T(b)/b at the
//                                                           best b of --batches, of the same precision and inputs
//   gpu.saturation.NAME.idle                                x: of that time, no task of a GPU's one queue ran (gpu_requests.h)
//   gpu.saturation.NAME_2queues.queue_idle                  x: the same, mean of the two queues of one GPU
//   gpu.latency.NAME.p50_us, .p99_us                        chains that come as a Poisson process, from when they come
//
// PRECISION: fp32 (a multiply-add for each weight), fp32_3xtf32 (three products of tf32 on tensor cores) and tf32 (steps alone), bf16.
//
// NAME: lstm_hH_PRECISION[_tokens][_2queues|_2gpus], latency of one queue alone. Without _tokens a cell's input is a vector, 4 KiB
// over PCIe where H is 1,024; with it a word of 20,000, whose vectors are on the GPU: CELL lstm_tokens. A precision that the
// device does not compute is "not offered" in the tables, and has no figures. All but signals once for each of --tasks_a_launch:
// names of other numbers than the first one end in _tasksN (gpu.step.lstm_h1024_b64_bf16_tasks1.us, gpu.launch_tasks1.us).
//
//   gpu_bench --list            the GPUs, a line each, and what CUDA is there; or one line why there is none, exit code 3
//
// Predicted before any GPU was seen (cells/kernels/cuda/README.md): lstm of 1,024 units in fp32 39 us for b = 1, 8, 64 and 300 us
// for 512. Seen on an H200: 64, 64, 97 and 304 (tests/bench/results). Where it ran on emulated GPUs its times mean nothing.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/cuda/cuda_device.h"
#include "cells/device/cuda/cuda_inventory.h"
#include "tests/bench/derived_costs.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/gpu/gpu_steps.h"
#include "tests/gpu/request_figures.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, cuda_libraries, "", "A folder where CUDA's libraries are looked for first.");
ABSL_FLAG(bool, list, false, "Name the GPUs, and end.");
ABSL_FLAG(std::vector<std::string>, parts,
          std::vector<std::string>({"signals", "steps", "saturation", "latency"}),
          "What is measured; commas between.");
ABSL_FLAG(std::vector<std::string>, precisions,
          std::vector<std::string>({"fp32", "fp32_3xtf32", "tf32", "bf16"}),
          "What cells compute in; commas between.");
ABSL_FLAG(std::string, cells, "lstm,lstm_tokens,gru,treelstm_internal",
          "Whose steps; commas between.");
ABSL_FLAG(int, h, 1024, "Units of every cell.");
ABSL_FLAG(std::vector<std::string>, batches,
          std::vector<std::string>({"1", "8", "64", "128", "256", "512"}),
          "Of steps; commas between.");
ABSL_FLAG(int, repeats, 200, "Of signals and steps; figures are medians over them.");
ABSL_FLAG(double, seconds, 5, "Of requests, for each measurement of them.");
ABSL_FLAG(double, rate, 0, "Requests/s of the latency; 0: as --load says.");
ABSL_FLAG(double, load, 0.3, "Of what was answered at saturation.");
ABSL_FLAG(int, drivers, 0, "Threads that send and take requests; 0: half of the cores.");
ABSL_FLAG(int, most_length, 330, "Longer requests are made so long.");
ABSL_FLAG(uint64_t, seed, 1, "Of lengths and inputs.");
ABSL_FLAG(std::vector<std::string>, tasks_a_launch, std::vector<std::string>({"4", "1"}),
          "Tasks that go as one launch, at most: 1, 2, 4; commas between.");

namespace cellbatch {
namespace {

constexpr int kNoGpu = 3;               // exit code
constexpr double kMostInFlight = 4096;  // requests: four times a batch of 512, two queues
constexpr const char* kParts[] = {"signals", "steps", "saturation", "latency"};

// What cells compute in, and how that is called in tests/bench/derived_costs.h.
struct Numbers {
  std::string name;
  Precision precision;
  std::string arithmetic;
  Fp32By fp32 = Fp32By::kFma;
};
const Numbers kNumbers[] = {{"fp32", Precision::kFp32, "fp32"},
                            {"fp32_3xtf32", Precision::kFp32, "3xtf32", Fp32By::kTensorCores},
                            {"tf32", Precision::kTf32, "tf32", Fp32By::kTensorCores},
                            {"bf16", Precision::kBf16, "bf16"}};

bool Part(std::string_view name) { return absl::c_linear_search(absl::GetFlag(FLAGS_parts), name); }

std::vector<Numbers> Asked() {
  std::vector<Numbers> asked;
  for (const std::string& name : absl::GetFlag(FLAGS_precisions)) {
    const auto known = absl::c_find_if(kNumbers, [&](const Numbers& n) { return n.name == name; });
    const bool right = known != std::end(kNumbers);
    Require(right ? absl::OkStatus() : absl::InvalidArgumentError(name), "--precisions");
    asked.push_back(*known);
  }
  return asked;
}

std::vector<int32_t> Counts(const std::vector<std::string>& texts, const std::string& flag) {
  std::vector<int32_t> counts;
  for (const std::string& text : texts) {
    int32_t& count = counts.emplace_back();
    const bool right = absl::SimpleAtoi(text, &count) && count > 0;
    Require(right ? absl::OkStatus() : absl::InvalidArgumentError(text), flag);
  }
  return counts;
}

std::vector<int32_t> Batches() {
  const std::vector<int32_t> given = Counts(absl::GetFlag(FLAGS_batches), "--batches");
  const std::set<int32_t> batches(given.begin(), given.end());
  return {batches.begin(), batches.end()};
}

// Tasks of a launch, and what names of figures end in.
struct Launches {
  int tasks;
  std::string suffix;
};
std::vector<Launches> AskedLaunches() {
  std::vector<Launches> asked;
  for (const int32_t tasks : Counts(absl::GetFlag(FLAGS_tasks_a_launch), "--tasks_a_launch")) {
    asked.push_back({tasks, asked.empty() ? "" : "_tasks" + std::to_string(tasks)});
  }
  return asked;
}

void CheckFlags() {
  for (const std::string& part : absl::GetFlag(FLAGS_parts)) {
    const bool known = absl::c_linear_search(kParts, part);
    Require(known ? absl::OkStatus() : absl::InvalidArgumentError(part), "--parts");
  }
  Asked();
  Batches();
  AskedLaunches();
}

struct Found {
  std::shared_ptr<const cuda::CudaApi> api;
  std::vector<cuda::FoundGpu> gpus;
};

absl::StatusOr<Found> Find() {
  auto api = cuda::LoadCudaApi(absl::GetFlag(FLAGS_cuda_libraries));
  if (!api.ok()) return api.status();
  Found found{*std::move(api), {}};
  auto gpus = cuda::FindGpus(*found.api);
  if (!gpus.ok()) return gpus.status();
  found.gpus = *std::move(gpus);
  if (found.gpus.empty()) return absl::NotFoundError("cuda: the driver shows no GPU");
  return found;
}

// "CUDA 13.0, NVRTC 13.0"
std::string Versions(const cuda::CudaApi& api) {
  int driver = 0, major = 0, minor = 0;
  api.driver.driver_version(&driver);
  api.nvrtc.version(&major, &minor);
  return "CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10) +
         ", NVRTC " + std::to_string(major) + "." + std::to_string(minor);
}

void List(const Found& found) {
  for (size_t i = 0; i < found.gpus.size(); ++i) {
    std::printf("cuda:%zu %s\n", i, found.gpus[i].name.c_str());
  }
  std::printf("of the driver: %s, from %s\n", Versions(*found.api).c_str(),
              found.api->from.c_str());
}

// With pinned memory for requests of so many cells on average, half as much more.
DeviceSet Devices(const Found& found, const std::vector<int>& ordinals, Fp32By fp32,
                  int tasks_a_launch, double mean_cells = 0) {
  cuda::CudaOptions options;
  options.memory.fp32 = fp32;
  options.memory.queue.tasks_a_launch = tasks_a_launch;
  const double bytes = 1.5 * kMostInFlight * mean_cells * absl::GetFlag(FLAGS_h) * sizeof(float);
  options.host_block_bytes = std::max(options.host_block_bytes, static_cast<int64_t>(bytes));
  return Require(cuda::CudaDevices(found.api, ordinals, options), "devices");
}

void Signals(const Found& found, Report& report) {
  Table table({"signal", "us (quartiles)"});
  const std::pair<cuda::SignalBy, std::string> all[] = {
      {cuda::SignalBy::kEndKernel, "end_kernel"},
      {cuda::SignalBy::kSignalKernel, "signal_kernel"},
      {cuda::SignalBy::kStreamWrite, "stream_write"}};
  for (const auto& [by, name] : all) {
    const Quartiles us = SignalLatency(found.api, 0, by, absl::GetFlag(FLAGS_repeats));
    table.Add({cuda::Name(by), Number(us, 1)});
    report.Figure("gpu.signal." + name + ".us", us.median, "us", &us);
  }
  report.Text(table.ToString());
}

std::shared_ptr<const Model> Chains(Precision precision, bool tokens) {
  ChainModelSpec spec;
  spec.hidden = absl::GetFlag(FLAGS_h);
  spec.tokens = tokens;
  spec.precision = precision;
  return MakeChainModel(spec, 1);
}

// Children are nodes of the cell's own.
std::shared_ptr<const Model> ModelOf(const std::string& name, Precision precision) {
  const int h = absl::GetFlag(FLAGS_h);
  if (name == "lstm" || name == "lstm_tokens") return Chains(precision, name == "lstm_tokens");
  testing::ModelBuilder builder;
  if (name == "gru") {
    builder.Add(testing::GruCell(h, h), 1);
  } else {
    const CellDefinition cell = testing::ShippedDefinition(name, {{"H", h}, {"D", h}});
    const CellTypeId type = builder.Add(cell, 1);
    for (const Input& input : cell.inputs()) {
      if (input.name.starts_with("child")) builder.Connect(type, input.name, type);
    }
  }
  const std::shared_ptr<Model> model = builder.Build();
  model->precision = precision;
  for (CellType& type : model->types) type.precision = precision;
  return model;
}

double BoundUs(std::string_view arithmetic, const Model& model, int32_t batch) {
  const H200Arithmetic how = *H200ArithmeticOf(arithmetic);
  return static_cast<double>(H200TaskNs(how, model.types[0].definition->flops(), batch)) / 1e3;
}

// Microseconds a node at the best batch, by the cell's name and the precision's.
using Ideals = std::map<std::pair<std::string, std::string>, double>;

void StepsOf(const Found& found, const Launches& how, const std::string& cell,
             const Numbers& numbers, Table& table, std::vector<double>& launches, Ideals& ideals,
             Report& report) {
  const auto model = ModelOf(cell, numbers.precision);
  DeviceSet set = Devices(found, {0}, numbers.fp32, how.tasks);
  auto tried = StepTimes(set, *model, Batches(), absl::GetFlag(FLAGS_repeats));
  if (absl::IsUnimplemented(tried.status())) {
    table.Add({cell, numbers.name, "", "not offered", "", "", "", "", ""});
    return;
  }
  double& best_us = ideals[{cell, numbers.name}];
  best_us = std::numeric_limits<double>::max();
  for (const StepTime& time : Require(std::move(tried), "steps")) {
    const double bound = BoundUs(numbers.arithmetic, *model, time.batch);
    const double of_bound = time.row_us.median / bound;
    best_us = std::min(best_us, time.row_us.median / time.batch);
    launches.push_back(time.launch_us.median);
    table.Add({cell, numbers.name, std::to_string(time.batch), Number(time.alone_us, 1),
               Number(time.device_us, 1), Number(time.row_us, 1), Number(time.launch_us.median, 1),
               Number(bound, 1), Number(of_bound, 2)});
    const std::string name = "gpu.step." + cell + "_h" + std::to_string(absl::GetFlag(FLAGS_h)) +
                             "_b" + std::to_string(time.batch) + "_" + numbers.name + how.suffix;
    report.Figure(name + ".us", time.row_us.median, "us", &time.row_us);
    report.Figure(name + ".of_bound", of_bound, "x");
  }
}

Ideals Steps(const Found& found, const Launches& how, Report& report) {
  Table table({"cell", "numbers", "b", "alone us", "on it us", "in a row us", "launch us", "bound",
               "of bound"});
  Ideals ideals;
  std::vector<double> launches;
  const std::vector<std::string> cells = absl::StrSplit(absl::GetFlag(FLAGS_cells), ',');
  for (const std::string& cell : cells) {
    for (const Numbers& numbers : Asked()) {
      StepsOf(found, how, cell, numbers, table, launches, ideals, report);
    }
  }
  report.Text("steps, up to " + std::to_string(how.tasks) +
              " a launch; the bounds are an H200's, derived on paper\n" + table.ToString());
  if (!launches.empty()) {
    const Quartiles launch = QuartilesOf(launches);
    report.Figure("gpu.launch" + how.suffix + ".us", launch.median, "us", &launch);
  }
  return ideals;
}

// False: something failed, which was printed.
bool Requests(const Found& found, const Launches& how, const Ideals& ideals, Report& report) {
  RequestPlan plan;
  plan.saturation = Part("saturation");
  plan.latency = Part("latency");
  if (!plan.saturation && !plan.latency) return true;
  plan.num_gpus = static_cast<int>(found.gpus.size());
  plan.lengths = Lengths::Europarl();
  for (int32_t& v : plan.lengths.values) v = std::min(v, absl::GetFlag(FLAGS_most_length));
  if (how.suffix.empty())
    report.Fact("lengths", plan.lengths.source + ", mean " + Number(plan.lengths.mean(), 1));
  plan.seconds = absl::GetFlag(FLAGS_seconds);
  plan.per_s = absl::GetFlag(FLAGS_rate);
  plan.load = absl::GetFlag(FLAGS_load);
  plan.num_drivers = absl::GetFlag(FLAGS_drivers);
  if (plan.num_drivers <= 0) plan.num_drivers = std::max(1, UsableCores() / 2);
  plan.seed = absl::GetFlag(FLAGS_seed);
  plan.suffix = how.suffix;
  const auto devices = [&, cells = plan.lengths.mean()](const std::vector<int>& ordinals) {
    return Devices(found, ordinals, Fp32By::kFma, how.tasks, cells);
  };
  RequestFigures figures(std::move(plan), devices, report);
  for (const Numbers& numbers : Asked()) {
    if (numbers.fp32 == Fp32By::kTensorCores) continue;  // what steps take says it
    for (const std::string cell : {"lstm", "lstm_tokens"}) {
      const auto ideal = ideals.find({cell, numbers.name});
      const auto best_us = ideal == ideals.end() ? std::nullopt : std::optional(ideal->second);
      if (!figures.Add(ModelOf(cell, numbers.precision), best_us)) break;
    }
    figures.Tell();
  }
  return !figures.failed();
}

int Main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was said is seen where time ran out
  CheckFlags();
  const absl::StatusOr<Found> found = Find();
  if (!found.ok()) {
    std::fprintf(stderr, "no GPU: %s\n", std::string(found.status().message()).c_str());
    return kNoGpu;
  }
  if (absl::GetFlag(FLAGS_list)) return List(*found), 0;
  Report report("gpu");
  report.Fact("gpus", cuda::DescribeGpus(found->gpus));
  report.Fact("driver", Versions(*found->api) + ", from " + found->api->from);
  if (Part("signals")) Signals(*found, report);
  bool well = true;
  for (const Launches& how : AskedLaunches()) {
    const Ideals ideals = Part("steps") ? Steps(*found, how, report) : Ideals();
    well &= Requests(*found, how, ideals, report);
  }
  return report.Finish(absl::GetFlag(FLAGS_json)) && well ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Signals, steps and requests on this machine's GPUs.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

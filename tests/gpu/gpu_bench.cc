// What tests/gpu/check measures on GPUs: signals, steps against what they should take on paper, and requests in process.
//
//   gpu.signal.{end_kernel,signal_kernel,stream_write}.us   from the launch of an empty task until the host sees it done
//   gpu.step.CELL_hH_bB_fp32.us                             a step of B nodes, of many in a row
//   gpu.step.CELL_hH_bB_fp32.of_bound                       x: that ÷ the derived bound of an H200 (tests/bench/derived_costs.h)
//   gpu.saturation.lstm_hH_fp32[_2queues|_2gpus].requests_per_s, .of_ideal    chains as Europarl's; ideal as `saturation` says,
//                                                           over the steps measured here: T(b)/b at the best b of --batches
//
//   gpu_bench --list            the GPUs, a line each, and what CUDA is there; or one line why there is none, exit code 3
//
// Predicted before any GPU was seen (cells/kernels/cuda/README.md): lstm of 1,024 units 39 us for b = 1, 8, 64 and 300 us for
// 512. Not run on a GPU; where it ran on emulated ones its times mean nothing.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cells/device/cuda/cuda_device.h"
#include "cells/device/cuda/cuda_inventory.h"
#include "tests/bench/derived_costs.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/bench/saturated.h"
#include "tests/gpu/gpu_steps.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, cuda_libraries, "", "A folder where CUDA's libraries are looked for first.");
ABSL_FLAG(bool, list, false, "Name the GPUs, and end.");
ABSL_FLAG(std::string, cells, "lstm,gru,treelstm_internal", "Whose steps; commas between.");
ABSL_FLAG(int, h, 1024, "Units of every cell.");
ABSL_FLAG(std::vector<std::string>, batches, std::vector<std::string>({"1", "8", "64", "512"}),
          "Of steps; commas between.");
ABSL_FLAG(int, repeats, 200, "Of signals and steps; figures are medians over them.");
ABSL_FLAG(double, seconds, 5, "Of requests, for each set of devices.");
ABSL_FLAG(int, most_length, 330, "Longer requests are made so long.");
ABSL_FLAG(uint64_t, seed, 1, "Of lengths and inputs.");

namespace cellbatch {
namespace {

constexpr int kNoGpu = 3;  // exit code

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

DeviceSet Devices(const Found& found, const std::vector<int>& ordinals) {
  return Require(cuda::CudaDevices(found.api, ordinals, cuda::CudaOptions()), "devices");
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

std::vector<int32_t> Batches() {
  std::set<int32_t> batches;
  for (const std::string& text : absl::GetFlag(FLAGS_batches)) {
    int32_t batch = 0;
    const bool right = absl::SimpleAtoi(text, &batch) && batch > 0;
    Require(right ? absl::OkStatus() : absl::InvalidArgumentError(text), "--batches");
    batches.insert(batch);
  }
  return {batches.begin(), batches.end()};
}

// Children are nodes of the cell's own.
std::shared_ptr<const Model> ModelOf(const std::string& name, int h) {
  if (name == "lstm") return testing::OneCellModel(testing::LstmCell(h, h));
  if (name == "gru") return testing::OneCellModel(testing::GruCell(h, h));
  const CellDefinition cell = testing::ShippedDefinition(name, {{"H", h}, {"D", h}});
  testing::ModelBuilder builder;
  const CellTypeId type = builder.Add(cell, 1);
  for (const Input& input : cell.inputs()) {
    if (input.name.starts_with("child")) builder.Connect(type, input.name, type);
  }
  return builder.Build();
}

double BoundUs(const char* arithmetic, const Model& model, int32_t batch) {
  const H200Arithmetic how = *H200ArithmeticOf(arithmetic);
  return static_cast<double>(H200TaskNs(how, model.types[0].definition->flops(), batch)) / 1e3;
}

// Microseconds a node at the best batch of `lstm`, for what follows.
double Steps(const Found& found, Report& report) {
  Table table({"cell", "b", "alone us", "on it us", "in a row us", "bound fp32", "bound 3xtf32",
               "of bound"});
  double best_us = std::numeric_limits<double>::max();
  const std::string h = std::to_string(absl::GetFlag(FLAGS_h));
  const std::vector<std::string> cells = absl::StrSplit(absl::GetFlag(FLAGS_cells), ',');
  for (const std::string& cell : cells) {
    const auto model = ModelOf(cell, absl::GetFlag(FLAGS_h));
    DeviceSet set = Devices(found, {0});
    for (const StepTime& time : StepTimes(set, *model, Batches(), absl::GetFlag(FLAGS_repeats))) {
      const double bound = BoundUs("fp32", *model, time.batch);
      const double of_bound = time.row_us.median / bound;
      if (cell == "lstm") best_us = std::min(best_us, time.row_us.median / time.batch);
      table.Add({cell, std::to_string(time.batch), Number(time.alone_us, 1),
                 Number(time.device_us, 1), Number(time.row_us, 1), Number(bound, 1),
                 Number(BoundUs("3xtf32", *model, time.batch), 1), Number(of_bound, 2)});
      const std::string name =
          "gpu.step." + cell + "_h" + h + "_b" + std::to_string(time.batch) + "_fp32";
      report.Figure(name + ".us", time.row_us.median, "us", &time.row_us);
      report.Figure(name + ".of_bound", of_bound, "x");
    }
  }
  report.Text("steps; the bounds are an H200's, derived on paper\n" + table.ToString());
  return best_us;
}

void Requests(const Found& found, double best_us, Report& report) {
  Lengths lengths = Lengths::Europarl();
  for (int32_t& v : lengths.values) v = std::min(v, absl::GetFlag(FLAGS_most_length));
  report.Fact("lengths", lengths.source + ", mean " + Number(lengths.mean(), 1));
  Table table({"model", "devices", "in flight", "b_max", "mean batch", "mean cells", "requests/s",
               "of ideal"});
  ChainModelSpec spec;
  spec.hidden = absl::GetFlag(FLAGS_h);
  struct Set {
    std::string shown, suffix;
    std::vector<int> ordinals;
    int gpus;
  };
  std::vector<Set> sets = {{"cuda:0", "", {0}, 1}, {"cuda:0,cuda:0", "_2queues", {0, 0}, 1}};
  if (found.gpus.size() > 1) sets.push_back({"cuda:0,cuda:1", "_2gpus", {0, 1}, 2});
  for (const Set& set : sets) {
    const std::shared_ptr<const Model> model = MakeChainModel(spec, 1);
    Saturation full(Devices(found, set.ordinals), model, lengths, absl::GetFlag(FLAGS_seed));
    const SaturatedRound round = full.Measure(absl::GetFlag(FLAGS_seconds));
    const double ideal = set.gpus * 1e6 / (round.mean_cells * best_us);
    table.Add({spec.name(), set.shown, std::to_string(full.in_flight()),
               std::to_string(full.b_max()), Number(round.mean_batch, 1),
               Number(round.mean_cells, 1), Number(round.requests_per_s, 1),
               Number(round.requests_per_s / ideal, 3)});
    const std::string name = "gpu.saturation." + spec.name() + set.suffix;
    report.Figure(name + ".requests_per_s", round.requests_per_s, "1/s");
    report.Figure(name + ".of_ideal", round.requests_per_s / ideal, "x");
  }
  report.Text(table.ToString());
}

int Main() {
  const absl::StatusOr<Found> found = Find();
  if (!found.ok()) {
    std::fprintf(stderr, "no GPU: %s\n", std::string(found.status().message()).c_str());
    return kNoGpu;
  }
  if (absl::GetFlag(FLAGS_list)) return List(*found), 0;
  Report report("gpu");
  report.Fact("gpus", cuda::DescribeGpus(found->gpus));
  report.Fact("driver", Versions(*found->api) + ", from " + found->api->from);
  Signals(*found, report);
  const double best_us = Steps(*found, report);
  Requests(*found, best_us, report);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Signals, steps and requests on this machine's GPUs.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

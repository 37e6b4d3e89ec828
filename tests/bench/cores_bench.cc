// What more cores bring to one step, and what a neighbour that computes on one of them costs.
//
//   cores.lstm_h1024_b32.speedup_2          time of a task by one core / by two: one device each, in turns
//   cores.lstm_h1024.beside_N.rate          requests/s of a saturated server, a neighbour on core N of it / alone
//   cores.lstm_h1024_b32.beside_N.slowest   the slowest task beside it, less the system's time slice / median task alone
//   cores.lstm_h1024_b32.beside_N.beyond    share of tasks beside it that took longer than three such medians and a slice
//   cores.lstm_h1024_b32.beside_N.median    the median task beside it / alone
//
// N is "first" or "last": where --devices says cores, that of the worker's own thread and a helper's. speedup_4 and so on
// where this process has more CPUs than two. Times of tasks are the lower quartile of a slice of wall time (performance.md:
// what is above it is somebody else's), medians over rounds; beside a neighbour they are what they are. The time slice,
// for which a thread that a neighbour has replaced is not there, is probed in the same run.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/process_limits.h"
#include "tests/bench/chain_task.h"
#include "tests/bench/in_process.h"
#include "tests/bench/neighbour.h"
#include "tests/bench/report.h"
#include "tests/bench/saturated.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::vector<std::string>, h, (std::vector<std::string>{"256", "512", "1024"}),
          "Units of the LSTM.");
ABSL_FLAG(std::vector<std::string>, b, (std::vector<std::string>{"1", "8", "32", "64", "128"}),
          "Nodes of a task.");
ABSL_FLAG(
    std::string, precision, "FP32",
    "Of its products: FP32, FP32_SPLIT, BF16, W8; but for FP32 figures say it, lstm_h1024_bf16.");
ABSL_FLAG(int, rounds, 9, "Rounds; figures are medians over them.");
ABSL_FLAG(int, slice_ms, 100, "Of one device in a round.");
ABSL_FLAG(double, seconds, 4, "Of a measurement beside a neighbour.");
ABSL_FLAG(
    std::string, devices, "auto",
    "As cellbatch-server's --devices: what has a neighbour. Of auto no thread is kept on a core.");
ABSL_FLAG(int, neighbour_b, 32, "Nodes of the tasks that are timed beside a neighbour.");

namespace cellbatch {
namespace {

std::vector<int> Integers(const std::vector<std::string>& texts) {
  std::vector<int> values(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!absl::SimpleAtoi(texts[i], &values[i]) || values[i] < 1) {
      Require(absl::InvalidArgumentError(texts[i] + " is not a number"), "--h, --b");
    }
  }
  return values;
}

std::string FirstCores(const std::vector<int>& cpus, size_t cores) {
  return "cpu:" + CpuListText({cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(cores)});
}

// A device with a model on it. The first, where `spec` names several.
class TimedDevice {
 public:
  TimedDevice(const std::string& spec, const Model& model, int most)
      : model_(model),
        devices_(MakeDevices(spec)),
        rows_(3 * most + 1),
        loaded_(Require(
            devices_.memories[0]->Load(
                model, {std::vector<int32_t>(model.tables.size(), static_cast<int32_t>(rows_))}),
            "loading " + model.name)) {}

  const std::string& details() const { return devices_.devices[0]->info().details; }

  void Start(int b) { task_ = std::make_unique<ChainTask>(model_, *loaded_, b, rows_, b); }

  // Seconds of each task, for so long.
  std::vector<double> Run(double seconds) {
    std::vector<double> times;
    for (double sum = 0; sum < seconds; sum += times.back()) {
      times.push_back(task_->Run(*devices_.devices[0], ++sequence_));
    }
    return times;
  }

 private:
  const Model& model_;
  DeviceSet devices_;
  const int rows_;
  std::unique_ptr<LoadedModel> loaded_;
  std::unique_ptr<ChainTask> task_;
  uint64_t sequence_ = 0;
};

class Bench {
 public:
  Bench(Report& report, std::vector<int> cpus) : report_(report), cpus_(std::move(cpus)) {
    for (size_t cores = 1; cores <= cpus_.size(); cores *= 2) counts_.push_back(cores);
  }

  // Each on a thread of its own, for devices pin who runs them.
  void Steps(const std::vector<int>& widths, const std::vector<int>& batches) {
    Table table({"LSTM", "cores", "us", "speedup"});
    for (const int h : widths) {
      for (const int b : batches) std::thread([&] { Speedups(h, b, table); }).join();
    }
    report_.Text("\nOne task; lower quartile of a slice, medians of rounds (quartiles)\n" +
                 table.ToString());
  }

  void Neighbours(const std::vector<int>& widths) {
    if (cpus_.size() < 2) return;
    Table table({"LSTM", "neighbour", "requests/s", "of alone", "task, median ms", "p99", "slowest",
                 "less a slice, of alone's median", "beyond 3 medians and a slice"});
    for (const int h : widths) BesideNeighbours(h, table);
    report_.Text("\nBeside a neighbour that computes on one of " + std::to_string(cpus_.size()) +
                 " cores; rates are medians of rounds\n" + table.ToString());
  }

 private:
  static std::shared_ptr<const Model> ModelOf(int h) {
    ChainModelSpec spec;
    spec.hidden = h;
    spec.precision = PrecisionNamed(absl::GetFlag(FLAGS_precision));
    return MakeChainModel(spec, 1);
  }

  static std::string NameOf(int h) {
    const std::string precision = absl::AsciiStrToLower(absl::GetFlag(FLAGS_precision));
    return "lstm_h" + std::to_string(h) + (precision == "fp32" ? "" : "_" + precision);
  }

  void Speedups(int h, int b, Table& table) {
    const std::shared_ptr<const Model> model = ModelOf(h);
    std::vector<std::unique_ptr<TimedDevice>> devices;
    for (const size_t cores : counts_) {
      devices.push_back(std::make_unique<TimedDevice>(FirstCores(cpus_, cores), *model, b));
      devices.back()->Start(b);
    }
    if (!told_) report_.Fact("device", devices.back()->details());
    told_ = true;
    std::vector<std::vector<double>> us(devices.size()), speedups(devices.size());
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      for (size_t d = 0; d < devices.size(); ++d) {
        const double slice = absl::GetFlag(FLAGS_slice_ms) * 1e-3;
        us[d].push_back(QuartilesOf(devices[d]->Run(slice)).low * 1e6);
        speedups[d].push_back(us[0].back() / us[d].back());
      }
    }
    const std::string name = NameOf(h) + "_b" + std::to_string(b);
    for (size_t d = 0; d < devices.size(); ++d) {
      const Quartiles time = QuartilesOf(us[d]), speedup = QuartilesOf(speedups[d]);
      table.Add({name, std::to_string(counts_[d]), Number(time, 1), Number(speedup, 2)});
      if (d == 0) continue;
      report_.Figure("cores." + name + ".speedup_" + std::to_string(counts_[d]), speedup.median,
                     "x", &speedup);
    }
  }

  struct Beside {
    std::string name;
    int cpu;  // -1: alone
    std::vector<double> rates;
    std::vector<double> tasks = {};
  };

  static double ShareBeyond(const std::vector<double>& times, double most) {
    const auto beyond =
        std::count_if(times.begin(), times.end(), [&](double t) { return t > most; });
    return static_cast<double>(beyond) / static_cast<double>(times.size());
  }

  void BesideNeighbours(int h, Table& table) {
    const std::string model_name = NameOf(h);
    std::vector<Beside> all = {
        {"alone", -1, {}}, {"beside_last", cpus_.back(), {}}, {"beside_first", cpus_.front(), {}}};
    Measure(h, all);
    const double median = QuartilesOf(all[0].tasks).median;
    const double rate = QuartilesOf(all[0].rates).median;
    for (Beside& beside : all) {
      std::sort(beside.tasks.begin(), beside.tasks.end());
      const double slice = beside.cpu < 0 ? 0 : LongestSliceSeconds(beside.cpu);
      const Quartiles of_alone = QuartilesOf(beside.rates);
      const double slowest = (beside.tasks.back() - slice) / median;
      const double beyond = ShareBeyond(beside.tasks, 3 * median + slice);
      const double middle = QuartilesOf(beside.tasks).median;
      table.Add({model_name, beside.name, Number(of_alone, 1), Number(of_alone.median / rate, 2),
                 Number(middle * 1e3, 2),
                 Number(beside.tasks[beside.tasks.size() * 99 / 100] * 1e3, 2),
                 Number(beside.tasks.back() * 1e3, 2), Number(slowest, 2),
                 Number(beyond * 100, 3) + " %"});
      if (beside.cpu < 0) continue;
      report_.Fact("time slice of CPU " + std::to_string(beside.cpu),
                   Number(slice * 1e3, 2) + " ms");
      const std::string task =
          "cores." + model_name + "_b" + std::to_string(absl::GetFlag(FLAGS_neighbour_b)) + ".";
      report_.Figure("cores." + model_name + "." + beside.name + ".rate", of_alone.median / rate,
                     "x");
      report_.Figure(task + beside.name + ".slowest", slowest, "x");
      report_.Figure(task + beside.name + ".beyond", beyond, "share");
      report_.Figure(task + beside.name + ".median", middle / median, "x");
    }
  }

  // In turns, three rounds. What is measured was there before the neighbour came.
  void Measure(int h, std::vector<Beside>& all) {
    constexpr int kRounds = 3;
    const std::shared_ptr<const Model> model = ModelOf(h);
    const double seconds = absl::GetFlag(FLAGS_seconds);
    const int b = absl::GetFlag(FLAGS_neighbour_b);
    Saturation saturation(MakeDevices(absl::GetFlag(FLAGS_devices)), model, lengths_, 1);
    for (int round = 0; round < kRounds; ++round) {
      for (Beside& beside : all) {
        const auto come = [&] {
          return beside.cpu < 0 ? nullptr : std::make_unique<Neighbour>(beside.cpu);
        };
        std::thread([&] {
          TimedDevice device(absl::GetFlag(FLAGS_devices), *model, b);
          device.Start(b);
          const auto neighbour = come();
          const std::vector<double> times = device.Run(seconds);
          beside.tasks.insert(beside.tasks.end(), times.begin(), times.end());
        }).join();
        const auto neighbour = come();
        beside.rates.push_back(saturation.Measure(seconds).requests_per_s);
      }
    }
  }

  Report& report_;
  const std::vector<int> cpus_;
  std::vector<size_t> counts_;
  const Lengths lengths_ = Lengths::Europarl();
  bool told_ = false;
};

int Main() {
  Report report("cores");
  const std::vector<int> widths = Integers(absl::GetFlag(FLAGS_h));
  Bench bench(report, AllowedCpus());
  bench.Steps(widths, Integers(absl::GetFlag(FLAGS_b)));
  if (absl::GetFlag(FLAGS_seconds) > 0) bench.Neighbours(widths);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "What more cores bring to a step, and a neighbour on one of them costs.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

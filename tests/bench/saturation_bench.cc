// How close a saturated server comes to what its devices could do if every task had the best batch size.
//
//   saturation.MODEL.of_ideal = requests/s / sum over devices of 1 / (mean cells * min over b <= 512 of T(b)/b)
//   saturation.MODEL.of_knee  = the same with T(b)/b at the b_max in force when it is not saturated
//
// What is lost, the table says: devices that wait ("busy"), or tasks that take longer than T of as many nodes ("task by
// T(b)": whoever else runs on those cores, rows from farther away).
//
// The scheduler with real CPU devices, in process: at least 4 * b_peak requests in flight on every device, lengths as
// Europarl's, warm-up and drain excluded. T(b) is measured in the same run, before and after each round, gather
// included, all devices busy at once. MODEL_2dev: the same cores as two devices.
//
// Predicted: 0.95 (the rest: copies in and out, the manager between tasks on the worker's thread, and batches below
// b_max when many chains end at once); what was seen stands in tests/bench/results.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_split.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/bench/saturated.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, models, "lstm_h1024,gru_h1024,lstm_h256",
          "What to saturate: CELL_hHIDDEN, CELL lstm or gru; _tokens behind it reads words.");
ABSL_FLAG(std::string, devices, "cpu;cpu:0,cpu:1",
          "Device sets, ';' between them; the second one's figures are called MODEL_2dev.");
ABSL_FLAG(std::string, precision, "FP32",
          "Of their products: FP32, FP32_SPLIT, BF16, W8; the models' names say it.");
ABSL_FLAG(double, seconds, 12, "Length of one measured round.");
ABSL_FLAG(int, rounds, 3, "Rounds; figures are medians over them.");
ABSL_FLAG(uint64_t, seed, 1, "Of lengths and inputs.");

namespace cellbatch {
namespace {

struct Round : SaturatedRound {
  double ideal_per_s = 0, knee_per_s = 0;
  double slower = 0;  // a task of the mean batch, by T of the same
};

// Batch sizes tried for the ideal: every power of two, half way between, and the b_max in force.
std::vector<int32_t> Batches(int b_max) {
  std::vector<int32_t> batches = {1,  2,  4,  6,   8,   12,  16,  24, 32,
                                  48, 64, 96, 128, 192, 256, 384, 512};
  if (std::find(batches.begin(), batches.end(), b_max) == batches.end()) batches.push_back(b_max);
  std::sort(batches.begin(), batches.end());
  return batches;
}

// The mean of the two measurements, per cell, at its best b and at b_max.
void Ideal(const std::vector<TaskTime>& before, const std::vector<TaskTime>& after, int devices,
           int b_max, Round& round) {
  double best = 1e9, knee = 1e9, mean = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double per_cell = (before[i].seconds + after[i].seconds) / 2 / before[i].batch;
    best = std::min(best, per_cell);
    if (before[i].batch == b_max) knee = per_cell;
    if (before[i].batch <= round.mean_batch + 0.5) mean = per_cell;
  }
  round.slower = round.task_time / (mean * round.mean_batch);
  round.ideal_per_s = devices / (round.mean_cells * best);
  round.knee_per_s = devices / (round.mean_cells * knee);
}

ChainModelSpec ParseModel(const std::string& text) {
  ChainModelSpec spec;
  const std::vector<std::string> parts = absl::StrSplit(text, '_');
  if (parts.size() < 2 || parts[1].size() < 2 || parts[1][0] != 'h') {
    Require(absl::InvalidArgumentError(text + " is not CELL_hHIDDEN"), "--models");
  }
  spec.cell = parts[0];
  spec.hidden = std::atoi(parts[1].c_str() + 1);
  spec.tokens = parts.size() > 2 && parts[2] == "tokens";
  spec.precision = PrecisionNamed(absl::GetFlag(FLAGS_precision));
  return spec;
}

void Run(const ChainModelSpec& spec, const std::string& devices, bool second,
         const Lengths& lengths, Report& report, Table& table) {
  const std::string name = "saturation." + spec.name() + (second ? "_2dev" : "");
  const std::shared_ptr<const Model> model = MakeChainModel(spec, 1);
  Saturation saturation(MakeDevices(devices), model, lengths, absl::GetFlag(FLAGS_seed));
  const std::vector<int32_t> batches = Batches(saturation.b_max());
  std::vector<double> of_ideal, of_knee, rates;
  for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) {
    const std::vector<TaskTime> before = MeasureTaskTimes(devices, *model, batches, 5);
    Round round = {saturation.Measure(absl::GetFlag(FLAGS_seconds))};
    const std::vector<TaskTime> after = MeasureTaskTimes(devices, *model, batches, 5);
    Ideal(before, after, saturation.num_devices(), saturation.b_max(), round);
    of_ideal.push_back(round.requests_per_s / round.ideal_per_s);
    of_knee.push_back(round.requests_per_s / round.knee_per_s);
    rates.push_back(round.requests_per_s);
    table.Add({spec.name(), devices, std::to_string(saturation.in_flight()),
               std::to_string(saturation.b_max()) + ", " + std::to_string(saturation.b_peak()),
               Number(round.mean_batch, 1), Number(round.mean_cells, 1),
               Number(round.requests_per_s, 1), Number(round.ideal_per_s, 1),
               Number(of_ideal.back(), 3), Number(of_knee.back(), 3), Number(round.busy, 3),
               Number(round.slower, 3)});
  }
  const Quartiles ideal = QuartilesOf(of_ideal), knee = QuartilesOf(of_knee),
                  rate = QuartilesOf(rates);
  report.Figure(name + ".requests_per_s", rate.median, "1/s", &rate);
  report.Figure(name + ".of_ideal", ideal.median, "x", &ideal);
  report.Figure(name + ".of_knee", knee.median, "x", &knee);
}

int Main() {
  Report report("saturation");
  const Lengths lengths = Lengths::Europarl();
  report.Fact("lengths", lengths.source + ", mean " + Number(lengths.mean(), 1));
  Table table({"model", "devices", "in flight", "b_max, b_peak", "mean batch", "mean cells",
               "requests/s", "ideal", "of ideal", "of knee", "busy", "task by T(b)"});
  const std::vector<std::string> models = absl::StrSplit(absl::GetFlag(FLAGS_models), ',');
  const std::vector<std::string> sets = absl::StrSplit(absl::GetFlag(FLAGS_devices), ';');
  for (const std::string& model : models) {
    for (size_t i = 0; i < sets.size(); ++i) {
      Run(ParseModel(model), sets[i], i > 0, lengths, report, table);
    }
  }
  report.Text(table.ToString());
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Throughput of a saturated server against its devices' ideal.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

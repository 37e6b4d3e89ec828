// What is not computed at each step: products of X for all steps at once, and leaves of trees computed at load.
//
//   hoist.lstm_h1024_bB.speedup            time of B requests of 24 vectors each, all at once, until the last is answered:
//                                          hoist OFF / hoist ON; B = 1, 2, 4, 16, 64
//   hoist.lstm_h1024_bB.if_halved          what it would be if the products of X ran at the core's peak and what is left of a
//                                          step took half (W and U are of one size). More is seen where caches keep U alone.
//   hoist.lstm_h1024_bB.at_most            what it would be if all its multiply-adds ran at the core's peak: hoisting saves
//                                          reading, not one of them. Less where the whole step is near that peak already.
//                                          (Both of FP32 alone: other precisions multiply with other units.)
//   hoist.lstm_h1024_bB.first_step         from submitting them to the end of the first step: ON / OFF
//   hoist.leaves.treelstm.requests_ratio   requests/s of the zoo's TreeLSTM (h = 256, 64 trees at once, outputs at the
//                                          root) with a fold budget / without
//
// In process, without threads of the scheduler's own, on one core; both sides of a ratio in the same run, in turns, each
// after one of its own that is not timed (leaves: without); medians over rounds. Unfolding is not counted.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "tests/bench/one_core.h"
#include "tests/bench/probes.h"
#include "tests/bench/report.h"
#include "tests/bench/stepped.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, h, 1024, "Units of the LSTM, and width of its vectors.");
ABSL_FLAG(int, steps, 24, "Vectors of a request.");
ABSL_FLAG(int, rounds, 9, "Of each side of a ratio.");
ABSL_FLAG(std::string, precision, "FP32",
          "Of the LSTM's products, as a model's configuration says it: FP32, FP32_SPLIT, BF16, W8, "
          "AUTO.");

namespace cellbatch {
namespace {

constexpr size_t kTrees = 64;

// One LSTM over vectors, its last state.
zoo::Workload Vectors(int64_t h) {
  zoo::Workload made;
  made.name = "lstm_h" + std::to_string(h);
  made.model.weights.AddMatrix("W", 4 * h, h);
  made.model.weights.AddMatrix("U", 4 * h, h);
  made.model.weights.AddBias("b", 4 * h);
  made.model.config =
      "cell_types { name: \"lstm\" cell: \"lstm\" parameters { name: \"W\" tensors: \"W\" } "
      "parameters { name: \"U\" tensors: \"U\" } parameters { name: \"b\" tensors: \"b\" } }\n"
      "chain { input: VECTORS layers { forward: \"lstm\" } }\n";
  return made;
}

// The second of two waves: a server's caches hold its model, not that of the other side.
OneCore::Wave Warm(OneCore& side, absl::Span<const zoo::Asked> asked) {
  side.Run(asked);
  return side.Run(asked);
}

void RunChains(Report& report, Table& table) {
  const int64_t h = absl::GetFlag(FLAGS_h);
  const zoo::Workload workload = Vectors(h);
  const std::string in = "precision: PRECISION_" + absl::GetFlag(FLAGS_precision) + "\n";
  const std::shared_ptr<const Model> plain =
      LoadWorkload(workload, ModelId(1), in + "hoist: OFF\n");
  report.Fact("precision of the LSTM", Name(plain->precision));
  const double peak = ProbeFmaPeak(kernels::BestKernels(DetectCpuFeatures()).name);
  OneCore whole(plain, 0);
  OneCore hoisted(LoadWorkload(workload, ModelId(2), in + "hoist: ON\n"), 0);
  for (const int b : {1, 2, 4, 16, 64}) {
    const std::vector<zoo::Asked> asked = VectorSequences(b, absl::GetFlag(FLAGS_steps), h);
    const double flops = 2.0 * 4.0 * static_cast<double>(h * h * b * absl::GetFlag(FLAGS_steps));
    std::vector<double> off, on, speedup, first, halved, most;
    for (int round = -1; round < absl::GetFlag(FLAGS_rounds); ++round) {
      const OneCore::Wave slow = Warm(whole, asked), fast = Warm(hoisted, asked);
      if (round < 0) continue;  // warms
      off.push_back(slow.seconds * 1e3);
      on.push_back(fast.seconds * 1e3);
      speedup.push_back(slow.seconds / fast.seconds);
      halved.push_back(slow.seconds / (slow.seconds / 2 + flops / peak));
      most.push_back(slow.seconds / (2 * flops / peak));
      first.push_back(fast.first_step_seconds / slow.first_step_seconds);
    }
    const std::string name = "lstm_h" + std::to_string(h) + "_b" + std::to_string(b);
    const Quartiles gain = QuartilesOf(speedup), early = QuartilesOf(first);
    const Quartiles half = QuartilesOf(halved), limit = QuartilesOf(most);
    const bool of_peak = plain->precision == Precision::kFp32;
    table.Add({name, Number(QuartilesOf(off), 2), Number(QuartilesOf(on), 2), Number(gain, 2),
               of_peak ? Number(half, 2) : "", of_peak ? Number(limit, 2) : "", Number(early, 2)});
    report.Figure("hoist." + name + ".speedup", gain.median, "x", &gain);
    if (of_peak) {
      report.Figure("hoist." + name + ".if_halved", half.median, "x", &half);
      report.Figure("hoist." + name + ".at_most", limit.median, "x", &limit);
    }
    report.Figure("hoist." + name + ".first_step", early.median, "x", &early);
  }
}

void RunLeaves(Report& report, Table& table) {
  const zoo::Workload workload =
      zoo::MakeWorkload("treelstm", zoo::Sizes::Benchmark(256), /*items=*/0);
  const std::shared_ptr<const Model> model = LoadWorkload(workload, ModelId(1));
  OneCore bare(model, 0), folded(model, int64_t{1} << 30);
  report.Fact("folded", folded.folded());
  std::vector<double> without, with, ratio;
  const size_t groups = workload.requests.size() / kTrees;
  for (int round = -1; round < 4 * absl::GetFlag(FLAGS_rounds); ++round) {
    const absl::Span<const zoo::Asked> trees =
        absl::MakeConstSpan(workload.requests)
            .subspan(static_cast<size_t>(round + 1) % groups * kTrees, kTrees);
    const OneCore::Wave plain = bare.Run(trees), fast = folded.Run(trees);
    if (round < 0) continue;
    without.push_back(plain.seconds * 1e3);
    with.push_back(fast.seconds * 1e3);
    ratio.push_back(plain.seconds / fast.seconds);
  }
  const Quartiles gain = QuartilesOf(ratio);
  table.Add({"leaves, treelstm h256", Number(QuartilesOf(without), 2), Number(QuartilesOf(with), 2),
             Number(gain, 2), "", "", ""});
  report.Figure("hoist.leaves.treelstm.requests_ratio", gain.median, "x", &gain);
}

int Main() {
  Report report("hoist");
  Table table({"", "computed each time, ms", "hoisted or folded, ms", "speedup", "if halved",
               "at most", "first step"});
  RunChains(report, table);
  RunLeaves(report, table);
  report.Text(table.ToString());
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Hoisted products and folded leaves.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}

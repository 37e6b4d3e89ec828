#include "tests/bench/deferred_cells.h"

#include <string>

#include "tests/bench/one_core.h"
#include "tests/bench/stepped.h"

namespace cellbatch {
namespace {

// As cells/definitions/lstm, but that h, what layers above and answers see, is a projection of m, which only steps read.
constexpr char kCell[] = R"(name: "projected"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
inputs {
  name: "before"
  columns { name: "m" type: FP32 dims: "H" }
  columns { name: "c" type: FP32 dims: "H" }
}
parameters { name: "W" dims: "4*H" dims: "D" }
parameters { name: "U" dims: "4*H" dims: "H" }
parameters { name: "P" dims: "N" dims: "H" }
ops { name: "from_x" kind: MATMUL args: "x.x" args: "W" }
ops { name: "from_m" kind: MATMUL args: "before.m" args: "U" }
ops { name: "gates" kind: ADD args: "from_x" args: "from_m" }
ops { name: "gates_i" kind: SLICE args: "gates" begin: "0" end: "H" }
ops { name: "gates_f" kind: SLICE args: "gates" begin: "H" end: "2*H" }
ops { name: "gates_g" kind: SLICE args: "gates" begin: "2*H" end: "3*H" }
ops { name: "gates_o" kind: SLICE args: "gates" begin: "3*H" end: "4*H" }
ops { name: "i" kind: SIGMOID args: "gates_i" }
ops { name: "f" kind: SIGMOID args: "gates_f" }
ops { name: "g" kind: TANH args: "gates_g" }
ops { name: "o" kind: SIGMOID args: "gates_o" }
ops { name: "kept" kind: MUL args: "f" args: "before.c" }
ops { name: "added" kind: MUL args: "i" args: "g" }
ops { name: "c" kind: ADD args: "kept" args: "added" }
ops { name: "squashed" kind: TANH args: "c" }
ops { name: "m" kind: MUL args: "o" args: "squashed" }
ops { name: "h" kind: MATMUL args: "m" args: "P" }
outputs { column: "h" value: "h" }
outputs { column: "m" value: "m" }
outputs { column: "c" value: "c" }
carry: "before"
)";

zoo::Workload Projected(int64_t h, int64_t n) {
  zoo::Workload made;
  made.name = "projected";
  made.model.weights.AddMatrix("W", 4 * h, h);
  made.model.weights.AddMatrix("U", 4 * h, h);
  made.model.weights.AddMatrix("P", n, h);
  made.model.definitions["projected"] = kCell;
  made.model.config =
      "cell_types { name: \"lstm\" cell: \"projected\" parameters { name: \"W\" tensors: \"W\" } "
      "parameters { name: \"U\" tensors: \"U\" } parameters { name: \"P\" tensors: \"P\" } }\n"
      "chain { input: VECTORS layers { forward: \"lstm\" } }\nhoist: OFF\n";
  return made;
}

// Seconds whole by seconds deferred, in turns.
struct Ratio {
  std::vector<double> off, on, speedup;
};
Ratio InTurns(OneCore& whole, OneCore& deferred, const std::vector<zoo::Asked>& asked,
              const std::string& output, int rounds) {
  Ratio seen;
  for (int round = -1; round < rounds; ++round) {
    const double plain = whole.Run(asked, output).seconds,
                 fast = deferred.Run(asked, output).seconds;
    if (round < 0) continue;  // warms
    seen.off.push_back(plain * 1e3);
    seen.on.push_back(fast * 1e3);
    seen.speedup.push_back(plain / fast);
  }
  return seen;
}

}  // namespace

void MeasureProjections(const DeferredSizes& sizes, Report& report) {
  Table table({"", "at each step, ms", "deferred, ms", "speedup", "of the last step alone"});
  for (const int64_t n : sizes.columns) {
    const zoo::Workload workload = Projected(sizes.h, n);
    OneCore whole(LoadWorkload(workload, ModelId(1), "defer: OFF\n"), 0);
    OneCore deferred(LoadWorkload(workload, ModelId(2), "defer: ON\n"), 0);
    for (const int b : {1, 2, 4, 16, 64}) {
      const std::vector<zoo::Asked> asked = VectorSequences(b, sizes.steps, sizes.h);
      const Ratio all = InTurns(whole, deferred, asked, "ALL_HIDDEN", sizes.rounds);
      const Ratio last = InTurns(whole, deferred, asked, "OUTPUT", sizes.rounds);
      const std::string name =
          "lstm_h" + std::to_string(sizes.h) + "_n" + std::to_string(n) + "_b" + std::to_string(b);
      const Quartiles gain = QuartilesOf(all.speedup), of_last = QuartilesOf(last.speedup);
      table.Add({name, Number(QuartilesOf(all.off), 2), Number(QuartilesOf(all.on), 2),
                 Number(gain, 2), Number(of_last, 2)});
      report.Figure("deferred." + name + ".speedup", gain.median, "x", &gain);
      report.Figure("deferred." + name + ".last", of_last.median, "x", &of_last);
    }
  }
  report.Text(table.ToString());
}

}  // namespace cellbatch

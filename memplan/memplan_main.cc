// Plans a cell's memory from the command line: reads operand batches (or an operator graph) as text, prints the plan, what
// it costs, and what no plan would cost.
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "memplan/cost_report.h"
#include "memplan/draw.h"
#include "memplan/layout_problem.h"
#include "memplan/naive_layout.h"
#include "memplan/operator_batcher.h"
#include "memplan/planner.h"
#include "memplan/problem_text.h"
#include "memplan/validator.h"

namespace cellbatch {
namespace {

constexpr char kHelp[] =
    R"(memplan_main [FLAGS] [FILE]     FILE or standard input: the text that memplan/problem_text.h describes

  --draw=none       what to draw of the plan: none, text, svg (svg alone is printed, for a file)
  --naive=false     draw and print declaration order instead of a plan
  --batch=auto      true: merge single operators into batches first; auto: if the text has operators only
  --full=false      lift every `fixed` line and read broadcasts by stride
  --max-checks=2000 sets of operands tried when not all can lie in place; beyond: the best found
  --help            this text

Example: memplan_main --draw=text memplan/example.txt
)";

struct Flags {
  std::string draw = "none", batch = "auto", file = "-";
  bool naive = false, full = false, help = false;
  int max_checks = 2000;
};

bool ParseBool(std::string_view value, bool& flag) {
  flag = value.empty() || value == "true";
  return flag || value == "false";
}

// False: the argument is none of ours.
bool ParseArgument(std::string_view argument, Flags& flags) {
  if (argument == "-" || argument.substr(0, 2) != "--") {
    flags.file = argument;
    return true;
  }
  const size_t equals = argument.find('=');
  const std::string_view name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
  const std::string value(equals == argument.npos ? "" : argument.substr(equals + 1));
  if (name == "help") return ParseBool(value, flags.help);
  if (name == "naive") return ParseBool(value, flags.naive);
  if (name == "full") return ParseBool(value, flags.full);
  if (name == "draw") {
    flags.draw = value;
    return value == "none" || value == "text" || value == "svg";
  }
  if (name == "batch") {
    flags.batch = value.empty() ? "true" : value;
    return flags.batch == "true" || flags.batch == "false" || flags.batch == "auto";
  }
  if (name == "max-checks") {
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, flags.max_checks);
    return error == std::errc() && stop == end && flags.max_checks >= 0;
  }
  return false;
}

int Fail(const std::string& what) {
  std::cerr << "memplan_main: " << what << "\n";
  return 1;
}

bool ReadAll(const std::string& file, std::string& text) {
  if (file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return true;
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return false;
  text.assign(std::istreambuf_iterator<char>(stream), {});
  return true;
}

bool AllSingle(const LayoutProblem& problem) {
  for (const OperandBatch& batch : problem.batches) {
    if (batch.size() != 1) return false;
  }
  return true;
}

void Print(const Flags& flags, const LayoutProblem& problem, const MemoryLayout& layout,
           const MemoryLayout& naive, const PlanTrace& trace) {
  if (flags.draw == "svg") {
    std::cout << DrawSvg(problem, layout, flags.naive ? nullptr : &trace);
    return;
  }
  if (flags.draw == "text") {
    if (!flags.naive && trace.adjacent.has_value()) {
      std::cout << "adjacent  " << DrawTree(problem, *trace.adjacent) << "\n";
      std::cout << "alike     " << DrawTree(problem, *trace.alike) << "\n\n";
    }
    std::cout << DrawText(problem, layout) << "\n";
  }
  std::cout << "order:";
  for (VariableId v : layout.order) std::cout << " " << problem.variables[v].name;
  const CostReport unplanned = Cost(problem, naive);
  std::cout << "\n" << Describe(problem, layout);
  std::cout << fmt::format("naive: {} copies of {} bytes\n", unplanned.kernels(),
                           unplanned.bytes());
}

int Run(const Flags& flags) {
  std::string text;
  if (!ReadAll(flags.file, text)) return Fail("cannot read " + flags.file);
  absl::StatusOr<LayoutProblem> parsed = ParseProblem(text);
  if (!parsed.ok()) return Fail(flags.file + ": " + std::string(parsed.status().message()));
  LayoutProblem problem = *std::move(parsed);
  if (flags.full) problem = InFull(std::move(problem));
  if (flags.batch == "true" || (flags.batch == "auto" && AllSingle(problem))) {
    BatchOptions options;
    options.plan.max_checks = flags.max_checks;
    absl::StatusOr<Batched> batched = BatchOperators(problem, options);
    if (!batched.ok()) return Fail(flags.file + ": " + std::string(batched.status().message()));
    problem = std::move(batched->problem);
  }
  PlanTrace trace;
  absl::StatusOr<MemoryLayout> naive = NaiveLayout(problem);
  absl::StatusOr<MemoryLayout> layout =
      flags.naive ? naive : Plan(problem, {flags.max_checks}, &trace);
  if (!layout.ok()) return Fail(std::string(layout.status().message()));
  if (absl::Status verdict = Validate(problem, *layout); !verdict.ok()) {
    return Fail("our own mistake, the validator refuses the plan: " +
                std::string(verdict.message()));
  }
  Print(flags, problem, *layout, *naive, trace);
  return 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  cellbatch::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (cellbatch::ParseArgument(argv[i], flags)) continue;
    std::cerr << "memplan_main: " << argv[i] << " is not a flag of ours\n" << cellbatch::kHelp;
    return 2;
  }
  if (flags.help) {
    std::cout << cellbatch::kHelp;
    return 0;
  }
  return cellbatch::Run(flags);
}

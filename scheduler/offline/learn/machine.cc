#include "scheduler/offline/learn/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "scheduler/offline/replay.h"

namespace cellbatch {
namespace {

const std::string& NameOf(absl::Span<const std::string> types, CellTypeId type) {
  return types[static_cast<size_t>(type.value())];
}

std::string Label(const MachineState& s, absl::Span<const std::string> types) {
  const std::vector<CellTypeId> lowering = LoweringOf(s.state);
  std::string label;
  for (const CellTypeId type : TypesOf(s.state)) {
    const bool lowers = std::count(lowering.begin(), lowering.end(), type) > 0;
    label +=
        fmt::format("{}{}{}", label.empty() ? "" : " ", NameOf(types, type), lowers ? "*" : "");
  }
  return fmt::format("{}\\nrun {}{}\\n{} batches", label, NameOf(types, s.action),
                     s.learned ? "" : " (LB-greedy)", s.batches);
}

}  // namespace

Machine TraceMachine(const FsmTable& table, absl::Span<const Lesson> lessons) {
  Machine machine;
  const FsmPolicy policy(table);
  constexpr size_t kStart = ~size_t{0}, kDone = ~size_t{0};
  for (const Lesson& lesson : lessons) {
    Replay replay(*lesson.facts);
    size_t before = kStart;
    while (!replay.done()) {
      const StateKey state = StateOf(table.encoding(), replay.frontier());
      const Choice choice = *policy.Choose(replay.frontier());
      const auto found = std::find_if(machine.states.begin(), machine.states.end(),
                                      [&](const MachineState& s) { return s.state == state; });
      const auto at = static_cast<size_t>(found - machine.states.begin());
      if (found == machine.states.end()) {
        machine.states.push_back({state, choice.type, table.Find(state).valid(), 0});
      }
      machine.states[at].action = choice.type;
      ++machine.states[at].batches;
      if (before != kStart) ++machine.moves[{before, at}];
      before = at;
      replay.Execute(choice);
    }
    if (before != kStart) ++machine.moves[{before, kDone}];
  }
  std::map<std::pair<size_t, size_t>, int64_t> moves;
  for (const auto& [move, times] : machine.moves) {
    moves[{move.first, std::min(move.second, machine.states.size())}] = times;
  }
  machine.moves = std::move(moves);
  return machine;
}

std::string MachineAsDot(const Machine& machine, absl::Span<const std::string> types) {
  std::string dot = "digraph order {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  for (size_t i = 0; i < machine.states.size(); ++i) {
    const MachineState& s = machine.states[i];
    dot += fmt::format("  s{} [label=\"{}\"{}];\n", i, Label(s, types),
                       s.learned ? "" : ", style=dashed");
  }
  dot += fmt::format("  s{} [label=\"done\", shape=doublecircle];\n", machine.states.size());
  for (const auto& [move, times] : machine.moves) {
    dot += fmt::format("  s{} -> s{} [label=\"{}\"];\n", move.first, move.second, times);
  }
  return dot + "}\n";
}

}  // namespace cellbatch

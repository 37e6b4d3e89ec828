#include "scheduler/policy/fsm_policy.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"

namespace cellbatch {
namespace {

constexpr std::string_view kReasons[] = {"learned", "unseen_state"};

absl::Status BadRule(const char* what, const FsmTable::Rule& rule) {
  std::string list;
  for (const CellTypeId type : TypesOf(rule.state)) absl::StrAppend(&list, " ", type.value());
  const std::vector<CellTypeId> lowering = LoweringOf(rule.state);
  if (!lowering.empty()) absl::StrAppend(&list, ", lowering");
  for (const CellTypeId type : lowering) absl::StrAppend(&list, " ", type.value());
  const std::vector<CellTypeId> filled = FilledOf(rule.state);
  if (!filled.empty()) absl::StrAppend(&list, ", filled");
  for (const CellTypeId type : filled) absl::StrAppend(&list, " ", type.value());
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": types", list, ", phase ", PhaseOf(rule.state), ", action ", rule.action.value()));
}

}  // namespace

absl::StatusOr<FsmTable> FsmTable::Create(const StateEncoding& encoding,
                                          absl::Span<const Rule> rules) {
  FsmTable table(encoding, std::bit_ceil(2 * rules.size() + 1));
  for (const Rule& rule : rules) {
    const std::vector<CellTypeId> types = TypesOf(rule.state);
    if (rule.state.empty()) return BadRule("a state has no types", rule);
    if (std::find(types.begin(), types.end(), rule.action) == types.end()) {
      return BadRule("an action is none of its state's types", rule);
    }
    Entry& entry = table.entries_[table.PlaceOf(rule.state)];
    if (!entry.state.empty()) return BadRule("a state comes twice", rule);
    entry = {rule.state, rule.action};
    ++table.size_;
  }
  return table;
}

// Where the state is, or would be.
size_t FsmTable::PlaceOf(const StateKey& state) const {
  uint64_t hash = state.words[0] * 0x9e3779b97f4a7c15 ^ state.words[1] * 0xc2b2ae3d27d4eb4f ^
                  state.words[2] * 0x165667b19e3779f9;
  hash ^= hash >> 32;
  for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
    if (entries_[at].state.empty() || entries_[at].state == state) return at;
  }
}

CellTypeId FsmTable::Find(const StateKey& state) const { return entries_[PlaceOf(state)].action; }

absl::Span<const std::string_view> FsmPolicy::reasons() const { return kReasons; }

// Those of its fallback; the phase is counted from all nodes of the requests.
FrontierNeeds FsmPolicy::needs() const {
  return table_.encoding().phases > 1 ? FrontierNeeds::kNodes : fallback_.needs();
}

std::optional<Choice> FsmPolicy::Choose(Frontier frontier) const {
  const StateKey state = StateOf(table_.encoding(), frontier);
  if (state.empty()) return std::nullopt;
  if (const CellTypeId action = table_.Find(state); action.valid()) return Choice{action, 0};
  std::optional<Choice> choice = fallback_.Choose(frontier);
  if (choice) choice->reason = 1;
  return choice;
}

}  // namespace cellbatch

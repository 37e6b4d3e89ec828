// A policy as a value: which of the family, and what it was given. What is read from disk, chosen by a flag or found by
// a learner is one of these; MakePolicy makes the policy. Plain data.
#ifndef CELLBATCH_SCHEDULER_POLICY_POLICY_SPEC_H_
#define CELLBATCH_SCHEDULER_POLICY_POLICY_SPEC_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/policy/fsm_policy.h"
#include "scheduler/policy/fsm_state.h"
#include "scheduler/policy/policy.h"

namespace cellbatch {

enum class PolicyKind : uint8_t {
  kCellular,
  kAgenda,
  kAgendaOfRemaining,
  kDepth,
  kSufficient,
  kLbGreedy,
  kFsm,
  kRandom,
};
inline constexpr std::array kPolicyKinds = {
    PolicyKind::kCellular, PolicyKind::kAgenda,     PolicyKind::kAgendaOfRemaining,
    PolicyKind::kDepth,    PolicyKind::kSufficient, PolicyKind::kLbGreedy,
    PolicyKind::kFsm,      PolicyKind::kRandom};

// "cellular", "agenda", "agenda_of_remaining", "depth", "sufficient", "lb_greedy", "fsm", "random".
std::string_view Name(PolicyKind kind);
std::optional<PolicyKind> PolicyKindOf(std::string_view name);

struct PolicySpec {
  PolicyKind kind = PolicyKind::kCellular;
  bool taller_first = false;          // kLbGreedy
  uint64_t seed = 0;                  // kRandom
  StateEncoding encoding;             // kFsm
  std::vector<FsmTable::Rule> rules;  // kFsm
  std::string about;                  // where it comes from, for people; may be empty
  std::vector<CellTypeId> may_wait;   // types that wait for their batch to fill (decider.h)
};

// INVALID_ARGUMENT: an FSM for a model with more types than a state has room for, or with rules that make no table.
absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(const PolicySpec& spec, size_t num_types);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_POLICY_SPEC_H_

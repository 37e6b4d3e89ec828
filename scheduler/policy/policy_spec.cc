#include "scheduler/policy/policy_spec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/cellular_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/random_policy.h"
#include "scheduler/policy/sufficient_policy.h"

namespace cellbatch {

std::string_view Name(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kCellular:
      return "cellular";
    case PolicyKind::kAgenda:
      return "agenda";
    case PolicyKind::kAgendaOfRemaining:
      return "agenda_of_remaining";
    case PolicyKind::kDepth:
      return "depth";
    case PolicyKind::kSufficient:
      return "sufficient";
    case PolicyKind::kLbGreedy:
      return "lb_greedy";
    case PolicyKind::kFsm:
      return "fsm";
    case PolicyKind::kRandom:
      return "random";
  }
  return "?";
}

std::optional<PolicyKind> PolicyKindOf(std::string_view name) {
  for (const PolicyKind kind : kPolicyKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(const PolicySpec& spec, size_t num_types) {
  switch (spec.kind) {
    case PolicyKind::kCellular:
      return std::make_unique<const CellularPolicy>();
    case PolicyKind::kAgenda:
      return std::make_unique<const AgendaPolicy>(AgendaMean::kWholeGraph);
    case PolicyKind::kAgendaOfRemaining:
      return std::make_unique<const AgendaPolicy>(AgendaMean::kRemaining);
    case PolicyKind::kDepth:
      return std::make_unique<const DepthPolicy>();
    case PolicyKind::kSufficient:
      return std::make_unique<const SufficientPolicy>();
    case PolicyKind::kLbGreedy:
      return std::make_unique<const LbGreedyPolicy>(
          LbGreedyPolicy::Options{.taller_first = spec.taller_first});
    case PolicyKind::kRandom:
      return std::make_unique<const RandomPolicy>(spec.seed);
    case PolicyKind::kFsm:
      break;
  }
  if (num_types > StateEncoding::kMostTypes) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_types, " cell types; a state has room for ", StateEncoding::kMostTypes));
  }
  absl::StatusOr<FsmTable> table = FsmTable::Create(spec.encoding, spec.rules);
  if (!table.ok()) return table.status();
  return std::make_unique<const FsmPolicy>(*std::move(table));
}

}  // namespace cellbatch

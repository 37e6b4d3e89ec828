// The learned FSM of ED-Batch (section 2): a table from what is ready (fsm_state.h) to the type that comes next, learned
// offline. A state that the table does not have is decided by LB-greedy, and counted as `unseen_state`.
//
// One decision costs making the key and one look into a flat table: tens of nanoseconds with eight types.
#ifndef CELLBATCH_SCHEDULER_POLICY_FSM_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_FSM_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/policy/fsm_state.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/policy.h"

namespace cellbatch {

// Open addressing, at most half full. Immutable once made.
class FsmTable {
 public:
  struct Rule {
    StateKey state;
    CellTypeId action;
  };

  // Any order. INVALID_ARGUMENT: a state without types, a state twice, an action that is none of its state's types.
  static absl::StatusOr<FsmTable> Create(const StateEncoding& encoding,
                                         absl::Span<const Rule> rules);

  const StateEncoding& encoding() const { return encoding_; }
  size_t size() const { return size_; }
  // Not valid: it has no such state.
  CellTypeId Find(const StateKey& state) const;

 private:
  struct Entry {
    StateKey state;  // empty: nothing here
    CellTypeId action;
  };

  FsmTable(const StateEncoding& encoding, size_t capacity)
      : encoding_(encoding), mask_(capacity - 1), entries_(capacity) {}
  size_t PlaceOf(const StateKey& state) const;

  StateEncoding encoding_;
  size_t size_ = 0;
  size_t mask_;
  std::vector<Entry> entries_;
};

class FsmPolicy final : public Policy {
 public:
  explicit FsmPolicy(FsmTable table) : table_(std::move(table)) {}
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;
  FrontierNeeds needs() const override;
  const FsmTable& table() const { return table_; }

 private:
  const FsmTable table_;
  const LbGreedyPolicy fallback_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_FSM_POLICY_H_

// Values of actions by state: what tabular Q-learning writes. Rows are found by a hash of the state's key; those that
// are there stay where they are. One thread.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_Q_TABLE_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_Q_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cells/ids.h"
#include "scheduler/policy/frontier.h"
#include "scheduler/policy/fsm_policy.h"
#include "scheduler/policy/fsm_state.h"

namespace cellbatch {

class QTable {
 public:
  static constexpr int32_t kNoRow = -1;

  QTable(const StateEncoding& encoding, int32_t num_types);

  // The row of what is ready now; a new one has `first_value` for each action. O(ready types), amortised.
  int32_t RowOf(Frontier frontier, double first_value = 0);
  int32_t RowOf(const StateKey& state, double first_value = 0);
  int32_t Find(Frontier frontier) const;  // kNoRow: it has none

  size_t size() const { return keys_.size(); }
  const StateEncoding& encoding() const { return encoding_; }
  const StateKey& key(int32_t row) const { return keys_[At(row)]; }
  uint32_t actions(int32_t row) const { return actions_[At(row)]; }  // a bit a type
  double& value(int32_t row, int32_t type) { return values_[At(row) * types_ + At(type)]; }
  double value(int32_t row, int32_t type) const { return values_[At(row) * types_ + At(type)]; }
  // The action of the greatest value, ties to the lower id.
  int32_t Best(int32_t row) const;
  // Best action of every row.
  std::vector<FsmTable::Rule> Rules() const;

 private:
  static size_t At(int32_t i) { return static_cast<size_t>(i); }
  size_t PlaceOf(const StateKey& key) const;
  void Grow();

  StateEncoding encoding_;
  size_t types_;
  std::vector<int32_t> places_;  // open addressing, at most half full: rows, or kNoRow
  std::vector<StateKey> keys_;   // by row
  std::vector<uint32_t> actions_;
  std::vector<double> values_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_Q_TABLE_H_

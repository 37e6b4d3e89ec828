#include "scheduler/offline/learn/table_ties.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "scheduler/offline/replay.h"

namespace cellbatch {
namespace {

std::vector<int32_t> BatchesOf(const StateEncoding& encoding,
                               const std::vector<FsmTable::Rule>& rules,
                               absl::Span<const Lesson> lessons, int64_t& nodes) {
  absl::StatusOr<FsmTable> table = FsmTable::Create(encoding, rules);
  Check(table.ok(), "ties are settled of a table that is none");
  const FsmPolicy policy(*std::move(table));
  std::vector<int32_t> batches;
  for (const Lesson& lesson : lessons) {
    batches.push_back(RunClosed(*lesson.facts, policy).batches);
    nodes += lesson.facts->graph.size();
  }
  return batches;
}

bool NoneIsMore(const std::vector<int32_t>& batches, const std::vector<int32_t>& than) {
  return std::equal(batches.begin(), batches.end(), than.begin(),
                    [](int32_t now, int32_t before) { return now <= before; });
}

}  // namespace

SettledTable SettleTies(const StateEncoding& encoding, std::vector<FsmTable::Rule> rules,
                        absl::Span<const Lesson> lessons) {
  SettledTable settled;
  std::vector<int32_t> fewest = BatchesOf(encoding, rules, lessons, settled.nodes);
  for (FsmTable::Rule& rule : rules) {
    const std::vector<CellTypeId> ready = TypesOf(rule.state);
    const CellTypeId first = *std::min_element(ready.begin(), ready.end());
    if (rule.action == first) continue;
    const CellTypeId learned = std::exchange(rule.action, first);
    std::vector<int32_t> batches = BatchesOf(encoding, rules, lessons, settled.nodes);
    if (NoneIsMore(batches, fewest)) {
      fewest = std::move(batches);
    } else {
      rule.action = learned;
    }
  }
  settled.rules = std::move(rules);
  return settled;
}

}  // namespace cellbatch

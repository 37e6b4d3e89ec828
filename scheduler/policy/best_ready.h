// The best of the types with anything ready, for policies that compare them pair by pair. O(types).
#ifndef CELLBATCH_SCHEDULER_POLICY_BEST_READY_H_
#define CELLBATCH_SCHEDULER_POLICY_BEST_READY_H_

#include <cstdint>

#include "scheduler/policy/frontier.h"

namespace cellbatch {

// Null: nothing is ready. better(a, b): whether a, of a higher id, goes before b; false keeps the lower id.
template <typename Better>
const TypeView* BestReady(Frontier frontier, Better better) {
  const TypeView* best = nullptr;
  for (const TypeView& view : frontier) {
    if (view.ready > 0 && (best == nullptr || better(view, *best))) best = &view;
  }
  return best;
}

// The sign of a/b - c/d, exactly. REQUIRES: b, d > 0; none of them above 2^31 by far (nodes of a lane, their depths).
inline int CompareFractions(int64_t a, int64_t b, int64_t c, int64_t d) {
  const auto left = static_cast<__int128>(a) * d, right = static_cast<__int128>(c) * b;
  return left < right ? -1 : left > right ? 1 : 0;
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_BEST_READY_H_

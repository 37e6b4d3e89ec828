// What is counted of a queue by height (height_counts.h), one word a level, and which words a subgraph is counted in.
// Apart from the counts, so that a queue can count what is pushed into it itself: it happens once for every subgraph.
//
//   word = remain << 32 + ready     nodes that could go into a task next, were they ready; those that are
#ifndef CELLBATCH_SCHEDULER_READY_HEIGHT_WORDS_H_
#define CELLBATCH_SCHEDULER_READY_HEIGHT_WORDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "scheduler/request_block.h"

namespace cellbatch {

inline constexpr int64_t kRemainsInWord = int64_t{1} << 32, kReadyInWord = 1;
inline constexpr size_t kHeightWords = NodeFacts::kMostHeight + 1;  // of a queue

// A subgraph that does not run: as many nodes of that level could go into a task.
struct HeightPart {
  int64_t nodes;
  int32_t level;
};

// Of one whose next node is `next`.
inline HeightPart HeightPartOf(bool is_chain, const NodeRecord& r, int32_t next) {
  const int32_t height = static_cast<int32_t>(r.facts.height);
  if (is_chain) return {1, std::max(1, height - next)};
  return {r.length - next, height};
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_HEIGHT_WORDS_H_

// How much a worker takes from another's queue. Which subgraphs may move is the processor's to say. Pure and immutable.
#ifndef CELLBATCH_SCHEDULER_POLICY_STEAL_RULE_H_
#define CELLBATCH_SCHEDULER_POLICY_STEAL_RULE_H_

#include <algorithm>
#include <cstdint>

namespace cellbatch {

class StealRule {
 public:
  virtual ~StealRule() = default;
  // Nodes to take of one type, of which the victim has `nodes` > 0 in its FIFO; none: 0.
  virtual int32_t Nodes(int32_t nodes, int32_t max_batch) const = 0;
};

// Half, so that neither comes back for the rest; at most a batch.
class StealHalf final : public StealRule {
 public:
  int32_t Nodes(int32_t nodes, int32_t max_batch) const override {
    return std::min(max_batch, (nodes + 1) / 2);
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_STEAL_RULE_H_

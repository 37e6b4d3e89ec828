// Graph batching, as the baseline that cellular batching is compared with: up to `most` requests join together while
// nothing of the lane runs, and nobody joins until the last of them has left. That is BatchMaker's section 2, and what
// DyNet, TensorFlow Fold and every server that batches whole requests do. Which cells of the merged graphs run together
// is the policy's to say, as ever: with depth_policy it is Fold, with agenda_policy DyNet. Where the model is a chain of
// one type it is packed sequences: a step of all that have not ended, and no padding is computed.
//
// Still in the baseline's favour: an answer leaves when its own last cell is done, not with the batch; a batch does not
// wait until it is full; and merging the graphs, which those systems do for each batch anew, costs nothing here. There is
// one batch at a time, over all workers. A request that grows (streamed input) holds the batch until it has ended.
//
// Sequences padded to one length, or sorted into buckets of lengths, are no rules of joining: the line is first come,
// first served, and a rule sees its head alone.
#ifndef CELLBATCH_SCHEDULER_POLICY_WHOLE_GRAPHS_H_
#define CELLBATCH_SCHEDULER_POLICY_WHOLE_GRAPHS_H_

#include <cstdint>

#include "scheduler/policy/join_rule.h"

namespace cellbatch {

class WholeGraphs final : public JoinRule {
 public:
  // At least 1; never more than join in one step of the manager (SchedulerOptions::batch_limit).
  explicit WholeGraphs(int64_t most) : most_(most) {}
  bool MayJoin(const JoinView& view) const override {
    return view.running == view.joined_now && view.joined_now < most_;
  }

 private:
  const int64_t most_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_WHOLE_GRAPHS_H_

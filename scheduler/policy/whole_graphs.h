// Graph batching, as the baseline that cellular batching is compared with: up to `most` requests join together while
// nothing of the lane runs, and nobody joins until the last of them has left. That is BatchMaker's section 2, and what
// DyNet, TensorFlow Fold and every server that batches whole requests do. Which cells of the merged graphs run together
// is the policy's to say, as ever:
//
//   merged     trees, any graph: with depth_policy it is Fold, with agenda_policy DyNet
//   packed     chains of one type: a step of all that have not ended, and nothing is padded
//   padded     chains that ended are computed on, on zeros, till the longest of the batch has ended (GraphBatching)
//   bucketed   the same, of batches of one bucket of lengths, to the bucket's upper edge: BatchMaker's section 7, where
//              MXNet and TensorFlow have buckets of width 10 and run a graph that was made for the bucket
//
// What each answer waits for is said by leave_together: a batch that is computed as one graph is returned as one, and
// without it the baseline is favoured. In its favour always: a batch does not wait until it is full; merging the graphs,
// which those systems do for each batch anew, costs nothing here; and where a set of nodes reads a padded chain, it is as
// long as the sequence, not as the padding. A chain that may stop early (a decoder) is not padded.
//
// There is one batch at a time, over all workers. A request that grows (streamed input) holds it until it has ended.
#ifndef CELLBATCH_SCHEDULER_POLICY_WHOLE_GRAPHS_H_
#define CELLBATCH_SCHEDULER_POLICY_WHOLE_GRAPHS_H_

#include <cstdint>

#include "scheduler/policy/join_rule.h"

namespace cellbatch {

class WholeGraphs final : public JoinRule {
 public:
  // At least 1; never more than join in one step of the manager (SchedulerOptions::batch_limit).
  explicit WholeGraphs(int64_t most, const GraphBatching& batching = {})
      : most_(most), batching_(batching) {}
  bool MayJoin(const JoinView& view) const override {
    return view.running == view.joined_now && view.joined_now < most_;
  }
  GraphBatching batching() const override { return batching_; }

 private:
  const int64_t most_;
  const GraphBatching batching_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_WHOLE_GRAPHS_H_

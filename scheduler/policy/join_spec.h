// A rule of joining as a value, as PolicySpec is one of policies: what is read from a configuration. Plain data.
#ifndef CELLBATCH_SCHEDULER_POLICY_JOIN_SPEC_H_
#define CELLBATCH_SCHEDULER_POLICY_JOIN_SPEC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "scheduler/policy/join_rule.h"
#include "scheduler/policy/whole_graphs.h"

namespace cellbatch {

struct JoinSpec {
  int64_t whole_graphs = 0;     // most requests of a batch of whole graphs; 0: cellular batching
  GraphBatching batching = {};  // of whole graphs
};

// For people: "cellular", "whole_graphs of 64", "whole_graphs of 64, buckets of 10, padded to the bucket, left together".
inline std::string Name(const JoinSpec& spec) {
  if (spec.whole_graphs == 0) return "cellular";
  std::string name = absl::StrCat("whole_graphs of ", spec.whole_graphs);
  if (const int32_t width = spec.batching.bucket_width; width > 0) {
    absl::StrAppend(&name, ", buckets of ", width);
  }
  if (spec.batching.padding == GraphBatching::Padding::kLongest) name += ", padded to the longest";
  if (spec.batching.padding == GraphBatching::Padding::kBucket) name += ", padded to the bucket";
  if (spec.batching.leave_together) name += ", left together";
  return name;
}

// Null for cellular batching: then the lane makes the rule that fits its policy.
inline std::unique_ptr<const JoinRule> MakeJoinRule(const JoinSpec& spec) {
  if (spec.whole_graphs == 0) return nullptr;
  return std::make_unique<const WholeGraphs>(spec.whole_graphs, spec.batching);
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_JOIN_SPEC_H_

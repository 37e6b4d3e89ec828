// Agenda-based batching (Neubig et al., "On-the-fly Operation Batching in Dynamic Computation Graphs", 2017; DyNet's
// --dynet-autobatch 1): of the types with anything ready, the one whose nodes lie least deep in the mean; ties to the
// lower id. Optimal on chains and encoder-decoders, poor where outputs hang on every node of a tree.
//
// DyNet takes the mean over the whole graph, ED-Batch's re-implementation over what remains. In a server the whole graph
// is that of the requests that run. O(types), exact.
#ifndef CELLBATCH_SCHEDULER_POLICY_AGENDA_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_AGENDA_POLICY_H_

#include <optional>

#include "scheduler/policy/policy.h"

namespace cellbatch {

enum class AgendaMean : uint8_t {
  kWholeGraph,  // DyNet
  kRemaining,   // ED-Batch's code
};

class AgendaPolicy final : public Policy {
 public:
  explicit AgendaPolicy(AgendaMean mean) : mean_(mean) {}
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;
  FrontierNeeds needs() const override { return FrontierNeeds::kNodes; }

 private:
  const AgendaMean mean_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_AGENDA_POLICY_H_

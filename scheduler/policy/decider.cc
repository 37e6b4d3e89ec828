#include "scheduler/policy/decider.h"

#include <utility>

#include "cells/check.h"
#include "scheduler/policy/cellular_policy.h"

namespace cellbatch {

Decider::Decider(std::unique_ptr<const Policy> policy, int64_t max_wait_tasks,
                 absl::Span<const CellTypeId> may_wait)
    : policy_(policy != nullptr ? std::move(policy) : std::make_unique<const CellularPolicy>()),
      max_wait_tasks_(max_wait_tasks),
      repeats_(policy_->repeats_type()),
      picks_depth_(policy_->picks_depth()),
      reasons_{"overdue", "full_batch", "repeat"} {
  for (const std::string_view reason : policy_->reasons()) reasons_.push_back(reason);
  for (const CellTypeId type : may_wait) {
    const auto t = static_cast<size_t>(type.value());
    if (t >= may_wait_.size()) may_wait_.resize(t + 1);
    may_wait_[t] = true;
  }
}

bool Decider::Waits(const TypeView& view) const {
  return view.waited <= max_wait_tasks_ &&
         view.ready * max_wait_tasks_ < view.max_batch * (max_wait_tasks_ - view.waited);
}

void Decider::Hold(absl::Span<TypeView> frontier) const {
  const auto waits = [this](const TypeView& view) { return MayWait(view.type) && Waits(view); };
  bool another = false;
  for (const TypeView& view : frontier) another = another || (view.ready > 0 && !waits(view));
  if (!another) return;
  for (TypeView& view : frontier) {
    if (view.ready == 0 || !waits(view)) continue;
    view.Hide();
  }
}

std::optional<Choice> Decider::Decide(Frontier frontier) const {
  if (picks_depth_) [[unlikely]]
    return DecideDepth(frontier);
  const TypeView *overdue = nullptr, *full = nullptr;
  int64_t longest = max_wait_tasks_;
  for (const TypeView& view : frontier) {
    if (view.waited > longest) {
      longest = view.waited;
      overdue = &view;
    }
    if (view.ready >= view.max_batch && (full == nullptr || view.priority >= full->priority)) {
      full = &view;
    }
  }
  if (overdue != nullptr) return Choice{overdue->type, kOverdue};
  if (full != nullptr) return Choice{full->type, kFullBatch};
  return OfPolicy(frontier);
}

// A batch is full if it is at one depth.
std::optional<Choice> Decider::DecideDepth(Frontier frontier) const {
  const TypeView *overdue = nullptr, *full = nullptr;
  for (const TypeView& view : frontier) {
    const int64_t longest = overdue == nullptr ? max_wait_tasks_ : overdue->waited;
    if (view.waited > longest) overdue = &view;
    const bool fills = view.ready > 0 && view.nodes.at_least_depth >= view.max_batch;
    if (fills && (full == nullptr || view.priority >= full->priority)) full = &view;
  }
  if (overdue != nullptr) {
    return Choice{overdue->type, kOverdue};
  }
  std::optional<Choice> choice = full != nullptr
                                     ? Choice{full->type, kFullBatch, full->nodes.least_depth}
                                     : OfPolicy(frontier);
  if (!choice) return std::nullopt;
  const TypeView& chosen = frontier[static_cast<size_t>(choice->type.value())];
  if (chosen.narrow_tasks > max_wait_tasks_) return Choice{choice->type, kOverdue};
  return choice;
}

std::optional<Choice> Decider::OfPolicy(Frontier frontier) const {
  std::optional<Choice> choice = policy_->Choose(frontier);
  if (!choice) return std::nullopt;
  Check(choice->type.valid() && choice->type.value() < static_cast<int64_t>(frontier.size()) &&
            frontier[static_cast<size_t>(choice->type.value())].ready > 0,
        "a policy chose a type of which nothing is ready");
  Check(choice->reason >= 0 && choice->reason < static_cast<int>(policy_->reasons().size()),
        "a policy gave a reason that it did not name");
  choice->reason += kFirstOfPolicy;
  return choice;
}

}  // namespace cellbatch

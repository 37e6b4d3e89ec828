#include "scheduler/record/replayed_lane.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/lane_table.h"
#include "scheduler/policy/make_rules.h"
#include "scheduler/record/replayed_device.h"
#include "scheduler/request_block.h"

namespace cellbatch {

SchedulerOptions ReplayedOptions(const RecordedSetup& setup) {
  SchedulerOptions options;
  options.few_tasks_in_flight =
      setup.few_tasks_in_flight > 0 ? setup.few_tasks_in_flight : setup.max_tasks_in_flight;
  options.max_requests = setup.max_requests;
  options.max_wait_tasks = setup.max_wait_tasks;
  options.chain_turn = setup.chain_turn;
  options.priority_ageing = setup.priority_ageing;
  options.batch_limit = setup.batch_limit;
  options.calibrate = setup.calibrate;
  options.stealing = static_cast<Stealing>(setup.stealing);
  options.task_time_limit = absl::InfiniteDuration();
  options.threads = false;
  return options;
}

absl::Status CheckRecorded(const RecordedSetup& setup) {
  const auto devices = static_cast<int>(setup.memory_of.size());
  bool sane = devices >= 1 && devices <= kMaxWorkers && setup.max_tasks_in_flight >= 1 &&
              setup.max_tasks_in_flight <= 64 && setup.few_tasks_in_flight >= 0 &&
              setup.few_tasks_in_flight <= 64 && setup.max_requests >= 1 &&
              setup.max_requests <= 1 << 24 && setup.batch_limit >= 1 &&
              setup.batch_limit <= 4096 && setup.chain_turn >= 1 && setup.max_wait_tasks >= 0 &&
              setup.priority_ageing >= 1 && setup.priority_ageing <= kMostPriorityAgeing &&
              setup.stealing >= 0 && setup.stealing <= static_cast<int>(Stealing::kNever);
  for (const int memory : setup.memory_of) sane = sane && memory >= 0 && memory < devices;
  if (sane) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the record's set-up is no server's: ", devices, " devices, ", setup.max_tasks_in_flight,
      " tasks in flight, ", setup.max_requests, " requests, batches of ", setup.batch_limit));
}

absl::StatusOr<std::shared_ptr<LanePolicy>> ReplayedPolicy(
    const Lane& lane, const RecordedPolicy& taken, const std::optional<PolicySpec>& policy) {
  if (!taken.made) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model \"", lane.model().name, "\" took over a policy that no record can hold"));
  }
  absl::StatusOr<LaneRules> rules =
      MakeRules(policy ? *policy : taken.spec, {}, lane.model().types.size());
  if (!rules.ok()) return rules.status();
  std::shared_ptr<LanePolicy> made = lane.MakePolicy(*std::move(rules));
  if (made->AsksForTheSameAs(*lane.Policies().back())) return made;
  return absl::InvalidArgumentError("the record's lane takes over a policy that it cannot");
}

absl::StatusOr<std::unique_ptr<Lane>> ReplayedLane(const RecordedLane& recorded,
                                                   const std::optional<PolicySpec>& policy,
                                                   const RecordedSetup& setup,
                                                   const SchedulerOptions& options) {
  if (!recorded.policy.made || !recorded.join_made) {
    return absl::FailedPreconditionError(
        absl::StrCat("model \"", recorded.model->name,
                     "\" was served by a policy or a rule of joining that no record can hold"));
  }
  const auto workers = static_cast<int32_t>(setup.memory_of.size());
  const auto enough = [&](int32_t rows) { return rows > workers; };
  if (recorded.index < 0 || recorded.index >= kMaxLanes ||
      recorded.rows.size() != recorded.model->tables.size() ||
      !std::all_of(recorded.rows.begin(), recorded.rows.end(), enough)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the record's lane ", recorded.serial, " is one that no server has"));
  }
  absl::StatusOr<LaneRules> rules = MakeRules(policy ? *policy : recorded.policy.spec,
                                              recorded.join, recorded.model->types.size());
  if (!rules.ok()) return rules.status();
  std::vector<Lane::Loaded> loaded;
  const int memories = 1 + *std::max_element(setup.memory_of.begin(), setup.memory_of.end());
  bool lives = false;
  for (int m = 0; m < memories; ++m) {
    Lane::Loaded& here = loaded.emplace_back();
    if (!recorded.LivesIn(m)) continue;
    here = {std::make_unique<ReplayedModel>(*recorded.model, recorded.rows),
            std::make_unique<StateArena>(recorded.rows)};
    lives = true;
  }
  if (!lives) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the record's lane ", recorded.serial, " lives in none of its ", memories, " memories"));
  }
  return std::make_unique<Lane>(recorded.index, recorded.serial, recorded.model, *std::move(rules),
                                std::move(loaded), setup.memory_of, options);
}

}  // namespace cellbatch

#include "tests/simulation/priority_turns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cellbatch::sim {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

void PriorityTurns::AddWorker(int memory) {
  slack_ += max_tasks_in_flight_;
  if (Index(memory) >= workers_of_.size()) {
    workers_of_.resize(Index(memory) + 1, 0);
    failed_.resize(Index(memory) + 1, false);
  }
  ++workers_of_[Index(memory)];
}

void PriorityTurns::Open(const Model& model, const std::vector<std::vector<int32_t>>& max_batch) {
  if (!judged_ || model.priority_levels == 1) return;  // nothing is kept of who is not looked at
  Lane& lane = lanes_[model.id.value()] = {};
  lane.levels = model.priority_levels;
  lane.default_level = model.default_priority_level;
  lane.max_batch = max_batch;
}

void PriorityTurns::Closing(ModelId model) {
  const auto found = lanes_.find(model.value());
  if (found != lanes_.end()) found->second.closing = true;
}

void PriorityTurns::Failed(int memory) { failed_[Index(memory)] = true; }

void PriorityTurns::Submitted(int32_t tag, const Model& model, const Plan& plan, int32_t level) {
  const auto found = lanes_.find(model.id.value());
  if (found == lanes_.end() || found->second.closing) return;
  const Lane& lane = found->second;
  Runner& runner = runners_[tag] = {};
  runner.model = model.id.value();
  runner.level = (level > 0 ? level : lane.default_level) - 1;
  runner.submitted = lane.tasks;
  for (int32_t s = 0; s < plan.piece_end(0); ++s) {
    const PlannedSubgraph& subgraph = plan.subgraphs[Index(s)];
    const bool begins =
        !subgraph.is_input &&
        std::all_of(subgraph.links.begin(), subgraph.links.end(), [&](const Link& link) {
          return link.from == kZeroSource || plan.subgraphs[Index(link.from.value())].is_input;
        });
    const int32_t type = begins ? subgraph.type.value() : -1;
    const auto& known = runner.begins_with;
    if (begins && std::find(known.begin(), known.end(), type) == known.end()) {
      runner.begins_with.push_back(type);
    }
  }
}

void PriorityTurns::Left(int32_t tag) {
  const auto found = runners_.find(tag);
  if (found == runners_.end()) return;
  for (auto& [place, queue] : lanes_.at(found->second.model).queues) {
    queue.erase(queue.lower_bound({tag, 0}), queue.lower_bound({tag + 1, 0}));
  }
  runners_.erase(found);
}

void PriorityTurns::BeginTask(ModelId model, int memory, int32_t type, uint64_t sequence) {
  const auto found = lanes_.find(model.value());
  lane_ = found == lanes_.end() ? nullptr : &found->second;
  if (lane_ == nullptr) return;
  memory_ = memory;
  type_ = type;
  sequence_ = sequence;
  ++lane_->tasks;
  ++lane_->type_tasks[{memory, type}];
  entered_.clear();
  ran_ = {};
}

// Whoever begins with what it begins with, and stood before it in the line, was to start before it, unless it joined
// before that one came.
void PriorityTurns::Starts(int32_t tag) {
  const auto found = runners_.find(tag);
  if (found == runners_.end()) return;
  Runner& starter = found->second;
  starter.started = true;
  if (workers_of_.size() != 1 || workers_of_[0] != 1 || starter.begins_with.size() != 1) return;
  const int32_t type = starter.begins_with[0];
  const int64_t most = 2 * int64_t{lane_->max_batch[0][Index(type)]};
  for (auto& [other_tag, other] : runners_) {
    const auto& begins = other.begins_with;
    if (other.started || other.model != starter.model ||
        std::find(begins.begin(), begins.end(), type) == begins.end() ||
        CountsAsArrived(starter) <= LatestArrival(other)) {
      continue;
    }
    if (++other.passed <= most) continue;
    violated_(absl::StrCat("priorities in the line: request ", other_tag, " of level ", other.level,
                           " has not started, and ", other.passed, " that stood behind it have, ",
                           "request ", tag, " of level ", starter.level, " the last; at most ",
                           most));
    return;
  }
}

void PriorityTurns::Runs(int32_t tag, size_t subgraph, bool chain) {
  if (!runners_.contains(tag)) return;
  Queue& queue = lane_->queues[{memory_, type_}];
  const auto found = queue.find({tag, subgraph});
  if (found == queue.end()) return;
  const bool ran_before = chain && found->second.ran &&
                          found->second.type_tasks + 1 == lane_->type_tasks[{memory_, type_}];
  if (!ran_before) entered_.push_back(tag);
  queue.erase(found);
  ran_ = {tag, subgraph};
}

void PriorityTurns::Waits(int32_t tag, size_t subgraph, int memory, int32_t type,
                          uint64_t ready_at) {
  const auto found = runners_.find(tag);
  if (found == runners_.end()) return;
  Lane& lane = lanes_.at(found->second.model);
  const bool ran = ran_ == std::pair{tag, subgraph};
  lane.queues[{memory, type}][{tag, subgraph}] = {ready_at, lane.type_tasks[{memory, type}], ran};
}

// What was ready when the task was formed, and is not in it, waits; what it had stood behind may not go before it.
void PriorityTurns::EndTask() {
  if (lane_ == nullptr || lane_->closing || workers_of_[Index(memory_)] != 1 ||
      failed_[Index(memory_)])
    return;
  Queue& queue = lane_->queues[{memory_, type_}];
  const auto stand = [&](auto may) {
    for (auto& [who, waiting] : queue) {
      if (waiting.stands_at >= 0 || !may(waiting)) continue;
      waiting.stands_at = std::max(lane_->tasks + slack_, LatestArrival(runners_.at(who.first)));
    }
  };
  const int64_t tasks = lane_->type_tasks[{memory_, type_}];
  stand([&](const Waiting& w) { return w.ran && w.type_tasks + 1 == tasks; });
  CheckBefore(queue);
  stand([&](const Waiting& w) {
    return w.ready_at + static_cast<uint64_t>(max_tasks_in_flight_) < sequence_;
  });
}

void PriorityTurns::CheckBefore(const Queue& queue) {
  for (const auto& [who, waiting] : queue) {
    const Runner& left_out = runners_.at(who.first);
    if (waiting.stands_at < 0) continue;
    for (const int32_t tag : entered_) {
      const auto found = runners_.find(tag);
      if (found == runners_.end()) continue;
      ++compared_;
      const Runner& taken = found->second;
      if (CountsAsArrived(taken) <= waiting.stands_at) continue;
      const bool less_urgent = taken.level > left_out.level;
      violated_(absl::StrCat(
          less_urgent ? "priorities of requests: " : "ageing: ", "request ", tag, " of level ",
          taken.level, " goes before request ", who.first, " of level ", left_out.level,
          less_urgent ? ", which is ready" : ", which has waited longer than its level says",
          " (type ", type_, "; it counts as having come at ", CountsAsArrived(taken),
          ", that one stands at ", waiting.stands_at, " at the latest)"));
      return;
    }
  }
}

}  // namespace cellbatch::sim

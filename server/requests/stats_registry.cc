#include <algorithm>
#include <utility>

#include "server/requests/request_stats.h"

namespace cellbatch {
namespace {

CellTypeStats& TypeNamed(const std::string& name, std::vector<CellTypeStats>& types) {
  const auto found = std::find_if(types.begin(), types.end(),
                                  [&](const CellTypeStats& type) { return type.name == name; });
  if (found != types.end()) return *found;
  CellTypeStats& made = types.emplace_back();
  made.name = name;
  return made;
}

DecisionStats& ReasonNamed(const std::string& reason, std::vector<DecisionStats>& decisions) {
  const auto found = std::find_if(decisions.begin(), decisions.end(),
                                  [&](const DecisionStats& d) { return d.reason == reason; });
  return found != decisions.end() ? *found : decisions.emplace_back(DecisionStats{reason, 0});
}

}  // namespace

void AddCounters(const LaneStats& lane, LaneStats& sum) {
  sum.policies_taken += lane.policies_taken;
  sum.device_ns += lane.device_ns;
  for (const CellTypeStats& type : lane.types) {
    CellTypeStats& to = TypeNamed(type.name, sum.types);
    to.tasks += type.tasks;
    to.cells += type.cells;
    to.padding += type.padding;
    to.discarded += type.discarded;
    to.stop_steps += type.stop_steps;
    to.overrun += type.overrun;
    to.batch_size += type.batch_size;
    to.task_ns += type.task_ns;
    for (size_t i = 0; i < to.batch_ns.size(); ++i) to.batch_ns[i] += type.batch_ns[i];
  }
  for (const DecisionStats& decision : lane.decisions) {
    ReasonNamed(decision.reason, sum.decisions).tasks += decision.tasks;
  }
}

StatsRegistry::StatsRegistry(int shards, int64_t most_ended)
    : shards_(shards), most_ended_(most_ended), unknown_("", "", shards) {}

ModelStats& StatsRegistry::Of(const Model& model) {
  return models_
      .Of(model.id, [&] { return std::make_unique<std::shared_ptr<Version>>(Begin(model)); })
      ->stats;
}

const ModelStats* StatsRegistry::Find(ModelId id) const {
  const std::shared_ptr<Version>* const version = models_.Find(id);
  return version == nullptr ? nullptr : &(*version)->stats;
}

std::shared_ptr<StatsRegistry::Version> StatsRegistry::Begin(const Model& model) {
  const std::string number = std::to_string(model.version);
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(versions_.begin(), versions_.end(), [&](const auto& version) {
    return version->stats.name() == model.name && version->stats.version() == number;
  });
  if (found == versions_.end()) {
    versions_.push_back(std::make_shared<Version>(model.name, number, shards_, model.id));
    found = versions_.end() - 1;
  }
  if ((*found)->held++ == 0) std::erase(ended_, *found);
  held_[model.id] = {.version = *found};
  return *found;
}

void StatsRegistry::Gone(ModelId id) {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(id);
  if (held == held_.end()) return;  // nobody ever asked for it
  const std::shared_ptr<Version> version = std::move(held->second.version);
  held_.erase(held);
  if (--version->held > 0) return;
  ended_.push_back(version);
  if (static_cast<int64_t>(ended_.size()) > most_ended_) DropOldest();
}

// Under the mutex.
void StatsRegistry::DropOldest() {
  const std::shared_ptr<Version> oldest = std::move(ended_.front());
  ended_.pop_front();
  std::erase(versions_, oldest);
  if (!dropped_.has_value()) dropped_.emplace().for_totals_alone = true;
  dropped_->requests += oldest->stats.Read();
}

void StatsRegistry::LaneEnded(const LaneStats& lane) {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(lane.model);
  if (held == held_.end()) return;
  held->second.lane_ended = true;
  std::optional<LaneStats>& lanes = held->second.version->lanes;
  if (!lanes.has_value()) lanes.emplace();
  AddCounters(lane, *lanes);
}

std::vector<CellTypeStats> StatsRegistry::EndedTypes(ModelId id) const {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(id);
  if (held == held_.end() || !held->second.version->lanes.has_value()) return {};
  return held->second.version->lanes->types;
}

std::vector<VersionCounts> StatsRegistry::Read(absl::Span<const LaneStats> lanes,
                                               std::vector<int>* places) const {
  const std::lock_guard lock(mutex_);
  std::vector<VersionCounts> all;
  for (const std::shared_ptr<Version>& version : versions_) {
    all.push_back({.name = version->stats.name(),
                   .version = version->stats.version(),
                   .requests = version->stats.Read(),
                   .lanes = version->lanes});
  }
  for (const LaneStats& lane : lanes) {
    int& place = places->emplace_back(-1);
    const auto held = held_.find(lane.model);
    if (held == held_.end() || held->second.lane_ended) continue;
    place = static_cast<int>(std::find(versions_.begin(), versions_.end(), held->second.version) -
                             versions_.begin());
  }
  if (dropped_.has_value()) all.push_back(*dropped_);
  all.push_back({.name = {}, .version = {}, .requests = unknown_.Read(), .lanes = {}});
  return all;
}

}  // namespace cellbatch

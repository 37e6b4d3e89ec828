#include "tests/simulation/stock.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "cells/device/sim/fingerprint.h"
#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/make_rules.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {
namespace {

// Of an FSM a table that knows some states of one to three types, and for each an action that nobody learned.
PolicySpec DrawPolicy(PolicyKind kind, uint64_t seed, const Model& model) {
  std::mt19937_64 random(MixBits(seed, 79));
  PolicySpec spec;
  spec.kind = kind;
  spec.seed = random();
  spec.taller_first = random() % 2 == 0;
  if (kind != PolicyKind::kFsm) return spec;
  spec.encoding.kind = static_cast<StateEncoding::Kind>(random() % 3);
  spec.encoding.phases = 1 + static_cast<int>(random() % 3);
  const auto any_type = [&] {
    return CellTypeId(static_cast<int64_t>(random() % model.types.size()));
  };
  std::vector<StateKey> known;
  for (int i = 0; i < 400; ++i) {
    std::vector<CellTypeId> types(1 + random() % 3);
    for (CellTypeId& type : types) type = any_type();
    const CellTypeId action = types[random() % types.size()];
    if (spec.encoding.kind != StateEncoding::Kind::kSort) std::sort(types.begin(), types.end());
    if (spec.encoding.kind == StateEncoding::Kind::kMax) types.push_back(types.front());
    const int phase = static_cast<int>(random() % static_cast<uint64_t>(spec.encoding.phases));
    const absl::StatusOr<StateKey> state = MakeState(spec.encoding, types, phase);
    if (!state.ok() || std::find(known.begin(), known.end(), *state) != known.end()) continue;
    known.push_back(*state);
    spec.rules.push_back({*state, action});
  }
  return spec;
}

std::vector<CellTypeId> WaitingTypes(const Model& model) {
  std::vector<CellTypeId> waiting;
  for (const CellType& type : model.types) {
    if (TypeMayWait(type.id)) waiting.push_back(type.id);
  }
  return waiting;
}

}  // namespace

void Stock::Add() {
  const int number = next_++;
  const double weight = std::pow(options_.weight_ratio, number % 3);
  const std::shared_ptr<const Model> model =
      MakeModel(ModelId(number + 1), options_.limits, options_.priorities, weight,
                options_.calibrate, {options_.priority_levels, options_.default_priority_level},
                options_.unfold, KindsOfModel(options_, number));
  changing_ = true;
  checker_.Loading(model.get());
  LaneRules rules;
  if (options_.policy != PolicyKind::kCellular || options_.may_wait) {
    PolicySpec spec = DrawPolicy(options_.policy, options_.seed, *model);
    if (options_.may_wait) spec.may_wait = WaitingTypes(*model);
    absl::StatusOr<std::unique_ptr<const Policy>> policy = MakePolicy(spec, model->types.size());
    Check(policy.ok(), policy.status().ToString());
    rules.policy = *std::move(policy);
    rules.may_wait = spec.may_wait;
    rules.policy_spec = std::make_shared<const PolicySpec>(spec);
  }
  rules.join = MakeJoinRule(options_.join);
  rules.join_spec = std::make_shared<const JoinSpec>(options_.join);
  const absl::Status added = scheduler_.AddModel(model, std::move(rules));
  checker_.Loading(nullptr);
  changing_ = false;
  if (!added.ok()) {
    ++failed_loads_;
    const auto devices = DevicesOf(model->devices, scheduler_.stats().Devices());
    if (std::any_of(devices.begin(), devices.end(),
                    [](const DeviceStats& device) { return device.healthy; })) {
      checker_.Violated(absl::StrCat("a model could not be loaded: ", added.ToString()));
    }
    return;
  }
  ++loads_;
  std::vector<std::vector<int32_t>> max_batch(
      memories_.size(), std::vector<int32_t>(model->types.size(), options_.limits.max_batch));
  for (const CellTypeCalibration& c : scheduler_.Calibration(model->id)) {
    max_batch[static_cast<size_t>(c.memory)][static_cast<size_t>(c.type.value())] = c.max_batch;
  }
  checker_.Watch(memories_, *model, max_batch);
  open_.push_back({model, scheduler_.MaxRowsPerRequest(model->id)});
}

void Stock::ChangePolicy(size_t at, uint64_t draw) {
  constexpr std::array kKinds = {PolicyKind::kCellular, PolicyKind::kRandom,
                                 PolicyKind::kLbGreedy, PolicyKind::kFsm,
                                 PolicyKind::kAgenda,   PolicyKind::kAgendaOfRemaining};
  const Model& model = *open_[at].model;
  PolicySpec spec = DrawPolicy(kKinds[draw % kKinds.size()], draw, model);
  if (options_.may_wait) spec.may_wait = WaitingTypes(model);
  absl::StatusOr<LaneRules> rules = MakeRules(spec, {}, model.types.size());
  Check(rules.ok(), rules.status().ToString());
  changing_ = true;
  const absl::Status taken = scheduler_.SetPolicy(model.id, *std::move(rules));
  changing_ = false;
  if (taken.ok()) ++takeovers_;
  if (!taken.ok() && !absl::IsFailedPrecondition(taken)) {
    checker_.Violated(absl::StrCat("a policy is not taken over: ", taken.ToString()));
  }
}

void Stock::Remove(size_t at) {
  closing_ = open_[at].model;
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(at));
  changing_ = true;
  checker_.Closing(closing_->id);
  const absl::Status removed = scheduler_.RemoveModel(closing_->id);
  changing_ = false;
  ++unloads_;
  if (!removed.ok())
    checker_.Violated(absl::StrCat("a model is not unloaded: ", removed.ToString()));
  checker_.Unwatch(*closing_);
  closing_.reset();
}

}  // namespace cellbatch::sim

#include "tests/simulation/stock.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/policy/test_policies.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {

void Stock::Add() {
  const int number = next_++;
  const double weight = std::pow(options_.weight_ratio, number % 3);
  const std::shared_ptr<const Model> model = MakeModel(
      ModelId(number + 1), options_.limits, options_.priorities, weight, options_.calibrate);
  changing_ = true;
  checker_.Loading(model.get());
  LaneRules rules;
  if (options_.policy == 1) rules.policy = std::make_unique<policy_testing::LowestMeanDepth>();
  if (options_.policy == 2) rules.policy = std::make_unique<policy_testing::TallestTop>();
  const absl::Status added = scheduler_.AddModel(model, std::move(rules));
  checker_.Loading(nullptr);
  changing_ = false;
  if (!added.ok()) {
    ++failed_loads_;
    if (scheduler_.any_device_left()) {
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

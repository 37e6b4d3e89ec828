#include "tests/simulation/shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cellbatch::sim {

void Shares::Close(ModelId model) {
  models_.erase(model.value());
  std::erase_if(pairs_, [&](const auto& pair) {
    return pair.first.first == model.value() || pair.first.second == model.value();
  });
}

void Shares::Ready(ModelId model, int64_t nodes) {
  Share& share = models_.at(model.value());
  const bool had_work = share.ready > 0;
  share.ready += nodes;
  if (had_work == (share.ready > 0)) return;
  share.others_ns = 0;
  for (auto& [models, pair] : pairs_) {
    if (models.first == model.value() || models.second == model.value()) pair = Pair();
  }
}

void Shares::Ran(ModelId model, double loading, int64_t ns) {
  for (auto& [id, share] : models_) {
    if (id == model.value()) {
      share.others_ns = 0;
    } else if (share.ready > 0) {
      share.others_ns += ns;
    }
  }
  CheckWaits(loading);
  if (!models_.contains(model.value())) return;
  for (const auto& [id, share] : models_) {
    if (id != model.value()) Account(model.value(), id, ns);
  }
}

// While it waits, every other one has at most what its weight says beside one task of it, and what was
// submitted in advance; once more for tasks that were charged by what smaller ones took.
void Shares::CheckWaits(double loading) {
  double weights = loading;
  for (const auto& [id, share] : models_) weights += share.weight;
  most_weights_ = std::max(most_weights_, weights);
  for (auto& [id, share] : models_) {
    if (share.ready <= 0) continue;
    const auto most = static_cast<int64_t>(2 * most_weights_ / share.weight * (in_flight_ + 1) *
                                           static_cast<double>(longest_ns_));
    longest_wait_ns_ = std::max(longest_wait_ns_, share.others_ns);
    if (share.others_ns <= most) continue;
    violated_(absl::StrCat("model ", id, " starves: it has work, and others ran for ",
                           share.others_ns, " ns without it; at most ", most));
    share.others_ns = 0;
  }
}

void Shares::Account(int32_t model, int32_t other, int64_t ns) {
  const Share &own = models_.at(model), &others = models_.at(other);
  Pair& pair = pairs_[std::minmax(model, other)];
  if (own.ready <= 0 || others.ready <= 0) {
    pair = Pair();
    return;
  }
  const int which = model < other ? 1 : 2;
  const bool turned = pair.last != 0 && pair.last != which;
  pair.last = which;
  if (!pair.open) {
    pair.open = turned;
    return;
  }
  pair.apart += (which == 1 ? 1 : -1) * static_cast<double>(ns) / own.weight;
  pair.most = std::max(pair.most, pair.apart);
  pair.least = std::min(pair.least, pair.apart);
  const double allowed = 2 * static_cast<double>(longest_ns_) * (in_flight_ + 1) *
                         (1 / own.weight + 1 / others.weight);
  furthest_apart_ = std::max(furthest_apart_, (pair.most - pair.least) / std::max(allowed, 1.0));
  if (pair.most - pair.least <= allowed) return;
  violated_(absl::StrCat("models ", model, " and ", other, " do not share as their weights say: ",
                         pair.most - pair.least, " ns of weight 1 apart; at most ", allowed));
  pair = Pair();
}

}  // namespace cellbatch::sim

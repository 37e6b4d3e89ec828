#include "scheduler/offline/learn/serving_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "cells/check.h"
#include "scheduler/offline/learn/q_table.h"

namespace cellbatch {
namespace {

// A trial that is this much behind after the first lesson is not played to its end.
constexpr double kLost = 1.01;

PolicySpec SpecOf(PolicyKind kind) {
  PolicySpec spec;
  spec.kind = kind;
  return spec;
}

std::unique_ptr<const Policy> Made(const PolicySpec& spec, size_t num_types) {
  auto policy = MakePolicy(spec, num_types);
  Check(policy.ok(), policy.status().ToString());
  return *std::move(policy);
}

// A table that is written while it decides: which states are met, and how often. A state without an action is left to the
// policy it starts from: each time anew where that is LB-greedy, else by what that does there first.
class GrowingTable {
 public:
  static constexpr int32_t kLeft = -1;

  GrowingTable(const StateEncoding& encoding, PolicyKind start, size_t num_types)
      : table_(encoding, static_cast<int32_t>(num_types)),
        sparse_(start == PolicyKind::kLbGreedy),
        start_(Made(SpecOf(start), num_types)) {}

  void Set(const StateKey& state, int32_t action) { action_[RowOf(table_.RowOf(state))] = action; }

  int32_t Decide(Frontier frontier) {
    const size_t row = RowOf(table_.RowOf(frontier));
    ++met_[row];
    if (action_[row] != kLeft) return action_[row];
    const int32_t action = start_->Choose(frontier)->type.value();
    if (!sparse_) action_[row] = action;
    return action;
  }

  FrontierNeeds needs() const {
    const StateEncoding& encoding = table_.encoding();
    const FrontierNeeds own = encoding.phases > 1 ? FrontierNeeds::kNodes
                              : encoding.lowering ? FrontierNeeds::kHeights
                                                  : FrontierNeeds::kReady;
    return std::max(own, start_->needs());
  }

  bool sparse() const { return sparse_; }
  int32_t& action(size_t row) { return action_[row]; }
  uint32_t actions(size_t row) const { return table_.actions(static_cast<int32_t>(row)); }
  std::vector<int64_t>& met() { return met_; }  // by row, since somebody cleared it
  std::vector<FsmTable::Rule> Rules() const {
    std::vector<FsmTable::Rule> rules;
    for (size_t row = 0; row < action_.size(); ++row) {
      if (action_[row] == kLeft) continue;
      rules.push_back({table_.key(static_cast<int32_t>(row)), CellTypeId(action_[row])});
    }
    return rules;
  }

 private:
  size_t RowOf(int32_t row) {
    const auto at = static_cast<size_t>(row);
    if (at >= action_.size()) {
      action_.resize(at + 1, kLeft);
      met_.resize(at + 1, 0);
    }
    return at;
  }

  QTable table_;  // for its rows; values are not used
  const bool sparse_;
  const std::unique_ptr<const Policy> start_;
  std::vector<int32_t> action_;  // by row
  std::vector<int64_t> met_;
};

// A lane's policy is made once, and tables change between two runs.
class TrialPolicy final : public Policy {
 public:
  explicit TrialPolicy(GrowingTable& table) : table_(table) {}
  std::optional<Choice> Choose(Frontier frontier) const override {
    const bool any = std::any_of(frontier.begin(), frontier.end(),
                                 [](const TypeView& view) { return view.ready > 0; });
    if (!any) return std::nullopt;
    return Choice{CellTypeId(table_.Decide(frontier))};
  }
  absl::Span<const std::string_view> reasons() const override { return kReasons; }
  FrontierNeeds needs() const override { return table_.needs(); }

 private:
  static constexpr std::string_view kReasons[] = {"tried"};
  GrowingTable& table_;
};

class ServingTrials {
 public:
  ServingTrials(const ServedModel& served, absl::Span<const std::vector<Arrival>> lessons,
                const ServingSearchOptions& options)
      : lessons_(lessons),
        options_(options),
        random_(options.seed),
        table_(options.encoding, options.start, served.model->types.size()),
        world_(WorldOf(served, LaneRules(std::make_unique<const TrialPolicy>(table_)))) {
    for (const FsmTable::Rule& rule : options.from) table_.Set(rule.state, rule.action.value());
  }

  ServingSearchResult Run() {
    Play(/*against=*/nullptr, best_);
    Keep();
    bool better = true;
    while (better && result_.nodes < options_.most_nodes) {
      better = false;
      for (const Trial& trial : Trials()) {
        if (result_.nodes >= options_.most_nodes) break;
        better |= Try(trial);
      }
    }
    result_.rules = table_.Rules();
    return std::move(result_);
  }

 private:
  struct Trial {
    size_t row;
    int32_t action;
  };

  // The best table from now on.
  void Keep() {
    met_ = table_.met();
    double sum = 0;
    for (const double objective : best_) sum += objective;
    result_.curve.push_back({result_.trials, sum / static_cast<double>(lessons_.size())});
  }

  // Every change of a state that the lessons come to; those first to which they come most often.
  std::vector<Trial> Trials() {
    std::vector<Trial> trials;
    for (size_t row = 0; row < met_.size(); ++row) {
      if (met_[row] == 0) continue;
      if (table_.sparse()) trials.push_back({row, GrowingTable::kLeft});
      for (uint32_t left = table_.actions(row); left != 0; left &= left - 1) {
        trials.push_back({row, std::countr_zero(left)});
      }
    }
    for (size_t i = trials.size(); i > 1; --i) std::swap(trials[i - 1], trials[random_() % i]);
    std::stable_sort(trials.begin(), trials.end(),
                     [&](const Trial& a, const Trial& b) { return met_[a.row] > met_[b.row]; });
    return trials;
  }

  // Whether it is better, and kept.
  bool Try(const Trial& trial) {
    const int32_t before = table_.action(trial.row);
    if (before == trial.action || std::has_single_bit(table_.actions(trial.row))) return false;
    table_.action(trial.row) = trial.action;
    ++result_.trials;
    std::vector<double> got;
    if (Play(&best_, got) && IsBetter(got)) {
      best_ = std::move(got);
      Keep();
      return true;
    }
    table_.action(trial.row) = before;
    return false;
  }

  // The objective on each lesson. False: given up, for it is behind.
  bool Play(const std::vector<double>* against, std::vector<double>& got) {
    std::fill(table_.met().begin(), table_.met().end(), int64_t{0});
    double gain = 0;
    for (size_t i = 0; i < lessons_.size(); ++i) {
      const WorldReport report = world_->Run(lessons_[i], SkippedOf(lessons_[i].size()));
      result_.nodes += report.nodes;
      got.push_back(ObjectiveOf(report, options_.tail_weight));
      if (against == nullptr) continue;
      gain += (*against)[i] - got[i];
      if (i == 0 ? got[i] > kLost * (*against)[i] : gain <= 0) return false;
    }
    return true;
  }

  bool IsBetter(const std::vector<double>& got) const {
    const auto n = static_cast<double>(got.size());
    double gain = 0, squares = 0;
    for (size_t i = 0; i < got.size(); ++i) gain += (best_[i] - got[i]) / n;
    for (size_t i = 0; i < got.size(); ++i) {
      const double apart = best_[i] - got[i] - gain;
      squares += apart * apart;
    }
    return gain > std::sqrt(squares / (n * (n - 1)));
  }

  const absl::Span<const std::vector<Arrival>> lessons_;
  const ServingSearchOptions& options_;
  std::mt19937_64 random_;
  GrowingTable table_;
  std::unique_ptr<ServingWorld> world_;
  std::vector<int64_t> met_;  // by row: how often the best table comes to that state
  std::vector<double> best_;  // its objective, by lesson
  ServingSearchResult result_;
};

}  // namespace

std::unique_ptr<ServingWorld> WorldOf(const ServedModel& served, LaneRules rules) {
  std::vector<WorldLane> lanes;
  lanes.push_back({served.model, served.costs, served.make, std::move(rules)});
  return std::make_unique<ServingWorld>(served.world, std::move(lanes));
}

std::unique_ptr<ServingWorld> WorldOf(const ServedModel& served, const PolicySpec& spec) {
  return WorldOf(served, LaneRules(Made(spec, served.model->types.size())));
}

double ObjectiveOf(const WorldReport& report, double tail_weight) {
  return (1 - tail_weight) * report.mean_ns + tail_weight * static_cast<double>(report.p99_ns);
}

ServingSearchResult SearchServing(const ServedModel& served,
                                  absl::Span<const std::vector<Arrival>> lessons,
                                  const ServingSearchOptions& options) {
  Check(lessons.size() >= 2, "one lesson says nothing of chance");
  return ServingTrials(served, lessons, options).Run();
}

}  // namespace cellbatch

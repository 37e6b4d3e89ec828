#include "scheduler/offline/learn/serving_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cells/check.h"

namespace cellbatch {
namespace {

using Kind = StateEncoding::Kind;
using Lists = std::vector<std::vector<Arrival>>;

constexpr int kInFlight = 256;  // of the closed loop that says what the capacity is
constexpr size_t kClosedRequests = 2'000;
constexpr size_t kLessons = 4, kChoices = 2, kProofs = 6;

std::string NameOf(const StateEncoding& encoding) {
  std::string name = encoding.kind == Kind::kBase  ? "base"
                     : encoding.kind == Kind::kMax ? "max"
                                                   : "sort";
  if (encoding.phases > 1) name += fmt::format("+{} phases", encoding.phases);
  if (encoding.lowering) name += "+lowering";
  if (encoding.fill > 0) name += fmt::format("+fill{}", encoding.fill);
  return name;
}

struct Start {
  StateEncoding encoding;
  PolicyKind from;
};

// Sparse tables over LB-greedy, from few states to many, and what Algorithm 1 does, changed.
std::vector<Start> Starts() {
  const auto base = [](bool lowering, int fill) {
    return StateEncoding{.kind = Kind::kBase, .phases = 1, .lowering = lowering, .fill = fill};
  };
  return {{base(true, 0), PolicyKind::kLbGreedy},
          {base(true, 4), PolicyKind::kLbGreedy},
          {base(false, 4), PolicyKind::kLbGreedy},
          {{.kind = Kind::kMax, .phases = 1, .lowering = true}, PolicyKind::kLbGreedy},
          {base(false, 0), PolicyKind::kCellular},
          {base(false, 4), PolicyKind::kCellular},
          {{.kind = Kind::kBase, .phases = 4, .lowering = true}, PolicyKind::kLbGreedy}};
}

class ServingTraining {
 public:
  ServingTraining(const ServedModel& served, const ServingTrainingOptions& options)
      : to_learn_(EverySecond(served, 0)), to_prove_(EverySecond(served, 1)), options_(options) {
    Check(served.shapes >= 2, "one request is not enough to learn from and to prove on");
    result_.capacity_per_s = CapacityOf(served, options.seed);
    result_.requests_per_s = options.load * result_.capacity_per_s;
    uint64_t seed = options.seed * 1'000;
    lessons_ = MakeLists(kLessons, options.lesson_requests, to_learn_.shapes, seed);
    choices_ = MakeLists(kChoices, options.proof_requests, to_learn_.shapes, seed);
    proofs_ = MakeLists(kProofs, options.proof_requests, to_prove_.shapes, seed);
  }

  ServingTrainingResult Run(absl::Span<const NamedPolicy> others) {
    for (const PolicyKind kind :
         {PolicyKind::kCellular, PolicyKind::kLbGreedy, PolicyKind::kAgenda}) {
      PolicySpec spec;
      spec.kind = kind;
      Other({std::string(Name(kind)), std::move(spec)});
    }
    for (const NamedPolicy& other : others) Other(other);
    result_.others = result_.candidates.size();
    algorithm_1_ns_ = Played(to_learn_, result_.candidates[0].spec, lessons_, nullptr);
    SearchAll(others);
    Choose();
    return std::move(result_);
  }

 private:
  // Requests may come sorted, and halves that differ would be at different loads.
  static ServedModel EverySecond(ServedModel served, int32_t first) {
    served.shapes = (served.shapes + 1 - first) / 2;
    served.make = [make = std::move(served.make), first](int32_t shape, int max_tasks_in_flight) {
      return make(2 * shape + first, max_tasks_in_flight);
    };
    return served;
  }

  Lists MakeLists(size_t count, size_t requests, int32_t shapes, uint64_t& seed) const {
    Lists lists;
    for (size_t i = 0; i < count; ++i) {
      lists.push_back(PoissonArrivals(result_.requests_per_s, requests, shapes, ++seed));
    }
    return lists;
  }

  // The objective in the mean over the lists; `into`: where what was seen is noted.
  double Played(const ServedModel& served, const PolicySpec& spec, const Lists& lists,
                ServingCandidate* into) {
    const auto world =
        WorldOf(into == nullptr ? served : WithPriorities(served, into->priorities), spec);
    double sum = 0;
    const auto n = static_cast<double>(lists.size());
    for (const std::vector<Arrival>& list : lists) {
      const WorldReport report = world->Run(list, SkippedOf(list.size()));
      Check(report.failed == 0, "a request does not fit into the world");
      const double objective = ObjectiveOf(report, options_.tail_weight);
      sum += objective / n;
      result_.nodes += report.nodes;
      if (into == nullptr) continue;
      into->proofs_ns.push_back(objective);
      into->objective_ns += objective / n;
      into->mean_ns += report.mean_ns / n;
      into->p99_ns += static_cast<double>(report.p99_ns) / n;
      into->mean_fill += report.mean_fill() / n;
    }
    return sum;
  }

  static ServedModel WithPriorities(ServedModel served, const std::vector<int32_t>& priorities) {
    if (priorities.empty()) return served;
    auto model = std::make_shared<Model>(*served.model);
    for (size_t t = 0; t < model->types.size(); ++t) model->types[t].priority = priorities[t];
    served.model = std::move(model);
    return served;
  }

  void Prove(ServingCandidate& candidate) {
    Played(to_prove_, candidate.spec, proofs_, &candidate);
    if (options_.progress) options_.progress(candidate);
  }

  void Other(const NamedPolicy& other) {
    ServingCandidate candidate;
    candidate.name = other.name;
    candidate.spec = other.spec;
    candidate.priorities = other.priorities;
    Prove(candidate);
    result_.candidates.push_back(std::move(candidate));
  }

  // And from every table that somebody brought.
  void SearchAll(absl::Span<const NamedPolicy> others) {
    std::vector<std::pair<std::string, ServingSearchOptions>> searches;
    for (const auto& [encoding, from] : Starts()) {
      searches.push_back({fmt::format("fsm {}, from {}", NameOf(encoding), Name(from)),
                          {.encoding = encoding, .start = from}});
    }
    for (const NamedPolicy& other : others) {
      if (other.spec.kind != PolicyKind::kFsm) continue;
      searches.push_back({fmt::format("fsm {}, from {}", NameOf(other.spec.encoding), other.name),
                          {.encoding = other.spec.encoding, .from = other.spec.rules}});
    }
    int64_t left = options_.most_nodes;
    for (size_t i = 0; i < searches.size(); ++i) {
      auto& [name, search] = searches[i];
      search.tail_weight = options_.tail_weight;
      search.seed = options_.seed;
      search.most_nodes = left / static_cast<int64_t>(searches.size() - i);
      left -= Search(name, search);
    }
  }

  int64_t Search(const std::string& name, const ServingSearchOptions& search) {
    ServingSearchResult found = SearchServing(to_learn_, lessons_, search);
    ServingCandidate candidate;
    candidate.name = name;
    candidate.is_table = true;
    candidate.trials = found.trials;
    for (const ServingPoint& point : found.curve) {
      candidate.curve.emplace_back(point.trials, point.objective_ns / algorithm_1_ns_);
    }
    candidate.spec.kind = PolicyKind::kFsm;
    candidate.spec.encoding = search.encoding;
    candidate.spec.rules = std::move(found.rules);
    result_.nodes += found.nodes;
    if (candidate.spec.rules.empty()) return found.nodes;  // it is LB-greedy
    candidate.choice_ns = Played(to_learn_, candidate.spec, choices_, nullptr);
    if (options_.progress) options_.progress(candidate);
    result_.candidates.push_back(std::move(candidate));
    return found.nodes;
  }

  void Choose() {
    ServingCandidate* table = nullptr;
    const ServingCandidate* other = nullptr;
    for (ServingCandidate& c : result_.candidates) {
      if (c.is_table) {
        if (table == nullptr || c.choice_ns < table->choice_ns) table = &c;
      } else if (c.priorities.empty() &&
                 (other == nullptr || c.objective_ns < other->objective_ns)) {
        other = &c;
      }
    }
    if (table == nullptr) {
      result_.published = *other;
      return;
    }
    Prove(*table);
    const auto n = static_cast<double>(table->proofs_ns.size());
    double squares = 0;
    result_.gain_ns = other->objective_ns - table->objective_ns;
    for (size_t i = 0; i < table->proofs_ns.size(); ++i) {
      const double gain = other->proofs_ns[i] - table->proofs_ns[i];
      squares += (gain - result_.gain_ns) * (gain - result_.gain_ns);
    }
    result_.gain_error_ns = std::sqrt(squares / (n * (n - 1)));
    result_.table_is_best = result_.gain_ns >= 0;
    result_.published = result_.table_is_best ? *table : *other;
  }

  const ServedModel to_learn_, to_prove_;
  const ServingTrainingOptions& options_;
  Lists lessons_, choices_, proofs_;
  double algorithm_1_ns_ = 0;  // its objective on the lessons
  ServingTrainingResult result_;
};

}  // namespace

double CapacityOf(const ServedModel& served, uint64_t seed) {
  // Whoever leaves lets the next one in: when they were due is not looked at.
  const auto requests = PoissonArrivals(1, kClosedRequests, served.shapes, seed);
  const auto world = WorldOf(served, PolicySpec());
  return world->RunClosed(requests, kInFlight).requests_per_s;
}

ServingTrainingResult TrainServing(const ServedModel& served, absl::Span<const NamedPolicy> others,
                                   const ServingTrainingOptions& options) {
  return ServingTraining(served, options).Run(others);
}

}  // namespace cellbatch

#include "scheduler/offline/learn/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "scheduler/offline/learn/q_learning.h"
#include "scheduler/offline/learn/table_search.h"
#include "scheduler/offline/learn/table_ties.h"
#include "scheduler/offline/replay.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"

namespace cellbatch {
namespace {

using Kind = StateEncoding::Kind;

constexpr Kind kKinds[] = {Kind::kBase, Kind::kMax, Kind::kSort};
constexpr uint64_t kSeeds = 2;
// Small tables are searched soonest, and win most often.
constexpr uint64_t kSearchesOfBase = 12, kSearchesOfOthers = 2;

std::string NameOf(const StateEncoding& encoding) {
  const char* const kind = encoding.kind == Kind::kBase  ? "base"
                           : encoding.kind == Kind::kMax ? "max"
                                                         : "sort";
  return fmt::format("{}{}", kind, encoding.lowering ? "+lowering" : "");
}

class Training {
 public:
  Training(absl::Span<const Lesson> lessons, absl::Span<const Lesson> proofs,
           const TrainingOptions& options)
      : lessons_(lessons), proofs_(proofs), options_(options) {
    for (const Lesson& proof : proofs) result_.proof_bounds.push_back(proof.bound);
  }

  TrainingResult Run() {
    ProveRule("agenda", AgendaPolicy(AgendaMean::kWholeGraph));
    ProveRule("depth", DepthPolicy());
    ProveRule("lb_greedy", LbGreedyPolicy());
    LearnAll(/*lowering=*/false, options_.most_nodes / 6);
    if (!Perfect()) LearnAll(/*lowering=*/true, options_.most_nodes / 6);
    if (!Perfect()) SearchAll(options_.most_nodes / 3 * 2);
    Publish();
    return std::move(result_);
  }

 private:
  static constexpr size_t kRulesOfThumb = 3;  // at the head of the candidates

  void Prove(OrderCandidate candidate, const Policy& policy) {
    Judge(candidate, policy);
    if (options_.progress) options_.progress(candidate);
    result_.candidates.push_back(std::move(candidate));
  }

  void Judge(OrderCandidate& candidate, const Policy& policy) {
    candidate.batches.clear();
    candidate.over_bound = 0;
    for (const Lesson& proof : proofs_) {
      candidate.batches.push_back(RunClosed(*proof.facts, policy).batches);
      candidate.over_bound += static_cast<double>(candidate.batches.back()) /
                              std::max(proof.bound, 1) / static_cast<double>(proofs_.size());
      result_.nodes += proof.facts->graph.size();
    }
  }

  void ProveRule(const char* name, const Policy& policy) {
    OrderCandidate candidate;
    candidate.name = name;
    Prove(std::move(candidate), policy);
  }

  void ProveTable(OrderCandidate candidate) {
    candidate.is_table = true;
    absl::StatusOr<FsmTable> table = FsmTable::Create(candidate.encoding, candidate.rules);
    Check(table.ok(), "a table was learned that is none");
    Prove(std::move(candidate), FsmPolicy(*std::move(table)));
  }

  // Some table is at every bound, so there is nothing left to find.
  bool Perfect() const {
    return std::any_of(result_.candidates.begin() + kRulesOfThumb, result_.candidates.end(),
                       [&](const OrderCandidate& c) { return c.batches == result_.proof_bounds; });
  }

  // ED-Batch's learner on the first lesson of about its size, the second where there are several.
  void LearnAll(bool lowering, int64_t most_nodes) {
    const Lesson& lesson = lessons_[std::min<size_t>(1, lessons_.size() - 1)];
    const int64_t runs = static_cast<int64_t>(std::size(kKinds)) * 2 * static_cast<int64_t>(kSeeds);
    const int64_t episodes = most_nodes / runs / std::max(lesson.facts->graph.size(), 1);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      for (const Kind kind : kKinds) {
        for (const bool clipped : {true, false}) {
          QLearningOptions q;
          q.encoding = {.kind = kind, .phases = 1, .lowering = lowering};
          q.seed = options_.seed + seed;
          q.clipped = clipped;
          // At least one evaluation.
          q.episodes =
              static_cast<int>(std::clamp<int64_t>(episodes, q.evaluate_every, q.episodes));
          Learn(lesson, q);
        }
      }
    }
  }

  void Learn(const Lesson& lesson, const QLearningOptions& q) {
    QLearningResult learned = LearnByQ(*lesson.facts, lesson.bound, q);
    OrderCandidate candidate;
    candidate.name = fmt::format("fsm {}, {} seed {}", NameOf(q.encoding),
                                 q.clipped ? "clipped" : "bootstrapped", q.seed);
    candidate.encoding = q.encoding;
    candidate.ties_by_chance = true;
    candidate.rules = std::move(learned.rules);
    candidate.episodes = learned.episodes;
    for (const LearningPoint& point : learned.curve) {
      candidate.curve.emplace_back(point.episodes,
                                   static_cast<double>(point.batches) / std::max(lesson.bound, 1));
    }
    result_.nodes += lesson.facts->graph.size() *
                     static_cast<int64_t>(learned.episodes + learned.episodes / q.evaluate_every);
    ProveTable(std::move(candidate));
  }

  // From nothing in each encoding, and from the best table that was learned in it.
  void SearchAll(int64_t most_nodes) {
    constexpr int64_t runs = kSearchesOfBase + 2 * kSearchesOfOthers + std::size(kKinds);
    for (const Kind kind : kKinds) {
      const StateEncoding encoding = {.kind = kind, .phases = 1, .lowering = true};
      const uint64_t seeds = kind == Kind::kBase ? kSearchesOfBase : kSearchesOfOthers;
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        Search(encoding, {}, "from lb_greedy", options_.seed + seed, most_nodes / runs);
      }
      const std::vector<FsmTable::Rule> learned = BestRules(encoding);
      Search(encoding, learned, "from learned", options_.seed, most_nodes / runs);
    }
  }

  void Search(const StateEncoding& encoding, absl::Span<const FsmTable::Rule> from,
              const char* origin, uint64_t seed, int64_t most_nodes) {
    TableSearchResult found = SearchTable(encoding, from, lessons_, seed, most_nodes);
    OrderCandidate candidate;
    candidate.name = fmt::format("fsm {}, searched {} seed {}", NameOf(encoding), origin, seed);
    candidate.encoding = encoding;
    candidate.ties_by_chance = !from.empty();
    candidate.rules = std::move(found.rules);
    candidate.episodes = found.trials;
    for (const SearchPoint& point : found.curve) {
      candidate.curve.emplace_back(point.trials, point.batches);
    }
    result_.nodes += found.nodes;
    ProveTable(std::move(candidate));
  }

  std::vector<FsmTable::Rule> BestRules(const StateEncoding& encoding) const {
    const OrderCandidate* best = nullptr;
    for (const OrderCandidate& c : result_.candidates) {
      if (!c.is_table || !(c.encoding == encoding)) continue;
      if (best == nullptr || c.over_bound < best->over_bound) best = &c;
    }
    return best == nullptr ? std::vector<FsmTable::Rule>{} : best->rules;
  }

  // The fewest batches over the proofs; a table that is as good as another, but has fewer states, goes before it.
  void Publish() {
    const OrderCandidate* rule = &result_.candidates[0];
    const OrderCandidate* table = nullptr;
    for (const OrderCandidate& c : result_.candidates) {
      if (!c.is_table) {
        if (c.over_bound < rule->over_bound) rule = &c;
        continue;
      }
      constexpr double kSame = 1e-9;
      const double gain = table == nullptr ? 1 : table->over_bound - c.over_bound;
      if (gain > kSame || (gain > -kSame && c.rules.size() < table->rules.size())) table = &c;
    }
    result_.table_is_best = table != nullptr && NotWorseAnywhere(*table);
    result_.published = result_.table_is_best ? Settled(*table) : *rule;
  }

  // Without what is in it by chance, if the proofs say that nothing else was.
  OrderCandidate Settled(const OrderCandidate& table) {
    if (!table.ties_by_chance) return table;
    OrderCandidate settled = table;
    SettledTable ties = SettleTies(table.encoding, table.rules, lessons_);
    result_.nodes += ties.nodes;
    settled.rules = std::move(ties.rules);
    Judge(settled, FsmPolicy(*FsmTable::Create(settled.encoding, settled.rules)));
    for (size_t p = 0; p < proofs_.size(); ++p) {
      if (settled.batches[p] > table.batches[p]) return table;
    }
    return settled;
  }

  // In the mean than any of the three, and on no proof than agenda or depth.
  bool NotWorseAnywhere(const OrderCandidate& table) const {
    for (size_t i = 0; i < kRulesOfThumb; ++i) {
      const OrderCandidate& other = result_.candidates[i];
      if (table.over_bound > other.over_bound + 1e-9) return false;
      for (size_t p = 0; p < proofs_.size(); ++p) {
        if (other.name != "lb_greedy" && table.batches[p] > other.batches[p]) return false;
      }
    }
    return true;
  }

  const absl::Span<const Lesson> lessons_, proofs_;
  const TrainingOptions& options_;
  TrainingResult result_;
};

}  // namespace

PolicySpec SpecOf(const OrderCandidate& candidate) {
  PolicySpec spec;
  spec.encoding = candidate.encoding;
  spec.rules = candidate.rules;
  spec.kind = candidate.is_table           ? PolicyKind::kFsm
              : candidate.name == "agenda" ? PolicyKind::kAgenda
              : candidate.name == "depth"  ? PolicyKind::kDepth
                                           : PolicyKind::kLbGreedy;
  return spec;
}

TrainingResult TrainOrder(absl::Span<const Lesson> lessons, absl::Span<const Lesson> proofs,
                          const TrainingOptions& options) {
  Check(!lessons.empty() && !proofs.empty(), "nothing to learn from, or nothing for the proof");
  return Training(lessons, proofs, options).Run();
}

}  // namespace cellbatch

#include "scheduler/offline/learn/q_learning.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>

#include "scheduler/offline/learn/q_table.h"
#include "scheduler/offline/replay.h"

namespace cellbatch {
namespace {

class Learner {
 public:
  Learner(const GraphFacts& facts, int32_t bound, const QLearningOptions& options)
      : options_(options),
        good_(static_cast<double>(bound) * options.near_enough),
        random_(options.seed),
        replay_(facts),
        table_(options.encoding, facts.graph.num_types()) {
    log_.reserve(static_cast<size_t>(facts.graph.size()));
  }

  QLearningResult Run() {
    QLearningResult result;
    result.batches = std::numeric_limits<int32_t>::max();
    double exploration = options_.exploration;
    while (result.episodes < options_.episodes) {
      Episode(exploration);
      Update();
      exploration =
          std::max(exploration * options_.exploration_falls_by, options_.least_exploration);
      if (++result.episodes % options_.evaluate_every != 0) continue;
      const int32_t batches = Evaluate();
      result.curve.push_back({result.episodes, batches});
      if (batches < result.batches) {
        result.batches = batches;
        result.rules = table_.Rules();
      }
      if (result.batches < good_) break;
    }
    return result;
  }

 private:
  struct Step {
    int32_t row, action;
    double reward;
  };

  bool Explores(double exploration) {
    return static_cast<double>(random_() >> 11) * 0x1p-53 < exploration;
  }

  int32_t AnyOf(uint32_t actions) {
    uint64_t skip = random_() % static_cast<uint64_t>(std::popcount(actions));
    for (; skip > 0; --skip) actions &= actions - 1;
    return std::countr_zero(actions);
  }

  // One complete batching.
  void Episode(double exploration) {
    log_.clear();
    for (replay_.Reset(); !replay_.done();) {
      const int32_t row = table_.RowOf(replay_.frontier());
      const int32_t action = Explores(exploration) ? AnyOf(table_.actions(row)) : table_.Best(row);
      const TypeView& view = replay_.frontier()[static_cast<size_t>(action)];
      const double part = static_cast<double>(view.ready) / static_cast<double>(view.nodes.heads);
      log_.push_back({row, action, options_.alpha * part - 1});
      replay_.Execute({CellTypeId(action)});
    }
  }

  // What the episode says of each of its decisions, in order.
  void Update() {
    for (size_t i = 0; i < log_.size(); ++i) {
      const size_t end = std::min(i + static_cast<size_t>(options_.steps), log_.size());
      double gain = 0;
      if (end < log_.size()) {
        const int32_t row = log_[end].row;
        gain = table_.value(row, table_.Best(row));
        if (options_.clipped) gain = std::max(gain, 0.0);
      }
      for (size_t j = end; j-- > i;) gain += log_[j].reward;
      double& value = table_.value(log_[i].row, log_[i].action);
      value += options_.learning_rate * (gain - value);
    }
  }

  // Batches if it does not explore.
  int32_t Evaluate() {
    for (replay_.Reset(); !replay_.done();) {
      const int32_t row = table_.Find(replay_.frontier());
      replay_.Execute(row != QTable::kNoRow ? Choice{CellTypeId(table_.Best(row))}
                                            : *fallback_.Choose(replay_.frontier()));
    }
    return replay_.batches();
  }

  const QLearningOptions options_;
  const double good_;
  std::mt19937_64 random_;
  Replay replay_;
  QTable table_;
  const LbGreedyPolicy fallback_;
  std::vector<Step> log_;
};

}  // namespace

QLearningResult LearnByQ(const GraphFacts& facts, int32_t bound, const QLearningOptions& options) {
  return Learner(facts, bound, options).Run();
}

}  // namespace cellbatch

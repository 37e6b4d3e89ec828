#include "scheduler/offline/learn/serving_curve.h"

#include <algorithm>
#include <vector>

#include "scheduler/offline/learn/learning_curve.h"

namespace cellbatch {
namespace {

OrderCandidate Drawn(const ServingCandidate& c, double algorithm_1_ns) {
  OrderCandidate drawn;
  drawn.name = c.name;
  drawn.is_table = c.is_table;
  drawn.episodes = c.trials;
  drawn.curve = c.curve;
  drawn.over_bound = c.objective_ns / algorithm_1_ns;
  return drawn;
}

}  // namespace

std::string ServingCurveSvg(const ServingTrainingResult& result, std::string_view title) {
  const double algorithm_1_ns = result.candidates[0].objective_ns;
  std::vector<OrderCandidate> drawn;
  double least = 1;
  for (const ServingCandidate& c : result.candidates) {
    drawn.push_back(Drawn(c, algorithm_1_ns));
    if (!c.is_table) least = std::min(least, drawn.back().over_bound);
    for (const auto& [trials, objective] : c.curve) least = std::min(least, objective);
  }
  const OrderCandidate published = Drawn(result.published, algorithm_1_ns);
  return CurveSvg(drawn, result.table_is_best ? &published : nullptr,
                  std::string(title) + ": mean and tail latency ÷ Algorithm 1's while learning",
                  least);
}

}  // namespace cellbatch

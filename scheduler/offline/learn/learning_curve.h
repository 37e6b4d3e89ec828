// The learning curve as a picture: batches in parts of the lower bound over episodes (of Q-learning) and tables tried (of
// search), a line for every table; the published one is drawn thick, and rules of thumb are dashed where their proofs
// lie.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_LEARNING_CURVE_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_LEARNING_CURVE_H_

#include <string>
#include <string_view>

#include "scheduler/offline/learn/trainer.h"

namespace cellbatch {

std::string LearningCurveSvg(const TrainingResult& result, std::string_view title);

// The same of anything that tables were tried for: `over_bound` and curves are in parts of something, and none lies below
// `least`. `published` null: none of the tables.
std::string CurveSvg(absl::Span<const OrderCandidate> candidates, const OrderCandidate* published,
                     std::string_view caption, double least);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_LEARNING_CURVE_H_

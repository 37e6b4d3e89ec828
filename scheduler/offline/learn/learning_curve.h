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

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_LEARNING_CURVE_H_

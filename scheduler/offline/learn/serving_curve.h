// The curve of learning for latency: the objective in parts of Algorithm 1's over tables tried; others are dashed where
// their proofs lie.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_CURVE_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_CURVE_H_

#include <string>
#include <string_view>

#include "scheduler/offline/learn/serving_trainer.h"

namespace cellbatch {

std::string ServingCurveSvg(const ServingTrainingResult& result, std::string_view title);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_CURVE_H_

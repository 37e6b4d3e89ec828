// Requests whose graphs may grow, through a scheduler in this process: unfolded, extended whenever they ask for it,
// answered. What server/requests does, without a server.
#ifndef CELLBATCH_TESTS_GOLDEN_GROWING_H_
#define CELLBATCH_TESTS_GOLDEN_GROWING_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cells/unfold/request_input.h"
#include "scheduler/scheduler.h"

namespace cellbatch::golden {

// Submits all at once and waits for all; by position. An answer's status is the request's.
std::vector<std::unique_ptr<Request>> AnswerGrowing(Scheduler& scheduler,
                                                    const std::shared_ptr<const Model>& model,
                                                    absl::Span<const RequestInput> inputs);

}  // namespace cellbatch::golden

#endif  // CELLBATCH_TESTS_GOLDEN_GROWING_H_

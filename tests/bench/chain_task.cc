#include "tests/bench/chain_task.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <utility>

#include "cells/device/signal.h"

namespace cellbatch {

ChainTask::ChainTask(const Model& model, const LoadedModel& loaded, int32_t batch, int32_t rows,
                     uint64_t seed) {
  std::vector<Row> order(static_cast<size_t>(rows - 1));
  std::iota(order.begin(), order.end(), 1);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  x_.assign(order.begin(), order.begin() + batch);
  before_.assign(order.begin() + batch, order.begin() + 2 * batch);
  after_.assign(order.begin() + 2 * batch, order.begin() + 3 * batch);
  task_.model = &loaded;
  task_.cell = model.types[0].id;
  task_.num_nodes = batch;
  task_.inputs[0].rows = x_.data();
}

double ChainTask::Run(Device& device, uint64_t sequence) {
  task_.sequence = sequence;
  std::swap(before_, after_);
  task_.inputs[1].rows = before_.data();
  task_.output_rows = after_.data();
  BatchedTask* const task = &task_;
  const auto start = std::chrono::steady_clock::now();
  device.Enqueue({&task, 1});
  while (!SignalPassed(device.Signal(), sequence)) device.Advance();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace cellbatch

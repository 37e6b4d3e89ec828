#include "tests/bench/one_core.h"

#include <utility>

#include "cells/device/cpu/cpu_device.h"
#include "tests/bench/in_process.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

DeviceSet FirstCore(int64_t fold_budget_bytes) {
  CpuOptions options;
  options.fold_budget_bytes = fold_budget_bytes;
  MeasureCpu(options);
  return Require(CpuDevices({{0}}, options), "a device");
}

}  // namespace

OneCore::OneCore(std::shared_ptr<const Model> model, int64_t fold_budget_bytes)
    : model_(model), stepped_(SchedulerOptions(), FirstCore(fold_budget_bytes), std::move(model)) {}

OneCore::Wave OneCore::Run(absl::Span<const zoo::Asked> asked, const std::string& output) {
  Scheduler& scheduler = stepped_.scheduler();
  std::vector<std::unique_ptr<Request>> requests;
  for (const zoo::Asked& a : asked) {
    requests.push_back(MakeRequest(model_, a, {output}, scheduler.max_tasks_in_flight()));
  }
  const uint64_t steps_before = StepsDone();
  Wave wave;
  const int64_t start = stepped_.NowNs();
  for (std::unique_ptr<Request>& r : requests) {
    if (!scheduler.Submit(r)) Require(absl::InternalError("queue full"), "submitting");
  }
  const auto since = [&] { return static_cast<double>(stepped_.NowNs() - start) * 1e-9; };
  // Looked at as soon as the manager has seen a task done, before the next one is computed.
  for (scheduler.StepManager(); StepsDone() == steps_before; scheduler.StepManager()) {
    scheduler.StepWorker(0);
  }
  wave.first_step_seconds = since();
  stepped_.StepUntilIdle();
  wave.seconds = since();
  std::vector<std::unique_ptr<Request>> finished(asked.size());
  size_t left = asked.size();
  while (left > 0) {
    left -= static_cast<size_t>(scheduler.Take(OutboxId(0), absl::MakeSpan(finished)));
    for (const std::unique_ptr<Request>& r : finished) {
      if (r != nullptr) Require(r->status, "a request");
    }
  }
  return wave;
}

std::vector<zoo::Asked> VectorSequences(int n, int64_t steps, int64_t width) {
  std::vector<zoo::Asked> asked;
  for (int i = 0; i < n; ++i) {
    const std::vector<float> x = testing::RandomFloats(steps * width, static_cast<uint64_t>(i) + 1);
    Tensor tensor;
    tensor.name = "X";
    tensor.datatype = "FP32";
    tensor.shape = {steps, width};
    tensor.bytes.assign(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
    asked.push_back({{std::move(tensor)}, {}, {}});
  }
  return asked;
}

}  // namespace cellbatch

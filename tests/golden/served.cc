#include "tests/golden/served.h"

#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cpu_device.h"

namespace cellbatch::golden {

absl::StatusOr<std::unique_ptr<Served>> Served::Start(int devices, int max_tasks_in_flight) {
  std::unique_ptr<Served> served(new Served);
  const std::vector<std::vector<int>> cpu_sets(static_cast<size_t>(devices), std::vector<int>{0});
  auto set = CpuDevices(cpu_sets, CpuOptions{});
  if (!set.ok()) return set.status();
  SchedulerOptions options;
  options.max_tasks_in_flight = max_tasks_in_flight;
  options.calibrate = false;  // what is asked here does not depend on how fast it is
  options.spin = absl::ZeroDuration();
  options.row_budget_bytes = int64_t{64} << 20;
  auto scheduler = Scheduler::Create(options, *std::move(set), served->clock_);
  if (!scheduler.ok()) return scheduler.status();
  served->scheduler_ = *std::move(scheduler);
  return served;
}

Served::~Served() {
  if (scheduler_ == nullptr) return;
  for (const auto& model : models_) scheduler_->RemoveModel(model->id).IgnoreError();
  scheduler_->Stop();
}

absl::Status Served::Add(std::shared_ptr<const Model> model) {
  models_.push_back(model);
  return scheduler_->AddModel(std::move(model), nullptr);
}

std::vector<std::unique_ptr<Request>> Served::Answer(const std::shared_ptr<const Model>& model,
                                                     std::vector<CellGraph> graphs) {
  for (size_t i = 0; i < graphs.size(); ++i) {
    auto request = std::make_unique<Request>();
    request->tag = i;
    request->model = model;
    request->graph = std::move(graphs[i]);
    request->times.submitted = clock_.NowNs();
    Check(scheduler_->Submit(request).has_value(), "room for every request");
  }
  std::vector<std::unique_ptr<Request>> answers(graphs.size());
  std::vector<std::unique_ptr<Request>> taken(64);
  for (size_t left = answers.size(); left > 0;) {
    const int got = scheduler_->Take(OutboxId(0), absl::MakeSpan(taken));
    for (int i = 0; i < got; ++i) {
      auto& request = taken[static_cast<size_t>(i)];
      const size_t place = request->tag;
      answers[place] = std::move(request);
    }
    left -= static_cast<size_t>(got);
    if (got == 0) scheduler_->WaitForFinished(OutboxId(0), absl::Seconds(1));
  }
  return answers;
}

}  // namespace cellbatch::golden

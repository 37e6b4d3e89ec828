#include "tests/bench/stepped.h"

#include <sched.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "cells/device/cpu/cpu_device.h"
#include "cells/unfold/unfolder.h"
#include "server/repository/model_loader.h"
#include "tests/bench/in_process.h"

namespace cellbatch {
namespace {

std::string NewFolder() {
  std::string name = std::filesystem::temp_directory_path() / "cellbatch-zoo-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    std::fprintf(stderr, "no folder can be made for the models: %s\n", name.c_str());
    std::exit(1);
  }
  return name;
}

WireType TypeOf(const Tensor& tensor) {
  return tensor.datatype == "FP32" ? WireType::kFp32 : WireType::kInt32;
}

}  // namespace

WorkloadFolder::WorkloadFolder(const zoo::Workload& workload, const std::string& more)
    : repository_(NewFolder()), model_(repository_ + "/" + workload.name) {
  workload.model.Write(repository_, workload.name, more);
}

WorkloadFolder::~WorkloadFolder() { std::filesystem::remove_all(repository_); }

std::shared_ptr<const Model> LoadWorkload(const zoo::Workload& workload, ModelId id,
                                          const std::string& more) {
  const WorkloadFolder folder(workload, more);
  LoaderLimits limits;
  limits.splits_fp32 = SplitsFp32(CpuOptions());
  return Require(LoadModel(folder.model(), workload.name, 1, id, limits),
                 "loading " + workload.name);
}

std::unique_ptr<Request> MakeRequest(std::shared_ptr<const Model> model, const zoo::Asked& asked,
                                     const std::vector<std::string>& outputs,
                                     int max_tasks_in_flight) {
  RequestInput input;
  for (const Tensor& tensor : asked.inputs) {
    input.tensors.push_back(
        {tensor.name,
         TypeOf(tensor),
         TensorDims(tensor.shape.begin(), tensor.shape.end()),
         {reinterpret_cast<const std::byte*>(tensor.bytes.data()), tensor.bytes.size()}});
  }
  const std::vector<std::string>& named = outputs.empty() ? asked.outputs : outputs;
  input.outputs.assign(named.begin(), named.end());
  for (const auto& [name, value] : asked.parameters) input.parameters.push_back({name, value});
  auto request = std::make_unique<Request>();
  Require(model->unfolder->Unfold(input, request->graph), "unfolding for " + model->name);
  Require(request->graph.Seal(*model, max_tasks_in_flight), "sealing for " + model->name);
  request->model = std::move(model);
  return request;
}

Stepped::Stepped(SchedulerOptions options, const std::string& device_spec,
                 std::shared_ptr<const Model> model)
    : Stepped(std::move(options), MakeDevices(device_spec), std::move(model)) {}

Stepped::Stepped(SchedulerOptions options, DeviceSet device, std::shared_ptr<const Model> model) {
  options.threads = false;
  sched_getaffinity(0, sizeof(all_), &all_);
  others_ = all_;
  scheduler_ = Require(Scheduler::Create(options, std::move(device), clock_), "scheduler");
  if (scheduler_->stats().Devices().size() != 1) {
    Require(absl::InvalidArgumentError("one device is wanted"), "--devices");
  }
  Require(scheduler_->AddModel(model, nullptr), "adding " + model->name);
  // Now, so that the device's threads have not inherited it; the device may have pinned this one already.
  cpu_set_t mine;
  sched_getaffinity(0, sizeof(mine), &mine);
  int core = 0;
  while (!CPU_ISSET(core, &mine)) ++core;
  if (CPU_COUNT(&all_) > 1) {
    CPU_ZERO(&mine);
    CPU_SET(core, &mine);
    sched_setaffinity(0, sizeof(mine), &mine);
    CPU_CLR(core, &others_);
  }
  last_ns_ = clock_.NowNs();
}

void Stepped::KeepOff() const { sched_setaffinity(0, sizeof(others_), &others_); }

Stepped::~Stepped() {
  sched_setaffinity(0, sizeof(all_), &all_);
  scheduler_->Stop();
}

bool Stepped::Step() {
  const bool managed = scheduler_->StepManager();
  const bool worked = scheduler_->StepWorker(0) || managed;
  const int64_t now = clock_.NowNs();
  seen_ns_ = all_ns_;
  if (worked) all_ns_ += now - last_ns_;
  last_ns_ = now;
  return worked;
}

void Stepped::StepUntilIdle() {
  while (Step()) {
  }
}

Stepped::Times Stepped::times() const {
  return {seen_ns_, scheduler_->stats().Devices()[0].busy_ns};
}

}  // namespace cellbatch

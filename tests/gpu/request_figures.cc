#include "tests/gpu/request_figures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cellbatch {
namespace {

std::string Shown(std::optional<double> value, int digits) {
  return value ? Number(*value, digits) : std::string("-");
}

Table FullTable() {
  return Table({"model", "devices", "in flight", "b_max", "mean batch", "a launch", "mean cells",
                "requests/s", "of ideal", "idle"});
}

Table LimitsTable() {
  return Table({"model", "devices", "drivers", "busy", "make us", "submit us", "take us", "free us",
                "at drivers", "ready cells", "manager cores", "worker cores"});
}

Table OpenTable() {
  return Table({"model", "requests/s", "answered/s", "measured", "mean batch", "p50 us", "p99 us",
                "late p99 us"});
}

}  // namespace

RequestFigures::RequestFigures(RequestPlan plan, DevicesOf devices, Report& report)
    : plan_(std::move(plan)),
      devices_(std::move(devices)),
      report_(report),
      places_({{"cuda:0", "", {0}, 1}, {"cuda:0,cuda:0", "_2queues", {0, 0}, 1}}),
      full_(FullTable()),
      limits_(LimitsTable()),
      open_(OpenTable()) {
  if (plan_.num_gpus > 1) places_.push_back({"cuda:0,cuda:1", "_2gpus", {0, 1}, 2});
}

bool RequestFigures::Add(const std::shared_ptr<const Model>& model, std::optional<double> best_us) {
  for (const Place& place : places_) {
    const bool open = plan_.latency && place.ordinals.size() == 1;
    if (!plan_.saturation && !open) continue;
    auto serving = GpuServing::Make(devices_(place.ordinals), model, plan_.lengths,
                                    plan_.num_drivers, plan_.seed);
    if (absl::IsUnimplemented(serving.status())) {
      report_.Text(absl::StrCat("requests, ", model->name, ": not offered by ", place.shown, "\n"));
      return false;
    }
    const absl::Status status = serving.ok()
                                    ? Measure(model->name + plan_.suffix, place, **serving, best_us)
                                    : serving.status();
    if (!status.ok()) {  // figures of others are still worth having
      report_.Text(absl::StrCat("FAILED: ", model->name, " on ", place.shown, ": ",
                                status.ToString(), "\n"));
      failed_ = true;
    }
  }
  return true;
}

absl::Status RequestFigures::Measure(const std::string& name, const Place& place,
                                     GpuServing& serving, std::optional<double> best_us) {
  const bool open = plan_.latency && place.ordinals.size() == 1;
  double per_s = plan_.per_s;
  if (plan_.saturation || (open && per_s == 0)) {
    const absl::StatusOr<FullGpu> full = serving.Full(plan_.seconds);
    if (!full.ok()) return full.status();
    if (plan_.saturation) AddFull(name, place, serving, *full, best_us);
    if (per_s == 0) per_s = plan_.load * full->requests_per_s;
  }
  if (!open) return absl::OkStatus();
  const absl::StatusOr<OpenGpu> latency = serving.Open(per_s, plan_.seconds);
  if (latency.ok()) AddOpen(name, *latency);
  return latency.status();
}

void RequestFigures::AddFull(const std::string& name, const Place& place, const GpuServing& serving,
                             const FullGpu& full, std::optional<double> best_us) {
  any_full_ = true;
  std::optional<double> of_ideal;
  if (best_us) of_ideal = full.requests_per_s * full.mean_cells * *best_us / 1e6 / place.num_gpus;
  full_.Add({name, place.shown, std::to_string(serving.in_flight()),
             std::to_string(serving.b_max()), Number(full.mean_batch, 1),
             Number(full.tasks_a_launch, 2), Number(full.mean_cells, 1),
             Number(full.requests_per_s, 1), Shown(of_ideal, 3), Number(full.idle, 3)});
  const auto us = [&](int64_t ns) {
    const auto requests = static_cast<double>(std::max<int64_t>(1, full.work.requests));
    return Number(static_cast<double>(ns) / 1e3 / requests, 2);
  };
  limits_.Add({name, place.shown, std::to_string(serving.num_drivers()),
               Number(full.drivers_busy, 2), us(full.work.make_ns), us(full.work.submit_ns),
               us(full.work.take_ns), us(full.work.free_ns), Number(full.at_drivers, 3),
               Number(full.ready, 0), Shown(full.manager_cores, 2), Shown(full.worker_cores, 2)});
  const std::string figure = "gpu.saturation." + name + place.suffix + ".";
  const bool shared = place.ordinals.size() > static_cast<size_t>(place.num_gpus);
  report_.Figure(figure + "requests_per_s", full.requests_per_s, "1/s");
  if (of_ideal) report_.Figure(figure + "of_ideal", *of_ideal, "x");
  report_.Figure(figure + (shared ? "queue_idle" : "idle"), full.idle, "x");
  report_.Figure(figure + "mean_batch", full.mean_batch, "cells");
  report_.Figure(figure + "tasks_a_launch", full.tasks_a_launch, "tasks");
}

void RequestFigures::AddOpen(const std::string& name, const OpenGpu& open) {
  any_open_ = true;
  open_.Add({name, Number(open.asked_per_s, 1), Number(open.answered_per_s, 1),
             std::to_string(open.measured), Number(open.mean_batch, 1), Number(open.p50_us, 1),
             Number(open.p99_us, 1), Number(open.late_p99_us, 1)});
  report_.Figure("gpu.latency." + name + ".p50_us", open.p50_us, "us");
  report_.Figure("gpu.latency." + name + ".p99_us", open.p99_us, "us");
}

void RequestFigures::Tell() {
  if (any_full_) {
    report_.Text("requests at saturation\n" + full_.ToString());
    report_.Text("what a request costs who sends it, and who waits for whom\n" +
                 limits_.ToString());
  }
  if (any_open_) {
    report_.Text("requests that come as a Poisson process, one queue\n" + open_.ToString());
  }
  any_full_ = any_open_ = false;
  full_ = FullTable();
  limits_ = LimitsTable();
  open_ = OpenTable();
}

}  // namespace cellbatch

#include "scheduler/offline/world/serving_world.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr size_t kTaskMemoryBytes = size_t{16} << 20;
constexpr size_t kTakeAtOnce = 64;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

int64_t QuantileOf(std::vector<int64_t> values, double quantile) {
  if (values.empty()) return 0;
  const auto n = static_cast<double>(values.size());
  const auto rank = static_cast<int64_t>(std::ceil(quantile * n)) - 1;
  const auto at =
      values.begin() + std::clamp<int64_t>(rank, 0, static_cast<int64_t>(values.size()) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

namespace {

// Of all lanes and devices so far.
struct Totals {
  int64_t tasks = 0, nodes = 0, busy_ns = 0, manager_ns = 0;
};

Totals TotalsOf(const SchedulerStats& stats, int64_t manager_ns) {
  Totals totals;
  totals.manager_ns = manager_ns;
  for (const LaneStats& lane : stats.Lanes()) {
    for (const CellTypeStats& type : lane.types) {
      totals.tasks += static_cast<int64_t>(type.tasks);
      totals.nodes += static_cast<int64_t>(type.cells);
    }
  }
  for (const DeviceStats& device : stats.Devices()) totals.busy_ns += device.busy_ns;
  return totals;
}

}  // namespace

// One run of a list.
struct ServingWorld::Playing {
  absl::Span<const Arrival> arrivals;
  bool closed;  // whoever leaves lets the next one in
  int most;     // in flight
  int64_t begin_ns;
  Totals before;
  size_t next = 0;                        // of the arrivals
  size_t answered = 0;                    // OK or not
  std::vector<WorldAnswer> answers = {};  // by arrival
  std::vector<int64_t> ends = {};         // of answers, as they came
};

ServingWorld::ServingWorld(const WorldOptions& options, std::vector<WorldLane> lanes)
    : options_(options), lanes_(std::move(lanes)), free_(lanes_.size()) {
  for (size_t l = 0; l < lanes_.size(); ++l) {
    auto model = std::make_shared<Model>(*WithBatchesOf(lanes_[l].costs, *lanes_[l].model));
    model->id = ModelId(static_cast<int64_t>(l) + 1);
    lanes_[l].model = std::move(model);
  }
  for (const WorldStall& stall : options_.stalls) {
    longest_stall_ns_ = std::max(longest_stall_ns_, stall.ns);
  }
  MakeDevices();
  for (WorldLane& lane : lanes_) {
    const absl::Status added = scheduler_->AddModel(lane.model, std::move(lane.rules));
    Check(added.ok(), added.ToString());
  }
  for (SimDevice* device : devices_) device->set_moves_time(false);
  idle_since_ns_ = now_ns();
  loaded_ = true;
}

// Stop lets devices finish what they have.
ServingWorld::~ServingWorld() {
  for (SimDevice* device : devices_) device->set_moves_time(true);
  scheduler_->Stop();
  std::array<std::unique_ptr<Request>, kTakeAtOnce> left;
  while (scheduler_->Take(OutboxId(0), absl::MakeSpan(left)) > 0) {
  }
}

DeviceSet ServingWorld::MadeDevices() {
  DeviceSet set;
  for (int d = 0; d < options_.devices; ++d) {
    if (d == 0 || options_.own_memories) {
      set.memories.push_back(std::make_unique<SimMemory>(SimMemoryOptions{.fingerprints = false}));
    }
    SimDeviceOptions device;
    device.name = absl::StrCat("sim:", d);
    device.task_memory_bytes = kTaskMemoryBytes;
    device.runs = options_.runs_by_itself ? SimRuns::kInTime : SimRuns::kInAdvance;
    device.tasks_a_launch = options_.tasks_a_launch;
    device.launch_ns = options_.launch_ns;
    device.task_ns = [this, d](const BatchedTask& task) {
      if (loaded_ && options_.started) options_.started(d, task);
      return TaskNs(task);
    };
    auto made = std::make_unique<SimDevice>(
        std::move(device), static_cast<SimMemory&>(*set.memories.back()), clock_.time());
    devices_.push_back(made.get());
    set.devices.push_back(std::move(made));
  }
  return set;
}

void ServingWorld::MakeDevices() {
  SchedulerOptions scheduler;
  scheduler.batch_limit = 1;
  for (const WorldLane& lane : lanes_) {
    for (const TypeCosts& type : lane.costs.types()) {
      scheduler.batch_limit = std::max({scheduler.batch_limit, type.max_batch, type.peak_batch});
    }
  }
  scheduler.max_tasks_in_flight = options_.max_tasks_in_flight;
  scheduler.few_tasks_in_flight = options_.few_tasks_in_flight;
  scheduler.max_requests = options_.max_requests;
  scheduler.max_wait_tasks = options_.max_wait_tasks;
  scheduler.chain_turn = options_.chain_turn;
  scheduler.priority_ageing = options_.priority_ageing;
  scheduler.row_budget_bytes = options_.row_budget_bytes;
  scheduler.task_time_limit = absl::InfiniteDuration();
  scheduler.calibrate = false;
  scheduler.threads = false;
  auto made = Scheduler::Create(scheduler, MadeDevices(), clock_);
  Check(made.ok(), made.status().ToString());
  scheduler_ = *std::move(made);
}

int64_t ServingWorld::TaskNs(const BatchedTask& task) {
  const auto lane = task.model->model().id.value() - 1;
  const int64_t ns = lanes_[Index(lane)].costs.Ns(task.cell, task.num_nodes);
  if (!loaded_) return ns;
  const int64_t at_ns = now_ns() - begin_ns_;
  const double times = PaceOf(Index(task.cell.value()), at_ns);
  const auto paced_ns = std::max<int64_t>(std::llround(static_cast<double>(ns) * times), 1);
  return paced_ns + StalledNs(at_ns, paced_ns);
}

double ServingWorld::PaceOf(size_t type, int64_t at_ns) const {
  if (type >= options_.pace.size() || options_.pace[type].empty()) return 1;
  const std::vector<WorldPace>& pace = options_.pace[type];
  at_ns %= std::max<int64_t>(pace.back().at_ns, 1);
  const auto next = std::upper_bound(pace.begin(), pace.end(), at_ns,
                                     [](int64_t at, const WorldPace& p) { return at < p.at_ns; });
  return next == pace.begin() ? next->times : std::prev(next)->times;
}

// Of a task that begins then and has so much to do.
int64_t ServingWorld::StalledNs(int64_t start_ns, int64_t ns) const {
  const auto& stalls = options_.stalls;
  // None lasts longer than the longest, which ended before if it began so much earlier.
  auto stall = std::lower_bound(stalls.begin(), stalls.end(), start_ns - longest_stall_ns_,
                                [](const WorldStall& s, int64_t at_ns) { return s.at_ns < at_ns; });
  int64_t end_ns = start_ns + ns;
  for (; stall != stalls.end() && stall->at_ns < end_ns; ++stall) {
    end_ns += std::max<int64_t>(stall->at_ns + stall->ns - std::max(stall->at_ns, start_ns), 0);
  }
  return end_ns - start_ns - ns;
}

// By hand ----------------------------------------------------------------------------------------

std::vector<std::unique_ptr<Request>>& ServingWorld::FreeOf(int32_t lane, int32_t shape) {
  auto& by_shape = free_[Index(lane)];
  if (by_shape.size() <= Index(shape)) by_shape.resize(Index(shape) + 1);
  return by_shape[Index(shape)];
}

// What was answered is as good as new: the scheduler compiles it again.
std::unique_ptr<Request> ServingWorld::RequestOf(int32_t lane, int32_t shape) {
  auto& free = FreeOf(lane, shape);
  if (!free.empty()) {
    std::unique_ptr<Request> request = std::move(free.back());
    free.pop_back();
    return request;
  }
  auto request = std::make_unique<Request>();
  request->model = lanes_[Index(lane)].model;
  request->graph = lanes_[Index(lane)].make(shape, scheduler_->max_tasks_in_flight());
  return request;
}

bool ServingWorld::Submit(int32_t lane, int32_t shape, uint64_t tag, int32_t priority) {
  std::unique_ptr<Request> request = RequestOf(lane, shape);
  if (free_tickets_.empty()) {
    free_tickets_.push_back(tickets_.size());
    tickets_.emplace_back();
  }
  request->tag = free_tickets_.back();
  request->times.submitted = now_ns();
  request->priority = priority;
  tickets_[request->tag] = {lane, shape, tag};
  if (!scheduler_->Submit(request).has_value()) {
    FreeOf(lane, shape).push_back(std::move(request));
    return false;
  }
  free_tickets_.pop_back();
  ++outstanding_;
  return true;
}

bool ServingWorld::StepManager() {
  if (!options_.manager_ns || !loaded_) return scheduler_->StepManager();
  const int64_t before = options_.manager_ns();
  if (!scheduler_->StepManager()) return false;
  const int64_t took = options_.manager_ns() - before;
  manager_ns_ += took;
  clock_.time().AdvanceTo(now_ns() + took);
  return true;
}

bool ServingWorld::Step() {
  const int num_devices = static_cast<int>(devices_.size());
  bool worked = false;
  for (int d = 0; d < num_devices; ++d) worked |= scheduler_->StepWorker(d);
  if (!StepManager()) return worked;
  TakeAll();
  for (int d = 0; d < num_devices; ++d) scheduler_->StepWorker(d);
  return true;
}

bool ServingWorld::Rest(int64_t until) {
  const std::optional<int64_t> event = NextEventNs(devices_);
  const int64_t next = std::min(event.value_or(until), until);
  if (next == std::numeric_limits<int64_t>::max()) return false;
  clock_.time().AdvanceTo(next);
  return true;
}

void ServingWorld::TakeAll() {
  std::array<std::unique_ptr<Request>, kTakeAtOnce> some;
  while (const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(some))) {
    for (int i = 0; i < n; ++i) Answered(std::move(some[Index(i)]));
  }
}

void ServingWorld::Answered(std::unique_ptr<Request> request) {
  const Ticket ticket = tickets_[request->tag];
  free_tickets_.push_back(request->tag);
  if (--outstanding_ == 0) idle_since_ns_ = now_ns();
  if (options_.answered) options_.answered(ticket.tag, *request);
  if (playing_ != nullptr) {
    Playing& p = *playing_;
    ++p.answered;
    if (request->status.ok()) {
      const RequestTimes& times = request->times;
      const int64_t due = p.closed ? times.submitted : p.begin_ns + p.arrivals[ticket.tag].at_ns;
      p.answers[ticket.tag] = {.queue_ns = times.first_task_start - due,
                               .compute_ns = times.last_task_end - times.first_task_start,
                               .nodes = request->nodes_executed,
                               .ok = true};
      p.ends.push_back(times.last_task_end);
    }
  }
  FreeOf(ticket.lane, ticket.shape).push_back(std::move(request));
}

// A whole list -----------------------------------------------------------------------------------

// Those that are due, as far as there is room. Who comes where everybody sleeps is seen only when they are awake.
bool ServingWorld::LetIn(Playing& p) {
  bool any = false;
  while (p.next < p.arrivals.size() && outstanding_ < p.most) {
    const Arrival& arrival = p.arrivals[p.next];
    if (!p.closed && p.begin_ns + arrival.at_ns > now_ns()) break;
    const bool asleep =
        options_.wake_ns > 0 && outstanding_ == 0 && now_ns() - idle_since_ns_ >= options_.spin_ns;
    if (!Submit(arrival.lane, arrival.shape, p.next, arrival.priority)) break;
    ++p.next;
    any = true;
    if (asleep) clock_.time().AdvanceTo(now_ns() + options_.wake_ns);
  }
  return any;
}

void ServingWorld::Play(Playing& p) {
  Check(outstanding_ == 0, "a world is played while something is under way");
  begin_ns_ = p.begin_ns;
  p.answers.resize(p.arrivals.size());
  p.ends.reserve(p.arrivals.size());
  playing_ = &p;
  while (p.answered < p.arrivals.size()) {
    const bool came = LetIn(p);
    if (Step() || came) continue;
    // Who is due and not let in waits for an answer.
    int64_t until = std::numeric_limits<int64_t>::max();
    if (!p.closed && p.next < p.arrivals.size()) {
      const int64_t due = p.begin_ns + p.arrivals[p.next].at_ns;
      if (due > now_ns()) until = due;
    }
    Check(Rest(until), "a world stands still while requests are out");
  }
  playing_ = nullptr;
}

WorldReport ServingWorld::ReportOf(Playing& p, size_t skipped) const {
  WorldReport report;
  std::vector<int64_t> latencies;
  for (size_t i = 0; i < p.answers.size(); ++i) {
    if (!p.answers[i].ok) ++report.failed;
    if (i >= skipped && p.answers[i].ok) latencies.push_back(p.answers[i].latency_ns());
  }
  double sum = 0;
  for (const int64_t ns : latencies) sum += static_cast<double>(ns);
  report.mean_ns = latencies.empty() ? 0 : sum / static_cast<double>(latencies.size());
  report.p50_ns = QuantileOf(latencies, 0.50);
  report.p99_ns = QuantileOf(std::move(latencies), 0.99);
  const Totals after = TotalsOf(scheduler_->stats(), manager_ns_);
  report.tasks = after.tasks - p.before.tasks;
  report.nodes = after.nodes - p.before.nodes;
  report.max_tasks_in_flight = scheduler_->max_tasks_in_flight();
  report.manager_ns = after.manager_ns - p.before.manager_ns;
  const auto elapsed = static_cast<double>(now_ns() - p.begin_ns);
  report.device_busy = static_cast<double>(after.busy_ns - p.before.busy_ns) / elapsed /
                       static_cast<double>(devices_.size());
  report.answers = std::move(p.answers);
  // While a closed loop was full: from its first tenth to where nobody was left to come in.
  const size_t from = p.closed ? p.ends.size() / 10 : 0;
  const size_t to =
      p.closed ? p.ends.size() - std::min<size_t>(p.ends.size(), Index(p.most)) : p.ends.size();
  if (to > from + 1) {
    const int64_t first = p.closed ? p.ends[from] : p.begin_ns + p.arrivals[0].at_ns;
    report.requests_per_s = static_cast<double>(to - from - (p.closed ? 1 : 0)) /
                            static_cast<double>(p.ends[to - 1] - first) * 1e9;
  }
  return report;
}

WorldReport ServingWorld::Run(absl::Span<const Arrival> arrivals, size_t skipped) {
  Playing playing = {.arrivals = arrivals,
                     .closed = false,
                     .most = std::numeric_limits<int>::max(),
                     .begin_ns = now_ns(),
                     .before = TotalsOf(scheduler_->stats(), manager_ns_)};
  Play(playing);
  return ReportOf(playing, skipped);
}

WorldReport ServingWorld::RunClosed(absl::Span<const Arrival> arrivals, int in_flight) {
  Playing playing = {.arrivals = arrivals,
                     .closed = true,
                     .most = in_flight,
                     .begin_ns = now_ns(),
                     .before = TotalsOf(scheduler_->stats(), manager_ns_)};
  Play(playing);
  return ReportOf(playing, 0);
}

}  // namespace cellbatch

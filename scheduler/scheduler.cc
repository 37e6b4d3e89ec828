#include "scheduler/scheduler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "scheduler/answer_box.h"
#include "scheduler/device_places.h"
#include "scheduler/lane_table.h"
#include "scheduler/living_devices.h"
#include "scheduler/manager.h"
#include "scheduler/record/record_of.h"
#include "scheduler/record/recorder.h"
#include "scheduler/scheduler_loops.h"
#include "scheduler/scheduler_stats.h"
#include "scheduler/warm/background.h"
#include "scheduler/warm/kept_times.h"
#include "scheduler/warm/warm_up_pace.h"

namespace cellbatch {
namespace {

// Between two looks of a control thread that waits. Each wakes it: one every 0.2 ms cost a twentieth of a core.
constexpr std::chrono::microseconds kFirstLook(200), kLaterLooks(1000);
constexpr int kFirstLooks = 25;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

class SchedulerImpl final : public Scheduler {
 public:
  SchedulerImpl(const SchedulerOptions& options, int depth, DeviceSet devices, const Clock& clock,
                std::vector<int> memory_of);
  ~SchedulerImpl() override;

  void ExpectModels(absl::Span<const Model* const> models) override {
    std::lock_guard<std::mutex> control(control_mutex_);
    for (const auto& memory : devices_.memories) {
      std::vector<const Model*> there;
      std::copy_if(models.begin(), models.end(), std::back_inserter(there),
                   [&](const Model* model) { return model->devices.Has(memory->kind()); });
      memory->Expect(there);
    }
  }
  absl::Status AddModel(std::shared_ptr<const Model> model, LaneRules rules) override;
  absl::Status RemoveModel(ModelId model) override;
  absl::Status SetPolicy(ModelId model, LaneRules rules) override;
  std::vector<CellTypeCalibration> Calibration(ModelId model) const override;
  std::vector<int32_t> MaxRowsPerRequest(ModelId model) const override;
  int max_tasks_in_flight() const override { return depth_; }
  std::optional<RequestId> Submit(std::unique_ptr<Request>& request) override;
  void Notify(RequestId id, News news) override;
  using Scheduler::Take;
  int Take(OutboxId outbox, absl::Span<Delivery> out) override;
  void Extended(Request& request, absl::Status extended) override;
  void WaitForFinished(OutboxId outbox, absl::Duration at_most) override {
    answers_.WaitForFinished(outbox, at_most);
  }
  void WakeOutbox(OutboxId outbox) override { answers_.Wake(outbox); }
  void Stop() override;
  const SchedulerStats& stats() const override { return stats_; }
  absl::Status DeviceHealth() const override { return living_.Health(); }
  bool any_device_left() const override { return living_.NumLeft(~MemorySet{0}) > 0; }
  bool StepManager() override { return manager_->Step(); }
  bool StepWorker(int device) override { return workers_[Index(device)]->Step(); }
  absl::Status CheckInvariants() const override { return manager_->CheckInvariants(); }

 private:
  absl::StatusOr<std::vector<Lane::Loaded>> Load(const Model& model);
  // Compiles the latest piece; its copies meet memory that devices reach. The caller's thread.
  absl::Status Build(Request& request, bool node_facts, std::byte* slab, RequestBlock** built);
  // Hands a message to the manager and waits until it came true; without loops, makes it come true.
  // `look` is called now and then, with whether nothing moves; true: it wrote to the message.
  void Send(ControlMessage& message, absl::FunctionRef<bool(bool)> look);
  absl::Status Warm(Lane& lane, WarmUpPace pace);
  // What lanes do that live in one of those memories.
  WarmUpPace::Seen Neighbours(MemorySet memories, const Lane* without) const;

  const SchedulerOptions options_;
  const int depth_;
  const Clock& clock_;
  DeviceSet devices_;
  const std::vector<int> memory_of_;  // by device: index into devices_.memories
  RequestSlots slots_;
  BlockSlab slab_;
  MpscRing messages_;
  std::vector<std::unique_ptr<TaskRing>> rings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const LivingDevices living_{devices_, memory_of_, workers_};
  AnswerBox answers_;
  std::vector<std::unique_ptr<Doorbell>> worker_bells_;
  Doorbell manager_bell_;
  std::vector<DeviceCounters> device_counters_;
  std::unique_ptr<Manager> manager_;

  std::mutex control_mutex_;  // one control call at a time; held long
  LaneTable lanes_;
  std::atomic<bool> stopping_ = false, stopped_ = false;
  SchedulerStatsReader stats_;
  // Last: their threads use everything above. Null: there are none.
  std::unique_ptr<SchedulerLoops> loops_;
};

SchedulerImpl::SchedulerImpl(const SchedulerOptions& options, int depth, DeviceSet devices,
                             const Clock& clock, std::vector<int> memory_of)
    : options_(options),
      depth_(depth),
      clock_(clock),
      devices_(std::move(devices)),
      memory_of_(std::move(memory_of)),
      slots_(options.max_requests),
      slab_(options.max_requests),
      messages_(2 * Index(options.max_requests)),
      answers_(
          options.num_outboxes, slots_, clock,
          [this](const Request& request) {
            return living_.Health(living_.MemoriesOf(request.model->devices));
          },
          options.recorder),
      device_counters_(devices_.devices.size()),
      stats_(lanes_) {
  for (size_t d = 0; d < devices_.devices.size(); ++d) {
    Device& device = *devices_.devices[d];
    rings_.push_back(std::make_unique<TaskRing>(device.task_memory(), depth_, options_.batch_limit,
                                                device.Signal()));
    workers_.push_back(std::make_unique<Worker>(device, *rings_.back(), clock));
    worker_bells_.push_back(std::make_unique<Doorbell>());
    stats_.AddDevice(device.info(), *rings_.back(), *workers_.back(), device_counters_[d]);
  }
  ManagerParts parts;
  parts.workers = workers_;
  parts.rings = rings_;
  parts.memory_of = memory_of_;
  parts.outboxes = answers_.outboxes();
  parts.outbox_bells = answers_.bells();
  parts.worker_bells = worker_bells_;
  parts.device_counters = absl::MakeSpan(device_counters_);
  parts.slots = &slots_;
  parts.messages = &messages_;
  if (options_.recorder != nullptr) {
    options_.recorder->Began(SetupOf(options_, depth_, memory_of_));
    parts.tape = &options_.recorder->tape();
  }
  manager_ = std::make_unique<Manager>(options_, depth_, parts);
  if (!options_.threads) return;
  const SchedulerLoops::Parts of_loops{*manager_, manager_bell_, devices_.devices, workers_,
                                       worker_bells_};
  loops_ = std::make_unique<SchedulerLoops>(of_loops, options_.spin / absl::Nanoseconds(1));
}

void SchedulerImpl::Send(ControlMessage& message, absl::FunctionRef<bool(bool)> look) {
  manager_->Post(&message);
  manager_bell_.Ring();
  for (int looks = 0; !message.done.load(std::memory_order_acquire); ++looks) {
    bool worked = true;
    if (options_.threads && !stopped_) {
      // Time that stands still meanwhile is a test's, and moved by work alone: then there is none.
      const int64_t before = clock_.NowNs();
      std::this_thread::sleep_for(looks < kFirstLooks ? kFirstLook : kLaterLooks);
      worked = clock_.NowNs() != before;
    } else if (options_.meanwhile && !stopped_) {
      worked = options_.meanwhile();
    } else {
      worked = StepManager();
      for (size_t d = 0; d < workers_.size(); ++d) worked |= StepWorker(static_cast<int>(d));
    }
    if (look(!worked)) manager_bell_.Ring();
  }
}

absl::StatusOr<std::vector<Lane::Loaded>> SchedulerImpl::Load(const Model& model) {
  const RowBudget budget = DivideRows(model, options_.row_budget_bytes);
  const auto least = 1 + static_cast<int32_t>(workers_.size());
  absl::Status enough = CheckRows(model, budget, options_.row_budget_bytes, least);
  if (!enough.ok()) return enough;
  const MemorySet lives_in = living_.MemoriesOf(model.devices);
  std::vector<Lane::Loaded> loaded;
  for (int m = 0; m < static_cast<int>(devices_.memories.size()); ++m) {
    const MemorySet here = MemorySet{1} << m;
    if ((lives_in & here) == 0) {
      loaded.emplace_back();
      continue;
    }
    absl::StatusOr<std::unique_ptr<LoadedModel>> model_there = nullptr;
    if (living_.NumLeft(here) > 0) model_there = devices_.memories[Index(m)]->Load(model, budget);
    // A memory may go with its last device: then nobody misses the model there.
    if (!model_there.ok() && living_.NumLeft(here) > 0) return model_there.status();
    loaded.push_back({model_there.ok() ? *std::move(model_there) : nullptr,
                      std::make_unique<StateArena>(budget.rows)});
  }
  return loaded;
}

absl::Status SchedulerImpl::AddModel(std::shared_ptr<const Model> model, LaneRules rules) {
  std::lock_guard<std::mutex> control(control_mutex_);
  if (stopping_) return absl::UnavailableError("the scheduler is stopping");
  const absl::StatusOr<LaneTable::Place> place = lanes_.FindPlace(*model);
  if (!place.ok()) return place.status();
  if (absl::Status any = living_.CheckAnyFor(*model); !any.ok()) return any;
  const MemorySet lives_in = living_.MemoriesOf(model->devices);
  const WarmUpPace pace(living_.NumLeft(lives_in), Neighbours(lives_in, nullptr));
  absl::StatusOr<std::vector<Lane::Loaded>> loaded;
  RunInBackground([&] { loaded = Load(*model); });
  if (!loaded.ok()) return loaded.status();
  if (options_.recorder != nullptr) {
    options_.recorder->LaneMade(RecordOf(place->index, place->serial, model, rules, lives_in,
                                         DivideRows(*model, options_.row_budget_bytes).rows));
  }
  const auto lane =
      std::make_shared<Lane>(place->index, place->serial, std::move(model), std::move(rules),
                             *std::move(loaded), memory_of_, options_);
  KeptTimes kept(options_.calibration_shelf, lane->model());
  if (options_.calibration_shelf != nullptr) {
    RunInBackground([&] { kept.FindKeys(devices_, lane->calibration()); });
  }
  if (options_.recorder == nullptr) kept.Tell(lane->calibration());
  lanes_.Put(lane);
  if (absl::Status warm = Warm(*lane, pace); !warm.ok()) {
    lanes_.Remove(*lane);
    lane->Unload();
    return warm;
  }
  lanes_.Open(*lane);
  kept.Keep(lane->calibration());
  return absl::OkStatus();
}

absl::Status SchedulerImpl::Warm(Lane& lane, WarmUpPace pace) {
  ControlMessage open{ControlMessage::Kind::kOpen, &lane};
  Send(open, [&](bool idle) {
    if (stopping_ && !open.cut) {
      open.cut = true;
      return true;
    }
    WarmUpPace::Seen seen = Neighbours(lane.memories().lives_in(), &lane);
    seen.warm_up_ns = open.warm_up_ns.load(std::memory_order_relaxed);
    seen.stuck = idle;
    const WarmUpPace::Leave leave = pace.Look(seen);
    const bool waited = open.when_idle.exchange(leave.when_idle);
    return open.turn.exchange(leave.turn) != leave.turn || waited != leave.when_idle;
  });
  if (open.opened) return absl::OkStatus();
  if (stopping_) return absl::UnavailableError("the scheduler is stopping");
  return living_.CheckAnyFor(lane.model());
}

WarmUpPace::Seen SchedulerImpl::Neighbours(MemorySet memories, const Lane* without) const {
  WarmUpPace::Seen seen = {clock_.NowNs(), false, 0, 0};
  for (const std::shared_ptr<const Lane>& lane : lanes_.All()) {
    if (lane.get() == without || (lane->memories().lives_in() & memories) == 0) continue;
    const LaneCounters::Gauges gauges = lane->counters().gauges();
    seen.others_awake |= gauges.running_requests > 0 || gauges.waiting_requests > 0;
    seen.others_ns += lane->counters().device_ns();
  }
  return seen;
}

absl::Status SchedulerImpl::RemoveModel(ModelId model) {
  std::lock_guard<std::mutex> control(control_mutex_);
  const std::shared_ptr<Lane> lane = lanes_.Find(model);
  if (lane == nullptr) return absl::NotFoundError(absl::StrCat("no model ", model.value()));
  lanes_.Close(*lane);
  ControlMessage close{ControlMessage::Kind::kClose, lane.get()};
  const absl::Time late = absl::FromUnixNanos(clock_.NowNs()) + options_.unload_limit;
  bool cut = false;
  Send(close, [&](bool idle) {
    if (cut || (!idle && absl::FromUnixNanos(clock_.NowNs()) < late)) return false;
    close.cut = cut = true;
    return true;
  });
  if (options_.lane_ended) options_.lane_ended(SchedulerStatsReader::Read(*lane));
  lanes_.Remove(*lane);
  lane->Unload();
  return absl::OkStatus();
}

absl::Status SchedulerImpl::SetPolicy(ModelId model, LaneRules rules) {
  std::lock_guard<std::mutex> control(control_mutex_);
  const std::shared_ptr<Lane> lane = lanes_.Find(model);
  if (lane == nullptr) return absl::NotFoundError(absl::StrCat("no model ", model.value()));
  const RecordedPolicy recorded = RecordOf(rules);
  std::shared_ptr<LanePolicy> policy = lane->MakePolicy(std::move(rules));
  const auto policies = lane->Policies();
  if (!policy->AsksForTheSameAs(*policies.back())) {
    return absl::FailedPreconditionError(
        absl::StrCat("policy ", policy->name, " looks at other things than ", policies.back()->name,
                     ": model \"", lane->model().name, "\" is to be loaded again"));
  }
  ControlMessage take{ControlMessage::Kind::kPolicy, lane.get(), policy.get()};
  take.turn = static_cast<uint32_t>(policies.size());
  if (options_.recorder != nullptr)
    options_.recorder->PolicyTaken(lane->serial(), take.turn, recorded, lane->model());
  Send(take, [](bool) { return false; });
  lane->ShowPolicy(std::move(policy));
  return absl::OkStatus();
}

std::vector<CellTypeCalibration> SchedulerImpl::Calibration(ModelId model) const {
  const std::shared_ptr<const Lane> lane = lanes_.FindOpen(model);
  if (lane == nullptr) return {};
  return lane->calibration().Results();
}

std::vector<int32_t> SchedulerImpl::MaxRowsPerRequest(ModelId model) const {
  const std::shared_ptr<const Lane> lane = lanes_.Find(model);
  return lane == nullptr ? std::vector<int32_t>()
                         : lane->memories().MaxRuns(lane->model().tables.size());
}

absl::Status SchedulerImpl::Build(Request& request, bool node_facts, std::byte* slab,
                                  RequestBlock** built) {
  absl::Status status = BuildBlock(request, depth_, node_facts, slab, built);
  HostBlocks* const blocks = HostBlocksFor(devices_, request.model->devices);
  if (blocks == nullptr || !status.ok()) return status;
  return request.run.host_copies().Stage(request, **built, *blocks);
}

std::optional<RequestId> SchedulerImpl::Submit(std::unique_ptr<Request>& request) {
  const std::optional<LaneTable::Place> lane = lanes_.OpenAt(request->model->id);
  if (!lane || stopping_.load(std::memory_order_acquire)) return std::nullopt;
  Check(request->outbox.valid() && request->outbox.value() < options_.num_outboxes,
        "a request names an outbox that is not there");
  const std::optional<RequestId> id = slots_.Acquire();
  if (!id) return std::nullopt;
  RequestBlock* built = nullptr;
  request->status = Build(*request, lane->node_facts, slab_.of(id->slot), &built);
  RequestBlock& block = *built;
  if (!request->status.ok()) block.outcome = Outcome::kBadGraph;
  block.slot = id->slot;
  block.generation = id->generation;
  block.lane = static_cast<int16_t>(lane->index);
  block.lane_serial = lane->serial;
  slots_.block(id->slot) = &block;
  if (options_.recorder != nullptr) {
    options_.recorder->Submitted(*id, lane->index, lane->serial, *request);
  }
  request.release();  // Take makes it whole again
  messages_.Push(ArrivalMessage(&block));
  manager_bell_.Ring(/*urgent=*/false);
  return id;
}

void SchedulerImpl::Notify(RequestId id, News news) {
  const uint64_t bit = news == News::kCancelled ? RequestSlots::kCancelled : RequestSlots::kExpired;
  if (options_.recorder != nullptr)
    options_.recorder->Notified(id, news == News::kExpired, clock_.NowNs());
  if (!slots_.SetNews(id, bit)) return;
  messages_.Push(NewsMessage(id.slot));
  manager_bell_.Ring(/*urgent=*/false);
}

int SchedulerImpl::Take(OutboxId outbox, absl::Span<Delivery> out) {
  if (stopped_.load(std::memory_order_acquire)) [[unlikely]] {
    // A Submit that began before Stop may have ended after the loops did.
    std::lock_guard<std::mutex> control(control_mutex_);
    manager_->Step();
  }
  return answers_.Take(outbox, out);
}

// The manager leaves a paused request alone until it gets the message, but for its outcome and rows.
void SchedulerImpl::Extended(Request& request, absl::Status extended) {
  RequestBlock& block = *request.run.block();
  block.next_piece = nullptr;
  Check(!extended.ok() || !request.graph.added(), "a piece is given back before it is sealed");
  if (extended.ok() && request.graph.pieces() > request.run.pieces()) {
    RequestBlock* built = nullptr;
    extended = Build(request, block.has_facts, /*slab=*/nullptr, &built);
    block.next_piece = built;
  }
  const bool failed = !extended.ok();
  if (options_.recorder != nullptr && !failed && block.next_piece != nullptr)
    options_.recorder->Extended({block.slot, block.generation}, request);
  if (failed) request.status = std::move(extended);
  messages_.Push(ContinuedMessage(&block, failed));
  manager_bell_.Ring(/*urgent=*/false);
}

void SchedulerImpl::Stop() {
  stopping_ = true;  // whoever loads a model gives it up
  std::lock_guard<std::mutex> control(control_mutex_);
  if (stopped_) return;
  lanes_.CloseAll();
  ControlMessage stop{ControlMessage::Kind::kStop};
  Send(stop, [](bool) { return false; });
  if (loops_ != nullptr) loops_->Stop();
  while (manager_->Step()) {
  }
  stopped_.store(true, std::memory_order_release);
}

// What nobody took has an owner no more but this.
SchedulerImpl::~SchedulerImpl() {
  Stop();
  std::array<Delivery, 16> left;
  for (int o = 0; o < answers_.size(); ++o) {
    while (const int n = Take(OutboxId(o), absl::MakeSpan(left))) {
      for (const Delivery& d : absl::MakeConstSpan(left).first(Index(n))) {
        if (d.kind == Delivery::Kind::kPiece) Extended(*d.request, absl::CancelledError(""));
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(SchedulerOptions options,
                                                             DeviceSet devices,
                                                             const Clock& clock) {
  const int num_devices = static_cast<int>(devices.devices.size());
  if (num_devices < 1 || num_devices > kMaxWorkers) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_devices, " devices; 1 to ", kMaxWorkers, " can be scheduled"));
  }
  const TasksInFlight tasks =
      TasksInFlightOf(devices, options.max_tasks_in_flight, options.few_tasks_in_flight);
  const int depth = tasks.most;
  options.few_tasks_in_flight = tasks.few;
  if (depth > 64 || options.batch_limit < 1 || options.batch_limit > 4096 ||
      options.max_requests < 1 || options.num_outboxes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tasks_in_flight ", depth, " (1 to 64), batch_limit ", options.batch_limit,
                     " (1 to 4096), max_requests ", options.max_requests, ", num_outboxes ",
                     options.num_outboxes, " (at least 1): one of them is out of range"));
  }
  if (options.priority_ageing < 1 || options.priority_ageing > kMostPriorityAgeing) {
    return absl::InvalidArgumentError(absl::StrCat("priority_ageing is ", options.priority_ageing,
                                                   " tasks, allowed are 1 to ",
                                                   kMostPriorityAgeing));
  }
  absl::StatusOr<std::vector<int>> memory_of = MemoriesOf(devices, depth, options.batch_limit);
  if (!memory_of.ok()) return memory_of.status();
  return std::make_unique<SchedulerImpl>(options, depth, std::move(devices), clock,
                                         *std::move(memory_of));
}

}  // namespace cellbatch

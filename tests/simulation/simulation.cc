#include "tests/simulation/simulation.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cells/check.h"
#include "scheduler/policy/test_policies.h"
#include "tests/testing/virtual_clock.h"

namespace cellbatch::sim {
namespace {

constexpr int64_t kStepsBetweenFullChecks = 1000;
constexpr int kHeldSteps = 50;
constexpr uint64_t kGeneratorSalt = 0x5EED;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        random_(options.seed),
        generator_(MixBits(options.seed, kGeneratorSalt)),
        checker_(options.max_tasks_in_flight) {
    MakeDevices();
    for (int m = 0; m < options.models; ++m) AddModel(m);
    for (SimDevice* device : devices_) {
      device->set_moves_time(false);
      device->set_observer(&checker_);
      device->set_faults(options.delay_chance, 20 * options.cost.task_ns, options.refusal_chance);
    }
    SetStarvationBound();
  }

  SimulationReport Run() {
    while ((submitted_ < options_.requests || checker_.outstanding() > 0) && Clean()) {
      if (!Round() && !Rest()) break;
      if (++report_.steps % kStepsBetweenFullChecks == 0) CheckAll();
    }
    if (Clean()) CheckAll();
    if (Clean()) CheckNothingIsLeft();
    return Report();
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(double p) { return p > 0 && std::bernoulli_distribution(p)(random_); }
  bool Clean() const {
    int64_t n = checker_.violations().count();
    for (SimMemory* memory : memories_) n += memory->violations().count();
    return n == 0;
  }

  void MakeDevices() {
    DeviceSet set;
    for (int m = 0; m < options_.memories; ++m) {
      auto memory = std::make_unique<SimMemory>();
      memories_.push_back(memory.get());
      set.memories.push_back(std::move(memory));
    }
    for (int d = 0; d < options_.workers; ++d) {
      SimDeviceOptions o;
      o.name = absl::StrCat("sim:", d);
      o.task_memory_bytes = size_t{16} << 20;
      o.queue_capacity = Pick(1, 8);
      o.signal_bits = options_.signal_bits;
      o.cost = options_.cost;
      o.seed = MixBits(options_.seed, static_cast<uint64_t>(d));
      auto device =
          std::make_unique<SimDevice>(o, *memories_[Index(d % options_.memories)], clock_.time());
      devices_.push_back(device.get());
      set.devices.push_back(std::move(device));
    }
    SchedulerOptions o;
    o.max_tasks_in_flight = options_.max_tasks_in_flight;
    o.max_requests = 4 * options_.in_flight;
    o.max_wait_tasks = options_.max_wait_tasks;
    o.chain_turn = options_.chain_turn;
    o.row_budget_bytes = options_.row_budget_bytes;
    o.batch_limit = options_.limits.max_batch;
    o.calibrate = false;
    o.stealing = options_.stealing;
    o.threads = false;
    auto made = Scheduler::Create(o, std::move(set), clock_);
    Check(made.ok(), made.status().ToString());
    scheduler_ = *std::move(made);
  }

  void AddModel(int number) {
    auto model = MakeModel(ModelId(number + 1), options_.limits);
    LaneRules rules;
    if (options_.policy == 1) rules.policy = std::make_unique<policy_testing::LowestMeanDepth>();
    if (options_.policy == 2) rules.policy = std::make_unique<policy_testing::TallestTop>();
    const absl::Status added = scheduler_->AddModel(model, std::move(rules));
    Check(added.ok(), added.ToString());
    for (SimMemory* memory : memories_) checker_.Watch(*memory, *model);
    most_rows_.push_back(scheduler_->MaxRowsPerRequest(model->id));
    models_.push_back(std::move(model));
  }

  // On its worker a ready type is passed over at most max_wait_tasks times, and by every other
  // waiting type once; then its oldest nodes go, a batch of them unless there are fewer. A held
  // signal or a late device lets the others run ahead of it.
  void SetStarvationBound() {
    const int64_t turn = options_.workers * (options_.max_wait_tasks + kNumTypes * options_.models +
                                             options_.max_tasks_in_flight);
    const int64_t faults = (kHeldSteps + 30) * options_.workers;
    checker_.set_starvation_bound(faults + 4 * turn, turn, options_.limits.max_batch);
  }

  // One driver step: whoever is drawn, or everybody. True if anything happened.
  bool Round() {
    bool worked = false;
    if (Chance(0.5)) worked |= TrySubmit();
    if (Chance(options_.cancel_permille * 0.001)) SendNews();
    if (Chance(0.3)) worked |= Extend();
    MakeFaults();
    if (options_.lock_step) return Everybody() || worked;
    const int who = Pick(-1, static_cast<int>(devices_.size()) - 1);
    worked |= who < 0 ? StepManager() : scheduler_->StepWorker(who);
    // A draw that finds nothing to do says nothing about the others.
    return worked || Everybody();
  }

  bool Everybody() {
    bool worked = StepManager();
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) worked |= scheduler_->StepWorker(d);
    return worked;
  }

  bool StepManager() {
    const bool worked = scheduler_->StepManager();
    // Rows of a request that left are not watched for, so its answer is taken at once.
    const bool late =
        failed_ == 0 && Chance(options_.late_take_chance) && checker_.AllMustBeThere();
    return (!late && TakeAll()) || worked;
  }

  bool TakeAll() {
    bool taken = false;
    std::array<Delivery, 16> some;
    while (const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(some))) {
      taken = true;
      for (int i = 0; i < n; ++i) {
        Delivery& d = some[Index(i)];
        switch (d.kind) {
          case Delivery::Kind::kWords:
            checker_.Told(*d.request, d.words);
            break;
          case Delivery::Kind::kPiece:
            checker_.PieceDone(*d.request, d.words);
            paused_.push_back(d.request);
            break;
          case Delivery::Kind::kDone:
            Answered(std::move(d.done), d.words);
            break;
        }
      }
    }
    return taken;
  }

  // Whoever has a request between two pieces gives one of them back. False: there is none.
  bool Extend() {
    if (paused_.empty() || !Clean()) return false;
    const size_t at = Index(Pick(0, static_cast<int>(paused_.size()) - 1));
    Request& request = *paused_[at];
    paused_.erase(paused_.begin() + static_cast<std::ptrdiff_t>(at));
    const Expectation& e = *checker_.Find(static_cast<int32_t>(request.tag));
    absl::Status status;
    if (Chance(options_.cancel_permille * 0.001)) {
      status = absl::InvalidArgumentError("no such piece");
    } else if (const int piece = request.graph.pieces(); piece < e.plan.num_pieces()) {
      BuildPiece(e.plan, *e.model, e.tokens, piece, request.graph);
      status = request.graph.Seal(*e.model, options_.max_tasks_in_flight);
      Check(status.ok(), status.ToString());
    }
    checker_.Extended(e.tag, !status.ok());
    scheduler_->Extended(request, std::move(status));
    return true;
  }

  void Answered(std::unique_ptr<Request> request, int32_t words) {
    const int32_t tag = static_cast<int32_t>(request->tag);
    const Expectation* expected = checker_.Find(tag);
    const bool known = expected != nullptr;
    if (known) {
      gone_[Index(Pick(0, static_cast<int>(gone_.size()) - 1))] = expected->id;
      out_.erase(std::find(out_.begin(), out_.end(), tag));
    }
    checker_.Finished(*request, words, clock_.NowNs(), failed_,
                      static_cast<int>(devices_.size()) - failed_);
    if (known) {
      answered_[Index(tag) % answered_.size()] = std::move(request);
    } else {
      request.release();  // it has its owner already
    }
  }

  bool Fits(const CellGraph& graph, size_t model) const {
    for (size_t t = 0; t < graph.row_counts().size(); ++t) {
      if (graph.row_counts()[t] > most_rows_[model][t]) return false;
    }
    return true;
  }

  // A request of some plan that an empty scheduler could run.
  void Prepare() {
    const size_t m = Index(Pick(0, options_.models - 1));
    for (;;) {
      auto e = std::make_unique<Expectation>();
      e->tag = next_tag_;
      e->model = models_[m];
      e->plan =
          options_.shapes.empty()
              ? generator_.Any()
              : generator_.Make(
                    options_.shapes[Index(Pick(0, static_cast<int>(options_.shapes.size()) - 1))]);
      if (Chance(options_.grow_chance)) generator_.Cut(e->plan);
      e->tokens = MakeTokens(e->plan, e->tag);
      e->evaluation = Evaluate(e->plan, *e->model, e->tokens, WordBelow16);
      if (HasTwins(e->evaluation)) continue;
      CellGraph graph = Build(e->plan, *e->model, e->tokens);
      const absl::Status sealed = graph.Seal(*e->model, options_.max_tasks_in_flight);
      Check(sealed.ok(), sealed.ToString());
      if (!Fits(graph, m)) continue;
      pending_ = std::make_unique<Request>();
      pending_->tag = static_cast<uint64_t>(e->tag);
      pending_->model = models_[m];
      pending_->graph = std::move(graph);
      pending_->stream = e->streams = Chance(0.5);
      pending_expected_ = std::move(e);
      ++next_tag_;
      return;
    }
  }

  bool TrySubmit() {
    if (submitted_ == options_.requests || checker_.outstanding() >= options_.in_flight) {
      return false;
    }
    if (pending_ == nullptr) Prepare();
    pending_->times.submitted = clock_.NowNs();
    const std::optional<RequestId> id = scheduler_->Submit(pending_);
    if (!id.has_value()) return false;
    Check(pending_ == nullptr, "a submitted request is the scheduler's");
    pending_expected_->id = *id;
    pending_expected_->failures_known = failures_known_;
    out_.push_back(pending_expected_->tag);
    checker_.Submitted(std::move(pending_expected_));
    ++submitted_;
    return true;
  }

  // For somebody who is out, or (late news, harmless) for somebody who is not.
  void SendNews() {
    const News news = Chance(0.5) ? News::kCancelled : News::kExpired;
    if (Chance(0.3)) {
      scheduler_->Notify(gone_[Index(Pick(0, static_cast<int>(gone_.size()) - 1))], news);
    }
    if (out_.empty()) return;
    const Expectation* e = checker_.Find(out_[Index(Pick(0, static_cast<int>(out_.size()) - 1))]);
    checker_.Notified(e->tag, news);
    scheduler_->Notify(e->id, news);
  }

  void MakeFaults() {
    SimDevice& device = *devices_[Index(Pick(0, static_cast<int>(devices_.size()) - 1))];
    if (held_ != nullptr && --held_steps_ == 0) ReleaseHeld();
    if (Chance(options_.hold_chance) && held_ == nullptr) {
      held_ = &device;
      held_steps_ = kHeldSteps;
      device.HoldSignal(true);
    }
    const bool enough = failed_ + 1 < static_cast<int>(devices_.size());
    if (enough && Chance(options_.fail_chance) && !device.failed()) {
      device.Fail(absl::InternalError("a simulated failure"));
      ++failed_;
      rests_since_failure_ = 0;
    }
  }

  void ReleaseHeld() {
    held_->HoldSignal(false);
    held_ = nullptr;
  }

  // Nobody has anything to do: time moves to the next event. False if there is none.
  bool Rest() {
    if (++rests_since_failure_ >= 3) failures_known_ = failed_;
    std::optional<int64_t> next;
    for (const SimDevice* device : devices_) {
      const std::optional<int64_t> event = device->next_event_ns();
      if (event && (!next || *event < *next)) next = event;
    }
    if (!next) {
      if (TakeAll() || Extend() || TrySubmit()) return true;
      if (held_ != nullptr) {
        ReleaseHeld();
        return true;
      }
      // A device that refused may take the same task next time.
      for (int i = 0; i < 100 && options_.refusal_chance > 0; ++i) {
        if (Everybody()) return true;
      }
      checker_.Violated(
          absl::StrCat("nothing moves; ", checker_.outstanding(),
                       " requests are out: ", absl::StrJoin(checker_.Outstanding(), " | ")));
      return false;
    }
    clock_.time().AdvanceTo(*next);
    return true;
  }

  void CheckAll() {
    checker_.CheckAll();
    const absl::Status consistent = scheduler_->CheckInvariants();
    if (!consistent.ok()) checker_.Violated(consistent.ToString());
  }

  void CheckNothingIsLeft() {
    while (Everybody()) {
    }
    int64_t tasks = 0, cells = 0, overrun = 0, stop_steps = 0;
    for (const LaneStats& lane : scheduler_->stats().Lanes()) {
      const bool empty = lane.rows_used == 0 && lane.waiting_requests == 0 &&
                         lane.running_requests == 0 && lane.waiting_cells == 0;
      if (!empty) {
        checker_.Violated(absl::StrCat("at the end model ", lane.model.value(), " has ",
                                       lane.rows_used, " rows in use, ", lane.waiting_requests,
                                       " requests (", lane.waiting_cells, " cells) waiting and ",
                                       lane.running_requests, " running"));
      }
      for (const CellTypeStats& type : lane.types) {
        tasks += static_cast<int64_t>(type.tasks);
        cells += static_cast<int64_t>(type.cells);
        overrun += static_cast<int64_t>(type.overrun);
        stop_steps += static_cast<int64_t>(type.stop_steps);
      }
    }
    const Tally& tally = checker_.tally();
    if (failed_ == 0 && (tasks != tally.tasks || cells != tally.nodes)) {
      checker_.Violated(absl::StrCat("the statistics count ", tasks, " tasks and ", cells,
                                     " cells; devices ran ", tally.tasks, " and ", tally.nodes));
    }
    // A cancel may hide that what was discarded had stopped.
    const bool possible = tally.overrun <= overrun && overrun <= tally.discarded &&
                          overrun <= stop_steps && stop_steps <= cells;
    if (failed_ == 0 && !possible) {
      checker_.Violated(absl::StrCat("the statistics count ", overrun, " nodes past stops of ",
                                     stop_steps, "; devices ran ", tally.discarded,
                                     ", the answers say ", tally.overrun));
    }
  }

  SimulationReport Report() {
    report_.tally = checker_.tally();
    report_.submitted = submitted_;
    const auto add = [&](const SimViolations& v) {
      report_.violation_count += v.count();
      for (const std::string& what : v.first()) report_.violations.push_back(what);
    };
    add(checker_.violations());
    for (SimMemory* memory : memories_) add(memory->violations());
    if (Clean()) {
      TakeApart();
    } else {
      scheduler_.release();  // what is broken may end in a check that says less than the violation
    }
    return report_;
  }

  // A run that ended early leaves requests inside; a real device they need may be dead.
  void TakeApart() {
    if (held_ != nullptr) ReleaseHeld();
    for (SimDevice* device : devices_) {
      device->set_observer(nullptr);
      device->set_moves_time(true);
    }
    scheduler_->Stop();
    for (Request* request : paused_) scheduler_->Extended(*request, absl::OkStatus());
    std::array<Delivery, 16> rest;
    while (const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(rest))) {
      for (const Delivery& d : absl::MakeSpan(rest).first(Index(n))) {
        if (d.kind == Delivery::Kind::kPiece) scheduler_->Extended(*d.request, absl::OkStatus());
      }
    }
  }

  const SimulationOptions options_;
  std::mt19937_64 random_;
  Generator generator_;
  VirtualClock clock_;
  Checker checker_;
  std::vector<SimMemory*> memories_;
  std::vector<SimDevice*> devices_;
  std::vector<std::shared_ptr<const Model>> models_;
  std::vector<std::vector<int32_t>> most_rows_;  // by model, table
  std::unique_ptr<Request> pending_;
  std::unique_ptr<Expectation> pending_expected_;
  int32_t next_tag_ = 1;
  int64_t submitted_ = 0;
  std::vector<int32_t> out_;             // tags
  std::vector<Request*> paused_;         // taken between two pieces
  std::array<RequestId, 16> gone_ = {};  // some that were answered
  // The last of them, so that one that is answered again is still there to say so.
  std::array<std::unique_ptr<Request>, 64> answered_;
  SimDevice* held_ = nullptr;  // whose signal stands still for some steps
  int held_steps_ = 0;
  int failed_ = 0;
  int failures_known_ = 0;  // of them, those that everybody has had time to see
  int rests_since_failure_ = 0;
  SimulationReport report_;
  std::unique_ptr<Scheduler> scheduler_;  // last: it goes first, and its devices with it
};

}  // namespace

SimulationOptions RandomOptions(uint64_t seed, int64_t requests) {
  std::mt19937_64 random(MixBits(seed, 77));
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto often = [&](int percent, double value) { return pick(0, 99) < percent ? value : 0; };
  SimulationOptions o;
  o.seed = seed;
  o.requests = requests;
  o.workers = pick(1, 4);
  o.memories = o.workers > 1 ? pick(1, 2) : 1;
  o.models = pick(0, 3) == 0 ? 2 : 1;
  o.max_tasks_in_flight = pick(1, 5);
  o.stealing = static_cast<Stealing>(pick(0, 2));
  o.limits = {.min_batch = pick(1, 3), .max_batch = 1 << pick(2, 5)};
  o.max_wait_tasks = pick(2, 20);
  o.row_budget_bytes = int64_t{1} << pick(13, 18);
  o.in_flight = pick(0, 3) == 0 ? pick(100, 400) : pick(1, 60);
  o.cancel_permille = pick(0, 2) == 0 ? 0 : pick(1, 60);
  o.cost = {pick(0, 4) == 0 ? 0 : pick(100, 2000), pick(0, 100)};
  o.delay_chance = often(40, 0.02);
  o.refusal_chance = often(30, 0.2);
  o.hold_chance = often(30, 0.002);
  o.fail_chance = o.workers > 1 ? often(25, 0.0002) : 0;
  o.signal_bits = pick(0, 1) == 0 ? 64 : pick(8, 32);
  o.lock_step = pick(0, 3) == 0;
  o.late_take_chance = often(50, 0.8);
  o.grow_chance = often(60, 0.3);
  if (pick(0, 3) == 0) {
    // What random runs hardly reach: predecessors and ends on several workers.
    o.workers = pick(2, 4);
    o.memories = 1;
    o.stealing = Stealing::kAlways;
    o.limits = {.min_batch = 1, .max_batch = pick(2, 4)};
    o.in_flight = pick(10, 60);
    o.delay_chance = 0.1;
    o.shapes = {Shape::kDag, Shape::kTwoSinks, Shape::kTree, Shape::kLattice, Shape::kEdgeTree};
  }
  o.chain_turn = pick(0, 2) == 0 ? 64 : pick(1, 12);  // chains that give way again and again
  o.policy = std::max(0, pick(-2, 2));
  return o;
}

std::string Describe(const SimulationOptions& o) {
  return absl::StrCat("seed ", o.seed, ": ", o.requests, " requests, ", o.workers, " workers on ",
                      o.memories, " memories, ", o.models, " models, ", o.max_tasks_in_flight,
                      " tasks in flight, stealing ", static_cast<int>(o.stealing), ", batches ",
                      o.limits.min_batch, "-", o.limits.max_batch, ", ", o.row_budget_bytes,
                      " B of rows, ", o.in_flight, " in flight, cancels ", o.cancel_permille,
                      "/1000, fails ", o.fail_chance, ", lock step ", o.lock_step, ", chain turn ",
                      o.chain_turn, ", policy ", o.policy);
}

SimulationReport Simulate(const SimulationOptions& options) { return Simulation(options).Run(); }

}  // namespace cellbatch::sim

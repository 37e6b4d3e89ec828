#include "tests/simulation/simulation.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <source_location>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cells/check.h"
#include "scheduler/offline/world/virtual_clock.h"
#include "tests/simulation/stock.h"

namespace cellbatch::sim {
namespace {

constexpr int64_t kStepsBetweenFullChecks = 1000;
constexpr uint64_t kGeneratorSalt = 0x5EED;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        random_(options.seed),
        takeovers_random_(MixBits(options.seed, 82)),
        generator_(MixBits(options.seed, kGeneratorSalt)),
        checker_(RulesOf(options), clock_.time()) {
    MakeDevices();
    stock_ = std::make_unique<Stock>(options_, *scheduler_, checker_, memories_);
    for (SimDevice* device : devices_) {
      device->set_moves_time(false);
      device->set_observer(&checker_);
      device->set_faults(options.delay_chance, 20 * options.cost.task_ns, options.refusal_chance);
    }
    for (int m = 0; m < options.models; ++m) stock_->Add();
    started_ = true;
  }

  SimulationReport Run() {
    while ((MoreToSubmit() || checker_.outstanding() > 0) && Clean()) {
      const auto looks = static_cast<int64_t>(report_.heap_bytes.size());
      if (submitted_ * 10 >= (looks + 1) * options_.requests && AsManyModelsAsFirst()) {
        report_.heap_bytes.push_back(HeapInUse());
      }
      MayChangePolicy();
      const bool none = stock_->open().empty() && !AllLost();
      if (none || Chance(options_.change_chance)) {
        ChangeModels();
      } else if (!Step()) {
        break;
      }
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
    SimMemoryOptions reach;
    if (options_.host_blocks) reach.host_blocks = std::make_shared<SimHostBlocks>();
    for (int m = 0; m < options_.memories; ++m) {
      reach.kind = KindOfMemory(options_, m);
      auto memory = std::make_unique<SimMemory>(reach);
      memories_.push_back(memory.get());
      set.memories.push_back(std::move(memory));
    }
    for (int d = 0; d < options_.workers; ++d) {
      SimDeviceOptions o;
      o.name = absl::StrCat("sim:", d);
      o.task_memory_bytes = size_t{16} << 20;
      o.queue_capacity = Pick(1, 8);
      o.signal_bits = options_.signal_bits;
      o.runs = options_.asynchronous ? SimRuns::kInTime : SimRuns::kInAdvance;
      o.late_writes = options_.late_writes;
      o.first_sequence = options_.first_sequence;
      o.launch_multiple = options_.launch_multiple;
      o.cost = options_.cost;
      o.seed = MixBits(options_.seed, static_cast<uint64_t>(d));
      auto device =
          std::make_unique<SimDevice>(o, *memories_[Index(d % options_.memories)], clock_.time());
      devices_.push_back(device.get());
      checker_.AddDevice(*device, d % options_.memories);
      set.devices.push_back(std::move(device));
    }
    SchedulerOptions o;
    o.max_tasks_in_flight = options_.max_tasks_in_flight;
    o.max_requests = 4 * options_.in_flight;
    o.max_wait_tasks = options_.max_wait_tasks;
    o.chain_turn = options_.chain_turn;
    o.priority_ageing = options_.priority_ageing;
    o.row_budget_bytes = options_.row_budget_bytes;
    o.batch_limit = options_.limits.max_batch;
    o.task_time_limit = absl::Nanoseconds(options_.task_time_limit_ns);
    o.task_time_factor = options_.task_time_factor;
    o.calibrate = options_.calibrate;
    o.meanwhile = [this] { return Meanwhile(); };
    o.stealing = options_.stealing;
    o.recorder = options_.recorder;
    o.threads = false;
    auto made = Scheduler::Create(o, std::move(set), clock_);
    Check(made.ok(), made.status().ToString());
    scheduler_ = *std::move(made);
  }

  // Where no device is left no model can be loaded, either.
  bool MoreToSubmit() const {
    return submitted_ < options_.requests && (!stock_->open().empty() || !AllLost());
  }
  bool AsManyModelsAsFirst() const {
    return static_cast<int>(stock_->open().size()) == options_.models;
  }
  bool AllLost() const { return failed_ == static_cast<int>(devices_.size()); }
  // Of the devices that it lives on.
  int NumLeftFor(const Model& model) const {
    return static_cast<int>(
        std::count_if(devices_.begin(), devices_.end(), [&](const SimDevice* device) {
          return model.devices.Has(device->info().memory->kind()) && !device->failed() &&
                 !device->abandoned() && !hanging_.contains(device);
        }));
  }

  bool Step() {
    if (Moves()) return true;
    NothingMoves();
    return false;
  }

  bool Moves() {
    if (!Round() && !Rest()) return false;
    if (++report_.steps % kStepsBetweenFullChecks == 0) CheckAll();
    return true;
  }

  void NothingMoves() {
    checker_.Violated(absl::StrCat("nothing moves; ", checker_.outstanding(), " requests are out: ",
                                   absl::StrJoin(checker_.Outstanding(), " | ")));
  }

  // Draws by itself, so that nothing else is drawn otherwise for it. Of Algorithm 1 more is promised than of others.
  void MayChangePolicy() {
    if (options_.policy == PolicyKind::kCellular) return;
    std::bernoulli_distribution now(options_.policy_change_chance);
    if (stock_->open().empty() || !now(takeovers_random_)) return;
    const uint64_t draw = takeovers_random_();
    stock_->ChangePolicy(draw % stock_->open().size(), draw);
  }

  void ChangeModels() {
    const int open = static_cast<int>(stock_->open().size());
    if (open > (AllLost() ? 1 : 0) && (open >= options_.most_models || Chance(0.5))) {
      const size_t at = Index(Pick(0, open - 1));
      // One in two times a request for it is at hand, which Submit must refuse from now on.
      if (pending_ != nullptr && pending_->model == stock_->open()[at].model && Chance(0.5)) {
        pending_.reset();
      }
      stock_->Remove(at);
    } else {
      stock_->Add();
    }
  }

  // What a call that loads or unloads a model does while it waits: everybody goes on, but for other such calls.
  // A run that found something is brought to an end by plain steps, if it can be.
  bool Meanwhile() {
    if (Clean() && !taken_apart_) {
      // The call itself may change something when nothing else does, but not for ever.
      constexpr int kMostAtRest = 1000;
      if (Moves()) {
        at_rest_ = 0;
        return true;
      }
      if (++at_rest_ > kMostAtRest) NothingMoves();
      return false;
    }
    constexpr int kMostSteps = 100'000;
    if (++last_steps_ > kMostSteps) {
      CheckFailed(
          absl::StrCat("a model is not loaded or unloaded, or the scheduler does not stop: ",
                       FirstViolation()),
          std::source_location::current());
    }
    for (SimDevice* device : devices_) device->set_moves_time(true);
    return Everybody();
  }

  std::string FirstViolation() {
    if (checker_.violations().count() > 0) return checker_.violations().first().front();
    for (SimMemory* memory : memories_) {
      if (memory->violations().count() > 0) return memory->violations().first().front();
    }
    return "nothing was violated";
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
    worked |= who < 0 ? StepManager() : StepWorker(who);
    // A draw that finds nothing to do says nothing about the others.
    return worked || Everybody();
  }

  bool Everybody() {
    bool worked = StepManager();
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) worked |= StepWorker(d);
    return worked;
  }

  bool StepWorker(int worker) {
    const SimDevice& device = *devices_[Index(worker)];
    const bool had_it = !device.abandoned();
    const bool worked = scheduler_->StepWorker(worker);
    if (had_it && device.abandoned() && !device.failed()) GivenUp(device);
    return worked;
  }

  // It said nothing of itself.
  void GivenUp(const SimDevice& device) {
    if (hanging_.erase(&device) == 0) {
      checker_.Violated(
          absl::StrCat(device.info().name, " is given up, and neither failed nor hangs"));
      return;
    }
    checker_.DeviceFailed(device);
    ++report_.hung;
    rests_since_failure_ = 0;
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
      BuildPiece(e.plan, *e.model, e.inputs, piece, request.graph);
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
    checker_.Finished(*request, words, clock_.NowNs(), failed_, NumLeftFor(*request->model));
    if (known) {
      answered_[Index(tag) % answered_.size()] = std::move(request);
    } else {
      request.release();  // it has its owner already
    }
  }

  static bool Fits(const CellGraph& graph, const Stock::Entry& in) {
    for (size_t t = 0; t < graph.row_counts().size(); ++t) {
      if (graph.row_counts()[t] > in.most_rows[t]) return false;
    }
    return true;
  }

  // A request of some plan that an empty scheduler could run.
  void Prepare() {
    const Stock::Entry& of =
        stock_->open()[Index(Pick(0, static_cast<int>(stock_->open().size()) - 1))];
    for (;;) {
      auto e = std::make_unique<Expectation>();
      e->tag = next_tag_;
      e->model = of.model;
      e->plan =
          options_.shapes.empty()
              ? generator_.Any()
              : generator_.Make(
                    options_.shapes[Index(Pick(0, static_cast<int>(options_.shapes.size()) - 1))]);
      if (Chance(options_.grow_chance)) generator_.Cut(e->plan);
      e->inputs = MakeInputs(e->plan, *e->model, e->tag);
      e->evaluation = Evaluate(e->plan, *e->model, e->inputs, WordBelow16);
      if (HasTwins(e->evaluation)) continue;
      CellGraph graph = Build(e->plan, *e->model, e->inputs);
      const absl::Status sealed = graph.Seal(*e->model, options_.max_tasks_in_flight);
      Check(sealed.ok(), sealed.ToString());
      if (!Fits(graph, of)) continue;
      pending_ = std::make_unique<Request>();
      pending_->tag = static_cast<uint64_t>(e->tag);
      pending_->model = of.model;
      pending_->graph = std::move(graph);
      pending_->stream = e->streams = Chance(0.5);
      pending_->priority = e->priority = PriorityOf(e->tag);
      pending_expected_ = std::move(e);
      ++next_tag_;
      return;
    }
  }

  // Of a stream of its own: 0 to the models' levels.
  int32_t PriorityOf(int32_t tag) const {
    if (options_.priority_levels == 1) return 0;
    const uint64_t drawn = MixBits(MixBits(options_.seed, 81), static_cast<uint64_t>(tag));
    return static_cast<int32_t>(drawn % static_cast<uint64_t>(options_.priority_levels + 1));
  }

  bool TrySubmit() {
    if (submitted_ == options_.requests || checker_.outstanding() >= options_.in_flight) {
      return false;
    }
    if (!started_) return false;
    if (pending_ == nullptr) {
      if (stock_->open().empty()) return false;
      Prepare();
    }
    pending_->times.submitted = clock_.NowNs();
    const bool closed =
        std::none_of(stock_->open().begin(), stock_->open().end(),
                     [&](const Stock::Entry& e) { return e.model == pending_->model; });
    const std::optional<RequestId> id = scheduler_->Submit(pending_);
    if (closed) {
      if (id.has_value()) checker_.Violated("Submit took a request for a model that is closed");
      pending_.reset();
      return false;
    }
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
    const int least = options_.may_lose_all ? 0 : 1;
    const bool enough = failed_ + least < static_cast<int>(devices_.size());
    const bool well = !device.failed() && !device.abandoned() && !hanging_.contains(&device);
    if (!enough || !well) return;
    if (Chance(options_.fail_chance)) {
      device.Fail(absl::InternalError("a simulated failure"));
      checker_.DeviceFailed(device);
      ++failed_;
      rests_since_failure_ = 0;
    } else if (Chance(options_.hang_chance)) {
      device.Hang();
      hanging_[&device] = clock_.NowNs();
      ++failed_;
    }
  }

  void ReleaseHeld() {
    held_->HoldSignal(false);
    // What was done before it hangs is seen only now.
    if (const auto hangs = hanging_.find(held_); hangs != hanging_.end()) {
      hangs->second = clock_.NowNs();
    }
    held_ = nullptr;
  }

  // By when a worker that looks must have given up that device; none: nothing runs there.
  std::optional<int64_t> MostUntil(const SimDevice& device, int64_t shown_ns) const {
    const std::optional<int64_t> since = device.hangs_since_ns();
    if (!since || &device == held_) return std::nullopt;
    return std::max(*since, shown_ns) + MostTaskNs(options_);
  }

  // Everybody has looked at this time.
  void CheckWhoHangs() {
    for (const auto& [device, shown_ns] : hanging_) {
      const std::optional<int64_t> until = MostUntil(*device, shown_ns);
      if (until && clock_.NowNs() > *until) {
        checker_.Violated(absl::StrCat(device->info().name, " hangs since ",
                                       *device->hangs_since_ns(), ", and is not given up at ",
                                       clock_.NowNs(), "; it must be by ", *until));
      }
    }
  }

  // Nobody has anything to do: time moves to the next event. False if there is none.
  bool Rest() {
    if (++rests_since_failure_ >= 3 && hanging_.empty()) failures_known_ = failed_;
    CheckWhoHangs();
    std::optional<int64_t> next = NextEventNs(devices_);
    for (const auto& [device, shown_ns] : hanging_) {
      // So far at once that a signal which is held would look like one that hangs.
      const auto until = held_ == nullptr ? MostUntil(*device, shown_ns) : std::nullopt;
      if (until) next = Earlier(next, *until + 1);
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
    int64_t tasks = 0, cells = 0, padding = 0, overrun = 0, stop_steps = 0;
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
        padding += static_cast<int64_t>(type.padding);
        overrun += static_cast<int64_t>(type.overrun);
        stop_steps += static_cast<int64_t>(type.stop_steps);
      }
    }
    if (options_.host_blocks && memories_[0]->options().host_blocks->bytes_in_use() > 0) {
      checker_.Violated("at the end there are host blocks in use");
    }
    const Tally& tally = checker_.tally();
    if (stock_->unloads() > 0) return;  // whose counts went with them
    const bool counted = tasks == tally.tasks && cells == tally.nodes + tally.padding;
    if (failed_ == 0 && (!counted || padding != tally.padding)) {
      checker_.Violated(absl::StrCat("the statistics count ", tasks, " tasks, ", cells,
                                     " cells and ", padding, " of padding; devices ran ",
                                     tally.tasks, ", ", tally.nodes + tally.padding, " and ",
                                     tally.padding));
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
    report_.longest = checker_.longest();
    report_.all_lost = AllLost();
    report_.loads = stock_->loads();
    report_.unloads = stock_->unloads();
    report_.failed_loads = stock_->failed_loads();
    report_.takeovers = stock_->takeovers();
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
    taken_apart_ = true;
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
  std::mt19937_64 random_, takeovers_random_;
  Generator generator_;
  VirtualClock clock_;
  Checker checker_;
  std::vector<SimMemory*> memories_;
  std::vector<SimDevice*> devices_;
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
  // Those that were told to hang, from their next task on at the latest, and were not given up; and since when their
  // signal shows all that they did before.
  std::map<const SimDevice*, int64_t> hanging_;
  bool started_ = false, taken_apart_ = false;
  int last_steps_ = 0, at_rest_ = 0;
  SimulationReport report_;
  std::unique_ptr<Stock> stock_;
  std::unique_ptr<Scheduler> scheduler_;  // last: it goes first, and its devices with it
};

}  // namespace

int64_t HeapInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

std::optional<int64_t> HeapGrowthBytes(const SimulationReport& report) {
  if (report.heap_bytes.size() < 9) return std::nullopt;
  return report.heap_bytes[8] - report.heap_bytes[1];
}

SimulationReport Simulate(const SimulationOptions& options) { return Simulation(options).Run(); }

}  // namespace cellbatch::sim

#include "scheduler/record/schedule_replay.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/manager.h"
#include "scheduler/record/replayed_device.h"
#include "scheduler/record/replayed_lane.h"
#include "scheduler/record/schedule_tape.h"

namespace cellbatch {
namespace {

// Steps that see nothing and do nothing change nothing but who sleeps, and that at once; where workers take from each other
// at any time, all of them are taken.
constexpr uint64_t kIdleStepsThatMatter = 2;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

absl::Status Contradiction(int64_t step, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("step ", step, " of the recorded schedule ", std::string(what)));
}

class StoppedClock final : public Clock {
 public:
  int64_t NowNs() const override { return 0; }
};

// A request that is under way.
struct Playing {
  std::unique_ptr<Request> request;
  std::unique_ptr<std::byte, void (*)(std::byte*)> slab{
      nullptr, [](std::byte* slab) { DeleteBlock(slab, kSlabBytes); }};
  const RecordedRequest* record = nullptr;
};

struct Continuation {
  uint64_t request;
  bool piece;
};

class Player final : private ReplayedMessages {
 public:
  Player(const RecordedRun& run, const ReplayOptions& options, const Clock& clock);

  absl::StatusOr<ScheduleReport> Play();

 private:
  using Words = absl::Span<const uint64_t>;

  void MakeWorkers();
  ManagerParts Parts();
  absl::Status Step(Words words);
  absl::Status Give(Words words);
  absl::Status GiveEvent(uint64_t word, Words operands);
  absl::Status GiveControl(uint64_t word, uint32_t serial);
  absl::Status GiveFinished(int worker, int64_t start_ns, int64_t end_ns);
  absl::Status GiveStops(uint64_t count, Words bits);
  absl::Status GiveArrival(uint64_t id, bool bad_graph);
  absl::Status GiveContinued(uint64_t id, bool failed, bool piece);
  // While the manager takes its messages.
  void Arriving(RequestBlock& block) override { slots_.block(block.slot) = &block; }
  bool Continuing(RequestBlock& block) override;
  uint64_t NewsOf(uint32_t) override { return news_[next_news_++]; }
  absl::Status Extend(RequestBlock& block, const Continuation& how);
  absl::StatusOr<Lane*> MakeLane(uint32_t serial);
  absl::Status MakePolicy(uint32_t serial, uint32_t number);
  void TakeSteps(uint64_t idle);
  void TakeAnswers();
  void EndControl();
  void Compare(Words recorded);
  void Count(uint64_t submitted);

  const RecordedRun& run_;
  const ReplayOptions& options_;
  const Clock& clock_;
  const StoppedClock stopped_clock_;
  const SchedulerOptions scheduler_;
  const int depth_;
  ScheduleTape tape_;
  std::vector<uint64_t> news_;  // of this step, one for each message of it
  std::vector<Continuation> continued_;
  size_t next_news_ = 0, next_continued_ = 0;
  absl::Status continuing_;  // what went wrong there
  std::vector<std::unique_ptr<ReplayedDevice>> devices_;
  std::vector<std::unique_ptr<TaskRing>> rings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Doorbell>> worker_bells_, outbox_bells_;
  std::vector<std::unique_ptr<Outbox<RequestBlock*>>> outboxes_;
  std::vector<DeviceCounters> counters_;
  RequestSlots slots_;
  MpscRing messages_;
  std::unordered_map<uint32_t, std::unique_ptr<Lane>> lanes_;  // by serial
  std::unique_ptr<ControlMessage> control_;
  std::unique_ptr<Manager> manager_;
  std::unordered_map<uint64_t, Playing> playing_;
  std::vector<uint64_t> done_;  // by worker: the last task that is
  int last_worker_ = 0;         // of whose task stops are said
  std::vector<uint64_t> taken_;
  ScheduleReport report_;
};

Player::Player(const RecordedRun& run, const ReplayOptions& options, const Clock& clock)
    : run_(run),
      options_(options),
      clock_(clock),
      scheduler_(ReplayedOptions(run.setup)),
      depth_(run.setup.max_tasks_in_flight),
      counters_(run.setup.memory_of.size()),
      slots_(run.setup.max_requests),
      messages_(2 * Index(run.setup.max_requests)),
      done_(run.setup.memory_of.size(), 0) {
  MakeWorkers();
  outboxes_.push_back(std::make_unique<Outbox<RequestBlock*>>(Index(run.setup.max_requests)));
  outbox_bells_.push_back(std::make_unique<Doorbell>());
  manager_ = std::make_unique<Manager>(scheduler_, depth_, Parts());
}

void Player::MakeWorkers() {
  for (size_t d = 0; d < run_.setup.memory_of.size(); ++d) {
    ReplayedDevice& device = *devices_.emplace_back(
        std::make_unique<ReplayedDevice>(TaskRing::BytesNeeded(depth_, scheduler_.batch_limit)));
    rings_.push_back(
        std::make_unique<TaskRing>(device.task_memory(), depth_, scheduler_.batch_limit));
    workers_.push_back(std::make_unique<Worker>(device, *rings_.back(), stopped_clock_));
    worker_bells_.push_back(std::make_unique<Doorbell>());
  }
}

ManagerParts Player::Parts() {
  ManagerParts parts;
  parts.workers = workers_;
  parts.rings = rings_;
  parts.memory_of = run_.setup.memory_of;
  parts.outboxes = outboxes_;
  parts.outbox_bells = outbox_bells_;
  parts.worker_bells = worker_bells_;
  parts.device_counters = absl::MakeSpan(counters_);
  parts.slots = &slots_;
  parts.messages = &messages_;
  parts.tape = &tape_;
  parts.replayed = this;
  return parts;
}

absl::StatusOr<ScheduleReport> Player::Play() {
  const Words tape = run_.tape;
  for (size_t at = 0; at < tape.size() && report_.difference.empty();) {
    if (OpOf(tape[at]) != TapeOp::kStep) return Contradiction(report_.steps, "has no beginning");
    size_t end = at + 1;
    while (end < tape.size() && OpOf(tape[end]) != TapeOp::kStep) {
      const int operands = TapeOperands(tape[end]);
      if (operands < 0 || Index(operands) >= tape.size() - end) {
        return Contradiction(report_.steps, "has a word that says nothing");
      }
      end += 1 + Index(operands);
    }
    if (absl::Status s = Step(tape.subspan(at, end - at)); !s.ok()) return s;
    if (!report_.ends_early.empty()) break;
    at = end;
  }
  if (report_.ends_early.empty() && run_.lost_steps > 0) {
    report_.ends_early = absl::StrCat(run_.lost_steps, " steps that found no room in the record");
  }
  return std::move(report_);
}

absl::Status Player::Step(Words words) {
  TakeSteps(FieldOf(words[0], 8, 56));
  if (absl::Status s = Give(words.subspan(1)); !s.ok() || !report_.ends_early.empty()) return s;
  const int64_t before = clock_.NowNs();
  manager_->Step();
  report_.step_ns += clock_.NowNs() - before;
  if (!continuing_.ok() || !report_.ends_early.empty()) return continuing_;
  ++report_.steps;
  EndControl();
  TakeAnswers();
  taken_.clear();
  tape_.Read(taken_);
  Compare(words);
  return options_.check_invariants ? manager_->CheckInvariants() : absl::OkStatus();
}

void Player::TakeSteps(uint64_t idle) {
  if (scheduler_.stealing != Stealing::kAlways) idle = std::min(idle, kIdleStepsThatMatter);
  for (; idle > 0; --idle) manager_->Step();
}

// Tasks that are done must be so when the step begins; messages it takes one by one, in order.
absl::Status Player::Give(Words words) {
  news_.clear();
  continued_.clear();
  next_news_ = next_continued_ = 0;
  for (size_t at = 0; at < words.size();) {
    const size_t operands = Index(TapeOperands(words[at]));
    absl::Status given = GiveEvent(words[at], words.subspan(at + 1, operands));
    if (!given.ok() || !report_.ends_early.empty()) return given;
    at += 1 + operands;
  }
  for (size_t w = 0; w < rings_.size(); ++w) {
    if (done_[w] != rings_[w]->done()) rings_[w]->Done(done_[w]);
  }
  return absl::OkStatus();
}

absl::Status Player::GiveEvent(uint64_t word, Words operands) {
  const uint64_t worker = FieldOf(word, 8, 8);
  switch (OpOf(word)) {
    case TapeOp::kControl:
      return GiveControl(word, static_cast<uint32_t>(operands[0]));
    case TapeOp::kFailed:
      if (worker >= workers_.size()) return Contradiction(report_.steps, "loses no device");
      devices_[worker]->Break();
      workers_[worker]->Step();
      return absl::OkStatus();
    case TapeOp::kFinished:
      return GiveFinished(static_cast<int>(worker), static_cast<int64_t>(operands[0]),
                          static_cast<int64_t>(operands[1]));
    case TapeOp::kStops:
      return GiveStops(FieldOf(word, 8, 30), operands);
    case TapeOp::kArrived:
      return GiveArrival(operands[0], FieldOf(word, 8, 8) != 0);
    case TapeOp::kNews: {
      const uint64_t slot = FieldOf(word, 8, 32);
      if (slot >= Index(scheduler_.max_requests))
        return Contradiction(report_.steps, "has no slot");
      news_.push_back(operands[0]);
      messages_.Push(NewsMessage(static_cast<uint32_t>(slot)));
      return absl::OkStatus();
    }
    case TapeOp::kContinued:
      return GiveContinued(operands[0], FieldOf(word, 8, 8) != 0, FieldOf(word, 16, 8) != 0);
    case TapeOp::kStep:
    case TapeOp::kSubmitted:
      break;
  }
  return absl::OkStatus();
}

absl::Status Player::GiveControl(uint64_t word, uint32_t serial) {
  const auto kind = static_cast<ControlMessage::Kind>(FieldOf(word, 8, 8));
  if (kind > ControlMessage::Kind::kPolicy) return Contradiction(report_.steps, "asks for nothing");
  if (control_ == nullptr) {
    Lane* lane = nullptr;
    if (kind == ControlMessage::Kind::kOpen) {
      if (lanes_.contains(serial)) return Contradiction(report_.steps, "opens a lane twice");
      const absl::StatusOr<Lane*> made = MakeLane(serial);
      if (!made.ok() || !report_.ends_early.empty()) return made.status();
      lane = *made;
    } else if (kind != ControlMessage::Kind::kStop) {
      const auto found = lanes_.find(serial);
      if (found == lanes_.end()) return Contradiction(report_.steps, "closes no lane");
      lane = found->second.get();
    }
    control_ = std::make_unique<ControlMessage>();
    control_->kind = kind;
    control_->lane = lane;
    if (kind == ControlMessage::Kind::kPolicy) {
      absl::Status made = MakePolicy(serial, static_cast<uint32_t>(FieldOf(word, 32, 32)));
      if (!made.ok() || !report_.ends_early.empty()) return made;
    }
    manager_->Post(control_.get());
  }
  if (control_->kind != kind) return Contradiction(report_.steps, "asks for two things at once");
  control_->cut = FieldOf(word, 16, 8) != 0;
  control_->when_idle = FieldOf(word, 24, 8) != 0;
  control_->turn = static_cast<uint32_t>(FieldOf(word, 32, 32));
  return absl::OkStatus();
}

absl::StatusOr<Lane*> Player::MakeLane(uint32_t serial) {
  const auto found = run_.lanes.find(serial);
  if (found == run_.lanes.end()) {
    report_.ends_early = absl::StrCat("lane ", serial, " is not in the record");
    return nullptr;
  }
  auto made = ReplayedLane(found->second, options_.policy, run_.setup, scheduler_);
  if (!made.ok()) return made.status();
  return (lanes_[serial] = *std::move(made)).get();
}

absl::Status Player::MakePolicy(uint32_t serial, uint32_t number) {
  const RecordedLane& recorded = run_.lanes.at(serial);
  const auto found = recorded.taken.find(number);
  if (found == recorded.taken.end()) {
    report_.ends_early =
        absl::StrCat("policy ", number, " of lane ", serial, " is not in the record");
    return absl::OkStatus();
  }
  auto made = ReplayedPolicy(*control_->lane, found->second, options_.policy);
  if (!made.ok()) return made.status();
  control_->policy = made->get();
  control_->lane->ShowPolicy(*std::move(made));
  return absl::OkStatus();
}

absl::Status Player::GiveFinished(int worker, int64_t start_ns, int64_t end_ns) {
  if (Index(worker) >= rings_.size() ||
      done_[Index(worker)] + 1 >= rings_[Index(worker)]->next_sequence()) {
    return Contradiction(report_.steps, "sees a task done that was not submitted");
  }
  TaskRing& ring = *rings_[Index(worker)];
  BatchedTask& task = ring.task(++done_[Index(worker)]);
  ring.Enqueued(1);
  task.start_ns = start_ns;
  task.end_ns = end_ns;
  last_worker_ = worker;
  return absl::OkStatus();
}

absl::Status Player::GiveStops(uint64_t count, Words bits) {
  const TaskSlot& slot = rings_[Index(last_worker_)]->slot(done_[Index(last_worker_)]);
  if (done_[Index(last_worker_)] == 0 || slot.notes->queue == nullptr ||
      slot.notes->stops.size() != count) {
    return Contradiction(report_.steps, "reads the words of another task");
  }
  const int memory = run_.setup.memory_of[Index(last_worker_)];
  auto& model = static_cast<ReplayedModel&>(*slot.notes->lane->loaded(memory).model);
  for (size_t i = 0; i < count; ++i) {
    const StopNode& stop = slot.notes->stops[i];
    const NodeInfo& info = stop.block->info(*stop.record);
    const bool stops = (bits[i / 64] >> i % 64 & 1) != 0;
    model.SetWord(slot.notes->queue->shape().out, ColumnId(info.stop_column), stop.row,
                  stops ? info.stop_value : ~info.stop_value);
  }
  return absl::OkStatus();
}

absl::Status Player::GiveArrival(uint64_t id, bool bad_graph) {
  const auto found = run_.request_at.find(id);
  const auto lane = found == run_.request_at.end()
                        ? run_.lanes.end()
                        : run_.lanes.find(run_.requests[found->second].serial);
  if (lane == run_.lanes.end()) {
    report_.ends_early = absl::StrCat("request ", id, " is not in the record");
    return absl::OkStatus();
  }
  const auto slot = static_cast<uint32_t>(id);
  if (slot >= Index(scheduler_.max_requests) || playing_.contains(id)) {
    return Contradiction(report_.steps, "has a request arrive that cannot");
  }
  Playing playing;
  playing.record = &run_.requests[found->second];
  playing.slab.reset(static_cast<std::byte*>(NewBlock(kSlabBytes)));
  playing.request = std::make_unique<Request>();
  Request& request = *playing.request;
  request.model = lane->second.model;
  request.priority = playing.record->priority;
  if (request.priority < 0 || request.priority > request.model->priority_levels) {
    return Contradiction(report_.steps, "has a request of a priority that its model has not");
  }
  absl::Status status = AddPiece(playing.record->shape, *request.model, depth_, request.graph);
  if (!status.ok()) return status;
  const auto served = lanes_.find(playing.record->serial);
  const bool facts = served != lanes_.end() && served->second->counts_nodes();
  RequestBlock* block = nullptr;
  status = BuildBlock(request, depth_, facts, playing.slab.get(), &block);
  if (!status.ok() && !bad_graph) return status;
  if (bad_graph) block->outcome = Outcome::kBadGraph;
  block->slot = slot;
  block->generation = static_cast<uint32_t>(id >> 32);
  block->lane = static_cast<int16_t>(playing.record->lane);
  block->lane_serial = playing.record->serial;
  if (block->lane < 0 || block->lane >= kMaxLanes)
    return Contradiction(report_.steps, "has no lane");
  playing_[id] = std::move(playing);
  messages_.Push(ArrivalMessage(block));
  return absl::OkStatus();
}

absl::Status Player::GiveContinued(uint64_t id, bool failed, bool piece) {
  const auto found = playing_.find(id);
  if (found == playing_.end()) {
    return Contradiction(report_.steps, "goes on with a request that is not there");
  }
  continued_.push_back({id, piece});
  messages_.Push(ContinuedMessage(found->second.request->run.block(), failed));
  return absl::OkStatus();
}

bool Player::Continuing(RequestBlock& block) {
  if (block.state != RequestState::kPaused) {
    continuing_ = Contradiction(report_.steps, "goes on with a request that does not wait for it");
    return false;
  }
  continuing_ = Extend(block, continued_[next_continued_++]);
  return continuing_.ok() && report_.ends_early.empty();
}

// As a taker does; who was told of the piece has taken that.
absl::Status Player::Extend(RequestBlock& block, const Continuation& how) {
  Playing& playing = playing_.at(how.request);
  Request& request = *playing.request;
  block.mail.fetch_and(static_cast<uint8_t>(~RequestBlock::kPieceDone));
  block.next_piece = nullptr;
  if (!how.piece) return absl::OkStatus();
  if (Index(request.graph.pieces()) >= playing.record->shape.pieces.size()) {
    report_.ends_early = absl::StrCat("a piece of request ", how.request, " is not in the record");
    return absl::OkStatus();
  }
  RecordStops(block, request.graph);
  absl::Status status = AddPiece(playing.record->shape, *request.model, depth_, request.graph);
  if (status.ok()) {
    status = BuildBlock(request, depth_, block.has_facts, /*slab=*/nullptr, &block.next_piece);
  }
  return status;
}

void Player::EndControl() {
  if (control_ == nullptr || !control_->done.load()) return;
  const bool gone = control_->kind == ControlMessage::Kind::kClose ||
                    (control_->kind == ControlMessage::Kind::kOpen && !control_->opened);
  if (gone) lanes_.erase(control_->lane->serial());
  control_.reset();
}

void Player::TakeAnswers() {
  Outbox<RequestBlock*>& outbox = *outboxes_[0];
  const size_t ready = outbox.ready();
  for (size_t i = 0; i < ready; ++i) {
    RequestBlock& block = *outbox.entry(i);
    constexpr uint8_t kTaken = RequestBlock::kInOutbox | RequestBlock::kPieceDone;
    const uint8_t mail =
        block.mails ? block.mail.fetch_and(static_cast<uint8_t>(~kTaken)) : RequestBlock::kAnswered;
    if ((mail & RequestBlock::kAnswered) == 0) continue;  // it waits for its next piece
    const auto at = playing_.find(ScheduleTape::RequestWord(block.slot, block.generation));
    ReplayedAnswer& answer = report_.answers.emplace_back();
    answer.request = at->first;
    if (block.first_start_ns != 0) {
      answer.queue_ns = block.first_start_ns - at->second.record->submitted_ns;
      answer.compute_ns = block.last_end_ns - block.first_start_ns;
    }
    playing_.erase(at);
  }
  outbox.Drop(ready);
}

void Player::Count(uint64_t submitted) {
  const auto nodes = static_cast<int64_t>(FieldOf(submitted, 40, 16));
  const size_t type = FieldOf(submitted, 24, 16);
  if (report_.tasks_by_type.size() <= type) report_.tasks_by_type.resize(type + 1);
  ++report_.tasks_by_type[type];
  ++report_.tasks;
  report_.nodes += nodes;
}

// All but how many steps did nothing before this one, of which some are left out here.
void Player::Compare(Words recorded) {
  const Words taken = taken_;
  size_t at = 1;
  const size_t both = std::min(recorded.size(), taken.size());
  while (at < both && recorded[at] == taken[at]) ++at;
  const auto count = [&](Words words, uint64_t& hash, bool report) {
    for (size_t i = 1; i < words.size(); i += 1 + Index(TapeOperands(words[i]))) {
      if (OpOf(words[i]) != TapeOp::kSubmitted) continue;
      hash = words[i + 1];
      if (report) Count(words[i]);
    }
  };
  count(recorded, report_.recorded_hash, false);
  count(taken, report_.replayed_hash, true);
  if (at == recorded.size() && taken.size() == recorded.size()) return;
  const auto word = [&](Words words) {
    return at < words.size() ? absl::StrCat(absl::Hex(words[at], absl::kZeroPad16))
                             : std::string("nothing");
  };
  report_.difference =
      absl::StrCat("step ", report_.steps, ", word ", at, " (after ", report_.tasks,
                   " tasks): recorded ", word(recorded), ", replayed ", word(taken));
}

}  // namespace

absl::StatusOr<ScheduleReport> ReplaySchedule(const RecordedRun& run, const ReplayOptions& options,
                                              const Clock& clock) {
  if (absl::Status s = CheckRecorded(run.setup); !s.ok()) return s;
  return std::make_unique<Player>(run, options, clock)->Play();  // large, and of cache lines
}

}  // namespace cellbatch

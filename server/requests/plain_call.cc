#include "server/requests/plain_call.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "cells/vocabulary.h"
#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

// Its numbers are those of bounds, times and devices; else they may be a request's own.
bool SpeaksOfBounds(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

// A model's own cells say what they leave as a number: no fault of who asked, and none that other requests are to feel.
absl::Status CheckNames(absl::Span<const ReturnedTensor> tensors) {
  for (const ReturnedTensor& tensor : tensors) {
    if (tensor.names == nullptr) continue;
    for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(int32_t)) {
      int32_t id = 0;
      std::memcpy(&id, tensor.bytes.data() + at, sizeof(id));
      if (id >= 0 && id < tensor.names->size()) continue;
      return absl::InternalError(fmt::format("output {}: a cell left number {}, there are {} names",
                                             tensor.name, id, tensor.names->size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

PlainCall::PlainCall(ServerCall& call, RequestPath& path)
    : call_(call), path_(path), shard_(call.shard()), stats_(&path.unknown_model()) {}

PlainCall::Item::Item(PlainCall& call, int place)
    : ServedRequest(call.call_.received_ns(), call.shard_), call_(call), place_(place) {
  model = call.model_;
  stats = call.stats_;
}

void PlainCall::Start(std::unique_ptr<PlainCall> call) {
  if (Tracer* const tracer = call->path_.tracer()) [[unlikely]] {
    if (const auto place = tracer->Begin(call->call_.traceparent())) {
      call->trace_ = std::make_unique<RequestTrace>(*place, call->call_.received_ns());
    }
  }
  absl::Status status = call->Prepare();
  if (status.ok()) status = call->CheckTime("when the request arrived");
  const int shard = call->shard_;
  if (!status.ok()) {
    RunAll(Refuse(std::move(call), status), shard);
  } else if (call->piece_ != nullptr) {
    TakeTurn(std::move(call));
  } else {
    RunAll(call.release()->SubmitAll(), shard);
  }
}

absl::Status PlainCall::Prepare() {
  if (absl::Status status = AdmitMessage(); !status.ok()) return status;
  const absl::StatusOr<PlainHead> head = Read(call_.request());
  if (!head.ok()) return head.status();
  asked_name_ = head->model_name;
  asked_version_ = head->model_version;
  if (absl::Status status = CheckAccess(*head); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<const Model>> model =
      path_.Find(head->model_name, head->model_version);
  if (!model.ok()) {
    // Ours, but not there now: counted as rejected, so with a reason.
    if (absl::IsUnavailable(model.status())) stats_->RecordRejected(shard_, Rejection::kLoading);
    return model.status();
  }
  model_ = *std::move(model);
  stats_ = &path_.StatsOf(*model_);
  requests_ = head->requests;
  of_ = PartiesOf(model_.get());
  if (!path_.Enter(*model_, *stats_, shard_, call_.received_ns(), door_, result_)) {
    return result_.status;
  }
  // Before anything is decoded for it: what cannot be in time is to cost as little as it can.
  if (absl::Status late =
          path_.CheckInTime(*model_, *stats_, shard_, call_.deadline_ns(), result_.pushback_ms);
      !late.ok()) {
    return late;
  }
  return PrepareItems();
}

// Before the model is looked for: who may not ask of it does not hear whether it is there.
absl::Status PlainCall::CheckAccess(const PlainHead& head) {
  const Access* const access = call_.access();
  if (access == nullptr) return absl::OkStatus();
  if (absl::Status status = access->MayAsk(head.model_name); !status.ok()) return status;
  absl::Status status =
      access->TakeRequests(head.requests, call_.received_ns(), result_.pushback_ms);
  if (!status.ok()) stats_->RecordRejected(shard_, Rejection::kTokenRate);
  return status;
}

Parties PlainCall::PartiesOf(const Model* model) const {
  Parties of = path_.PartiesOf(call_.client(), model);
  if (const Access* const access = call_.access()) of.client = &access->party();
  return of;
}

// What the message may take before it is made whole, then what it takes and what reading it will.
absl::Status PlainCall::AdmitMessage() {
  const Parties client = PartiesOf(nullptr);
  const int64_t came_ns = call_.received_ns();
  Demand demand = {1, 0, call_.most_bytes()};
  if (!path_.Admit(demand, client, *stats_, shard_, came_ns, door_, result_)) {
    return result_.status;
  }
  if (absl::Status status = call_.Open(); !status.ok()) return status;
  const std::string_view message = call_.request();
  const auto size = static_cast<int64_t>(message.size());
  if (size != demand.bytes) door_.Keep({1, 0, size});
  int64_t reading = 0;
  if (absl::Status status = Look(message, reading); !status.ok()) return status;
  if (reading == 0) return absl::OkStatus();
  Ticket more;
  if (path_.TryAdmit({0, 0, reading}, client, came_ns, more)) {
    door_.Join(std::move(more));
    return absl::OkStatus();
  }
  // A refusal speaks of all of it.
  door_.Release();
  demand.bytes = size + reading;
  path_.Admit(demand, client, *stats_, shard_, came_ns, door_, result_);
  return result_.status;
}

absl::Status PlainCall::PrepareItems() {
  for (int i = 0; i < requests_; ++i) {
    Item& item = NextItem(i);
    absl::Status status;
    std::optional<int32_t> pushback;
    const Step step = PrepareItem(i, item, status, pushback);
    if (step == Step::kAdmitted) {
      item.deadline.deadline_ns = DeadlineOf(item);
      if (piece_ == nullptr) ++num_items_;
      continue;
    }
    DropItem();
    if (step == Step::kFull) return result_.status;
    if (!AnswersError(i, Shortened(status))) {
      result_.pushback_ms = pushback;
      return status;
    }
    TellFailed(status, i, 1, nullptr);
    path_.Refused(*stats_, shard_, call_.received_ns(), status).IgnoreError();
    ++refused_;
  }
  return absl::OkStatus();
}

PlainCall::Step PlainCall::PrepareItem(int i, Item& item, absl::Status& status,
                                       std::optional<int32_t>& pushback) {
  PlainRequest plain;
  status = Spell(i, plain);
  if (status.ok()) status = path_.Decode(item, plain);
  if (status.ok() && item.decoded.sequence().has_value()) status = BecomePiece(item);
  if (!status.ok()) return Step::kWrong;
  return piece_ == nullptr ? AdmitItem(i, item, status, pushback) : Step::kAdmitted;
}

PlainCall::Step PlainCall::AdmitItem(int i, Item& item, absl::Status& status,
                                     std::optional<int32_t>& pushback) {
  Demand answer, work;
  Ticket ticket;
  status = path_.Unfold(item, answer, pushback);
  if (!status.ok()) return Step::kWrong;
  answer.requests = num_items_ == 0 ? 0 : 1;  // the door counted the first
  if (!AdmitMore(answer, ticket)) return Step::kFull;
  status = path_.Seal(item, work, pushback);
  if (status.ok()) status = path_.CheckInTime(item, DeadlineOf(item), work_ns_, pushback);
  if (status.ok()) status = Check(i, *item.request);
  if (!status.ok()) return Step::kWrong;
  if (!AdmitMore(work, ticket)) return Step::kFull;
  work_.Join(std::move(ticket));
  work_ns_ += item.work.work_ns;
  return Step::kAdmitted;
}

// Into `ticket`, what one request takes. One after the other, so that what is unfolded and not admitted is never
// more than one request; but all of them or none, and a refusal speaks of all so far.
bool PlainCall::AdmitMore(const Demand& more, Ticket& ticket) {
  Ticket taken;
  if (path_.TryAdmit(more, of_, call_.received_ns(), taken)) {
    ticket.Join(std::move(taken));
    return true;
  }
  work_.Join(std::move(ticket));
  const Demand before = work_.demand(), door = door_.demand();
  work_.Release();
  door_.Release();
  const Demand all = {door.requests + before.requests + more.requests,
                      door.cells + before.cells + more.cells,
                      door.bytes + before.bytes + more.bytes};
  return path_.Admit(all, of_, *stats_, shard_, call_.received_ns(), door_, result_);
}

// The earlier of the client's deadline and the `timeout` parameter.
int64_t PlainCall::DeadlineOf(const Item& item) const {
  int64_t deadline = call_.deadline_ns();
  if (const auto timeout_us = item.decoded.timeout_us()) {
    int64_t end = 0;
    if (!__builtin_mul_overflow(*timeout_us, int64_t{1000}, &end) &&
        !__builtin_add_overflow(end, item.received_ns, &end)) {
      deadline = std::min(deadline, end);
    }
  }
  return deadline;
}

absl::Status PlainCall::CheckTime(std::string_view when) {
  int64_t deadline = call_.deadline_ns();
  for (size_t i = 0; i < num_items_; ++i) {
    deadline = std::min(deadline, item(i).deadline.deadline_ns);
  }
  if (piece_ != nullptr) deadline = std::min(deadline, first_->deadline.deadline_ns);
  const bool hung_up = call_.cancel_slot().cancelled();
  if ((deadline != kNoDeadline && path_.clock().NowNs() >= deadline) ||
      (hung_up && path_.LateToHangUp(call_))) {
    return absl::DeadlineExceededError(fmt::format("the deadline had passed {}", when));
  }
  return hung_up ? absl::CancelledError("the client cancelled") : absl::OkStatus();
}

// Every request without an answer of its own ends here, too; a call that never had any counts as one.
PlainCall::Next PlainCall::Refuse(std::unique_ptr<PlainCall> call, const absl::Status& status) {
  const int left = call->model_ == nullptr ? 1 : std::max(call->requests_ - call->refused_, 1);
  call->TellFailed(status, -1, left, nullptr);
  for (int i = 0; i < left; ++i) {
    call->result_.status =
        call->path_.Refused(*call->stats_, call->shard_, call->call_.received_ns(), status);
  }
  return End(std::move(call));
}

PlainCall::Next PlainCall::SubmitAll() {
  holders_.store(static_cast<int>(num_items_) + 1, std::memory_order_relaxed);
  absl::InlinedVector<RequestId, 4> ids;
  if (trace_ != nullptr) [[unlikely]]
    trace_->Submitted(path_.TasksOf(*model_));
  for (size_t i = 0; i < num_items_; ++i) {
    Item& served = item(i);
    // Once it is submitted, the responder may be at it, too.
    if (const std::optional<RequestId> id = path_.Submit(served)) {
      ids.push_back(*id);
      path_.ArmDeadline(served, *id);
      continue;
    }
    served.deadline.deadline_ns = kNoDeadline;
    const absl::Status full =
        absl::UnavailableError(fmt::format("model {} takes no requests now", Quoted(model_->name)));
    TellFailed(full, static_cast<int>(i), 1, nullptr);
    CutOff(path_.Refused(*stats_, served.shard, served.received_ns, full));
    static_cast<void>(LetGo());  // not the last one: this holds it, too
  }
  if (!call_.cancel_slot().Publish(ids)) {
    const News news = path_.LateToHangUp(call_) ? News::kExpired : News::kCancelled;
    for (const RequestId id : ids) path_.Notify(id, news);
  }
  return LetGo();
}

void PlainCall::Item::OnDone(int responder, std::unique_ptr<Request> done) {
  absl::Status& status = done->status;
  const int shard_of_responder = call_.path_.ShardOf(responder);
  if (status.ok()) {
    done->graph.CloseAnswer();
    status = CheckNames(done->graph.tensors());
  }
  if (status.ok()) {
    absl::Span<const ReturnedTensor> tensors = done->graph.tensors();
    if (Piece* const piece = call_.piece_.get()) {
      piece->left = TakeState(model->signature, tensors);
      tensors = tensors.first(piece->asked);
    }
    call_.Answer(place_, tensors);
  } else {
    const absl::Status shown = Shortened(OfModel(*model, status));
    const bool from_outside = absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
                              absl::IsUnavailable(status);
    call_.TellFailed(status, place_, 1, done.get());
    if (from_outside || !call_.AnswersError(place_, shown)) call_.CutOff(shown);
  }
  if (call_.path_.tracer() != nullptr) [[unlikely]] {
    const std::lock_guard lock(call_.mutex_);
    if (call_.trace_ != nullptr) {
      call_.trace_->Done(place_, *model, *done, call_.path_.TasksOf(*model),
                         call_.path_.clock().NowNs());
    }
  }
  call_.path_.RecordEnd(responder, *this, *done);
  done.reset();
  RunAll(call_.LetGo(), shard_of_responder);
}

// Which one it is, or would have been.
std::string_view PlainCall::Version() const {
  return model_ == nullptr ? asked_version_ : std::string_view(stats_->version());
}

void PlainCall::TellFailed(const absl::Status& status, int place, int requests,
                           const Request* done) {
  FailureLog* const log = path_.failures();
  if (log == nullptr || log->per_second() == 0) return;
  const std::string_view given = id().empty() ? call_.given_id() : id();
  std::string shown;
  {
    const std::lock_guard lock(mutex_);
    std::string& told = result_.request_id;
    if (told.empty()) told = given.empty() ? log->NewId() : ShownId(given);
    shown = told;
  }
  if (!log->Wants()) return;
  const RequestTimes times = done == nullptr ? RequestTimes() : done->times;
  const int64_t total = path_.clock().NowNs() - call_.received_ns();
  const std::string_view names[] = {asked_name_};
  const std::string client = call_.client_name();
  const std::string error = WithoutContents({status.message().data(), status.message().size()},
                                            names, SpeaksOfBounds(status));
  const std::string trace = TraceOfFailed(requests);
  log->Add({.id = shown,
            .model = asked_name_,
            .version = Version(),
            .wire = wire(),
            .client = client,
            .code = status.code(),
            .error = error,
            .outcome = Name(OutcomeOf(status)),
            .trace = trace,
            .total_ns = total,
            .queue_ns =
                times.first_task_start == 0 ? total : times.first_task_start - call_.received_ns(),
            .compute_ns = times.first_task_start == 0
                              ? 0
                              : std::max<int64_t>(times.last_task_end - times.first_task_start, 0),
            .nodes = done == nullptr ? 0 : done->nodes_executed,
            .input = requests_ > 1 ? place : -1,
            .requests = requests});
}

std::string PlainCall::TraceOfFailed(int requests) {
  const std::string_view traceparent = call_.traceparent();
  {
    const std::lock_guard lock(mutex_);
    if (Tracer* const tracer = path_.tracer(); tracer != nullptr && trace_ == nullptr) {
      if (const auto place = tracer->BeginFailed(traceparent)) {
        trace_ = std::make_unique<RequestTrace>(*place, call_.received_ns());
      }
    }
    if (trace_ != nullptr) {
      trace_->Failed(requests);
      return Digits(trace_->place().trace);
    }
  }
  const auto caller = ParseTraceparent(traceparent);
  return caller ? Digits(caller->trace) : std::string();
}

// Before the client has its answer, so that whoever has one and looks for its trace finds it as soon as it can be there.
void PlainCall::EndTrace() {
  const absl::Status& status = result_.status;
  const std::string_view names[] = {asked_name_};
  const std::string error = WithoutContents({status.message().data(), status.message().size()},
                                            names, SpeaksOfBounds(status));
  const std::string_view given = id().empty() ? call_.given_id() : id();
  const std::string shown = result_.request_id.empty() ? ShownId(given) : result_.request_id;
  const auto unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  path_.tracer()->End(
      trace_->End({.wire = wire(),
                   .id = shown,
                   .model = asked_name_,
                   .version = Version(),
                   .outcome = Name(OutcomeOf(status)),
                   .status = status.ok() ? status : absl::Status(status.code(), error),
                   .ended_ns = path_.clock().NowNs(),
                   .unix_ns = unix_ns.count()}));
}

void PlainCall::CutOff(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (result_.status.ok()) result_.status = status;
}

void PlainCall::Abandon() {
  for (const RequestId id : call_.cancel_slot().Cancel().ids) path_.Notify(id, News::kCancelled);
}

PlainCall::Next PlainCall::LetGo() {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return nullptr;
  for (size_t i = 0; i < num_items_; ++i) path_.DisarmDeadline(item(i));
  if (result_.status.ok()) {
    result_.body = Body();
    result_.ticket = std::move(door_);
    result_.ticket.Keep({1, 0, static_cast<int64_t>(result_.body.size())});
  }
  return End(std::unique_ptr<PlainCall>(this));
}

// What the answer does not need is back before the client can know; what it leaves of its sequence is there.
PlainCall::Next PlainCall::End(std::unique_ptr<PlainCall> call) {
  if (call->trace_ != nullptr) [[unlikely]]
    call->EndTrace();
  ServerCall& to = call->call_;
  CallResult result = std::move(call->result_);
  Next next = nullptr;
  if (Piece* const piece = call->piece_.get(); piece != nullptr && piece->entered()) {
    next = call->path_.sequences()->Leave(*piece, result.status.ok() ? piece->left : nullptr,
                                          call->path_.clock().NowNs());
  }
  if (!result.status.ok()) {
    if (auto body = call->ErrorBody(result.status, result.request_id)) {
      result.body = *std::move(body);
      result.status = absl::OkStatus();
    }
  }
  call.reset();
  to.Finish(std::move(result));
  return next;
}

PlainCall::Item& PlainCall::NextItem(int place) {
  if (num_items_ == 0) return first_.emplace(*this, place);
  return *more_.emplace_back(std::make_unique<Item>(*this, place));
}

void PlainCall::DropItem() {
  if (num_items_ == 0) {
    first_.reset();
  } else {
    more_.pop_back();
  }
}

}  // namespace cellbatch

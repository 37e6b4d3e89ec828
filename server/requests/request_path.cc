#include "server/requests/request_path.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cells/unfold/unfolder.h"
#include "cells/vocabulary.h"
#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr size_t kMaxErrorBytes = 1000;  // of a status text: it travels as a header
// So much more than estimated must be left, in eighths: under load everybody who is admitted is admitted as late as it goes, and
// what then misses its deadline by a little was computed in vain.
constexpr int64_t kMarginOfEstimates = 3;

// Of a tensor that its client sees as text: the number that cells leave, and the longest text, framed.
int64_t BytesOfElement(const ReturnedTensor& tensor) {
  if (tensor.names != nullptr) return 4 + 4 + static_cast<int64_t>(tensor.names->longest());
  return tensor.type == WireType::kInt64 ? 8 : 4;  // BYTES no cell leaves
}

// What returned tensors take, from their shapes alone; more than any answer may, where that does not fit.
int64_t BytesOfTensors(absl::Span<const ReturnedTensor> tensors) {
  constexpr int64_t kTooMany = int64_t{1} << 60;
  int64_t total = 0;
  for (const ReturnedTensor& tensor : tensors) {
    int64_t bytes = BytesOfElement(tensor);
    for (const int64_t dim : tensor.dims) {
      if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kTooMany) return kTooMany;
    }
    total += bytes;
    if (total > kTooMany) return kTooMany;
  }
  return total;
}

constexpr int64_t kLongAnswer = 16 << 10;  // some us to encode

int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

absl::Status Shortened(const absl::Status& status) {
  if (status.ok() || status.message().size() <= kMaxErrorBytes) return status;
  return absl::Status(status.code(), status.message().substr(0, kMaxErrorBytes));
}

absl::Status OfModel(const Model& model, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("model {}: {}", Quoted(model.name),
                                                 std::string(status.message())));
}

RequestPath::RequestPath(const PathOptions& options, FindModel find, Scheduler& scheduler,
                         Admission& admission, StatsRegistry& stats, const Clock& clock)
    : options_(options),
      find_(std::move(find)),
      scheduler_(scheduler),
      admission_(admission),
      stats_(stats),
      clock_(clock),
      deadlines_(clock, [this](TimedId whose) { Expired(whose); }) {
  for (int i = 0; i < options.responders; ++i) {
    latencies_.push_back(std::make_unique<LatencyRing>(options.latency_samples));
  }
}

absl::StatusOr<std::shared_ptr<const Model>> RequestPath::Find(std::string_view name,
                                                               std::string_view version) {
  absl::Status status = CheckModelName(name);
  if (status.ok()) status = CheckModelVersion(version);
  if (!status.ok()) return status;
  return find_(name, version);
}

Parties RequestPath::PartiesOf(uint64_t client, const Model* model) {
  return {.client = &admission_.ClientOf(client),
          .model = model == nullptr ? nullptr : &parties_[PlaceOf(model->id)]};
}

bool RequestPath::Admit(const Demand& demand, Parties of, ModelStats& stats, int shard,
                        int64_t now_ns, Ticket& ticket, CallResult& refused) {
  Refusal refusal;
  return admission_.Admit(demand, now_ns, ticket, refusal, of) ||
         Refuse(std::move(refusal), stats, shard, refused);
}

bool RequestPath::Enter(const Model& model, ModelStats& stats, int shard, int64_t now_ns,
                        Ticket& ticket, CallResult& refused) {
  Refusal refusal;
  return admission_.Enter(ticket, *PartiesOf(0, &model).model, now_ns, refusal) ||
         Refuse(std::move(refusal), stats, shard, refused);
}

bool RequestPath::Refuse(Refusal refusal, ModelStats& stats, int shard, CallResult& refused) {
  stats.RecordRejected(shard, refusal.reason);
  if (refusal.reason != Rejection::kDraining) refused.pushback_ms = refusal.pushback_ms;
  refused.status = std::move(refusal.status);
  return false;
}

absl::Status RequestPath::Unfold(ServedRequest& served, Demand& answer,
                                 std::optional<int32_t>& pushback) {
  const Model& model = *served.model;
  const RequestInput& input = served.decoded.input();
  served.length = input.tensors.empty() || input.tensors.front().dims.empty()
                      ? 0
                      : input.tensors.front().dims.front();
  served.request = std::make_unique<Request>();
  CellGraph& graph = served.request->graph;
  const absl::Status status = model.unfolder->Unfold(input, graph);
  if (!status.ok()) return OfModel(model, status);
  answer = {0, 0, BytesOfTensors(graph.tensors())};
  return CheckAnswer(served, answer.bytes, pushback);
}

absl::Status RequestPath::CheckAnswer(const ServedRequest& served, int64_t bytes,
                                      std::optional<int32_t>& pushback) const {
  if (bytes <= options_.max_answer_bytes) return absl::OkStatus();
  served.stats->RecordRejected(served.shard, Rejection::kBytes);
  pushback = -1;
  return absl::ResourceExhaustedError(
      fmt::format("model {}: the answer would have {} bytes, one answer may have {} "
                  "(--max-answer-bytes)",
                  Quoted(served.model->name), bytes, options_.max_answer_bytes));
}

absl::Status RequestPath::Seal(ServedRequest& served, Demand& work,
                               std::optional<int32_t>& pushback) {
  Request& request = *served.request;
  const absl::Status status = request.graph.Seal(*served.model, scheduler_.max_tasks_in_flight());
  if (!status.ok()) return OfModel(*served.model, status);
  request.tag = reinterpret_cast<uint64_t>(&served);
  request.model = served.model;
  request.outbox = OutboxId(served.shard % options_.responders);
  request.priority = served.decoded.priority();
  request.times.received = served.received_ns;
  served.work = WorkOf(*served.model).Of(request.graph, request.priority);
  work = {0, request.graph.most_nodes(), request.graph.device_bytes()};
  return CheckRows(served, pushback);
}

absl::Status RequestPath::CheckRows(const ServedRequest& served, std::optional<int32_t>& pushback) {
  const CellGraph& graph = served.request->graph;
  const Model& model = *served.model;
  const std::vector<int32_t>& most = max_rows_.Of(model.id, [&] {
    return std::make_unique<std::vector<int32_t>>(scheduler_.MaxRowsPerRequest(model.id));
  });
  for (size_t table = 0; table < most.size() && table < graph.row_counts().size(); ++table) {
    if (graph.row_counts()[table] <= most[table]) continue;
    served.stats->RecordRejected(served.shard, Rejection::kRows);
    pushback = -1;
    return absl::ResourceExhaustedError(fmt::format(
        "model {}: the request needs {} rows of table {}, one request may have {} (--row-budget)",
        Quoted(model.name), graph.row_counts()[table], model.tables[table].name, most[table]));
  }
  return absl::OkStatus();
}

WorkAhead& RequestPath::WorkOf(const Model& model) {
  return work_.Of(model.id, [&] {
    const auto devices =
        static_cast<int>(DevicesOf(model.devices, scheduler_.stats().Devices()).size());
    return std::make_unique<WorkAhead>(model, scheduler_.Calibration(model.id), devices);
  });
}

absl::Status RequestPath::CheckInTime(const ServedRequest& served, int64_t deadline_ns,
                                      int64_t also_ns, std::optional<int32_t>& pushback) {
  absl::Status status = CheckInTime(*served.model, served.work, deadline_ns, also_ns, pushback);
  if (!status.ok()) served.stats->RecordRejected(served.shard, Rejection::kDeadline);
  return status;
}

absl::Status RequestPath::CheckInTime(const Model& model, ModelStats& stats, int shard,
                                      int64_t deadline_ns, std::optional<int32_t>& pushback) {
  absl::Status status =
      CheckInTime(model, WorkOf(model).Least(), deadline_ns, /*also_ns=*/0, pushback);
  if (!status.ok()) stats.RecordRejected(shard, Rejection::kDeadline);
  return status;
}

absl::Status RequestPath::CheckInTime(const Model& model, const RequestWork& work,
                                      int64_t deadline_ns, int64_t also_ns,
                                      std::optional<int32_t>& pushback) {
  if (!options_.deadline_admission || deadline_ns == kNoDeadline) return absl::OkStatus();
  const int64_t needs_ns = WorkOf(model).EstimateNs(work, also_ns);
  const int64_t left_ns = deadline_ns - clock_.NowNs();
  const int64_t with_margin = needs_ns + needs_ns / 8 * kMarginOfEstimates;
  if (needs_ns == 0 || left_ns <= 0 || with_margin <= left_ns) return absl::OkStatus();
  pushback = admission_.Spread((with_margin - left_ns) / 1'000'000);
  return absl::ResourceExhaustedError(fmt::format(
      "model {}: no answer could come before the deadline: {} ms are left, it would "
      "take about {} ms with what came before it, or up to {}/8 more "
      "(--deadline-admission)",
      Quoted(model.name), left_ns / 1'000'000, needs_ns / 1'000'000, kMarginOfEstimates));
}

std::optional<RequestId> RequestPath::Submit(ServedRequest& served) {
  served.request->times.submitted = clock_.NowNs();
  if (served.deadline.deadline_ns != kNoDeadline) {
    served.request->times.deadline = served.deadline.deadline_ns;
  }
  std::unique_ptr<Request> request = std::move(served.request);
  WorkAhead& work = WorkOf(*served.model);
  const RequestWork of_it = served.work;  // `served` may be gone once it is submitted
  work.Add(of_it);
  const std::optional<RequestId> id = scheduler_.Submit(request);
  if (id) return id;
  work.Remove(of_it, 0, clock_.NowNs());
  served.request = std::move(request);
  served.stats->RecordRejected(served.shard, Rejection::kScheduler);
  return std::nullopt;
}

void RequestPath::ArmDeadline(ServedRequest& served, TimedId id) {
  if (served.deadline.deadline_ns == kNoDeadline) return;
  served.deadline.whose = id;
  deadlines_.Add(served.deadline);
}

void RequestPath::DisarmDeadline(ServedRequest& served) {
  if (served.deadline.deadline_ns != kNoDeadline) deadlines_.Remove(served.deadline);
}

void RequestPath::Expired(TimedId whose) {
  if (const auto* const wait = std::get_if<WaitId>(&whose)) {
    Withdraw(*wait, Shards(options_.transport_threads, options_.responders) - 1);
  } else {
    scheduler_.Notify(std::get<RequestId>(whose), News::kExpired);
  }
}

// Its own clock said so, and sooner than ours: what it had left came here rounded up, by a hundredth (from a second on by 10 ms,
// from ten on by 100: gRPC's header has few digits) or a millisecond, and the reset that follows takes no longer than the
// request did. So most of those who are late would be counted as cancelled.
bool RequestPath::LateToHangUp(const ServerCall& call) const {
  constexpr int64_t kHundredth = 100, kLeastNs = 2'000'000;
  const int64_t deadline_ns = call.deadline_ns();
  if (deadline_ns == kNoDeadline) return false;
  const int64_t given_ns = std::max<int64_t>(deadline_ns - call.received_ns(), 0);
  return clock_.NowNs() >= deadline_ns - given_ns / kHundredth - kLeastNs;
}

void RequestPath::Cancel(ServerCall& call) {
  const CancelSlot::Found found = call.cancel_slot().Cancel();
  const bool late = LateToHangUp(call);
  for (const RequestId id : found.ids) {
    scheduler_.Notify(id, late ? News::kExpired : News::kCancelled);
  }
  if (found.wait != WaitId()) Withdraw(found.wait, call.shard());
}

void RequestPath::Withdraw(WaitId id, int shard) {
  if (SequenceTable::Place* const place = sequences()->Withdraw(id)) place->OnWithdrawn(shard);
}

absl::Status RequestPath::Refused(ModelStats& stats, int shard, int64_t received_ns,
                                  const absl::Status& status) {
  const int64_t now_ns = clock_.NowNs();
  stats.RecordOther(shard, OutcomeOf(status), now_ns - received_ns);
  Note(stats, status, now_ns);
  return Shortened(status);
}

void RequestPath::Note(const ModelStats& stats, const absl::Status& status, int64_t now_ns) const {
  if (options_.last_errors == nullptr) return;
  options_.last_errors->Note(stats.name(), stats.version(), status, now_ns);
}

void RequestPath::Deliver(int responder, Delivery delivery) {
  auto* served = reinterpret_cast<ServedRequest*>(delivery.request->tag);
  switch (delivery.kind) {
    case Delivery::Kind::kWords:
      served->OnWords(delivery);
      break;
    case Delivery::Kind::kPiece:
      Extend(*served, *delivery.request);
      break;
    case Delivery::Kind::kDone:
      served->OnDone(responder, std::move(delivery.done));
      break;
  }
}

AnswerOutlet* RequestPath::OutletOf(const Delivery& delivery) {
  if (delivery.kind == Delivery::Kind::kPiece) return nullptr;
  if (delivery.kind == Delivery::Kind::kDone &&
      BytesOfTensors(delivery.done->graph.tensors()) > kLongAnswer) {
    return nullptr;
  }
  return reinterpret_cast<const ServedRequest*>(delivery.request->tag)->outlet();
}

// All of a graph that grows has run: its next piece, or the end.
void RequestPath::Extend(const ServedRequest& served, Request& request) {
  absl::Status status = served.model->unfolder->Extend(served.decoded.input(), request.graph);
  if (status.ok() && request.graph.added()) {
    // Not the sender's fault: the unfolder goes beyond what it said.
    const absl::Status sealed = request.graph.Seal(*served.model, scheduler_.max_tasks_in_flight());
    if (!sealed.ok()) status = absl::InternalError(sealed.message());
  }
  scheduler_.Extended(request, std::move(status));
}

void RequestPath::RecordEnd(int responder, const ServedRequest& served, const Request& request) {
  const int64_t now_ns = clock_.NowNs();
  const RequestTimes& times = request.times;
  const auto most = static_cast<double>(std::max<int64_t>(1, request.graph.most_nodes()));
  const double done = request.status.ok() ? 1 : static_cast<double>(request.nodes_executed) / most;
  WorkOf(*served.model).Remove(served.work, done, now_ns);
  const int shard = ShardOf(responder);
  const int64_t total = now_ns - served.received_ns;
  LatencySample sample{
      .end_ns = now_ns, .model = served.stats->times_id(), .ok = request.status.ok()};
  if (request.status.ok()) {
    const RequestDurations durations{
        .request = total,
        .input = times.submitted - served.received_ns,
        .queue = times.first_task_start - served.received_ns,
        .compute = times.last_task_end - times.first_task_start,
        .output = now_ns - times.last_task_end,
        .cells = request.nodes_executed,
        .length = served.length,
    };
    served.stats->RecordDone(shard, durations, UnixMs());
    sample.request_ns = durations.request;
    sample.queue_ns = durations.queue;
    sample.compute_ns = durations.compute;
  } else {
    served.stats->RecordOther(shard, OutcomeOf(request.status), total);
    Note(*served.stats, request.status, now_ns);
    sample.request_ns = total;
  }
  latencies_[static_cast<size_t>(responder)]->Record(sample);
}

}  // namespace cellbatch

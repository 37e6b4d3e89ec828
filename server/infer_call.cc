#include "server/infer_call.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "cells/check.h"
#include "cells/unfold/unfolder.h"
#include "fmt/format.h"

namespace cellbatch {

// What one call holds between Start and Finish.
class InferCall {
 public:
  explicit InferCall(ServerCall& the_call) : call(the_call), received_ns(the_call.received_ns()) {}

  ServerCall& call;
  const int64_t received_ns;
  InferMessage message;
  std::shared_ptr<const Model> model;
  ModelStats* stats = nullptr;
  std::unique_ptr<Request> request;  // until Submit
  Ticket door, work;
  int64_t length = 0;
  DeadlineEntry deadline{.deadline_ns = kNoDeadline, .request = {}};
  CallResult result;
  std::atomic<int> holders = 2;  // the submitter and the responder
};

namespace {

constexpr size_t kMaxErrorBytes = 1000;  // of a status text: it travels as a header

int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

absl::Status Shortened(const absl::Status& status) {
  if (status.ok() || status.message().size() <= kMaxErrorBytes) return status;
  return absl::Status(status.code(), status.message().substr(0, kMaxErrorBytes));
}

absl::Status OfModel(const Model& model, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("model {}: {}", Quoted(model.name),
                                                 std::string(status.message())));
}

// The earlier of the client's deadline and the `timeout` parameter.
int64_t DeadlineOf(const InferCall& infer) {
  int64_t deadline = infer.call.deadline_ns();
  if (const auto timeout_us = infer.message.timeout_us()) {
    int64_t end = 0;
    if (!__builtin_mul_overflow(*timeout_us, int64_t{1000}, &end) &&
        !__builtin_add_overflow(end, infer.received_ns, &end)) {
      deadline = std::min(deadline, end);
    }
  }
  return deadline;
}

}  // namespace

InferService::InferService(const InferOptions& options, FindModel find, Scheduler& scheduler,
                           Admission& admission, StatsRegistry& stats, const Clock& clock)
    : options_(options),
      find_(std::move(find)),
      scheduler_(scheduler),
      admission_(admission),
      stats_(stats),
      clock_(clock),
      deadlines_(clock, [this](RequestId id) { scheduler_.Notify(id, News::kExpired); }) {
  for (int i = 0; i < options.responders; ++i) {
    latencies_.push_back(std::make_unique<LatencyRing>(options.latency_samples));
  }
}

void InferService::Start(ServerCall& call) {
  auto infer = std::make_unique<InferCall>(call);
  absl::Status status = Prepare(*infer);
  if (!status.ok()) {
    Refuse(std::move(infer), std::move(status));
    return;
  }
  Submit(std::move(infer));
}

void InferService::Cancelled(ServerCall& call) {
  if (const std::optional<RequestId> id = call.cancel_slot().Cancel()) {
    const bool late = clock_.NowNs() >= call.deadline_ns();
    scheduler_.Notify(*id, late ? News::kExpired : News::kCancelled);
  }
}

absl::Status InferService::Prepare(InferCall& infer) {
  infer.stats = &stats_.unknown();
  absl::Status status;
  const auto message_bytes = static_cast<int64_t>(infer.call.request().size());
  if (!Admit({1, 0, message_bytes}, infer, infer.door, status)) return status;
  status = infer.call.transport_status();
  if (!status.ok()) return status;
  status = infer.message.Parse(infer.call.request(), options_.wire);
  if (!status.ok()) return status;

  const inference::ModelInferRequest& proto = infer.message.proto();
  status = CheckModelName(proto.model_name());
  if (status.ok()) status = CheckModelVersion(proto.model_version());
  if (!status.ok()) return status;
  absl::StatusOr<std::shared_ptr<const Model>> model =
      find_(proto.model_name(), proto.model_version());
  if (!model.ok()) return model.status();
  infer.model = *std::move(model);
  infer.stats = &stats_.Of(*infer.model);

  status = infer.message.Decode(*infer.model);
  if (status.ok()) status = Unfold(infer);
  if (status.ok()) status = AdmitWork(infer);
  if (!status.ok()) return status;

  infer.deadline.deadline_ns = DeadlineOf(infer);
  if (clock_.NowNs() >= infer.deadline.deadline_ns) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  if (infer.call.cancel_slot().cancelled()) return absl::CancelledError("the client cancelled");
  return absl::OkStatus();
}

absl::Status InferService::Unfold(InferCall& infer) {
  const Model& model = *infer.model;
  const RequestInput& input = infer.message.input();
  infer.request = std::make_unique<Request>();
  Request& request = *infer.request;
  absl::Status status = model.unfolder->Unfold(input, request.graph);
  if (status.ok()) status = request.graph.Seal(model, scheduler_.max_tasks_in_flight());
  if (!status.ok()) return OfModel(model, status);
  request.tag = reinterpret_cast<uint64_t>(&infer);
  request.model = infer.model;
  request.outbox = OutboxId(infer.call.shard() % options_.responders);
  request.times.received = infer.received_ns;
  infer.length = input.tensors.empty() || input.tensors.front().dims.empty()
                     ? 0
                     : input.tensors.front().dims.front();
  return absl::OkStatus();
}

absl::Status InferService::AdmitWork(InferCall& infer) {
  const CellGraph& graph = infer.request->graph;
  const std::vector<int32_t>& most = max_rows_.Of(infer.model->id, [&] {
    return std::make_unique<std::vector<int32_t>>(scheduler_.MaxRowsPerRequest(infer.model->id));
  });
  for (size_t table = 0; table < most.size() && table < graph.row_counts().size(); ++table) {
    if (graph.row_counts()[table] <= most[table]) continue;
    infer.stats->RecordRejected(infer.call.shard(), Rejection::kRows);
    infer.result.pushback_ms = -1;
    return absl::ResourceExhaustedError(fmt::format(
        "model {}: the request needs {} rows of table {}, one request may have {} (--row-budget)",
        Quoted(infer.model->name), graph.row_counts()[table], infer.model->tables[table].name,
        most[table]));
  }
  absl::Status status;
  Admit({0, graph.num_nodes(), graph.device_bytes() + graph.result_bytes()}, infer, infer.work,
        status);
  return status;
}

bool InferService::Admit(const Demand& demand, InferCall& infer, Ticket& ticket,
                         absl::Status& status) {
  Refusal refusal;
  if (admission_.Admit(demand, clock_.NowNs(), ticket, refusal)) return true;
  infer.stats->RecordRejected(infer.call.shard(), refusal.reason);
  if (refusal.reason != Rejection::kDraining) infer.result.pushback_ms = refusal.pushback_ms;
  status = std::move(refusal.status);
  return false;
}

void InferService::Submit(std::unique_ptr<InferCall> infer) {
  infer->request->times.submitted = clock_.NowNs();
  std::unique_ptr<Request> request = std::move(infer->request);
  InferCall* shared = infer.release();
  const std::optional<RequestId> id = scheduler_.Submit(request);
  if (!id) {
    infer.reset(shared);
    infer->stats->RecordRejected(infer->call.shard(), Rejection::kScheduler);
    const std::string name = Quoted(infer->model->name);
    Refuse(std::move(infer),
           absl::UnavailableError(fmt::format("model {} takes no requests now", name)));
    return;
  }
  // From here on the responder may be at it, too.
  if (!shared->call.cancel_slot().Publish(*id)) scheduler_.Notify(*id, News::kCancelled);
  if (shared->deadline.deadline_ns != kNoDeadline) {
    shared->deadline.request = *id;
    deadlines_.Add(shared->deadline);
  }
  LetGo(shared);
}

void InferService::Refuse(std::unique_ptr<InferCall> infer, absl::Status status) {
  infer->stats->RecordOther(infer->call.shard(), OutcomeOf(status),
                            clock_.NowNs() - infer->received_ns);
  infer->result.status = Shortened(status);
  ServerCall& call = infer->call;
  CallResult result = std::move(infer->result);
  infer.reset();  // tickets back before the client can know
  call.Finish(std::move(result));
}

void InferService::Finished(int responder, std::unique_ptr<Request> request) {
  auto* infer = reinterpret_cast<InferCall*>(request->tag);
  if (request->status.ok()) {
    request->graph.CloseAnswer();
    infer->result.body =
        EncodeInferResponse(*infer->model, infer->message.proto().id(), request->graph.tensors());
  } else {
    infer->result.status = Shortened(OfModel(*infer->model, request->status));
  }
  RecordEnd(responder, *infer, *request, clock_.NowNs());
  request.reset();
  LetGo(infer);
}

void InferService::RecordEnd(int responder, const InferCall& infer, const Request& request,
                             int64_t now_ns) {
  const RequestTimes& times = request.times;
  const int shard = options_.transport_threads + responder;
  const int64_t total = now_ns - infer.received_ns;
  LatencySample sample{.end_ns = now_ns, .model = infer.model->id, .ok = request.status.ok()};
  if (request.status.ok()) {
    const RequestDurations durations{
        .request = total,
        .input = times.submitted - infer.received_ns,
        .queue = times.first_task_start - infer.received_ns,
        .compute = times.last_task_end - times.first_task_start,
        .output = now_ns - times.last_task_end,
        .cells = request.nodes_executed,
        .length = infer.length,
    };
    infer.stats->RecordDone(shard, durations, UnixMs());
    sample.request_ns = durations.request;
    sample.queue_ns = durations.queue;
    sample.compute_ns = durations.compute;
  } else {
    infer.stats->RecordOther(shard, OutcomeOf(request.status), total);
    sample.request_ns = total;
  }
  latencies_[static_cast<size_t>(responder)]->Record(sample);
}

void InferService::LetGo(InferCall* infer) {
  if (infer->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::unique_ptr<InferCall> last(infer);
  if (last->deadline.deadline_ns != kNoDeadline) deadlines_.Remove(last->deadline);
  ServerCall& call = last->call;
  CallResult result = std::move(last->result);
  last.reset();
  call.Finish(std::move(result));
}

}  // namespace cellbatch

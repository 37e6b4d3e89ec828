// The steps of one request's way from its plain tensors to its answer: decode, unfold, seal, bounds, Submit,
// deadline; then whatever the responders take is handed to who served it. plain_call.h puts them in their order.
//
//   transport thread                                      responder thread
//   Find, Decode, .., Submit(served) ------> scheduler --> Deliver: served.OnWords ..., served.OnDone
//             ArmDeadline                                           RecordEnd
//
// A graph that grows (Unfolder::Extend) gets its next piece in Deliver, and is submitted once. A served request
// stays until OnDone was called and Submit's caller is through with it. Any thread, unless said otherwise.
#ifndef CELLBATCH_SERVER_REQUESTS_REQUEST_PATH_H_
#define CELLBATCH_SERVER_REQUESTS_REQUEST_PATH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/requests/admission.h"
#include "server/requests/call.h"
#include "server/requests/deadlines.h"
#include "server/requests/decoded_request.h"
#include "server/requests/failure_log.h"
#include "server/requests/last_errors.h"
#include "server/requests/latency_window.h"
#include "server/requests/model_table.h"
#include "server/requests/plain_request.h"
#include "server/requests/request_stats.h"
#include "server/requests/sequences.h"
#include "server/requests/work_ahead.h"
#include "server/trace/tracer.h"

namespace cellbatch {

// NOT_FOUND (no such model or version) or UNAVAILABLE (loading, failed).
using FindModel = std::function<absl::StatusOr<std::shared_ptr<const Model>>(
    std::string_view name, std::string_view version)>;

struct PathOptions {
  int transport_threads = 1;  // shards [0, transport_threads) are theirs,
  int responders = 1;         // the next ones the responders'; one outbox and one ring each;
                              // and the last one the deadline timer's
  int64_t latency_samples = 1 << 20;  // remembered by each responder; a power of two
  int64_t max_answer_bytes = 64 << 20;
  bool deadline_admission = true;     // false: nobody is refused for a deadline that has not passed
  LastErrors* last_errors = nullptr;  // told of requests that fail; outlives it
  SequenceTable* sequences = nullptr;  // null: no state is kept between requests; outlives it
};

// One request under way.
class ServedRequest {
 public:
  ServedRequest(int64_t received, int the_shard) : received_ns(received), shard(the_shard) {}
  virtual ~ServedRequest() = default;
  ServedRequest(const ServedRequest&) = delete;
  ServedRequest& operator=(const ServedRequest&) = delete;

  // Responder thread. New words of a request that streams; read only (scheduler/request.h).
  virtual void OnWords(const Delivery&) {}
  // Responder thread, once: the end. `this` may be gone when it returns.
  virtual void OnDone(int responder, std::unique_ptr<Request> done) = 0;
  // Responder thread, before either: where its answer leaves, if it is worth while to wait there (answer_outlet.h).
  virtual AnswerOutlet* outlet() const { return nullptr; }

  const int64_t received_ns;
  int shard;  // of the thread that takes it to the scheduler
  DecodedRequest decoded;
  std::shared_ptr<const Model> model;
  ModelStats* stats = nullptr;       // of the model, once it is known
  std::unique_ptr<Request> request;  // from Prepare until Submit
  int64_t length = 0;                // of its first tensor
  RequestWork work;                  // from Seal on
  DeadlineEntry deadline{.deadline_ns = kNoDeadline, .whose = {}};
};

class RequestPath {
 public:
  static int Shards(int transport_threads, int responders) {
    return transport_threads + responders + 1;
  }
  // What it is given outlives it. `stats` has so many shards.
  RequestPath(const PathOptions& options, FindModel find, Scheduler& scheduler,
              Admission& admission, StatsRegistry& stats, const Clock& clock);

  // Before the first call: where those that fail get a line. Without: nowhere. Outlives it.
  void LogFailures(FailureLog& log) { failures_ = &log; }
  FailureLog* failures() const { return failures_; }
  // Likewise: who says which are traced. Without: none.
  void Trace(Tracer& tracer) { tracer_ = &tracer; }
  Tracer* tracer() const { return tracer_; }
  SequenceTable* sequences() const { return options_.sequences; }
  // Of that responder's thread.
  int ShardOf(int responder) const { return options_.transport_threads + responder; }
  // What of each cell type has run (scheduler/stats.h).
  std::vector<TypeTasks> TasksOf(const Model& model) const {
    return scheduler_.stats().TasksOf(model.id);
  }

  const Clock& clock() const { return clock_; }
  ModelStats& unknown_model() { return stats_.unknown(); }

  // The model of that name and version, checked as a client wrote them.
  absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name,
                                                    std::string_view version);
  ModelStats& StatsOf(const Model& model) { return stats_.Of(model); }
  // The demand goes into `ticket`, or the refusal (and when to come back) into `refused`: false. `now_ns`: about now, for
  // that hint alone; when the call came will do.
  bool Admit(const Demand& demand, Parties of, ModelStats& stats, int shard, int64_t now_ns,
             Ticket& ticket, CallResult& refused);
  // The model of what `ticket` holds is known now: its share, too. Likewise.
  bool Enter(const Model& model, ModelStats& stats, int shard, int64_t now_ns, Ticket& ticket,
             CallResult& refused);
  Parties PartiesOf(uint64_t client, const Model* model);
  // The same, where a refusal is not yet an answer: nothing is counted.
  bool TryAdmit(const Demand& demand, Parties of, int64_t now_ns, Ticket& ticket) {
    Refusal refusal;
    return admission_.Admit(demand, now_ns, ticket, refusal, of);
  }
  absl::Status Decode(ServedRequest& served, const PlainRequest& plain) {
    return served.decoded.Decode(plain, *served.model);
  }
  // What is decoded. Nothing of its answer is allocated, and `answer` says what it will take; RESOURCE_EXHAUSTED if that is
  // more than one answer may. `pushback`: set where trying again is of no use.
  absl::Status Unfold(ServedRequest& served, Demand& answer, std::optional<int32_t>& pushback);
  // Then, with `answer` admitted: seals it. served.request is ready, and `work` what it takes beyond that.
  absl::Status Seal(ServedRequest& served, Demand& work, std::optional<int32_t>& pushback);
  // RESOURCE_EXHAUSTED if what is in flight of its model would keep a request from its end until its deadline, with some
  // to spare; `pushback`: when there may be room. `also_ns`: work before it that is not submitted yet.
  absl::Status CheckInTime(const ServedRequest& served, int64_t deadline_ns, int64_t also_ns,
                           std::optional<int32_t>& pushback);
  // The same of any request of that model, before it is decoded.
  absl::Status CheckInTime(const Model& model, ModelStats& stats, int shard, int64_t deadline_ns,
                           std::optional<int32_t>& pushback);
  // None: the scheduler is full, and the request is still there. Else the responder may be at it
  // before this returns.
  std::optional<RequestId> Submit(ServedRequest& served);
  // While it waits for its turn, or later than Submit, while the caller still holds `served`; and before it goes.
  void ArmDeadline(ServedRequest& served, TimedId id);
  void DisarmDeadline(ServedRequest& served);
  // The client is gone, or its deadline has passed: news for whatever the call has submitted. One that waits for its turn ends
  // here, and is finished when this returns. On the thread of the call's shard, which counts it.
  void Cancel(ServerCall& call);
  // Whether a client that has hung up by now did so for its deadline.
  bool LateToHangUp(const ServerCall& call) const;
  void Notify(RequestId id, News news) { scheduler_.Notify(id, news); }

  // Counts a request that was never submitted, and shortens what its client reads.
  absl::Status Refused(ModelStats& stats, int shard, int64_t received_ns,
                       const absl::Status& status);
  // Responder thread: what Take brought. The request's tag is its ServedRequest.
  void Deliver(int responder, Delivery delivery);
  // Where what it brings will leave. Null: nowhere, or it takes long, and nobody else is to wait for it.
  static AnswerOutlet* OutletOf(const Delivery& delivery);
  // Responder thread, before `served` goes: counts and times of a request that ended.
  void RecordEnd(int responder, const ServedRequest& served, const Request& request);

  const LatencyRing& latencies(int responder) const {
    return *latencies_[static_cast<size_t>(responder)];
  }
  int responders() const { return options_.responders; }

 private:
  void Extend(const ServedRequest& served, Request& request);
  void Note(const ModelStats& stats, const absl::Status& status, int64_t now_ns) const;
  absl::Status CheckAnswer(const ServedRequest& served, int64_t bytes,
                           std::optional<int32_t>& pushback) const;
  WorkAhead& WorkOf(const Model& model);
  void Expired(TimedId whose);
  void Withdraw(WaitId id, int shard);
  static bool Refuse(Refusal refusal, ModelStats& stats, int shard, CallResult& refused);
  absl::Status CheckInTime(const Model& model, const RequestWork& work, int64_t deadline_ns,
                           int64_t also_ns, std::optional<int32_t>& pushback);
  absl::Status CheckRows(const ServedRequest& served, std::optional<int32_t>& pushback);

  const PathOptions options_;
  const FindModel find_;
  Scheduler& scheduler_;
  Admission& admission_;
  StatsRegistry& stats_;
  const Clock& clock_;
  FailureLog* failures_ = nullptr;
  Tracer* tracer_ = nullptr;
  ModelTable<std::vector<int32_t>> max_rows_;  // of one request, by TableId
  ModelTable<WorkAhead> work_;
  // By place, and never gone: a ticket is held until its client has the answer, longer than the model.
  std::vector<Party> parties_ = std::vector<Party>(kModelPlaces);
  std::vector<std::unique_ptr<LatencyRing>> latencies_;
  DeadlineTimer deadlines_;  // last: its thread ends first
};

// The status of a request of that model as its client reads it: short, and the model named.
absl::Status OfModel(const Model& model, const absl::Status& status);
absl::Status Shortened(const absl::Status& status);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_REQUEST_PATH_H_

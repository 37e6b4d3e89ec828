// One ModelInfer from bytes to answer, and the service that starts and ends them. Knows no gRPC.
//
//   transport thread                            responder thread
//   Start: admit at the door, parse, find the model, decode,
//          unfold, seal, admit the cells, Submit ----------------> scheduler
//          publish for cancels, arm the deadline                       |
//          let go ---------+                    Finished: encode, record
//                          |                    let go
//                          v                       v
//                  whoever lets go last disarms, gives the tickets back, finishes the call
//
// So the answer leaves as soon as both are through, and neither touches what the other has freed.
#ifndef CELLBATCH_SERVER_INFER_CALL_H_
#define CELLBATCH_SERVER_INFER_CALL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/admission.h"
#include "server/call.h"
#include "server/deadlines.h"
#include "server/latency_window.h"
#include "server/model_table.h"
#include "server/request_stats.h"
#include "server/wire_codec.h"

namespace cellbatch {

// NOT_FOUND (no such model or version) or UNAVAILABLE (loading, failed).
using FindModel = std::function<absl::StatusOr<std::shared_ptr<const Model>>(
    std::string_view name, std::string_view version)>;

struct InferOptions {
  WireLimits wire = {};
  int transport_threads = 1;          // shards [0, transport_threads) are theirs,
  int responders = 1;                 // the next ones the responders'; one outbox and one ring each
  int64_t latency_samples = 1 << 20;  // remembered by each responder; a power of two
};

class InferCall;

class InferService final : public CallSink {
 public:
  // What it is given outlives it. `stats` has transport_threads + responders shards.
  InferService(const InferOptions& options, FindModel find, Scheduler& scheduler,
               Admission& admission, StatsRegistry& stats, const Clock& clock);

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override;

  // Responder `responder`: an answered request of this service.
  void Finished(int responder, std::unique_ptr<Request> request);

  const LatencyRing& latencies(int responder) const {
    return *latencies_[static_cast<size_t>(responder)];
  }
  int responders() const { return options_.responders; }

 private:
  absl::Status Prepare(InferCall& infer);
  absl::Status Unfold(InferCall& infer);
  absl::Status AdmitWork(InferCall& infer);
  bool Admit(const Demand& demand, InferCall& infer, Ticket& ticket, absl::Status& status);
  void Submit(std::unique_ptr<InferCall> infer);
  void Refuse(std::unique_ptr<InferCall> infer, absl::Status status);
  void LetGo(InferCall* infer);
  void RecordEnd(int responder, const InferCall& infer, const Request& request, int64_t now_ns);

  const InferOptions options_;
  const FindModel find_;
  Scheduler& scheduler_;
  Admission& admission_;
  StatsRegistry& stats_;
  const Clock& clock_;
  ModelTable<std::vector<int32_t>> max_rows_;  // of one request, by TableId
  std::vector<std::unique_ptr<LatencyRing>> latencies_;
  DeadlineTimer deadlines_;  // last: its thread ends first
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_INFER_CALL_H_

#include "server/kserve/infer_call.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {

// What one call holds between Start and Finish.
class InferCall final : public ServedRequest {
 public:
  InferCall(ServerCall& the_call, RequestPath& path)
      : ServedRequest(the_call.received_ns(), the_call.shard()), call(the_call), path_(path) {}

  void OnDone(int responder, std::unique_ptr<Request> done) override {
    if (done->status.ok()) {
      done->graph.CloseAnswer();
      result.body = EncodeInferResponse(*model, message.proto().id(), done->graph.tensors());
    } else {
      result.status = Shortened(OfModel(*model, done->status));
    }
    path_.RecordEnd(responder, *this, *done);
    done.reset();
    LetGo();
  }

  // The earlier of the client's deadline and the `timeout` parameter.
  int64_t DeadlineNs() const {
    int64_t deadline = call.deadline_ns();
    if (const auto timeout_us = message.timeout_us()) {
      int64_t end = 0;
      if (!__builtin_mul_overflow(*timeout_us, int64_t{1000}, &end) &&
          !__builtin_add_overflow(end, received_ns, &end)) {
        deadline = std::min(deadline, end);
      }
    }
    return deadline;
  }

  // Of the submitter and the responder, the last one ends the call, and this.
  void LetGo() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    path_.DisarmDeadline(*this);
    End(std::unique_ptr<InferCall>(this));
  }
  // Tickets are back before the client can know.
  static void End(std::unique_ptr<InferCall> infer) {
    ServerCall& call = infer->call;
    CallResult result = std::move(infer->result);
    infer.reset();
    call.Finish(std::move(result));
  }

  ServerCall& call;
  Ticket door, work;
  CallResult result;

 private:
  RequestPath& path_;
  std::atomic<int> holders_ = 2;
};

void InferService::Start(ServerCall& call) {
  auto infer = std::make_unique<InferCall>(call, path_);
  infer->stats = &path_.unknown_model();
  const absl::Status status = Prepare(*infer);
  if (!status.ok()) {
    Refuse(std::move(infer), status);
    return;
  }
  Submit(std::move(infer));
}

absl::Status InferService::Prepare(InferCall& infer) {
  const auto admit = [&](const Demand& demand, Ticket& ticket) {
    return path_.Admit(demand, *infer.stats, infer.shard, ticket, infer.result);
  };
  const auto message_bytes = static_cast<int64_t>(infer.call.request().size());
  if (!admit({1, 0, message_bytes}, infer.door)) return infer.result.status;
  absl::Status status = infer.call.transport_status();
  if (status.ok()) status = infer.message.Parse(infer.call.request(), limits_);
  if (!status.ok()) return status;
  const inference::ModelInferRequest& proto = infer.message.proto();
  absl::StatusOr<std::shared_ptr<const Model>> model =
      path_.Find(proto.model_name(), proto.model_version());
  if (!model.ok()) return model.status();
  infer.model = *std::move(model);
  infer.stats = &path_.StatsOf(*infer.model);
  status = path_.Prepare(infer, infer.result.pushback_ms);
  if (!status.ok()) return status;
  if (!admit(RequestPath::WorkOf(infer), infer.work)) return infer.result.status;

  infer.deadline.deadline_ns = infer.DeadlineNs();
  if (path_.clock().NowNs() >= infer.deadline.deadline_ns) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  if (infer.call.cancel_slot().cancelled()) return absl::CancelledError("the client cancelled");
  return absl::OkStatus();
}

void InferService::Submit(std::unique_ptr<InferCall> infer) {
  InferCall* shared = infer.release();
  const std::optional<RequestId> id = path_.Submit(*shared);
  if (!id) {
    infer.reset(shared);
    const std::string name = Quoted(infer->model->name);
    Refuse(std::move(infer),
           absl::UnavailableError(fmt::format("model {} takes no requests now", name)));
    return;
  }
  // From here on the responder may be at it, too.
  if (!shared->call.cancel_slot().Publish(*id)) path_.Notify(*id, News::kCancelled);
  path_.ArmDeadline(*shared, *id);
  shared->LetGo();
}

void InferService::Refuse(std::unique_ptr<InferCall> infer, const absl::Status& status) {
  infer->result.status = path_.Refused(*infer->stats, infer->shard, infer->received_ns, status);
  InferCall::End(std::move(infer));
}

}  // namespace cellbatch

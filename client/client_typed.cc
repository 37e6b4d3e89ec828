// The client's side of our own typed service.

#include <utility>

#include "client/client.h"
#include "client/connection.h"
#include "client/typed_messages.h"

namespace cellbatch {
namespace {

using Stub = v1::Cellbatch::Stub;

// What came on a decoding stream so far.
class DecodeEvents {
 public:
  explicit DecodeEvents(WordCallback on_word) : on_word_(std::move(on_word)) {}

  // False: the caller has had enough.
  bool Take(const v1::DecodeResponse& event) {
    if (event.has_end()) {
      result_ = DecodeResult{event.end().length(), event.end().stopped()};
    }
    if (!event.has_word() || enough_) {
      return !enough_;
    }
    enough_ = !on_word_(FromMessage(event.word()));
    return !enough_;
  }
  absl::StatusOr<DecodeResult> Result(const grpc::Status& status) const {
    if (!status.ok()) {
      return ToStatus(status);
    }
    if (!result_) {
      return absl::InternalError("the stream of words ended without its last message");
    }
    return *result_;
  }

 private:
  const WordCallback on_word_;
  bool enough_ = false;
  std::optional<DecodeResult> result_;
};

// Owns itself until gRPC is done with it.
class DecodeReactor final : public grpc::ClientReadReactor<v1::DecodeResponse> {
 public:
  DecodeReactor(const DecodeInput& input, WordCallback on_word,
                std::function<void(absl::StatusOr<DecodeResult>)> done,
                std::function<void()> call_ends)
      : request_(ToMessage(input)),
        events_(std::move(on_word)),
        done_(std::move(done)),
        call_ends_(std::move(call_ends)) {}

  void Start(Stub& stub, grpc::ClientContext& context) {
    context_ = &context;
    stub.async()->Decode(&context, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      return;
    }
    if (!events_.Take(event_)) {
      context_->TryCancel();
    }
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    done_(events_.Result(status));
    const std::function<void()> call_ends = std::move(call_ends_);
    delete this;
    call_ends();
  }

 private:
  const v1::DecodeRequest request_;
  DecodeEvents events_;
  std::function<void(absl::StatusOr<DecodeResult>)> done_;
  std::function<void()> call_ends_;
  grpc::ClientContext* context_ = nullptr;
  v1::DecodeResponse event_;
};

}  // namespace

absl::StatusOr<InferManyResult> Client::InferMany(const InferManyInput& input,
                                                  CallOptions options) {
  const auto response = Ask(*connection_->typed, &Stub::Infer, ToMessage(input), options);
  if (!response.ok()) {
    return response.status();
  }
  return FromMessage(*response);
}

absl::StatusOr<DecodeResult> Client::Decode(const DecodeInput& input, CallOptions options,
                                            const WordCallback& on_word) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  DecodeEvents events(on_word);
  const auto reader = connection_->typed->Decode(&context, ToMessage(input));
  for (v1::DecodeResponse event; reader->Read(&event);) {
    if (!events.Take(event)) {
      context.TryCancel();
    }
  }
  return events.Result(reader->Finish());
}

Call Client::DecodeAsync(const DecodeInput& input, CallOptions options, WordCallback on_word,
                         DecodeCallback done) {
  auto state = std::make_shared<Call::State>();
  SetDeadline(options, state->context);
  connection_->CallBegins();
  // The context lives as long as the call: the last thing that ends it drops it.
  auto* reactor = new DecodeReactor(input, std::move(on_word), std::move(done),
                                    [state, connection = connection_.get()]() mutable {
                                      state.reset();  // before: see CallEnds
                                      connection->CallEnds();
                                    });
  reactor->Start(*connection_->typed, state->context);
  return Call(std::move(state));
}

}  // namespace cellbatch

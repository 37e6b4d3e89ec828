// One call from its message to its answer, the same way for every wire format. A format derives from PlainCall
// and says what is its own: how the message is read, how requests are spelled (plain_request.h), how answers are
// written. Knows no transport.
//
//   transport thread                                   responder thread
//   Start: admit the message; open it; Look, and admit
//          what reading it takes; Read; find the model;
//          each request: Spell, decode, unfold, admit
//          its answer, seal, Check, admit its work;
//          all of them, or none
//          Submit each ----------------------------------> scheduler
//          publish for cancels, arm deadlines                  |
//          let go ---------+            OnWords ..., Answer or AnswersError; record; let go
//                          v                       v
//                 whoever lets go last disarms, gives the work's ticket back, finishes the call with Body;
//                 the answer's ticket goes with it
//
// So the answer leaves as soon as all are through, and nobody touches what another has freed.
//
// A piece of a sequence whose state the server keeps (sequences.h) waits after it is decoded until its turn comes. Whoever ends
// the call whose turn it was takes the next one on from there, on its own thread, once that answer is on its way; a client
// that sends a piece after the answer to the one before never waits. Who cancels one that waits ends it there and then, as the
// deadline timer does.
//
// A service is then little more than
//
//   void HttpInfer::Start(ServerCall& call) {
//     PlainCall::Start(std::make_unique<HttpInferCall>(call, path_));
//   }
//   void HttpInfer::Cancelled(ServerCall& call) { path_.Cancel(call); }
//
// and a transport of its own is a ServerCall (call.h): it hands the message in, and gets the body or an
// absl::Status back by Finish.
#ifndef CELLBATCH_SERVER_REQUESTS_PLAIN_CALL_H_
#define CELLBATCH_SERVER_REQUESTS_PLAIN_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "server/requests/admission.h"
#include "server/requests/call.h"
#include "server/requests/plain_request.h"
#include "server/requests/request_path.h"
#include "server/requests/sequences.h"
#include "server/trace/request_trace.h"

namespace cellbatch {

class PlainCall {
 public:
  // Both outlive it.
  PlainCall(ServerCall& call, RequestPath& path);
  virtual ~PlainCall() = default;
  PlainCall(const PlainCall&) = delete;
  PlainCall& operator=(const PlainCall&) = delete;

  // Takes the call its whole way: ServerCall::Finish is called once, before this returns or later, and the
  // PlainCall is gone before that. Never waits. For one request it allocates nothing of its own.
  static void Start(std::unique_ptr<PlainCall> call);

 protected:
  // What the log calls the way it came: "grpc", "http", ..
  virtual std::string_view wire() const = 0;
  // What the client called it, once the message is read; empty: nothing.
  virtual std::string_view id() const { return {}; }

  // The steps of a format, on the transport's thread, in this order. An error ends the call and is its status;
  // one of Spell, of what follows it, or of Check does so only if AnswersError does not take it.
  //
  // What reading takes beside the message: admitted before it is read, as the message itself was. Allocates nothing.
  virtual absl::Status Look(std::string_view /*message*/, int64_t& /*bytes*/) {
    return absl::OkStatus();
  }
  // What the head views stays as long as the call. INVALID_ARGUMENT: malformed, or beyond the format's bounds.
  virtual absl::StatusOr<PlainHead> Read(std::string_view message) = 0;
  // Request number `i` of as many as the head said. What `request` views stays as long as the call.
  virtual absl::Status Spell(int i, PlainRequest& request) = 0;
  // Request `i` is unfolded and about to be admitted: what the format wants of it beyond what all must be.
  virtual absl::Status Check(int /*i*/, Request& /*request*/) { return absl::OkStatus(); }

  // On one responder's thread, one after the other, maybe before Start has returned.
  //
  // New words of request `i`, if Check made it a stream; read only (scheduler/request.h).
  virtual void OnWords(int /*i*/, const Delivery&) {}
  // Request `i` is done. The tensors, and what they point at, are gone when this returns. Of those with names each number has
  // one: a cell that left another has failed.
  virtual void Answer(int i, absl::Span<const ReturnedTensor> tensors) = 0;
  // On either thread: `i` was refused, or has failed. True: that is its answer, and the others go on. What cuts
  // a submitted request off from outside (CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE) ends the call unasked.
  virtual bool AnswersError(int /*i*/, const absl::Status&) { return false; }
  // On either thread, once: what Finish is given with OK instead of this error; none: the error. `request_id`: as it is told.
  virtual std::optional<std::string> ErrorBody(const absl::Status& /*status*/,
                                               std::string_view /*request_id*/) {
    return std::nullopt;
  }
  // On either thread, once, if nothing has ended the call: what Finish is given.
  virtual std::string Body() { return std::string(); }

  // For what is above. The model is there from Spell on.
  const Model& model() const { return *model_; }
  ServerCall& call() { return call_; }
  // The call ends with this when all that is under way has come back. The first to say so is heard.
  void CutOff(const absl::Status& status);
  // As if the client had gone: what was submitted leaves, now or as soon as it is known.
  void Abandon();

 private:
  class Item final : public ServedRequest {
   public:
    Item(PlainCall& call, int place);
    void OnWords(const Delivery& delivery) override { call_.OnWords(place_, delivery); }
    void OnDone(int responder, std::unique_ptr<Request> done) override;
    AnswerOutlet* outlet() const override { return call_.call_.outlet(); }

   private:
    PlainCall& call_;
    const int place_;  // among the call's requests
  };

  // A call as a piece of a sequence, the only request of its message.
  struct Piece final : SequenceTable::Place {
    Piece(PlainCall& of, const SequencePiece& piece, size_t outputs)
        : Place(piece), call(of), asked(outputs) {}
    void OnWaits(WaitId id) override;
    void OnWithdrawn(int shard) override;
    PlainCall& call;
    const size_t asked;  // tensors that its client wants; the state comes behind them
    std::shared_ptr<const SequenceState> left;  // null: it has not succeeded
  };
  // Whose turn it is once a call has ended: a piece that waited behind it. Null: nobody's.
  using Next = SequenceTable::Place*;

  absl::Status Prepare();
  absl::Status AdmitMessage();
  absl::Status CheckAccess(const PlainHead& head);
  Parties PartiesOf(const Model* model) const;
  absl::Status PrepareItems();
  // How far a request came: it is admitted, or has an error of its own, or there was no room for the call.
  enum class Step : uint8_t { kAdmitted, kWrong, kFull };
  Step PrepareItem(int i, Item& item, absl::Status& status, std::optional<int32_t>& pushback);
  Step AdmitItem(int i, Item& item, absl::Status& status, std::optional<int32_t>& pushback);
  absl::Status BecomePiece(const Item& item);
  static void TakeTurn(std::unique_ptr<PlainCall> call);
  // The turn of `piece` has come, on the thread of that shard: submits it, or ends it.
  static Next Run(Piece& piece, int shard);
  // It does not wait any more, and is that thread's.
  void EndWait(int shard);
  static void RunAll(Next next, int shard);
  absl::Status AdmitPiece(Item& item);
  bool AdmitMore(const Demand& more, Ticket& ticket);
  int64_t DeadlineOf(const Item& item) const;
  absl::Status CheckTime(std::string_view when);
  [[nodiscard]] Next SubmitAll();
  [[nodiscard]] static Next Refuse(std::unique_ptr<PlainCall> call, const absl::Status& status);
  // A line in the log, and the id in the answer, for `requests` of them that end so; `done`: the one that was submitted.
  // `place`: of the only one; -1: of all that are left. Before it is counted.
  void TellFailed(const absl::Status& status, int place, int requests, const Request* done);
  // The id of the trace that it is part of, ours or its caller's; empty: none. Of one that failed and is not traced, from now on
  // it may be.
  std::string TraceOfFailed(int requests);
  std::string_view Version() const;
  void EndTrace();
  // Of the submitter and the requests under way, the last one ends the call, and this.
  [[nodiscard]] Next LetGo();
  [[nodiscard]] static Next End(std::unique_ptr<PlainCall> call);

  // Most calls have one request: it lies here, others where they must.
  Item& NextItem(int place);
  void DropItem();
  Item& item(size_t i) { return i == 0 ? *first_ : *more_[i - 1]; }

  ServerCall& call_;
  RequestPath& path_;
  int shard_;  // of the thread that prepares it
  std::shared_ptr<const Model> model_;
  std::string_view asked_name_, asked_version_;  // of the head
  ModelStats* stats_;                            // of the model, once it is known
  int requests_ = 0;                             // as the head said
  int refused_ = 0;                              // that have their answer already
  std::optional<Item> first_;
  std::vector<std::unique_ptr<Item>> more_;
  size_t num_items_ = 0;  // requests that can be served
  int64_t work_ns_ = 0;   // of those (work_ahead.h)
  Parties of_;            // whose it is, once the model is known
  Ticket door_, work_;
  std::unique_ptr<Piece> piece_;  // null: of no sequence
  std::mutex mutex_;              // result_.status and .request_id, while requests are under way
  std::unique_ptr<RequestTrace> trace_;  // likewise; null: it is not traced
  CallResult result_;
  std::atomic<int> holders_ = 1;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_PLAIN_CALL_H_

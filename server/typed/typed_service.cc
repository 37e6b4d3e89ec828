#include "server/typed/typed_service.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "google/protobuf/arena.h"

namespace cellbatch {

// One input of a call.
class TypedItem final : public ServedRequest {
 public:
  TypedItem(TypedCall& the_call, size_t the_place, int64_t received, int the_shard)
      : ServedRequest(received, the_shard), call(the_call), place(the_place) {}
  void OnDone(int responder, std::unique_ptr<Request> done) override;

  TypedCall& call;
  const size_t place;  // of its answer
};

// What one call holds between Start and Finish.
class TypedCall {
 public:
  TypedCall(ServerCall& the_call, RequestPath& path)
      : call(the_call),
        proto(google::protobuf::Arena::CreateMessage<v1::InferRequest>(&arena_)),
        path_(path) {}

  // The first to be cut off says how the whole call ends.
  void CutOff(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (result.status.ok()) result.status = status;
  }
  // Of the submitter and the inputs that are under way, the last one ends the call, and this.
  void Holders(int count) { holders_.store(count, std::memory_order_relaxed); }
  void LetGo() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    for (const auto& item : items) path_.DisarmDeadline(*item);
    if (result.status.ok()) result.body = EncodeTypedResponse(*model, proto->id(), answers);
    End(std::unique_ptr<TypedCall>(this));
  }
  // Tickets are back before the client can know.
  static void End(std::unique_ptr<TypedCall> typed) {
    ServerCall& call = typed->call;
    CallResult result = std::move(typed->result);
    typed.reset();
    call.Finish(std::move(result));
  }

  RequestPath& path() { return path_; }

  ServerCall& call;

 private:
  google::protobuf::Arena arena_;

 public:
  v1::InferRequest* const proto;
  std::shared_ptr<const Model> model;
  ModelStats* stats = nullptr;
  std::vector<std::unique_ptr<TypedItem>> items;  // those that can be served
  std::vector<std::string> answers;               // encoded, by place
  int64_t refused = 0;                            // inputs that have their answer already
  Ticket door;
  std::vector<Ticket> work;
  Demand all = {0, 0, 0};  // what the items take beyond the door
  CallResult result;

 private:
  RequestPath& path_;
  std::mutex mutex_;  // result.status, while inputs are under way
  std::atomic<int> holders_ = 1;
};

void TypedItem::OnDone(int responder, std::unique_ptr<Request> done) {
  const absl::Status& status = done->status;
  if (status.ok()) {
    done->graph.CloseAnswer();
    call.answers[place] = EncodeAnswer(done->graph.tensors());
  } else if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
             absl::IsUnavailable(status)) {
    call.CutOff(Shortened(OfModel(*model, status)));
  } else {
    call.answers[place] = EncodeAnswer(Shortened(OfModel(*model, status)));
  }
  call.path().RecordEnd(responder, *this, *done);
  done.reset();
  call.LetGo();
}

void TypedInferService::Start(ServerCall& call) {
  auto typed = std::make_unique<TypedCall>(call, path_);
  typed->stats = &path_.unknown_model();
  absl::Status status = Prepare(*typed);
  if (status.ok()) status = CheckTime(*typed);
  if (status.ok()) {
    Submit(std::move(typed));
    return;
  }
  // Every input without an answer of its own ends here, too; a call that never had any counts as one.
  const int64_t left = int64_t{typed->proto->inputs_size()} - typed->refused;
  for (int64_t i = 0; i < std::max<int64_t>(typed->model == nullptr ? 1 : left, 1); ++i) {
    typed->result.status = path_.Refused(*typed->stats, call.shard(), call.received_ns(), status);
  }
  TypedCall::End(std::move(typed));
}

absl::Status TypedInferService::Prepare(TypedCall& typed) {
  ServerCall& call = typed.call;
  const auto message_bytes = static_cast<int64_t>(call.request().size());
  if (!path_.Admit({1, 0, message_bytes}, *typed.stats, call.shard(), typed.door, typed.result)) {
    return typed.result.status;
  }
  absl::Status status = call.transport_status();
  if (status.ok()) status = ParseTyped(call.request(), limits_, *typed.proto);
  if (!status.ok()) return status;
  const v1::InferRequest& proto = *typed.proto;
  if (proto.inputs().empty() || proto.inputs_size() > limits_.max_inputs) {
    return absl::InvalidArgumentError(fmt::format("the request has {} inputs, allowed are 1 to {}",
                                                  proto.inputs_size(), limits_.max_inputs));
  }
  absl::StatusOr<std::shared_ptr<const Model>> model =
      path_.Find(proto.model_name(), proto.model_version());
  if (!model.ok()) return model.status();
  typed.model = *std::move(model);
  typed.stats = &path_.StatsOf(*typed.model);
  typed.answers.resize(static_cast<size_t>(proto.inputs_size()));
  return PrepareInputs(typed);
}

absl::Status TypedInferService::PrepareInputs(TypedCall& typed) {
  ServerCall& call = typed.call;
  const v1::InferRequest& proto = *typed.proto;
  for (int i = 0; i < proto.inputs_size(); ++i) {
    const auto place = static_cast<size_t>(i);
    auto item = std::make_unique<TypedItem>(typed, place, call.received_ns(), call.shard());
    item->model = typed.model;
    item->stats = typed.stats;
    item->deadline.deadline_ns = call.deadline_ns();
    inference::ModelInferRequest& request = item->message.mutable_proto();
    for (const std::string& name : proto.outputs()) request.add_outputs()->set_name(name);
    for (const auto& [key, value] : proto.parameters()) {
      (*request.mutable_parameters())[key].set_int64_param(value);
    }
    std::optional<int32_t> pushback;  // of one input among many: its text says enough
    absl::Status status = ToTensors(proto.inputs(i), typed.model->signature, request);
    if (status.ok()) status = path_.Prepare(*item, pushback);
    if (!status.ok()) {
      status = path_.Refused(*typed.stats, call.shard(), call.received_ns(), status);
      typed.answers[place] = EncodeAnswer(status);
      ++typed.refused;
      continue;
    }
    if (!AdmitAnother(*item, typed)) return typed.result.status;
    typed.items.push_back(std::move(item));
  }
  return absl::OkStatus();
}

// One after the other, so that what is unfolded and not admitted is never more than one input; but all of them or
// none, and a refusal speaks of all so far.
bool TypedInferService::AdmitAnother(const TypedItem& item, TypedCall& typed) {
  Demand work = RequestPath::WorkOf(item);
  work.requests = typed.items.empty() ? 0 : 1;  // the door counted the first
  typed.all.requests += work.requests;
  typed.all.cells += work.cells;
  typed.all.bytes += work.bytes;
  Ticket ticket;
  if (!path_.TryAdmit(work, ticket)) {
    typed.work.clear();
    const bool fits =
        path_.Admit(typed.all, *typed.stats, typed.call.shard(), ticket, typed.result);
    if (!fits) return false;
  }
  typed.work.push_back(std::move(ticket));
  return true;
}

absl::Status TypedInferService::CheckTime(TypedCall& typed) {
  if (path_.clock().NowNs() >= typed.call.deadline_ns()) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  if (typed.call.cancel_slot().cancelled()) return absl::CancelledError("the client cancelled");
  return absl::OkStatus();
}

void TypedInferService::Submit(std::unique_ptr<TypedCall> typed) {
  TypedCall* shared = typed.release();
  const size_t count = shared->items.size();
  shared->Holders(static_cast<int>(count) + 1);
  std::vector<RequestId> ids;
  ids.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    TypedItem& item = *shared->items[i];
    // Once it is submitted, the responder may be at it, too.
    if (const std::optional<RequestId> id = path_.Submit(item)) {
      ids.push_back(*id);
      path_.ArmDeadline(item, *id);
      continue;
    }
    item.deadline.deadline_ns = kNoDeadline;
    const absl::Status full = absl::UnavailableError(
        fmt::format("model {} takes no requests now", Quoted(shared->model->name)));
    shared->CutOff(path_.Refused(*shared->stats, item.shard, item.received_ns, full));
    shared->LetGo();
  }
  if (!shared->call.cancel_slot().Publish(ids)) {
    for (const RequestId id : ids) path_.Notify(id, News::kCancelled);
  }
  shared->LetGo();
}

namespace {

// What a model that decodes answers.
constexpr const char* kWords = "OUTPUT";     // INT32 [L]
constexpr const char* kStopped = "STOPPED";  // INT32 [1]

// Null: the answer has no such list of numbers.
const ReturnedTensor* FindInt32s(const CellGraph& graph, std::string_view name) {
  for (const ReturnedTensor& t : graph.tensors()) {
    if (t.name == name && t.type == WireType::kInt32 && t.dims.size() == 1) return &t;
  }
  return nullptr;
}

absl::Status DecodesNothing(const Model& model) {
  return absl::InvalidArgumentError(
      fmt::format("model {} decodes nothing: Infer answers it", Quoted(model.name)));
}

}  // namespace

// What one stream holds between Start and Finish.
class DecodeCall final : public ServedRequest {
 public:
  DecodeCall(ServerCall& the_call, RequestPath& path)
      : ServedRequest(the_call.received_ns(), the_call.shard()), call(the_call), path_(path) {}

  void OnWords(const Delivery& delivery) override {
    const CellGraph& graph = delivery.request->graph;
    if (graph.stop_reports().empty()) return;  // its words come with its end
    const StopReport& report = graph.stop_reports()[0];
    const ReturnedTensor& words = graph.tensors()[static_cast<size_t>(report.tensors.words)];
    const Stop& stop = graph.subgraphs()[static_cast<size_t>(report.chain.value())].stop;
    Send(words, delivery.words, stop.value);
  }
  void OnDone(int responder, std::unique_ptr<Request> done) override;

  // Of the submitter and the responder, the last one ends the call, and this.
  void LetGo() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    path_.DisarmDeadline(*this);
    End(std::unique_ptr<DecodeCall>(this));
  }
  static void End(std::unique_ptr<DecodeCall> decode) {
    ServerCall& call = decode->call;
    CallResult result = std::move(decode->result);
    decode.reset();
    call.Finish(std::move(result));
  }

  ServerCall& call;
  Ticket door, work;
  CallResult result;

 private:
  // Those of the first `count` words that were not sent yet, up to the one that ended them.
  void Send(const ReturnedTensor& words, int32_t count, int32_t last);
  void Write(std::string message);

  RequestPath& path_;
  int32_t sent_ = 0;
  bool unread_ = false;  // the client does not read: nothing more is written
  std::atomic<int> holders_ = 2;
};

void DecodeCall::Send(const ReturnedTensor& words, int32_t count, int32_t last) {
  for (; sent_ < count && !unread_; ++sent_) {
    int32_t word = 0;
    std::memcpy(&word, words.bytes.data() + size_t{sizeof(word)} * static_cast<size_t>(sent_),
                sizeof(word));
    if (word == last) return;
    Write(EncodeWord(sent_, word, words.names));
  }
}

void DecodeCall::Write(std::string message) {
  if (unread_ || call.Write(std::move(message))) return;
  unread_ = true;
  // As if the client had gone: what it has submitted leaves, now or as soon as it is known.
  for (const RequestId id : call.cancel_slot().Cancel()) path_.Notify(id, News::kCancelled);
}

void DecodeCall::OnDone(int responder, std::unique_ptr<Request> done) {
  if (done->status.ok()) {
    done->graph.CloseAnswer();
    const ReturnedTensor& words = *FindInt32s(done->graph, kWords);
    const auto length = static_cast<int32_t>(words.dims[0]);
    int32_t stopped = 0;
    std::memcpy(&stopped, FindInt32s(done->graph, kStopped)->bytes.data(), sizeof(stopped));
    constexpr int32_t kNoWord = -1;  // the one that ended them is cut off already
    Send(words, length, kNoWord);
    Write(EncodeEnd(length, stopped != 0));
  } else {
    result.status = Shortened(OfModel(*model, done->status));
  }
  if (unread_) {
    result.status = absl::ResourceExhaustedError(fmt::format(
        "model {}: the client does not read: {} words were sent, and no more wait for it",
        Quoted(model->name), sent_));
  }
  path_.RecordEnd(responder, *this, *done);
  done.reset();
  LetGo();
}

void DecodeService::Start(ServerCall& call) {
  auto decode = std::make_unique<DecodeCall>(call, path_);
  decode->stats = &path_.unknown_model();
  absl::Status status = Prepare(*decode);
  if (!status.ok()) {
    decode->result.status =
        path_.Refused(*decode->stats, decode->shard, decode->received_ns, status);
    DecodeCall::End(std::move(decode));
    return;
  }
  DecodeCall* shared = decode.release();
  const std::optional<RequestId> id = path_.Submit(*shared);
  if (!id) {
    decode.reset(shared);
    status = absl::UnavailableError(
        fmt::format("model {} takes no requests now", Quoted(decode->model->name)));
    decode->result.status =
        path_.Refused(*decode->stats, decode->shard, decode->received_ns, status);
    DecodeCall::End(std::move(decode));
    return;
  }
  // From here on the responder may be at it, too.
  if (!shared->call.cancel_slot().Publish(*id)) path_.Notify(*id, News::kCancelled);
  path_.ArmDeadline(*shared, *id);
  shared->LetGo();
}

absl::Status DecodeService::Prepare(DecodeCall& decode) {
  const auto admit = [&](const Demand& demand, Ticket& ticket) {
    return path_.Admit(demand, *decode.stats, decode.shard, ticket, decode.result);
  };
  const std::string_view bytes = decode.call.request();
  if (!admit({1, 0, static_cast<int64_t>(bytes.size())}, decode.door)) return decode.result.status;
  absl::Status status = decode.call.transport_status();
  v1::DecodeRequest proto;
  if (status.ok()) status = ParseTyped(bytes, limits_, proto);
  if (!status.ok()) return status;
  absl::StatusOr<std::shared_ptr<const Model>> model =
      path_.Find(proto.model_name(), proto.model_version());
  if (!model.ok()) return model.status();
  decode.model = *std::move(model);
  decode.stats = &path_.StatsOf(*decode.model);

  inference::ModelInferRequest& request = decode.message.mutable_proto();
  for (const char* output : {kWords, kStopped}) request.add_outputs()->set_name(output);
  const auto set = [&](const char* key, int64_t value) {
    (*request.mutable_parameters())[key].set_int64_param(value);
  };
  if (proto.has_max_decode_steps()) set("max_decode_steps", proto.max_decode_steps());
  if (proto.has_decode_steps()) set("decode_steps", proto.decode_steps());
  if (proto.priority() != 0) set("priority", proto.priority());
  const Signature& signature = decode.model->signature;
  const bool decodes = std::find(signature.parameters.begin(), signature.parameters.end(),
                                 "max_decode_steps") != signature.parameters.end();
  if (!decodes) return DecodesNothing(*decode.model);
  status = ToTensors(proto.source(), signature, request);
  if (status.ok()) status = path_.Prepare(decode, decode.result.pushback_ms);
  if (!status.ok()) return status;
  const ReturnedTensor* stopped = FindInt32s(decode.request->graph, kStopped);
  if (FindInt32s(decode.request->graph, kWords) == nullptr || stopped == nullptr ||
      stopped->dims[0] != 1) {
    return DecodesNothing(*decode.model);
  }
  decode.request->stream = true;
  if (!admit(RequestPath::WorkOf(decode), decode.work)) return decode.result.status;
  decode.deadline.deadline_ns = decode.call.deadline_ns();
  if (path_.clock().NowNs() >= decode.deadline.deadline_ns) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  if (decode.call.cancel_slot().cancelled()) return absl::CancelledError("the client cancelled");
  return absl::OkStatus();
}

}  // namespace cellbatch

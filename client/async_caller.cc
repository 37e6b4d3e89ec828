#include "client/async_caller.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "client/channel.h"
#include "client/client.h"
#include "client/infer_answers.h"
#include "client/messages.h"
#include "client/typed_messages.h"

namespace cellbatch {
namespace {

const char* MethodOf(PreparedCall call) {
  switch (call) {
    case PreparedCall::kModelInfer:
      return "/inference.GRPCInferenceService/ModelInfer";
    case PreparedCall::kInfer:
      return "/cellbatch.v1.Cellbatch/Infer";
    case PreparedCall::kDecode:
      break;
  }
  return "/cellbatch.v1.Cellbatch/Decode";
}

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Slot;

// What gRPC gives back when an operation of a call is over.
struct SlotOp {
  enum Kind { kFinish, kWrite, kRead };
  Slot* slot;
  Kind kind;
};

// All that a call needs while it is in flight. `underway` is guarded by Impl::mutex: CancelAll may
// touch the context only while it is set. The rest is the sender's until it starts the call's last
// operation of its own, then its completion queue's thread's.
struct Slot {
  bool underway = false;
  uint64_t tag = 0;
  uint32_t inputs = 0;
  PreparedCall call = PreparedCall::kModelInfer;
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;  // kDecode
  grpc::ByteBuffer response;                                     // of a stream, the last message
  grpc::Status status;

  // kDecode.
  bool writing = false, finished = false;  // its operations: the slot is free when both are over
  int64_t first_word_ns = -1, words = 0, finished_ns = 0;
  bool ended = false;  // the last message came

  SlotOp finish{this, SlotOp::kFinish}, write{this, SlotOp::kWrite}, read{this, SlotOp::kRead};
};

// Whether a message of a Decode stream is a word: the first field of its one is.
bool IsWord(const grpc::ByteBuffer& message) {
  constexpr uint8_t kWord = 1 << 3 | 2;
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&message));
  const void* bytes = nullptr;
  int size = 0;
  return reader.Next(&bytes, &size) && size > 0 && *static_cast<const uint8_t*>(bytes) == kWord;
}

}  // namespace

std::string PreparedMessage(const InferInput& input) {
  return ToMessage(input).SerializeAsString();
}
std::string PreparedMessage(const InferManyInput& input) {
  return ToMessage(input).SerializeAsString();
}
std::string PreparedMessage(const DecodeInput& input) {
  return ToMessage(input).SerializeAsString();
}

std::string PreparedHeader(const InferInput& input, size_t content_bytes) {
  inference::ModelInferRequest request = ToMessage(input);
  request.clear_raw_input_contents();
  std::string header = request.SerializeAsString();
  // Field 7, length-delimited: the bytes themselves follow in the second part.
  header += static_cast<char>((7 << 3) | 2);
  for (size_t rest = content_bytes;; rest >>= 7) {
    if (rest < 128) {
      return header += static_cast<char>(rest);
    }
    header += static_cast<char>((rest & 127) | 128);
  }
}

struct AsyncCaller::Impl {
  AsyncCallerOptions options;
  OnDone on_done;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  std::vector<std::unique_ptr<grpc::CompletionQueue>> queues;
  std::vector<std::thread> threads;
  std::atomic<uint32_t> next_connection{0};

  std::mutex mutex;
  std::condition_variable slot_came_back;  // while closing
  bool closing = false;
  std::vector<Slot> slots;
  std::vector<Slot*> free_slots;

  Slot* TakeSlot();
  void GiveBack(Slot* slot);
  void Start(Slot& slot, const PreparedRequest& request);
  // From here on CancelAll reaches the call.
  void SetUnderway(Slot& slot);
  void Complete(grpc::CompletionQueue& queue);
  void Advance(SlotOp& op, bool ok, int64_t at_ns);
  void Answer(Slot& slot, int64_t at_ns);
};

Slot* AsyncCaller::Impl::TakeSlot() {
  std::lock_guard lock(mutex);
  if (free_slots.empty() || closing) {
    return nullptr;
  }
  Slot* slot = free_slots.back();
  free_slots.pop_back();
  return slot;
}

void AsyncCaller::Impl::GiveBack(Slot* slot) {
  {
    std::lock_guard lock(mutex);
    slot->underway = false;
  }
  slot->reader.reset();
  slot->stream.reset();
  slot->context.reset();
  slot->response.Clear();
  std::lock_guard lock(mutex);
  free_slots.push_back(slot);
  if (closing) {
    slot_came_back.notify_all();
  }
}

void AsyncCaller::Impl::SetUnderway(Slot& slot) {
  std::lock_guard lock(mutex);
  slot.underway = true;
  if (closing) {  // CancelAll has passed by
    slot.context->TryCancel();
  }
}

void AsyncCaller::Impl::Start(Slot& slot, const PreparedRequest& request) {
  slot.context.emplace();
  slot.context->set_deadline(gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(options.timeout.count(), GPR_TIMESPAN)));
  const grpc::Slice parts[] = {
      grpc::Slice(request.header.data(), request.header.size(), grpc::Slice::STATIC_SLICE),
      grpc::Slice(request.content.data(), request.content.size(), grpc::Slice::STATIC_SLICE)};
  const grpc::ByteBuffer message(parts, request.content.empty() ? 1 : 2);
  const uint32_t turn = next_connection.fetch_add(1, std::memory_order_relaxed);
  grpc::GenericStub& stub = *stubs[turn % stubs.size()];
  grpc::CompletionQueue* queue = queues[turn % queues.size()].get();
  if (request.call != PreparedCall::kDecode) {
    slot.reader = stub.PrepareUnaryCall(&*slot.context, MethodOf(request.call), message, queue);
    slot.reader->StartCall();
    SetUnderway(slot);
    slot.reader->Finish(&slot.response, &slot.status, &slot.finish);
    return;
  }
  // Held back, so that it leaves together with the message; no operation of its own then.
  slot.context->set_initial_metadata_corked(true);
  slot.stream = stub.PrepareCall(&*slot.context, MethodOf(request.call), queue);
  slot.stream->StartCall(nullptr);
  slot.stream->WriteLast(message, grpc::WriteOptions(), &slot.write);
  SetUnderway(slot);
  slot.stream->Read(&slot.response, &slot.read);
}

void AsyncCaller::Impl::Complete(grpc::CompletionQueue& queue) {
  if (options.on_thread_start) {
    options.on_thread_start();
  }
  void* which = nullptr;
  bool ok = false;
  while (queue.Next(&which, &ok)) {
    Advance(*static_cast<SlotOp*>(which), ok, NowNs());
  }
}

void AsyncCaller::Impl::Advance(SlotOp& op, bool ok, int64_t at_ns) {
  Slot& slot = *op.slot;
  switch (op.kind) {
    case SlotOp::kWrite:
      slot.writing = false;
      break;
    case SlotOp::kRead:
      if (!ok) {
        slot.stream->Finish(&slot.status, &slot.finish);
        return;
      }
      if (IsWord(slot.response)) {
        slot.first_word_ns = slot.words++ == 0 ? at_ns : slot.first_word_ns;
      } else {
        slot.ended = true;
      }
      slot.stream->Read(&slot.response, &slot.read);
      return;
    case SlotOp::kFinish:
      slot.finished = true;
      slot.finished_ns = at_ns;
      break;
  }
  if (slot.finished && !slot.writing) {
    Answer(slot, slot.finished_ns);
  }
}

void AsyncCaller::Impl::Answer(Slot& slot, int64_t at_ns) {
  absl::Status status(static_cast<absl::StatusCode>(slot.status.error_code()),
                      slot.status.error_message());
  if (status.ok() && slot.call == PreparedCall::kInfer) {
    status = CheckAnswers(slot.response, slot.inputs);
  } else if (status.ok() && slot.call == PreparedCall::kDecode && !slot.ended) {
    status = absl::InternalError("the stream of words ended without its last message");
  }
  const uint64_t tag = slot.tag;
  const int64_t first_word_ns = slot.first_word_ns, words = slot.words;
  GiveBack(&slot);
  on_done(Done{tag, status.code(), std::string(status.message()), at_ns, first_word_ns, words});
}

AsyncCaller::AsyncCaller(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<AsyncCaller>> AsyncCaller::Create(AsyncCallerOptions options,
                                                                 OnDone on_done) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->on_done = std::move(on_done);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(std::numeric_limits<int32_t>::max());
  arguments.SetMaxSendMessageSize(std::numeric_limits<int32_t>::max());
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else all share one connection
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds left = impl->options.connect_timeout;  // for all of them
  const auto deadline = Clock::now() + left;
  for (int i = 0; i < impl->options.connections; ++i) {
    auto channel = OpenChannel(impl->options.url, impl->options.security, arguments);
    const absl::Status connected = WaitUntilConnected(channel, impl->options.url, left);
    if (!connected.ok()) {
      return connected;
    }
    left = std::max(std::chrono::milliseconds(0),
                    std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()));
    impl->stubs.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
  impl->slots = std::vector<Slot>(impl->options.most_in_flight);
  for (Slot& slot : impl->slots) {
    impl->free_slots.push_back(&slot);
  }
  for (int i = 0; i < impl->options.completion_threads; ++i) {
    impl->queues.push_back(std::make_unique<grpc::CompletionQueue>());
  }
  for (const auto& queue : impl->queues) {
    impl->threads.emplace_back([impl = impl.get(), q = queue.get()] { impl->Complete(*q); });
  }
  return std::unique_ptr<AsyncCaller>(new AsyncCaller(std::move(impl)));
}

AsyncCaller::~AsyncCaller() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  CancelAll();
  {
    // A queue that is shut down takes no calls, so those that are being started must end first.
    std::unique_lock lock(impl_->mutex);
    impl_->slot_came_back.wait(lock,
                               [this] { return impl_->free_slots.size() == impl_->slots.size(); });
  }
  for (const auto& queue : impl_->queues) {
    queue->Shutdown();
  }
  for (std::thread& thread : impl_->threads) {
    thread.join();
  }
}

bool AsyncCaller::Send(const PreparedRequest& request, uint64_t tag) {
  Slot* slot = impl_->TakeSlot();
  if (slot == nullptr) {
    return false;
  }
  slot->tag = tag;
  slot->call = request.call;
  slot->inputs = request.inputs;
  slot->writing = request.call == PreparedCall::kDecode;
  slot->finished = slot->ended = false;
  slot->first_word_ns = -1;
  slot->words = 0;
  impl_->Start(*slot, request);
  return true;
}

void AsyncCaller::CancelAll() {
  std::lock_guard lock(impl_->mutex);
  for (Slot& slot : impl_->slots) {
    if (slot.underway) {
      slot.context->TryCancel();
    }
  }
}

}  // namespace cellbatch

#include "client/async_caller.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/messages.h"

namespace cellbatch {
namespace {

constexpr char kMethod[] = "/inference.GRPCInferenceService/ModelInfer";

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// All that a call needs while it is in flight. `underway` is guarded by Impl::mutex: CancelAll may
// touch the context only while it is set.
struct Slot {
  bool underway = false;
  uint64_t tag = 0;
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;
};

}  // namespace

std::string PreparedHeader(const std::string& model, const std::string& version,
                           const std::string& tensor, const std::string& datatype,
                           const std::vector<int64_t>& shape, size_t content_bytes) {
  InferInput input{model, version, "", {{tensor, datatype, shape, ""}}, {}, {}};
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
  void Complete(grpc::CompletionQueue& queue);
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
  slot->context.reset();
  slot->response.Clear();
  std::lock_guard lock(mutex);
  free_slots.push_back(slot);
  if (closing) {
    slot_came_back.notify_all();
  }
}

void AsyncCaller::Impl::Start(Slot& slot, const PreparedRequest& request) {
  slot.context.emplace();
  slot.context->set_deadline(gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(options.timeout.count(), GPR_TIMESPAN)));
  const grpc::Slice parts[] = {
      grpc::Slice(request.header.data(), request.header.size(), grpc::Slice::STATIC_SLICE),
      grpc::Slice(request.content.data(), request.content.size(), grpc::Slice::STATIC_SLICE)};
  const uint32_t turn = next_connection.fetch_add(1, std::memory_order_relaxed);
  slot.reader = stubs[turn % stubs.size()]->PrepareUnaryCall(
      &*slot.context, kMethod, grpc::ByteBuffer(parts, 2), queues[turn % queues.size()].get());
  slot.reader->StartCall();
  {
    std::lock_guard lock(mutex);
    slot.underway = true;
    if (closing) {  // CancelAll has passed by
      slot.context->TryCancel();
    }
  }
  slot.reader->Finish(&slot.response, &slot.status, &slot);
}

void AsyncCaller::Impl::Complete(grpc::CompletionQueue& queue) {
  if (options.on_thread_start) {
    options.on_thread_start();
  }
  void* which = nullptr;
  bool ok = false;
  while (queue.Next(&which, &ok)) {
    const int64_t at_ns = NowNs();
    Slot* slot = static_cast<Slot*>(which);
    const uint64_t tag = slot->tag;
    const auto code = static_cast<absl::StatusCode>(slot->status.error_code());
    const std::string text = slot->status.ok() ? std::string() : slot->status.error_message();
    GiveBack(slot);
    on_done(Done{tag, code, text, at_ns});
  }
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
  const auto deadline = std::chrono::system_clock::now() + impl->options.connect_timeout;
  for (int i = 0; i < impl->options.connections; ++i) {
    auto channel =
        grpc::CreateCustomChannel(impl->options.url, grpc::InsecureChannelCredentials(), arguments);
    if (!channel->WaitForConnected(deadline)) {
      return absl::UnavailableError(fmt::format("no server answers at {} within {} ms",
                                                impl->options.url,
                                                impl->options.connect_timeout.count()));
    }
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

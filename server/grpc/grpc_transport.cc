#include "server/grpc/grpc_transport.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/resource_quota.h"
#include "server/grpc/grpc_compression.h"
#include "server/grpc/grpc_listener.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/wire_tap.h"

namespace cellbatch {

namespace {

constexpr int kMaxSyncThreads = 64;  // for channelz, which the library answers

int Milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

void SetLimits(const GrpcOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);
  if (SeesEncodings()) builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // We compress nothing; the filter would cost each call, and each answer a header (grpc-accept-encoding).
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(options.max_metadata_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.frames.max_streams));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
  // A peer may be gone without a word between its calls as well as in one.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(options.min_ping_interval));
  if (options.max_connection_age.count() > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               Milliseconds(options.max_connection_age));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               Milliseconds(options.max_connection_age_grace));
  }
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(grpc::ResourceQuota("cellbatch").SetMaxThreads(kMaxSyncThreads));
}

}  // namespace

class GrpcTransport::Impl {
 public:
  Impl(const GrpcOptions& options, const CallSinks& sinks, const KServeService& kserve,
       const LatencyService& latency, RefusalCounts& refusals, const Clock& clock)
      : methods_(sinks, kserve, latency, options.messages, options.reflection, refusals),
        slow_(options.messages.slow, clock) {}

  absl::Status Start(const GrpcOptions& options, const Clock& clock) {
    if (!WireTap::InForce()) {
      return absl::FailedPreconditionError(
          "libgrpc.so does not call this program's recvmsg, sendmsg and close: how it was linked "
          "leaves nothing bounded of what connections bring");
    }
    auto listener = GrpcListener::Open({.address = options.address,
                                        .accepts = options.accepts,
                                        .max_connections = options.max_connections,
                                        .frames = options.frames,
                                        .max_unfinished_bytes = options.max_unfinished_bytes,
                                        .message_timeout = options.message_timeout,
                                        .user_timeout = options.keepalive_timeout},
                                       counts_);
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    if (options.channelz) grpc::channelz::experimental::InitChannelzService();
    grpc::ServerBuilder builder;
    SetLimits(options, builder);
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    methods_.Register(builder);
    for (int i = 0; i < options.threads; ++i) {
      CallQueue& queue = *queues_.emplace_back(std::make_unique<CallQueue>());
      queue.methods = &methods_;
      queue.slow = &slow_;
      queue.clock = &clock;
      queue.connections = &listener_->guard();
      queue.tokens = options.tokens;
      queue.stream_buffer_bytes = options.stream_buffer_bytes;
      queue.index = i;
      queue.slow_shard = options.threads;
      queue.completions = builder.AddCompletionQueue();
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::UnavailableError("gRPC cannot start");
    for (auto& queue : queues_) {
      AcceptCalls(*queue);
      queue->thread = std::thread([&queue = *queue] { PollCalls(queue); });
    }
    listener_->Begin([this](int connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.fd = connection;
      acceptor_->HandleNewConnection(&parameters);
    });
    return absl::OkStatus();
  }

  ~Impl() { Shutdown(std::chrono::milliseconds(0)); }

  void Take(PlainEnd end) { listener_->Take(std::move(end)); }
  void SetServing(bool serving) { methods_.health().Set(serving); }

  void Shutdown(std::chrono::milliseconds grace) {
    if (server_ == nullptr) return;
    listener_->StopAccepting();
    methods_.health().Stop();
    for (auto& queue : queues_) queue->open_streams.EndAll();
    // A call that nobody has accepted when gRPC shuts down ends CANCELLED, as if its client had wished it.
    SendClientsAway(grace);
    for (auto& queue : queues_) queue->stopping.store(true);
    server_->Shutdown(std::chrono::system_clock::now() + grace);
    for (auto& queue : queues_) {
      // The queue must not end before the last answer was put into it; every accept has come back
      // and every call has ended when nothing is open.
      while (queue->open.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      queue->completions->Shutdown();
      queue->thread.join();
    }
    server_.reset();
  }

  void SendClientsAway(std::chrono::milliseconds most) {
    constexpr std::chrono::milliseconds kQuiet{20}, kLook{1};
    listener_->SayGoodbye();
    const auto somebody_called = [&] {
      return std::ranges::any_of(queues_, [&](const auto& queue) {
        const int64_t last_ns = queue->last_came_ns.load(std::memory_order_relaxed);
        return last_ns != 0 &&
               queue->clock->NowNs() - last_ns < std::chrono::nanoseconds(kQuiet).count();
      });
    };
    for (auto waited = kLook; waited < most && somebody_called(); waited += kLook) {
      std::this_thread::sleep_for(kLook);
    }
  }

  const GrpcListener& listener() const { return *listener_; }
  const GrpcCounts& counts() const { return counts_; }

 private:
  GrpcMethods methods_;
  SlowLane slow_;
  std::vector<std::unique_ptr<CallQueue>> queues_;
  GrpcCounts counts_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<GrpcListener> listener_;  // whose threads use what is above
  std::unique_ptr<grpc::Server> server_;
};

GrpcTransport::GrpcTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcTransport::~GrpcTransport() = default;

absl::StatusOr<std::unique_ptr<GrpcTransport>> GrpcTransport::Start(
    const GrpcOptions& options, const CallSinks& sinks, const KServeService& kserve,
    const LatencyService& latency, RefusalCounts& refusals, const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, sinks, kserve, latency, refusals, clock);
  absl::Status status = impl->Start(options, clock);
  if (!status.ok()) return status;
  return std::unique_ptr<GrpcTransport>(new GrpcTransport(std::move(impl)));
}

const std::string& GrpcTransport::address() const { return impl_->listener().address(); }
const GrpcCounts& GrpcTransport::counts() const { return impl_->counts(); }
bool GrpcTransport::accepting() const { return impl_->listener().accepting(); }
void GrpcTransport::Take(PlainEnd end) { impl_->Take(std::move(end)); }
void GrpcTransport::SetServing(bool serving) { impl_->SetServing(serving); }
void GrpcTransport::SendClientsAway(std::chrono::milliseconds most) {
  impl_->SendClientsAway(most);
}
void GrpcTransport::Shutdown(std::chrono::milliseconds grace) { impl_->Shutdown(grace); }

}  // namespace cellbatch

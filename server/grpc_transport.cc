#include "server/grpc_transport.h"

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "fmt/format.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/grpc_compression.h"
#include "server/grpc_services.h"

namespace cellbatch {

namespace {

constexpr int kAcceptsPerQueue = 64;  // calls that may arrive before the polling thread has run
constexpr int kMaxSyncThreads = 64;   // for everything but ModelInfer
constexpr const char* kHealthNames[] = {"", "inference.GRPCInferenceService",
                                        "cellbatch.v1.Cellbatch"};

// What a completion is for.
struct Tag {
  enum class Kind : uint8_t { kAccepted, kDone, kFinished };
  class GrpcCall* call;
  Kind kind;
};

// What the calls of one completion queue have in common.
struct Queue {
  KServeGrpc* service = nullptr;
  CallSink* sink = nullptr;
  const Clock* clock = nullptr;
  int index = 0;
  std::unique_ptr<grpc::ServerCompletionQueue> completions;
  std::atomic<int64_t> open = 0;  // waiting for a call, or in one
  std::atomic<bool> stopping = false;
  std::thread thread;
};

// One call, from waiting for it to its end. Made and destroyed on its queue's thread.
class GrpcCall final : public ServerCall {
 public:
  explicit GrpcCall(Queue& queue) : queue_(queue), writer_(&context_) {
    queue.open.fetch_add(1);
    context_.AsyncNotifyWhenDone(&done_);
    queue.service->RequestModelInfer(&context_, &bytes_, &writer_, queue.completions.get(),
                                     queue.completions.get(), &accepted_);
  }
  ~GrpcCall() override { queue_.open.fetch_sub(1); }

  std::string_view request() const override {
    return {reinterpret_cast<const char*>(message_.begin()), message_.size()};
  }
  int64_t deadline_ns() const override { return deadline_ns_; }
  int64_t received_ns() const override { return received_ns_; }
  int shard() const override { return queue_.index; }
  absl::Status transport_status() const override { return transport_status_; }
  void Finish(CallResult result) override;

  void OnAccepted(bool ok);
  void OnDone();
  void OnFinished() { Ended(); }

 private:
  void Ended() {
    if (++ends_ == 2) delete this;
  }

  Queue& queue_;
  grpc::ServerContext context_;
  grpc::ByteBuffer bytes_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_;
  grpc::Slice message_;
  int64_t deadline_ns_ = kNoDeadline;
  int64_t received_ns_ = 0;
  absl::Status transport_status_;
  int ends_ = 0;  // of two: gRPC is done with the call, our answer was taken
  Tag accepted_{this, Tag::Kind::kAccepted};
  Tag done_{this, Tag::Kind::kDone};
  Tag finished_{this, Tag::Kind::kFinished};
};

// A gRPC deadline is a point on some clock; what is left of it is the same on all of them.
int64_t SteadyDeadline(gpr_timespec deadline, int64_t now_ns) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return kNoDeadline;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return now_ns + left.tv_sec * 1'000'000'000 + left.tv_nsec;
}

void GrpcCall::OnAccepted(bool ok) {
  if (!ok) {  // shutting down: there was no call
    delete this;
    return;
  }
  if (!queue_.stopping.load()) new GrpcCall(queue_);
  received_ns_ = queue_.clock->NowNs();
  deadline_ns_ = SteadyDeadline(context_.raw_deadline(), received_ns_);
  if (!bytes_.TrySingleSlice(&message_).ok() && !bytes_.DumpToSingleSlice(&message_).ok()) {
    message_ = grpc::Slice();
  }
  bytes_.Clear();
  if (IsCompressedByUnknownEncoding(context_.c_call())) {
    transport_status_ = absl::UnimplementedError(
        "the message is compressed by a grpc-encoding that is none of identity, deflate and gzip");
  }
  queue_.sink->Start(*this);
}

void GrpcCall::OnDone() {
  if (context_.IsCancelled()) queue_.sink->Cancelled(*this);
  Ended();
}

void GrpcCall::Finish(CallResult result) {
  if (result.pushback_ms) {
    context_.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(*result.pushback_ms));
  }
  if (!result.status.ok()) {
    writer_.FinishWithError(ToGrpc(result.status), &finished_);
    return;
  }
  // The bytes move into the slice and live as long as it does.
  auto* body = new std::string(std::move(result.body));
  grpc::Slice slice(
      body->data(), body->size(), [](void* owner) { delete static_cast<std::string*>(owner); },
      body);
  const grpc::ByteBuffer bytes(&slice, 1);
  writer_.Finish(bytes, grpc::Status::OK, &finished_);
}

void Poll(Queue& queue) {
  void* completed = nullptr;
  for (bool ok = false; queue.completions->Next(&completed, &ok);) {
    const Tag& tag = *static_cast<Tag*>(completed);
    switch (tag.kind) {
      case Tag::Kind::kAccepted:
        tag.call->OnAccepted(ok);
        break;
      case Tag::Kind::kDone:
        tag.call->OnDone();
        break;
      case Tag::Kind::kFinished:
        tag.call->OnFinished();
        break;
    }
  }
}

int Milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

void SetLimits(const GrpcOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(options.max_metadata_bytes));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(options.min_ping_interval));
  if (options.max_connection_age.count() > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               Milliseconds(options.max_connection_age));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               Milliseconds(options.max_connection_age_grace));
  }
  // A second server on the same port would take every other connection: an error, not a feature.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(grpc::ResourceQuota("cellbatch").SetMaxThreads(kMaxSyncThreads));
}

}  // namespace

class GrpcTransport::Impl {
 public:
  Impl(const KServeService& kserve, const LatencyService& latency)
      : kserve_(kserve), latency_(latency) {}

  absl::Status Start(const GrpcOptions& options, CallSink& sink, const Clock& clock) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::channelz::experimental::InitChannelzService();
    grpc::ServerBuilder builder;
    SetLimits(options, builder);
    int port = 0;
    builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&kserve_);
    builder.RegisterService(&latency_);
    for (int i = 0; i < options.threads; ++i) {
      queues_.push_back(std::make_unique<Queue>());
      Queue& queue = *queues_.back();
      queue.service = &kserve_;
      queue.sink = &sink;
      queue.clock = &clock;
      queue.index = i;
      queue.completions = builder.AddCompletionQueue();
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          fmt::format("--grpc-address {} cannot be bound: is it in use?", options.address));
    }
    SetServing(false);
    address_ = options.address.substr(0, options.address.rfind(':') + 1) + std::to_string(port);
    for (auto& queue : queues_) {
      for (int i = 0; i < kAcceptsPerQueue; ++i) new GrpcCall(*queue);
      queue->thread = std::thread([&queue = *queue] { Poll(queue); });
    }
    return absl::OkStatus();
  }

  ~Impl() { Shutdown(std::chrono::milliseconds(0)); }

  void SetServing(bool serving) {
    grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
    for (const char* name : kHealthNames) health->SetServingStatus(name, serving);
  }

  void Shutdown(std::chrono::milliseconds grace) {
    if (server_ == nullptr) return;
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

  const std::string& address() const { return address_; }

 private:
  KServeGrpc kserve_;
  CellbatchGrpc latency_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

GrpcTransport::GrpcTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcTransport::~GrpcTransport() = default;

absl::StatusOr<std::unique_ptr<GrpcTransport>> GrpcTransport::Start(const GrpcOptions& options,
                                                                    CallSink& infer,
                                                                    const KServeService& kserve,
                                                                    const LatencyService& latency,
                                                                    const Clock& clock) {
  auto impl = std::make_unique<Impl>(kserve, latency);
  absl::Status status = impl->Start(options, infer, clock);
  if (!status.ok()) return status;
  return std::unique_ptr<GrpcTransport>(new GrpcTransport(std::move(impl)));
}

const std::string& GrpcTransport::address() const { return impl_->address(); }
void GrpcTransport::SetServing(bool serving) { impl_->SetServing(serving); }
void GrpcTransport::Shutdown(std::chrono::milliseconds grace) { impl_->Shutdown(grace); }

}  // namespace cellbatch

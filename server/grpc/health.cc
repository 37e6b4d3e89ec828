#include "server/grpc/health.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "server/requests/admission.h"

namespace cellbatch {

namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

std::string Message(HealthCheckResponse::ServingStatus state) {
  HealthCheckResponse response;
  response.set_status(state);
  return response.SerializeAsString();
}

}  // namespace

Health::Health(std::vector<std::string> services, int64_t max_watches, const WireLimits& limits,
               RefusalCounts* counts)
    : services_(std::move(services)),
      max_watches_(max_watches),
      scanner_(*HealthCheckRequest::descriptor(), limits, {}, counts),
      counts_(counts) {}

Health::State Health::StateOf(const std::string& service) const {
  if (!service.empty() && std::ranges::find(services_, service) == services_.end()) {
    return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

absl::StatusOr<HealthCheckResponse> Health::Check(const HealthCheckRequest& request) const {
  const std::lock_guard lock(mutex_);
  const State state = StateOf(request.service());
  if (state == HealthCheckResponse::SERVICE_UNKNOWN) {
    return absl::NotFoundError("no service of that name is served here");
  }
  HealthCheckResponse response;
  response.set_status(state);
  return response;
}

void Health::Set(bool serving) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(serving_, serving) == serving) return;
  for (const auto& [call, service] : watches_) {
    const State state = StateOf(service);
    // Two bytes a change. Who has not taken thousands of them misses the newest, too.
    if (state != HealthCheckResponse::SERVICE_UNKNOWN) call->Write(Message(state));
  }
}

void Health::Start(ServerCall& call) {
  HealthCheckRequest request;
  CallResult refused;
  refused.status = call.Open();
  if (refused.status.ok()) refused.status = scanner_.Parse(call.request(), request);
  if (refused.status.ok()) {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      refused.status = ShuttingDown();
    } else if (static_cast<int64_t>(watches_.size()) >= max_watches_) {
      counts_->Add(Refused::kStreams);
      refused.status = absl::ResourceExhaustedError(
          fmt::format("{} watches are open (--grpc-max-health-watches)", watches_.size()));
    } else {
      watches_.emplace(&call, request.service());
      call.Write(Message(StateOf(request.service())));
    }
  }
  if (!refused.status.ok()) call.Finish(std::move(refused));
}

void Health::Cancelled(ServerCall& call) {
  {
    const std::lock_guard lock(mutex_);
    if (watches_.erase(&call) == 0) return;  // it has ended
  }
  CallResult result;
  result.status = absl::CancelledError("the client is gone");
  call.Finish(std::move(result));
}

void Health::Stop() {
  std::map<ServerCall*, std::string> ended;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    ended.swap(watches_);
  }
  for (const auto& [call, service] : ended) {
    CallResult result;
    result.status = ShuttingDown();
    call->Finish(std::move(result));
  }
}

}  // namespace cellbatch

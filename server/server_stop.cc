// How a server ends: after a stop, after a start that failed or was given up, and where models are still being read then.
#include <chrono>

#include "server/device_watch.h"
#include "server/server.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

constexpr std::chrono::seconds kCloseGrace{2};
constexpr std::chrono::milliseconds kFarewell{500};
constexpr std::chrono::seconds kRelayGrace{10};  // for slow clients to take what they are owed

// What a stop may take beyond --drain-delay and --drain-timeout: who stops a process must wait for it (deploy/, whose tests count
// the same six seconds). gRPC's port has kCloseGrace to send clients away, and as much for its last calls. TLS (kRelayGrace)
// and traces (two seconds) come on top, all within main.cc's watchdog.
static_assert(kFarewell + kLastAnswers + 2 * kCloseGrace <= std::chrono::seconds(6));

}  // namespace

void Server::GiveUpLoading() {
  const int64_t accepted = admission_.InFlight().requests;
  if (accepted == 0) {
    spdlog::info("stopped while loading: nothing had been accepted");
  } else {
    spdlog::info("stopped while loading: {} requests had been accepted, they are answered first",
                 accepted);
  }
  control_->Refuse();
}

bool Server::WaitForStop(const std::function<void()>& meanwhile) {
  DeviceWatch devices(scheduler_->stats());
  bool computes = true;
  lifecycle_.WaitForStop([&] {
    meanwhile();
    const DeviceNews news = devices.Look();
    if (!news.any_left) {
      spdlog::error("no device is left, the server ends: {}", news.failed);
      computes = false;
      lifecycle_.RequestStop();
    } else if (!news.failed.empty()) {
      spdlog::warn("served on without what has failed: {}", news.failed);
    }
    // Files may come back, a device does not.
    return computes && grpc_->accepting() && (tls_ == nullptr || tls_->accepting());
  });
  return computes;
}

bool Server::Drain() {
  const bool served = lifecycle_.served();
  // A start that failed has said why: where nobody waits for an answer there is no more to say.
  const bool says = served || admission_.InFlight().requests > 0;
  // Where no device is left whoever came meanwhile would get an error.
  const auto delay =
      scheduler_->any_device_left() ? options_.drain_delay : std::chrono::milliseconds(0);
  if (served) spdlog::info("stopping: not ready, serving on for {} ms", delay.count());
  const bool all = lifecycle_.Drain(
      {.delay = delay, .timeout = options_.drain_timeout},
      {.refuse_new =
           [&] {
             grpc_->SendClientsAway(kFarewell);  // nobody who hears it is refused
             admission_.Close();
             control_->Refuse();
             if (says) spdlog::info("draining {} requests", admission_.InFlight().requests);
           },
       .in_flight = [this] { return admission_.InFlight().requests; },
       .answer_the_rest =
           [this] {
             spdlog::warn("{} requests were not done, or not read, in time",
                          admission_.InFlight().requests);
             scheduler_->Stop();
           }});
  // A change that is under way ends, and is answered. A load at the start is nobody's any more, and may have the scheduler
  // pack its weights for long: whoever stops it waits for that.
  if (!control_->loading()) scheduler_->Stop();
  control_->GiveUp();
  if (tls_ != nullptr) tls_->StopAccepting();
  // Both ports at once: who reads of neither holds up the end once.
  const auto closes = std::chrono::steady_clock::now() + kCloseGrace;
  http_->Drain(std::chrono::milliseconds(0));
  grpc_->Shutdown(kCloseGrace);
  http_->Drain(std::chrono::duration_cast<std::chrono::milliseconds>(
      closes - std::chrono::steady_clock::now()));
  if (tls_ != nullptr && !tls_->Drain(kRelayGrace)) {
    spdlog::warn("clients have not taken all that they are owed within {} s", kRelayGrace.count());
  }
  responder_->Stop();
  lifecycle_.Stopped();
  if (says) spdlog::info("stopped");
  return all;
}

// Who waits for a model first; then readers; then callers, while everything they call still stands.
void Server::EndCallers() {
  if (tls_ != nullptr) tls_->StopAccepting();
  if (control_ != nullptr) control_->GiveUp();
  http_.reset();
  metrics_http_.reset();
  grpc_.reset();
  sampler_.reset();
  responder_.reset();
}

void Server::CloseAllButModels() {
  EndCallers();
  if (record_ != nullptr) record_->Close();
  exporter_.reset();
  failures_.Close();
}

Server::~Server() {
  EndCallers();
  if (scheduler_ != nullptr) scheduler_->Stop();
  reloads_.reset();
  policies_.reset();  // which may wait for the scheduler
  control_.reset();   // likewise
  decode_.reset();
  typed_infer_.reset();
  infer_.reset();
  stream_infer_.reset();
  http_infer_.reset();
  path_.reset();
}

}  // namespace cellbatch

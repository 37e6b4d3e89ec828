// The one readiness. ServerReady, ModelReady, HTTP /v2/health/ready and grpc.health.v1 all answer
// from here, so they cannot disagree.
//
//   starting --(every model warm)--> serving --(SIGTERM, or no device is left)--> draining ----> stopped
//       |                                                                           ^
//       +-------------------(SIGTERM, or a start that failed)-----------------------+
//
// draining: not ready at once, but still served for drain_delay, so that load balancers notice
// before anybody is turned away; then new requests get UNAVAILABLE and accepted ones finish, for up
// to drain_timeout; then what is left is answered UNAVAILABLE, which has kLastAnswers to leave. A second request to stop
// skips the delay, a third one the wait. While it starts, models that are warm answer whoever asks, so there is something
// to drain; no load balancer knows of it yet, so there is no delay.
//
// Any thread. Listeners are told under a mutex, in the order of the changes.
#ifndef CELLBATCH_SERVER_LIFECYCLE_H_
#define CELLBATCH_SERVER_LIFECYCLE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace cellbatch {

enum class ServerPhase : uint8_t { kStarting, kServing, kDraining, kStopped };
const char* Name(ServerPhase phase);

struct DrainLimits {
  std::chrono::milliseconds delay{5000};
  std::chrono::milliseconds timeout{30000};
};

// For what is answered UNAVAILABLE to leave. Who reads it needs no more, and has the time in which ports close, too; who does
// not read holds up the end for all of it.
inline constexpr std::chrono::seconds kLastAnswers{1};

// What draining does, step by step; the server wires it to its parts, a test to its own.
struct DrainSteps {
  std::function<void()> refuse_new;       // from now on UNAVAILABLE
  std::function<int64_t()> in_flight;     // accepted and not answered
  std::function<void()> answer_the_rest;  // with UNAVAILABLE
};

class Lifecycle {
 public:
  // `listener` hears at once, and after every change, whether the server is ready.
  void AddListener(std::function<void(bool ready)> listener);

  // starting -> serving. False: a stop was requested before.
  bool Serve();
  // A device set that can compute nothing is not ready, nor is who has no file for a connection, whatever the phase.
  void SetHealthy(bool healthy);
  // SIGTERM, SIGINT, a start that failed, a server without a device. Not ready when it returns: the phase that this ended. Counts.
  ServerPhase RequestStop();

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  ServerPhase phase() const;
  bool served() const;  // it has been kServing: others may have been told so

  // Waits for a stop, and asks `healthy` (if given) now and then meanwhile, which may request it.
  void WaitForStop(const std::function<bool()>& healthy);
  // The drain above; without its delay where nothing was ever served. True: every accepted request was answered before the
  // time was over.
  bool Drain(const DrainLimits& limits, const DrainSteps& steps);
  void Stopped();

 private:
  void Change(const std::function<void()>& change);
  bool WaitUntil(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point end,
                 int stops, const std::function<int64_t()>& in_flight);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ServerPhase phase_ = ServerPhase::kStarting;
  bool healthy_ = true, served_ = false;
  int stops_ = 0;
  std::atomic<bool> ready_ = false;
  std::vector<std::function<void(bool)>> listeners_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LIFECYCLE_H_

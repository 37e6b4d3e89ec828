#include "loadgen/capacity.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "loadgen/priority.h"
#include "loadgen/turns.h"

namespace cellbatch {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Each answer sends the next request, on the thread that brought it.
class ClosedLoop {
 public:
  ClosedLoop(const CapacityOptions& options, const Workload& workload)
      : options_(options),
        workload_(workload),
        in_flight_(workload.MostInFlight(options.in_flight)),
        turns_(workload, in_flight_, options.seed) {}

  absl::Status Start();
  absl::StatusOr<Capacity> Measure(const std::atomic<bool>& stop);

 private:
  void Send(uint64_t turn);
  void Complete(const AsyncCaller::Done& done);
  void Answered(const AsyncCaller::Done& done);
  absl::Status Failure() const;
  // Looks every few milliseconds until `enough` holds; not OK where a request failed meanwhile.
  absl::Status WaitUntil(const std::function<bool()>& enough, const std::atomic<bool>& stop);

  const CapacityOptions& options_;
  const Workload& workload_;
  const int in_flight_;
  Turns turns_;
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> answers_{0};
  std::atomic<uint64_t> ended_{0};  // answered or failed, of sent_
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;
  absl::Status failure_;
  AsyncCaller* sender_ = nullptr;        // for callbacks: valid until caller_ is quite gone
  std::unique_ptr<AsyncCaller> caller_;  // last: its threads end before what they use
};

absl::Status ClosedLoop::Start() {
  AsyncCallerOptions options = options_.caller;
  options.most_in_flight = 2 * in_flight_;
  options.on_thread_start = [] { RaiseThisThread(); };
  auto caller = AsyncCaller::Create(std::move(options),
                                    [this](const AsyncCaller::Done& done) { Complete(done); });
  if (!caller.ok()) {
    return caller.status();
  }
  caller_ = *std::move(caller);
  sender_ = caller_.get();
  for (int i = 0; i < in_flight_; ++i) {
    Send(turns_.First());
  }
  return absl::OkStatus();
}

void ClosedLoop::Send(uint64_t turn) {
  sent_.fetch_add(1, std::memory_order_relaxed);
  sender_->Send(workload_.Request(turns_.PickOf(turn), turn), turn);
}

void ClosedLoop::Complete(const AsyncCaller::Done& done) {
  Answered(done);
  ended_.fetch_add(1, std::memory_order_relaxed);  // last: its successor is counted in sent_ by now
}

void ClosedLoop::Answered(const AsyncCaller::Done& done) {
  if (over_.load(std::memory_order_relaxed)) {
    return;
  }
  if (done.code == absl::StatusCode::kOk) {
    answers_.fetch_add(1, std::memory_order_relaxed);
    Send(turns_.After(done.tag));
    return;
  }
  std::lock_guard lock(mutex_);
  failure_.Update(absl::Status(
      done.code, fmt::format("with {} requests in flight: {}", in_flight_, done.text)));
}

absl::Status ClosedLoop::Failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

absl::Status ClosedLoop::WaitUntil(const std::function<bool()>& enough,
                                   const std::atomic<bool>& stop) {
  while (!enough()) {
    if (absl::Status failure = Failure(); !failure.ok()) {
      return failure;
    }
    if (stop) {
      return absl::CancelledError("stopped");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return absl::OkStatus();
}

absl::StatusOr<Capacity> ClosedLoop::Measure(const std::atomic<bool>& stop) {
  const auto begin = Clock::now();
  const uint64_t turnover = static_cast<uint64_t>(in_flight_);
  const auto warm = [&] {
    return SecondsSince(begin) >= options_.warmup_seconds && answers_ >= turnover;
  };
  if (absl::Status status = WaitUntil(warm, stop); !status.ok()) {
    return status;
  }
  const auto from =
      Clock::now();  // first: no answer counts that came while nobody looked at the clock
  const uint64_t before = answers_;
  // Whole turnovers: answers may come in bursts of all that is in flight, and a phase that ends by the clock alone would
  // hold one burst too few, or none. So when its time is over, it lasts until the turnover that is under way is whole.
  // It ends: every call has a timeout.
  uint64_t enough = 0;
  const auto measured = [&] {
    if (enough == 0) {
      if (SecondsSince(from) < options_.seconds) {
        return false;
      }
      enough = ((answers_ - before) / turnover + 1) * turnover;
    }
    return answers_ - before >= enough;
  };
  if (absl::Status status = WaitUntil(measured, stop); !status.ok()) {
    return status;
  }
  Capacity capacity;
  capacity.answers = answers_ - before;
  capacity.seconds = SecondsSince(from);
  capacity.per_second = static_cast<double>(capacity.answers) / capacity.seconds;
  capacity.in_flight = in_flight_;
  // What is in flight is awaited, not cancelled: the run that follows finds the server idle, and its
  // counts free of failures that were the generator's doing. Every call has a timeout.
  over_ = true;
  const auto drained = [&] { return ended_ == sent_; };
  if (absl::Status status = WaitUntil(drained, stop); !status.ok()) {
    return status;
  }
  caller_.reset();
  return capacity;
}

}  // namespace

absl::StatusOr<Capacity> MeasureCapacity(const CapacityOptions& options, const Workload& workload,
                                         const std::atomic<bool>& stop) {
  ClosedLoop loop(options, workload);
  if (absl::Status status = loop.Start(); !status.ok()) {
    return status;
  }
  return loop.Measure(stop);
}

}  // namespace cellbatch

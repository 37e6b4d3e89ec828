#include "server/requests/responder.h"

#include <array>
#include <utility>

#include "absl/time/time.h"

namespace cellbatch {

namespace {

constexpr int kAtOnce = 64;
constexpr absl::Duration kLongestSleep = absl::Milliseconds(200);

}  // namespace

Responder::Responder(Scheduler& scheduler, RequestPath& path) : scheduler_(scheduler), path_(path) {
  for (int outbox = 0; outbox < path.responders(); ++outbox) {
    threads_.emplace_back([this, outbox] { Loop(outbox); });
  }
}

Responder::~Responder() { Stop(); }

int Responder::Step(Scheduler& scheduler, RequestPath& path, int outbox) {
  std::array<Delivery, kAtOnce> deliveries;
  const int count = scheduler.Take(OutboxId(outbox), absl::MakeSpan(deliveries));
  for (int i = 0; i < count; ++i) {
    path.Deliver(outbox, std::move(deliveries[static_cast<size_t>(i)]));
  }
  return count;
}

void Responder::Loop(int outbox) {
  while (true) {
    const bool last = stop_.load(std::memory_order_acquire);
    if (Step(scheduler_, path_, outbox) > 0) continue;
    if (last) return;
    scheduler_.WaitForFinished(OutboxId(outbox), kLongestSleep);
  }
}

void Responder::Stop() {
  stop_.store(true, std::memory_order_release);
  for (size_t outbox = 0; outbox < threads_.size(); ++outbox) {
    scheduler_.WakeOutbox(OutboxId(static_cast<int32_t>(outbox)));
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace cellbatch

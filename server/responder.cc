#include "server/responder.h"

#include <array>
#include <utility>

#include "absl/time/time.h"

namespace cellbatch {

namespace {

constexpr int kAtOnce = 64;
constexpr absl::Duration kLongestSleep = absl::Milliseconds(200);

}  // namespace

Responder::Responder(Scheduler& scheduler, InferService& service)
    : scheduler_(scheduler), service_(service) {
  for (int outbox = 0; outbox < service.responders(); ++outbox) {
    threads_.emplace_back([this, outbox] { Loop(outbox); });
  }
}

Responder::~Responder() { Stop(); }

int Responder::Step(Scheduler& scheduler, InferService& service, int outbox) {
  std::array<Delivery, kAtOnce> deliveries;
  const int count = scheduler.Take(OutboxId(outbox), absl::MakeSpan(deliveries));
  for (int i = 0; i < count; ++i) {
    Delivery& delivery = deliveries[static_cast<size_t>(i)];
    switch (delivery.kind) {
      case Delivery::Kind::kWords:  // ModelInfer answers once
        break;
      case Delivery::Kind::kDone:
        service.Finished(outbox, std::move(delivery.done));
        break;
    }
  }
  return count;
}

void Responder::Loop(int outbox) {
  while (true) {
    const bool last = stop_.load(std::memory_order_acquire);
    if (Step(scheduler_, service_, outbox) > 0) continue;
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

#include "server/requests/responder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace cellbatch {

namespace {

constexpr int kAtOnce = 64;
constexpr absl::Duration kLongestSleep = absl::Milliseconds(200);

// One of what was taken at once.
struct Leaving {
  AnswerOutlet* outlet;
  int place;
};

using HeldOutlets = absl::InlinedVector<std::unique_ptr<HeldOutlet>, 8>;

// Those of them that more than one leaves through.
HeldOutlets HoldShared(absl::Span<const Leaving> all) {
  std::array<AnswerOutlet*, kAtOnce> outlets;
  size_t count = 0;
  for (const Leaving& next : all) {
    if (next.outlet != nullptr) outlets[count++] = next.outlet;
  }
  std::sort(outlets.begin(), outlets.begin() + count);
  HeldOutlets held;
  for (size_t i = 1; i < count; ++i) {
    if (outlets[i] != outlets[i - 1] || (i > 1 && outlets[i] == outlets[i - 2])) continue;
    held.push_back(std::make_unique<HeldOutlet>(outlets[i]));
  }
  return held;
}

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
  std::array<Leaving, kAtOnce> leaving;
  for (int i = 0; i < count; ++i) {
    const Delivery& delivery = deliveries[static_cast<size_t>(i)];
    leaving[static_cast<size_t>(i)] = {RequestPath::OutletOf(delivery), i};
  }
  const absl::Span<Leaving> all(leaving.data(), static_cast<size_t>(count));
  {
    const HeldOutlets held = HoldShared(all);
    for (const Leaving& next : all) {
      if (next.outlet == nullptr) continue;
      path.Deliver(outbox, std::move(deliveries[static_cast<size_t>(next.place)]));
    }
  }
  for (const Leaving& next : all) {
    if (next.outlet != nullptr) continue;
    path.Deliver(outbox, std::move(deliveries[static_cast<size_t>(next.place)]));
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

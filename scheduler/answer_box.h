// The way out: for each outbox, what there is to tell of its requests, and how its taker waits for it.
//
//   manager:  Put, Put, ... Publish, Ring          taker:  Take ... WaitForFinished (naps, then the bell) ... Take
//
// A taker that found something looks again after short naps, not woken by anyone, before it parks: waking it
// costs the scheduler's thread, and so all who run, 13 us and more.
//
// Threads: Take and WaitForFinished of an outbox by its one taker; Wake by any; the outboxes' other side and
// the bells are the manager's. Take allocates nothing and locks nothing.
#ifndef CELLBATCH_SCHEDULER_ANSWER_BOX_H_
#define CELLBATCH_SCHEDULER_ANSWER_BOX_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scheduler/clock.h"
#include "scheduler/doorbell.h"
#include "scheduler/outbox.h"
#include "scheduler/request.h"
#include "scheduler/request_block.h"
#include "scheduler/request_slots.h"

namespace cellbatch {

class Recorder;

class AnswerBox {
 public:
  // `slots` and `clock` outlive it. `device_health`: the text for a request whose device failed; any thread.
  // `recorder` is told of all who are answered; null: nobody is.
  AnswerBox(int num_outboxes, RequestSlots& slots, const Clock& clock,
            std::function<absl::Status(const Request&)> device_health,
            Recorder* recorder = nullptr);

  int size() const { return static_cast<int>(outboxes_.size()); }

  // As in Scheduler.
  int Take(OutboxId outbox, absl::Span<Delivery> out);
  void WaitForFinished(OutboxId outbox, absl::Duration at_most);
  void Wake(OutboxId outbox);
  // The taker's: how long it would nap now.
  int64_t NapNs(OutboxId outbox) const;

  // The manager's side.
  absl::Span<const std::unique_ptr<Outbox<RequestBlock*>>> outboxes() const { return outboxes_; }
  absl::Span<const std::unique_ptr<Doorbell>> bells() const { return bells_; }

 private:
  void Deliver(RequestBlock& block, Delivery& delivery);
  void Record(const RequestBlock& block, Request& request) const;
  bool DeliverMail(RequestBlock& block, uint8_t mail, Delivery& delivery);

  RequestSlots& slots_;
  const Clock& clock_;
  const std::function<absl::Status(const Request&)> device_health_;
  Recorder* const recorder_;
  std::vector<std::unique_ptr<Outbox<RequestBlock*>>> outboxes_;
  std::vector<std::unique_ptr<Doorbell>> bells_;
  std::vector<std::atomic<bool>> woken_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_ANSWER_BOX_H_

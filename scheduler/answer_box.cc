#include "scheduler/answer_box.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "scheduler/record/recorder.h"
#include "scheduler/scheduler.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

AnswerBox::AnswerBox(int num_outboxes, RequestSlots& slots, const Clock& clock,
                     std::function<absl::Status(const Request&)> device_health, Recorder* recorder)
    : slots_(slots),
      clock_(clock),
      device_health_(std::move(device_health)),
      recorder_(recorder),
      woken_(Index(num_outboxes)) {
  for (int o = 0; o < num_outboxes; ++o) {
    outboxes_.push_back(std::make_unique<Outbox<RequestBlock*>>(Index(slots.count())));
    bells_.push_back(std::make_unique<Doorbell>());
  }
}

int AnswerBox::Take(OutboxId outbox, absl::Span<Delivery> out) {
  Outbox<RequestBlock*>& box = *outboxes_[Index(outbox.value())];
  const size_t ready = box.ready();
  size_t seen = 0, n = 0;
  bool pieces = false;
  const int64_t now = ready > 0 ? clock_.NowNs() : 0;
  while (seen < ready && n < out.size()) {
    RequestBlock& block = *box.entry(seen++);
    Delivery& delivery = out[n];
    // Read before it may be put again: as many entries are untaken as there are requests, never more.
    constexpr uint8_t kTaken = RequestBlock::kInOutbox | RequestBlock::kPieceDone;
    const uint8_t mail =
        block.mails ? block.mail.fetch_and(static_cast<uint8_t>(~kTaken), std::memory_order_acq_rel)
                    : RequestBlock::kAnswered;
    if ((mail & RequestBlock::kAnswered) == 0) {
      if (!DeliverMail(block, mail, delivery)) continue;
      pieces |= delivery.kind == Delivery::Kind::kPiece;
      box.Took(0);  // the next word comes soon
    } else {
      // How long a stream was open says nothing of how long its next word may wait.
      const int64_t took = block.mails ? 0 : now - block.request->times.submitted;
      if (block.first_start_ns != 0) box.Took(std::min(took, kTookPerNap * kMostAnswerNapNs));
      Deliver(block, delivery);
    }
    ++n;
  }
  box.Drop(seen);
  if (n > 0) box.SetNaps(pieces ? 0 : kAnswerNaps);  // the next piece waits for nobody else
  return static_cast<int>(n);
}

// New words, or a piece; false: nothing that was not told before.
bool AnswerBox::DeliverMail(RequestBlock& block, uint8_t mail, Delivery& delivery) {
  delivery.words = block.words.load(std::memory_order_acquire);
  delivery.request = block.request;
  const bool piece = (mail & RequestBlock::kPieceDone) != 0;
  // A word counted after the mail was cleared and before the count was read comes with another entry.
  if (!block.request->run.IsNew(delivery.words) && !piece) return false;
  delivery.kind = piece ? Delivery::Kind::kPiece : Delivery::Kind::kWords;
  if (piece) RecordStops(block, block.request->graph);
  if (const HostCopies& copies = block.request->run.host_copies(); copies.any()) {
    if (piece) {
      copies.Bring(*block.request, block);
    } else {
      copies.BringWords(*block.request, block, delivery.words);
    }
  }
  delivery.done.reset();
  return true;
}

void AnswerBox::Deliver(RequestBlock& block, Delivery& delivery) {
  Request& request = *block.request;
  if (block.outcome != Outcome::kBadGraph) {
    request.status = StatusOf(block.outcome, [&] { return device_health_(request); });
  }
  if (HostCopies& copies = request.run.host_copies(); copies.any()) {
    // Words that were written before it was cancelled, or its device was lost, are told of, too.
    if (block.outcome == Outcome::kOk) {
      copies.Bring(request, block);
    } else if (const int32_t words = block.words.load(std::memory_order_acquire); words > 0) {
      copies.BringWords(request, block, words);
    }
    copies.Free();
  }
  request.times.first_task_start = block.first_start_ns;
  request.times.last_task_end = block.last_end_ns;
  request.nodes_executed = block.nodes_executed;
  request.overrun_nodes = block.overrun_nodes;
  if (recorder_ != nullptr) Record(block, request);
  delivery.kind = Delivery::Kind::kDone;
  delivery.words = block.words.load(std::memory_order_acquire);
  delivery.request = &request;
  const uint32_t slot = block.slot;  // its block may go with it
  delivery.done.reset(&request);
  slots_.Release(slot);
}

// Of one that did not end well, the graph may be ahead of what ran.
void AnswerBox::Record(const RequestBlock& block, Request& request) const {
  if (block.outcome == Outcome::kOk) RecordStops(block, request.graph);
  recorder_->Answered({block.slot, block.generation}, request);
}

int64_t AnswerBox::NapNs(OutboxId outbox) const {
  const int64_t took = outboxes_[Index(outbox.value())]->mean_took_ns();
  return std::clamp(took / kTookPerNap, kLeastAnswerNapNs, kMostAnswerNapNs);
}

void AnswerBox::WaitForFinished(OutboxId outbox, absl::Duration at_most) {
  const size_t o = Index(outbox.value());
  const auto there = [&] { return outboxes_[o]->ready() > 0 || woken_[o].exchange(false); };
  if (there()) return;
  while (outboxes_[o]->TakeNap()) {
    absl::SleepFor(std::min(absl::Nanoseconds(NapNs(outbox)), at_most));
    if (there()) return;
  }
  bells_[o]->Prepare(Doorbell::Sleep::kForAnything);
  if (there()) {
    bells_[o]->Cancel();
    return;
  }
  const int64_t ns = absl::ToInt64Nanoseconds(at_most);
  bells_[o]->Wait(at_most == absl::InfiniteDuration() ? -1 : std::max<int64_t>(ns, 0));
  woken_[o].store(false);
}

void AnswerBox::Wake(OutboxId outbox) {
  woken_[Index(outbox.value())].store(true);
  bells_[Index(outbox.value())]->Ring();
}

}  // namespace cellbatch

#include "scheduler/answer_sink.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

// Puts a request that is told of more than once into its outbox, unless it lies there untaken.
void OutboxSink::Tell(RequestBlock& block, uint8_t what) {
  // Once `mail` says it is answered, its taker may have it: what follows is read before.
  Outbox<RequestBlock*>& outbox = *outboxes_[Index(block.outbox)];
  const uint8_t before =
      block.mail.fetch_or(RequestBlock::kInOutbox | what, std::memory_order_acq_rel);
  if ((before & RequestBlock::kInOutbox) == 0) outbox.Put(&block);
}

void OutboxSink::Answer(RequestBlock& block) {
  if (block.mails) {
    Tell(block, RequestBlock::kAnswered);
  } else {
    outboxes_[Index(block.outbox)]->Put(&block);
  }
}

}  // namespace cellbatch

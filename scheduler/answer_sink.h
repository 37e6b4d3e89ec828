// Where the request processor puts what there is to tell of a request. Called by the manager's thread.
//
//   Tell     of a request that goes on: words of a stream, a piece that is done
//   Answer   the request is answered: from here on it is its taker's, who may free it before this returns.
//            Nobody on this side reads or writes its block again.
#ifndef CELLBATCH_SCHEDULER_ANSWER_SINK_H_
#define CELLBATCH_SCHEDULER_ANSWER_SINK_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "scheduler/outbox.h"
#include "scheduler/request_block.h"

namespace cellbatch {

class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void Tell(RequestBlock& block, uint8_t what) = 0;  // bits of RequestBlock::mail
  virtual void Answer(RequestBlock& block) = 0;
};

// Into the outbox that the request named. A request that is told of more than once lies there at most once.
class OutboxSink final : public AnswerSink {
 public:
  explicit OutboxSink(absl::Span<const std::unique_ptr<Outbox<RequestBlock*>>> outboxes)
      : outboxes_(outboxes) {}
  void Tell(RequestBlock& block, uint8_t what) override;
  void Answer(RequestBlock& block) override;

 private:
  const absl::Span<const std::unique_ptr<Outbox<RequestBlock*>>> outboxes_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_ANSWER_SINK_H_

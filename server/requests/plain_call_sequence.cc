// A call that is a piece of a sequence whose state the server keeps: from its decoded request to the scheduler, when its turn
// has come. It ends as every call does (plain_call.cc), and whose turn it is then goes on from there.
#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "fmt/format.h"
#include "server/requests/plain_call.h"

namespace cellbatch {

namespace {

constexpr std::string_view kBeforeItsTurn = "before its turn in its sequence came";

}  // namespace

absl::Status PlainCall::BecomePiece(const Item& item) {
  if (path_.sequences() == nullptr) {
    return absl::InvalidArgumentError(
        "parameter sequence_id: this server keeps no states (--max-sequences=0); INITIAL_ inputs "
        "and FINAL_ outputs bring and take them");
  }
  if (requests_ != 1) {
    return absl::InvalidArgumentError(fmt::format(
        "parameter sequence_id: the message has {} requests, a piece of a sequence is one",
        requests_));
  }
  const size_t outputs = item.decoded.input().outputs.size();
  piece_ = std::make_unique<Piece>(*this, *item.decoded.sequence(), std::max<size_t>(outputs, 1));
  return absl::OkStatus();
}

void PlainCall::TakeTurn(std::unique_ptr<PlainCall> call) {
  const Access* const access = call->call_.access();
  const SequenceOwner owner = {.model = call->model_->id,
                               .caller = access == nullptr ? std::string_view() : access->name(),
                               .state_bytes = StateBytes(call->model_->signature)};
  const int shard = call->shard_;
  Piece& piece = *call->piece_;
  std::optional<int32_t> pushback;
  PlainCall* const entering =
      call.release();  // if it has to wait, it may be gone when Enter returns
  const auto turn =
      entering->path_.sequences()->Enter(owner, piece, entering->path_.clock().NowNs(), pushback);
  if (!turn.ok()) {
    call.reset(entering);
    if (absl::IsResourceExhausted(turn.status())) {
      call->stats_->RecordRejected(shard, Rejection::kSequences);
    }
    call->result_.pushback_ms = pushback;
    const absl::Status status = OfModel(*call->model_, turn.status());
    RunAll(Refuse(std::move(call), status), shard);
  } else if (*turn == SequenceTable::Turn::kNow) {
    RunAll(&piece, shard);
  }
}

// One after the other, not each inside the one before: thousands may be refused in a row.
void PlainCall::RunAll(Next next, int shard) {
  while (next != nullptr) next = Run(static_cast<Piece&>(*next), shard);
}

PlainCall::Next PlainCall::Run(Piece& piece, int shard) {
  PlainCall& call = piece.call;
  Item& item = *call.first_;
  call.EndWait(shard);
  absl::Status status = call.CheckTime(kBeforeItsTurn);
  if (status.ok() && !piece.may_run().ok()) status = OfModel(*call.model_, piece.may_run());
  if (status.ok()) status = call.AdmitPiece(item);
  if (!status.ok()) return Refuse(std::unique_ptr<PlainCall>(&call), status);
  return call.SubmitAll();
}

void PlainCall::Piece::OnWaits(WaitId id) {
  call.call_.cancel_slot().Wait(id);
  call.path_.ArmDeadline(*call.first_, id);
}

void PlainCall::Piece::OnWithdrawn(int shard) {
  PlainCall& of = call;
  of.EndWait(shard);
  // It is in no sequence any more, so nobody's turn comes by it.
  static_cast<void>(Refuse(std::unique_ptr<PlainCall>(&of), of.CheckTime(kBeforeItsTurn)));
}

void PlainCall::EndWait(int shard) {
  shard_ = first_->shard = shard;
  path_.DisarmDeadline(*first_);
}

absl::Status PlainCall::AdmitPiece(Item& item) {
  item.decoded.BeginFrom(piece_->state(), *model_);
  absl::Status status;
  std::optional<int32_t> pushback;
  switch (AdmitItem(0, item, status, pushback)) {
    case Step::kAdmitted:
      ++num_items_;
      return absl::OkStatus();
    case Step::kWrong:
      result_.pushback_ms = pushback;
      return status;
    case Step::kFull:
      return result_.status;
  }
  NoSuchEnumerator();
}

}  // namespace cellbatch

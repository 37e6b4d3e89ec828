#include "server/requests/sequences.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// More than can be new, so that what is idle too long never heaps up.
constexpr int kDropsAtOnce = 2;

std::string Times(double ns) {
  return ns < 1e9 ? fmt::format("{:g} ms", ns / 1e6) : fmt::format("{:g} s", ns / 1e9);
}

absl::Status AfterOneThatFailed(const SequencePiece& piece) {
  return absl::AbortedError(
      fmt::format("sequence {}: a piece before this one failed, so its state is the one from "
                  "before that piece; send "
                  "them again in their order",
                  piece.shown));
}

}  // namespace

absl::StatusOr<SequenceTable::Turn> SequenceTable::Enter(const SequenceOwner& owner, Place& place,
                                                         int64_t now_ns,
                                                         std::optional<int32_t>& pushback_ms) {
  Key key(owner.model.value(), fmt::format("{}\n{}", owner.caller, place.piece().id));
  const std::lock_guard lock(mutex_);
  DropTimedOut(now_ns);
  auto found = table_.find(key);
  if (found != table_.end() && TimedOut(*found->second, now_ns)) {
    Drop(*found->second, counts_.timed_out);
    found = table_.end();
  }
  if (found == table_.end()) {
    if (!place.piece().start) return NotThere(place.piece());
    if (absl::Status full = CheckRoom(owner.state_bytes, now_ns, pushback_ms); !full.ok()) {
      return full;
    }
    auto made = std::make_unique<Sequence>();
    made->key = key;
    made->bytes = owner.state_bytes;
    made->idle = idle_.end();
    counts_.bytes += made->bytes;
    found = table_.emplace(std::move(key), std::move(made)).first;
  }
  Sequence& sequence = *found->second;
  place.sequence_ = &sequence;
  if (sequence.running != nullptr) {
    Wait(sequence, place);
    return Turn::kLater;
  }
  if (sequence.idle != idle_.end()) idle_.erase(std::exchange(sequence.idle, idle_.end()));
  if (place.piece().start) Start(sequence);
  Run(sequence, place);
  return Turn::kNow;
}

void SequenceTable::Wait(Sequence& sequence, Place& place) {
  const auto turn = sequence.line.insert(sequence.line.end(), {&place, place.piece().start});
  place.wait_ = WaitId{++last_wait_.value};
  waiting_.emplace(place.wait_.value, turn);
  place.OnWaits(place.wait_);
}

void SequenceTable::Start(Sequence& sequence) {
  sequence.state.reset();
  if (std::exchange(sequence.live, true)) return;
  ++counts_.live;
  ++counts_.started;
}

void SequenceTable::Run(Sequence& sequence, Place& place) {
  sequence.running = &place;
  place.state_ = sequence.state;
}

SequenceTable::Place* SequenceTable::Leave(Place& place, std::shared_ptr<const SequenceState> left,
                                           int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Sequence& sequence = *place.sequence_;
  Check(sequence.running == &place, "a piece leaves whose turn it is not");
  absl::Status failed;
  if (left == nullptr) {
    failed = place.may_run_.ok() ? AfterOneThatFailed(place.piece()) : place.may_run_;
  } else {
    const bool end = place.piece().end;
    sequence.state = end ? nullptr : std::move(left);
    if (end) Cease(sequence, counts_.ended);
  }
  if (Place* const next = Next(sequence, std::move(failed))) return next;
  sequence.running = nullptr;
  if (sequence.state == nullptr) {
    Drop(sequence, counts_.dropped);
  } else {
    sequence.idle_since_ns = now_ns;
    sequence.idle = idle_.insert(idle_.end(), &sequence);
  }
  return nullptr;
}

// Whose turn it is behind one that has left. `failed`: what it leaves those to be told that wait; OK: it has not failed.
SequenceTable::Place* SequenceTable::Next(Sequence& sequence, absl::Status failed) {
  const SequencePiece& left = sequence.running->piece();
  while (!sequence.line.empty()) {
    const auto [place, start] = sequence.line.front();
    sequence.line.pop_front();
    if (start) {
      failed = absl::OkStatus();
      Start(sequence);
    } else if (failed.ok() && sequence.state == nullptr) {
      failed = NotThere(left);
    }
    if (place != nullptr) {
      waiting_.erase(place->wait_.value);
      place->may_run_ = std::move(failed);
      Run(sequence, *place);
      return place;
    }
    if (failed.ok()) failed = AfterOneThatFailed(left);
  }
  return nullptr;
}

SequenceTable::Place* SequenceTable::Withdraw(WaitId id) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(id.value);
  if (found == waiting_.end()) return nullptr;
  const Line::iterator turn = found->second;
  waiting_.erase(found);
  Place* const place = turn->place;
  turn->place = nullptr;
  // Several that stand together fail as one, so that the line is never much longer than those who wait in it.
  Line& line = std::exchange(place->sequence_, nullptr)->line;
  if (const auto behind = std::next(turn); behind != line.end() && behind->place == nullptr) {
    turn->start |= behind->start;
    line.erase(behind);
  }
  if (turn != line.begin() && std::prev(turn)->place == nullptr) {
    std::prev(turn)->start |= turn->start;
    line.erase(turn);
  }
  return place;
}

void SequenceTable::Gone(ModelId model) {
  const std::lock_guard lock(mutex_);
  std::vector<Sequence*> of_it;
  for (const auto& [key, sequence] : table_) {
    if (key.first == model.value()) of_it.push_back(sequence.get());
  }
  for (Sequence* const sequence : of_it) {
    Check(sequence->running == nullptr, "a model is gone while a piece of its sequences runs");
    Drop(*sequence, counts_.dropped);
  }
}

SequenceTable::Counts SequenceTable::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool SequenceTable::TimedOut(const Sequence& sequence, int64_t now_ns) const {
  return sequence.running == nullptr && now_ns - sequence.idle_since_ns > limits_.idle_ns;
}

void SequenceTable::DropTimedOut(int64_t now_ns) {
  for (int i = 0; i < kDropsAtOnce && !idle_.empty() && TimedOut(*idle_.front(), now_ns); ++i) {
    Drop(*idle_.front(), counts_.timed_out);
  }
}

void SequenceTable::Cease(Sequence& sequence, int64_t& counted_as) {
  if (!std::exchange(sequence.live, false)) return;
  --counts_.live;
  ++counted_as;
}

void SequenceTable::Drop(Sequence& sequence, int64_t& counted_as) {
  Cease(sequence, counted_as);
  if (sequence.idle != idle_.end()) idle_.erase(sequence.idle);
  counts_.bytes -= sequence.bytes;
  table_.erase(table_.find(sequence.key));
}

absl::Status SequenceTable::CheckRoom(int64_t bytes, int64_t now_ns,
                                      std::optional<int32_t>& pushback_ms) {
  const auto too_many = [&] { return counts_.live + 1 > limits_.sequences; };
  const auto has_room = [&] { return !too_many() && counts_.bytes + bytes <= limits_.bytes; };
  const bool may_fit = bytes <= limits_.bytes;
  // A large state takes the room of many small ones: as many as it needs go, of those that are idle too long.
  while (may_fit && !has_room() && !idle_.empty() && TimedOut(*idle_.front(), now_ns)) {
    Drop(*idle_.front(), counts_.timed_out);
  }
  if (has_room()) return absl::OkStatus();
  // Nobody can say when a sequence ends; the one that is idle longest may time out.
  const int64_t out_ns =
      idle_.empty() ? limits_.idle_ns : idle_.front()->idle_since_ns + limits_.idle_ns - now_ns;
  pushback_ms = may_fit ? hint_.Spread(out_ns / kNsPerMs) : -1;
  return absl::ResourceExhaustedError(
      too_many() ? fmt::format("{} sequences are live, the most are {} (--max-sequences)",
                               counts_.live, limits_.sequences)
                 : fmt::format(
                       "states of sequences have {} bytes, this one would have {}, the most are {} "
                       "(--max-sequence-bytes)",
                       counts_.bytes, bytes, limits_.bytes));
}

absl::Status SequenceTable::NotThere(const SequencePiece& piece) const {
  return absl::InvalidArgumentError(fmt::format(
      "sequence {} has no state here: it was not started, its start failed, it has ended, was idle "
      "for more than {} (--sequence-idle), or its model was loaded anew; start it with "
      "sequence_start",
      piece.shown, Times(static_cast<double>(limits_.idle_ns))));
}

}  // namespace cellbatch

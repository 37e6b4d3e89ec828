// Sequences whose state the server keeps between their pieces: Triton's sequence_id, sequence_start, sequence_end. Who may
// run now, what it begins from, and how long what it leaves is kept. Knows no call and no scheduler.
//
//   piece 1 (start)  Enter: kNow                  ... runs ...  Leave(its state) --+
//   piece 2              Enter: kLater, behind it                                  +-> its turn, from that state ... Leave --+
//   piece 3 (end)            Enter: kLater, behind that                                                                      +-> ...
//   piece 4                      Enter: kLater ... Withdraw: it need not wait to be given up
//
// Pieces of one sequence run one after the other, in the order in which they entered; sequences know nothing of each other. A
// piece that fails leaves the state as it was before it, and fails those that wait behind it, up to the next start: they were
// meant for a state that never came. So a client that waits for its answers can send a piece that failed again. One that is
// withdrawn while it waits is one that fails, once its turn would have come: until then it stands in line with nobody in it.
//
//   idle   a sequence with no piece under way that nobody has asked of for `idle_ns` is gone. Nobody sweeps: whoever enters
//          looks at the two that are idle longest, or at as many as stand in a new one's way, so no call waits for a crowd.
//   reset  a start on a live sequence: what it was is dropped when its turn comes, behind what was sent before it, also if
//          that start then fails: nobody is to go on from what came before it
//   gone   a model that is loaded anew is another model; states of the old one are dropped with it
//
// Any thread; one mutex, for as long as a look-up in a hash table. What lies here is bounded by SequenceLimits.
#ifndef CELLBATCH_SERVER_REQUESTS_SEQUENCES_H_
#define CELLBATCH_SERVER_REQUESTS_SEQUENCES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/model.h"
#include "server/requests/retry_hint.h"
#include "server/requests/sequence_state.h"
#include "server/requests/wait_id.h"

namespace cellbatch {

struct SequenceLimits {
  int64_t sequences = 0;  // live ones; 0: none is kept
  int64_t bytes = 0;      // of their states
  int64_t idle_ns = 0;
};

// What a request says of the sequence that it is a piece of.
struct SequencePiece {
  std::string id;     // one text for each id: "#7" the number, "=7" the text
  std::string shown;  // to its client
  bool start = false, end = false;
};

// Whose sequences: ids are its own.
struct SequenceOwner {
  ModelId model;
  std::string_view caller;  // of --tokens; empty: nobody in particular
  int64_t state_bytes = 0;  // of that model
};

class SequenceTable {
 private:
  struct Sequence;

 public:
  // A piece in its sequence, from Enter until it leaves or is withdrawn. Lies with the request.
  class Place {
   public:
    explicit Place(SequencePiece piece) : piece_(std::move(piece)) {}
    virtual ~Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    const SequencePiece& piece() const { return piece_; }
    bool entered() const { return sequence_ != nullptr; }
    // From when its turn has come: what it begins from (null: nothing was left before it), and whether it may run.
    const SequenceState* state() const { return state_.get(); }
    const absl::Status& may_run() const { return may_run_; }

    // It will wait, and from now until its turn has come Withdraw finds it by that name. Inside Enter, with the table's mutex:
    // before anybody else can have it.
    virtual void OnWaits(WaitId) {}
    // Of whoever has withdrawn it, and has it now: it ends here. May write that shard.
    virtual void OnWithdrawn(int /*shard*/) {}

   private:
    friend class SequenceTable;
    const SequencePiece piece_;
    std::shared_ptr<const SequenceState> state_;
    absl::Status may_run_;
    Sequence* sequence_ = nullptr;
    WaitId wait_;
  };

  enum class Turn : uint8_t { kNow, kLater };

  explicit SequenceTable(const SequenceLimits& limits) : limits_(limits) {}
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;

  // kLater: some Leave will return it; it may have done so already. INVALID_ARGUMENT: the sequence is not there, and the piece
  // does not start it. RESOURCE_EXHAUSTED: it would be one too many; `pushback_ms`: when there may be room.
  absl::StatusOr<Turn> Enter(const SequenceOwner& owner, Place& place, int64_t now_ns,
                             std::optional<int32_t>& pushback_ms);
  // Of whose turn it is, once: it is through. `left`: what the next piece begins from; null: it failed. Returns whose turn it is
  // now; null: nobody waits. May_run of that one says how that came.
  Place* Leave(Place& place, std::shared_ptr<const SequenceState> left, int64_t now_ns);
  // It does not wait any more, and is the caller's; null: its turn has come, or it has gone. Any number of times.
  Place* Withdraw(WaitId id);
  // No request of that model is under way, and none will be.
  void Gone(ModelId model);

  struct Counts {
    int64_t live = 0, bytes = 0;  // now
    // So far. A start on a live one is not counted; what is live was started, and is none of the others.
    int64_t started = 0, ended = 0, timed_out = 0;
    int64_t dropped = 0;  // its start failed, or its model is gone
  };
  Counts counts() const;

 private:
  using Key = std::pair<int32_t, std::string>;  // the model, and whose id it is
  using Idle = std::list<Sequence*>;            // idle longest first
  struct InLine {
    Place* place;  // null: who stood here is withdrawn
    bool start;
  };
  using Line = std::list<InLine>;
  struct Sequence {
    Key key;
    int64_t bytes = 0;  // reserved for its state
    bool live = false;  // it was started and has not ended; else pieces wait here to be refused
    std::shared_ptr<const SequenceState> state;
    Place* running = nullptr;
    Line line;  // behind it
    int64_t idle_since_ns = 0;
    Idle::iterator idle;  // if nothing is running
  };
  using Table = absl::flat_hash_map<Key, std::unique_ptr<Sequence>>;
  using Waiting = absl::flat_hash_map<uint64_t, Line::iterator>;

  bool TimedOut(const Sequence& sequence, int64_t now_ns) const;
  void DropTimedOut(int64_t now_ns);
  void Cease(Sequence& sequence, int64_t& counted_as);
  void Drop(Sequence& sequence, int64_t& counted_as);
  absl::Status CheckRoom(int64_t bytes, int64_t now_ns, std::optional<int32_t>& pushback_ms);
  absl::Status NotThere(const SequencePiece& piece) const;
  void Wait(Sequence& sequence, Place& place);
  void Start(Sequence& sequence);
  Place* Next(Sequence& sequence, absl::Status failed);
  void Run(Sequence& sequence, Place& place);

  const SequenceLimits limits_;
  mutable std::mutex mutex_;
  Table table_;
  Idle idle_;
  Waiting waiting_;
  WaitId last_wait_;
  Counts counts_;
  RetryHint hint_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_SEQUENCES_H_

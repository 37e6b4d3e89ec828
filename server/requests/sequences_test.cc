#include "server/requests/sequences.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace cellbatch {
namespace {

using testing::HasSubstr;
using Place = SequenceTable::Place;
using Turn = SequenceTable::Turn;

constexpr int64_t kIdle = 1000;

std::shared_ptr<const SequenceState> State(float value) {
  auto state = std::make_shared<SequenceState>();
  state->tensors = {{value}};
  return state;
}

// Zeros: -1.
float ValueOf(const SequenceState* state) {
  return state == nullptr ? -1 : state->tensors.at(0).at(0);
}

SequencePiece Piece(int id, bool start = false, bool end = false) {
  const std::string text = std::to_string(id);
  return {.id = "#" + text, .shown = text, .start = start, .end = end};
}

// One that knows the name that it waits by.
struct Named final : Place {
  using Place::Place;
  void OnWaits(WaitId id) override { waits = id; }
  WaitId waits;
};

class SequencesTest : public testing::Test {
 protected:
  Named& New(int id, bool start = false, bool end = false) {
    return places_.emplace_back(Piece(id, start, end));
  }
  absl::StatusOr<Turn> Enter(Place& place) { return EnterOf(place, owner_); }
  absl::StatusOr<Turn> EnterOf(Place& place, const SequenceOwner& owner) {
    pushback_.reset();
    return table_.Enter(owner, place, now_, pushback_);
  }
  // What it begins from.
  float Starts(int id) {
    Place& place = New(id, true);
    EXPECT_EQ(*Enter(place), Turn::kNow);
    const float begins = ValueOf(place.state());
    EXPECT_EQ(table_.Leave(place, State(static_cast<float>(id)), now_), nullptr);
    return begins;
  }
  float GoesOn(int id, bool end = false) {
    Place& place = New(id, false, end);
    EXPECT_EQ(*Enter(place), Turn::kNow);
    const float begins = ValueOf(place.state());
    EXPECT_EQ(table_.Leave(place, State(begins + 1), now_), nullptr);
    return begins;
  }
  std::string Error(int id, bool start = false) {
    return std::string(Enter(New(id, start)).status().message());
  }

  SequenceTable table_{{.sequences = 3, .bytes = 40, .idle_ns = kIdle}};
  SequenceOwner owner_ = {.model = ModelId(1), .caller = "", .state_bytes = 4};
  std::deque<Named> places_;
  int64_t now_ = 5000;
  std::optional<int32_t> pushback_;
};

TEST_F(SequencesTest, APieceBeginsFromWhatTheOneBeforeItLeft) {
  EXPECT_EQ(Starts(7), -1);
  EXPECT_EQ(Starts(8), -1);
  EXPECT_EQ(GoesOn(7), 7);
  EXPECT_EQ(GoesOn(8), 8);
  EXPECT_EQ(GoesOn(7, /*end=*/true), 8);
  EXPECT_THAT(Error(7), HasSubstr("sequence 7 has no state here"));
  EXPECT_THAT(Error(7), HasSubstr("start it with sequence_start"));
  EXPECT_THAT(Error(9), HasSubstr("sequence 9 has no state here"));
  EXPECT_EQ(GoesOn(8), 9);
  EXPECT_EQ(Starts(8), -1) << "a start on a live one begins anew";
  EXPECT_EQ(GoesOn(8), 8);
  const SequenceTable::Counts counts = table_.counts();
  EXPECT_EQ(counts.live, 1);
  EXPECT_EQ(counts.bytes, 4);
  EXPECT_EQ(counts.started, 2);
  EXPECT_EQ(counts.ended, 1);
}

TEST_F(SequencesTest, WhatComesEarlyWaitsInItsOrder) {
  Place &a = New(1, true), &b = New(1), &c = New(1, true), &d = New(1, false, true), &e = New(1);
  EXPECT_EQ(*Enter(a), Turn::kNow);
  for (Place* const place : {&b, &c, &d, &e}) EXPECT_EQ(*Enter(*place), Turn::kLater);
  EXPECT_EQ(Starts(2), -1) << "another sequence";
  EXPECT_EQ(table_.Leave(a, State(10), now_), &b);
  EXPECT_EQ(ValueOf(b.state()), 10);
  EXPECT_EQ(table_.Leave(b, State(11), now_), &c);
  EXPECT_EQ(ValueOf(c.state()), -1) << "it starts";
  EXPECT_EQ(table_.Leave(c, State(12), now_), &d);
  EXPECT_EQ(ValueOf(d.state()), 12);
  EXPECT_EQ(table_.Leave(d, State(13), now_), &e);
  EXPECT_EQ(e.may_run().code(), absl::StatusCode::kInvalidArgument) << "the one before it ended";
  EXPECT_EQ(table_.Leave(e, nullptr, now_), nullptr);
  EXPECT_EQ(table_.counts().live, 1);
}

TEST_F(SequencesTest, APieceThatFailsLeavesTheStateAndFailsThoseThatWaitBehindIt) {
  Starts(1);
  Place &a = New(1), &b = New(1), &c = New(1), &d = New(1, true), &e = New(1);
  EXPECT_EQ(*Enter(a), Turn::kNow);
  for (Place* const place : {&b, &c}) EXPECT_EQ(*Enter(*place), Turn::kLater);
  EXPECT_EQ(table_.Leave(a, nullptr, now_), &b);
  EXPECT_EQ(b.may_run().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(b.may_run().message()),
              HasSubstr("sequence 1: a piece before this one failed"));
  EXPECT_EQ(table_.Leave(b, nullptr, now_), &c);
  EXPECT_EQ(c.may_run(), b.may_run());
  for (Place* const place : {&d, &e}) EXPECT_EQ(*Enter(*place), Turn::kLater);
  EXPECT_EQ(table_.Leave(c, nullptr, now_), &d);
  EXPECT_TRUE(d.may_run().ok()) << "a start needs nothing of what was before";
  EXPECT_EQ(table_.Leave(d, State(20), now_), &e);
  EXPECT_TRUE(e.may_run().ok());
  EXPECT_EQ(ValueOf(e.state()), 20);
  EXPECT_EQ(table_.Leave(e, nullptr, now_), nullptr);
  EXPECT_EQ(GoesOn(1), 20) << "as it was before the piece that failed";
}

TEST_F(SequencesTest, OneThatIsWithdrawnHasFailedWhenItsTurnWouldHaveCome) {
  Starts(1);
  Named &a = New(1), &b = New(1), &c = New(1), &d = New(1), &e = New(1, true), &f = New(1);
  EXPECT_EQ(*Enter(a), Turn::kNow);
  for (Place* const place : {&b, &c, &d, &e, &f}) EXPECT_EQ(*Enter(*place), Turn::kLater);
  EXPECT_EQ(table_.Withdraw(c.waits), &c);
  EXPECT_FALSE(c.entered()) << "it has nothing to leave";
  EXPECT_EQ(table_.Withdraw(c.waits), nullptr) << "once";
  EXPECT_EQ(table_.Leave(a, State(10), now_), &b);
  EXPECT_TRUE(b.may_run().ok()) << "it stands before the one that is gone";
  EXPECT_EQ(table_.Withdraw(b.waits), nullptr) << "its turn has come";
  EXPECT_EQ(table_.Leave(b, State(11), now_), &d);
  EXPECT_EQ(d.may_run().code(), absl::StatusCode::kAborted) << "it stands behind it";
  EXPECT_EQ(table_.Withdraw(e.waits), &e);
  EXPECT_EQ(table_.Leave(d, nullptr, now_), &f);
  EXPECT_EQ(f.may_run().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(f.state(), nullptr);
  EXPECT_EQ(table_.Leave(f, nullptr, now_), nullptr);
  EXPECT_THAT(Error(1), HasSubstr("has no state here")) << "a start that failed leaves nothing";
  EXPECT_EQ(table_.counts().live, 0);
  EXPECT_EQ(table_.counts().bytes, 0);
}

TEST_F(SequencesTest, WhoIsWithdrawnBehindAllOthersStandsInNobodysWay) {
  Starts(1);
  Named &a = New(1), &b = New(1), &c = New(1);
  EXPECT_EQ(*Enter(a), Turn::kNow);
  for (Named* const place : {&b, &c}) {
    EXPECT_EQ(*Enter(*place), Turn::kLater);
    EXPECT_EQ(table_.Withdraw(place->waits), place);
  }
  EXPECT_EQ(table_.Leave(a, State(10), now_), nullptr);
  EXPECT_EQ(GoesOn(1), 10);
}

TEST_F(SequencesTest, AStartThatFailsLeavesNothing) {
  Place& first = New(1, true);
  EXPECT_EQ(*Enter(first), Turn::kNow);
  EXPECT_EQ(table_.counts().live, 1);
  EXPECT_EQ(table_.Leave(first, nullptr, now_), nullptr);
  EXPECT_EQ(table_.counts().live, 0);
  Starts(1);
  Place &again = New(1, true), &behind = New(1);
  EXPECT_EQ(*Enter(again), Turn::kNow);
  EXPECT_EQ(*Enter(behind), Turn::kLater);
  EXPECT_EQ(table_.Leave(again, nullptr, now_), &behind);
  EXPECT_EQ(behind.may_run().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table_.Leave(behind, nullptr, now_), nullptr);
  EXPECT_THAT(Error(1), HasSubstr("has no state here")) << "what it was is not gone on with";
  EXPECT_EQ(table_.counts().live, 0);
  EXPECT_EQ(table_.counts().bytes, 0);
  EXPECT_EQ(table_.counts().dropped, 2);
}

TEST_F(SequencesTest, WhatIsIdleTooLongIsGoneAndNobodySweeps) {
  for (const int id : {1, 2, 3}) Starts(id);
  now_ += kIdle;
  EXPECT_EQ(GoesOn(3), 3) << "not longer than it may be";
  EXPECT_EQ(table_.counts().live, 3);
  now_ += 1;
  EXPECT_THAT(Error(1), HasSubstr("idle for more than 0.001 ms (--sequence-idle)"));
  EXPECT_EQ(table_.counts().live, 1) << "two that were idle longest, whoever asks";
  EXPECT_EQ(table_.counts().timed_out, 2);
  EXPECT_EQ(GoesOn(3), 4);
  now_ += 2 * kIdle;
  Place& running = New(4, true);
  EXPECT_EQ(*Enter(running), Turn::kNow);
  now_ += 2 * kIdle;
  EXPECT_THAT(Error(5), HasSubstr("no state"));
  EXPECT_EQ(table_.counts().live, 1) << "one that runs is not idle";
  EXPECT_EQ(table_.Leave(running, State(4), now_), nullptr);
  EXPECT_EQ(GoesOn(4), 4);
  EXPECT_EQ(GoesOn(4, /*end=*/true), 5);
  for (const int id : {1, 2, 3}) Starts(id);
  now_ += kIdle + 1;
  EXPECT_THAT(Error(3), HasSubstr("no state")) << "though it is not among the two that go first";
}

TEST_F(SequencesTest, OneTooManyIsRefusedAndRoomIsMadeByEndsAndByTime) {
  for (const int id : {1, 2, 3}) Starts(id);
  Place& fourth = New(4, true);
  const absl::Status full = Enter(fourth).status();
  EXPECT_EQ(full,
            absl::ResourceExhaustedError("3 sequences are live, the most are 3 (--max-sequences)"));
  EXPECT_GT(pushback_.value_or(-1), 0);
  EXPECT_EQ(Starts(2), -1) << "live ones may begin anew";
  EXPECT_EQ(GoesOn(1, /*end=*/true), 1);
  EXPECT_EQ(Starts(4), -1);
  EXPECT_EQ(Enter(New(5, true)).status().code(), absl::StatusCode::kResourceExhausted);
  now_ += kIdle + 1;
  EXPECT_EQ(Starts(5), -1);
  owner_.state_bytes = 37;
  EXPECT_EQ(Error(6, true),
            "states of sequences have 4 bytes, this one would have 37, the most are 40 "
            "(--max-sequence-bytes)");
  EXPECT_GT(pushback_.value_or(-1), 0);
  owner_.state_bytes = 41;
  Error(6, true);
  EXPECT_EQ(pushback_, -1) << "it can never fit";
}

// Every call clears two away; a large state needs the room of nine.
TEST_F(SequencesTest, WhatIsIdleTooLongTakesNobodysRoom) {
  SequenceTable table({.sequences = 12, .bytes = 40, .idle_ns = kIdle});
  const auto enter = [&](int id, int64_t bytes) {
    Place& place = New(id, true);
    const auto turn = table.Enter({ModelId(1), "", bytes}, place, now_, pushback_);
    if (turn.ok()) table.Leave(place, State(0), now_);
    return turn.status();
  };
  for (int id = 0; id < 9; ++id) EXPECT_EQ(enter(id, 4), absl::OkStatus());
  now_ += kIdle;
  EXPECT_EQ(enter(9, 4), absl::OkStatus());
  now_ += 1;
  EXPECT_EQ(enter(10, 37), absl::ResourceExhaustedError(
                               "states of sequences have 4 bytes, this one would have 37, the most "
                               "are 40 (--max-sequence-bytes)"));
  EXPECT_EQ(enter(10, 36), absl::OkStatus());
  EXPECT_EQ(table.counts().timed_out, 9);
  EXPECT_EQ(table.counts().bytes, 40);
}

TEST_F(SequencesTest, AStateThatFitsNowhereClearsNoMoreAwayThanAnyCall) {
  SequenceTable table({.sequences = 12, .bytes = 40, .idle_ns = kIdle});
  for (int id = 0; id < 9; ++id) {
    Place& place = New(id, true);
    ASSERT_EQ(*table.Enter({ModelId(1), "", 4}, place, now_, pushback_), Turn::kNow);
    table.Leave(place, State(0), now_);
  }
  now_ += kIdle + 1;
  EXPECT_EQ(table.Enter({ModelId(1), "", 41}, New(9, true), now_, pushback_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pushback_, -1);
  EXPECT_EQ(table.counts().timed_out, 2);
}

TEST_F(SequencesTest, StatesMayFillTheirBytesToTheLast) {
  owner_.state_bytes = 36;
  EXPECT_EQ(Starts(1), -1);
  owner_.state_bytes = 4;
  EXPECT_EQ(Starts(2), -1);
  EXPECT_EQ(table_.counts().bytes, 40);
  owner_.state_bytes = 1;
  EXPECT_THAT(Error(3, true), HasSubstr("states of sequences have 40 bytes"));
}

// Half to one and a half times as long, as all hints are.
TEST(SequencesHintTest, OneTooManyIsToldToComeBackWhenTheOneThatIsIdleLongestMayBeGone) {
  constexpr int64_t kMs = 1'000'000;
  SequenceTable table({.sequences = 1, .bytes = 100, .idle_ns = 4000 * kMs});
  const SequenceOwner owner = {.model = ModelId(1), .caller = "", .state_bytes = 4};
  Place first(Piece(1, true)), second(Piece(2, true));
  const auto hint = [&](int64_t now_ns) {
    std::optional<int32_t> pushback;
    EXPECT_FALSE(table.Enter(owner, second, now_ns, pushback).ok());
    return pushback.value_or(-1);
  };
  std::optional<int32_t> none;
  ASSERT_EQ(*table.Enter(owner, first, 0, none), Turn::kNow);
  EXPECT_GE(hint(3000 * kMs), 2000) << "it runs: nobody knows, and its state may lie for so long";
  ASSERT_EQ(table.Leave(first, State(1), 3000 * kMs), nullptr);
  EXPECT_GE(hint(3000 * kMs), 2000);
  const int32_t soon = hint(6900 * kMs);
  EXPECT_GE(soon, 50);
  EXPECT_LE(soon, 150);
}

TEST_F(SequencesTest, ModelsAndCallersHaveSequencesOfTheirOwn) {
  Starts(1);
  SequenceOwner other_caller = owner_, other_model = owner_;
  other_caller.caller = "b";
  other_model.model = ModelId(2);
  for (const SequenceOwner& other : {other_caller, other_model}) {
    EXPECT_EQ(EnterOf(New(1), other).status().code(), absl::StatusCode::kInvalidArgument);
    Place& first = New(1, true);
    EXPECT_EQ(*EnterOf(first, other), Turn::kNow);
    EXPECT_EQ(table_.Leave(first, State(50), now_), nullptr);
  }
  EXPECT_EQ(GoesOn(1), 1);
  EXPECT_EQ(table_.counts().live, 3);
  table_.Gone(ModelId(1));
  EXPECT_EQ(table_.counts().live, 1);
  EXPECT_EQ(table_.counts().bytes, 4);
  EXPECT_THAT(Error(1), HasSubstr("its model was loaded anew"));
  Place& there = New(1);
  EXPECT_EQ(*EnterOf(there, other_model), Turn::kNow);
  EXPECT_EQ(ValueOf(there.state()), 50);
  EXPECT_EQ(table_.Leave(there, State(1), now_), nullptr);
}

// The definition, of one sequence: all that ever entered, in order, and what became of each.
struct Line {
  struct Entry {
    Named* place;
    float begins = -1;
    bool runs = true;  // may run
    bool gone = false;
  };
  std::vector<Entry> waiting;  // the first one has its turn
  bool there = false;
  float state = -1;

  void Enter(Named& place) {
    waiting.push_back({&place});
    if (waiting.size() == 1) Turn(true);
  }
  void Turn(bool may_run) {
    Entry& first = waiting.front();
    const bool start = first.place->piece().start;
    if (start) there = false;
    first.runs = start || may_run;
    first.begins = there ? state : -1;
    if (first.gone) Leave(std::nullopt);
  }
  void Leave(std::optional<float> left) {
    const bool end = waiting.front().place->piece().end;
    waiting.erase(waiting.begin());
    if (left.has_value()) there = !end;
    if (left.has_value()) state = *left;
    if (!waiting.empty()) Turn(left.has_value() && there);
  }
};

TEST(SequencesRandomTest, PiecesBeginAsTheDefinitionSays) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<uint32_t>(below));
    };
    SequenceTable table({.sequences = 100, .bytes = 1000, .idle_ns = 1 << 30});
    std::map<int, Line> lines;
    std::deque<Named> places;
    float next = 0;
    for (int i = 0; i < 400; ++i) {
      const int id = draw(4);
      Line& line = lines[id];
      if (draw(2) == 0) {
        Named& place = places.emplace_back(Piece(id, draw(4) == 0, draw(6) == 0));
        std::optional<int32_t> pushback;
        const auto turn = table.Enter({ModelId(1), "", 4}, place, i, pushback);
        const bool known = !line.waiting.empty() || line.there || place.piece().start;
        ASSERT_EQ(turn.ok(), known) << turn.status();
        if (!known) continue;
        line.Enter(place);
        ASSERT_EQ(*turn == Turn::kNow, line.waiting.size() == 1);
      } else if (draw(4) == 0 && line.waiting.size() > 1) {
        const int behind = 1 + draw(static_cast<int>(line.waiting.size()) - 1);
        Line::Entry& entry = line.waiting[static_cast<size_t>(behind)];
        ASSERT_EQ(table.Withdraw(entry.place->waits), entry.gone ? nullptr : entry.place);
        entry.gone = true;
      } else if (!line.waiting.empty()) {
        const bool fails = draw(4) == 0 || !line.waiting.front().runs;
        const float left = ++next;
        Place* const then =
            table.Leave(*line.waiting.front().place, fails ? nullptr : State(left), i);
        line.Leave(fails ? std::nullopt : std::optional<float>(left));
        ASSERT_EQ(then, line.waiting.empty() ? nullptr : line.waiting.front().place);
      }
      if (line.waiting.empty()) continue;
      const Line::Entry& first = line.waiting.front();
      ASSERT_EQ(ValueOf(first.place->state()), first.begins) << "seed " << seed << ", event " << i;
      ASSERT_EQ(first.place->may_run().ok(), first.runs) << "seed " << seed << ", event " << i;
    }
    int64_t live = 0;
    for (auto& [id, line] : lines) {
      for (; !line.waiting.empty(); line.Leave(std::nullopt)) {
        table.Leave(*line.waiting.front().place, nullptr, 400);
      }
      live += line.there ? 1 : 0;
    }
    const SequenceTable::Counts counts = table.counts();
    ASSERT_EQ(counts.live, live);
    ASSERT_EQ(counts.bytes, 4 * live);
    ASSERT_EQ(counts.started - counts.ended - counts.timed_out - counts.dropped, live);
  }
}

// Under the thread sanitizer this says more: `ran` has no lock but the turns.
TEST(SequencesRandomTest, ManyThreadsRunPiecesOfOneSequenceOneAfterTheOther) {
  constexpr int kThreads = 4, kPieces = 2000, kIds = 3;
  SequenceTable table({.sequences = kIds, .bytes = 1000, .idle_ns = 1 << 30});
  std::vector<int64_t> ran(kIds);
  std::atomic<int64_t> failed = 0, withdrawn = 0;
  const auto run = [&](Place* place, int id) {
    int64_t& runs = ran[static_cast<size_t>(id)];
    while (place != nullptr) {
      const bool may_run = place->may_run().ok();  // if not, it stood behind one that was withdrawn
      EXPECT_EQ(ValueOf(place->state()), static_cast<float>(runs));
      if (may_run) {
        place = table.Leave(*place, State(static_cast<float>(++runs)), 0);
      } else {
        ++failed;
        place = table.Leave(*place, nullptr, 0);
      }
    }
  };
  for (int id = 0; id < kIds; ++id) {
    Place first(Piece(id, true));
    std::optional<int32_t> pushback;
    ASSERT_EQ(*table.Enter({ModelId(1), "", 4}, first, 0, pushback), Turn::kNow);
    ran[static_cast<size_t>(id)] = 1;
    ASSERT_EQ(table.Leave(first, State(1), 0), nullptr);
  }
  std::vector<std::deque<Named>> places(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < kPieces; ++i) {
        const int id = static_cast<int>(random() % kIds);
        Named& place = places[static_cast<size_t>(t)].emplace_back(Piece(id));
        std::optional<int32_t> pushback;
        const auto turn = table.Enter({ModelId(1), "", 4}, place, 0, pushback);
        ASSERT_TRUE(turn.ok()) << turn.status();
        if (*turn == Turn::kNow) {
          run(&place, id);
        } else if (random() % 4 == 0) {
          withdrawn += table.Withdraw(place.waits) == nullptr ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t total = failed + withdrawn;
  for (const int64_t of_one : ran) total += of_one;
  EXPECT_EQ(total, kThreads * kPieces + kIds);
}

}  // namespace
}  // namespace cellbatch

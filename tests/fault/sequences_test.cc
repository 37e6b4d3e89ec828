// Sequences whose state the server keeps between their pieces (serving.md 4.4, S), against the real server: what goes wrong with
// one of them costs neither its state nor anybody else's. Right is what one request of the whole sequence answers, in bits.
#include "tests/fault/sequences_test.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fault/background_call.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;
using testing::HasSubstr;

constexpr char kIdle[] = "--sequence-idle=50ms";
void BeIdle() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

TEST_F(SequencesTest, S1WithoutAStartAfterTheEndAndAfterIdlingIsInvalid) {
  ASSERT_NO_FATAL_FAILURE(Serve({kIdle}));
  const auto all = [this](const auto& id, const std::string& shown) {
    ExpectNotThere(id, shown);
    EXPECT_EQ(Ask(Piece(id, {3, 1, 4}, Mark::kBoth)), Whole({3, 1, 4}));
    ExpectNotThere(id, shown);
    EXPECT_EQ(Ask(Piece(id, {3, 1}, Mark::kStart)), Whole({3, 1}));
    BeIdle();
    ExpectNotThere(id, shown);
  };
  all(7, "7");
  EXPECT_EQ(Count(), (Counts{.started = 2, .ended = 1, .timed_out = 1}));
  all(std::string("7"), "\"7\"");
  EXPECT_EQ(Count(), (Counts{.started = 4, .ended = 2, .timed_out = 2}));
}

TEST_F(SequencesTest, S2AStartOnALiveSequenceBeginsFromZeros) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  EXPECT_EQ(Ask(Piece(7, {1, 2, 3}, Mark::kStart)), Whole({1, 2, 3}));
  EXPECT_EQ(Ask(Piece("7", {9}, Mark::kStart)), Whole({9})) << "the text is another id";
  EXPECT_EQ(Ask(Piece(7, {4})), Whole({1, 2, 3, 4}));
  EXPECT_EQ(Ask(Piece(7, {5, 6}, Mark::kStart)), Whole({5, 6}));
  EXPECT_EQ(Ask(Piece(7, {7})), Whole({5, 6, 7}));
  EXPECT_EQ(Ask(Piece("7", {8})), Whole({9, 8}));
  EXPECT_EQ(Count(), (Counts{.live = 2, .bytes = 2 * kWordsState, .started = 2}));
}

TEST_F(SequencesTest, S3PiecesThatAreThereAtOnceRunInTheOrderInWhichTheyCame) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const Tokens held = Several(kHeldSteps, 0, kSlow.vocabulary);
  PieceStream stream(*caller_);
  stream.Write(Piece(7, Words(held, "slow"), Mark::kStart));
  for (const int32_t token : {1, 2}) stream.Write(Piece(7, Words({token}, "slow")));
  stream.Write(Piece(7, Words({3}, "slow"), Mark::kEnd));
  stream.Write(Piece(7, Words({4}, "slow")));
  const MetricsPage page = WaitForPage(*server_, [](const MetricsPage& p) {
    return (p.Admitted() == 5 && p.Running() == 1) || p.Steps("slow") >= kHeldSteps;
  });
  EXPECT_LT(page.Steps("slow"), kHeldSteps) << "they were to be there at once";
  EXPECT_EQ(Whole({1, 2}), Whole({1, 2})) << "others are answered meanwhile";
  EXPECT_GE(MetricsPage(*server_).Admitted(), 5);
  std::vector<float> last;
  for (int i = 0; i < 4; ++i) {
    last = stream.Read();
    EXPECT_EQ(stream.error(), "") << i;
  }
  EXPECT_TRUE(stream.Read().empty());
  EXPECT_THAT(stream.error(), HasSubstr("sequence 7 has no state")) << "behind the end";
  EXPECT_TRUE(stream.End().ok());
  EXPECT_EQ(WaitUntilEmpty(*server_).Steps("slow"), kHeldSteps + 3);
  EXPECT_EQ(last, Whole(Joined(held, {1, 2, 3}), "slow"));
  EXPECT_EQ(Count(), (Counts{.started = 1, .ended = 1}));
}

TEST_F(SequencesTest, S3ManySequencesOnOneStreamWithoutWaitingHaveTheBitsOfTheirWholes) {
  constexpr int kIds = 5, kRounds = 4, kPieces = 30;
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  PieceStream stream(*caller_);
  std::vector<Tokens> wholes;
  for (int round = 0; round < kRounds; ++round) {
    wholes.resize(wholes.size() + kIds);
    for (int piece = 0; piece < kPieces; ++piece) {
      const Mark mark = piece == 0 ? Mark::kStart : piece == kPieces - 1 ? Mark::kEnd : Mark::kNone;
      for (int id = 1; id <= kIds; ++id) {
        const Tokens tokens = Several(1 + (id * piece) % 4, round + id + piece);
        Tokens& whole = *(wholes.end() - id);
        whole = Joined(std::move(whole), tokens);
        stream.Write(Piece(id, tokens, mark));
      }
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < (kPieces - 1) * kIds; ++i) EXPECT_FALSE(stream.Read().empty());
    for (int id = 1; id <= kIds; ++id) {
      EXPECT_EQ(stream.Read(), Whole(wholes[(round + 1) * kIds - id])) << stream.error();
    }
  }
  EXPECT_TRUE(stream.End().ok());
  EXPECT_EQ(Count(), (Counts{.started = kIds * kRounds, .ended = kIds * kRounds}));
}

// The server reads messages beyond 256 KiB, and compressed ones, on another thread.
TEST_F(SequencesTest, S3AShortPieceDoesNotOvertakeTheLongMessageBeforeIt) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const Tokens most = Several(65536);
  for (int round = 0; round < 5; ++round) {
    PieceStream stream(*caller_);
    stream.Write(Piece(7, most, Mark::kStart));
    stream.Write(Piece(7, {1}));
    stream.Write(Piece(7, most));
    stream.Write(Piece(7, {2}, Mark::kEnd));
    std::vector<float> last;
    for (int i = 0; i < 4; ++i) {
      last = stream.Read();
      EXPECT_EQ(stream.error(), "") << round << ", " << i;
    }
    EXPECT_TRUE(stream.End().ok());
    EXPECT_EQ(Ask(Piece(8, most, Mark::kStart)), Whole(most));
    for (const Tokens& piece : {Tokens{1}, most}) Ask(Piece(8, piece));
    EXPECT_EQ(last, Ask(Piece(8, {2}, Mark::kEnd)));
  }
}

TEST_F(SequencesTest, S4WithoutAnIdThereIsNothingToStartOrToEnd) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  for (const Mark mark : {Mark::kStart, Mark::kEnd, Mark::kBoth}) {
    for (const ModelInferRequest& request : {Piece(0, {1, 2}, mark), Piece("", {1, 2}, mark)}) {
      ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "is set without a sequence_id");
    }
  }
  EXPECT_EQ(Ask(Piece(0, {1, 2})), Whole({1, 2})) << "of no sequence";
  EXPECT_EQ(Ask(Piece("", {1, 2})), Whole({1, 2}));
  EXPECT_EQ(Count(), Counts{});
}

TEST_F(SequencesTest, S5OneMoreThanTheMostIsRefusedWithAHintAndAnEndMakesRoom) {
  const std::vector<std::vector<std::string>> bounds = {
      {"--max-sequences=2"}, {"--max-sequence-bytes=400", "--max-sequences=100"}};
  for (const std::vector<std::string>& bound : bounds) {
    ASSERT_NO_FATAL_FAILURE(Serve(bound));
    const std::string name = bound[0].substr(0, bound[0].find('='));
    for (const int id : {1, 2}) Ask(Piece(id, {id}, Mark::kStart));
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(std::atoi(HintOfFull(Piece(3, {3}, Mark::kStart), name).c_str()), 0);
    }
    ExpectNotThere(3, "3");
    EXPECT_EQ(Rejected(), 3);
    EXPECT_EQ(MetricsPage(*server_).Ended("rejected"), 3);
    EXPECT_EQ(Ask(Piece(1, {4})), Whole({1, 4})) << "the others go on";
    EXPECT_EQ(Ask(Piece(2, {5}, Mark::kStart)), Whole({5})) << "and may start anew";
    EXPECT_EQ(Count(), (Counts{.live = 2, .bytes = 2 * kWordsState, .started = 2}));
    Ask(Piece(1, {6}, Mark::kEnd));
    EXPECT_EQ(Ask(Piece(3, {3}, Mark::kStart)), Whole({3})) << "in the place of the first";
    EXPECT_EQ(Count(), (Counts{.live = 2, .bytes = 2 * kWordsState, .started = 3, .ended = 1}));
    HintOfFull(Piece(1, {1}, Mark::kStart), name);
    if (name == "--max-sequence-bytes") {
      EXPECT_EQ(HintOfFull(Piece(9, Words({1}, "slow"), Mark::kStart), name), "-1") << "never";
    }
    TearDown();
  }
  server_.reset();
}

TEST_F(SequencesTest, S5WhatTimedOutMakesRoom) {
  for (const char* bound : {"--max-sequences=2", "--max-sequence-bytes=400"}) {
    ASSERT_NO_FATAL_FAILURE(Serve({bound, kIdle}));
    double rounds = 0;
    for (; rounds < 3; ++rounds) {
      for (const char* id : {"a", "b"}) {
        const Tokens token = {static_cast<int32_t>(id[0] % 10 + rounds)};
        EXPECT_EQ(Ask(Piece(id + std::to_string(rounds), token, Mark::kStart)), Whole(token));
      }
      BeIdle();
    }
    ExpectNotThere("a", "\"a\"");
    EXPECT_EQ(Count(), (Counts{.started = 6, .timed_out = 6}));
    EXPECT_EQ(Rejected(), 0);
    TearDown();
  }
  server_.reset();
}

TEST_F(SequencesTest, S6ACancelLeavesTheStateAsItWasAndFailsThoseThatWaitBehindIt) {
  constexpr int kLong = 60000;
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  Ask(Piece(7, Words({1}, "slow"), Mark::kStart));
  WaitUntilEmpty(*server_);  // so that what runs below is what is held up
  BackgroundCall held(*caller_, Piece(7, Words(Tokens(kLong, 1), "slow")));
  WaitForPage(*server_, [](const MetricsPage& p) { return p.Running() == 1; });
  std::vector<std::unique_ptr<BackgroundCall>> behind;
  for (int i = 0; i < 4; ++i) {
    const Mark mark = i == 3 ? Mark::kEnd : Mark::kNone;
    behind.push_back(
        std::make_unique<BackgroundCall>(*caller_, Piece(7, Words({2}, "slow"), mark)));
    WaitForAdmitted(2 + i);
  }
  behind[1]->Cancel();
  EXPECT_EQ(behind[1]->Wait().error_code(), StatusCode::CANCELLED);
  WaitForAdmitted(4);  // what it waited with is back
  ModelInferRequest late = Piece(7, Words({2}, "slow"));
  (*late.mutable_parameters())["timeout"].set_int64_param(1000);
  ExpectRefused(late, StatusCode::DEADLINE_EXCEEDED, "before its turn in its sequence came");
  EXPECT_FALSE(behind[0]->done() || held.done());
  held.Cancel();
  EXPECT_EQ(held.Wait().error_code(), StatusCode::CANCELLED);
  for (const int i : {0, 2, 3}) {
    EXPECT_EQ(behind[i]->Wait().error_code(), StatusCode::ABORTED) << i;
    EXPECT_THAT(behind[i]->Wait().error_message(), HasSubstr("sequence 7: a piece before"));
  }
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_LT(page.Steps("slow"), kLong);
  EXPECT_EQ(page.Ended("cancelled"), 2);
  EXPECT_EQ(page.Ended("error"), 3);
  EXPECT_EQ(page.Ended("deadline"), 1);
  EXPECT_EQ(page.Ended(), 7) << "each once";
  EXPECT_EQ(Count(), (Counts{.live = 1, .bytes = kSlowState, .started = 1}));
  EXPECT_EQ(Ask(Piece(7, Words({2}, "slow"), Mark::kEnd)), Whole({1, 2}, "slow"));
  EXPECT_EQ(Count(), (Counts{.started = 1, .ended = 1}));
}

TEST_F(SequencesTest, S6AStartBehindACancelledPieceRunsAndACancelledStartLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  for (const bool start_behind : {true, false}) {
    WaitUntilEmpty(*server_);
    BackgroundCall held(*caller_, Piece(7, Words(Tokens(60000, 1), "slow"), Mark::kStart));
    WaitForPage(*server_, [](const MetricsPage& p) { return p.Running() == 1; });
    BackgroundCall failing(*caller_, Piece(7, Words({2}, "slow")));
    WaitForAdmitted(2);
    std::vector<std::unique_ptr<BackgroundCall>> going;
    for (const int32_t token : {3, 4}) {
      if (!start_behind) continue;
      const Mark mark = token == 3 ? Mark::kStart : Mark::kNone;
      going.push_back(
          std::make_unique<BackgroundCall>(*caller_, Piece(7, Words({token}, "slow"), mark)));
      WaitForAdmitted(token);
    }
    held.Cancel();
    EXPECT_EQ(failing.Wait().error_code(), StatusCode::ABORTED);
    for (const auto& call : going) EXPECT_TRUE(call->Wait().ok()) << call->Wait().error_message();
    WaitUntilEmpty(*server_);
    if (start_behind) {
      EXPECT_EQ(Ask(Piece(7, Words({5}, "slow"), Mark::kEnd)), Whole({3, 4, 5}, "slow"));
    }
    EXPECT_EQ(Count().live, 0);
    EXPECT_EQ(Count().bytes, 0);
    ExpectRefused(Piece(7, Words({1}, "slow")), StatusCode::INVALID_ARGUMENT, "has no state");
  }
}

TEST_F(SequencesTest, S6CancelsAtAnyMomentLeaveWhatSomeOfThePiecesFromTheFirstOnLeave) {
  constexpr int kPieces = 24, kSteps = 200;
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  std::map<std::vector<float>, int> next;  // how many pieces a state is of, by what comes of it
  Tokens whole;
  for (int i = 1; i <= kPieces; ++i) {
    whole = Joined(std::move(whole), Several(kSteps, i));
    next[Whole(Joined(whole, {99}))] = i;
  }
  ASSERT_EQ(next.size(), size_t{kPieces});
  for (int round = 0; round < 2 * kPieces; ++round) {
    PieceStream stream(*caller_);
    for (int i = 1; i <= kPieces; ++i) {
      stream.Write(Piece(7, Several(kSteps, i), i == 1 ? Mark::kStart : Mark::kNone));
    }
    const int read = 1 + round / 2;
    for (int i = 0; i < read; ++i) EXPECT_FALSE(stream.Read().empty()) << stream.error();
    stream.Cancel();
    WaitUntilEmpty(*server_);
    const auto found = next.find(Ask(Piece(7, {99}, Mark::kEnd)));
    ASSERT_NE(found, next.end()) << round;
    EXPECT_GE(found->second, read) << "what was answered is in it";
  }
  EXPECT_EQ(Count(), (Counts{.started = 2 * kPieces, .ended = 2 * kPieces}));
}

TEST_F(SequencesTest, S6AfterACancelAndATimeoutTwoNewSequencesHaveNothingInCommon) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--sequence-idle=1s", "--max-sequences=2"}));
  Ask(Piece("old", Words({1}, "slow"), Mark::kStart));
  WaitUntilEmpty(*server_);
  {
    BackgroundCall held(*caller_, Piece("old", Words(Tokens(60000, 1), "slow")));
    WaitForPage(*server_, [](const MetricsPage& p) { return p.Running() == 1; });
  }
  WaitUntilEmpty(*server_);
  EXPECT_EQ(Count().live, 1) << "as it was before that piece";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  PieceStream stream(*caller_);
  const std::vector<Tokens> x = {{1}, {2, 3}, {4}}, y = {{5, 6}, {7}, {8, 9}};
  for (size_t i = 0; i < x.size(); ++i) {
    const Mark mark = i == 0 ? Mark::kStart : Mark::kNone;
    stream.Write(Piece("x", Words(x[i], "slow"), mark));
    stream.Write(Piece("y", Words(y[i], "slow"), mark));
  }
  Tokens of_x, of_y;
  for (size_t i = 0; i < x.size(); ++i) {
    of_x = Joined(of_x, x[i]);
    of_y = Joined(of_y, y[i]);
    EXPECT_EQ(stream.Read(), Whole(of_x, "slow")) << stream.error();
    EXPECT_EQ(stream.Read(), Whole(of_y, "slow")) << stream.error();
  }
  EXPECT_TRUE(stream.End().ok());
  EXPECT_EQ(Count(), (Counts{.live = 2, .bytes = 2 * kSlowState, .started = 3, .timed_out = 1}));
}

}  // namespace
}  // namespace cellbatch

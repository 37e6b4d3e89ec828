// A sequence of a million steps whose state the server keeps (serving.md 4.4, S7), against the real server.
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fault/own_server_test.h"
#include "tests/fault/sequence_pieces.h"

namespace cellbatch {
namespace {

class LongSequenceTest : public OwnServerTest {};

// Two of them, of the same words, cut at different places, so that a bit that is lost between two pieces shows.
TEST_F(LongSequenceTest, S7AMillionStepsOnOneStreamNeitherDriftNorGrow) {
  constexpr int kSteps = 1'000'000, kState = 2 * 24 * 4;
  constexpr int64_t kMayGrow = 4 << 20;
  // Of each sequence: steps of a piece, those done.
  std::vector<std::pair<int, int>> sequences = {{1000, 0}, {773, 0}};
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  PieceStream stream(*caller_);
  std::vector<std::vector<float>> last(2);
  std::vector<int> asked;  // of whom, in order; so many are under way at most
  size_t read = 0;
  const auto read_one = [&] {
    std::vector<float>& answer = last[static_cast<size_t>(asked[read++])];
    answer = stream.Read();
    ASSERT_EQ(answer.size(), 24) << stream.error();
  };
  int64_t before = 0;
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < 2; ++i) {
      auto& [steps, done] = sequences[static_cast<size_t>(i)];
      if (done == kSteps) continue;
      more = true;
      const int end = std::min(done + steps, kSteps);
      std::vector<int32_t> tokens;
      for (int t = done; t < end; ++t) tokens.push_back(static_cast<int32_t>(int64_t{t} * t % 97));
      stream.Write(Piece(i + 1, tokens, done == 0 ? Mark::kStart : Mark::kNone));
      done = end;
      asked.push_back(i);
    }
    while (asked.size() - read > 16) ASSERT_NO_FATAL_FAILURE(read_one());
    if (asked.size() == 200) before = server_->ResidentBytes();
  }
  while (read < asked.size()) ASSERT_NO_FATAL_FAILURE(read_one());
  EXPECT_EQ(last[0], last[1]);
  const MetricsPage page(*server_);
  EXPECT_EQ(page.Steps("words"), 2.0 * kSteps);
  EXPECT_EQ(page.Ended("ok"), static_cast<double>(asked.size()));
  EXPECT_EQ(page.Sum("cellbatch_sequences"), 2);
  EXPECT_EQ(page.Sum("cellbatch_sequence_state_bytes"), 2 * kState);
  EXPECT_LT(server_->ResidentBytes() - before, kMayGrow);
  EXPECT_TRUE(stream.End().ok());
  WaitUntilEmpty(*server_);
  ExpectGood(*caller_);
  End();
}

}  // namespace
}  // namespace cellbatch

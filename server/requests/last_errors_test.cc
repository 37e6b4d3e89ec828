#include "server/requests/last_errors.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(LastErrorsTest, TheSameButForNumbersIsOneKindWithItsLastText) {
  LastErrors errors;
  errors.Note("m", "1", absl::ResourceExhaustedError("17 requests of 20"), 1);
  errors.Note("m", "1", absl::InvalidArgumentError("input A: no such"), 2);
  errors.Note("m", "1", absl::ResourceExhaustedError("2000 requests of 20"), 3);
  const std::vector<LastError> newest = errors.Newest();
  ASSERT_EQ(newest.size(), 2u);
  EXPECT_EQ(newest[0].text, "2000 requests of 20");
  EXPECT_EQ(newest[0].count, 2);
  EXPECT_EQ(newest[0].at_ns, 3);
  EXPECT_EQ(newest[1].text, "input A: no such");
  EXPECT_EQ(newest[1].code, absl::StatusCode::kInvalidArgument);
}

TEST(LastErrorsTest, ModelsVersionsAndCodesAreKindsOfTheirOwn) {
  LastErrors errors;
  errors.Note("m", "1", absl::InternalError("x"), 1);
  errors.Note("m1", "", absl::InternalError("x"), 2);
  errors.Note("m", "2", absl::InternalError("x"), 3);
  errors.Note("m", "1", absl::UnavailableError("x"), 4);
  EXPECT_EQ(errors.Newest().size(), 4u);
}

TEST(LastErrorsTest, SuccessAndTheClientsOwnCancelAreNone) {
  LastErrors errors;
  errors.Note("m", "1", absl::OkStatus(), 1);
  errors.Note("m", "1", absl::CancelledError("gone"), 2);
  EXPECT_TRUE(errors.Newest().empty());
}

TEST(LastErrorsTest, TextsAreCutBetweenCharacters) {
  LastErrors errors;
  std::string text(LastErrors::kTextBytes - 1, 'a');
  errors.Note(std::string(1000, 'm'), "1", absl::InternalError(text + "äöü"), 1);
  const LastError error = errors.Newest().front();
  EXPECT_EQ(error.text, text);
  EXPECT_EQ(error.model.size(), LastErrors::kTextBytes);
}

// Against a map of all kinds there ever were: those that are kept are the last ones.
TEST(LastErrorsTest, KeepsTheLastKindsWhateverComes) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  LastErrors errors;
  std::map<std::tuple<int, int>, int64_t> last;  // model, letter -> when
  for (int64_t now = 1; now <= 5000; ++now) {
    const int model = static_cast<int>(random() % 6), letter = static_cast<int>(random() % 11);
    errors.Note(fmt::format("m{}", model), "1",
                absl::InternalError(fmt::format("{} of {}", static_cast<char>('a' + letter), now)),
                now);
    last[{model, letter}] = now;
    const std::vector<LastError> newest = errors.Newest();
    ASSERT_EQ(newest.size(), std::min(last.size(), LastErrors::kKinds));
    ASSERT_EQ(newest.front().at_ns, now);
    std::vector<int64_t> times;
    for (const auto& [kind, at] : last) times.push_back(at);
    std::sort(times.rbegin(), times.rend());
    for (size_t i = 0; i < newest.size(); ++i) ASSERT_EQ(newest[i].at_ns, times[i]);
  }
}

TEST(LastErrorsTest, ManyThreadsTellAndNoneIsLostToTheCount) {
  LastErrors errors;
  constexpr int kThreads = 4, kEach = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&errors, t] {
      for (int i = 0; i < kEach; ++i) {
        errors.Note(fmt::format("m{}", t), "1", absl::InternalError("x"), i);
        if (i % 100 == 0) errors.Newest();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t counted = errors.only_counted();
  for (const LastError& error : errors.Newest()) counted += error.count;
  EXPECT_EQ(counted, kThreads * kEach);
}

}  // namespace
}  // namespace cellbatch

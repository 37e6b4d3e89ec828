#include "server/http/status/history.h"

#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

bool Same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The slow, obvious one: all that was ever added, looked through for each question.
struct Reference {
  std::vector<std::map<std::string, float>> seconds;

  std::vector<float> Of(const std::string& line) const {
    const size_t first = seconds.size() > History::kPoints ? seconds.size() - History::kPoints : 0;
    std::vector<float> points;
    for (size_t i = first; i < seconds.size(); ++i) {
      const auto found = seconds[i].find(line);
      points.push_back(found == seconds[i].end() ? NAN : found->second);
    }
    return points;
  }
};

TEST(HistoryTest, IsAReferenceOfAllThatWasAddedCutToItsLastTenMinutes) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  History history;
  Reference reference;
  std::set<std::string> live;  // lines that come and go for long
  for (int second = 0; second < 3 * History::kPoints; ++second) {
    if (random() % 50 == 0) live.insert(fmt::format("line {}", random() % 20));
    if (random() % 70 == 0 && !live.empty()) live.erase(live.begin());
    std::map<std::string, float> now;
    for (const std::string& line : live) {
      if (random() % 4 != 0) now[line] = static_cast<float>(random() % 1000);
    }
    history.Add({now.begin(), now.end()});
    reference.seconds.push_back(now);
    if (second % 97 != 0) continue;
    for (int i = 0; i < 20; ++i) {
      const std::string line = fmt::format("line {}", i);
      const std::vector<float> got = history.Of(line), want = reference.Of(line);
      ASSERT_EQ(got.size(), want.size());
      for (size_t p = 0; p < got.size(); ++p) ASSERT_TRUE(Same(got[p], want[p])) << line << p;
    }
  }
  EXPECT_EQ(history.seconds(), History::kPoints);
}

TEST(HistoryTest, ALineWithoutPointsForTenMinutesIsGoneAndMakesRoom) {
  History history(/*most_lines=*/2);
  history.Add({{"a", 1.0F}, {"b", 2.0F}, {"c", 3.0F}});
  EXPECT_EQ(history.lines(), 2u);
  EXPECT_TRUE(std::isnan(history.Of("c")[0]));
  for (int i = 0; i < History::kPoints - 1; ++i) history.Add({{"a", 1.0F}, {"c", 3.0F}});
  EXPECT_EQ(history.lines(), 2u);
  EXPECT_EQ(history.Of("b")[0], 2.0F);
  history.Add({{"a", 1.0F}, {"c", 3.0F}});
  EXPECT_EQ(history.lines(), 2u);
  EXPECT_EQ(history.Of("c").back(), 3.0F) << "in the place of b";
  EXPECT_TRUE(std::isnan(history.Of("b")[0]));
}

TEST(HistoryTest, BeforeTheFirstSecondThereIsNothing) {
  const History history;
  EXPECT_EQ(history.seconds(), 0);
  EXPECT_TRUE(history.Of("a").empty());
}

}  // namespace
}  // namespace cellbatch

// Claims about whose turn it is in a closed loop: of a stream one piece at a time, in order, and nobody waits for ever.
#include "loadgen/turns.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace cellbatch {
namespace {

constexpr int kInFlight = 8;

// `size` pieces of each of so many streams, whose turns go round; 0 streams: they belong to none.
class Pieces : public RequestSet {
 public:
  Pieces(uint32_t size, uint32_t streams) : streams_(streams) { lengths_.assign(size, 1); }
  std::vector<uint32_t> Order(size_t count, uint64_t) const override {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  uint32_t most_at_once() const override {
    return streams_ == 0 ? RequestSet::most_at_once() : streams_;
  }
  std::optional<uint32_t> stream(uint32_t entry) const override {
    if (streams_ == 0) return std::nullopt;
    return entry % streams_;
  }
  PreparedRequest Request(uint32_t, uint64_t) const override { return {}; }

 private:
  const uint32_t streams_;
};

Workload Of(const std::vector<std::pair<double, std::pair<uint32_t, uint32_t>>>& sets) {
  std::vector<Workload::Part> parts;
  for (const auto& [weight, set] : sets) {
    parts.push_back({"m", "m", weight, 1, std::make_unique<Pieces>(set.first, set.second)});
  }
  return Workload(std::move(parts));
}

// Answers come in any order, some of them very late. Returns the turns as they were sent.
std::vector<uint64_t> Play(const Workload& workload, int answers, uint64_t seed) {
  const int in_flight = workload.MostInFlight(kInFlight);
  Turns turns(workload, in_flight, seed);
  std::mt19937_64 random(seed);
  std::vector<uint64_t> sent, under_way;
  for (int i = 0; i < in_flight; ++i) under_way.push_back(turns.First());
  sent = under_way;
  for (int i = 0; i < answers; ++i) {
    const bool late = under_way.size() > 1 && random() % 8 != 0;  // the first is seldom answered
    const size_t which = late ? 1 + random() % (under_way.size() - 1) : 0;
    const uint64_t next = turns.After(under_way[which]);
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    under_way.push_back(next);
    sent.push_back(next);
    std::set<std::pair<uint32_t, uint32_t>> streams;
    for (const uint64_t turn : under_way) {
      const Pick pick = turns.PickOf(turn);
      const auto stream = workload.parts()[pick.part].requests->stream(pick.entry);
      if (!stream) continue;
      EXPECT_TRUE(streams.emplace(pick.part, *stream).second) << "two of stream " << *stream;
    }
  }
  return sent;
}

TEST(TurnsTest, WithoutStreamsTheyAreTakenOneAfterTheOther) {
  std::vector<uint64_t> all(kInFlight + 1000);
  std::iota(all.begin(), all.end(), uint64_t{0});
  EXPECT_EQ(Play(Of({{1, {10, 0}}}), 1000, 1), all);
}

TEST(TurnsTest, OfAStreamOneIsUnderWayAndItsTurnsComeInOrder) {
  // As many streams as are in flight, more of them, and fewer. The order is walked round, and some end inside a round of them.
  for (const uint32_t streams : {8u, 20u, 2u, 1u}) {
    const Workload workload = Of({{1, {3, streams}}});
    for (uint64_t seed = 1; seed < 20; ++seed) {
      const Turns order(workload, kInFlight, seed);
      std::map<uint32_t, uint64_t> last;
      const std::vector<uint64_t> sent = Play(workload, 2000, seed);
      for (const uint64_t turn : sent) {
        const uint32_t stream = *workload.parts()[0].requests->stream(order.PickOf(turn).entry);
        const auto [at, first] = last.emplace(stream, turn);
        ASSERT_TRUE(first || at->second < turn) << "stream " << stream;
        at->second = turn;
      }
      EXPECT_EQ(std::set<uint64_t>(sent.begin(), sent.end()).size(), sent.size());
    }
  }
}

TEST(TurnsTest, WhoWaitsBehindAStreamHoldsUpNobodyElse) {
  const Workload workload = Of({{3, {40, 8}}, {1, {40, 0}}});
  Turns turns(workload, 2, 1);
  const auto stream_of = [&](uint64_t turn) {
    const Pick pick = turns.PickOf(turn);
    return workload.parts()[pick.part].requests->stream(pick.entry);
  };
  uint64_t stuck = turns.First();
  while (!stream_of(stuck)) stuck = turns.After(stuck);
  uint64_t turn = turns.First();
  std::map<uint32_t, int> sent;  // by part
  for (int i = 0; i < 400; ++i) {
    ASSERT_NE(stream_of(turn), stream_of(stuck));
    ++sent[turns.PickOf(turn).part];
    turn = turns.After(turn);
  }
  EXPECT_GT(sent[0], 200);
  EXPECT_GT(sent[1], 80);
}

}  // namespace
}  // namespace cellbatch

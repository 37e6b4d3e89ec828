// Claims about requests that are told of while they run: words of stopping chains.
#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int32_t kCap = 40;
constexpr int32_t kEnd = 3;  // the word that stops; words are below 16
constexpr int kDecoderType = 4;

// A decoder over one token, stopping at kEnd, and a head over where it did.
std::unique_ptr<Request> Decoding(World& world, const std::shared_ptr<const Model>& model,
                                  bool stream, int32_t end = kEnd) {
  auto request = world.Decoding(model, kCap, end);
  request->stream = stream;
  return request;
}

std::vector<int32_t> Words(const Request& request, int32_t count) {
  const auto* words = reinterpret_cast<const int32_t*>(request.graph.tensors()[0].bytes.data());
  return {words, words + count};
}

// What was told of each request so far, checked as it comes.
struct Listener {
  std::map<uint64_t, std::vector<int32_t>> told;
  std::map<uint64_t, absl::Status> answered;
  int64_t overrun = 0;
  int64_t news = 0;

  void Hear(const Delivery& d) {
    const uint64_t tag = d.request->tag;
    EXPECT_EQ(answered.count(tag), 0u) << "request " << tag << " is told of after its answer";
    std::vector<int32_t>& before = told[tag];
    const std::vector<int32_t> words = Words(*d.request, d.words);
    ASSERT_GE(words.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), words.begin())) << "a word has changed";
    if (d.kind == Delivery::Kind::kWords) {
      EXPECT_GT(words.size(), before.size()) << "told of without news";
      EXPECT_EQ(d.done, nullptr);
      ++news;
    } else {
      EXPECT_EQ(d.done.get(), d.request);
      answered[tag] = d.done->status;
      overrun += d.done->overrun_nodes;
      if (d.done->status.ok()) {
        EXPECT_EQ(d.done->nodes_executed, 1 + d.words + d.done->overrun_nodes);
      }
    }
    before = words;
  }
};

TEST(StreamingTest, EveryWordIsToldAsItIsWrittenAndTheOneThatStoppedIsTheLast) {
  for (int depth : {1, 2, 5}) {
    WorldOptions options;
    options.scheduler.max_tasks_in_flight = depth;
    World world(options);
    const auto model = MakeModel(ModelId(1));
    world.Add(model);
    Listener listener;
    for (uint64_t i = 0; i < 20; ++i) world.Submit(Decoding(world, model, i % 4 != 0), i);
    bool worked = true;
    while (worked) {
      worked = world.Step();
      for (const Delivery& d : world.Deliveries()) listener.Hear(d);
    }
    ASSERT_EQ(listener.answered.size(), 20u);
    int64_t streamed = 0;
    for (const auto& [tag, words] : listener.told) {
      EXPECT_TRUE(listener.answered[tag].ok());
      EXPECT_TRUE(words.back() == kEnd || words.size() == kCap);
      EXPECT_EQ(std::count(words.begin(), words.end(), kEnd), words.back() == kEnd ? 1 : 0);
      if (tag % 4 != 0) streamed += static_cast<int64_t>(words.size());
    }
    // Taken after every step: each word alone, but for the last, which may go with the answer.
    EXPECT_GE(listener.news, streamed - 20);
    EXPECT_LE(listener.news, streamed);
    const CellTypeStats stats = world.scheduler().stats().Lanes()[0].types[kDecoderType];
    EXPECT_EQ(stats.overrun, static_cast<uint64_t>(listener.overrun));
    EXPECT_EQ(stats.stop_steps, stats.cells);
    EXPECT_EQ(stats.overrun, stats.discarded) << "nothing was cancelled";
    EXPECT_LE(listener.overrun, 20 * (depth - 1)) << "at most tasks in flight - 1 a chain";
    EXPECT_EQ(listener.overrun > 0, depth > 1);
    world.ExpectClean();
  }
}

// Wherever the device wrote them: in the answer, or in a block that the answer is brought from.
TEST(StreamingTest, TheWordsOfARequestThatIsCancelledAreInItsAnswer) {
  std::vector<int32_t> words[2];
  for (const bool blocks : {false, true}) {
    WorldOptions options;
    if (blocks) options.host_blocks = std::make_shared<SimHostBlocks>();
    World world(options);
    const auto model = MakeModel(ModelId(1));
    world.Add(model);
    const RequestId id = world.Submit(Decoding(world, model, true, /*end=*/99), 1);
    for (int i = 0; i < 30; ++i) world.Step();
    world.scheduler().Notify(id, News::kCancelled);
    world.Run();
    const auto all = world.Deliveries();
    ASSERT_EQ(all.size(), 1u);
    ASSERT_EQ(all[0].kind, Delivery::Kind::kDone);
    EXPECT_EQ(all[0].done->status.code(), absl::StatusCode::kCancelled);
    ASSERT_GT(all[0].words, 5);
    words[blocks ? 1 : 0] = Words(*all[0].request, all[0].words);
  }
  EXPECT_GT(*std::max_element(words[0].begin(), words[0].end()), 0);
  EXPECT_EQ(words[0], words[1]);
}

// Of a chain that ended by itself the nodes behind its end are overrun; of one that was cancelled they are only discarded.
TEST(StreamingTest, WhatACancelledChainRanBehindItsCancelIsNoOverrun) {
  WorldOptions options;
  options.scheduler.max_tasks_in_flight = 5;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const RequestId id = world.Submit(Decoding(world, model, false, /*end=*/99), 1);
  for (int i = 0; i < 30; ++i) world.Step();
  world.scheduler().Notify(id, News::kCancelled);
  world.Run();
  EXPECT_EQ(world.TheOne()->overrun_nodes, 0);
  const CellTypeStats stats = world.scheduler().stats().Lanes()[0].types[kDecoderType];
  EXPECT_GT(stats.discarded, 0u);
  EXPECT_EQ(stats.overrun, 0u);
  world.ExpectClean();
}

TEST(StreamingTest, WordsThatCameMeanwhileGoTogether) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  world.Submit(Decoding(world, model, true, /*end=*/99), 1);
  for (int i = 0; i < 30; ++i) world.Step();
  auto some = world.Deliveries();
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].kind, Delivery::Kind::kWords);
  EXPECT_GT(some[0].words, 2);
  EXPECT_TRUE(world.Deliveries().empty()) << "nothing new since";
  for (int i = 0; i < 9; ++i) world.Step();  // told of again, and left lying there
  world.Run();
  some = world.Deliveries();
  ASSERT_EQ(some.size(), 1u) << "what lay in the outbox became the answer";
  EXPECT_EQ(some[0].kind, Delivery::Kind::kDone);
  EXPECT_EQ(some[0].words, kCap);
  world.ExpectClean();
}

TEST(StreamingTest, ACancelledStreamEndsOnceAndNoWordComesAfterIt) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  Listener listener;
  std::mt19937 random(3);
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 200; ++i) {
    ids.push_back(world.Submit(Decoding(world, model, true), i));
    for (uint32_t steps = random() % 6; steps > 0; --steps) world.Step();
    if (i % 2 == 0) world.scheduler().Notify(ids[random() % ids.size()], News::kCancelled);
    if (random() % 3 == 0) {
      for (const Delivery& d : world.Deliveries()) listener.Hear(d);
    }
  }
  world.Run();
  for (const Delivery& d : world.Deliveries()) listener.Hear(d);
  EXPECT_EQ(listener.answered.size(), 200u);
  int cancelled = 0, after_a_word = 0;
  for (const auto& [tag, status] : listener.answered) {
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled) << status;
    cancelled += status.ok() ? 0 : 1;
    after_a_word += !status.ok() && !listener.told[tag].empty() ? 1 : 0;
  }
  EXPECT_GT(cancelled, 10);
  EXPECT_GT(after_a_word, 3) << "hardly any was cancelled while it streamed";
  world.ExpectClean();
}

TEST(StreamingTest, ADeviceThatFailsEndsItsStreamsOnce) {
  WorldOptions options;
  options.devices = 2;
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
  world.Add(model);
  Listener listener;
  for (uint64_t i = 0; i < 40; ++i) world.Submit(Decoding(world, model, true), i);
  for (int i = 0; i < 20; ++i) {
    world.Step();
    for (const Delivery& d : world.Deliveries()) listener.Hear(d);
  }
  world.device(0).Fail(absl::InternalError("out of smoke"));
  world.Run();
  for (const Delivery& d : world.Deliveries()) listener.Hear(d);
  EXPECT_EQ(listener.answered.size(), 40u);
  int failed = 0;
  for (const auto& [tag, status] : listener.answered) {
    failed += status.code() == absl::StatusCode::kInternal && !listener.told[tag].empty() ? 1 : 0;
  }
  EXPECT_GT(failed, 0) << "no request was lost in the middle of its words";
  EXPECT_EQ(world.RowsUsed(), 0);
}

TEST(StreamingTest, StopEndsStreamsWhoseNewsNobodyTook) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  for (uint64_t i = 0; i < 8; ++i) world.Submit(Decoding(world, model, true, 99), i);
  for (int i = 0; i < 20; ++i) world.Step();
  world.device(0).set_moves_time(true);
  world.scheduler().Stop();
  const auto all = world.Deliveries();
  ASSERT_EQ(all.size(), 8u) << "each lies in the outbox once";
  for (const Delivery& d : all) {
    ASSERT_EQ(d.kind, Delivery::Kind::kDone);
    EXPECT_EQ(d.done->status.code(), absl::StatusCode::kUnavailable);
  }
}

// As many requests as slots, taken a few at a time while words come: an outbox that held a request
// twice would run over.
TEST(StreamingTest, AnOutboxAsLargeAsThereAreSlotsIsEnough) {
  WorldOptions options;
  options.scheduler.max_requests = 16;
  World world(options);
  const auto model = MakeModel(ModelId(1), {16, 16, 16, 16, 16});
  world.Add(model);
  Listener listener;
  std::mt19937 random(8);
  uint64_t submitted = 0;
  while (submitted < 300 || listener.answered.size() < submitted) {
    while (submitted < 300 && submitted - listener.answered.size() < 16) {
      world.Submit(Decoding(world, model, true), submitted);
      ++submitted;
    }
    world.Step();
    if (random() % 2 == 0) continue;
    Delivery some[3];
    const int n = world.scheduler().Take(OutboxId(0), absl::MakeSpan(some, 1 + random() % 3));
    for (int i = 0; i < n; ++i) listener.Hear(some[i]);
  }
  EXPECT_EQ(listener.answered.size(), 300u);
  world.ExpectClean();
}

}  // namespace
}  // namespace cellbatch

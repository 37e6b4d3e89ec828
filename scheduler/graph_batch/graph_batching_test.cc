// Claims about the graph batching that cellular batching is compared with (policy/whole_graphs.h, graph_batch/): how wide
// its tasks are and how many, who waits for whom, and that answers are the same bits.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/join_spec.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;
using Padding = GraphBatching::Padding;

LaneRules Rules(int64_t most, const GraphBatching& batching) {
  return LaneRules(nullptr, MakeJoinRule({.whole_graphs = most, .batching = batching}));
}

// A lane of sentences (a chain and its head), in batches of up to `most`.
class Batches {
 public:
  Batches(int64_t most, const GraphBatching& batching, int32_t max_batch = 8)
      : model(MakeModel(ModelId(1), {max_batch})) {
    world.Add(model, Rules(most, batching));
    begin = world.time().now_ns();
  }

  RequestId Submit(int32_t length) {
    return world.Submit(world.Sentence(model, length), static_cast<uint64_t>(length));
  }
  // Every length once; when each was answered, in tasks of 1,000 ns since the beginning.
  void Run(const std::vector<int32_t>& lengths) {
    for (const int32_t length : lengths) Submit(length);
    Run();
  }
  void Run() {
    do {
      for (const auto& r : world.Finished()) {
        EXPECT_TRUE(r->status.ok()) << r->status;
        EXPECT_EQ(r->nodes_executed, static_cast<int64_t>(r->tag) + 1);
        started.push_back({(r->times.first_task_start - begin) / 1000, r->tag});
        answered[r->tag] = (world.time().now_ns() - begin) / 1000;
      }
      const absl::Status consistent = world.scheduler().CheckInvariants();
      ASSERT_TRUE(consistent.ok()) << consistent;
    } while (world.Step());
    world.ExpectClean();
  }
  CellTypeStats Stats(CellTypeId type) {
    return world.scheduler().stats().Lanes()[0].types[static_cast<size_t>(type.value())];
  }

  World world;
  std::shared_ptr<const Model> model;
  int64_t begin = 0;
  std::map<uint64_t, int64_t> answered;               // by length
  std::vector<std::pair<int64_t, uint64_t>> started;  // first task, length
};

TEST(GraphBatchingTest, APaddedBatchIsAsWideAsItBeganUntilItsLongestHasEnded) {
  Batches batches(3, {.padding = Padding::kLongest});
  batches.Run({2, 5, 3});
  const CellTypeStats chain = batches.Stats(kChain);
  EXPECT_EQ(chain.tasks, 5u);
  EXPECT_EQ(chain.cells, 15u) << "five tasks, all three wide";
  EXPECT_EQ(chain.padding, 15u - 10u);
  EXPECT_EQ(batches.Stats(kHead).tasks, 1u) << "what reads the chains follows when all have ended";
  for (const auto& [length, at] : batches.answered) EXPECT_EQ(at, 6) << length;
}

TEST(GraphBatchingTest, NothingIsPaddedWhereNothingIsAskedFor) {
  Batches packed(3, {});
  packed.Run({2, 5, 3});
  EXPECT_EQ(packed.Stats(kChain).cells, 10u);
  EXPECT_EQ(packed.Stats(kChain).padding, 0u);
  EXPECT_LT(packed.answered[2], packed.answered[5]);
}

TEST(GraphBatchingTest, ABucketIsPaddedToItsUpperEdge) {
  Batches batches(8, {.padding = Padding::kBucket, .bucket_width = 10});
  batches.Run({21, 23});
  EXPECT_EQ(batches.Stats(kChain).tasks, 30u);
  EXPECT_EQ(batches.Stats(kChain).cells, 60u);
  EXPECT_EQ(batches.Stats(kChain).padding, 16u);
  Batches edge(8, {.padding = Padding::kBucket, .bucket_width = 10});
  edge.Run({10});
  EXPECT_EQ(edge.Stats(kChain).tasks, 10u);
  EXPECT_EQ(edge.Stats(kChain).padding, 0u);
}

TEST(GraphBatchingTest, ASequenceOfOneIsPaddedToo) {
  Batches batches(2, {.padding = Padding::kLongest});
  batches.Run({1, 4});
  EXPECT_EQ(batches.Stats(kChain).cells, 8u);
  EXPECT_EQ(batches.Stats(kChain).padding, 3u);
}

TEST(GraphBatchingTest, EachBatchIsPaddedToItsOwnLongest) {
  Batches batches(2, {.padding = Padding::kLongest});
  batches.Run({9, 8, 2, 3});
  EXPECT_EQ(batches.Stats(kChain).tasks, 9u + 3u);
  EXPECT_EQ(batches.Stats(kChain).padding, 1u + 1u);
}

TEST(GraphBatchingTest, PaddingHoldsItsPlaceFromThoseOfTheBatchThatFindNone) {
  Batches batches(4, {.padding = Padding::kLongest}, /*max_batch=*/2);
  batches.Run({2, 3, 5, 4});
  EXPECT_EQ(batches.Stats(kChain).tasks, 10u) << "two waves, each as long as the longest";
  EXPECT_EQ(batches.Stats(kChain).cells, 20u);
}

TEST(GraphBatchingTest, BucketsTakeTurnsAndInEachTheOldestIsFirst) {
  Batches batches(1, {.bucket_width = 10});
  batches.Run({6, 5, 16, 15, 25});
  std::vector<uint64_t> order;
  for (const auto& [at, length] : batches.started) order.push_back(length);
  EXPECT_EQ(order, (std::vector<uint64_t>{6, 16, 25, 5, 15}));
  EXPECT_EQ(batches.Stats(kChain).padding, 0u);
}

TEST(GraphBatchingTest, ABatchIsOfOneBucket) {
  Batches batches(8, {.bucket_width = 10});
  batches.Run({6, 25, 5, 16, 15});
  std::map<uint64_t, int64_t> start;
  for (const auto& [at, length] : batches.started) start[length] = at;
  EXPECT_EQ(start[6], start[5]);
  EXPECT_EQ(start[16], start[15]);
  EXPECT_EQ(start[16], 6 + 2) << "after the first bucket's six steps and its two heads";
  EXPECT_EQ(start[25], 8 + 16 + 2);
}

TEST(GraphBatchingTest, WhoIsCancelledWhileWaitingLeavesItsBucket) {
  Batches batches(1, {.padding = Padding::kBucket, .bucket_width = 10});
  const RequestId first = batches.Submit(12), second = batches.Submit(13);
  batches.Submit(4);
  batches.Submit(14);
  for (const RequestId id : {first, second}) batches.world.scheduler().Notify(id, News::kCancelled);
  batches.world.Step();
  EXPECT_EQ(batches.world.Finished().size(), 2u) << "the two that were cancelled";
  batches.Run();
  EXPECT_EQ(batches.answered.size(), 2u);
}

TEST(GraphBatchingTest, ABatchThatLeavesTogetherIsAnsweredWithItsLast) {
  Batches batches(3, {.leave_together = true});
  batches.Run({2, 5, 3, 4});
  EXPECT_EQ(batches.answered[2], batches.answered[5]);
  EXPECT_EQ(batches.answered[3], batches.answered[5]);
  EXPECT_GT(batches.answered[4], batches.answered[5]) << "another batch";
  EXPECT_EQ(batches.Stats(kChain).padding, 0u);
}

TEST(GraphBatchingTest, WhoIsDoneIsAnsweredWhenTheOnesItWaitsForAreCancelled) {
  Batches batches(3, {.leave_together = true});
  batches.Submit(2);
  const RequestId longest = batches.Submit(50);
  for (int step = 0; step < 30; ++step) batches.world.Step();
  EXPECT_TRUE(batches.world.Finished().empty()) << "it waits for the longest";
  batches.world.scheduler().Notify(longest, News::kCancelled);
  batches.world.Run();
  const auto done = batches.world.Finished();
  ASSERT_EQ(done.size(), 2u);
  for (const auto& r : done) EXPECT_EQ(r->status.ok(), r->tag == 2) << r->status;
  batches.world.ExpectClean();
}

TEST(GraphBatchingTest, WhoIsDoneIsNotCancelledAnyMore) {
  Batches batches(2, {.leave_together = true});
  const RequestId shortest = batches.Submit(2);
  batches.Submit(50);
  for (int step = 0; step < 30; ++step) batches.world.Step();
  batches.world.scheduler().Notify(shortest, News::kCancelled);
  batches.Run();
  EXPECT_EQ(batches.answered.size(), 2u);
}

TEST(GraphBatchingTest, WhoIsCancelledWhilePaddingLeavesTheRestAsItIs) {
  Batches batches(2, {.padding = Padding::kLongest});
  const RequestId shortest = batches.Submit(2);
  batches.Submit(20);
  for (int step = 0; step < 12; ++step) batches.world.Step();
  batches.world.scheduler().Notify(shortest, News::kCancelled);
  batches.world.Run();
  const auto done = batches.world.Finished();
  ASSERT_EQ(done.size(), 2u);
  for (const auto& r : done) {
    EXPECT_EQ(r->status.ok(), r->tag == 20) << r->status;
    EXPECT_EQ(r->nodes_executed, r->tag == 20 ? 21 : 2) << "padding is no request's";
  }
  batches.world.ExpectClean();
}

TEST(GraphBatchingTest, AnswersAreTheSameBitsHoweverTheirGraphsAreBatched) {
  const std::vector<int32_t> lengths = {7, 1, 12, 3, 30, 22, 9, 25};
  const auto answers = [&](int64_t most, const GraphBatching& batching) {
    World world;
    const auto model = MakeModel(ModelId(1));
    world.Add(model, Rules(most, batching));
    for (size_t i = 0; i < lengths.size(); ++i) world.Submit(world.Sentence(model, lengths[i]), i);
    world.Run();
    std::map<uint64_t, std::vector<std::byte>> bytes;
    for (const auto& r : world.Finished()) {
      const absl::Span<const std::byte> y = r->graph.tensors()[0].bytes;
      bytes[r->tag].assign(y.begin(), y.end());
    }
    world.ExpectClean();
    return bytes;
  };
  const auto cellular = answers(0, {});
  ASSERT_EQ(cellular.size(), lengths.size());
  EXPECT_EQ(answers(3, {}), cellular);
  EXPECT_EQ(answers(3, {.leave_together = true}), cellular);
  EXPECT_EQ(answers(3, {.padding = Padding::kLongest}), cellular);
  EXPECT_EQ(answers(3, {.padding = Padding::kBucket, .bucket_width = 10}), cellular);
}

TEST(GraphBatchingTest, ARuleSaysForPeopleWhatItDoes) {
  EXPECT_EQ(Name(JoinSpec{}), "cellular");
  EXPECT_EQ(Name(JoinSpec{.whole_graphs = 64}), "whole_graphs of 64");
  EXPECT_EQ(Name(JoinSpec{.whole_graphs = 64, .batching = {.leave_together = true}}),
            "whole_graphs of 64, left together");
  EXPECT_EQ(Name(JoinSpec{.whole_graphs = 8, .batching = {.padding = Padding::kLongest}}),
            "whole_graphs of 8, padded to the longest");
  EXPECT_EQ(Name(JoinSpec{.whole_graphs = 8,
                          .batching = {.padding = Padding::kBucket, .bucket_width = 10}}),
            "whole_graphs of 8, buckets of 10, padded to the bucket");
}

}  // namespace
}  // namespace cellbatch

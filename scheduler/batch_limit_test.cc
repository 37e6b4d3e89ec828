#include "scheduler/batch_limit.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using scheduler_testing::kChain;
using scheduler_testing::MakeModel;
using scheduler_testing::World;
using scheduler_testing::WorldOptions;

constexpr int32_t kKnee = 8, kPeak = 16;

BatchLimit Limit() {
  BatchLimit limit;
  limit.Set(kKnee, kPeak);
  return limit;
}

TEST(BatchLimitTest, AQueueBeyondTheKneeForTenTasksGetsThePeak) {
  BatchLimit limit = Limit();
  for (int task = 0; task < BatchLimit::kTasksOfBacklog; ++task) {
    limit.Forming(kKnee + 1);
    EXPECT_EQ(limit.now(), kKnee) << "task " << task;
  }
  limit.Forming(kKnee + 1);
  EXPECT_EQ(limit.now(), kPeak);
  EXPECT_EQ(limit.knee(), kKnee);
}

TEST(BatchLimitTest, OneTaskThatTakesAllThatIsReadyEndsTheBacklog) {
  BatchLimit limit = Limit();
  for (int task = 0; task < 100; ++task) limit.Forming(1000);
  ASSERT_EQ(limit.now(), kPeak);
  limit.Forming(kKnee);
  EXPECT_EQ(limit.now(), kKnee);
  limit.Forming(1000);
  EXPECT_EQ(limit.now(), kKnee) << "a backlog is counted anew";
}

TEST(BatchLimitTest, ABurstThatNineTasksAnswerChangesNothing) {
  BatchLimit limit = Limit();
  for (int task = 0; task < 200; ++task) {
    limit.Forming(task % BatchLimit::kTasksOfBacklog == 0 ? kKnee : 1000);
    EXPECT_EQ(limit.now(), kKnee);
  }
}

// Nodes of the chain's tasks, as they were formed, of so many sentences submitted at once.
std::vector<int32_t> TasksOf(int sentences, int32_t peak) {
  constexpr int32_t kLength = 30;
  std::vector<int32_t> nodes;
  WorldOptions options;
  options.device = [&](SimDeviceOptions& device) {
    device.task_ns = [&](const BatchedTask& task) {
      if (task.cell == kChain) nodes.push_back(task.num_nodes);
      return int64_t{1000};
    };
  };
  World world(options);
  const std::shared_ptr<Model> model = MakeModel(ModelId(1));
  model->types[0].max_batch = kKnee;
  model->types[0].peak_batch = peak;
  world.Add(model);
  nodes.clear();
  for (int s = 0; s < sentences; ++s) {
    world.Submit(world.Sentence(model, kLength), static_cast<uint64_t>(s));
  }
  world.Run();
  EXPECT_EQ(world.Finished().size(), static_cast<size_t>(sentences));
  world.ExpectClean();
  return nodes;
}

TEST(BatchLimitTest, ASchedulerInBacklogFormsTasksOfThePeak) {
  const std::vector<int32_t> nodes = TasksOf(60, kPeak);
  ASSERT_GT(nodes.size(), 20u);
  const auto larger = std::find_if(nodes.begin(), nodes.end(), [](int32_t n) { return n > kKnee; });
  EXPECT_EQ(larger - nodes.begin(), BatchLimit::kTasksOfBacklog);
  EXPECT_EQ(*std::max_element(nodes.begin(), nodes.end()), kPeak);
  // 1,800 nodes in tasks of 16 once it is known; those of 8 would be 225.
  EXPECT_LT(nodes.size(), 150u);
}

TEST(BatchLimitTest, WithoutBacklogOrWithoutAPeakTasksStayAtTheKnee) {
  for (const auto& [sentences, peak] : {std::pair{kKnee, kPeak}, {60, kKnee}, {60, 0}}) {
    const std::vector<int32_t> nodes = TasksOf(sentences, peak);
    EXPECT_EQ(*std::max_element(nodes.begin(), nodes.end()), kKnee) << sentences << ", " << peak;
  }
}

}  // namespace
}  // namespace cellbatch

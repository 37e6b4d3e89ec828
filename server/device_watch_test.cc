// Claims about what a server notices of devices that fail.
#include "server/device_watch.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

class Stats final : public SchedulerStats {
 public:
  std::vector<LaneStats> Lanes() const override { return {}; }
  std::vector<DeviceStats> Devices() const override { return devices; }
  std::vector<TypeTasks> TasksOf(ModelId) const override { return {}; }

  std::vector<DeviceStats> devices;
};

class DeviceWatchTest : public ::testing::Test {
 protected:
  DeviceWatchTest() {
    for (const char* name : {"cuda:0", "cuda:1", "cpu:0"}) {
      stats_.devices.emplace_back().name = name;
    }
  }
  void Fail(size_t device, const std::string& why) {
    stats_.devices[device].healthy = false;
    stats_.devices[device].failure = why;
  }

  Stats stats_;
  DeviceWatch watch_{stats_};
};

TEST_F(DeviceWatchTest, ADeviceThatFailsIsNewsOnceAndSaysWhy) {
  EXPECT_EQ(watch_.Look().failed, "");
  Fail(1, "smoke");
  DeviceNews news = watch_.Look();
  EXPECT_EQ(news.failed, "device cuda:1: smoke");
  EXPECT_TRUE(news.any_left);
  EXPECT_EQ(watch_.Look().failed, "") << "it was said";
  Fail(0, "ash");
  news = watch_.Look();
  EXPECT_EQ(news.failed, "device cuda:0: ash; device cuda:1: smoke");
  EXPECT_TRUE(news.any_left);
}

TEST_F(DeviceWatchTest, TheLastOneLeavesNoneAndAllAreNamed) {
  Fail(2, "flood");
  EXPECT_TRUE(watch_.Look().any_left);
  Fail(0, "ash");
  Fail(1, "smoke");
  const DeviceNews news = watch_.Look();
  EXPECT_FALSE(news.any_left);
  EXPECT_EQ(news.failed, "device cuda:0: ash; device cuda:1: smoke; device cpu:0: flood");
  EXPECT_FALSE(watch_.Look().any_left) << "nor does one come back";
}

}  // namespace
}  // namespace cellbatch

// What cellbatch-whatif prints of a record is what the record's world says, and each flag changes what it is about.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "scheduler/offline/world/recorded_world.h"
#include "scheduler/policy/make_rules.h"
#include "scheduler/scheduler_test_world.h"
#include "server/policy/policy_codec.h"
#include "server/record/record_codec.h"
#include "server/record/record_writer.h"

namespace cellbatch {
namespace {

using scheduler_testing::MakeModel;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Said {
  int status;
  std::string text;  // stdout and stderr
};

Said WhatIfSays(const std::string& flags) {
  std::FILE* const pipe = popen(("server/learn/cellbatch-whatif " + flags + " 2>&1").c_str(), "r");
  Said said;
  std::array<char, 4096> some;
  while (const size_t n = std::fread(some.data(), 1, some.size(), pipe)) {
    said.text.append(some.data(), n);
  }
  said.status = WEXITSTATUS(pclose(pipe));
  return said;
}

class WhatIfMainTest : public ::testing::Test {
 protected:
  // Sixty sentences and trees, 3 ms apart, of which one is cancelled before it runs.
  void SetUp() override {
    auto writer = RecordWriter::Open(path_, 1 << 20);
    ASSERT_TRUE(writer.ok()) << writer.status();
    scheduler_testing::WorldOptions options;
    options.cost = {.task_ns = 200'000, .node_ns = 50'000};
    options.calibrate = true;
    options.fingerprints = false;
    options.scheduler.recorder = writer->get();
    options.scheduler.batch_limit = 16;
    {
      scheduler_testing::World world(options);
      PolicySpec policy;
      policy.kind = PolicyKind::kAgenda;
      world.Add(model_, *MakeRules(policy, {}, model_->types.size()));
      const int64_t begin_ns = world.time().now_ns();
      for (int i = 0; i < 60; ++i) {
        while (world.time().now_ns() < begin_ns + i * 3'000'000 && world.Step()) {
        }
        world.time().AdvanceTo(std::max(world.time().now_ns(), begin_ns + i * 3'000'000));
        auto request =
            i % 2 == 0 ? world.Sentence(model_, 1 + i % 9) : world.Tree(model_, 2 + i % 7);
        request->times.received = world.time().now_ns();
        const RequestId id = world.Submit(std::move(request), 1);
        if (i == 30) world.scheduler().Notify(id, News::kCancelled);
      }
      world.Run();
      world.Finished();
    }
    (*writer)->Close();
    const auto run = ReadRecord(path_, 1 << 20);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto recorded = WorldOfRecord(*run, {});
    ASSERT_TRUE(recorded.ok()) << recorded.status();
    recorded_ = *recorded;
  }
  static std::string Times(double mean_ns, int64_t p50_ns, int64_t p99_ns) {
    return fmt::format("mean {:.2f}, p50 {:.2f}, p99 {:.2f} ms", mean_ns * 1e-6,
                       static_cast<double>(p50_ns) * 1e-6, static_cast<double>(p99_ns) * 1e-6);
  }
  double Rate() const {
    return static_cast<double>(recorded_.arrivals.size()) /
           (static_cast<double>(recorded_.arrivals.back().at_ns) * 1e-9);
  }
  // What the world says, in the words of the program.
  std::string Predicted(const PolicySpec& policy, double times, int devices) const {
    const WorldReport report = WhatIf(recorded_, policy, times, devices);
    return fmt::format(
        "predicted  {:.1f}/s, {}: {}; {:.1f} answered/s, devices {:.0f} % busy, {:.1f} cells a "
        "task\n",
        Rate() * times, Name(policy.kind), Times(report.mean_ns, report.p50_ns, report.p99_ns),
        report.requests_per_s, 100 * report.device_busy, report.mean_fill());
  }

  const std::string path_ = ::testing::TempDir() + "/what_if.record";
  const std::shared_ptr<Model> model_ = MakeModel(ModelId(1), {16, 16, 16, 16, 16});
  RecordedWorld recorded_;
};

TEST_F(WhatIfMainTest, WhatWasServedIsPrintedBesideWhatIsPredicted) {
  const Said said = WhatIfSays(path_);
  EXPECT_EQ(said.status, 0) << said.text;
  double sum = 0;
  for (const int64_t ns : recorded_.served_ns) sum += static_cast<double>(ns);
  EXPECT_THAT(said.text, StartsWith("world      1 devices, 1 tasks in flight each"));
  EXPECT_THAT(said.text,
              HasSubstr(fmt::format("served     59 requests, {:.1f}/s, agenda: {}\n", Rate(),
                                    Times(sum / 59, QuantileOf(recorded_.served_ns, 0.5),
                                          QuantileOf(recorded_.served_ns, 0.99)))));
  EXPECT_THAT(said.text, HasSubstr(Predicted(recorded_.policy, 1, 1)));
  EXPECT_THAT(said.text, HasSubstr("left out   1 requests that failed, were cancelled or grew\n"));
  EXPECT_THAT(said.text, Not(HasSubstr("elsewhere")));
  EXPECT_THAT(said.text, Not(HasSubstr("taken over")));
}

TEST_F(WhatIfMainTest, ARateDevicesAndAPolicyAreWhatIsPredicted) {
  PolicySpec greedy;
  greedy.kind = PolicyKind::kLbGreedy;
  EXPECT_NE(Predicted(recorded_.policy, 1, 1), Predicted(recorded_.policy, 2, 1));
  EXPECT_THAT(WhatIfSays(path_ + " --rate 2").text, HasSubstr(Predicted(recorded_.policy, 2, 1)));
  const std::string two = WhatIfSays(path_ + " --devices=2 --rate=3").text;
  EXPECT_THAT(two, HasSubstr(Predicted(recorded_.policy, 3, 2)));
  // As a scheduler of two devices chooses it, not as one of one did.
  EXPECT_THAT(two, StartsWith("world      2 devices, 2 tasks in flight each"));
  EXPECT_THAT(WhatIfSays("--policy lb_greedy --model=model1 " + path_).text,
              HasSubstr(Predicted(greedy, 1, 1)));
  const std::string file = ::testing::TempDir() + "/what_if.policy.textproto";
  std::ofstream(file) << PolicyText(ToPolicyFile(greedy, *recorded_.model));
  EXPECT_THAT(WhatIfSays(path_ + " --policy " + file).text, HasSubstr(Predicted(greedy, 1, 1)));
}

TEST_F(WhatIfMainTest, WhatCannotBeReadIsNamedAndEndsWithOne) {
  for (const auto& [flags, text] :
       {std::pair(path_ + " --model other", std::string("the record has no model \"other\"")),
        std::pair(path_ + " --policy fsm", std::string("fsm")),
        std::pair(path_ + " --policy sufficient", std::string("sufficient")),
        std::pair(path_ + " --policy " + path_, path_),
        std::pair(path_ + ".absent", path_ + ".absent: it cannot be read")}) {
    const Said said = WhatIfSays(flags);
    EXPECT_EQ(said.status, 1) << flags;
    EXPECT_THAT(said.text, StartsWith("cellbatch-whatif: ")) << flags;
    EXPECT_THAT(said.text, HasSubstr(text)) << flags;
  }
}

// A record is played with the join that it was made with.
TEST(WhatIfJoinTest, APolicyThatTheRecordsJoinDoesNotTakeIsAnErrorAndEndsWithOne) {
  const std::string path = ::testing::TempDir() + "/what_if_padded.record";
  auto writer = RecordWriter::Open(path, 1 << 20);
  ASSERT_TRUE(writer.ok()) << writer.status();
  scheduler_testing::WorldOptions options;
  options.calibrate = true;
  options.fingerprints = false;
  options.scheduler.recorder = writer->get();
  {
    const std::shared_ptr<Model> model = MakeModel(ModelId(1), {16, 16, 16, 16, 16});
    scheduler_testing::World world(options);
    const JoinSpec join = {.whole_graphs = 8,
                           .batching = {.padding = GraphBatching::Padding::kLongest}};
    world.Add(model, *MakeRules({}, join, model->types.size()));
    for (int i = 0; i < 10; ++i) world.Submit(world.Sentence(model, 1 + i % 3), 1);
    world.Run();
    world.Finished();
  }
  (*writer)->Close();
  EXPECT_EQ(WhatIfSays(path).status, 0) << WhatIfSays(path).text;
  const Said refused = WhatIfSays(path + " --policy lb_greedy");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.text, StartsWith("cellbatch-whatif: policy lb_greedy looks at single nodes"));
}

TEST_F(WhatIfMainTest, AFlagThatCannotBeIsNamedWithWhatItTakesAndEndsWithTwo) {
  for (const std::string value :
       {"0", "-1", "1e-12", "0.0009", "1000.1", "nan", "inf", "1x", "x"}) {
    const Said said = WhatIfSays(path_ + " --rate=" + value);
    EXPECT_EQ(said.status, 2) << value;
    EXPECT_EQ(said.text,
              "cellbatch-whatif: --rate cannot be \"" + value + "\", it takes 0.001 to 1000\n");
  }
  for (const std::string value : {"0", "9", "64", "1.5", "-1"}) {
    const Said said = WhatIfSays(path_ + " --devices=" + value);
    EXPECT_EQ(said.status, 2) << value;
    EXPECT_EQ(said.text,
              "cellbatch-whatif: --devices cannot be \"" + value + "\", it takes 1 to 8\n");
  }
  EXPECT_EQ(WhatIfSays(path_ + " --rate=1000 --devices=8").status, 0);
  const Said help = WhatIfSays("--help"), nothing = WhatIfSays(""),
             two = WhatIfSays(path_ + " " + path_);
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(two.status, 2);
  EXPECT_EQ(nothing.text, help.text);
  EXPECT_EQ(two.text, help.text);
}

}  // namespace
}  // namespace cellbatch

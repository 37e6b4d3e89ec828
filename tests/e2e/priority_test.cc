// Priorities of requests over the wire: one place, held while they queue, and the order in which they are answered.
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/seq2seq/translators.h"

namespace cellbatch {
namespace {

constexpr int32_t kManySteps =
    1'000'000;                    // of a decoder that nobody waits for: forty times all that queue
constexpr int64_t kSteps = 2000;  // of each of those that queue

class PriorityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string repository = NewRepository();
    AddCounterModel(repository, {.largest = 250, .max_decode_steps = kManySteps});
    std::ofstream(repository + "/counter/config.textproto", std::ios::app)
        << "\npriority_levels: 3\ndefault_priority_level: 2\n";
    // One cell at a time, and nobody grows old.
    server_ =
        ServerProcess::Serving(repository, {"--batch-limit=1", "--priority-ageing=1000000",
                                            "--row-budget=256MiB", "--max-queued-cells=10000000"});
    ASSERT_NE(server_, nullptr);
    auto client = Client::Connect({.url = server_->grpc()});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  static InferInput Count(int64_t priority) {
    return {.model = "counter",
            .inputs = {Int32Tensor("SOURCE", {2}, {7, 60})},
            .outputs = {"LENGTH"},
            .parameters = {{"decode_steps", kSteps}, {"priority", priority}}};
  }
  double InTheScheduler() const {
    const std::string labels = "{model=\"counter\",version=\"1\"}";
    return Metric(*server_, "cellbatch_running_requests" + labels) +
           Metric(*server_, "cellbatch_queued_requests" + labels);
  }
  void WaitUntilThereAre(double requests) const {
    while (InTheScheduler() != requests) std::this_thread::yield();
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(PriorityTest, AnUrgentRequestOvertakesThoseThatQueueBehindAFullServer) {
  // Whoever holds the place is the most urgent of all, so it gives it to nobody.
  DecodeInput endless{
      .model = "counter", .source = {.tokens = {7, 60}}, .decode_steps = kManySteps, .priority = 1};
  std::mutex mutex;
  std::condition_variable changed;
  bool begun = false, ended = false;
  const Call holder = client_->DecodeAsync(
      endless, {},
      [&](const DecodedWord&) {
        const std::lock_guard lock(mutex);
        begun = true;
        changed.notify_all();
        return true;
      },
      [&](const absl::StatusOr<DecodeResult>& result) {
        EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
        const std::lock_guard lock(mutex);
        ended = true;
        changed.notify_all();
      });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun || ended; });
    ASSERT_FALSE(ended);
  }

  // Levels in the order in which they are answered. The default is 2.
  std::vector<int64_t> answered;
  constexpr size_t kQueued = 12;
  double there = 1;
  const auto send = [&](int64_t priority) {
    client_->InferAsync(Count(priority), {},
                        [&, priority](const absl::StatusOr<InferResult>& result) {
                          EXPECT_TRUE(result.ok()) << result.status();
                          const std::lock_guard lock(mutex);
                          answered.push_back(priority);
                          changed.notify_all();
                        });
    WaitUntilThereAre(++there);
  };
  for (size_t i = 0; i + 2 < kQueued; ++i) send(3);
  send(0);
  send(1);
  holder.Cancel();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ended && answered.size() == kQueued; });
  std::vector<int64_t> expected(kQueued, 3);
  expected[0] = 1;
  expected[1] = 0;
  EXPECT_EQ(answered, expected);
}

TEST_F(PriorityTest, TheConfigurationSaysTheLevelsAndALevelThatIsNoneIsRefused) {
  const auto config = client_->Config("counter");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_NE(config->json.find("priority_levels"), std::string::npos) << config->json;
  EXPECT_EQ(client_->Infer(Count(4)).status(),
            absl::InvalidArgumentError("parameter priority is 4, allowed are 0 (default) to 3"));
  const auto status =
      client_->Decode({.model = "counter", .source = {.tokens = {7}}, .priority = 9}, {},
                      [](const DecodedWord&) { return true; });
  EXPECT_TRUE(absl::IsInvalidArgument(status.status())) << status.status();
}

}  // namespace
}  // namespace cellbatch

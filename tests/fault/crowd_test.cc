// Many at once, and a disk that takes nothing (serving.md 4.4: T6, L6, L7), against the real server: whoever is beside
// them has its answer, with the same bits. What must not get slow is said in answers, never in milliseconds.
#include <sys/resource.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fault/attacks/many_calls.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

class CrowdTest : public OwnServerTest {};

// All but a few wait in line, and leave at once: nobody computes for them, and nobody else is lost.
TEST_F(CrowdTest, T6TenThousandCancelsAtOnceEndEachCallOnceAndHarmNobodyBesideThem) {
  constexpr int kCalls = 10'000, kSteps = 3000;
  ASSERT_NO_FATAL_FAILURE(
      Serve({"--batch-limit=4", "--max-queued-requests=20000", "--max-queued-cells=100000000"}));
  const auto of_slow = [](const MetricsPage& page, const std::string& outcome) {
    return page.Sum("cellbatch_requests_total", {R"(model="slow")", "outcome=\"" + outcome + "\""});
  };
  GrpcCaller beside(server_->grpc());
  std::atomic<bool> over = false;
  std::thread honest([&] {
    while (!over && !::testing::Test::HasFailure()) ExpectGood(beside);
  });
  ManyCalls crowd(*caller_, kCalls, Words(std::vector<int32_t>(kSteps, 1), "slow"));
  WaitForPage(*server_, [&](const MetricsPage& page) {
    return page.Admitted() + of_slow(page, "ok") >= kCalls;
  });
  crowd.Cancel();
  const int cancelled = crowd.Ended(grpc::StatusCode::CANCELLED);
  over = true;
  honest.join();
  EXPECT_GT(cancelled, kCalls / 2);
  EXPECT_EQ(crowd.Ended(grpc::StatusCode::OK), kCalls - cancelled);
  const MetricsPage page = WaitUntilEmpty(*server_);
  // What a client cancels may have been answered already.
  EXPECT_LE(of_slow(page, "cancelled"), cancelled);
  EXPECT_EQ(of_slow(page, "cancelled") + of_slow(page, "ok"), kCalls);
  EXPECT_LT(page.Steps("slow"), kSteps * (of_slow(page, "ok") + 100))
      << "of those who left, some that ran had begun";
  EXPECT_EQ(page.Ended("ok") + page.Ended("cancelled"), page.Ended());
  ExpectGood(*caller_);
  End();
}

TEST_F(CrowdTest, L7AHundredScrapersAtOnceGetWholePagesAndRequestsTheirAnswers) {
  constexpr int kScrapers = 100, kAnswers = 200;
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  std::atomic<bool> over = false;
  std::atomic<int> pages = 0, broken = 0;
  std::vector<std::thread> scrapers;
  for (int i = 0; i < kScrapers; ++i) {
    scrapers.emplace_back([&] {
      do {
        const std::string page = HttpGet(server_->metrics(), "/metrics");
        // Its first family and its last line are there.
        (page.starts_with("200 # HELP") && page.ends_with("\n") ? pages : broken) += 1;
      } while (!over);
    });
  }
  for (int i = 0; i < kAnswers; ++i) ExpectGood(*caller_);
  over = true;
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_GE(pages, kScrapers);
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(WaitUntilEmpty(*server_).Ended("ok"), kAnswers);
  End();
}

// Every write says that no space is left.
TEST_F(CrowdTest, L6ADiskThatIsFullEndsTheRecordAloudAndServingGoesOn) {
  constexpr const char* kSaid =
      "--record /dev/full: No space left on device; nothing more is recorded";
  ASSERT_NO_FATAL_FAILURE(Serve({"--record=/dev/full"}));
  while (server_->Log().find(kSaid) == std::string::npos) {
    ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_));
  }
  for (int i = 0; i < 20; ++i) ExpectGood(*caller_);
  WaitUntilEmpty(*server_);
  const std::string log = server_->Log();
  EXPECT_EQ(log.find(kSaid), log.rfind(kSaid)) << "said once";
  End();
}

// Where files may not grow beyond a size (ulimit -f) the system would end a process that tries.
TEST_F(CrowdTest, L6AFileThatMayNotGrowEndsTheRecordAloudAndServingGoesOn) {
  const std::string record = ::testing::TempDir() + "/bounded.record";
  const std::string said = "--record " + record + ": File too large; nothing more is recorded";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight = {1 << 16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  ASSERT_NO_FATAL_FAILURE(Serve({"--record=" + record}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  while (server_->Log().find(said) == std::string::npos) {
    ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_));
  }
  for (int i = 0; i < 20; ++i) ExpectGood(*caller_);
  WaitUntilEmpty(*server_);
  End();
}

}  // namespace
}  // namespace cellbatch

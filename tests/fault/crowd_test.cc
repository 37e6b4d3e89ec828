// Many at once, and a disk that takes nothing (serving.md 4.4: T6, L6, L7), against the real server: whoever is beside
// them has its answer, with the same bits. What must not get slow is said in answers, never in milliseconds.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

// Calls that are begun and cancelled from one thread.
class ManyCalls {
 public:
  ManyCalls(GrpcCaller& caller, int calls, const inference::ModelInferRequest& request) {
    for (int i = 0; i < calls; ++i) {
      Call& call = *calls_.emplace_back(std::make_unique<Call>());
      call.reader = caller.stub().AsyncModelInfer(&call.context, request, &done_);
      call.reader->Finish(&call.answer, &call.status, &call);
    }
  }
  void Cancel() {
    for (const auto& call : calls_) call->context.TryCancel();
  }
  // How many ended so, once all have ended.
  int Ended(grpc::StatusCode code) {
    void* tag = nullptr;
    for (bool ok = false; finished_ < calls_.size() && done_.Next(&tag, &ok); ++finished_) {
    }
    int ended = 0;
    for (const auto& call : calls_) ended += call->status.error_code() == code ? 1 : 0;
    return ended;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    inference::ModelInferResponse answer;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
  };
  grpc::CompletionQueue done_;
  std::vector<std::unique_ptr<Call>> calls_;
  size_t finished_ = 0;
};

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

}  // namespace
}  // namespace cellbatch

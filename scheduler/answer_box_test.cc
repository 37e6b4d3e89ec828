#include "scheduler/answer_box.h"

#include <algorithm>
#include <thread>

#include "gtest/gtest.h"
#include "scheduler/scheduler.h"

namespace cellbatch {
namespace {

class SetClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns; }
  int64_t now_ns = 5000;
};

// Requests whose manager is the test: their blocks hold nothing but a head.
class AnswerBoxTest : public ::testing::Test {
 protected:
  static constexpr int kRequests = 4;
  AnswerBoxTest()
      : slots_(kRequests), box_(1, slots_, clock_, [](const Request&) {
          return absl::InternalError("device sim:0: smoke");
        }) {}

  RequestBlock& Make() {
    auto request = std::make_unique<Request>();
    const std::optional<RequestId> id = slots_.Acquire();
    EXPECT_TRUE(id.has_value()) << "a slot was not given back";
    RequestBlock& block = blocks_[id->slot];
    block.slot = id->slot;
    block.request = request.release();
    block.outcome = Outcome::kOk;
    return block;
  }
  void Tell(RequestBlock& block) {
    box_.outboxes()[0]->Put(&block);
    box_.outboxes()[0]->Publish();
  }
  int Take() { return box_.Take(OutboxId(0), absl::MakeSpan(out_)); }

  SetClock clock_;
  RequestSlots slots_;
  RequestBlock blocks_[kRequests] = {};
  Delivery out_[kRequests];
  AnswerBox box_;
};

TEST_F(AnswerBoxTest, AnAnswerCarriesWhatWasCountedAndGivesItsSlotBack) {
  for (int i = 0; i < 3 * kRequests; ++i) {
    RequestBlock& block = Make();
    Request* const request = block.request;
    block.first_start_ns = 1000;
    block.last_end_ns = 3000;
    block.nodes_executed = 7;
    block.overrun_nodes = 2;
    EXPECT_EQ(Take(), 0);
    Tell(block);
    ASSERT_EQ(Take(), 1);
    EXPECT_EQ(out_[0].kind, Delivery::Kind::kDone);
    EXPECT_EQ(out_[0].done.get(), request);
    EXPECT_TRUE(request->status.ok());
    EXPECT_EQ(request->times.first_task_start, 1000);
    EXPECT_EQ(request->times.last_task_end, 3000);
    EXPECT_EQ(request->nodes_executed, 7);
    EXPECT_EQ(request->overrun_nodes, 2);
  }
}

TEST_F(AnswerBoxTest, AFailedDevicesRequestSaysWhichAndWhy) {
  RequestBlock& block = Make();
  block.outcome = Outcome::kDeviceFailed;
  Tell(block);
  ASSERT_EQ(Take(), 1);
  EXPECT_EQ(out_[0].done->status, absl::InternalError("a device failed: device sim:0: smoke"));
}

TEST_F(AnswerBoxTest, WordsAreToldOnceEachAndTheAnswerIsTheLast) {
  RequestBlock& block = Make();
  block.mails = true;
  block.words.store(2);
  block.mail.store(RequestBlock::kInOutbox);
  Tell(block);
  ASSERT_EQ(Take(), 1);
  EXPECT_EQ(out_[0].kind, Delivery::Kind::kWords);
  EXPECT_EQ(out_[0].words, 2);
  EXPECT_EQ(block.mail.load(), 0) << "it may be put again";
  block.mail.store(RequestBlock::kInOutbox);
  Tell(block);
  EXPECT_EQ(Take(), 0) << "nothing new";
  block.words.store(3);
  block.mail.store(RequestBlock::kInOutbox | RequestBlock::kAnswered);
  Tell(block);
  ASSERT_EQ(Take(), 1);
  EXPECT_EQ(out_[0].kind, Delivery::Kind::kDone);
  EXPECT_EQ(out_[0].words, 3);
}

TEST_F(AnswerBoxTest, WhoIsWokenBeforeItWaitsDoesNotWait) {
  box_.Wake(OutboxId(0));
  box_.WaitForFinished(OutboxId(0), absl::InfiniteDuration());
}

// Of requests submitted at 0, as many as it takes for the mean to settle.
TEST_F(AnswerBoxTest, ANapIsA32ndOfWhatAnswersTookWithinItsBounds) {
  for (const int64_t took_ns : {100'000, 8'000'000, 400'000'000, 3'200'000}) {
    clock_.now_ns = took_ns;
    for (int i = 0; i < 60; ++i) {
      RequestBlock& block = Make();
      block.first_start_ns = took_ns - 1000;  // waiting in line counts, too
      Tell(block);
      ASSERT_EQ(Take(), 1);
    }
    const auto nap =
        static_cast<double>(std::clamp(took_ns / kTookPerNap, kLeastAnswerNapNs, kMostAnswerNapNs));
    EXPECT_NEAR(static_cast<double>(box_.NapNs(OutboxId(0))), nap, nap / 100) << took_ns;
  }
}

TEST_F(AnswerBoxTest, AnOldStreamsEndDoesNotKeepOthersWaiting) {
  clock_.now_ns = int64_t{3600} * 1'000'000'000;
  RequestBlock& block = Make();
  block.mails = true;
  block.first_start_ns = 1000;
  block.mail.store(RequestBlock::kInOutbox | RequestBlock::kAnswered);
  Tell(block);
  ASSERT_EQ(Take(), 1);
  EXPECT_EQ(box_.NapNs(OutboxId(0)), kLeastAnswerNapNs);
}

// Times out where a ring is lost.
TEST_F(AnswerBoxTest, NoAnswerIsSleptThrough) {
  constexpr int kRounds = 3000;
  std::atomic<int> taken = 0;
  std::thread taker([&] {
    while (taken.load() < kRounds) {
      box_.WaitForFinished(OutboxId(0), absl::InfiniteDuration());
      taken += Take();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    Tell(Make());
    box_.bells()[0]->Ring();
    while (taken.load() <= i) std::this_thread::yield();
  }
  taker.join();
}

}  // namespace
}  // namespace cellbatch

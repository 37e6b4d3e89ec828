// Deadlines that pass and clients that leave at every stage of a request's life (serving.md 4.4: T1, T2, T3, T5, T8), against
// the real server. A client's library answers by itself when its deadline passes or it cancels: what the server did is
// read from the server's counts. Nothing here is measured in time; what must come early is a share of a request's steps.
#include <csignal>
#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/background_call.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

// Of a request's steps, at most so many after the server could know that they are in vain: on a machine that is busy with
// other things its threads are told late. A request that runs to its end, or to its middle, is far beyond.
constexpr double kFewSteps = kSlowSteps / 10.0;
// Time to get to the stage in which it is to pass, on a machine that is busy.
constexpr std::chrono::seconds kDeadline(5);

inference::ModelInferRequest WithTimeout(inference::ModelInferRequest request,
                                         std::chrono::microseconds timeout) {
  (*request.mutable_parameters())["timeout"].set_int64_param(timeout.count());
  return request;
}

class InterruptionTest : public OwnServerTest {
 protected:
  // Rows for one slow request and a half: the second one waits in line.
  void SetUp() override { Serve({"--batch-limit=4", "--row-budget=80MiB"}); }
  // Nothing is left of what was cut off, nothing is computed for it any more, and the next request is right.
  void TearDown() override {
    const double cells = WaitUntilEmpty(*server_).Cells("slow");
    ExpectGood(*caller_);
    EXPECT_EQ(MetricsPage(*server_).Cells("slow"), cells);
    End();
  }
  MetricsPage Page() const { return MetricsPage(*server_); }
  MetricsPage WaitFor(const std::function<bool(const MetricsPage&)>& holds) const {
    return WaitForPage(*server_, holds);
  }
  // The scheduler is empty, and somebody was answered: who answers counts a moment later.
  MetricsPage WaitUntilOneEnded() const {
    WaitUntilEmpty(*server_);
    return WaitFor([](const MetricsPage& p) { return p.Ended() >= 1; });
  }
  // A slow request that runs, and has all the rows that another one would need.
  std::unique_ptr<BackgroundCall> Blocker() {
    auto blocker = std::make_unique<BackgroundCall>(*caller_, SlowRequest());
    WaitFor([](const MetricsPage& page) { return page.Running() == 1 && page.Steps("slow") > 0; });
    return blocker;
  }
  // The server sleeps while the deadline passes, so that what runs beside it does not end before it on any machine.
  void SleepThroughTheDeadline() const {
    server_->Signal(SIGSTOP);
    std::this_thread::sleep_for(kDeadline);
    server_->Signal(SIGCONT);
  }
  // The blocker alone is there, and has not been disturbed.
  void ExpectOnlyRunning(const BackgroundCall& blocker) const {
    // A request is answered a moment before the manager counts it out.
    const MetricsPage page = WaitFor([&](const MetricsPage& p) {
      return (p.Queued() == 0 && p.Admitted() == 1 && p.Running() == 1) || blocker.done();
    });
    EXPECT_EQ(page.Sum("cellbatch_queued_cells"), 0);
    EXPECT_FALSE(blocker.done()) << "the request before it in line";
    EXPECT_LT(page.Steps("slow"), kSlowSteps);
  }
};

// gRPC's own client would not even send them. (Its least time is a millisecond; nothing at all is nothing.)
TEST_F(InterruptionTest, T1ADeadlineThatHasPassedOnArrivalIsAnsweredWithoutACell) {
  constexpr int kCalls = 50;
  const std::string body = Words({1, 2, 3}).SerializeAsString();
  const std::string late = "\x01" + std::to_string(StatusCode::DEADLINE_EXCEEDED);
  for (int i = 0; i < kCalls; ++i) {
    TcpConnection client(server_->grpc());
    ASSERT_TRUE(client.Send(http2::kPreface + http2::Frame(http2::kSettings, http2::kNone, 0, "") +
                            http2::Infer(1, body, {{"grpc-timeout", "0n"}})));
    const std::string answer = client.ReceiveUntil("grpc-status" + late);
    EXPECT_NE(answer.find("grpc-status" + late), answer.npos) << answer;
  }
  // gRPC itself may have ended some of them before the server saw them.
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Cells("words"), 0);
  EXPECT_EQ(page.Ended("deadline") + page.Ended("cancelled"), page.Ended());
  EXPECT_LE(page.Ended(), kCalls);
}

TEST_F(InterruptionTest, T1ATimeoutThatHasPassedWhenTheRequestIsReadIsAnsweredWithoutACell) {
  constexpr int kCalls = 50;
  const auto late = WithTimeout(SlowRequest(), std::chrono::microseconds(1));
  for (int i = 0; i < kCalls; ++i) {
    inference::ModelInferResponse answer;
    EXPECT_EQ(caller_->Infer(late, answer).error_code(), StatusCode::DEADLINE_EXCEEDED);
  }
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Cells("slow"), 0);
  EXPECT_EQ(page.Ended("deadline"), kCalls);
  EXPECT_EQ(page.Ended(), kCalls);
}

// By T(b) of a machine that others slow down a batch of one may be a full one, and who comes behind it be refused.
class InLineTest : public InterruptionTest {
 protected:
  void SetUp() override {
    Serve({"--batch-limit=4", "--row-budget=80MiB", "--deadline-admission=false"});
  }
};

TEST_F(InLineTest, T2ADeadlineThatPassesInLineEndsTheWaitThere) {
  const auto blocker = Blocker();
  BackgroundCall queued(*caller_, WithTimeout(SlowRequest(), kDeadline));
  const MetricsPage in_line =
      WaitFor([&](const MetricsPage& p) { return p.Queued() == 1 || queued.done(); });
  EXPECT_EQ(in_line.Sum("cellbatch_queued_cells"), kSlowSteps);
  SleepThroughTheDeadline();
  // The server's answer: the client knows of no deadline.
  EXPECT_EQ(queued.Wait().error_code(), StatusCode::DEADLINE_EXCEEDED)
      << queued.Wait().error_message();
  ExpectOnlyRunning(*blocker);
  EXPECT_EQ(Page().Ended("deadline"), 1);
  EXPECT_EQ(Page().Ended(), 1);
}

TEST_F(InLineTest, T2TheClientsOwnDeadlineEndsTheWaitInLineToo) {
  const auto blocker = Blocker();
  BackgroundCall queued(*caller_, SlowRequest(), std::chrono::system_clock::now() + kDeadline);
  const MetricsPage in_line =
      WaitFor([&](const MetricsPage& p) { return p.Queued() == 1 || queued.done(); });
  EXPECT_EQ(in_line.Queued(), 1);
  SleepThroughTheDeadline();
  EXPECT_EQ(queued.Wait().error_code(), StatusCode::DEADLINE_EXCEEDED)
      << queued.Wait().error_message();
  ExpectOnlyRunning(*blocker);
  // gRPC may tell the server that the call is over just before the server's own clock says why.
  EXPECT_EQ(Page().Ended("deadline") + Page().Ended("cancelled"), 1);
  EXPECT_EQ(Page().Ended(), 1);
}

TEST_F(InterruptionTest, T3ADeadlineThatPassesInTheMiddleEndsTheStepsAndFreesTheRows) {
  BackgroundCall call(*caller_, WithTimeout(SlowRequest(), kDeadline));
  const MetricsPage middle =
      WaitFor([&](const MetricsPage& p) { return p.Steps("slow") > 0 || call.done(); });
  EXPECT_GT(middle.RowsUsed(), 0);
  ASSERT_FALSE(call.done()) << "it was to be caught in the middle";
  SleepThroughTheDeadline();  // every step after it is counted below
  EXPECT_EQ(call.Wait().error_code(), StatusCode::DEADLINE_EXCEEDED);
  const MetricsPage after = WaitUntilOneEnded();
  EXPECT_LT(after.Steps("slow"), middle.Steps("slow") + kFewSteps);
  EXPECT_EQ(after.Ended("deadline"), 1);
  EXPECT_EQ(after.Ended(), 1);
}

TEST_F(InterruptionTest, T5ACancelBeforeTheServerHasReadTheRequest) {
  const auto blocker = Blocker();  // so that it could only wait in line
  TcpConnection client(server_->grpc());
  server_->Signal(SIGSTOP);
  constexpr uint32_t kCancel = 8;
  ASSERT_TRUE(
      client.Send(http2::kPreface + http2::Frame(http2::kSettings, http2::kNone, 0, "") +
                  http2::Infer(1, SlowRequest().SerializeAsString()) +
                  http2::Frame(http2::kRstStream, http2::kNone, 1, http2::BigEndian(kCancel, 4)) +
                  http2::Infer(3, Words({1, 2, 3}).SerializeAsString())));
  server_->Signal(SIGCONT);
  // The next request on that connection is answered: what came before it has been read.
  EXPECT_NE(client.ReceiveUntil("grpc-status").find("grpc-status"), std::string::npos);
  ExpectOnlyRunning(*blocker);
  const MetricsPage page = WaitFor([](const MetricsPage& p) { return p.Ended() >= 1; });
  EXPECT_EQ(page.Ended("ok"), 1);
  EXPECT_EQ(page.Ended("cancelled"), page.Ended() - 1);
  EXPECT_LE(page.Ended(), 2);
}

TEST_F(InterruptionTest, T5ACancelInLine) {
  const auto blocker = Blocker();
  BackgroundCall queued(*caller_, SlowRequest());
  WaitFor([](const MetricsPage& page) { return page.Queued() == 1; });
  queued.Cancel();
  EXPECT_EQ(queued.Wait().error_code(), StatusCode::CANCELLED);
  ExpectOnlyRunning(*blocker);
  EXPECT_EQ(Page().Ended("cancelled"), 1);
  EXPECT_EQ(Page().Ended(), 1);
}

TEST_F(InterruptionTest, T5ACancelWhileTasksRun) {
  const auto running = Blocker();
  const double before = Page().Steps("slow");
  running->Cancel();
  EXPECT_EQ(running->Wait().error_code(), StatusCode::CANCELLED);
  const MetricsPage after = WaitUntilOneEnded();
  EXPECT_LT(after.Steps("slow"), before + kFewSteps);
  EXPECT_EQ(after.Ended("cancelled"), 1);
  EXPECT_EQ(after.Ended(), 1);
}

// A client that takes no byte of an answer: HTTP/2 holds it back until the client has gone.
TEST_F(InterruptionTest, T5ACancelBetweenTheLastCellAndTheResponse) {
  TcpConnection client(server_->grpc());
  constexpr uint32_t kCancel = 8;
  client.Send(http2::kPreface + http2::Setting(http2::kInitialWindowSize, 0) +
              http2::Infer(1, Words({1, 2, 3}).SerializeAsString()));
  WaitFor([](const MetricsPage& page) { return page.Ended("ok") == 1; });
  ASSERT_TRUE(
      client.Send(http2::Frame(http2::kRstStream, http2::kNone, 1, http2::BigEndian(kCancel, 4))));
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Steps("words"), 3);
  EXPECT_EQ(page.Ended("ok"), 1);
  EXPECT_EQ(page.Ended(), 1) << "and not cancelled as well";
}

TEST_F(InterruptionTest, T5ACancelAfterTheResponse) {
  grpc::ClientContext context;
  inference::ModelInferResponse answer;
  EXPECT_TRUE(caller_->stub().ModelInfer(&context, Words({1, 2, 3}), &answer).ok());
  context.TryCancel();
  ExpectGood(*caller_);
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Ended("ok"), 2);
  EXPECT_EQ(page.Ended(), 2);
}

// Wherever the cancel meets them: each call has one end, and the server counts one of the same kind.
TEST_F(InterruptionTest, T5CancelsAtAnyMomentEndEachCallOnce) {
  constexpr int kThreads = 4, kCallsEach = 50;
  std::atomic<int> ok = 0, cancelled = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < kCallsEach; ++i) {
        grpc::ClientContext context;
        std::thread canceller([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(50 * ((i * kThreads + t) % 40)));
          context.TryCancel();
        });
        inference::ModelInferResponse answer;
        const grpc::Status status =
            caller_->stub().ModelInfer(&context, Words(std::vector<int32_t>(100, 1)), &answer);
        canceller.join();
        EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::CANCELLED)
            << status.error_code() << status.error_message();
        status.ok() ? ++ok : ++cancelled;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ok + cancelled, kThreads * kCallsEach);
  // What a client cancelled may have been answered already, and what it cancelled early never came.
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_GE(page.Ended("ok"), ok);
  EXPECT_EQ(page.Ended("ok") + page.Ended("cancelled"), page.Ended());
  EXPECT_LE(page.Ended(), kThreads * kCallsEach);
}

// Four run at once; behind eight there is no end within the deadline, and the server knows before it computes.
TEST_F(InterruptionTest, T8WhatCannotEndBeforeItsDeadlineIsRefusedAtOnceAndComputesNothing) {
  std::vector<std::unique_ptr<BackgroundCall>> before;
  for (int i = 0; i < 8; ++i) {
    before.push_back(std::make_unique<BackgroundCall>(*caller_, SlowRequest()));
  }
  WaitFor([](const MetricsPage& p) { return p.Admitted() == 8 && p.Steps("slow") > 0; });
  const std::vector<std::string> reason = {R"(model="slow")", R"(reason="deadline")"};

  const auto deadline = std::chrono::system_clock::now() + kDeadline;
  const grpc::Status late = BackgroundCall(*caller_, SlowRequest(), deadline).Wait();
  EXPECT_EQ(late.error_code(), StatusCode::RESOURCE_EXHAUSTED) << late.error_message();
  EXPECT_NE(late.error_message().find("--deadline-admission"), std::string::npos)
      << late.error_message();
  grpc::ClientContext context;
  inference::ModelInferResponse answer;
  const grpc::Status by_parameter =
      caller_->stub().ModelInfer(&context, WithTimeout(SlowRequest(), kDeadline), &answer);
  EXPECT_EQ(by_parameter.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const auto hint = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(hint, context.GetServerTrailingMetadata().end());
  EXPECT_GT(std::stoi(std::string(hint->second.data(), hint->second.size())), 0);
  EXPECT_EQ(Page().Sum("cellbatch_rejected_total", reason), 2);

  // Of another model, and without a deadline, they are taken as ever.
  const auto soon = [&](grpc::ClientContext& c) {
    c.set_deadline(std::chrono::system_clock::now() + 100 * kDeadline);
  };
  EXPECT_TRUE(caller_->Infer(Words({1, 2, 3}), answer, soon).ok());
  const BackgroundCall patient(*caller_, SlowRequest());
  WaitFor([](const MetricsPage& p) { return p.Admitted() == 9; });
  EXPECT_EQ(Page().Sum("cellbatch_rejected_total", reason), 2);
}

TEST_F(InterruptionTest, T8NobodyIsRefusedForADeadlineWhileBatchesAreNotFull) {
  const auto blocker = Blocker();
  const auto deadline = std::chrono::system_clock::now() + kDeadline;
  const grpc::Status late = BackgroundCall(*caller_, SlowRequest(), deadline).Wait();
  EXPECT_EQ(late.error_code(), StatusCode::DEADLINE_EXCEEDED) << late.error_message();
  EXPECT_EQ(Page().Sum("cellbatch_rejected_total"), 0);
}

}  // namespace
}  // namespace cellbatch

// Answers that are large, or that nobody takes (serving.md 4.4, P13, L1, L2): known before they are allocated, bounded,
// counted until the client has them, and waited for when the server goes. What the server holds is read from its own
// counts.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/own_server_test.h"
#include "tests/fault/unread_answers.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

class AnswersTest : public OwnServerTest {
 protected:
  void ExpectAllIsWell() {
    WaitUntilEmpty(*server_);
    ExpectGood(*caller_);
    End();
  }
  // It has heard of its end, and takes no more.
  void BeginDrain() {
    server_->Signal(SIGTERM);
    grpc::Status refused;
    do {
      inference::ModelInferResponse answer;
      refused = caller_->Infer(Words({1}), answer);
    } while (refused.ok());
    EXPECT_EQ(refused.error_message(), "the server is shutting down") << "its own word";
  }
  // So many calls have ended, and what they computed with is given back.
  MetricsPage WaitForEnded(int calls) const {
    return WaitForPage(*server_, [&](const MetricsPage& page) {
      return page.Ended() == calls && page.Sum("cellbatch_admitted_cells") == 0;
    });
  }
};

int64_t FirstNumber(const std::string& text) {
  const size_t begin = text.find_first_of("0123456789");
  return begin == std::string::npos ? 0 : std::stoll(text.substr(begin));
}

// 0.5 MB that ask for 1.5 GB. What it may cost on top: its message, parsed and unfolded, several times over.
TEST_F(AnswersTest, AnAnswerLargerThanOneMayBeIsRefusedBeforeItIsAllocated) {
  constexpr int kSequences = 8;
  constexpr int64_t kAsked = int64_t{4} * kSequences * kSlowSteps * 768;
  constexpr int64_t kMayCost = 256 << 20;
  inference::ModelInferRequest request = SlowRequest(kSequences);
  request.add_outputs()->set_name("ALL_HIDDEN");
  struct Case {
    std::vector<std::string> flags;
    const char* limit;
  };
  for (const Case& by : {Case{{"--max-answer-bytes=1MiB"}, "1048576 (--max-answer-bytes)"},
                         Case{{"--max-answer-bytes=2047MiB", "--max-queued-bytes=64MiB"},
                              "--max-queued-bytes limits all requests together to 67108864"}}) {
    ASSERT_NO_FATAL_FAILURE(Serve(by.flags));
    ExpectGood(*caller_);
    const int64_t before = server_->PeakResidentBytes();
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr(by.limit));
    const int64_t named = FirstNumber(status.error_message());
    EXPECT_GE(named, kAsked) << status.error_message();
    EXPECT_LT(named, kAsked + kMayCost) << "with its message and what reading that takes";
    EXPECT_LT(server_->PeakResidentBytes() - before, kMayCost);
    EXPECT_EQ(MetricsPage(*server_).Sum("cellbatch_rejected_total", {R"(reason="bytes")"}), 1);
    ExpectAllIsWell();
  }
}

// P13, of unary calls.
TEST_F(AnswersTest, AnswersThatNobodyReadsAreCountedBoundedAndGoneWithTheirClient) {
  constexpr int kClients = 12, kCallsEach = 5, kCalls = kClients * kCallsEach;
  constexpr double kLimit = 16 << 20;
  ASSERT_NO_FATAL_FAILURE(Serve({"--max-queued-bytes=16MiB"}));
  std::vector<std::unique_ptr<UnreadCalls>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<UnreadCalls>(server_->grpc(), kCallsEach));
  }
  const MetricsPage held = WaitForEnded(kCalls);
  EXPECT_GE(held.Ended("ok"), 1);
  EXPECT_LE(held.Ended("ok"), kLimit / kLargeBytes);
  EXPECT_EQ(held.Ended("ok") + held.Ended("rejected"), kCalls);
  EXPECT_EQ(held.Admitted(), held.Ended("ok")) << "as long as they are not taken";
  EXPECT_GE(held.Sum("cellbatch_admitted_bytes"), kLargeBytes * held.Ended("ok"));
  EXPECT_LE(held.Sum("cellbatch_admitted_bytes"), kLimit);
  clients.clear();
  ExpectAllIsWell();
}

TEST_F(AnswersTest, L1ADrainWaitsUntilAnswersAreTakenAndTheyArriveWhole) {
  constexpr int kCalls = 4;
  ASSERT_NO_FATAL_FAILURE(Serve({"--drain-timeout=1h"}));
  inference::ModelInferResponse expected;
  ASSERT_TRUE(caller_->Infer(LargeAnswer(), expected).ok());
  UnreadCalls client(server_->grpc(), kCalls);
  WaitForEnded(kCalls + 1);
  BeginDrain();
  EXPECT_EQ(MetricsPage(*server_).Admitted(), kCalls) << "answered, and not taken";
  const std::vector<std::string> answers = client.Read();
  EXPECT_EQ(answers.size(), static_cast<size_t>(kCalls));
  for (const std::string& bytes : answers) {
    inference::ModelInferResponse answer;
    ASSERT_TRUE(answer.ParseFromString(bytes));
    ASSERT_EQ(answer.raw_output_contents_size(), 1);
    EXPECT_TRUE(answer.raw_output_contents(0) == expected.raw_output_contents(0)) << "in every bit";
  }
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

// The same over HTTP, of an answer that no socket's buffers hold.
TEST_F(AnswersTest, L1AnAnswerOverHttpCountsUntilItIsTakenAndADrainWaitsForIt) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--drain-timeout=1h"}));
  UnreadReply client(server_->http());
  const MetricsPage held = WaitForEnded(1);
  EXPECT_EQ(held.Admitted(), 1) << "and not taken";
  EXPECT_GE(held.Sum("cellbatch_admitted_bytes"), UnreadReply::kBytes);
  BeginDrain();
  EXPECT_EQ(MetricsPage(*server_).Admitted(), 1);
  EXPECT_TRUE(client.Read()) << client.Head();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

// L2: who never takes it is cut off when the drain ends, over gRPC and over HTTP, and the exit code says so.
TEST_F(AnswersTest, L2AnAnswerThatIsNotTakenWhenTheDrainEndsIsNotWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--drain-timeout=1ms"}));
  UnreadCalls client(server_->grpc(), 1);
  UnreadReply reply(server_->http());
  WaitForEnded(2);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 1) << server_->Log();
}

}  // namespace
}  // namespace cellbatch

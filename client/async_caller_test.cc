#include "client/async_caller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/messages.h"
#include "client/null_server.h"

namespace cellbatch {
namespace {

constexpr std::chrono::nanoseconds kNever = std::chrono::hours(10);
const char kTokens[12] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0};

// Of a request for the null server's model, up to kTokens.
std::string NullHeader() {
  return PreparedHeader({.model = "null", .inputs = {{"TOKENS", "INT32", {3}, ""}}},
                        sizeof(kTokens));
}

// Collects what completes, and lets the test wait for a number of completions.
class Collector {
 public:
  AsyncCaller::OnDone Callback() {
    return [this](const AsyncCaller::Done& done) {
      std::lock_guard lock(mutex_);
      codes_[done.tag].push_back(done.code);
      texts_.push_back(done.text);
      ++count_;
    };
  }
  void WaitFor(int count) const {
    while (count_ < count) {
      std::this_thread::yield();
    }
  }
  std::map<uint64_t, std::vector<absl::StatusCode>> codes() const {
    std::lock_guard lock(mutex_);
    return codes_;
  }
  std::vector<std::string> texts() const {
    std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::vector<absl::StatusCode>> codes_;
  std::vector<std::string> texts_;
  std::atomic<int> count_{0};
};

TEST(AsyncCallerTest, APreparedRequestHasTheBytesOfTheMessage) {
  for (int64_t steps : {1, 31, 32, 5000}) {
    InferInput input{"m", "2", "", {}, {"OUTPUT"}, {{"priority", int64_t{1}}}};
    const std::string content(steps * 4, 'x');
    input.inputs.push_back({"TOKENS", "INT32", {steps}, ""});
    const std::string header = PreparedHeader(input, content.size());
    input.inputs[0].bytes = content;
    inference::ModelInferRequest expected = ToMessage(input);
    inference::ModelInferRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(header + content));
    EXPECT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
  }
}

TEST(AsyncCallerTest, EveryRequestSentCompletesOnceUnderItsTag) {
  const auto server = *NullServer::Start({});
  Collector collector;
  auto caller =
      AsyncCaller::Create({.url = server->address(), .connections = 3}, collector.Callback());
  ASSERT_TRUE(caller.ok()) << caller.status();
  const std::string header = NullHeader();
  for (uint64_t tag = 0; tag < 500; ++tag) {
    ASSERT_TRUE((*caller)->Send({header, {kTokens, sizeof(kTokens)}}, tag));
  }
  collector.WaitFor(500);
  const auto codes = collector.codes();
  EXPECT_EQ(codes.size(), 500u);
  for (const auto& [tag, seen] : codes) {
    EXPECT_EQ(seen, std::vector<absl::StatusCode>{absl::StatusCode::kOk}) << tag;
  }
  EXPECT_EQ(server->requests(), 500);
}

TEST(AsyncCallerTest, BeyondTheMostInFlightNothingIsSent) {
  const auto server = *NullServer::Start({.delay = kNever});
  Collector collector;
  auto caller =
      AsyncCaller::Create({.url = server->address(), .most_in_flight = 2}, collector.Callback());
  ASSERT_TRUE(caller.ok()) << caller.status();
  const std::string header = NullHeader();
  const PreparedRequest request{header, {kTokens, sizeof(kTokens)}};
  EXPECT_TRUE((*caller)->Send(request, 1));
  EXPECT_TRUE((*caller)->Send(request, 2));
  EXPECT_FALSE((*caller)->Send(request, 3));
  (*caller)->CancelAll();
  collector.WaitFor(2);
  EXPECT_EQ(collector.codes().at(1)[0], absl::StatusCode::kCancelled);
  EXPECT_TRUE((*caller)->Send(request, 4)) << "a place was given back";
}

TEST(AsyncCallerTest, DestructionCancelsWhatIsInFlight) {
  const auto server = *NullServer::Start({.delay = kNever});
  Collector collector;
  auto caller = AsyncCaller::Create({.url = server->address()}, collector.Callback());
  ASSERT_TRUE(caller.ok()) << caller.status();
  const std::string header = NullHeader();
  ASSERT_TRUE((*caller)->Send({header, {kTokens, sizeof(kTokens)}}, 9));
  caller->reset();
  EXPECT_EQ(collector.codes().at(9)[0], absl::StatusCode::kCancelled);
}

TEST(AsyncCallerTest, CallbacksThatSendAgainEndWithTheCaller) {
  const auto server = *NullServer::Start({});
  const std::string header = NullHeader();
  const PreparedRequest request{header, {kTokens, sizeof(kTokens)}};
  std::atomic<AsyncCaller*> again{nullptr};
  std::atomic<int> answers{0};
  auto caller = AsyncCaller::Create({.url = server->address()}, [&](const AsyncCaller::Done&) {
    ++answers;
    again.load()->Send(request, 0);
  });
  ASSERT_TRUE(caller.ok()) << caller.status();
  again = caller->get();
  for (int i = 0; i < 50; ++i) {
    (*caller)->Send(request, 0);
  }
  while (answers < 200) {
    std::this_thread::yield();
  }
  caller->reset();
  const int at_the_end = answers;
  EXPECT_EQ(at_the_end, answers) << "no callback comes later";
}

TEST(AsyncCallerTest, ErrorsKeepCodeAndText) {
  const auto server = *NullServer::Start({.vocabulary_size = 3});
  Collector collector;
  auto caller = AsyncCaller::Create({.url = server->address()}, collector.Callback());
  ASSERT_TRUE(caller.ok()) << caller.status();
  const std::string header = NullHeader();
  ASSERT_TRUE((*caller)->Send({header, {kTokens, sizeof(kTokens)}}, 1));
  collector.WaitFor(1);
  EXPECT_EQ(collector.codes().at(1)[0], absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(collector.texts()[0], "token 2 is 3, the vocabulary ends at 2");
}

TEST(AsyncCallerTest, NoServerIsUnavailable) {
  Collector collector;
  const auto caller =
      AsyncCaller::Create({.url = "127.0.0.1:1", .connect_timeout = std::chrono::milliseconds(50)},
                          collector.Callback());
  EXPECT_EQ(caller.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace cellbatch

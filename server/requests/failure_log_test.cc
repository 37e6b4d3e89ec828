#include "server/requests/failure_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

namespace cellbatch {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

class SetClock final : public Clock {
 public:
  int64_t NowNs() const override { return now.load(); }
  std::atomic<int64_t> now = 1'000 * kSecond;
};

std::string FillOf(std::string_view letter, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += letter;
  return text;
}

const FailedRequest kFailed = {.id = "seven",
                               .model = "tiny",
                               .version = "1",
                               .wire = "http",
                               .client = "ipv4:10.0.0.7:1234",
                               .code = absl::StatusCode::kInvalidArgument,
                               .error = "token # is #",
                               .outcome = "invalid",
                               .trace = {},
                               .total_ns = 1'500'000,
                               .queue_ns = 1'000'000,
                               .compute_ns = 250'000,
                               .nodes = 3};

class FailureLogTest : public testing::Test {
 protected:
  std::unique_ptr<FailureLog> Make(int64_t per_second) {
    return std::make_unique<FailureLog>(
        per_second, LogFormat::kText, [this](const std::string& line) { lines_.push_back(line); },
        clock_);
  }

  SetClock clock_;
  std::vector<std::string> lines_;  // the writer's, until the log is gone
};

TEST_F(FailureLogTest, ALineOfTextSaysAllThatIsKnown) {
  EXPECT_THAT(
      LineOf(kFailed, LogFormat::kText, 0, 0),
      HasSubstr(" warning request failed id=\"seven\" model=\"tiny\" version=\"1\" wire=http "
                "client=\"ipv4:10.0.0.7:1234\" outcome=invalid code=INVALID_ARGUMENT "
                "total_ms=1.500 queue_ms=1.000 compute_ms=0.250 nodes=3 "
                "error=\"token # is #\""));
  FailedRequest one = kFailed;
  one.input = 2;
  one.requests = 4;
  one.trace = "0af7651916cd43dd8448eb211c80319c";
  EXPECT_THAT(LineOf(one, LogFormat::kText, 0, 17),
              HasSubstr(" nodes=3 input=2 requests=4 trace=0af7651916cd43dd8448eb211c80319c "
                        "left_out=17 error="));
  one.input = 0;
  EXPECT_THAT(LineOf(one, LogFormat::kText, 0, 1), HasSubstr(" input=0 requests=4 "));
  EXPECT_THAT(LineOf(one, LogFormat::kText, 0, 1), HasSubstr(" left_out=1 "));
}

TEST_F(FailureLogTest, AnObjectOfJsonSaysTheSame) {
  const auto line =
      nlohmann::json::parse(LineOf(kFailed, LogFormat::kJson, 1'700'000'000'000'001, 0));
  EXPECT_EQ(line["time"], "2023-11-14T22:13:20.000001Z");
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["id"], "seven");
  EXPECT_EQ(line["model"], "tiny");
  EXPECT_EQ(line["outcome"], "invalid");
  EXPECT_EQ(line["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(line["total_ms"], 1.5);
  EXPECT_EQ(line["compute_ms"], 0.25);
  EXPECT_EQ(line["nodes"], 3);
  EXPECT_EQ(line["error"], "token # is #");
  EXPECT_FALSE(line.contains("left_out"));
}

TEST_F(FailureLogTest, WhatClientsWroteIsEscapedAndCutSoThatALineIsOneShortLine) {
  EXPECT_EQ(ShownId(std::string(128, 'x')), std::string(128, 'x'));
  EXPECT_EQ(ShownId(std::string(129, 'x')), std::string(128, 'x') + "...");
  const std::string evil = "a\n2026-01-01 error \x1b[31m\"\\\xff" + std::string(1 << 20, 'x');
  FailedRequest one = kFailed;
  const std::string id = ShownId(evil);
  one.id = id;
  one.model = one.version = one.client = one.error = evil;
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line = LineOf(one, format, 0, 0);
    EXPECT_LT(line.size(), 4096u);
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
    if (format == LogFormat::kText) continue;
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["id"], id);
    EXPECT_TRUE(json.value("error", "")
                    .starts_with("a\n2026-01-01 error \x1b[31m\"\\\u00ff"
                                 "xxx"));
  }
}

// So that who looks for a model finds it under the name that it has in metrics and in every other line.
TEST_F(FailureLogTest, TextIsTextInJsonWhateverItsLettersAndNoneOfThemIsCutInTwo) {
  FailedRequest one = kFailed;
  one.model = "mod\u00e8le \u4e2d\U0001f600";
  const std::string long_name = "x" + FillOf("\u00e8", 200);
  one.client = long_name;
  one.error = "\xe8 alone, \u4e2d";
  const std::string longest = std::string(127, '1') + "\x7f";
  one.version = longest;
  const std::string line = LineOf(one, LogFormat::kJson, 0, 0);
  for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["model"], "mod\u00e8le \u4e2d\U0001f600");
  EXPECT_EQ(json["version"], longest) << "as long as it may be";
  EXPECT_EQ(json["client"], "x" + FillOf("\u00e8", 63) + "...");
  EXPECT_EQ(json["error"], "\u00e8 alone, \u4e2d") << "a byte that is no text stands for itself";
}

TEST_F(FailureLogTest, ADatatypeIsNoContent) {
  EXPECT_EQ(WithoutContents("datatype is INT64, expected FP32, not BF16: 64 bytes", {}, false),
            "datatype is INT64, expected FP32, not BF16: # bytes");
  EXPECT_EQ(WithoutContents("expected uint64_param or int64_contents; it is no UTF-8", {}, false),
            "expected uint64_param or int64_contents; it is no UTF-8");
  EXPECT_EQ(WithoutContents("FP320, INT6, POINT32, 1.5e32, -8, UTF-88, t64", {}, false),
            "FP#, INT#, POINT#, #.#e#, -#, UTF-#, t#");
  EXPECT_EQ(WithoutContents("INT32: 7\"8\"9", {}, false), "INT32: #\"..\"#");
}

TEST_F(FailureLogTest, AnErrorIsSaidWithoutWhatTheRequestBrought) {
  const std::string_view names[] = {"tiny", ""};
  EXPECT_EQ(WithoutContents("input TOKENS of model \"tiny\": token 0 is -100, word \"se\\\"cret\"",
                            names, false),
            "input TOKENS of model \"tiny\": token # is -#, word \"..\"");
  EXPECT_EQ(WithoutContents("model \"tiny\": 577 ms are left of \"x", names, true),
            "model \"tiny\": 577 ms are left of \"..\"");
  EXPECT_EQ(WithoutContents("", names, false), "");
}

TEST_F(FailureLogTest, AMinutesWorthIsTakenAtOnceThenSoManyASecondAndTheRestIsCounted) {
  const auto log = Make(2);
  int wanted = 0;
  for (int i = 0; i < 1000; ++i) wanted += log->Wants() ? 1 : 0;
  EXPECT_EQ(wanted, 120);
  EXPECT_EQ(log->left_out(), 880);
  clock_.now += 3 * kSecond / 2;
  wanted = 0;
  for (int i = 0; i < 1000; ++i) wanted += log->Wants() ? 1 : 0;
  EXPECT_EQ(wanted, 3);
  clock_.now += 3600 * kSecond;  // no more than a minute's worth is saved up
  wanted = 0;
  for (int i = 0; i < 1000; ++i) wanted += log->Wants() ? 1 : 0;
  EXPECT_EQ(wanted, 120);
}

TEST_F(FailureLogTest, TheNextLineSaysHowManyWereLeftOut) {
  auto log = Make(1);
  for (int i = 0; i < 65; ++i) log->Wants();
  log->Add(kFailed);
  log->Add(kFailed);
  log.reset();
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_THAT(lines_[0], HasSubstr(" left_out=5 "));
  EXPECT_THAT(lines_[1], Not(HasSubstr("left_out")));
}

TEST_F(FailureLogTest, NoneAreWantedAndNoneAreCountedWhereItIsOff) {
  const auto log = Make(0);
  EXPECT_FALSE(log->Wants());
  EXPECT_EQ(log->left_out(), 0);
  log->SetPerSecond(1);
  EXPECT_TRUE(log->Wants());
}

// A pipe that nobody reads: what waits is bounded, and Add returns.
TEST_F(FailureLogTest, AWriterThatIsStuckCostsLinesAndNobodyWaits) {
  std::promise<void> stuck;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  std::atomic<int> begun = 0;
  auto log = std::make_unique<FailureLog>(
      1'000'000, LogFormat::kText,
      [&](const std::string& line) {
        if (begun++ == 0) stuck.set_value();
        may_go_on.wait();
        lines_.push_back(line);
      },
      clock_);
  log->Add(kFailed);
  stuck.get_future().wait();
  for (size_t i = 0; i < FailureLog::kMostWaiting + 10; ++i) log->Add(kFailed);
  EXPECT_EQ(log->left_out(), 10);
  EXPECT_EQ(log->written(), 0);
  go_on.set_value();
  while (log->written() == 0) std::this_thread::yield();
  log->Add(kFailed);  // there is room again
  log.reset();
  EXPECT_EQ(begun, static_cast<int>(FailureLog::kMostWaiting) + 2);
  EXPECT_THAT(lines_[lines_.size() - 2], Not(HasSubstr("left_out")));
  EXPECT_THAT(lines_.back(), HasSubstr(" left_out=10 "));
}

TEST_F(FailureLogTest, WhatWaitsIsWrittenWhenItIsClosedAndOnceWhenThatIsTwice) {
  const auto log = Make(1'000'000);
  for (int i = 0; i < 10; ++i) log->Add(kFailed);
  log->Close();
  EXPECT_EQ(lines_.size(), 10u);
  log->Close();
  EXPECT_EQ(lines_.size(), 10u);
}

TEST_F(FailureLogTest, MadeIdsAreSixteenDigitsAndNoTwoAreAlike) {
  const auto log = Make(1);
  std::set<std::string> ids;
  for (int i = 0; i < 10'000; ++i) ids.insert(log->NewId());
  EXPECT_EQ(ids.size(), 10'000u);
  for (const std::string& id : ids) EXPECT_EQ(id.size(), 16u);
}

}  // namespace
}  // namespace cellbatch

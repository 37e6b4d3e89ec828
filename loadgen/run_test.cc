// Whole runs against a server in this process that only waits. What is asserted are counts and lower
// bounds: how late this machine lets threads run is no claim of a test.

#include "loadgen/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/null_server.h"
#include "loadgen/capacity.h"
#include "loadgen/priority.h"
#include "loadgen/sender.h"
#include "loadgen/workload.h"

namespace cellbatch {
namespace {

constexpr std::chrono::nanoseconds kNever = std::chrono::hours(10);

int64_t NowNs() { return SteadySendClock().Now(); }

// Entry e is the token e alone, of length e + 1. Keeps what was sent: one thread's at a time.
class Tokens final : public RequestSet {
 public:
  explicit Tokens(int32_t size) {
    for (int32_t e = 0; e < size; ++e) {
      messages_.push_back(PreparedMessage(
          InferInput{.model = "null", .inputs = {Int32Tensor("TOKENS", {1}, {e})}}));
      lengths_.push_back(e + 1);
    }
  }
  PreparedRequest Request(uint32_t entry, uint64_t turn) const override {
    sent.emplace_back(entry, turn);
    return {messages_[entry]};
  }

  mutable std::vector<std::pair<uint32_t, uint64_t>> sent;

 private:
  std::vector<std::string> messages_;
};

struct Bench {
  std::unique_ptr<NullServer> server;
  std::unique_ptr<Workload> workload;
  std::atomic<bool> stop{false};

  explicit Bench(NullServerOptions options, std::vector<int32_t> lengths = {3, 1, 2}) {
    server = *NullServer::Start(std::move(options));
    const auto client = *Client::Connect({.url = server->address()});
    const auto needs = NeedsOf(*client->Metadata("null"), *client->Config("null"), "");
    std::vector<Workload::Part> parts(1);
    parts[0] = {"null", "null", 1, 1, *StripRequests::Create(*needs, {}, std::move(lengths), 1)};
    workload = std::make_unique<Workload>(std::move(parts));
  }

  // Instead of what it sends else: what was sent is in there, as long as the bench is.
  const Tokens& SendTokens(int32_t size) {
    auto tokens = std::make_unique<Tokens>(size);
    const Tokens& sent = *tokens;
    std::vector<Workload::Part> parts;
    parts.push_back({"tokens", "null", 2.5, 3, std::move(tokens)});
    workload = std::make_unique<Workload>(std::move(parts));
    return sent;
  }

  RunOptions Options() const {
    RunOptions options;
    options.caller.url = server->address();
    options.rate = 1000;
    options.warmup_seconds = 0.1;
    options.seconds = 0.3;
    options.limits.least_answers = 1;
    return options;
  }
};

TEST(RunTest, EveryRequestOfTheScheduleIsSentAndAnswered) {
  Bench bench({.delay = std::chrono::milliseconds(20)});
  const auto result = RunOpenLoop(bench.Options(), *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  const size_t scheduled = MakeArrivals({.rate = 1000, .seconds = 0.4, .seed = 1}).size();
  EXPECT_EQ(result->samples->size(), scheduled);
  EXPECT_EQ(bench.server->requests(), static_cast<int64_t>(scheduled));
  EXPECT_EQ(result->summary.completed, result->summary.offered);
  EXPECT_EQ(result->summary.lost, 0u);
  for (size_t i = 0; i < scheduled; ++i) {
    const Samples::Record record = result->samples->at(i);
    EXPECT_EQ(record.outcome, SampleOutcome::kCompleted);
    EXPECT_GE(record.sent, record.intended) << "never before it is due";
    EXPECT_GE(record.done - record.sent, 19'000'000) << "never before the server's delay";
  }
}

TEST(RunTest, OptionsAndSeedDecideWhatIsSentWhenAndTheResultSaysSo) {
  std::set<std::vector<std::pair<uint32_t, uint64_t>>> orders;
  for (const auto& [process, seed] : {std::pair<ArrivalProcess, uint64_t>{{}, 7},
                                      {ArrivalProcess::kConstant, 7},
                                      {ArrivalProcess::kConstant, 8}}) {
    Bench bench({});
    const Tokens& tokens = bench.SendTokens(20);
    RunOptions options = bench.Options();
    options.process = process;
    options.seed = seed;
    options.limits.least_answers = 1'000'000;
    const int64_t begin_ns = NowNs();
    const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
    const int64_t took_ns = NowNs() - begin_ns;
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->rate, 1000);
    EXPECT_EQ(result->process, process);
    EXPECT_EQ(result->seed, seed);
    EXPECT_EQ(result->warmup_seconds, 0.1);
    EXPECT_EQ(result->summary.seconds, 0.3);
    EXPECT_EQ(result->parts.at(0).weight, 2.5);
    EXPECT_EQ(result->parts.at(0).inputs, 3);
    EXPECT_EQ(
        result->verdict.findings.back().reason,
        std::to_string(result->summary.completed) + " answers, --min-answers asks for 1000000");
    std::thread([&] { EXPECT_EQ(result->priority, RaiseThisThread()); }).join();
    const auto due = MakeArrivals({process, 1000, 0.4, seed});
    ASSERT_EQ(result->samples->size(), due.size());
    ASSERT_EQ(tokens.sent.size(), due.size());
    for (size_t i = 0; i < due.size(); ++i) {
      const Samples::Record record = result->samples->at(i);
      EXPECT_EQ(record.intended, due[i]);
      EXPECT_LE(record.done, took_ns);
      EXPECT_EQ(record.first_word, -1);
      EXPECT_EQ(tokens.sent[i].second, i) << "each turn has contents of its own";
      EXPECT_EQ(result->lengths[i], tokens.sent[i].first + 1);
    }
    const size_t first = result->samples->first_measured();
    EXPECT_FALSE(std::equal(result->lengths.begin(), result->lengths.begin() + 20,
                            result->lengths.begin() + first))
        << "what is measured does not begin like the warm-up";
    orders.insert({tokens.sent.begin() + first, tokens.sent.begin() + first + 20});
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(RunTest, OfErrorsTheFirstEightAreToldApart) {
  Bench bench({.vocabulary_size = 1});  // all but the first of
  bench.SendTokens(20);
  RunOptions options = bench.Options();
  options.process = ArrivalProcess::kConstant;
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->samples->size(), 400u);
  ASSERT_EQ(result->errors.size(), 9u);
  for (const auto& [text, count] : result->errors) {
    const bool other = text == "other errors";
    EXPECT_EQ(count, other ? 11 * 20u : 20u) << text;
    EXPECT_EQ(text.find("INVALID_ARGUMENT: token 0 is "), other ? text.npos : 0) << text;
  }
}

// It ends when this side has seen what it waits for, however long the machine takes.
TEST(RunTest, ProgressTellsPhaseAndCountsWhileARunLasts) {
  for (const bool warming : {true, false}) {
    Bench bench({.delay = std::chrono::milliseconds(20), .most_in_flight = 3});
    RunOptions options = bench.Options();
    options.warmup_seconds = warming ? 3600 : 0;
    options.seconds = 3600;
    options.rate = 300;
    RunProgress last{""};
    const auto progress = [&](const RunProgress& now) {
      if (bench.stop) return;
      last = now;
      bench.stop = now.sent > 0 && now.completed > 0 && now.rejected > 0;
    };
    ASSERT_TRUE(RunOpenLoop(options, *bench.workload, progress, bench.stop).ok());
    EXPECT_STREQ(last.phase, warming ? "warm-up" : "measure");
    EXPECT_EQ(last.total, warming ? 7200 : 3600);
    EXPECT_GT(last.elapsed, 0);
    EXPECT_EQ(last.failed, 0u);
  }
}

// Two seconds is what the machine is given beside the calls' timeout.
TEST(RunTest, AnAnswerIsAwaitedAsLongAsItsCallMayTake) {
  Bench bench({.delay = std::chrono::milliseconds(2200)});
  RunOptions options = bench.Options();
  options.process = ArrivalProcess::kConstant;
  options.rate = 10;
  options.warmup_seconds = 0;
  options.seconds = 0.1;
  options.caller.timeout = std::chrono::minutes(10);
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.completed, 1u);
  EXPECT_EQ(result->summary.lost, 0u);
}

TEST(RunTest, MeasuredRequestsComeInWholePermutations) {
  Bench bench({}, {1, 2, 3, 4, 5});
  const auto result = RunOpenLoop(bench.Options(), *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  const size_t first = result->samples->first_measured();
  for (size_t i = first; i + 5 <= result->lengths.size(); i += 5) {
    const std::set<int32_t> seen(result->lengths.begin() + i, result->lengths.begin() + i + 5);
    EXPECT_EQ(seen.size(), 5u);
  }
}

TEST(RunTest, OfAMixEveryModelIsSentItsExactShareWhileItIsMeasured) {
  Bench bench({});
  const auto client = *Client::Connect({.url = bench.server->address()});
  MixEntry often, seldom;
  often.model = seldom.model = "null";
  often.weight = 4;
  seldom.priority = 2;
  const auto workload = MakeWorkload(*client, {often, seldom}, 1);
  ASSERT_TRUE(workload.ok()) << workload.status();
  const auto result = RunOpenLoop(bench.Options(), **workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->parts.size(), 2u);
  EXPECT_EQ(result->parts[0].name, "null#1") << "the same model twice";
  EXPECT_EQ(result->parts[1].name, "null#2 priority 2");
  const double offered = static_cast<double>(result->summary.offered);
  EXPECT_NEAR(static_cast<double>(result->parts[0].summary.offered), 0.8 * offered, 1);
  EXPECT_EQ(result->parts[0].summary.completed + result->parts[1].summary.completed,
            result->summary.completed);
  EXPECT_EQ(result->summary.failed, 0u);
  const Workload& sent = **workload;
  EXPECT_NE(sent.Request({0, 0}, 5).content, sent.Request({1, 0}, 5).content);
  often.call = LoadCall::kTyped;
  often.many = 4;
  EXPECT_EQ((*MakeWorkload(*client, {often}, 1))->parts().at(0).inputs, 4);
}

TEST(RunTest, AModelThatTheServerDoesNotHaveIsNamed) {
  Bench bench({});
  const auto client = *Client::Connect({.url = bench.server->address()});
  MixEntry entry;
  entry.model = "other";
  EXPECT_EQ(MakeWorkload(*client, {entry}, 1).status(),
            absl::NotFoundError("other: no model \"other\""));
}

TEST(RunTest, ATimeoutIsAFailureAndMakesTheRunInvalid) {
  Bench bench({.delay = kNever});
  RunOptions options = bench.Options();
  options.caller.timeout = std::chrono::milliseconds(30);
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.failed, result->summary.offered);
  EXPECT_EQ(result->summary.lost, 0u);
  EXPECT_FALSE(result->verdict.valid());
  ASSERT_EQ(result->errors.size(), 1u);
  EXPECT_EQ(result->errors.begin()->first, "DEADLINE_EXCEEDED: Deadline Exceeded");
}

TEST(RunTest, WhatTheServerCancelsIsAFailureAndMakesTheRunInvalid) {
  Bench bench({.answer = absl::StatusCode::kCancelled});
  const auto result = RunOpenLoop(bench.Options(), *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.failed, result->summary.offered);
  EXPECT_EQ(result->summary.cancelled, 0u) << "this side gave up none";
  const std::string failed = std::to_string(result->summary.offered) + " requests failed";
  const auto& findings = result->verdict.findings;
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(),
                          [&](const Finding& finding) { return finding.reason == failed; }));
}

TEST(RunTest, AnErrorIsAnAnswerUnlessItSaysThatThereIsNone) {
  const std::pair<absl::StatusCode, SampleOutcome> codes[] = {
      {absl::StatusCode::kInvalidArgument, SampleOutcome::kFailed},
      {absl::StatusCode::kInternal, SampleOutcome::kFailed},
      {absl::StatusCode::kCancelled, SampleOutcome::kFailed},
      {absl::StatusCode::kDeadlineExceeded, SampleOutcome::kUnanswered},
      {absl::StatusCode::kUnavailable, SampleOutcome::kUnanswered},
      {absl::StatusCode::kResourceExhausted, SampleOutcome::kRejected}};
  for (const auto& [code, outcome] : codes) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    Bench bench({.answer = code});
    const auto result = RunOpenLoop(bench.Options(), *bench.workload, {}, bench.stop);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->samples->so_far(outcome), result->samples->size());
    const bool rejected = outcome == SampleOutcome::kRejected;
    EXPECT_EQ(result->summary.failed, rejected ? 0 : result->summary.offered);
  }
}

TEST(RunTest, RejectionsAreCountedApartFromFailures) {
  Bench bench({.delay = std::chrono::milliseconds(30), .most_in_flight = 3});
  const auto result = RunOpenLoop(bench.Options(), *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->summary.rejected, 0u);
  EXPECT_EQ(result->summary.failed, 0u);
  EXPECT_EQ(result->summary.completed + result->summary.rejected, result->summary.offered);
  EXPECT_TRUE(result->verdict.overload);
}

TEST(RunTest, TheOpenLoopEndsWhereItMayHaveNoMoreInFlight) {
  Bench bench({.delay = kNever});
  RunOptions options = bench.Options();
  options.caller.most_in_flight = 5;
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->samples->sent(), 5u);
  EXPECT_EQ(result->samples->so_far(SampleOutcome::kCancelled), 5u);
  EXPECT_EQ(result->verdict.findings[0].reason,
            "the schedule was not sent to its end: 5 requests were in flight");
}

TEST(RunTest, AStoppedRunIsInvalid) {
  Bench bench({});
  bench.stop = true;
  const auto result = RunOpenLoop(bench.Options(), *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->samples->sent(), 0u);
  EXPECT_FALSE(result->verdict.valid());
  EXPECT_EQ(result->summary.seconds, 0);
  EXPECT_EQ(result->summary.offered, 0u);
}

TEST(RunTest, AStoppedRunTellsOfTheTimeUntilThen) {
  Bench bench({});
  RunOptions options = bench.Options();
  options.process = ArrivalProcess::kConstant;
  options.rate = 300;
  options.warmup_seconds = 0;
  options.seconds = 3600;
  options.limits.least_answers = 1'000'000;
  const auto progress = [&](const RunProgress& now) { bench.stop = now.completed > 0; };
  const auto result = RunOpenLoop(options, *bench.workload, progress, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  const Summary& summary = result->summary;
  ASSERT_GT(summary.seconds, 0);
  ASSERT_LT(summary.seconds, 3600);
  EXPECT_EQ(summary.sent, result->samples->sent());
  EXPECT_NEAR(static_cast<double>(summary.offered), 300 * summary.seconds, 1.01)
      << "what was due until then, whenever that was";
  EXPECT_EQ(summary.offered_per_second, static_cast<double>(summary.offered) / summary.seconds);
  EXPECT_GT(summary.completed_per_second, 0);
  EXPECT_LE(summary.completed_per_second * summary.seconds,
            static_cast<double>(summary.completed) + 0.01);
  EXPECT_EQ(result->parts.at(0).summary.seconds, summary.seconds);
  EXPECT_FALSE(result->verdict.overload);
  EXPECT_EQ(result->verdict.findings.at(0).reason,
            "the schedule was not sent to its end: it was stopped");
}

// Ctrl-C while answers are awaited, which a server may keep for as long as calls have time.
TEST(RunTest, ARunThatIsStoppedWhileItDrainsGivesUpWhatIsInFlight) {
  Bench bench({.delay = kNever});
  RunOptions options = bench.Options();
  options.caller.timeout = std::chrono::hours(1);
  options.rate = 20;
  const auto progress = [&](const RunProgress& now) {
    if (std::string(now.phase) == "drain") bench.stop = true;
  };
  const auto result = RunOpenLoop(options, *bench.workload, progress, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->samples->sent(), 0u);
  EXPECT_EQ(result->samples->so_far(SampleOutcome::kCancelled), result->samples->sent());
  EXPECT_EQ(result->verdict.findings.back().reason, "it was stopped before all was answered");
}

TEST(RunTest, AScheduleThatNoMemoryHoldsIsRefusedBeforeItIsMade) {
  Bench bench({});
  RunOptions options = bench.Options();
  options.rate = 1e300;
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  EXPECT_EQ(std::string(result.status().message()),
            "1e+300 requests/s for 0.4 s are 4e+299 requests, the most is 1e+08: lower --rate, "
            "--duration or --warmup");
  options.rate = 1e8;
  options.seconds = 0.95;  // the warm-up is beyond
  EXPECT_EQ(RunOpenLoop(options, *bench.workload, {}, bench.stop).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RunTest, AnEmptyScheduleIsInvalidAndUsesNoMoreThanThisMachinesCores) {
  Bench bench({});
  RunOptions options = bench.Options();
  options.process = ArrivalProcess::kPoisson;
  options.rate = 1e-9;
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->samples->size(), 0u);
  EXPECT_GE(result->cpu_cores, 0);
  EXPECT_LE(result->cpu_cores, std::thread::hardware_concurrency());
  ASSERT_EQ(result->verdict.findings.size(), 1u);
  EXPECT_EQ(result->verdict.findings[0].remedy, "raise --rate or --duration: no request was due");
}

TEST(RunTest, WithoutAServerThereIsNoRun) {
  Bench bench({});
  RunOptions options = bench.Options();
  options.caller.url = "127.0.0.1:1";
  options.caller.connect_timeout = std::chrono::milliseconds(50);
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
}

TEST(RunTest, AProgressLineSaysWhatIsInFlight) {
  EXPECT_EQ(ProgressText({"measure", 7.2, 25, 700, 650, 3, 2}),
            "measure   7/25 s   sent 700   done 650   rejected 3   failed 2   in flight 45");
  EXPECT_EQ(ProgressText({"drain", 25, 25, 700, 650, 30, 21}),
            "drain    25/25 s   sent 700   done 650   rejected 30   failed 21   in flight 0")
      << "answers may be counted before what was sent";
}

TEST(CapacityTest, AClosedLoopIsBoundedByTheDelayOfItsAnswers) {
  Bench bench({.delay = std::chrono::milliseconds(10)});
  CapacityOptions options;
  options.caller.url = bench.server->address();
  options.in_flight = 4;
  options.warmup_seconds = 0.3;
  options.seconds = 0.3;
  const int64_t begin_ns = NowNs();
  const auto capacity = MeasureCapacity(options, *bench.workload, bench.stop);
  const double took = static_cast<double>(NowNs() - begin_ns) * 1e-9;
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_GT(capacity->answers, 0u);
  EXPECT_EQ(capacity->in_flight, 4);
  EXPECT_EQ(capacity->per_second, static_cast<double>(capacity->answers) / capacity->seconds);
  EXPECT_GE(capacity->seconds, 0.3);
  EXPECT_LE(0.3 + capacity->seconds, took) << "the warm-up is none of it";
  // 4 in flight, each for 10 ms (the server's timer may be a millisecond short): at most 445 a second,
  // and once more the four that were on their way.
  EXPECT_LE(static_cast<double>(capacity->answers), capacity->seconds * 4 / 0.009 + 4);
}

// Whoever answers slowly is not measured before its first answers came.
TEST(CapacityTest, TheWarmUpLastsUntilAsManyAnswersCameAsAreInFlight) {
  Bench bench({.delay = std::chrono::milliseconds(200)});
  const Tokens& tokens = bench.SendTokens(20);
  CapacityOptions options;
  options.caller.url = bench.server->address();
  options.in_flight = 1;
  options.warmup_seconds = 0;
  options.seconds = 0.01;
  options.seed = 5;
  ASSERT_TRUE(MeasureCapacity(options, *bench.workload, bench.stop).ok());
  ASSERT_GE(tokens.sent.size(), 2u);
  const std::vector<Pick> order = bench.workload->Order(64 * 20, 5);
  EXPECT_EQ(tokens.sent[0].first, order[0].entry);
  EXPECT_EQ(tokens.sent[1].first, order[1].entry);
  bench.stop = true;
  options.seconds = 1000;
  EXPECT_EQ(MeasureCapacity(options, *bench.workload, bench.stop).status().code(),
            absl::StatusCode::kCancelled);
}

// Four are answered every 400 ms, together: a phase of 10 ms by the clock would hold none of them.
TEST(CapacityTest, WhoeverAnswersSlowlyIsMeasuredForAWholeTurnover) {
  Bench bench({.delay = std::chrono::milliseconds(400)});
  CapacityOptions options;
  options.caller.url = bench.server->address();
  options.in_flight = 4;
  options.warmup_seconds = 0.01;
  options.seconds = 0.01;
  const auto capacity = MeasureCapacity(options, *bench.workload, bench.stop);
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_GE(capacity->answers, 4u);
  EXPECT_EQ(capacity->per_second, static_cast<double>(capacity->answers) / capacity->seconds);
  EXPECT_LE(static_cast<double>(capacity->answers), capacity->seconds * 4 / 0.39 + 4)
      << "by the time that they really took";
}

TEST(CapacityTest, AServerThatAnswersNothingHasNoCapacity) {
  Bench bench({.delay = kNever});
  CapacityOptions options;
  options.caller.url = bench.server->address();
  options.caller.timeout = std::chrono::milliseconds(50);
  options.in_flight = 4;
  options.warmup_seconds = 0;
  options.seconds = 0.01;
  const auto capacity = MeasureCapacity(options, *bench.workload, bench.stop);
  EXPECT_EQ(capacity.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(std::string(capacity.status().message()),
            "with 4 requests in flight: Deadline Exceeded");
}

TEST(CapacityTest, ARejectionSaysHowManyWereInFlight) {
  Bench bench({.delay = std::chrono::milliseconds(10), .most_in_flight = 2});
  CapacityOptions options;
  options.caller.url = bench.server->address();
  options.in_flight = 16;
  const auto capacity = MeasureCapacity(options, *bench.workload, bench.stop);
  EXPECT_EQ(capacity.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(capacity.status().message()),
            "with 16 requests in flight: too many requests in flight");
}

}  // namespace
}  // namespace cellbatch

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
#include <vector>

#include "client/client.h"
#include "client/null_server.h"
#include "loadgen/capacity.h"
#include "loadgen/workload.h"

namespace cellbatch {
namespace {

constexpr std::chrono::nanoseconds kNever = std::chrono::hours(10);

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
}

TEST(RunTest, AModelThatTheServerDoesNotHaveIsNamed) {
  Bench bench({});
  const auto client = *Client::Connect({.url = bench.server->address()});
  MixEntry entry;
  entry.model = "other";
  EXPECT_EQ(MakeWorkload(*client, {entry}, 1).status().code(), absl::StatusCode::kNotFound);
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
}

TEST(RunTest, AScheduleThatNoMemoryHoldsIsRefusedBeforeItIsMade) {
  Bench bench({});
  RunOptions options = bench.Options();
  options.rate = 1e300;
  const auto result = RunOpenLoop(options, *bench.workload, {}, bench.stop);
  EXPECT_EQ(std::string(result.status().message()),
            "1e+300 requests/s for 0.4 s are 4e+299 requests, the most is 1e+08: lower --rate, "
            "--duration or --warmup");
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
}

TEST(CapacityTest, AClosedLoopIsBoundedByTheDelayOfItsAnswers) {
  Bench bench({.delay = std::chrono::milliseconds(10)});
  CapacityOptions options;
  options.caller.url = bench.server->address();
  options.in_flight = 4;
  options.warmup_seconds = 0;
  options.seconds = 0.3;
  const auto capacity = MeasureCapacity(options, *bench.workload, bench.stop);
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_GT(capacity->answers, 0u);
  // 4 in flight, each for 10 ms (the server's timer may be a millisecond short): at most 445 a second,
  // and once more the four that were on their way.
  EXPECT_LE(static_cast<double>(capacity->answers), capacity->seconds * 4 / 0.009 + 4);
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

#include "loadgen/report.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "loadgen/options.h"
#include "loadgen/sweep.h"

namespace cellbatch {
namespace {

// `count` requests at 100 a second, answered after 1, 2, 3… us, sent 50 us late.
RunResult MakeRun(size_t count, double rate = 100) {
  std::vector<int64_t> intended;
  for (size_t i = 0; i < count; ++i) {
    intended.push_back(static_cast<int64_t>(i) * 10'000'000);
  }
  auto samples = std::make_shared<Samples>(intended, 0);
  for (size_t i = 0; i < count; ++i) {
    samples->Sent(i, samples->intended(i) + 50'000);
    samples->Done(i, samples->intended(i) + 50'000 + 1000 * (static_cast<int64_t>(i) + 1),
                  SampleOutcome::kCompleted);
  }
  RunResult run;
  run.rate = rate;
  run.seed = 7;
  run.warmup_seconds = 5;
  run.lengths.assign(count, 24);
  run.summary = Summarize(*samples, run.lengths, static_cast<double>(count) / 100);
  run.verdict = Judge(run.summary, {}, "");
  run.samples = samples;
  return run;
}

TEST(ReportTest, ARunReadsAsATableAndAVerdict) {
  const std::string text = RunText(MakeRun(1000));
  EXPECT_NE(text.find("poisson arrivals at 100 requests/s, seed 7, 5 s warm-up, 10 s measured\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("latency           answers     mean      p50      p90      p99  p99.9"
                      "      max\n"
                      "response            1,000   550 us   550 us   950 us  1.04 ms      –"
                      "  1.05 ms\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("VALID: 1,000 answers, none lost, send lag p99 50.0 us\n"), std::string::npos)
      << text;
}

TEST(ReportTest, AnInvalidRunSaysWhyAndWhatToDo) {
  const std::string text = RunText(MakeRun(458));
  EXPECT_NE(text.find("INVALID: 458 answers, a p99 needs 459\n"
                      "  do: measure for at least 6 s at this rate (--duration)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("\nVALID"), std::string::npos) << text;
}

TEST(ReportTest, JsonHasEveryFigureAndNullForWhatTheCountCannotCarry) {
  const nlohmann::json json = RunJson(MakeRun(1000));
  EXPECT_EQ(json["verdict"], "VALID");
  EXPECT_EQ(json["completed"], 1000);
  EXPECT_DOUBLE_EQ(json["response"]["p50_ms"].get<double>(), 0.55);
  EXPECT_DOUBLE_EQ(json["response"]["p99_ms"].get<double>(), 1.04);
  EXPECT_TRUE(json["response"]["p99.9_ms"].is_null());
  EXPECT_DOUBLE_EQ(json["send_lag_p99_ms"].get<double>(), 0.05);
}

TEST(ReportTest, CsvHasOneLineForEachRunAndAsManyCellsAsItsHead) {
  const std::string csv = RunsCsv("m", {MakeRun(1000), MakeRun(10)});
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < csv.size();) {
    const size_t end = csv.find('\n', begin);
    lines.push_back(csv.substr(begin, end - begin));
    begin = end + 1;
  }
  ASSERT_EQ(lines.size(), 3u);
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(commas(lines[0]), commas(lines[1]));
  EXPECT_EQ(commas(lines[0]), commas(lines[2]));
  EXPECT_NE(lines[1].find(",0.550000,0.950000,1.040000,,"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("INVALID"), std::string::npos);
}

TEST(ReportTest, RecordsHoldEveryRequest) {
  EXPECT_EQ(RecordsCsv(MakeRun(2)),
            "phase,length,intended_ns,sent_ns,done_ns,outcome\n"
            "measure,24,0,50000,51000,completed\n"
            "measure,24,10000000,10050000,10052000,completed\n");
}

TEST(SweepTest, ATableHasALineForEachPointAndTheReasonsBelow) {
  const std::string text = SweepText({MakeRun(1000, 100), MakeRun(10, 200)});
  EXPECT_NE(text.find("offered/s"), std::string::npos);
  EXPECT_NE(text.find("\nat 200.0 requests/s\nINVALID: 10 answers, a p99 needs 459\n"),
            std::string::npos)
      << text;
}

TEST(SweepTest, TheHighestRateSustainedIsBelowTheFirstThatWasNot) {
  std::vector<RunResult> points = {MakeRun(1000, 300), MakeRun(1000, 100), MakeRun(1000, 200),
                                   MakeRun(1000, 400)};
  EXPECT_EQ(HighestSustained(points), 400);
  points[0].verdict.overload = true;
  EXPECT_EQ(HighestSustained(points), 200);
  points[1].verdict.findings.push_back({});
  EXPECT_EQ(HighestSustained(points), 0);
}

TEST(SweepTest, BothEndsAreIncluded) {
  const auto points = ParseSweep("10:50:20");
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 3u);
  EXPECT_EQ(points->at(2).Resolve(1), 50);
  const auto shares = ParseSweep("10%:110%:10%");
  ASSERT_TRUE(shares.ok()) << shares.status();
  ASSERT_EQ(shares->size(), 11u);
  EXPECT_NEAR(shares->at(10).Resolve(1000), 1100, 1e-6);
}

TEST(SweepTest, WhatIsNoSweepIsNamed) {
  for (const char* text : {"", "10", "10:20", "20:10:5", "10:20:0", "10:20%:5", "1:2:3:4",
                           "1:1000000:1", "a:b:c", "-1:5:1", "nan:5:1", "1:inf:1"}) {
    EXPECT_EQ(ParseSweep(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(OptionsTest, DefaultsAndSharesAreUnderstood) {
  std::string help;
  const auto options = ParseOptions({"--model=m", "--rate=40%"}, help);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ((*options)->duration, 20);
  EXPECT_TRUE((*options)->needs_capacity());
  EXPECT_NEAR((*options)->rates[0].Resolve(250), 100, 1e-9);
  EXPECT_FALSE((*ParseOptions({"--model=m"}, help))->needs_capacity());
  EXPECT_TRUE((*ParseOptions({"--model=m", "--measure-capacity"}, help))->rates.empty());
}

TEST(OptionsTest, WrongFlagsAreNamed) {
  std::string help;
  const auto message = [&](std::vector<std::string> arguments) {
    arguments.push_back("--model=m");
    return std::string(ParseOptions(arguments, help).status().message());
  };
  EXPECT_EQ(message({"--rate=0"}),
            "--rate: \"0\" is no positive number of requests a second, nor a share like 40%");
  EXPECT_EQ(message({"--duration=-1"}), "--duration=-1: wants a positive number");
  EXPECT_EQ(message({"--warmup=-1"}), "--warmup=-1: must not be negative");
  EXPECT_EQ(message({"--arrivals=bursts"}), "--arrivals=bursts: neither poisson nor constant");
  EXPECT_EQ(message({"now"}), "\"now\" is no flag; --help lists them");
  EXPECT_EQ(std::string(ParseOptions({}, help).status().message()), "--model=NAME is needed");
}

TEST(OptionsTest, HelpIsNoError) {
  std::string help;
  const auto options = ParseOptions({"--help"}, help);
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->has_value());
  EXPECT_NE(help.find("--sweep=FROM:TO:STEP"), std::string::npos);
}

}  // namespace
}  // namespace cellbatch

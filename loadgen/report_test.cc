#include "loadgen/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "loadgen/options.h"
#include "loadgen/sweep.h"

namespace cellbatch {
namespace {

// 100 a second.
std::vector<int64_t> Intended(size_t count) {
  std::vector<int64_t> intended;
  for (size_t i = 0; i < count; ++i) {
    intended.push_back(static_cast<int64_t>(i) * 10'000'000);
  }
  return intended;
}

// `count` requests at 100 a second, answered after 1, 2, 3… us, sent 50 us late.
RunResult MakeRun(size_t count, double rate = 100) {
  auto samples = std::make_shared<Samples>(Intended(count), 0);
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

// Half of the requests of each model; those of "nmt" say two words, the first after 25 us.
RunResult MakeMix(size_t count) {
  RunResult run = MakeRun(count);
  auto samples = std::make_shared<Samples>(Intended(count), 0);
  for (size_t i = 0; i < count; ++i) {
    run.part_of.push_back(i % 2);
    samples->Sent(i, samples->intended(i));
    if (i % 2 == 1) {
      samples->Words(i, samples->intended(i) + 25'000, 2);
    }
    samples->Done(i, samples->intended(i) + 80'000, SampleOutcome::kCompleted);
  }
  const double seconds = static_cast<double>(count) / 100;
  run.samples = samples;
  run.summary = Summarize(*samples, run.lengths, seconds);
  run.parts = {{"tree", 1, 8, SummarizePart(*samples, run.lengths, seconds, run.part_of, 0)},
               {"nmt", 1, 1, SummarizePart(*samples, run.lengths, seconds, run.part_of, 1)}};
  return run;
}

TEST(ReportTest, OfAMixEveryModelHasItsOwnLatencies) {
  const std::string text = RunText(MakeMix(1000));
  EXPECT_NE(text.find("\n  tree                 500  80.0 us"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  nmt                  500  80.0 us"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  nmt, first word      500  25.0 us"), std::string::npos) << text;
  EXPECT_EQ(text.find("tree, first word"), std::string::npos) << text;
  EXPECT_NE(text.find("450.0 inputs/s"), std::string::npos) << "50 x 8 + 50 x 1: " << text;
  EXPECT_NE(text.find("1,000 words streamed, 2.0 an answer"), std::string::npos) << text;
  const nlohmann::json json = RunJson(MakeMix(1000));
  ASSERT_EQ(json["models"].size(), 2u);
  EXPECT_EQ(json["models"][1]["name"], "nmt");
  EXPECT_EQ(json["models"][1]["first_word"]["count"], 500);
  EXPECT_DOUBLE_EQ(json["models"][1]["first_word"]["p99_ms"].get<double>(), 0.025);
  EXPECT_EQ(json["models"][0]["completed"], 500);
  EXPECT_EQ(json["words"], 1000);
  const std::string csv = RunsCsv("tree+nmt", {MakeMix(1000)});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4) << "all, and each model";
  EXPECT_NE(csv.find("\nnmt,poisson"), std::string::npos) << csv;
}

TEST(ReportTest, ARunOfOneModelWithoutWordsSaysNothingOfEither) {
  const std::string text = RunText(MakeRun(1000));
  EXPECT_EQ(text.find("first word"), std::string::npos) << text;
  EXPECT_EQ(text.find("inputs/s"), std::string::npos) << text;
}

TEST(ReportTest, RecordsHoldEveryRequest) {
  EXPECT_EQ(RecordsCsv(MakeRun(2)),
            "phase,length,intended_ns,sent_ns,done_ns,outcome,model,first_word_ns,words\n"
            "measure,24,0,50000,51000,completed,,-1,0\n"
            "measure,24,10000000,10050000,10052000,completed,,-1,0\n");
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
  EXPECT_EQ(message({"--timeout=1e10"}), "--timeout=10000000000: the most is 100000000");
  for (const std::string flag : {"--warmup", "--cooldown", "--capacity-warmup"}) {
    EXPECT_EQ(message({flag + "=1e17"}), flag + "=1e+17: the most is 100000000");
    EXPECT_EQ(message({flag + "=inf"}), flag + "=inf: wants a finite number");
  }
  for (const std::string value : {"-1", "nan", "inf", "1e17", "soon"}) {
    EXPECT_EQ(message({"--null-target=" + value}),
              "--null-target=" + value + ": wants milliseconds, 0 to 1e+11");
  }
  EXPECT_EQ(message({"--connections=4294967297"}), "--connections=4294967297: the most is 1048576");
  EXPECT_EQ(message({"--most-outstanding=5000000000"}),
            "--most-outstanding=5000000000: the most is 1048576");
  EXPECT_EQ(message({"--arrivals=bursts"}), "--arrivals=bursts: neither poisson nor constant");
  EXPECT_EQ(message({"now"}), "\"now\" is no flag; --help lists them");
  EXPECT_EQ(std::string(ParseOptions({}, help).status().message()), "--model=NAME is needed");
  EXPECT_EQ(std::string(ParseOptions({"--null-target=0", "--mix=a;b"}, help).status().message()),
            "--null-target and --mix exclude each other");
  const auto null_target = ParseOptions({"--null-target=0.5"}, help);
  ASSERT_TRUE(null_target.ok()) << null_target.status();
  EXPECT_EQ((*null_target)->null_target_ms, 0.5);
}

TEST(OptionsTest, AModelsFieldsAreFlagsAndAMixesDefaults) {
  std::string help;
  const auto one = ParseOptions({"--model=m", "--call=typed", "--many=8", "--priority=2"}, help);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ((*one)->entries.size(), 1u);
  EXPECT_EQ((*one)->entries[0].model, "m");
  EXPECT_EQ((*one)->entries[0].call, LoadCall::kTyped);
  EXPECT_EQ((*one)->entries[0].many, 8);
  EXPECT_EQ((*one)->entries[0].priority, 2);
  const auto mix = ParseOptions({"--mix=a,weight=3;b,call=infer", "--call=typed"}, help);
  ASSERT_TRUE(mix.ok()) << mix.status();
  ASSERT_EQ((*mix)->entries.size(), 2u);
  EXPECT_EQ((*mix)->entries[0].call, LoadCall::kTyped);
  EXPECT_EQ((*mix)->entries[1].call, LoadCall::kInfer);
  const auto message = [&](std::vector<std::string> arguments) {
    return std::string(ParseOptions(arguments, help).status().message());
  };
  EXPECT_EQ(message({"--model=m", "--mix=a"}), "--model and --mix exclude each other");
  EXPECT_EQ(message({"--model=m", "--call=fast"}), "--call=fast: wants infer, typed or decode");
  EXPECT_EQ(message({"--model=m", "--many=2"}),
            "--many=2: call=infer sends one input a request; many need call=typed");
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

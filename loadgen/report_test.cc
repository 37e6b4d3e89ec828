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
  run.verdict = Judge(run.summary, {}, {});
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
  EXPECT_NE(text.find("INVALID: 458 answers, --min-answers asks for 459, as a p99 needs\n"
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

// A distribution that no other looks like: `n` is in all of its figures.
Distribution Of(uint64_t count, int64_t n) {
  return {count, n * 1e6, n * 9'000'000, {n * 1'000'000, n * 2'000'000, n * 4'000'000, {}}};
}

// No two of its figures are alike.
RunResult EveryFigure() {
  RunResult run;
  run.rate = 40;
  run.process = ArrivalProcess::kConstant;
  run.seed = 11;
  run.warmup_seconds = 3;
  Summary& s = run.summary;
  s.offered = 100, s.sent = 97, s.completed = 50, s.rejected = 20, s.failed = 14, s.cancelled = 8;
  s.lost = 5, s.words = 66, s.seconds = 2, s.offered_per_second = 48, s.completed_per_second = 24;
  s.response = Of(50, 2), s.service = Of(49, 3), s.send_lag = Of(97, 5), s.first_word = Of(33, 7);
  s.send_lag_p99 = 23'000'000;
  s.by_length = {{1, 8, Of(30, 11)}, {129, 1 << 30, Of(20, 13)}};
  run.verdict = {{{"14 requests failed", "see"}}, true};
  run.errors = {{"UNAVAILABLE: gone", 14}};
  run.priority = ThreadPriority::kRaised;
  run.cpu_cores = 0.25;
  PartResult tree{"tree", 3, 8, {}}, nmt{"nmt", 0.5, 1, {}};
  Summary& t = tree.summary;
  t.offered = 60, t.completed = 31, t.rejected = 12, t.failed = 9, t.cancelled = 4, t.lost = 2;
  t.offered_per_second = 30, t.completed_per_second = 15, t.seconds = 2, t.words = 1;
  t.response = Of(31, 17), t.send_lag_p99 = 29'000'000;
  nmt.summary = t;
  nmt.summary.completed_per_second = 6, nmt.summary.words = 65, nmt.summary.first_word = Of(19, 19);
  run.parts = {tree, nmt};
  return run;
}

nlohmann::json AsJson(const Distribution& of, int64_t n) {
  return {{"count", of.count}, {"mean_ms", n},    {"max_ms", n * 9},    {"p50_ms", n},
          {"p90_ms", n * 2},   {"p99_ms", n * 4}, {"p99.9_ms", nullptr}};
}

TEST(ReportTest, InJsonEveryFigureStandsUnderItsName) {
  const RunResult run = EveryFigure();
  const Summary &s = run.summary, &tree = run.parts[0].summary, &nmt = run.parts[1].summary;
  nlohmann::json short_ones = AsJson(s.by_length[0].response, 11);
  short_ones.update({{"shortest", 1}, {"longest", 8}});
  nlohmann::json long_ones = AsJson(s.by_length[1].response, 13);
  long_ones.update({{"shortest", 129}, {"longest", 1 << 30}});
  const nlohmann::json nothing = {{"count", 0},         {"mean_ms", 0.0},    {"max_ms", 0.0},
                                  {"p50_ms", nullptr},  {"p90_ms", nullptr}, {"p99_ms", nullptr},
                                  {"p99.9_ms", nullptr}};
  nlohmann::json models = nlohmann::json::parse(R"([
      {"name": "tree", "weight": 3, "inputs": 8, "offered": 60, "completed": 31, "rejected": 12, "failed": 9,
       "offered_per_second": 30, "completed_per_second": 15, "words": 1},
      {"name": "nmt", "weight": 0.5, "inputs": 1, "offered": 60, "completed": 31, "rejected": 12, "failed": 9,
       "offered_per_second": 30, "completed_per_second": 6, "words": 65}])");
  models[0].update({{"response", AsJson(tree.response, 17)}, {"first_word", nothing}});
  models[1].update(
      {{"response", AsJson(nmt.response, 17)}, {"first_word", AsJson(nmt.first_word, 19)}});
  nlohmann::json all = nlohmann::json::parse(R"json({
      "process": "constant", "rate": 40, "seed": 11, "warmup_seconds": 3, "seconds": 2,
      "verdict": "INVALID", "findings": [{"reason": "14 requests failed", "remedy": "see"}], "overload": true,
      "offered": 100, "sent": 97, "completed": 50, "rejected": 20, "failed": 14, "cancelled": 8, "lost": 5,
      "offered_per_second": 48, "completed_per_second": 24, "words": 66, "inputs_per_second": 126,
      "send_lag_p99_ms": 23, "errors": {"UNAVAILABLE: gone": 14},
      "generator_priority": "raised (nice -20)", "generator_cores": 0.25})json");
  all.update({{"response", AsJson(s.response, 2)},
              {"service", AsJson(s.service, 3)},
              {"send_lag", AsJson(s.send_lag, 5)},
              {"first_word", AsJson(s.first_word, 7)},
              {"response_by_length", {short_ones, long_ones}},
              {"models", models}});
  EXPECT_EQ(nlohmann::json::diff(RunJson(run), all), nlohmann::json::array());
  EXPECT_EQ(
      CapacityJson({.per_second = 12.5, .answers = 50, .seconds = 4, .in_flight = 6}),
      (nlohmann::json{
          {"requests_per_second", 12.5}, {"in_flight", 6}, {"answers", 50}, {"seconds", 4.0}}));
}

TEST(ReportTest, InCsvEveryFigureStandsUnderItsName) {
  EXPECT_EQ(RunsCsv("tree+nmt", {EveryFigure()}),
            "model,process,seed,rate,seconds,offered,completed,rejected,failed,cancelled,lost,"
            "offered_per_second,completed_per_second,mean_ms,p50_ms,p90_ms,p99_ms,p99.9_ms,max_ms,"
            "send_lag_p99_ms,overload,verdict,first_word_p50_ms,first_word_p90_ms,"
            "first_word_p99_ms,first_word_p99.9_ms\n"
            "tree+nmt,constant,11,40,2,100,50,20,14,8,5,48.000,24.000,2.000000,2.000000,4.000000,"
            "8.000000,,18.000000,23.000000,yes,INVALID,7.000000,14.000000,28.000000,\n"
            "tree,constant,11,40,2,60,31,12,9,4,2,30.000,15.000,17.000000,17.000000,34.000000,"
            "68.000000,,153.000000,29.000000,yes,INVALID,,,,\n"
            "nmt,constant,11,40,2,60,31,12,9,4,2,30.000,6.000,17.000000,17.000000,34.000000,"
            "68.000000,,153.000000,29.000000,yes,INVALID,19.000000,38.000000,76.000000,\n");
}

TEST(ReportTest, InTextEveryFigureStandsUnderItsName) {
  const std::string verdict =
      "overload: the server did not keep up with the offered rate; latencies depend on how long it "
      "lasts\n14 x UNAVAILABLE: gone\nINVALID: 14 requests failed\n  do: see\n";
  EXPECT_EQ(RunText(EveryFigure()),
            R"(constant arrivals at 40 requests/s, seed 11, 3 s warm-up, 2 s measured
generator threads: raised (nice -20); 0.25 cores used by this process

           requests  requests/s     share
offered         100        48.0  100.00 %
completed        50        24.0   50.00 %
rejected         20        10.0   20.00 %
failed           14         7.0   14.00 %
cancelled         8         4.0    8.00 %

latency               answers     mean      p50      p90      p99  p99.9      max
response                   50  2.00 ms  2.00 ms  4.00 ms  8.00 ms      –  18.0 ms
first word                 33  7.00 ms  7.00 ms  14.0 ms  28.0 ms      –  63.0 ms
  tree                     31  17.0 ms  17.0 ms  34.0 ms  68.0 ms      –   153 ms
  nmt                      31  17.0 ms  17.0 ms  34.0 ms  68.0 ms      –   153 ms
  nmt, first word          19  19.0 ms  19.0 ms  38.0 ms  76.0 ms      –   171 ms
  1 to 8 steps             30  11.0 ms  11.0 ms  22.0 ms  44.0 ms      –  99.0 ms
  129 steps and more       20  13.0 ms  13.0 ms  26.0 ms  52.0 ms      –   117 ms
service                    49  3.00 ms  3.00 ms  6.00 ms  12.0 ms      –  27.0 ms
send lag                   97  5.00 ms  5.00 ms  10.0 ms  20.0 ms      –  45.0 ms
response: from the intended send time to the answer. service: from the actual send.
first word: from the intended send time, too.
126.0 inputs/s: a request is a message of several
66 words streamed, 2.0 an answer

)" + verdict);
  EXPECT_EQ(SweepText({EveryFigure()}),
            R"(offered/s  completed/s  rejected  failed     mean      p50      p90      p99  p99.9)"
            R"(      max  send lag p99  verdict
     48.0         24.0        20      14  2.00 ms  2.00 ms  4.00 ms  8.00 ms      –)"
            R"(  18.0 ms       23.0 ms  INVALID, overload

at 40.0 requests/s
)" + verdict);
  EXPECT_EQ(CapacityText({.per_second = 12.5, .answers = 5000, .seconds = 4, .in_flight = 6}),
            "capacity 12.5 requests/s (closed loop, 6 in flight: 5,000 answers in 4.0 s)\n");
}

TEST(ReportTest, AModelAloneHasNoLineOfItsOwnAndWhatWasNotMeasuredNoFigure) {
  RunResult run = EveryFigure();
  run.parts.pop_back();
  run.parts[0].inputs = 1;
  run.summary.response = {};
  run.verdict = {};
  run.errors.clear();
  const std::string text = RunText(run);
  EXPECT_NE(text.find("\nresponse                    0        –        –        –        –      –"
                      "        –\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n\nVALID: 50 answers, none lost, send lag p99 23.0 ms\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("tree"), std::string::npos) << text;
  EXPECT_EQ(text.find("inputs/s"), std::string::npos) << text;
  const std::string csv = RunsCsv("tree", {run});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2) << csv;
  run.parts.clear();
  EXPECT_EQ(RunJson(run)["inputs_per_second"], 24);
}

TEST(ReportTest, ARunThatWasStoppedInItsWarmUpHasNoRates) {
  RunResult run = MakeRun(0);
  run.summary.cancelled = 3;
  const std::string text = RunText(run);
  EXPECT_NE(text.find(", 5 s warm-up, 0 s measured\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ncancelled         3         0.0  0.00 %\n"), std::string::npos) << text;
  EXPECT_EQ(RunJson(run)["offered_per_second"], 0);
}

TEST(ReportTest, RecordsHoldEveryRequest) {
  EXPECT_EQ(RecordsCsv(MakeRun(2)),
            "phase,length,intended_ns,sent_ns,done_ns,outcome,model,first_word_ns,words\n"
            "measure,24,0,50000,51000,completed,,-1,0\n"
            "measure,24,10000000,10050000,10052000,completed,,-1,0\n");
}

TEST(ReportTest, InRecordsWhoGotNoAnswerHasFailed) {
  RunResult run = MakeRun(1);
  auto samples = std::make_shared<Samples>(Intended(1), 0);
  samples->Sent(0, 1);
  samples->Done(0, 2, SampleOutcome::kUnanswered);
  run.samples = samples;
  EXPECT_NE(RecordsCsv(run).find("\nmeasure,24,0,1,2,failed,,-1,0\n"), std::string::npos);
}

TEST(SweepTest, ATableHasALineForEachPointAndTheReasonsBelow) {
  const std::string text = SweepText({MakeRun(1000, 100), MakeRun(10, 200)});
  EXPECT_NE(text.find("offered/s"), std::string::npos);
  EXPECT_NE(text.find("\nat 200.0 requests/s\n"
                      "INVALID: 10 answers, --min-answers asks for 459, as a p99 needs\n"),
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

TEST(SweepTest, WhatWasNotMeasuredIsNamed) {
  const auto shares = ParseSweep("10%:40%:10%");
  ASSERT_TRUE(shares.ok()) << shares.status();
  const std::vector<double> left = NotMeasured(*shares, 1000, 1);
  ASSERT_EQ(left.size(), 3u);
  EXPECT_NEAR(left[0], 200, 1e-6);
  EXPECT_EQ(RatesText(left), "200.0 to 400.0 requests/s (3 rates)");
  EXPECT_EQ(RatesText(NotMeasured(*shares, 1000, 3)), "400.0 requests/s");
  EXPECT_TRUE(NotMeasured(*shares, 1000, 4).empty());
}

TEST(SweepTest, BothEndsAreIncluded) {
  const auto points = ParseSweep("10:50:20");
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 3u);
  EXPECT_EQ(points->at(2).Resolve(1), 50);
  EXPECT_EQ(ParseSweep("0.1:0.3:0.1")->size(), 3u) << "though 0.2 / 0.1 is a little less than 2";
  EXPECT_EQ(ParseSweep("20:20:5")->size(), 1u);
  EXPECT_EQ(ParseSweep("1:1000:1")->size(), 1000u);
  const auto shares = ParseSweep("10%:110%:10%");
  ASSERT_TRUE(shares.ok()) << shares.status();
  ASSERT_EQ(shares->size(), 11u);
  EXPECT_NEAR(shares->at(10).Resolve(1000), 1100, 1e-6);
}

TEST(SweepTest, WhatIsNoSweepIsNamed) {
  for (const char* text : {"", "10", "10:20", "20:10:5", "10:20:0", "10:20%:5", "10:20:5%",
                           "1:2:3:4", "1:1001:1", "a:b:c", "-1:5:1", "nan:5:1", "1:inf:1"}) {
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

TEST(OptionsTest, EveryFlagSetsItsOwn) {
  std::string help;
  const auto parsed = ParseOptions(
      {"--model=m", "--url=h:1", "--duration=11", "--warmup=12", "--seed=13", "--json=j", "--csv=c",
       "--records=r", "--timeout=1e8", "--cooldown=14", "--connections=15",
       "--most-outstanding=1048576", "--min-answers=17", "--in-flight=1", "--capacity-warmup=1e8",
       "--capacity-duration=20", "--arrivals=constant", "--tls"},
      help);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Options& o = **parsed;
  EXPECT_EQ(o.url, "h:1");
  EXPECT_TRUE(o.security.tls);
  EXPECT_EQ((std::vector<std::string>{o.json, o.csv, o.records}),
            (std::vector<std::string>{"j", "c", "r"}));
  EXPECT_EQ((std::vector<double>{o.duration, o.warmup, o.timeout, o.cooldown, o.capacity_warmup,
                                 o.capacity_duration}),
            (std::vector<double>{11, 12, 1e8, 14, 1e8, 20}));
  EXPECT_EQ(
      (std::vector<int64_t>{o.seed, o.connections, o.most_outstanding, o.min_answers, o.in_flight}),
      (std::vector<int64_t>{13, 15, 1048576, 17, 1}));
  EXPECT_EQ(o.process, ArrivalProcess::kConstant);
  EXPECT_EQ((*ParseOptions({"--model=m"}, help))->process, ArrivalProcess::kPoisson);
  EXPECT_EQ((*ParseOptions({"--null-target=1e11"}, help))->null_target_ms, 1e11);
}

TEST(OptionsTest, AnyFileMayBeStdout) {
  std::string help;
  EXPECT_FALSE((*ParseOptions({"--model=m", "--json=j", "--csv=c"}, help))->stdout_is_a_file());
  for (const std::string flag : {"--json", "--csv", "--records"}) {
    EXPECT_TRUE((*ParseOptions({"--model=m", flag + "=-"}, help))->stdout_is_a_file()) << flag;
  }
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
  EXPECT_EQ(message({"--in-flight=0"}), "--in-flight=0: wants a positive number");
  EXPECT_EQ(message({"--measure-capacity", "--sweep=1:2:1"}),
            "--measure-capacity and --sweep exclude each other");
  EXPECT_EQ(message({"--json=-", "--csv=-"}),
            "--json=- and --csv=-: only one of them can be stdout");
  EXPECT_EQ(message({"--records=-", "--csv=-"}),
            "--csv=- and --records=-: only one of them can be stdout");
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
  const auto pieces =
      ParseOptions({"--model=m", "--version=7", "--data=d", "--outputs=A+B", "--piece=5",
                    "--streams=6", "--spelled=0.5", "--timeout-us=900"},
                   help);
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  const MixEntry& entry = (*pieces)->entries.at(0);
  EXPECT_EQ(entry.version, "7");
  EXPECT_EQ(entry.data, "d");
  EXPECT_EQ(entry.outputs, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(entry.piece, 5);
  EXPECT_EQ(entry.streams, 6);
  EXPECT_EQ(entry.spelled, 0.5);
  EXPECT_EQ(entry.timeout_us, 900);
  const auto decoder =
      ParseOptions({"--model=m", "--lengths=l", "--call=decode", "--steps=model"}, help);
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  EXPECT_EQ((*decoder)->entries.at(0).lengths, "l");
  EXPECT_TRUE((*decoder)->entries.at(0).free_decode);
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

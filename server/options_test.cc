#include "server/options.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const auto options = ParseOptions(arguments);
  return options.ok() ? "" : std::string(options.status().message());
}

TEST(OptionsTest, BothWaysOfWritingAFlag) {
  const auto options =
      ParseOptions({"--model-repository", "models", "--grpc-address=127.0.0.1:0", "--check",
                    "--max-queued-cells", "500", "--drain-delay=250ms", "--drain-timeout", "2min",
                    "--unload-limit=90s", "--row-budget=64MiB", "--strict-readiness=false"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->model_repository, "models");
  EXPECT_EQ(options->grpc_address, "127.0.0.1:0");
  EXPECT_TRUE(options->check);
  EXPECT_EQ(options->max_queued_cells, 500);
  EXPECT_EQ(options->drain_delay, std::chrono::milliseconds(250));
  EXPECT_EQ(options->drain_timeout, std::chrono::minutes(2));
  EXPECT_EQ(options->unload_limit, std::chrono::seconds(90));
  EXPECT_EQ(options->row_budget, 64 << 20);
  EXPECT_FALSE(options->strict_readiness);
}

TEST(OptionsTest, ADeviceThatHangsIsBoundedByATimeAndByAFactor) {
  const auto defaults = ParseOptions({"--model-repository=m"});
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(defaults->task_time_limit, std::chrono::seconds(10));
  EXPECT_EQ(defaults->task_time_factor, 100);
  const auto options =
      ParseOptions({"--model-repository=m", "--task-time-limit=1500ms", "--task-time-factor=7"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->task_time_limit, std::chrono::milliseconds(1500));
  EXPECT_EQ(options->task_time_factor, 7);
  const auto never = ParseOptions({"--model-repository=m", "--task-time-limit=0"});
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_EQ(never->task_time_limit, std::chrono::milliseconds(0));
  EXPECT_EQ(ErrorOf({"--model-repository=m", "--task-time-limit=-1s"}),
            "--task-time-limit=-1s: expected a time such as 250ms, 5s, 2min or 1h");
  EXPECT_EQ(ErrorOf({"--model-repository=m", "--task-time-factor=0"}),
            "--task-time-factor=0: expected 1 to 1048576");
  EXPECT_EQ(ErrorOf({"--model-repository=m", "--task-time-factor=1048577"}),
            "--task-time-factor=1048577: expected 1 to 1048576");
}

// L3: one clear line each.
TEST(OptionsTest, WhatIsWrongIsSaidInOneLineWithTheFlagTheValueAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf({}), "--model-repository is missing (see --help)");
  EXPECT_EQ(ErrorOf({"--modle-repository=x"}), "unknown flag --modle-repository (see --help)");
  EXPECT_EQ(ErrorOf({"x"}), "unexpected argument x (flags start with --; see --help)");
  EXPECT_EQ(ErrorOf({"--model-repository"}), "--model-repository needs a value");
  const std::string repository = "--model-repository=m";
  EXPECT_EQ(ErrorOf({repository, "--check=yes"}), "--check=yes: expected true or false");
  EXPECT_EQ(ErrorOf({repository, "--max-queued-cells=0"}),
            "--max-queued-cells=0: expected 1 to 9223372036854775807");
  EXPECT_EQ(ErrorOf({repository, "--max-queued-cells=lots"}),
            "--max-queued-cells=lots: expected a number such as 512, 64KiB, 64MiB or 4GiB");
  EXPECT_EQ(ErrorOf({repository, "--drain-delay=-1s"}),
            "--drain-delay=-1s: expected a time such as 250ms, 5s, 2min or 1h");
  EXPECT_EQ(ErrorOf({repository, "--strict-readiness", "false"}),
            "unexpected argument false (it takes a =: --strict-readiness=false)");
  EXPECT_EQ(ErrorOf({repository, "--repository-poll=9ms"}),
            "--repository-poll=9ms: expected 10 to 2147483647 milliseconds");
  EXPECT_EQ(ErrorOf({repository, "--batch-limit=8192"}), "--batch-limit=8192: expected 1 to 4096");
  EXPECT_EQ(ErrorOf({repository, "--latency-samples=1000"}),
            "--latency-samples=1000: expected a power of two");
  EXPECT_EQ(ErrorOf({repository, "--model-control=explicit", "--load-model="}),
            "--load-model=: expected the name of a model, or *");
  EXPECT_EQ(ErrorOf({repository, "--check", "--explain=m"}),
            "--explain=m: expected without --check, which looks at every model and exits");
  EXPECT_EQ(ErrorOf({repository, "--cuda-fp32=bf16"}), "--cuda-fp32=bf16: expected fma or 3xtf32");
  EXPECT_EQ(ErrorOf({repository, "--cuda-tasks-a-launch=3"}),
            "--cuda-tasks-a-launch=3: expected 1, 2 or 4");
  EXPECT_EQ(ErrorOf({repository, "--log-level=loud"}),
            "--log-level=loud: expected debug, info, warn, error or off");
  for (const char* address : {"8001", ":8001", "localhost:", "localhost:http", "localhost:70000"}) {
    EXPECT_EQ(
        ErrorOf({repository, std::string("--grpc-address=") + address}),
        std::string("--grpc-address=") + address + ": expected HOST:PORT, such as 127.0.0.1:8001");
  }
}

TEST(OptionsTest, HelpNeedsNothingElseAndNamesEveryFlagWithItsDefault) {
  const auto options = ParseOptions({"--help"});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->help);
  const std::string help = OptionsHelp();
  for (const char* part :
       {"--model-repository\n", "--grpc-address=0.0.0.0:8001", "--http-address=0.0.0.0:8000",
        "--metrics-address=0.0.0.0:8002", "--devices=auto", "--cuda-libraries\n",
        "--cuda-fp32=3xtf32", "--check=false", "--max-queued-cells=1000000", "--drain-delay=5s",
        "--task-time-limit=10s", "--task-time-factor=100"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part;
  }
}

TEST(OptionsTest, DefaultsInBytesAreSharesOfTheMemoryThatCanBeHad) {
  const ServerOptions unknown = DefaultOptions(std::nullopt), large = DefaultOptions(1LL << 40);
  for (const ServerOptions& options : {unknown, large}) {
    EXPECT_EQ(options.max_queued_bytes, 4LL << 30);
    EXPECT_EQ(options.max_answer_bytes, 64 << 20);
    EXPECT_EQ(options.row_budget, 1LL << 30);
    EXPECT_EQ(options.max_sequence_bytes, 256 << 20);
    EXPECT_EQ(options.max_queued_requests, 100000);
    EXPECT_EQ(options.max_queued_cells, 1000000);
    EXPECT_EQ(options.latency_samples, 1 << 20);
  }
  EXPECT_EQ(unknown.fold_budget, 1LL << 30);
  EXPECT_EQ(large.fold_budget, 1LL << 38);  // spent as far as it saves time
  const ServerOptions small = DefaultOptions(512 << 20);
  EXPECT_EQ(small.max_queued_bytes, 128 << 20);
  EXPECT_EQ(small.max_answer_bytes, 32 << 20);
  EXPECT_EQ(small.row_budget, 64 << 20);
  EXPECT_EQ(small.max_sequence_bytes, 16 << 20);
  EXPECT_EQ(small.fold_budget, 128 << 20);
  EXPECT_EQ(small.grpc_max_message_bytes, 64 << 20);
  EXPECT_EQ(small.max_queued_requests, 32768);
  EXPECT_EQ(small.max_queued_cells, 524288);
  EXPECT_EQ(small.latency_samples, 1 << 20);
  const ServerOptions smaller = DefaultOptions((256 << 20) - 1);
  EXPECT_EQ(smaller.grpc_max_message_bytes, (32 << 20) - 1);
  EXPECT_EQ(smaller.http_max_body_bytes, (32 << 20) - 1);
  EXPECT_EQ(smaller.grpc_max_slow_bytes, (32 << 20) - 1);
  EXPECT_EQ(smaller.latency_samples, 1 << 18) << "a power of two";
  EXPECT_EQ(smaller.http_max_held_bytes, (16 << 20) - 1);
  EXPECT_EQ(smaller.grpc_max_unfinished_bytes, ((256 << 20) - 1) / 6);
  EXPECT_EQ(smaller.grpc_max_streams, 2730);
  EXPECT_EQ(smaller.tls_max_handshakes, 204);
  const ServerOptions none = DefaultOptions(0);
  EXPECT_EQ(none.max_queued_bytes, 1);
  EXPECT_EQ(none.max_answer_bytes, 1);
  EXPECT_EQ(none.max_sequence_bytes, 1);
  EXPECT_EQ(none.row_budget, 1 << 16);  // the least that the flag takes
  EXPECT_EQ(none.fold_budget, 0);
}

TEST(OptionsTest, WhereAServerHasNoRoomItSaysSoInOneLine) {
  EXPECT_TRUE(CheckMemory(std::nullopt).ok());
  EXPECT_TRUE(CheckMemory(64 << 20).ok());
  EXPECT_EQ(std::string(CheckMemory(40 << 20).message()),
            "40 MiB of memory can be had here, a server without a model takes 64 MiB");
}

TEST(OptionsTest, WhatIsLeftAtZeroBytesCanStillBeGivenAsFlags) {
  std::vector<std::string> arguments = {"--model-repository=m"};
  for (const Limit& limit : LimitsOf(DefaultOptions(0))) {
    if (limit.name.ends_with("_seconds")) continue;
    arguments.push_back("--" + limit.name + "=" +
                        std::to_string(static_cast<int64_t>(limit.value)));
  }
  const auto options = ParseOptions(arguments);
  EXPECT_TRUE(options.ok()) << options.status();
}

TEST(OptionsTest, LimitsInForceAreAllNumbersByTheNamesOfTheirFlags) {
  const auto options =
      ParseOptions({"--model-repository=m", "--max-queued-cells=500", "--drain-delay=250ms"});
  ASSERT_TRUE(options.ok());
  std::map<std::string, double> limits;
  for (const Limit& limit : LimitsOf(*options)) limits[limit.name] = limit.value;
  EXPECT_EQ(limits.at("max-queued-cells"), 500);
  EXPECT_EQ(limits.at("drain-delay_seconds"), 0.25);
  EXPECT_EQ(limits.at("max-queued-requests"), 100000);
  EXPECT_EQ(limits.count("strict-readiness"), 0u);
}

TEST(OptionsTest, AFlagThatIsGivenBeatsItsDefault) {
  const auto options =
      ParseOptions({"--model-repository=m", "--row-budget=2GiB"}, DefaultOptions(1 << 30));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->row_budget, 2LL << 30);
  EXPECT_EQ(options->fold_budget, 256 << 20);
}

TEST(OptionsTest, AmountsAndTimes) {
  EXPECT_EQ(*ParseAmount("4GiB"), 4LL << 30);
  EXPECT_EQ(*ParseAmount("3K"), 3072);
  EXPECT_EQ(*ParseAmount("3KiB"), 3072);
  EXPECT_EQ(*ParseAmount("5M"), 5 << 20);
  EXPECT_EQ(*ParseAmount("2G"), 2LL << 30);
  EXPECT_FALSE(ParseAmount("-1").ok());
  EXPECT_FALSE(ParseDuration("9223372036854775807h").ok()) << "more than there is room for";
  EXPECT_FALSE(ParseAmount("99999999999G").ok());
  EXPECT_FALSE(ParseAmount("1.5K").ok());
  EXPECT_EQ(ParseDuration("1h")->count(), 3'600'000);
  EXPECT_EQ(ParseDuration("7")->count(), 7);
  EXPECT_FALSE(ParseDuration("7 s").ok());
  EXPECT_FALSE(ParseDuration("").ok());
}

// Whatever is said of a flag's bounds is so, and its default lies within.
TEST(OptionsTest, EveryNumberIsTakenUpToTheBoundsThatItsRefusalNames) {
  int bounded = 0;
  for (const Limit& limit : LimitsOf({})) {
    const std::string flag = "--" + limit.name.substr(0, limit.name.rfind("_seconds")) + "=";
    const auto taken = [&](int64_t value) {
      return ErrorOf({"--model-repository=m", flag + std::to_string(value)}).empty();
    };
    const bool is_time = limit.name.ends_with("_seconds");
    EXPECT_TRUE(taken(std::llround(is_time ? 1000 * limit.value : limit.value))) << flag;
    for (const char* beyond : {"0", "9223372036854775807"}) {
      const std::string refusal = ErrorOf({"--model-repository=m", flag + beyond});
      if (refusal.empty()) continue;
      int64_t least = 0, most = 0;
      const std::string text = refusal.substr(refusal.find("expected "));
      ASSERT_EQ(std::sscanf(text.c_str(), "expected %ld to %ld", &least, &most), 2) << refusal;
      EXPECT_EQ(text.ends_with(" milliseconds"), is_time) << refusal;
      EXPECT_TRUE(taken(least)) << refusal;
      EXPECT_TRUE(taken(most)) << refusal;
      EXPECT_FALSE(least > 0 && taken(least - 1)) << refusal;
      EXPECT_FALSE(most < INT64_MAX && taken(most + 1)) << refusal;
      ++bounded;
    }
  }
  EXPECT_GT(bounded, 50);
}

TEST(OptionsTest, FlagsThatGoTogetherOrNotAtAllSaySo) {
  const std::string repository = "--model-repository=m";
  const auto named = ParseOptions({repository, "--model-control=explicit", "--load-model=a",
                                   "--load-model", "*", "--load-model=a"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->load_models, (std::vector<std::string>{"a", "*", "a"}));
  EXPECT_EQ(ErrorOf({repository, "--model-control=poll", "--load-model=a"}),
            "--load-model=a: expected with --model-control=explicit alone, which is poll");
  EXPECT_EQ(ErrorOf({repository, "--model-control=all"}),
            "--model-control=all: expected none, explicit or poll");
  EXPECT_EQ(ErrorOf({repository, "--tokens=t", "--grpc-channelz"}),
            "--grpc-channelz: expected without --tokens=t, as gRPC's library asks for none");
  for (const std::string flag : {"tls-key=k", "tls-client-ca=c", "tls-metrics"}) {
    EXPECT_EQ(ErrorOf({repository, "--" + flag}),
              "--" + flag.substr(0, flag.find('=')) +
                  ": expected with --tls-certificate, which is missing");
    EXPECT_EQ(ErrorOf({repository, "--tls-certificate=x", "--tls-key=k", "--" + flag}), "");
  }
  EXPECT_EQ(ErrorOf({repository, "--tls-certificate=x"}),
            "--tls-certificate=x: expected with --tls-key, which is missing");
  EXPECT_EQ(ErrorOf({repository, "--log-format=xml"}), "--log-format=xml: expected text or json");
  EXPECT_EQ(ErrorOf({repository, "--log-format=json"}), "");
  EXPECT_EQ(ErrorOf({"--version"}), "") << "of no repository";
  EXPECT_EQ(ErrorOf({repository, "--check", "true"}),
            "unexpected argument true (it takes a =: --check=true)");
}

TEST(OptionsTest, EachAddressIsAHostAndAPort) {
  for (const std::string flag : {"--grpc-address=", "--http-address=", "--metrics-address="}) {
    for (const char* good : {"h:0", "[::1]:8001", "0.0.0.0:65535"}) {
      EXPECT_EQ(ErrorOf({"--model-repository=m", flag + good}), "");
    }
    for (const char* bad : {"", ":1", "h:65536", "h:80x", "h:-1", "h"}) {
      EXPECT_EQ(ErrorOf({"--model-repository=m", flag + bad}),
                flag + bad + ": expected HOST:PORT, such as 127.0.0.1:8001");
    }
  }
}

}  // namespace
}  // namespace cellbatch

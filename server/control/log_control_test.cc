#include "server/control/log_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

using testing::HasSubstr;

class LogControlTest : public testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::info); }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }

  // `settings` as text: log_info { bool_param: true }, ..; by name.
  static inference::LogSettingsRequest Asking(
      const std::vector<std::pair<std::string, std::string>>& settings) {
    inference::LogSettingsRequest request;
    for (const auto& [name, value] : settings) {
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
          value, &(*request.mutable_settings())[name]));
    }
    return request;
  }
  static std::string ErrorOf(const absl::StatusOr<inference::LogSettingsResponse>& response,
                             absl::StatusCode code) {
    EXPECT_EQ(response.status().code(), code) << response.status();
    return std::string(response.status().message());
  }

  const SteadyClock clock_;
  FailureLog failures_{1, LogFormat::kText, [](const std::string&) {}, clock_};
  LogControl control_{/*changes=*/true, LogFormat::kText, failures_};
};

TEST_F(LogControlTest, EveryLevelIsReadAsItWasWritten) {
  struct Case {
    spdlog::level::level_enum level;
    bool error, warning, info;
    uint32_t verbose;
  };
  const Case cases[] = {{spdlog::level::off, false, false, false, 0},
                        {spdlog::level::err, true, false, false, 0},
                        {spdlog::level::warn, true, true, false, 0},
                        {spdlog::level::info, true, true, true, 0},
                        {spdlog::level::debug, true, true, true, 1}};
  for (const Case& from : cases) {
    for (const Case& to : cases) {
      spdlog::set_level(from.level);
      inference::LogSettingsRequest request;
      auto& settings = *request.mutable_settings();
      settings["log_error"].set_bool_param(to.error);
      settings["log_warning"].set_bool_param(to.warning);
      settings["log_info"].set_bool_param(to.info);
      settings["log_verbose_level"].set_uint32_param(to.verbose);
      const auto written = control_.Settings(request);
      ASSERT_TRUE(written.ok()) << written.status();
      EXPECT_EQ(spdlog::default_logger()->level(), to.level);
      const auto read = control_.Settings({});
      EXPECT_EQ(read->settings().at("log_error").bool_param(), to.error);
      EXPECT_EQ(read->settings().at("log_warning").bool_param(), to.warning);
      EXPECT_EQ(read->settings().at("log_info").bool_param(), to.info);
      EXPECT_EQ(read->settings().at("log_verbose_level").uint32_param(), to.verbose);
      EXPECT_EQ(read->settings().at("log_file").string_param(), "");
      EXPECT_EQ(read->settings().at("log_format").string_param(), "default");
      EXPECT_EQ(read->SerializeAsString().size(), written->SerializeAsString().size());
    }
  }
}

TEST_F(LogControlTest, WhatIsNotSaidStaysAndAnyVerboseLevelIsDebug) {
  ASSERT_TRUE(control_.Settings(Asking({{"log_verbose_level", "uint32_param: 7"}})).ok());
  EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::debug);
  ASSERT_TRUE(control_.Settings(Asking({{"log_verbose_level", "uint32_param: 0"}})).ok());
  EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::info);
  ASSERT_TRUE(control_.Settings(Asking({{"log_info", "bool_param: false"}})).ok());
  EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::warn);
  ASSERT_TRUE(control_
                  .Settings(Asking({{"log_file", "string_param: ''"},
                                    {"log_format", "string_param: 'default'"}}))
                  .ok());
  EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::warn);
}

TEST_F(LogControlTest, TheFormatAndTheRateOfFailedRequestsChangeTogetherOrNotAtAll) {
  const auto set = control_.Settings(
      Asking({{"log_format", "string_param: 'json'"}, {"log_failed_requests", "uint32_param: 7"}}));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->settings().at("log_format").string_param(), "json");
  EXPECT_EQ(set->settings().at("log_failed_requests").uint32_param(), 7u);
  EXPECT_EQ(failures_.per_second(), 7);
  EXPECT_EQ(control_.Settings({})->settings().at("log_format").string_param(), "json");
  ::testing::internal::CaptureStdout();
  spdlog::info("a line");  // to stdout, as nobody said otherwise
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("\"message\":\"a line\""));
  EXPECT_FALSE(control_
                   .Settings(Asking({{"log_failed_requests", "uint32_param: 3"},
                                     {"log_format", "string_param: 'xml'"}}))
                   .ok());
  EXPECT_EQ(failures_.per_second(), 7);
  ASSERT_TRUE(control_
                  .Settings(Asking({{"log_format", "string_param: 'default'"},
                                    {"log_failed_requests", "uint32_param: 1000000"}}))
                  .ok());
  EXPECT_EQ(control_.Settings({})->settings().at("log_failed_requests").uint32_param(), 1'000'000u);
}

TEST_F(LogControlTest, WhatIsWrongChangesNothingAndSaysWhatWouldBeRight) {
  const std::pair<std::vector<std::pair<std::string, std::string>>, const char*> cases[] = {
      {{{"log_infos", "bool_param: true"}},
       "setting \"log_infos\": there is none of that name; there are log_error, log_warning, "
       "log_info, log_verbose_level, log_file, log_format and log_failed_requests"},
      {{{"log_info", "uint32_param: 1"}}, "setting \"log_info\": expected is a bool"},
      {{{"log_info", ""}}, "setting \"log_info\": expected is a bool"},
      {{{"log_verbose_level", "bool_param: true"}}, "expected is a uint32"},
      {{{"log_file", "string_param: '/etc/passwd'"}},
       "setting \"log_file\": expected is \"\": the log goes to stderr"},
      {{{"log_file", "bool_param: true"}}, "setting \"log_file\": expected is \"\""},
      {{{"log_format", "string_param: 'ISO8601'"}}, "expected is \"default\" or \"json\""},
      {{{"log_failed_requests", "bool_param: true"}}, "expected is a uint32, at most 1000000"},
      {{{"log_failed_requests", "uint32_param: 1000001"}}, "expected is a uint32, at most 1000000"},
      {{{"log_error", "bool_param: false"}},
       "setting \"log_error\": it cannot be off while log_warning is on"},
      {{{"log_info", "bool_param: false"}, {"log_verbose_level", "uint32_param: 1"}},
       "setting \"log_info\": it cannot be off while log_verbose_level is on"}};
  for (const auto& [settings, text] : cases) {
    EXPECT_THAT(ErrorOf(control_.Settings(Asking(settings)), absl::StatusCode::kInvalidArgument),
                HasSubstr(text));
    EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::info) << text;
  }
}

TEST_F(LogControlTest, WithoutLeaveSettingsAreReadAndNotChanged) {
  LogControl fixed(/*changes=*/false, LogFormat::kText, failures_);
  EXPECT_TRUE(fixed.Settings({}).ok());
  EXPECT_THAT(ErrorOf(fixed.Settings(Asking({{"log_info", "bool_param: false"}})),
                      absl::StatusCode::kPermissionDenied),
              HasSubstr("--log-control"));
  EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::info);
}

}  // namespace
}  // namespace cellbatch

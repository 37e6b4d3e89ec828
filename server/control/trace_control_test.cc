#include "server/control/trace_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cellbatch {
namespace {

using testing::HasSubstr;

class NoSink final : public SpanSink {
 public:
  void Take(std::vector<Span>) override {}
};

class TraceControlTest : public testing::Test {
 protected:
  static inference::TraceSettingRequest Asking(
      const std::vector<std::pair<std::string, std::vector<std::string>>>& settings) {
    inference::TraceSettingRequest request;
    for (const auto& [name, values] : settings) {
      auto& setting = (*request.mutable_settings())[name];
      for (const std::string& value : values) setting.add_value(value);
    }
    return request;
  }
  static std::string ValueOf(const inference::TraceSettingResponse& response,
                             const std::string& name) {
    const auto& setting = response.settings().at(name);
    return setting.value_size() == 1 ? setting.value(0) : "";
  }

  NoSink sink_;
  Tracer tracer_{{.on = true, .rate = 1000}, sink_};
  TraceControl control_{/*changes=*/true, "http://c:4318/v1/traces", &tracer_};
};

TEST_F(TraceControlTest, WhatIsSetIsInForceAndShownAndGoesBackWithoutAValue) {
  const auto set = control_.Settings(
      Asking({{"trace_level", {"OFF"}}, {"trace_rate", {"5"}}, {"trace_count", {"7"}}}));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(ValueOf(*set, "trace_level"), "OFF");
  EXPECT_EQ(ValueOf(*set, "trace_rate"), "5");
  EXPECT_EQ(ValueOf(*set, "trace_count"), "7");
  EXPECT_EQ(ValueOf(*set, "trace_mode"), "opentelemetry");
  EXPECT_EQ(ValueOf(*set, "url"), "http://c:4318/v1/traces");
  EXPECT_FALSE(tracer_.rules().on);
  EXPECT_EQ(tracer_.rules().rate, 5);
  const auto back =
      control_.Settings(Asking({{"trace_level", {}}, {"trace_rate", {}}, {"trace_count", {}}}));
  EXPECT_EQ(ValueOf(*back, "trace_level"), "TIMESTAMPS");
  EXPECT_EQ(ValueOf(*back, "trace_rate"), "1000");
  EXPECT_EQ(ValueOf(*back, "trace_count"), "-1");
}

TEST_F(TraceControlTest, WhatIsNotNamedStaysAsItIs) {
  const std::string most = "2147483647";
  ASSERT_TRUE(control_.Settings(Asking({{"trace_level", {"OFF"}}, {"trace_rate", {most}}})).ok());
  const auto set = control_.Settings(Asking({{"trace_count", {most}}}));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(ValueOf(*set, "trace_level"), "OFF");
  EXPECT_EQ(ValueOf(*set, "trace_rate"), most);
  EXPECT_EQ(ValueOf(*set, "trace_count"), most);
  const auto on = control_.Settings(
      Asking({{"trace_level", {"TIMESTAMPS"}}, {"trace_rate", {"1"}}, {"trace_count", {"-1"}}}));
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_TRUE(tracer_.rules().on);
  EXPECT_EQ(tracer_.rules().rate, 1);
  EXPECT_EQ(tracer_.rules().count, -1);
}

TEST_F(TraceControlTest, WhatIsWrongChangesNothingAndSaysWhatWouldBeRight) {
  const std::pair<std::pair<std::string, std::vector<std::string>>, const char*> cases[] = {
      {{"trace_level", {"TENSORS"}}, "what requests bring is never traced"},
      {{"trace_level", {"OFF", "TIMESTAMPS"}}, "expected is OFF or TIMESTAMPS"},
      {{"trace_rate", {"0"}}, "expected is one number, 1 to 2147483647"},
      {{"trace_rate", {"many"}}, "expected is one number"},
      {{"trace_rate", {"5 or so"}}, "expected is one number"},
      {{"trace_rate", {"2", "3"}}, "expected is one number"},
      {{"trace_rate", {"2147483648"}}, "expected is one number"},
      {{"trace_count", {"-2"}}, "expected is one number, -1 to"},
      {{"trace_file", {"/tmp/x"}}, "there are trace_level, trace_rate and trace_count"}};
  for (const auto& [setting, text] : cases) {
    const auto response = control_.Settings(Asking({{"trace_count", {"9"}}, setting}));
    EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(response.status().message()), HasSubstr(text));
  }
  inference::TraceSettingRequest of_a_model = Asking({{"trace_rate", {"1"}}});
  of_a_model.set_model_name("tiny");
  EXPECT_EQ(control_.Settings(of_a_model).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tracer_.rules().rate, 1000);
}

TEST_F(TraceControlTest, WithoutLeaveOrACollectorSettingsAreReadAndNotChanged) {
  TraceControl fixed(/*changes=*/false, "", &tracer_);
  EXPECT_TRUE(fixed.Settings({}).ok());
  EXPECT_EQ(fixed.Settings(Asking({{"trace_rate", {"1"}}})).status().code(),
            absl::StatusCode::kPermissionDenied);
  TraceControl none(/*changes=*/true, "", nullptr);
  EXPECT_EQ(ValueOf(*none.Settings({}), "trace_level"), "OFF");
  EXPECT_EQ(none.Settings(Asking({{"trace_rate", {"1"}}})).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cellbatch

#include "server/control/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

using testing::EndsWith;

// What the log writes, as it would be written to stderr.
class LogLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "of the test", std::make_shared<spdlog::sinks::ostream_sink_st>(written_)));
  }
  void TearDown() override { spdlog::set_default_logger(before_); }

  std::string Line(LogFormat format, const std::string& message) {
    SetLogFormat(format);
    written_.str("");
    spdlog::warn("{}", message);
    return written_.str();
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream written_;
};

// A folder in the repository may be called anything.
TEST_F(LogLinesTest, OneMessageIsOneLineWhateverStandsInIt) {
  const std::string evil = "model a\nb: \x1b[31m \"\\\t\x7f \u00e8 \xff";
  EXPECT_THAT(Line(LogFormat::kText, evil),
              EndsWith(" warning model a\\x0ab: \\x1b[31m \"\\\\x09\\x7f \u00e8 \xff\n"));
  const std::string json = Line(LogFormat::kJson, evil);
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(json)["message"],
            "model a\nb: \x1b[31m \"\\\t\x7f \u00e8 \ufffd");
  EXPECT_THAT(Line(LogFormat::kText, "as ever"), EndsWith(" warning as ever\n"));
}

}  // namespace
}  // namespace cellbatch

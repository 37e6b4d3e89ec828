// What cellbatch-server says of the devices it has and of those it has not: one line, and the exit code of a start that
// failed. CUDA's place is taken by a file that is no library, so that no machine's own is found.
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DevicesTest : public testing::Test {
 protected:
  DevicesTest() : repository_(NewRepository()), libraries_(fs::path(testing::TempDir()) / "cuda") {
    AddModel(repository_, {.name = "words", .vocabulary = 10});
    fs::create_directories(libraries_);
    std::ofstream(libraries_ / "libcuda.so.1") << "no library";
  }
  ~DevicesTest() override { fs::remove_all(libraries_); }

  std::unique_ptr<ServerProcess> Start(const std::string& devices) const {
    return std::make_unique<ServerProcess>(std::vector<std::string>{
        "--model-repository=" + repository_, "--grpc-address=127.0.0.1:0",
        "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--drain-delay=0",
        "--devices=" + devices, "--cuda-libraries=" + libraries_.string()});
  }
  static std::vector<std::string> LinesWith(const std::string& log, const std::string& what) {
    std::vector<std::string> lines;
    std::istringstream text(log);
    for (std::string line; std::getline(text, line);) {
      if (line.find(what) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }
  // Beside what its configuration says.
  void Say(const std::string& more) const {
    std::ofstream(repository_ + "/words/config.textproto", std::ios::app) << more << "\n";
  }
  // The lines of the log of a server that does not start.
  std::vector<std::string> Refusal(const std::string& devices) const {
    const auto server = Start(devices);
    EXPECT_FALSE(server->WaitUntilReady());
    EXPECT_EQ(server->Wait(), 1);
    return LinesWith(server->Log(), "");
  }

  const std::string repository_;
  const fs::path libraries_;
};

TEST_F(DevicesTest, AutoServesWithoutCudaAndOneLineSaysWhatWasFoundAndWhatNot) {
  const auto server = Start("auto");
  ASSERT_TRUE(server->WaitUntilReady()) << server->Log();
  EXPECT_THAT(LinesWith(server->Log(), "devices: "),
              ElementsAre(AllOf(HasSubstr("devices: cpu:"), HasSubstr("; no GPU: cuda: "),
                                HasSubstr((libraries_ / "libcuda.so.1").string()))));
  EXPECT_EQ(LinesWith(server->Log(), "cuda").size(), 1u) << server->Log();
}

TEST_F(DevicesTest, WhoAsksForTheCpuIsNotToldOfGpus) {
  const auto server = Start("cpu");
  ASSERT_TRUE(server->WaitUntilReady()) << server->Log();
  EXPECT_THAT(LinesWith(server->Log(), "devices: "), ElementsAre(Not(HasSubstr("GPU"))));
}

TEST_F(DevicesTest, AGpuThatIsAskedForWithoutCudaEndsTheStartWithOneLine) {
  for (const char* devices : {"cuda:0", "cuda", "cpu:0,cuda:0"}) {
    EXPECT_THAT(Refusal(devices),
                ElementsAre(AllOf(HasSubstr(std::string("devices: \"") + devices + "\": cuda: "),
                                  HasSubstr((libraries_ / "libcuda.so.1").string()))));
  }
}

TEST_F(DevicesTest, AModelOfAKindThatTheServerDoesNotHaveEndsTheStartAndBothAreNamed) {
  Say("devices: GPU");
  EXPECT_THAT(
      Refusal("cpu:0"),
      Contains(AllOf(HasSubstr("model \"words\": config.textproto:"),
                     HasSubstr("devices is GPU, this server computes on CPU (--devices)"))));
}

TEST_F(DevicesTest, ALineSaysWhereAModelLives) {
  Say("devices: CPU");
  const auto server = Start("cpu:0");
  ASSERT_TRUE(server->WaitUntilReady()) << server->Log();
  EXPECT_THAT(server->Log(), HasSubstr("model words version 1 is warm on cpu:0;"));
}

TEST_F(DevicesTest, WhatIsNoGpuIsSaid) {
  EXPECT_THAT(Refusal("cuda:one"),
              ElementsAre(HasSubstr("devices: \"cuda:one\" is no GPU; write cuda:0, ")));
}

}  // namespace
}  // namespace cellbatch

// --calibration-cache through the server: what the second start runs, as its metrics count it, and what is said of files that
// cannot be used. Tasks are counted on a simulated device, where every task takes what it takes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cells/device/sim/sim_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/lifecycle.h"
#include "server/options.h"
#include "server/server.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class CalibrationCacheTest : public testing::Test {
 protected:
  CalibrationCacheTest() : repository_(NewRepository()), cache_(repository_ + "-kept/here") {
    fs::remove_all(cache_);
    AddModel(repository_, {.name = "words", .vocabulary = 10});
    AddModel(repository_, {.name = "vectors", .hidden = 12, .gru = true});
  }
  ~CalibrationCacheTest() override { fs::remove_all(repository_ + "-kept"); }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(cache_)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  static std::string Read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> Flags() const {
    return {"--model-repository=" + repository_,
            "--grpc-address=127.0.0.1:0",
            "--http-address=127.0.0.1:0",
            "--metrics-address=127.0.0.1:0",
            "--drain-delay=0",
            "--devices=cpu",
            "--calibration-cache=" + cache_};
  }

  struct Started {
    int tasks = -1;
    std::string page;
  };
  // A server of our own on a device whose task of b nodes takes 200 us and 10 a node.
  Started StartSimulated(const std::string& record = "") const {
    const auto options = ParseOptions(Flags());
    EXPECT_TRUE(options.ok()) << options.status();
    ServerOptions flags = *options;
    flags.record = record;
    SimTime time;
    OpenedDevices devices;
    auto memory = std::make_unique<SimMemory>(SimMemoryOptions{.fingerprints = false});
    SimDeviceOptions device;
    device.cost = {.task_ns = 200'000, .node_ns = 10'000};
    devices.set.devices.push_back(std::make_unique<SimDevice>(device, *memory, time));
    devices.set.memories.push_back(std::move(memory));
    Lifecycle lifecycle;
    auto server = Server::Start(flags, std::move(devices), lifecycle);
    EXPECT_TRUE(server.ok()) << server.status();
    if (!server.ok()) return {};
    const absl::Status loaded = (*server)->LoadModels();
    EXPECT_TRUE(loaded.ok()) << loaded;
    const auto ready = nlohmann::json::parse((*server)->ReadyLine());
    const std::string metrics = HttpGet(ready["metrics"].get<std::string>(), "/metrics");
    const std::string sample = "\ncellbatch_device_tasks_total{device=\"sim:0\"} ";
    const size_t at = metrics.find(sample);
    EXPECT_NE(at, std::string::npos) << metrics.substr(0, 500);
    if (at == std::string::npos) return {};
    return {std::stoi(metrics.substr(at + sample.size())),
            HttpGet(ready["http"].get<std::string>(), "/")};
  }

  const std::string repository_, cache_;
};

TEST_F(CalibrationCacheTest, TheSecondStartConfirmsWhatTheFirstMeasured) {
  const Started first = StartSimulated();
  ASSERT_GT(first.tasks, 0);
  EXPECT_THAT(first.page, AllOf(HasSubstr("<dt>T(b); b_max"), Not(HasSubstr("T(b), kept;"))));
  const auto files = Files();
  ASSERT_FALSE(files.empty());
  std::vector<std::string> kept;
  for (const fs::path& file : files) kept.push_back(Read(file));
  const Started second = StartSimulated();
  EXPECT_GT(second.tasks, 0) << "every size is warmed";
  EXPECT_LT(2 * second.tasks, first.tasks);
  EXPECT_THAT(second.page, AllOf(HasSubstr("<dt>T(b), kept; b_max"), Not(HasSubstr("<dt>T(b); "))));
  ASSERT_EQ(Files(), files);
  for (size_t i = 0; i < files.size(); ++i) EXPECT_EQ(Read(files[i]), kept[i]);
}

TEST_F(CalibrationCacheTest, WhoRecordsMeasures) {
  const Started first = StartSimulated();
  EXPECT_EQ(StartSimulated(repository_ + "-kept/record").tasks, first.tasks);
}

TEST_F(CalibrationCacheTest, FilesThatCannotBeUsedAreSaidAndReplaced) {
  {
    ServerProcess first(Flags());
    ASSERT_TRUE(first.WaitUntilReady()) << first.Log();
    EXPECT_THAT(first.Log(),
                AllOf(ContainsRegex("model words version 1 is warm on cpu:.*; T.b. measured of "),
                      ContainsRegex("model vectors version 1 is warm on cpu:.*; T.b. measured of "),
                      Not(HasSubstr("kept"))));
  }
  const auto files = Files();
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) std::ofstream(file, std::ios::trunc) << "no T(b)";
  ServerProcess second(Flags());
  ASSERT_TRUE(second.WaitUntilReady()) << second.Log();
  for (const fs::path& file : files) {
    EXPECT_THAT(second.Log(), HasSubstr(file.string() + ":1:"));
    EXPECT_THAT(Read(file), HasSubstr("points { batch: 1 ns: "));
  }
  EXPECT_THAT(second.Log(), AllOf(HasSubstr("\" is measured"), Not(HasSubstr("confirmed"))));
  EXPECT_EQ(Files(), files);
}

TEST_F(CalibrationCacheTest, AFolderThatCannotBeMadeEndsTheStart) {
  fs::create_directories(fs::path(cache_).parent_path());
  std::ofstream(cache_) << "a file";
  ServerProcess server(Flags());
  EXPECT_FALSE(server.WaitUntilReady());
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.Log(), HasSubstr("--calibration-cache=" + cache_ + ": "));
}

}  // namespace
}  // namespace cellbatch

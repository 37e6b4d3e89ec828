// A server in a small container of a large machine: the kernel kills what takes more memory than its control group has.
// Requests whose answers are many times that memory are answered or refused, honest ones beside them are answered, and
// nobody is killed. Where this process may make no control group, the server reads of one that is not there
// (group_files.cc), says so aloud, and its memory is measured instead.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/attacks/many_calls.h"
#include "tests/fault/control_group.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
// Long and wide enough to be large, and computed in tenths of a second: answers of four megabytes.
const SmallModel kWide = {.name = "wide", .hidden = 256, .width = 4, .vocabulary = 10};
constexpr int kSteps = 4096;
constexpr int kCalls = 120;
constexpr int kWaves = 3;

inference::ModelInferRequest AllHidden() {
  inference::ModelInferRequest request = Words(std::vector<int32_t>(kSteps, 3), kWide.name);
  request.add_outputs()->set_name("ALL_HIDDEN");
  return request;
}

struct Container {
  const char* name;
  int64_t bytes;
  double cpus;
};

class ContainerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    repository_ = new std::string(NewRepository());
    AddModel(*repository_, kWords);
    AddModel(*repository_, kWide);
  }
  static void TearDownTestSuite() { delete repository_; }

  // A server that has so much, with no limit of ours given: enforced by a group of its own, or only said to be.
  void StartWithin(int64_t bytes, double cpus) {
    std::string why_not;
    group_ = ControlGroup::Make(bytes, cpus, why_not);
    if (group_ != nullptr) {
      EXPECT_TRUE(group_->StartInside([this] { Start({}); }))
          << "it is there and cannot be entered";
    } else {
      std::fprintf(stderr, "measured, for it cannot be enforced here: %s\n", why_not.c_str());
      Start({"LD_PRELOAD=tests/fault/libgroup_files.so",
             "GROUP_FILES=" + WriteGroupFiles(*repository_ + "-group", bytes, cpus)});
    }
    ASSERT_NE(server_, nullptr);
  }
  void Start(std::vector<std::string> environment) {
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--model-repository=" + *repository_, "--grpc-address=127.0.0.1:0",
                                 "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                                 "--drain-delay=0"},
        std::move(environment));
  }
  int64_t Killed() const { return group_ == nullptr ? 0 : group_->Killed(); }

  static inline std::string* repository_ = nullptr;
  std::unique_ptr<ControlGroup> group_;  // outlives who is in it
  std::unique_ptr<ServerProcess> server_;
};

class ContainerLimitsTest : public ContainerTest,
                            public ::testing::WithParamInterface<Container> {};

TEST_P(ContainerLimitsTest, AnswersManyTimesItsMemoryAreGivenOrRefusedAndNobodyIsKilled) {
  ASSERT_NO_FATAL_FAILURE(StartWithin(GetParam().bytes, GetParam().cpus));
  ASSERT_TRUE(server_->WaitUntilReady()) << server_->Log();
  // A quarter of the memory is what may be admitted.
  const double admits = Metric(*server_, "cellbatch_limit{name=\"max-queued-bytes\"}");
  EXPECT_GT(admits, 0);
  EXPECT_LE(admits, static_cast<double>(GetParam().bytes) / 4);
  GrpcCaller honest(server_->grpc());
  ExpectGood(honest);
  int answered = 0;
  std::string first;
  for (int wave = 0; wave < kWaves; ++wave) {
    GrpcCaller caller(server_->grpc());
    ManyCalls crowd(caller, kCalls, AllHidden(), "crowd");
    for (int i = 0; i < 10; ++i) ExpectGood(honest);
    crowd.Ended();
    ASSERT_EQ(Killed(), 0) << "in wave " << wave;
    ASSERT_LE(server_->PeakResidentBytes(), GetParam().bytes) << "in wave " << wave;
    for (const auto& call : crowd.Ended()) {
      if (!call->status.ok()) {
        EXPECT_EQ(call->status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
            << call->status.error_message();
        continue;
      }
      ++answered;
      ASSERT_EQ(call->answer.raw_output_contents_size(), 1);
      const std::string& bytes = call->answer.raw_output_contents(0);
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << "the same request, other bits";
    }
  }
  EXPECT_GT(answered, 0);
  EXPECT_EQ(first.size(), sizeof(float) * kSteps * static_cast<size_t>(kWide.hidden));
  ExpectGood(honest);
  WaitUntilEmpty(*server_);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

INSTANTIATE_TEST_SUITE_P(Sizes, ContainerLimitsTest,
                         ::testing::Values(Container{"OneCpu512MiB", 512 * kMiB, 1},
                                           Container{"HalfACpu256MiB", 256 * kMiB, 0.5}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(ContainerTest, OneThatIsTooSmallForAnythingIsToldSoInOneLine) {
  ASSERT_NO_FATAL_FAILURE(StartWithin(48 * kMiB, 0.5));
  EXPECT_EQ(server_->Wait(), 1);
  EXPECT_THAT(server_->Log(), HasSubstr("MiB of memory can be had here"));
  EXPECT_EQ(Killed(), 0);
}

}  // namespace
}  // namespace cellbatch

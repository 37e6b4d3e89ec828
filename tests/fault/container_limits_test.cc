// A server in a small container of a large machine: the kernel kills what takes more memory than its control group has.
// Requests whose answers are many times that memory are answered or refused, honest ones beside them are answered, and
// nobody is killed. Where this process may make no control group, the server is told by flags what it would have found
// out in one, and its memory is measured instead; only what the server finds out by itself is not seen there then, and is
// skipped, aloud.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/options.h"
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

// What a server with so much memory sets by itself.
std::vector<std::string> FlagsFor(int64_t bytes) {
  std::vector<std::string> flags;
  const std::vector<Limit> usual = LimitsOf(ServerOptions()),
                           small = LimitsOf(DefaultOptions(bytes));
  for (size_t i = 0; i < small.size(); ++i) {
    if (small[i].value == usual[i].value) continue;
    flags.push_back("--" + small[i].name + "=" +
                    std::to_string(static_cast<int64_t>(small[i].value)));
  }
  return flags;
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

  void Start(const std::vector<std::string>& limits = {}) {
    std::vector<std::string> flags = {"--model-repository=" + *repository_,
                                      "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0",
                                      "--metrics-address=127.0.0.1:0", "--drain-delay=0"};
    flags.insert(flags.end(), limits.begin(), limits.end());
    server_ = std::make_unique<ServerProcess>(std::move(flags));
  }
  // A server in a group of its own, with no limit of ours given. False, and why: there can be none.
  bool StartInGroup(int64_t bytes, double cpus, std::string& why_not) {
    group_ = ControlGroup::Make(bytes, cpus, why_not);
    if (group_ == nullptr) return false;
    EXPECT_TRUE(group_->StartInside([this] { Start(); })) << "it is there and cannot be entered";
    return server_ != nullptr;
  }

  static inline std::string* repository_ = nullptr;
  std::unique_ptr<ControlGroup> group_;  // outlives who is in it
  std::unique_ptr<ServerProcess> server_;
};

class ContainerLimitsTest : public ContainerTest,
                            public ::testing::WithParamInterface<Container> {};

TEST_P(ContainerLimitsTest, AnswersManyTimesItsMemoryAreGivenOrRefusedAndNobodyIsKilled) {
  std::string why_not;
  if (!StartInGroup(GetParam().bytes, GetParam().cpus, why_not)) {
    ASSERT_FALSE(HasFailure());
    std::fprintf(stderr, "measured, for it cannot be enforced here: %s\n", why_not.c_str());
    Start(FlagsFor(GetParam().bytes));
  }
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
    ASSERT_EQ(group_ == nullptr ? 0 : group_->Killed(), 0) << "in wave " << wave;
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
  std::string why_not;
  if (!StartInGroup(48 * kMiB, 0.5, why_not)) {
    ASSERT_FALSE(HasFailure());
    GTEST_SKIP() << "what a server in a group of 48 MiB says was not seen (what it finds out in "
                    "one and what it then says "
                    "are in process_limits_test and options_test): "
                 << why_not;
  }
  EXPECT_EQ(server_->Wait(), 1);
  EXPECT_THAT(server_->Log(), HasSubstr("MiB of memory can be had here"));
  EXPECT_EQ(group_->Killed(), 0);
}

}  // namespace
}  // namespace cellbatch

// A server in a small container of a large machine: the kernel kills what takes more memory than its control group has.
// Requests whose answers are many times that memory are answered or refused, honest ones beside them are answered, and
// nobody is killed. Where this process may make no control group, the server reads of one that is not there
// (group_files.cc), says so aloud, and its memory is measured instead.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fault/attacks/many_calls.h"
#include "tests/fault/control_group.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

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
  void StartWithin(int64_t bytes, double cpus, const std::vector<std::string>& flags = {}) {
    flags_ = flags;
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
    std::vector<std::string> flags = {"--model-repository=" + *repository_,
                                      "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0",
                                      "--metrics-address=127.0.0.1:0", "--drain-delay=0"};
    flags.insert(flags.end(), flags_.begin(), flags_.end());
    server_ = std::make_unique<ServerProcess>(flags, std::move(environment));
  }
  int64_t Killed() const { return group_ == nullptr ? 0 : group_->Killed(); }

  static inline std::string* repository_ = nullptr;
  std::vector<std::string> flags_;
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

// Gives the model's table of words so many rows, and zeros for all weights, which take no room on the disk.
void Widen(const std::string& model_folder, int64_t rows) {
  const std::string path = model_folder + "/1/weights.safetensors";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  uint64_t length = 0;
  ASSERT_GE(bytes.size(), sizeof(length));
  std::memcpy(&length, bytes.data(), sizeof(length));
  nlohmann::json header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  header.at("embedding.weight").at("shape")[0] = rows;
  int64_t end = 0;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const int64_t begin = end;
    end += int64_t{sizeof(float)};
    for (const int64_t dim : tensor.at("shape")) end = begin + (end - begin) * dim;
    tensor["data_offsets"] = {begin, end};
  }
  const std::string text = header.dump();
  length = text.size();
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(&length), sizeof(length))
      .write(text.data(), static_cast<std::streamsize>(text.size()));
  std::filesystem::resize_file(path, sizeof(length) + length + static_cast<uint64_t>(end));
}

// The kernel would end the process that touches more than there is, with all that it serves.
TEST_F(ContainerTest, AModelThatIsLargerThanItsMemoryIsRefusedAndWhatServesGoesOn) {
  const SmallModel large = {.name = "large", .hidden = 8, .width = 64, .vocabulary = 10};
  AddModel(*repository_, large);
  ASSERT_NO_FATAL_FAILURE(Widen(*repository_ + "/large", int64_t{1} << 21));
  ASSERT_NO_FATAL_FAILURE(
      StartWithin(512 * kMiB, 1, {"--model-control=explicit", "--load-model=words"}));
  ASSERT_TRUE(server_->WaitUntilReady()) << server_->Log();
  GrpcCaller caller(server_->grpc());
  ExpectGood(caller);
  grpc::ClientContext context;
  inference::RepositoryModelLoadRequest request;
  request.set_model_name("large");
  inference::RepositoryModelLoadResponse loaded;
  const grpc::Status status = caller.stub().RepositoryModelLoad(&context, request, &loaded);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              MatchesRegex("model \"large\": there is no memory left for version 1: 1073741824 "
                           "bytes more are needed, [0-9]+ are left"));
  EXPECT_EQ(Killed(), 0);
  ExpectGood(caller);
  std::filesystem::remove_all(*repository_ + "/large");
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

}  // namespace
}  // namespace cellbatch

// While models are loaded (serving.md 4.4: V2, L1), against the real server. One model's unfolder library does not finish
// opening until the test lets it: the server stays in that state for as long as it is looked at.
#include <unistd.h>

#include <csignal>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"
#include "tests/graphs/outside.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

// "zlate" is read when its gate is opened; what is there at the start is read before any of it is loaded.
class LoadingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string repository = NewRepository(), prefix = InstallHeaders();
    gate_ = repository + "-gate";
    AddModel(repository, kWords);
    late_ = std::make_unique<DilatedModel>(prefix, repository + "/zlate");
    std::ifstream example(prefix + "/unfolder/dilated.cc");
    const std::string source(std::istreambuf_iterator<char>(example), {});
    ASSERT_FALSE(source.empty());
    CompileLibrary(prefix, "gated.cc",
                   fmt::format("#include <unistd.h>\n{}\n"
                               "__attribute__((constructor)) static void WaitForTheGate() {{\n"
                               "  while (access(\"{}\", F_OK) != 0) usleep(1000);\n}}\n",
                               source, gate_),
                   repository + "/zlate/dilated.so");
    // Known before it says so: an address of the loopback network that is this process's alone.
    const int pid = getpid();
    const std::string host =
        fmt::format("127.{}.{}.{}", 1 + pid / 62500 % 250, 1 + pid / 250 % 250, 1 + pid % 250);
    grpc_ = host + ":18001";
    http_ = host + ":18000";
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--model-repository=" + repository, "--grpc-address=" + grpc_,
                                 "--http-address=" + http_, "--metrics-address=" + host + ":18002",
                                 "--drain-delay=0", "--devices=cpu:0", "--unfolder-libraries"});
    while (!TcpConnection(http_).connected()) std::this_thread::yield();
    caller_ = std::make_unique<GrpcCaller>(grpc_);
    // A server that does not answer would fill the disk with failures.
    while (!HasFailure() && StateOf("zlate") != "LOADING") std::this_thread::yield();
    ASSERT_FALSE(HasFailure());
  }
  std::string StateOf(const std::string& model) {
    grpc::ClientContext context;
    inference::RepositoryIndexResponse index;
    EXPECT_TRUE(caller_->stub().RepositoryIndex(&context, {}, &index).ok());
    for (const auto& entry : index.models()) {
      if (entry.name() == model) return entry.state();
    }
    return "";
  }
  void OpenGate() const { std::ofstream(gate_) << "open\n"; }
  grpc::Status InferLate(inference::ModelInferResponse& answer) {
    return caller_->Infer(Words({3, 1, 4}, "zlate"), answer);
  }

  std::string gate_, grpc_, http_;
  std::unique_ptr<DilatedModel> late_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
};

TEST_F(LoadingTest, V2AModelThatIsBeingLoadedIsUnavailableUntilItIsThere) {
  inference::ModelInferResponse answer;
  for (int i = 0; i < 3; ++i) {
    const grpc::Status status = InferLate(answer);
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "model \"zlate\" is LOADING");
  }
  EXPECT_EQ(HttpGet(http_, "/v2/health/live"), "200 live\n");
  EXPECT_EQ(HttpGet(http_, "/v2/health/ready"), "503 not ready\n");
  EXPECT_EQ(HttpGet(http_, "/v2/models/zlate/ready"), "503 not ready\n");
  OpenGate();
  ASSERT_TRUE(server_->WaitUntilReady()) << server_->Log();
  EXPECT_EQ(MetricsPage(*server_).Ended(), 3);
  ExpectGood(*caller_);
  const grpc::Status status = InferLate(answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::vector<double> expected = late_->Reference({3, 1, 4}).y;
  const std::vector<float> values = FirstOutput(answer);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5);
  caller_.reset();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

// The gate stays closed: it does not wait for the model.
TEST_F(LoadingTest, L1StoppedWhileLoadingItExitsWithZero) {
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  EXPECT_FALSE(server_->WaitUntilReady()) << "it never said so";
}

TEST_F(LoadingTest, L1InterruptedWhileLoadingItExitsWithZero) {
  server_->Signal(SIGINT);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

}  // namespace
}  // namespace cellbatch

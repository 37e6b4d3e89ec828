// The `timeout` parameter and a full server (serving.md 4.4: T4, T7), against the real one. What must be prompt is said in
// counts and states, never in milliseconds. Deadlines and cancels: interruption_test.
#include <csignal>
#include <thread>

#include "gtest/gtest.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

inference::ModelInferRequest LongRequest() { return Words(std::vector<int32_t>(60000, 1)); }

class TimingTest : public ::testing::Test {
 protected:
  void SetUp() override { Serve({}); }
  void Serve(std::vector<std::string> flags) {
    static const std::string repository = FaultRepository();
    flags.push_back("--devices=cpu:0");
    server_ = ServerProcess::Serving(repository, std::move(flags));
    ASSERT_NE(server_, nullptr);
    caller_ = std::make_unique<GrpcCaller>(server_->grpc());
  }
  // Nothing is left of what was cut off: rows, counts; and the next request is right.
  void TearDown() override {
    WaitFor("cellbatch_admitted_requests", 0);
    WaitFor("cellbatch_admitted_cells", 0);
    WaitFor(R"(cellbatch_running_requests{model="words",version="1"})", 0);
    WaitFor(R"(cellbatch_rows_used{model="words",version="1"})", 0);
    ExpectGood(*caller_);
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  }
  void WaitFor(const std::string& sample, double value) {
    while (Metric(*server_, sample) != value) std::this_thread::yield();
  }
  double Ended(const std::string& outcome) {
    return Metric(*server_, R"(cellbatch_requests_total{model="words",version="1",outcome=")" +
                                outcome + "\"}");
  }
  double Cells() {
    const std::string name =
        R"(cellbatch_cells_executed_total{model="words",version="1",cell="lstm_l0"})";
    const double cells = Metric(*server_, name);
    return cells < 0 ? 0 : cells;
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
};

TEST_F(TimingTest, T4TheTimeoutParameterEndsTheWorkToo) {
  inference::ModelInferRequest request = LongRequest();
  (*request.mutable_parameters())["timeout"].set_int64_param(20000);
  inference::ModelInferResponse answer;
  EXPECT_EQ(caller_->Infer(request, answer).error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_LT(Cells(), 60000);
  EXPECT_EQ(Ended("deadline"), 1);
}

TEST_F(TimingTest, T7FullIsResourceExhaustedWithAHintAndLastsAsLongAsItIsFull) {
  server_->Signal(SIGTERM);
  server_->Wait();
  for (const char* bound :
       {"--max-queued-requests=1", "--max-queued-cells=60000", "--max-queued-bytes=500000"}) {
    Serve({bound});
    grpc::ClientContext context;
    std::thread holder([&] {
      inference::ModelInferResponse answer;
      caller_->stub().ModelInfer(&context, LongRequest(), &answer);
    });
    WaitFor("cellbatch_admitted_cells", 60000);
    grpc::ClientContext second;
    inference::ModelInferResponse answer;
    const grpc::Status status =
        caller_->stub().ModelInfer(&second, Words(std::vector<int32_t>(20000, 1)), &answer);
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_NE(status.error_message().find(std::string(bound, std::string(bound).find('='))),
              std::string::npos)
        << status.error_message();
    const auto hint = second.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
    ASSERT_NE(hint, second.GetServerTrailingMetadata().end());
    EXPECT_GT(std::stoi(std::string(hint->second.data(), hint->second.size())), 0);
    context.TryCancel();
    holder.join();
    WaitFor("cellbatch_admitted_requests", 0);
    if (std::string(bound).find("bytes") != std::string::npos) break;  // the last one: TearDown's
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0);
  }
}

}  // namespace
}  // namespace cellbatch

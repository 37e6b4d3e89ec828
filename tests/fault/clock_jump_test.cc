// The wall clock of the real server jumps (serving.md 4.4, T12): nothing changes.
#include <csignal>
#include <thread>

#include "gtest/gtest.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

class ShiftFile {
 public:
  explicit ShiftFile(std::string path) : path_(std::move(path)) { Set(0); }
  void Set(int64_t seconds) const {
    std::ofstream(path_, std::ios::in | std::ios::out | std::ios::binary)
        .write(reinterpret_cast<const char*>(&seconds), sizeof(seconds));
  }
  static std::string Make(const std::string& path) {
    std::ofstream(path, std::ios::binary) << std::string(8, '\0');
    return path;
  }

 private:
  const std::string path_;
};

class ClockJumpTest : public ::testing::Test {
 protected:
  void Serve(const std::vector<std::string>& more) {
    const std::string repository = NewRepository();
    AddModel(repository, kWords);
    AddModel(repository, kSlow);
    const std::string path = ShiftFile::Make(repository + "-shift");
    shift_ = std::make_unique<ShiftFile>(path);
    std::vector<std::string> flags = {"--model-repository=" + repository,
                                      "--grpc-address=127.0.0.1:0",
                                      "--http-address=127.0.0.1:0",
                                      "--metrics-address=127.0.0.1:0",
                                      "--devices=cpu:0",
                                      "--batch-limit=4"};
    flags.insert(flags.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(
        flags, std::vector<std::string>{"LD_PRELOAD=tests/fault/libclock_shift.so",
                                        "CLOCK_SHIFT_FILE=" + path});
    ASSERT_TRUE(server_->WaitUntilReady()) << server_->Log();
    caller_ = std::make_unique<GrpcCaller>(server_->grpc());
    // The shift is seen: the process's start, in seconds since 1970, is derived from the wall clock.
    start_ = Start();
  }
  double Start() const { return Metric(*server_, "process_start_time_seconds"); }
  void Jump(int hours) const {
    shift_->Set(int64_t{hours} * 3600);
    EXPECT_NEAR(Start() - start_, hours * 3600.0, 600);
  }
  // Its steps have begun.
  void WaitUntilRunning(double steps_before) const {
    WaitForPage(*server_, [&](const MetricsPage& p) { return p.Steps("slow") > steps_before; });
  }
  grpc::Status Infer(int32_t steps, std::chrono::seconds timeout) const {
    inference::ModelInferRequest request = Words(std::vector<int32_t>(steps, 1), "slow");
    (*request.mutable_parameters())["timeout"].set_int64_param(timeout.count() * 1'000'000);
    inference::ModelInferResponse answer;
    return caller_->Infer(request, answer);
  }

  std::unique_ptr<ShiftFile> shift_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
  double start_ = 0;
};

constexpr int32_t kSomeSteps = 5000;  // seconds, or most of one

TEST_F(ClockJumpTest, T12ADeadlineHalfAnHourAwayHoldsAndTimesAreThoseOfTheSteadyClock) {
  Serve({"--drain-delay=0"});
  for (const int hours : {1, -1}) {
    const double before = MetricsPage(*server_).Steps("slow");
    grpc::Status status;
    std::thread client([&] { status = Infer(kSomeSteps, std::chrono::minutes(30)); });
    WaitUntilRunning(before);
    Jump(hours);
    EXPECT_LT(MetricsPage(*server_).Steps("slow"), before + kSomeSteps) << "the jump in the middle";
    client.join();
    EXPECT_TRUE(status.ok()) << status.error_message();
    ExpectGood(*caller_);
  }
  // No request took an hour, or less than nothing.
  const MetricsPage page = WaitUntilEmpty(*server_);
  for (const char* family :
       {"cellbatch_request_duration_seconds_sum", "cellbatch_request_queue_seconds_sum",
        "cellbatch_request_compute_seconds_sum"}) {
    EXPECT_GE(page.Sum(family), 0) << family;
    EXPECT_LT(page.Sum(family), 1800) << family;
  }
  caller_.reset();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

TEST_F(ClockJumpTest, T12ADeadlinePassesWhereverTheWallClockGoes) {
  Serve({"--drain-delay=0"});
  for (const int hours : {1, -1}) {
    const double before = MetricsPage(*server_).Steps("slow");
    grpc::Status status;
    std::thread client([&] { status = Infer(kSlowSteps, std::chrono::seconds(2)); });
    WaitUntilRunning(before);
    Jump(hours);
    client.join();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    const MetricsPage page = WaitUntilEmpty(*server_);
    EXPECT_LT(page.Steps("slow"), before + kSlowSteps) << "it ran to its end";
    ExpectGood(*caller_);
  }
  EXPECT_EQ(MetricsPage(*server_).Ended("deadline"), 2);
  caller_.reset();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

TEST_F(ClockJumpTest, T12ADrainThatLeavesHalfAnHourWaitsForItsRequests) {
  Serve({"--drain-delay=0", "--drain-timeout=30min"});
  grpc::Status status;
  std::thread client([&] { status = Infer(kSomeSteps, std::chrono::minutes(30)); });
  WaitUntilRunning(0);
  server_->Signal(SIGTERM);
  while (server_->Log().find("draining 1 requests") == std::string::npos) std::this_thread::yield();
  Jump(1);
  client.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

TEST_F(ClockJumpTest, T12ADrainThatLeavesASecondEndsThoughTheWallClockGoesBack) {
  Serve({"--drain-delay=0", "--drain-timeout=2s"});
  grpc::Status status;
  std::thread client([&] { status = Infer(kSlowSteps, std::chrono::minutes(30)); });
  WaitUntilRunning(0);
  server_->Signal(SIGTERM);
  while (server_->Log().find("draining 1 requests") == std::string::npos) std::this_thread::yield();
  Jump(-1);
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_NE(status.error_message().find("the server is stopping"), std::string::npos)
      << "its own word, not what a connection says that its watchdog broke: "
      << status.error_message();
  EXPECT_EQ(server_->Wait(), 1) << "a request was cut off";
}

}  // namespace
}  // namespace cellbatch

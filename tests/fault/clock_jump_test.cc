// The wall clock of the real server jumps (serving.md 4.4, T12): nothing changes.
#include <csignal>
#include <thread>

#include "gtest/gtest.h"
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

TEST(ClockJumpTest, T12DeadlinesAnswersAndDrainingGoByTheSteadyClockAlone) {
  const std::string repository = FaultRepository();
  const std::string path = ShiftFile::Make(repository + "-shift");
  const ShiftFile shift(path);
  ServerProcess server({"--model-repository=" + repository, "--grpc-address=127.0.0.1:0",
                        "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                        "--devices=cpu:0", "--drain-delay=0"},
                       {"LD_PRELOAD=tests/fault/libclock_shift.so", "CLOCK_SHIFT_FILE=" + path});
  ASSERT_TRUE(server.WaitUntilReady()) << server.Log();
  GrpcCaller caller(server.grpc());
  ExpectGood(caller);
  // The shift is there: the process's start, in seconds since 1970, is derived from the wall clock.
  const double before = Metric(server, "process_start_time_seconds");
  for (const int64_t hours : {1, -1}) {
    // A deadline half an hour away, given before the jump and while the request runs, holds.
    grpc::Status status;
    std::thread client([&] {
      inference::ModelInferRequest request = Words(std::vector<int32_t>(60000, 1));
      (*request.mutable_parameters())["timeout"].set_int64_param(int64_t{1800} * 1'000'000);
      inference::ModelInferResponse answer;
      status = caller.Infer(request, answer, [](grpc::ClientContext& context) {
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(30));
      });
    });
    while (Metric(server, "cellbatch_admitted_requests") != 1) std::this_thread::yield();
    shift.Set(hours * 3600);
    client.join();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_NEAR(Metric(server, "process_start_time_seconds") - before,
                static_cast<double>(hours) * 3600, 600);
    ExpectGood(caller);
    EXPECT_EQ(Metric(server, "cellbatch_admitted_requests"), 0);
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.Log();
}

}  // namespace
}  // namespace cellbatch

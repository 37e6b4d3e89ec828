// Others of the same container or user have used up the threads that the system allows: what needs one more is done without or
// refused, nobody who is served notices, and a stop still answers what was accepted.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/background_call.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

class ThreadsTakenTest : public ::testing::Test {
 protected:
  ThreadsTakenTest() {
    AddModel(repository_, kWords);
    AddModel(repository_, kSlow);
  }
  // Serves "words" alone.
  void SetUp() override {
    Start();
    ASSERT_TRUE(server_->WaitUntilReady()) << server_->Log();
    caller_ = std::make_unique<GrpcCaller>(server_->grpc());
    ExpectGood(*caller_);
  }
  void Start() {
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--model-repository=" + repository_, "--grpc-address=127.0.0.1:0",
                                 "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                                 "--drain-delay=0", "--devices=cpu:0", "--model-control=explicit",
                                 "--load-model=words"},
        std::vector<std::string>{"LD_PRELOAD=tests/fault/libno_threads.so",
                                 "NO_THREADS_FILE=" + none_});
  }
  void TakeThreads() const { std::ofstream(none_) << "none\n"; }
  void GiveThreadsBack() const { std::filesystem::remove(none_); }
  std::string Load(const std::string& model) const {
    TcpConnection connection(server_->http());
    connection.Send("POST /v2/repository/models/" + model +
                    "/load HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    return connection.ReceiveUntil("");
  }
  void ExpectEnd() {
    caller_.reset();
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  }

  const std::string repository_ = NewRepository();
  const std::string none_ = repository_ + "-no-threads";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
};

TEST_F(ThreadsTakenTest, NewClientsAreServedAndSoAreThoseThatAreThere) {
  TakeThreads();
  for (int i = 0; i < 8; ++i) {
    GrpcCaller another(server_->grpc());
    ASSERT_NO_FATAL_FAILURE(ExpectGood(another)) << i << "\n" << server_->Log();
  }
  ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_));
  EXPECT_NE(server_->Log().find("no thread can be started for a new connection"),
            std::string::npos);
  ExpectEnd();
}

TEST_F(ThreadsTakenTest, AModelIsLoadedAndAPageThatNeedsAThreadIsRefused) {
  TakeThreads();
  EXPECT_NE(Load("slow").find("200 OK"), std::string::npos) << server_->Log();
  EXPECT_EQ(HttpGet(server_->http(), "/explain/words").substr(0, 44),
            "503 no thread can be started for the page: R");
  ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_)) << server_->Log();
  GiveThreadsBack();
  EXPECT_EQ(HttpGet(server_->http(), "/explain/words").substr(0, 3), "200");
  ExpectEnd();
}

TEST_F(ThreadsTakenTest, AStopAnswersWhatWasAccepted) {
  ASSERT_NE(Load("slow").find("200 OK"), std::string::npos) << server_->Log();
  BackgroundCall call(*caller_, Words(std::vector<int32_t>(3000, 1), "slow"));
  WaitForPage(*server_, [](const MetricsPage& page) { return page.Running() == 1; });
  TakeThreads();
  server_->Signal(SIGTERM);
  const grpc::Status& status = call.Wait();
  EXPECT_TRUE(status.ok()) << status.error_message() << "\n" << server_->Log();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

TEST_F(ThreadsTakenTest, AServerThatCanHaveNoneDoesNotStartAndSaysSo) {
  ExpectEnd();
  TakeThreads();
  Start();
  EXPECT_FALSE(server_->WaitUntilReady());
  EXPECT_EQ(server_->Wait(), 1) << server_->Log();
  EXPECT_NE(server_->Log().find(" error 0 threads can be started here, a server takes 32"),
            std::string::npos)
      << server_->Log();
}

}  // namespace
}  // namespace cellbatch

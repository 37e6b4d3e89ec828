// While models are loaded (serving.md 4.4: V2, L1, L3), against the real server. One model's unfolder library does not finish
// opening, or closing, until the test lets it: the server stays in that state for as long as it is looked at.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/record_codec.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"
#include "tests/fault/unread_answers.h"
#include "tests/graphs/outside.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// A server whose models are "words", "zlate", whose library waits at a gate, and what a test adds. Files that take long to make
// are made once.
class GatedTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (prefix_ != nullptr) return;
    prefix_ = new std::string(InstallHeaders());
    late_ = new DilatedModel(*prefix_, Made() + "/zlate");
    const std::string example =
        ReadAll(*prefix_ + "/unfolder/dilated.cc") + "\n";  // the library without a gate
    ASSERT_GT(example.size(), 1u);
    Compile("opening.so",
            example + "__attribute__((constructor)) static void WaitForTheGate() { Gate(); }\n");
    Compile("closing.so", "#define cellbatch_unfolder dilated\n" + example +
                              "#undef cellbatch_unfolder\n"
                              "const CellbatchUnfolder* cellbatch_unfolder() {\n"
                              "  static CellbatchUnfolder gated = *dilated();\n"
                              "  gated.destroy = [](void* self) {\n"
                              "    Gate();\n"
                              "    dilated()->destroy(self);\n"
                              "  };\n"
                              "  return &gated;\n}\n");
  }
  static std::string Made() { return *prefix_ + "/made"; }
  static std::string GateFile() { return *prefix_ + "/gate"; }
  static std::string ReachedFile() { return *prefix_ + "/reached"; }
  // `source` may call Gate(), which returns once the gate is open.
  static void Compile(const std::string& library, const std::string& source) {
    CompileLibrary(*prefix_, "gated.cc",
                   fmt::format("#include <cellbatch_unfolder.h>\n#include <fcntl.h>\n"
                               "#include <unistd.h>\n"
                               "static void Gate() {{\n"
                               "  close(open(\"{}\", O_CREAT | O_WRONLY, 0600));\n"
                               "  while (access(\"{}\", F_OK) != 0) usleep(1000);\n}}\n{}",
                               ReachedFile(), GateFile(), source),
                   Made() + "/" + library);
  }
  static std::string ReadAll(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // "zlate" with that library.
  void Prepare(const std::string& library) {
    for (const std::string& left : {GateFile(), ReachedFile()}) fs::remove(left);
    repository_ = NewRepository();
    AddModel(repository_, kWords);
    fs::copy(Made() + "/zlate", repository_ + "/zlate", fs::copy_options::recursive);
    fs::copy_file(Made() + "/" + library, repository_ + "/zlate/dilated.so",
                  fs::copy_options::overwrite_existing);
  }
  static void OpenGate() { std::ofstream(GateFile()) << "open\n"; }
  // Until the library is at its gate.
  void Start(std::vector<std::string> flags = {}) {
    // Known before it says so: an address of the loopback network that is this process's alone.
    const int pid = getpid();
    const std::string host =
        fmt::format("127.{}.{}.{}", 1 + pid / 62500 % 250, 1 + pid / 250 % 250, 1 + pid % 250);
    grpc_ = host + ":18001";
    http_ = host + ":18000";
    metrics_ = host + ":18002";
    for (const std::string& flag :
         {"--model-repository=" + repository_, "--grpc-address=" + grpc_, "--http-address=" + http_,
          "--metrics-address=" + metrics_, std::string("--devices=cpu:0"),
          std::string("--unfolder-libraries")}) {
      flags.push_back(flag);
    }
    server_ = std::make_unique<ServerProcess>(flags);
    while (!fs::exists(ReachedFile())) {
      siginfo_t ended = {};
      waitid(P_PID, static_cast<id_t>(server_->pid()), &ended, WEXITED | WNOHANG | WNOWAIT);
      ASSERT_EQ(ended.si_pid, 0) << server_->Log();
      std::this_thread::yield();
    }
    caller_ = std::make_unique<GrpcCaller>(grpc_);
  }
  void WaitForLog(const std::string& text) const {
    while (server_->Log().find(text) == std::string::npos) std::this_thread::yield();
  }

  static inline std::string* prefix_ = nullptr;
  static inline DilatedModel* late_ = nullptr;
  std::string repository_, grpc_, http_, metrics_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
};

// "zlate" is read when its gate is opened; what is there at the start is read before any of it is warmed.
class LoadingTest : public GatedTest {
 protected:
  void SetUp() override { Prepare("opening.so"); }
  grpc::Status InferLate(inference::ModelInferResponse& answer) {
    return caller_->Infer(Words({3, 1, 4}, "zlate"), answer);
  }
};

TEST_F(LoadingTest, V2AModelThatIsBeingLoadedIsUnavailableUntilItIsThere) {
  ASSERT_NO_FATAL_FAILURE(Start({"--drain-delay=0"}));
  inference::ModelInferResponse answer;
  for (int i = 0; i < 3; ++i) {
    const grpc::Status status = InferLate(answer);
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "model \"zlate\" is LOADING");
  }
  grpc::ClientContext context;
  inference::RepositoryIndexResponse index;
  EXPECT_TRUE(caller_->stub().RepositoryIndex(&context, {}, &index).ok());
  ASSERT_EQ(index.models_size(), 2);
  EXPECT_EQ(index.models(1).name() + " " + index.models(1).state(), "zlate LOADING");
  EXPECT_EQ(HttpGet(http_, "/v2/health/live"), kLiveAnswer);
  EXPECT_EQ(HttpGet(http_, "/v2/health/ready"), kNotReadyAnswer);
  EXPECT_EQ(HttpGet(http_, "/v2/models/zlate/ready"), ModelReadyAnswer("zlate", false));
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

// The gate stays closed: it does not wait for the model. Nor for load balancers, an hour by these flags: it was never ready.
TEST_F(LoadingTest, L1StoppedWhileLoadingItExitsWithZero) {
  ASSERT_NO_FATAL_FAILURE(Start({"--drain-delay=1h"}));
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  EXPECT_FALSE(server_->WaitUntilReady()) << "it never said so";
  EXPECT_THAT(server_->Log(), HasSubstr("stopped while loading: nothing had been accepted"));
}

TEST_F(LoadingTest, L1InterruptedWhileLoadingItExitsWithZero) {
  ASSERT_NO_FATAL_FAILURE(Start({"--drain-delay=1h"}));
  server_->Signal(SIGINT);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

// "words" was read before, by the policy of then.
TEST_F(LoadingTest, APolicyThatChangedMeanwhileIsTakenOverAtASignalThatCameMeanwhile) {
  std::ofstream(repository_ + "/words/config.textproto", std::ios::app)
      << "policy { kind: AGENDA }\n";
  ASSERT_NO_FATAL_FAILURE(Start({"--drain-delay=0"}));
  std::ofstream(repository_ + "/words/1/policy.textproto") << "changed\n";
  server_->Signal(SIGHUP);
  OpenGate();
  ASSERT_TRUE(server_->WaitUntilReady()) << server_->Log();
  WaitForLog("model \"words\": its policy is agenda now");
  caller_.reset();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

// "words" is warm, and both versions of "zlate" have no room beside it: they are let go of when the gate is opened, and the start
// has failed then. Clients that have not read their answers keep what was accepted in flight.
class WarmTest : public GatedTest {
 protected:
  void SetUp() override {
    Prepare("closing.so");
    fs::copy(repository_ + "/zlate/1", repository_ + "/zlate/2", fs::copy_options::recursive);
    std::ofstream(repository_ + "/zlate/config.textproto", std::ios::app)
        << "version_policy { all { } }\n";
    ASSERT_NO_FATAL_FAILURE(
        Start({"--max-models=2", "--drain-delay=1h", "--drain-timeout=1h",
               "--http-reply-timeout=1h", "--record=" + repository_ + "-record"}));
    ASSERT_TRUE(caller_->Infer(LargeAnswer(), expected_).ok());
    calls_ = std::make_unique<UnreadCalls>(grpc_, 1);
    reply_ = std::make_unique<UnreadReply>(http_);
    ExpectInFlight(3);
  }
  // Two: answered, and not taken. The others' answers are counted out a moment after their clients have them.
  void ExpectInFlight(int ended) {
    const MetricsPage page = WaitForPage(metrics_, [&](const MetricsPage& now) {
      return now.Ended("ok") >= ended && now.Admitted() <= 2;
    });
    EXPECT_EQ(page.Admitted(), 2);
  }
  void ExpectDrain() {
    grpc::Status refused;
    do {
      inference::ModelInferResponse answer;
      refused = caller_->Infer(Words({1}), answer);
    } while (refused.ok());
    ASSERT_EQ(refused.error_message(), "the server is shutting down") << "its own word";
    EXPECT_EQ(HttpGet(http_, "/v2/health/ready"), kNotReadyAnswer);
    ExpectInFlight(3);
  }
  void ExpectAnswers() {
    const std::vector<std::string> answers = calls_->Read();
    ASSERT_EQ(answers.size(), 1u);
    inference::ModelInferResponse answer;
    ASSERT_TRUE(answer.ParseFromString(answers[0]));
    ASSERT_EQ(answer.raw_output_contents_size(), 1);
    EXPECT_TRUE(answer.raw_output_contents(0) == expected_.raw_output_contents(0)) << "every bit";
    EXPECT_TRUE(reply_->Read()) << reply_->Head();
  }

  inference::ModelInferResponse expected_;
  std::unique_ptr<UnreadCalls> calls_;
  std::unique_ptr<UnreadReply> reply_;
};

// One more, if the next call was faster than the signal.
constexpr const char* kAnsweredFirst =
    "stopped while loading: [23] requests had been accepted, they are answered first";

TEST_F(WarmTest, L1StoppedWhileLoadingItAnswersWhatWarmModelsHaveAccepted) {
  server_->Signal(SIGTERM);
  ASSERT_NO_FATAL_FAILURE(ExpectDrain());
  ExpectAnswers();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  EXPECT_FALSE(server_->WaitUntilReady()) << "it never was";
  EXPECT_THAT(server_->Log(), ContainsRegex(kAnsweredFirst));
  const auto record = ReadRecord(repository_ + "-record", int64_t{1} << 30);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->end, RecordEnd::kClosed) << "beside the load that goes on";
}

TEST_F(WarmTest, L1TheSameWhereTheLoadEndsMeanwhile) {
  server_->Signal(SIGTERM);
  ASSERT_NO_FATAL_FAILURE(ExpectDrain());
  OpenGate();
  ExpectAnswers();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  EXPECT_FALSE(server_->WaitUntilReady()) << "it never was";
  EXPECT_THAT(server_->Log(), ContainsRegex(kAnsweredFirst));
  EXPECT_THAT(server_->Log(), Not(HasSubstr("there is no room"))) << "nobody asks any more";
}

TEST_F(WarmTest, L2AThirdSignalCutsOffWhatWasAcceptedWhileLoading) {
  server_->Signal(SIGTERM);
  ASSERT_NO_FATAL_FAILURE(ExpectDrain());
  // Those that come while one waits to be taken are one with it.
  while (server_->Log().find("2 requests were not done, or not read, in time") ==
         std::string::npos) {
    server_->Signal(SIGTERM);
    std::this_thread::yield();
  }
  EXPECT_EQ(server_->Wait(), 1) << server_->Log();
}

TEST_F(WarmTest, L3AStartThatFailsAnswersWhatWarmModelsHaveAccepted) {
  OpenGate();
  ASSERT_NO_FATAL_FAILURE(ExpectDrain());
  ExpectAnswers();
  EXPECT_EQ(server_->Wait(), 1) << server_->Log();
  EXPECT_FALSE(server_->WaitUntilReady()) << "it never was";
  EXPECT_THAT(server_->Log(), HasSubstr("there is no room for 2 versions of \"zlate\""));
}

}  // namespace
}  // namespace cellbatch

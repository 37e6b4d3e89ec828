// Models that are loaded, replaced and unloaded by call, over gRPC and HTTP, while the real server serves: nobody loses an
// answer by it, every answer has the bits of the version that it names, and a load that fails changes nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/e2e/tcp_connection.h"
#include "tests/fault/background_call.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

constexpr int kVersions = 3;
// Long enough for things to happen in its middle: seconds, also where a sanitizer looks at every number of a step.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kLongSteps = 500;
constexpr bool kKeepsFreedMemory = true;  // the sanitizer's allocator
#else
constexpr size_t kLongSteps = 15'000;
constexpr bool kKeepsFreedMemory = false;
#endif
inference::ModelInferRequest LongRequest() {
  return Words(std::vector<int32_t>(kLongSteps, 1), "slow");
}

constexpr const char* kTokensJson =
    R"({"inputs":[{"name":"TOKENS","shape":[3],"datatype":"INT32","data":[3,1,4]}]})";

// Models of other weights that stand for the versions of "words": "like1" is its version 1, and so on.
SmallModel Like(int version) {
  SmallModel model = kWords;
  model.name = "like" + std::to_string(version);
  return model;
}

// "200 {}": what a POST is answered with.
std::string Post(const std::string& address, const std::string& path,
                 const std::string& body = "") {
  TcpConnection connection(address);
  connection.Send(fmt::format(
      "POST {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", path,
      body.size(), body));
  const std::string reply = connection.ReceiveUntil("");
  const size_t head = reply.find("\r\n\r\n");
  if (head == reply.npos || reply.size() < 12) return reply;
  return reply.substr(9, 3) + " " + reply.substr(head + 4);
}

class ModelControlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int version = 1; version <= kVersions; ++version) AddModel(repository_, Like(version));
    AddModel(repository_, kSlow);
    fs::create_directories(repository_ + "/words");
    std::ifstream from(repository_ + "/like1/config.textproto");
    std::ofstream config(repository_ + "/words/config.textproto");
    for (std::string line; std::getline(from, line);) {
      if (!line.starts_with("name: ")) config << line << "\n";
    }
    AddVersion(1);
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    caller_.reset();
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  }
  // ASSERT_NO_FATAL_FAILURE, if more is to follow.
  void Serve(std::vector<std::string> flags) {
    flags.emplace_back("--devices=cpu:0");
    flags.emplace_back("--unload-limit=1h");  // what takes seconds takes a minute on a busy machine
    server_ = ServerProcess::Serving(repository_, std::move(flags));
    ASSERT_NE(server_, nullptr);
    caller_ = std::make_unique<GrpcCaller>(server_->grpc());
  }
  void ServeExplicit(std::vector<std::string> flags = {}) {
    flags.emplace_back("--model-control=explicit");
    flags.emplace_back("--load-model=words");
    Serve(std::move(flags));
  }

  std::string VersionFolder(int version) const {
    return repository_ + "/words/" + std::to_string(version);
  }
  // At once, as who looks at the folders may look at any time.
  void AddVersion(int version) const {
    const std::string made = repository_ + "-made";
    fs::copy(fmt::format("{}/like{}/1", repository_, version), made);
    fs::rename(made, VersionFolder(version));
  }
  void RemoveVersion(int version) const {
    fs::rename(VersionFolder(version), repository_ + "-removed");
    fs::remove_all(repository_ + "-removed");
  }

  grpc::Status Load(const std::string& model) {
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    inference::RepositoryModelLoadResponse answer;
    request.set_model_name(model);
    return caller_->stub().RepositoryModelLoad(&context, request, &answer);
  }
  grpc::Status Unload(const std::string& model) {
    grpc::ClientContext context;
    inference::RepositoryModelUnloadRequest request;
    inference::RepositoryModelUnloadResponse answer;
    request.set_model_name(model);
    return caller_->stub().RepositoryModelUnload(&context, request, &answer);
  }
  std::string HttpLoad(const std::string& model) {
    return Post(server_->http(), "/v2/repository/models/" + model + "/load");
  }
  std::string HttpUnload(const std::string& model) {
    return Post(server_->http(), "/v2/repository/models/" + model + "/unload");
  }
  // "READY 2 reason"; empty: nobody knows it.
  std::string State(const std::string& model) {
    grpc::ClientContext context;
    inference::RepositoryIndexResponse index;
    EXPECT_TRUE(caller_->stub().RepositoryIndex(&context, {}, &index).ok());
    for (const auto& entry : index.models()) {
      if (entry.name() == model)
        return entry.state() + " " + entry.version() + " " + entry.reason();
    }
    return "";
  }
  // An answer as "VERSION bits", or the error's code and text.
  std::string Ask(const std::string& model, const std::vector<int32_t>& tokens,
                  const std::string& version = "") {
    inference::ModelInferRequest request = Words(tokens, model);
    request.set_model_version(version);
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    if (!status.ok())
      return fmt::format("error {}: {}", static_cast<int>(status.error_code()),
                         status.error_message());
    return answer.model_version() + " " + answer.raw_output_contents(0);
  }
  // What `version` of "words" is to answer, in the words of Ask: as the model that it was copied from answers.
  std::string Expected(int version, const std::vector<int32_t>& tokens) {
    return std::to_string(version) + Ask("like" + std::to_string(version), tokens).substr(1);
  }
  int Lines(const std::string& text) const {
    std::istringstream log(server_->Log());
    int count = 0;
    for (std::string line; std::getline(log, line);) count += line.find(text) != line.npos ? 1 : 0;
    return count;
  }

  const std::string repository_ = NewRepository();
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
};

// Clients that ask "words" for all there is until the test lets them go, in turn for these versions (empty: whichever
// serves); and one who reads the metrics.
class Traffic {
 public:
  // `expected`: by version and tokens.
  using Answers = std::map<int, std::map<std::vector<int32_t>, std::string>>;

  Traffic(const ServerProcess& server, Answers expected, int clients,
          std::vector<std::string> versions = {""})
      : server_(server), expected_(std::move(expected)), versions_(std::move(versions)) {
    for (int i = 0; i < clients; ++i) threads_.emplace_back([this, i] { Client(i); });
    threads_.emplace_back([this] { Scrape(); });
  }
  ~Traffic() { End(); }
  void End() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Answers that named that version, so far.
  int64_t Of(int version) const { return of_[static_cast<size_t>(version)]; }
  void WaitFor(int version, int64_t more) const {
    const int64_t enough = Of(version) + more;
    while (Of(version) < enough && wrong_ == 0) std::this_thread::yield();
  }
  int64_t wrong() const { return wrong_; }
  int64_t pages() const { return pages_; }

 private:
  void Client(int number) {
    GrpcCaller caller(server_.grpc());
    const auto& any = expected_.begin()->second;
    for (size_t i = static_cast<size_t>(number); !stop_; ++i) {
      const auto& tokens = std::next(any.begin(), static_cast<int64_t>(i % any.size()))->first;
      inference::ModelInferRequest request = Words(tokens);
      request.set_model_version(versions_[i % versions_.size()]);
      inference::ModelInferResponse answer;
      const grpc::Status status = caller.Infer(request, answer);
      if (!status.ok()) {
        ++wrong_;
        ADD_FAILURE() << "lost: " << status.error_code() << " " << status.error_message();
        return;
      }
      const int version = std::stoi(answer.model_version());
      if (!request.model_version().empty() && request.model_version() != answer.model_version()) {
        ++wrong_;
        ADD_FAILURE() << request.model_version() << " was asked for, answered by " << version;
        return;
      }
      if (expected_.at(version).at(tokens) !=
          answer.model_version() + " " + answer.raw_output_contents(0)) {
        ++wrong_;
        ADD_FAILURE() << "not the bits of version " << version;
        return;
      }
      ++of_[static_cast<size_t>(version)];
    }
  }
  // Every series stands there once, and no counter of a version falls.
  void Scrape() {
    std::map<std::string, double> before;
    while (!stop_) {
      std::istringstream page(HttpGet(server_.metrics(), "/metrics"));
      std::map<std::string, double> now;
      for (std::string line; std::getline(page, line);) {
        if (!line.starts_with("cellbatch_")) continue;
        const size_t end = line.rfind(' ');
        const auto [at, fresh] = now.emplace(line.substr(0, end), std::stod(line.substr(end + 1)));
        if (!fresh) ADD_FAILURE() << "twice: " << at->first;
      }
      for (const auto& [series, value] : before) {
        const bool counts = series.starts_with("cellbatch_cells_executed_total{model=\"words\"") ||
                            series.starts_with("cellbatch_requests_total{model=\"words\"");
        if (!counts) continue;
        const auto found = now.find(series);
        if (found == now.end() || found->second < value) ADD_FAILURE() << "fell: " << series;
      }
      before = std::move(now);
      ++pages_;
    }
  }

  const ServerProcess& server_;
  const Answers expected_;
  const std::vector<std::string> versions_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> wrong_ = 0, pages_ = 0;
  std::array<std::atomic<int64_t>, kVersions + 1> of_ = {};
  std::vector<std::thread> threads_;
};

class ReloadTest : public ModelControlTest {
 protected:
  Traffic::Answers Answers() {
    Traffic::Answers answers;
    for (int version = 1; version <= kVersions; ++version) {
      for (const int length : {1, 2, 5, 17}) {
        std::vector<int32_t> tokens;
        for (int i = 0; i < length; ++i) tokens.push_back((i * 37 + length) % kWords.vocabulary);
        answers[version][tokens] = Expected(version, tokens);
      }
    }
    return answers;
  }
};

TEST_F(ModelControlTest, ModelsComeAndGoByCallOverGrpcAndHttp) {
  ASSERT_NO_FATAL_FAILURE(ServeExplicit());
  EXPECT_EQ(State("words"), "READY 1 ");
  EXPECT_EQ(State("like2"), "UNAVAILABLE  not loaded");
  EXPECT_EQ(Ask("like2", {3, 1, 4}), "error 14: model \"like2\" is UNAVAILABLE: not loaded");
  ASSERT_TRUE(Load("like2").ok());
  EXPECT_EQ(State("like2"), "READY 1 ");
  const std::string answer = Ask("like2", {3, 1, 4});
  EXPECT_THAT(answer, StartsWith("1 "));
  EXPECT_EQ(HttpUnload("like2"), "200 {}");
  EXPECT_EQ(State("like2"), "UNAVAILABLE 1 unloaded");
  EXPECT_EQ(Ask("like2", {3, 1, 4}), "error 14: model \"like2\" is UNAVAILABLE: unloaded");
  EXPECT_EQ(Post(server_->http(), "/v2/models/like2/infer", kTokensJson),
            R"(503 {"error":"model \"like2\" is UNAVAILABLE: unloaded"})");
  EXPECT_EQ(HttpLoad("like2"), "200 {}");
  EXPECT_EQ(Ask("like2", {3, 1, 4}), answer) << "the same bits as before";
  EXPECT_TRUE(Unload("like2").ok());
  EXPECT_EQ(Unload("like2").error_code(), StatusCode::NOT_FOUND);
  const grpc::Status nobody = Load("nobody");
  EXPECT_EQ(nobody.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(nobody.error_message(),
            "model \"nobody\": there is no folder of that name in the model repository");
  EXPECT_THAT(HttpLoad("nobody"), StartsWith("404 "));
  EXPECT_THAT(HttpLoad("..%2fx"), StartsWith("400 "));
  EXPECT_EQ(HttpGet(server_->http(), "/v2/health/ready"), kReadyAnswer);
  EXPECT_EQ(State("late"), "");
  AddModel(repository_, {.name = "late", .vocabulary = 10});
  EXPECT_EQ(State("late"), "UNAVAILABLE  not loaded");
  EXPECT_TRUE(Load("late").ok());
  EXPECT_THAT(Ask("late", {3, 1, 4}), StartsWith("1 "));
}

TEST_F(ReloadTest, AnswersUnderReloadsNameTheirVersionHaveItsBitsAndNoneIsLost) {
  ASSERT_NO_FATAL_FAILURE(
      ServeExplicit({"--load-model=like1", "--load-model=like2", "--load-model=like3"}));
  Traffic traffic(*server_, Answers(), /*clients=*/3);
  traffic.WaitFor(1, 100);
  for (int round = 0; round < 3; ++round) {
    for (const int version : {2, 3}) {
      AddVersion(version);
      const grpc::Status loaded = Load("words");
      ASSERT_TRUE(loaded.ok()) << loaded.error_message();
      EXPECT_EQ(State("words"), fmt::format("READY {} ", version));
      traffic.WaitFor(version, 100);
    }
    ASSERT_EQ(HttpLoad("words"), "200 {}") << "the same version once more";
    traffic.WaitFor(3, 100);
    for (const int version : {3, 2}) {
      RemoveVersion(version);
      ASSERT_EQ(HttpLoad("words"), "200 {}");
      traffic.WaitFor(version - 1, 100);
    }
  }
  const int64_t pages = traffic.pages();
  while (traffic.pages() < pages + 2) std::this_thread::yield();
  traffic.End();
  EXPECT_EQ(traffic.wrong(), 0);
  const MetricsPage page = WaitUntilEmpty(*server_);
  for (int version = 1; version <= kVersions; ++version) {
    EXPECT_EQ(page.Sum("cellbatch_requests_total", {R"(model="words")", R"(outcome="ok")",
                                                    fmt::format("version=\"{}\"", version)}),
              static_cast<double>(traffic.Of(version)))
        << "each was counted where it was answered";
  }
}

TEST_F(ReloadTest, VersionsAnswerSideBySideEachByItsNumberWhileOthersComeAndGo) {
  std::ofstream(repository_ + "/words/config.textproto", std::ios::app)
      << "version_policy { all { } }\n";
  ASSERT_NO_FATAL_FAILURE(
      ServeExplicit({"--load-model=like1", "--load-model=like2", "--load-model=like3"}));
  const auto versions = [&] {
    grpc::ClientContext context;
    inference::ModelMetadataRequest request;
    inference::ModelMetadataResponse answer;
    request.set_name("words");
    EXPECT_TRUE(caller_->stub().ModelMetadata(&context, request, &answer).ok());
    return fmt::format("{}", fmt::join(answer.versions(), " "));
  };
  const std::vector<int32_t> tokens = {3, 1, 4};
  Traffic traffic(*server_, Answers(), /*clients=*/3, {"", "1"});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(versions(), "1");
    for (const int version : {2, 3}) {
      AddVersion(version);
      const grpc::Status loaded = Load("words");
      ASSERT_TRUE(loaded.ok()) << loaded.error_message();
      traffic.WaitFor(version, 50);
      traffic.WaitFor(1, 50);
    }
    EXPECT_EQ(versions(), "1 2 3");
    EXPECT_EQ(Ask("words", tokens, "2"), Expected(2, tokens));
    EXPECT_EQ(Ask("words", tokens), Expected(3, tokens)) << "the highest, where none is named";
    for (const int version : {3, 2}) {
      RemoveVersion(version);
      ASSERT_TRUE(Load("words").ok());
      traffic.WaitFor(version - 1, 50);
    }
    EXPECT_EQ(Ask("words", tokens, "3"), "error 5: model \"words\" has version 1 ready, not \"3\"");
  }
  traffic.End();
  EXPECT_EQ(traffic.wrong(), 0);
}

TEST_F(ReloadTest, ALoadThatFailsLeavesTheOldVersionAnswering) {
  ASSERT_NO_FATAL_FAILURE(
      ServeExplicit({"--load-model=like1", "--load-model=like2", "--load-model=like3"}));
  Traffic traffic(*server_, Answers(), /*clients=*/2);
  traffic.WaitFor(1, 20);
  fs::create_directories(VersionFolder(2));
  std::ofstream(VersionFolder(2) + "/weights.safetensors") << "nonsense";
  const grpc::Status failed = Load("words");
  EXPECT_EQ(failed.error_code(), StatusCode::INVALID_ARGUMENT);
  const std::string file = "words/2/weights.safetensors: the header says";
  EXPECT_THAT(failed.error_message(), AllOf(StartsWith("model \"words\": "), HasSubstr(file)));
  EXPECT_THAT(State("words"), AllOf(StartsWith("READY 1 "), HasSubstr(file)));
  EXPECT_EQ(Lines(file), 1);
  EXPECT_THAT(HttpLoad("words"), AllOf(StartsWith("400 "), HasSubstr(file)));
  traffic.WaitFor(1, 100);
  traffic.End();
  EXPECT_EQ(traffic.wrong(), 0);
  fs::remove_all(VersionFolder(2));
  EXPECT_TRUE(Load("words").ok());
  EXPECT_EQ(State("words"), "READY 1 ");
}

TEST_F(ModelControlTest, AnUnloadLetsRunningRequestsFinishAndGivesTheMemoryBack) {
  ASSERT_NO_FATAL_FAILURE(ServeExplicit());
  const int64_t before = server_->ResidentBytes();
  ASSERT_TRUE(Load("slow").ok());
  const int64_t loaded = server_->ResidentBytes();
  ASSERT_GT(loaded, before);
  BackgroundCall running(*caller_, LongRequest());
  WaitForPage(*server_, [](const MetricsPage& page) { return page.Running() == 1; });
  std::string unloaded;
  std::thread unloading([&] { unloaded = HttpUnload("slow"); });
  while (State("slow") != "UNLOADING 1 ") std::this_thread::yield();
  EXPECT_EQ(Ask("slow", {1}), "error 14: model \"slow\" is UNLOADING");
  EXPECT_THAT(Ask("words", {3, 1, 4}), StartsWith("1 ")) << "others do not notice";
  EXPECT_TRUE(running.Wait().ok()) << running.Wait().error_message();
  unloading.join();
  EXPECT_EQ(unloaded, "200 {}");
  EXPECT_EQ(State("slow"), "UNAVAILABLE 1 unloaded");
  WaitUntilEmpty(*server_);
  const int64_t most = before + (loaded - before) / 2;
  while (!kKeepsFreedMemory && server_->ResidentBytes() > most) std::this_thread::yield();
}

TEST_F(ModelControlTest, OneModelTooManyIsRefusedByTheFlagsName) {
  ASSERT_NO_FATAL_FAILURE(ServeExplicit({"--max-models=2", "--load-model=like1"}));
  const grpc::Status full = Load("like2");
  EXPECT_EQ(full.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(full.error_message(), HasSubstr("2 models are served, the most is 2 (--max-models)"));
  EXPECT_THAT(HttpLoad("like2"), AllOf(StartsWith("429 "), HasSubstr("--max-models")));
  EXPECT_THAT(State("like2"), AllOf(StartsWith("UNAVAILABLE"), HasSubstr("--max-models")));
  EXPECT_TRUE(Load("words").ok()) << "one that takes its own place fits";
  EXPECT_TRUE(Unload("like1").ok());
  EXPECT_TRUE(Load("like2").ok());
}

TEST_F(ModelControlTest, WithoutControlACallChangesNothingAndSaysWhatWould) {
  fs::remove_all(repository_ + "/slow");
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  EXPECT_EQ(State("like2"), "READY 1 ");
  for (const grpc::Status& refused : {Load("words"), Unload("words")}) {
    EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_THAT(refused.error_message(),
                AllOf(HasSubstr("explicit model load / unload is not allowed"),
                      HasSubstr("--model-control explicit")));
  }
  EXPECT_THAT(HttpUnload("words"), AllOf(StartsWith("503 "), HasSubstr("--model-control none")));
  EXPECT_EQ(State("words"), "READY 1 ");
}

TEST_F(ReloadTest, PollingFollowsTheFoldersUnderTraffic) {
  fs::remove_all(repository_ + "/slow");
  ASSERT_NO_FATAL_FAILURE(Serve({"--model-control=poll", "--repository-poll=10ms"}));
  EXPECT_EQ(Load("words").error_code(), StatusCode::UNAVAILABLE);
  Traffic traffic(*server_, Answers(), /*clients=*/2);
  for (const int version : {2, 3}) {
    AddVersion(version);
    traffic.WaitFor(version, 100);
  }
  RemoveVersion(3);
  traffic.WaitFor(2, 100);
  fs::rename(repository_ + "/like1", repository_ + "-like1");
  while (State("like1") != "") std::this_thread::yield();
  EXPECT_EQ(Ask("like1", {3}), "error 5: unknown model \"like1\"");
  fs::rename(repository_ + "-like1", repository_ + "/like1");
  while (State("like1") != "READY 1 ") std::this_thread::yield();
  traffic.End();
  EXPECT_EQ(traffic.wrong(), 0);
}

TEST_F(ModelControlTest, StoppedInTheMiddleOfAnUnloadItAnswersEverybodyAndExitsWithZero) {
  ASSERT_NO_FATAL_FAILURE(ServeExplicit({"--load-model=slow", "--drain-timeout=1h"}));
  BackgroundCall running(*caller_, LongRequest());
  WaitForPage(*server_, [](const MetricsPage& page) { return page.Running() == 1; });
  grpc::Status unloaded, waited;
  std::thread unloading([&] { unloaded = Unload("slow"); });
  while (State("slow") != "UNLOADING 1 ") std::this_thread::yield();
  server_->Signal(SIGTERM);
  while (server_->Log().find("draining") == std::string::npos) std::this_thread::yield();
  std::thread waiting([&] { waited = Load("like1"); });
  waiting.join();
  EXPECT_EQ(waited.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(waited.error_message(), "the server is stopping");
  EXPECT_TRUE(running.Wait().ok()) << running.Wait().error_message();
  unloading.join();
  EXPECT_THAT(unloaded.error_message(), testing::AnyOf("", "the server is stopping"));
  caller_.reset();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  server_.reset();
}

}  // namespace
}  // namespace cellbatch

// Servers that cannot start (serving.md 4.4, L3): each ends with its exit code and one line that says why, and never says
// that it is ready; with --strict-readiness=false the models that are right are served, and the others say why not.
#include <csignal>
#include <filesystem>
#include <functional>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1, kBadFlags = 2;

std::string Weights(const std::string& model) { return model + "/1/weights.safetensors"; }

struct Damage {
  const char* what;
  std::function<void(const std::string& model)> make;  // to the folder of kWords
  std::string reason;                                  // the whole of what is said of the model
};

std::vector<Damage> Damages() {
  return {
      {"corrupt config",
       [](const std::string& model) {
         std::ofstream(model + "/config.textproto") << "cell_types { name: \n";
       },
       "config.textproto:2:1: Expected string, got: "},
      {"no config", [](const std::string& model) { fs::remove(model + "/config.textproto"); },
       "/config.textproto: no such file"},
      {"truncated weights", [](const std::string& model) { fs::resize_file(Weights(model), 500); },
       "/1/weights.safetensors: tensor \"embedding.weight\": ends at byte 3200 of the data, which"},
      {"corrupt weights",
       [](const std::string& model) {
         std::fstream(Weights(model), std::ios::in | std::ios::out) << std::string(64, '\xff');
       },
       "/1/weights.safetensors: the header says it has 18446744073709551615 bytes, the limit"},
      {"no weights", [](const std::string& model) { fs::remove(Weights(model)); },
       "/1/weights.safetensors: No such file or directory"},
      {"NaN at the end of the data",
       [](const std::string& model) {
         std::fstream file(Weights(model), std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(-4, std::ios::end);
         file.write("\0\0\xc0\x7f", 4);
       },
       "tensor \"rnn.weight_ih_l0\" holds nan at element 767"},
      {"wrong shapes: another model's weights",
       [](const std::string& model) {
         const std::string other = NewRepository();
         AddModel(other, {.name = "gru", .width = 8, .vocabulary = 100, .gru = true});
         fs::copy_file(Weights(other + "/gru"), Weights(model),
                       fs::copy_options::overwrite_existing);
       },
       "\"U\" is [4*H = 24, H = 6], tensor \"rnn.weight_hh_l0\" is [24, 8]"},
      {"a policy that is none",
       [](const std::string& model) { std::ofstream(model + "/1/policy.textproto") << "x: 1\n"; },
       "1/policy.textproto:1:"},
      {"a policy that was learned for another model",
       [](const std::string& model) {
         std::ofstream(model + "/1/policy.textproto") << "kind: FSM cell_types: \"tree\"\n";
       },
       "1/policy.textproto: cell_types are [tree], this model's are ["},
      {"no version", [](const std::string& model) { fs::remove_all(model + "/1"); },
       "no version in it"},
  };
}

class StartTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Flags(const std::string& repository,
                                        std::vector<std::string> more = {}) {
    // So few connections that the log says nothing of the files that this machine lets a process open.
    std::vector<std::string> flags = {"--model-repository=" + repository,
                                      "--grpc-address=127.0.0.1:0",
                                      "--http-address=127.0.0.1:0",
                                      "--metrics-address=127.0.0.1:0",
                                      "--devices=cpu:0",
                                      "--grpc-max-connections=16",
                                      "--http-max-connections=16"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  // Ends with `code`, and one line of its log, and no more, says `texts`.
  static void ExpectNoStart(std::vector<std::string> flags, int code,
                            const std::vector<std::string>& texts) {
    ServerProcess server(std::move(flags));
    EXPECT_FALSE(server.WaitUntilReady());
    EXPECT_EQ(server.Wait(), code) << server.Log();
    int lines = 0, complaints = 0;
    std::istringstream log(server.Log());
    for (std::string line; std::getline(log, line); ++lines) {
      if (line.find(texts.back()) == line.npos) continue;
      ++complaints;
      for (const std::string& text : texts) EXPECT_NE(line.find(text), line.npos) << text;
      EXPECT_TRUE(code == kBadFlags || line.find(" error ") != line.npos) << line;
    }
    EXPECT_EQ(complaints, 1) << "expected: " << texts.back() << "\n" << server.Log();
    EXPECT_LE(lines, 2) << server.Log();  // that it loads models, and why it does not serve them
  }
};

TEST_F(StartTest, L3BadFlags) {
  ExpectNoStart({"--no-such-flag"}, kBadFlags, {"unknown flag --no-such-flag (see --help)"});
  ExpectNoStart({}, kBadFlags, {"--model-repository is missing (see --help)"});
  ExpectNoStart({"--model-repository=x", "--max-queued-requests=many"}, kBadFlags,
                {"--max-queued-requests=many: expected a number"});
  ExpectNoStart({"--model-repository=x", "--grpc-address=here"}, kBadFlags,
                {"--grpc-address=here: expected HOST:PORT"});
  ExpectNoStart(Flags("x", {"--devices=gpu"}), kFailed, {"gpu"});
}

TEST_F(StartTest, L3AddressesInUse) {
  const std::string repository = NewRepository();
  AddModel(repository, kWords);
  const auto server = ServerProcess::Serving(repository, {"--devices=cpu:0"});
  ASSERT_NE(server, nullptr);
  for (const auto& [flag, address] : {std::pair("--grpc-address", server->grpc()),
                                      {"--http-address", server->http()},
                                      {"--metrics-address", server->metrics()}}) {
    ExpectNoStart(Flags(repository, {std::string(flag) + "=" + address}), kFailed,
                  {std::string(flag) + " " + address + " cannot be bound"});
  }
  GrpcCaller caller(server->grpc());
  ExpectGood(caller);
}

TEST_F(StartTest, L3RepositoriesThatCannotBeRead) {
  ExpectNoStart(Flags("/nowhere"), kFailed,
                {"model repository /nowhere: No such file or directory"});
  const std::string empty = NewRepository();
  ExpectNoStart(Flags(empty), kFailed, {empty + ": there is no model folder in it"});
  std::ofstream(empty + "/a-file") << "no folder\n";
  ExpectNoStart(Flags(empty + "/a-file"), kFailed, {"a-file: Not a directory"});
}

TEST_F(StartTest, L3AModelThatCannotBeServedEndsTheStart) {
  for (const Damage& damage : Damages()) {
    SCOPED_TRACE(damage.what);
    const std::string repository = NewRepository();
    AddModel(repository, kWords);
    damage.make(repository + "/words");
    ExpectNoStart(Flags(repository), kFailed, {"model \"words\"", damage.reason});
  }
}

TEST_F(StartTest, L3AServerWithoutAnyModelIsNoneHoweverStrict) {
  const std::string repository = NewRepository();
  AddModel(repository, kWords);
  const Damage damage = Damages()[0];
  damage.make(repository + "/words");
  ExpectNoStart(Flags(repository, {"--strict-readiness=false"}), kFailed,
                {"model \"words\"", damage.reason});
}

TEST_F(StartTest, L3WithoutStrictReadinessTheOthersAreServedAndItSaysWhyNot) {
  const std::string repository = NewRepository();
  AddModel(repository, kWords);
  const std::vector<Damage> damages = Damages();
  const auto name = [](size_t i) { return "bad" + std::to_string(i); };
  for (size_t i = 0; i < damages.size(); ++i) {
    SmallModel model = kWords;
    model.name = name(i);
    AddModel(repository, model);
    damages[i].make(repository + "/" + model.name);
  }
  const auto server =
      ServerProcess::Serving(repository, {"--devices=cpu:0", "--strict-readiness=false"});
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  ExpectGood(caller);
  EXPECT_EQ(HttpGet(server->http(), "/v2/health/ready"), kReadyAnswer);
  for (size_t i = 0; i < damages.size(); ++i) {
    SCOPED_TRACE(damages[i].what);
    EXPECT_EQ(HttpGet(server->http(), "/v2/models/" + name(i) + "/ready"),
              ModelReadyAnswer(name(i), false));
    inference::ModelInferResponse answer;
    const grpc::Status status = caller.Infer(Words({1}, name(i)), answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_NE(status.error_message().find("\"" + name(i) + "\" is UNAVAILABLE: "),
              std::string::npos)
        << status.error_message();
    EXPECT_NE(status.error_message().find(damages[i].reason), std::string::npos)
        << status.error_message();
  }
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->Log();
}

// Models may come by call, or into the folder that comes.
TEST_F(StartTest, L3AServerThatGoesOnWithoutItsRepositorySaysThatItCannotBeRead) {
  for (const char* control : {"explicit", "poll"}) {
    SCOPED_TRACE(control);
    const auto server = ServerProcess::Serving(
        "/nowhere", {"--devices=cpu:0", "--strict-readiness=false",
                     std::string("--model-control=") + control, "--repository-poll=1h"});
    ASSERT_NE(server, nullptr);
    EXPECT_NE(server->Log().find(" warning model repository /nowhere: No such file or directory\n"),
              std::string::npos)
        << server->Log();
    server->Signal(SIGTERM);
    EXPECT_EQ(server->Wait(), 0) << server->Log();
  }
}

}  // namespace
}  // namespace cellbatch

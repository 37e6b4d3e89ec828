// What commands ask of a server, to the last field, and what they print of every field of its answers.
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/commands.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/grpc_service.grpc.pb.h"

namespace cellbatch {
namespace {

using grpc::ServerContext;
using Json = nlohmann::json;
namespace kserve = inference;

// Writes down what it is asked, and answers what it is told to: both by method, as text.
class Script {
 public:
  template <typename Request, typename Response>
  grpc::Status Take(const char* method, const ServerContext& context, const Request& request,
                    Response* response) {
    const std::lock_guard lock(mutex_);
    asked_ += std::string(method) + " " + request.ShortDebugString() + "\n";
    const auto soon = std::chrono::system_clock::now() + std::chrono::hours(1);
    without_deadline_ += context.deadline() > soon ? 1 : 0;
    if (response == nullptr) return grpc::Status::OK;
    return google::protobuf::TextFormat::ParseFromString(answers_[method], response)
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::DATA_LOSS, "the script is wrong");
  }
  void Answer(const std::string& method, const std::string& text) {
    const std::lock_guard lock(mutex_);
    answers_[method] = text;
  }
  // Since the last time.
  std::string Asked() {
    const std::lock_guard lock(mutex_);
    return std::exchange(asked_, "");
  }
  int WithoutDeadline() {
    const std::lock_guard lock(mutex_);
    return std::exchange(without_deadline_, 0);
  }

 private:
  std::mutex mutex_;
  std::string asked_;
  int without_deadline_ = 0;
  std::map<std::string, std::string> answers_;
};

class KserveService final : public kserve::GRPCInferenceService::Service {
 public:
  explicit KserveService(Script& script) : script_(script) {}
  grpc::Status ServerLive(ServerContext* c, const kserve::ServerLiveRequest* q,
                          kserve::ServerLiveResponse* a) override {
    return script_.Take("ServerLive", *c, *q, a);
  }
  grpc::Status ServerReady(ServerContext* c, const kserve::ServerReadyRequest* q,
                           kserve::ServerReadyResponse* a) override {
    return script_.Take("ServerReady", *c, *q, a);
  }
  grpc::Status ModelReady(ServerContext* c, const kserve::ModelReadyRequest* q,
                          kserve::ModelReadyResponse* a) override {
    return script_.Take("ModelReady", *c, *q, a);
  }
  grpc::Status ServerMetadata(ServerContext* c, const kserve::ServerMetadataRequest* q,
                              kserve::ServerMetadataResponse* a) override {
    return script_.Take("ServerMetadata", *c, *q, a);
  }
  grpc::Status ModelMetadata(ServerContext* c, const kserve::ModelMetadataRequest* q,
                             kserve::ModelMetadataResponse* a) override {
    return script_.Take("ModelMetadata", *c, *q, a);
  }
  grpc::Status ModelConfig(ServerContext* c, const kserve::ModelConfigRequest* q,
                           kserve::ModelConfigResponse* a) override {
    return script_.Take("ModelConfig", *c, *q, a);
  }
  grpc::Status ModelStatistics(ServerContext* c, const kserve::ModelStatisticsRequest* q,
                               kserve::ModelStatisticsResponse* a) override {
    return script_.Take("ModelStatistics", *c, *q, a);
  }
  grpc::Status RepositoryIndex(ServerContext* c, const kserve::RepositoryIndexRequest* q,
                               kserve::RepositoryIndexResponse* a) override {
    return script_.Take("RepositoryIndex", *c, *q, a);
  }
  grpc::Status ModelInfer(ServerContext* c, const kserve::ModelInferRequest* q,
                          kserve::ModelInferResponse* a) override {
    return script_.Take("ModelInfer", *c, *q, a);
  }

 private:
  Script& script_;
};

class TypedService final : public v1::Cellbatch::Service {
 public:
  explicit TypedService(Script& script) : script_(script) {}
  grpc::Status Infer(ServerContext* c, const v1::InferRequest* q, v1::InferResponse* a) override {
    return script_.Take("Infer", *c, *q, a);
  }
  grpc::Status Latency(ServerContext* c, const v1::LatencyRequest* q,
                       v1::LatencyResponse* a) override {
    return script_.Take("Latency", *c, *q, a);
  }
  // Two words, of which one has a name, and their end.
  grpc::Status Decode(ServerContext* c, const v1::DecodeRequest* q,
                      grpc::ServerWriter<v1::DecodeResponse>* writer) override {
    v1::DecodeResponse first, second, end;
    first.mutable_word()->set_id(7);
    first.mutable_word()->set_text("w");
    second.mutable_word()->set_id(8);
    second.mutable_word()->set_step(1);
    end.mutable_end()->set_length(2);
    end.mutable_end()->set_stopped(q->priority() == 1);
    for (const v1::DecodeResponse& event : {first, second, end}) writer->Write(event);
    return script_.Take("Decode", *c, *q, static_cast<v1::DecodeResponse*>(nullptr));
  }

 private:
  Script& script_;
};

class ScriptedServerTest : public ::testing::Test {
 protected:
  ScriptedServerTest() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&kserve_);
    builder.RegisterService(&typed_);
    server_ = builder.BuildAndStart();
    script_.Answer("ServerLive", "live: true");
    script_.Answer("ServerReady", "ready: true");
    script_.Answer("ModelMetadata",
                   R"(name: "m" versions: "1" versions: "2" platform: "p"
                      inputs { name: "TOKENS" datatype: "INT32" shape: -1 }
                      outputs { name: "OUTPUT" datatype: "FP32" shape: -1 shape: 4 })");
    script_.Answer("ModelConfig",
                   R"(config { name: "m" platform: "p" max_batch_size: 3 parameters {
                        key: "vocabulary_size" value { string_value: "1" } } })");
  }
  ~ScriptedServerTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string Url() const { return "127.0.0.1:" + std::to_string(port_); }
  CommandResult Run(std::vector<std::string> arguments) {
    arguments.push_back("--url=" + Url());
    return RunCommand(arguments);
  }
  std::string Text(const std::vector<std::string>& arguments) {
    const CommandResult result = Run(arguments);
    return result.output + result.complaint;
  }
  Json RunJson(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    return Json::parse(Run(arguments).output, nullptr, false);
  }

  Script script_;
  KserveService kserve_{script_};
  TypedService typed_{script_};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ScriptedServerTest, EveryFlagOfInferIsAFieldOfItsRequest) {
  const std::string names = R"(model_name: "m" model_version: "3" id: "a" )";
  struct Case {
    std::vector<std::string> flags;
    std::string asked;
  };
  for (const Case& c : std::vector<Case>{
           {{"--tokens=1 2", "--outputs=A,B", "--priority=2", "--max-decode-steps=4",
             "--decode-steps=5", "--sequence=s", "--sequence-start", "--sequence-end"},
            "ModelInfer " + names +
                R"(parameters { key: "decode_steps" value { int64_param: 5 } } )"
                R"(parameters { key: "max_decode_steps" value { int64_param: 4 } } )"
                R"(parameters { key: "priority" value { int64_param: 2 } } )"
                R"(parameters { key: "sequence_end" value { bool_param: true } } )"
                R"(parameters { key: "sequence_id" value { string_param: "s" } } )"
                R"(parameters { key: "sequence_start" value { bool_param: true } } )"
                R"(inputs { name: "TOKENS" datatype: "INT32" shape: 2 } )"
                R"(outputs { name: "A" } outputs { name: "B" } )"
                R"(raw_input_contents: "\001\000\000\000\002\000\000\000")"},
           {{"--random=2"},
            R"(ModelMetadata name: "m" version: "3")"
            "\n"
            R"(ModelConfig name: "m" version: "3")"
            "\nModelInfer " +
                names +
                R"(inputs { name: "TOKENS" datatype: "INT32" shape: 2 } )"
                R"(raw_input_contents: "\000\000\000\000\000\000\000\000")"},
           {{"--text=a b.", "--outputs=A,B", "--priority=2", "--max-decode-steps=4"},
            "Infer " + names +
                R"(inputs { sequence { words: "a" words: "b" words: "." } } )"
                R"(outputs: "A" outputs: "B" parameters { key: "max_decode_steps" value: 4 } )"
                R"(parameters { key: "priority" value: 2 })"},
           {{"--source=4 5"}, "Infer " + names + "inputs { sequence { tokens: 4 tokens: 5 } }"},
           {{"--tree=(1 a)"}, "Infer " + names + "inputs { tree { bracketed: \"(1 a)\" } }"},
           {{"--chars=6 7", "--spans=0-2:9"},
            "Infer " + names +
                "inputs { lattice { characters: 6 characters: 7 "
                "words { start: 0 end: 2 word: 9 } } }"}}) {
    std::vector<std::string> arguments = {"infer", "--model=m", "--version=3", "--id=a"};
    arguments.insert(arguments.end(), c.flags.begin(), c.flags.end());
    Run(arguments);
    EXPECT_EQ(script_.Asked(), c.asked + "\n");
  }
  Run({"infer", "--model=m", "--tokens=7"});
  EXPECT_EQ(script_.Asked(),
            R"(ModelInfer model_name: "m" inputs { name: "TOKENS" datatype: "INT32" shape: 1 } )"
            R"(raw_input_contents: "\007\000\000\000")"
            "\n");
  EXPECT_EQ(script_.WithoutDeadline(), 0);
}

TEST_F(ScriptedServerTest, OtherCommandsAskOfWhatTheyAreGiven) {
  struct Case {
    std::vector<std::string> arguments;
    std::string asked;
  };
  const std::string named = R"( name: "m" version: "2")";
  for (const Case& c : std::vector<Case>{
           {{"stats"}, "ModelStatistics \n"},
           {{"stats", "--model=m", "--version=2"}, "ModelStatistics" + named + "\n"},
           {{"config", "--model=m", "--version=2"}, "ModelConfig" + named + "\n"},
           {{"metadata", "--model=m", "--version=2"}, "ModelMetadata" + named + "\n"},
           {{"metadata"}, "ServerMetadata \nRepositoryIndex \n"},
           {{"repository"}, "RepositoryIndex \n"},
           {{"health", "--model=m", "--version=2"},
            "ServerLive \nServerReady \nModelReady" + named + "\n"},
           {{"latency"}, "Latency window_seconds: 60\n"},
           {{"latency", "--model=m", "--version=2", "--window=7"},
            "Latency model_name: \"m\" model_version: \"2\" window_seconds: 7\n"},
           {{"decode", "--model=m", "--source=1 2"},
            "Decode model_name: \"m\" source { tokens: 1 tokens: 2 }\n"},
           {{"decode", "--model=m", "--version=2", "--text=a b", "--max-decode-steps=3",
             "--decode-steps=4", "--priority=1"},
            "Decode model_name: \"m\" model_version: \"2\" source { words: \"a\" words: \"b\" } "
            "max_decode_steps: 3 decode_steps: 4 priority: 1\n"},
           {{"tag", "He", "said.", "--version=4"},
            "ModelInfer model_name: \"tagger\" model_version: \"4\" "
            "inputs { name: \"WORDS_TEXT\" datatype: \"BYTES\" shape: 3 } "
            "outputs { name: \"LABELS\" } raw_input_contents: "
            "\"\\002\\000\\000\\000He\\004\\000\\000\\000said\\001\\000\\000\\000.\"\n"}}) {
    Run(c.arguments);
    EXPECT_EQ(script_.Asked(), c.asked);
  }
  EXPECT_EQ(script_.WithoutDeadline(), 0);
  const auto client = Client::Connect({.url = Url()});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->RepositoryIndex(/*only_ready=*/true).ok());
  EXPECT_EQ(script_.Asked(), "RepositoryIndex ready: true\n");
  EXPECT_EQ(script_.WithoutDeadline(), 1) << "none is asked for";
}

TEST_F(ScriptedServerTest, TensorsOfAnAnswerAreShownByTheirDatatype) {
  script_.Answer("ModelInfer", R"(
      model_name: "m" model_version: "3" id: "a"
      outputs { name: "I" datatype: "INT32" shape: 1 shape: 3 }
      outputs { name: "T" datatype: "BYTES" shape: 2 }
      outputs { name: "F" datatype: "FP32" shape: 2 }
      raw_output_contents: "\001\000\000\000\376\377\377\377\003\000\000\000"
      raw_output_contents: "\001\000\000\000a\000\000\000\000"
      raw_output_contents: "\000\000\000\077\000\000\000\100")");
  script_.Answer("Infer", R"(
      model_name: "m" model_version: "3" id: "a" answers {
        outputs { name: "I" datatype: "INT32" shape: 1 shape: 3
                  integers: 1 integers: -2 integers: 3 }
        outputs { name: "T" datatype: "BYTES" shape: 2 texts: "a" texts: "" }
        outputs { name: "F" datatype: "FP32" shape: 2 floats: 0.5 floats: 2 } })");
  const Json expected = Json::parse(R"({"id": "a", "model_name": "m", "model_version": "3",
      "outputs": [{"name": "I", "datatype": "INT32", "shape": [1, 3], "data": [1, -2, 3]},
                  {"name": "T", "datatype": "BYTES", "shape": [2], "data": ["a", ""]},
                  {"name": "F", "datatype": "FP32", "shape": [2], "data": [0.5, 2.0]}]})");
  for (const char* input : {"--tokens=1", "--text=a"}) {
    EXPECT_EQ(Text({"infer", "--model=m", input, "--values=2"}),
              "m version 3\n"
              "output  datatype  shape   values\n"
              "I       INT32     [1, 3]   1  -2  … (3 values)\n"
              "T       BYTES     [2]      \"a\"  \"\"\n"
              "F       FP32      [2]      0.5  2\n");
    EXPECT_EQ(RunJson({"infer", "--model=m", input}).dump(), expected.dump());
  }
  EXPECT_EQ(Text({"infer", "--model=m", "--tokens=1", "--values=1"}),
            "m version 3\n"
            "output  datatype  shape   values\n"
            "I       INT32     [1, 3]   1  … (3 values)\n"
            "T       BYTES     [2]      \"a\"  … (2 values)\n"
            "F       FP32      [2]      0.5  … (2 values)\n");
  script_.Answer("Infer", "answers { code: 5 error: \"gone\" }");
  EXPECT_EQ(Text({"infer", "--model=m", "--text=a"}), "NOT_FOUND: gone\n");
  script_.Answer("Infer", "answers { } answers { }");
  EXPECT_EQ(Text({"infer", "--model=m", "--text=a"}), "INTERNAL: one input has 2 answers\n");
}

TEST_F(ScriptedServerTest, CountsAndTimesStandInTheirColumns) {
  script_.Answer("ModelStatistics", R"(
      model_stats { name: "m" version: "2" last_inference: 9 inference_count: 6 execution_count: 4
        inference_stats {
          success { count: 5 ns: 5000 } fail { count: 1 ns: 77 } queue { count: 5 ns: 10000 }
          compute_input { count: 5 ns: 15000 } compute_infer { count: 5 ns: 20000 }
          compute_output { count: 5 ns: 25000 } }
        batch_stats { batch_size: 3 compute_infer { count: 2 ns: 40 } } }
      model_stats { name: "new" version: "1" })");
  EXPECT_EQ(Text({"stats"}),
            "model  version  requests  tasks  requests/task  failed     mean    queue  compute\n"
            "m            2         6      4           1.50       1  1.00 us  2.00 us  4.00 us\n"
            "new          1         0      0              –       0        –        –        –\n");
  EXPECT_EQ(RunJson({"stats"})["models"][0], Json::parse(R"({"name": "m", "version": "2",
      "inference_count": 6, "execution_count": 4, "last_inference_ms": 9,
      "success": {"count": 5, "ns": 5000}, "fail": {"count": 1, "ns": 77},
      "queue": {"count": 5, "ns": 10000}, "compute_input": {"count": 5, "ns": 15000},
      "compute_infer": {"count": 5, "ns": 20000}, "compute_output": {"count": 5, "ns": 25000},
      "batches": [{"size": 3, "compute": {"count": 2, "ns": 40}}]})"));
  script_.Answer("Latency", R"(
      models { model_name: "m" model_version: "2" failed: 3 covered_seconds: 1.5
        phases { phase: PHASE_REQUEST count: 2 mean_ns: 1000 p50_ns: 2000 p90_ns: 3000
                 p99_ns: 4000 p999_ns: 5000 max_ns: 6000 }
        phases { phase: PHASE_QUEUE }
        phases { phase: PHASE_COMPUTE count: 1 } }
      models { model_name: "n" model_version: "1" })");
  EXPECT_EQ(
      Text({"latency"}),
      "model  version  phase    requests     mean      p50      p90      p99    p99.9      max\n"
      "m            2  request         2  1.00 us  2.00 us  3.00 us  4.00 us  5.00 us  6.00 us\n"
      "m            2  queue           0        –        –        –        –        –        –\n"
      "m            2  compute         1     0 ns     0 ns     0 ns     0 ns     0 ns     0 ns\n"
      "m version 2: 3 more began and ended otherwise\n");
  const Json times = RunJson({"latency"})["models"][0];
  EXPECT_EQ(times["phases"]["request"], Json::parse(R"({"count": 2, "mean_ns": 1000,
      "p50_ns": 2000, "p90_ns": 3000, "p99_ns": 4000, "p99.9_ns": 5000, "max_ns": 6000})"));
  EXPECT_EQ(times["covered_seconds"], 1.5);
  EXPECT_EQ(times["failed"], 3);
  EXPECT_EQ(times["version"], "2");
}

TEST_F(ScriptedServerTest, ModelsAndServersDescribeThemselves) {
  EXPECT_EQ(Text({"metadata", "--model=m"}),
            "m  platform p  versions 1, 2\n"
            "tensor  name    datatype  shape\n"
            "input   TOKENS  INT32     [?]\n"
            "output  OUTPUT  FP32      [?, 4]\n");
  EXPECT_EQ(RunJson({"metadata", "--model=m"}), Json::parse(R"({"name": "m", "platform": "p",
      "versions": ["1", "2"],
      "inputs": [{"name": "TOKENS", "datatype": "INT32", "shape": [-1]}],
      "outputs": [{"name": "OUTPUT", "datatype": "FP32", "shape": [-1, 4]}]})"));
  EXPECT_EQ(RunJson({"config", "--model=m"})["max_batch_size"], 3);
  EXPECT_EQ(Text({"repository"}), "no models\n");
  script_.Answer("RepositoryIndex",
                 R"(models { name: "m" version: "2" state: "UNAVAILABLE" reason: "why" })");
  script_.Answer("ServerMetadata", R"(name: "s" version: "7" extensions: "a" extensions: "b")");
  EXPECT_EQ(Text({"metadata"}),
            "s 7\nextensions  a, b\n\n"
            "model  version  state        reason\n"
            "m            2  UNAVAILABLE  why\n");
  EXPECT_EQ(RunJson({"metadata"}), Json::parse(R"({"name": "s", "version": "7",
      "extensions": ["a", "b"], "models": [
        {"name": "m", "version": "2", "state": "UNAVAILABLE", "reason": "why"}]})"));
}

TEST_F(ScriptedServerTest, AServerThatIsNotReadyOrNotLiveIsNotHealthy) {
  for (const auto& [live, ready] : {std::pair(true, false), {false, true}}) {
    script_.Answer("ServerLive", live ? "live: true" : "");
    script_.Answer("ServerReady", ready ? "ready: true" : "");
    const CommandResult result = Run({"health"});
    EXPECT_EQ(result.output, std::string("live    ") + (live ? "yes" : "no") + "\nready   " +
                                 (ready ? "yes" : "no") + "\nhealth  SERVING\n");
    EXPECT_EQ(result.exit_code, 1);
  }
}

TEST_F(ScriptedServerTest, WordsAreShownByNameWhereTheyHaveOneThenHowTheyEnded) {
  EXPECT_EQ(Text({"decode", "--model=m", "--source=1", "--priority=1"}),
            "w 8 \n2 words, then the end of the sequence\n");
  EXPECT_EQ(Text({"decode", "--model=m", "--source=1"}), "w 8 \n2 words, then the cap\n");
  EXPECT_EQ(Text({"decode", "--model=m", "--source=1", "--json"}),
            "{\"step\":0,\"text\":\"w\",\"word\":7}\n"
            "{\"step\":1,\"word\":8}\n"
            "{\"length\":2,\"stopped\":false}\n");
}

TEST_F(ScriptedServerTest, EveryWordOfASentenceGetsItsLabel) {
  const auto labels = [this](const std::string& raw, int count) {
    script_.Answer("ModelInfer", "outputs { name: \"LABELS\" datatype: \"BYTES\" shape: " +
                                     std::to_string(count) + " } raw_output_contents: \"" + raw +
                                     "\"");
  };
  const std::string person = "\\005\\000\\000\\000I-PER", none = "\\001\\000\\000\\000O";
  labels(person + none + none, 3);
  EXPECT_EQ(Text({"tag", "Ann", "left."}), "Ann    left  .\nI-PER  O     O\n");
  const std::string file = ::testing::TempDir() + "/scripted_server_test.txt";
  std::ofstream(file) << "Ann left .\n\nBob came .\n";
  EXPECT_EQ(Text({"tag", "--input=" + file}),
            "Ann    left  .\nI-PER  O     O\n\nBob    came  .\nI-PER  O     O\n");
  EXPECT_EQ(RunJson({"tag", "--input=" + file})["sentences"][1],
            Json::parse(R"({"words": ["Bob", "came", "."], "labels": ["I-PER", "O", "O"]})"));
  EXPECT_EQ(Text({"tag", "Ann"}), "INTERNAL: 3 labels for 1 words\n");
  script_.Answer("ModelInfer", "");
  EXPECT_EQ(Text({"tag", "Ann"}), "INTERNAL: the answer has no LABELS\n");
}

}  // namespace
}  // namespace cellbatch

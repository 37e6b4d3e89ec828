// Our own typed service, end to end: a real server, the client library and the command line. What typed inputs
// get is what the same tensors get over ModelInfer, bit for bit; words that are streamed are those of the answer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/client.h"
#include "client/typed_tensors.h"
#include "grpcpp/grpcpp.h"
#include "proto/cellbatch.grpc.pb.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/seq2seq/translators.h"
#include "tests/zoo/workload.h"

namespace cellbatch {
namespace {

using zoo::Asked;
using zoo::Workload;

constexpr size_t kItems = 16;
constexpr int32_t kManySteps = 200'000;  // of a decoder that nobody waits for

std::vector<std::string> Names() {
  return {"lstm",     "bilstm_tagger", "bilstm_tagger_char", "nmt",
          "treelstm", "latticelstm",   "childsum",           "childsum_by_arity"};
}

class Served {
 public:
  static Served& Get() {
    static Served served;
    return served;
  }
  Client& client() { return *client_; }
  const ServerProcess& server() const { return *server_; }
  const Workload& workload(const std::string& name) const { return workloads_.at(name); }
  bool ready() const { return client_ != nullptr; }

  // Until nothing is in flight: what was given up has left.
  void WaitUntilIdle() const {
    while (Metric(*server_, "cellbatch_admitted_requests") != 0) std::this_thread::yield();
  }

 private:
  Served() {
    const std::string repository = NewRepository();
    for (const std::string& name : Names()) {
      const Workload& made = workloads_[name] = zoo::MakeWorkload(name, zoo::Sizes{}, kItems);
      made.model.Write(repository, name);
    }
    AddCounterModel(repository, {.largest = 60, .max_decode_steps = kManySteps});
    server_ = ServerProcess::Serving(repository, {"--grpc-stream-buffer=65536"});
    if (server_ == nullptr) return;
    auto client = Client::Connect({.url = server_->grpc()});
    if (client.ok()) client_ = *std::move(client);
  }

  std::map<std::string, Workload> workloads_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

class TypedTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(Served::Get().ready()); }
  Client& client() { return Served::Get().client(); }
};

InferInput TensorsOf(const Asked& asked, const std::string& model) {
  InferInput input{.model = model, .inputs = asked.inputs, .outputs = asked.outputs};
  for (const auto& [name, value] : asked.parameters) input.parameters[name] = value;
  return input;
}

void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, expected[i].name);
    EXPECT_EQ(got[i].datatype, expected[i].datatype);
    EXPECT_EQ(got[i].shape, expected[i].shape);
    EXPECT_EQ(got[i].bytes, expected[i].bytes) << got[i].name << " has other bits";
  }
}

TEST_P(TypedTest, ManyInputsInOneMessageGetTheBitsThatTensorsGet) {
  const Workload& workload = Served::Get().workload(GetParam());
  // Outputs and parameters are said once a message: a message for each choice of them.
  std::map<std::pair<std::vector<std::string>, std::map<std::string, int64_t>>, std::vector<size_t>>
      messages;
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    messages[{workload.requests[i].outputs, workload.requests[i].parameters}].push_back(i);
  }
  size_t answered = 0;
  for (const auto& [said, requests] : messages) {
    InferManyInput many{.model = GetParam(), .id = "all", .outputs = said.first};
    many.parameters = said.second;
    for (const size_t i : requests)
      many.inputs.push_back(*TypedFromTensors(workload.requests[i].inputs));
    const auto result = client().InferMany(many);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->id, "all");
    ASSERT_EQ(result->answers.size(), requests.size());
    for (size_t k = 0; k < requests.size(); ++k) {
      const auto tensors = client().Infer(TensorsOf(workload.requests[requests[k]], GetParam()));
      ASSERT_TRUE(tensors.ok()) << tensors.status();
      ASSERT_TRUE(result->answers[k].ok()) << result->answers[k].status();
      ExpectSame(*result->answers[k], tensors->outputs);
      ++answered;
    }
  }
  EXPECT_EQ(answered, workload.requests.size());
}

INSTANTIATE_TEST_SUITE_P(EveryKind, TypedTest, ::testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

using TypedCallTest = TypedTest;

std::vector<int32_t> CountDown(int32_t from) {
  std::vector<int32_t> words;
  for (; from > 0; --from) words.push_back(from);
  return words;
}

DecodeInput Count(int32_t from) { return {.model = "counter", .source = {.tokens = {7, from}}}; }

void ExpectGood(Client& client) {
  const auto result = client.Infer(
      {.model = "counter", .inputs = {Int32Tensor("SOURCE", {2}, {3, 9})}, .outputs = {"OUTPUT"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result->Find("OUTPUT")->AsInts(), CountDown(9));
}

TEST_F(TypedCallTest, AWrongInputAmongGoodOnesIsItsOwnAnswer) {
  InferManyInput many{.model = "counter"};
  many.inputs = {SequenceInput{.tokens = {5}}, SequenceInput{.tokens = {61}},
                 TreeInput{.bracketed = "(1 a)"},
                 std::vector<Tensor>{Int32Tensor("SOURCE", {1}, {4})}, SequenceInput{}};
  const auto result = client().InferMany(many);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*(*result->answers[0])[0].AsInts(), CountDown(5));
  EXPECT_EQ(*(*result->answers[3])[0].AsInts(), CountDown(4));
  EXPECT_EQ(result->answers[1].status(),
            absl::InvalidArgumentError(
                "input SOURCE of model \"counter\": token 0 is 61, the vocabulary ends at 60"));
  EXPECT_TRUE(absl::IsInvalidArgument(result->answers[2].status())) << result->answers[2].status();
  EXPECT_TRUE(absl::IsInvalidArgument(result->answers[4].status()));
  EXPECT_TRUE(
      absl::IsNotFound(client().InferMany({.model = "nobody", .inputs = many.inputs}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client().InferMany({.model = "counter"}).status()));
}

TEST_F(TypedCallTest, StreamedWordsAreThoseOfTheAnswerForEveryLength) {
  for (int32_t n = 0; n <= 60; n += n < 5 ? 1 : 11) {
    std::vector<int32_t> words;
    const auto result = client().Decode(Count(n), {}, [&](const DecodedWord& word) {
      EXPECT_EQ(word.step, static_cast<int32_t>(words.size()));
      words.push_back(word.id);
      return true;
    });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(words, CountDown(n));
    EXPECT_EQ(result->length, n);
    EXPECT_TRUE(result->stopped);
  }
  DecodeInput cut = Count(50);
  cut.max_decode_steps = 3;
  std::vector<int32_t> words;
  const auto result = client().Decode(cut, {}, [&](const DecodedWord& word) {
    words.push_back(word.id);
    return true;
  });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(words, (std::vector<int32_t>{50, 49, 48}));
  EXPECT_FALSE(result->stopped);
}

// Decoders of random weights, whose words nobody can foretell; many streams at once.
TEST_F(TypedCallTest, ManyStreamsAtOnceCarryTheWordsOfTheirOwnAnswers) {
  const Workload& workload = Served::Get().workload("nmt");
  struct Stream {
    std::vector<int32_t> words;
    std::atomic<bool> done = false;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Asked& asked : workload.requests) {
    DecodeInput input{.model = "nmt",
                      .source = std::get<SequenceInput>(*TypedFromTensors(asked.inputs))};
    const auto steps = asked.parameters.find("decode_steps");
    if (steps != asked.parameters.end()) input.decode_steps = steps->second;
    Stream* stream = streams.emplace_back(std::make_unique<Stream>()).get();
    client().DecodeAsync(
        input, {},
        [stream](const DecodedWord& word) {
          stream->words.push_back(word.id);
          return true;
        },
        [stream](absl::StatusOr<DecodeResult> result) {
          EXPECT_TRUE(result.ok()) << result.status();
          EXPECT_EQ(result->length, static_cast<int32_t>(stream->words.size()));
          stream->done = true;
        });
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    while (!streams[i]->done) std::this_thread::yield();
    InferInput unary = TensorsOf(workload.requests[i], "nmt");
    unary.outputs = {"OUTPUT"};
    const auto result = client().Infer(unary);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(streams[i]->words, *result->Find("OUTPUT")->AsInts()) << i;
  }
}

// Of a server whose buffer takes every word of such a stream: how fast they are read plays no part.
TEST(TypedCancelTest, ACancelInTheMiddleStopsTheDecoder) {
  constexpr int32_t kSteps = 900'000;
  const std::string repository = NewRepository();
  AddCounterModel(repository, {.largest = 60, .max_decode_steps = kSteps});
  const auto server = ServerProcess::Serving(repository, {"--grpc-stream-buffer=268435456"});
  ASSERT_NE(server, nullptr);
  const auto client = Client::Connect({.url = server->grpc()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto wait_until_idle = [&] {
    while (Metric(*server, "cellbatch_admitted_requests") != 0) std::this_thread::yield();
  };

  DecodeInput endless = Count(60);
  endless.decode_steps = kSteps;
  int words = 0;
  const auto enough =
      (*client)->Decode(endless, {}, [&](const DecodedWord&) { return ++words < 5; });
  EXPECT_EQ(enough.status().code(), absl::StatusCode::kCancelled) << enough.status();
  EXPECT_EQ(words, 5);
  wait_until_idle();

  std::atomic<int> heard = 0;
  std::atomic<bool> done = false;
  const Call call = (*client)->DecodeAsync(
      endless, {},
      [&](const DecodedWord&) {
        ++heard;
        return true;
      },
      [&](absl::StatusOr<DecodeResult> result) {
        EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
        done = true;
      });
  while (heard < 3) std::this_thread::yield();
  call.Cancel();
  while (!done) std::this_thread::yield();
  EXPECT_LT(heard, kSteps);
  wait_until_idle();

  const auto late = (*client)->Decode(endless, {.timeout = std::chrono::milliseconds(40)},
                                      [](const DecodedWord&) { return true; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  wait_until_idle();
  ExpectGood(**client);
}

// V14, over ModelInfer and over Decode: both values are named; a decode that does not end is cut, and says so.
TEST_F(TypedCallTest, StepsBeyondTheCapAreRefusedAndTheCapIsKept) {
  InferInput input{.model = "counter",
                   .inputs = {Int32Tensor("SOURCE", {1}, {60})},
                   .outputs = {"OUTPUT", "LENGTH", "STOPPED"}};
  for (const int64_t steps : {int64_t{0}, int64_t{-7}, int64_t{kManySteps + 1}, INT64_MIN}) {
    const std::string text =
        fmt::format("model \"counter\": parameter max_decode_steps is {}, allowed are 1 to {}",
                    steps, kManySteps);
    input.parameters["max_decode_steps"] = steps;
    EXPECT_EQ(client().Infer(input).status(), absl::InvalidArgumentError(text));
    DecodeInput stream = Count(60);
    stream.max_decode_steps = steps;
    EXPECT_EQ(client().Decode(stream, {}, [](const DecodedWord&) { return true; }).status(),
              absl::InvalidArgumentError(text));
  }
  input.parameters["max_decode_steps"] = int64_t{7};
  const auto cut = client().Infer(input);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->Find("OUTPUT")->shape, std::vector<int64_t>{7});
  EXPECT_EQ(*cut->Find("LENGTH")->AsInts(), std::vector<int32_t>{7});
  EXPECT_EQ(*cut->Find("STOPPED")->AsInts(), std::vector<int32_t>{0});
  input.parameters["max_decode_steps"] = std::string("7");
  EXPECT_EQ(std::string(client().Infer(input).status().message()),
            "parameter max_decode_steps has the wrong type: expected int64_param");
  EXPECT_EQ(std::string(client()
                            .Infer({.model = "lstm",
                                    .inputs = {Int32Tensor("TOKENS", {1}, {1})},
                                    .parameters = {{"max_decode_steps", int64_t{5}}}})
                            .status()
                            .message()),
            "parameter max_decode_steps: model \"lstm\" decodes nothing");
  ExpectGood(client());
}

// P13: its words wait in gRPC's window, then in a bounded buffer, and then its decoder is stopped.
TEST_F(TypedCallTest, AStreamThatNobodyReadsIsCutOffAndOthersDoNotNotice) {
  grpc::ChannelArguments fixed_window;  // else it grows, on a slow machine to all there is
  fixed_window.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel = grpc::CreateCustomChannel(Served::Get().server().grpc(),
                                                 grpc::InsecureChannelCredentials(), fixed_window);
  const auto stub = v1::Cellbatch::NewStub(channel);
  v1::DecodeRequest request;
  request.set_model_name("counter");
  request.mutable_source()->add_tokens(60);
  request.set_decode_steps(kManySteps);
  grpc::ClientContext context;
  const auto reader = stub->Decode(&context, request);
  ExpectGood(client());
  Served::Get().WaitUntilIdle();  // though not a word was read
  ExpectGood(client());
  v1::DecodeResponse event;
  int32_t words = 0;
  for (; reader->Read(&event); ++words) {
    ASSERT_TRUE(event.has_word()) << "a stream that was cut has no end";
    ASSERT_EQ(event.word().step(), words);
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_GT(words, 0);
  EXPECT_LT(words, kManySteps);
}

// What the command line prints.
struct Printed {
  int exit_code = -1;
  std::string text;
};
Printed RunClient(const std::string& arguments) {
  const std::string command =
      "client/cellbatch-client --url=" + Served::Get().server().grpc() + " " + arguments + " 2>&1";
  Printed printed;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return printed;
  char block[512];
  for (size_t n = 0; (n = fread(block, 1, sizeof(block), pipe)) > 0;) printed.text.append(block, n);
  printed.exit_code = pclose(pipe) / 256;
  return printed;
}

TEST_F(TypedCallTest, TheCommandLineStreamsWordsAndInfersFromTypedInputs) {
  Printed printed = RunClient("decode --model=counter --source='5 4'");
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_EQ(printed.text, "4 3 2 1 \n4 words, then the end of the sequence\n");
  printed = RunClient("decode --model=counter --source=9 --max-decode-steps=2 --json");
  EXPECT_EQ(printed.text,
            "{\"step\":0,\"word\":9}\n{\"step\":1,\"word\":8}\n{\"length\":2,\"stopped\":false}\n");
  printed = RunClient("decode --model=counter --source=9 --max-decode-steps=-2");
  EXPECT_EQ(printed.exit_code, 1);
  EXPECT_NE(printed.text.find("max_decode_steps is -2, allowed are 1 to 200000"), std::string::npos)
      << printed.text;

  printed = RunClient("infer --model=counter --source='1 3' --outputs=OUTPUT,STOPPED --json");
  const auto json = nlohmann::json::parse(printed.text, nullptr, false);
  ASSERT_TRUE(json.is_object()) << printed.text;
  EXPECT_EQ(json["outputs"][0]["data"], (nlohmann::json{3.0, 2.0, 1.0}));
  EXPECT_EQ(json["outputs"][1]["data"], (nlohmann::json{1.0}));
  printed = RunClient("infer --model=latticelstm --chars='1 2 3 4' --spans='0-2:3, 1-4:5'");
  EXPECT_EQ(printed.exit_code, 0) << printed.text;
  EXPECT_NE(printed.text.find("OUTPUT"), std::string::npos) << printed.text;
  EXPECT_EQ(RunClient("infer --model=latticelstm --chars=1 --spans=0:2-3").exit_code, 1);
  EXPECT_EQ(RunClient("decode --model=counter").exit_code, 1);
}

TEST_F(TypedCallTest, TheCommandLineSendsASequencePieceByPiece) {
  const auto infer = [](const std::string& arguments) {
    return RunClient("infer --model=lstm --json " + arguments).text;
  };
  infer("--tokens=1,2 --sequence=call-7 --sequence-start");
  const Printed end =
      RunClient("infer --model=lstm --json --tokens=3 --sequence=call-7 --sequence-end");
  EXPECT_EQ(end.exit_code, 0) << end.text;
  EXPECT_EQ(end.text, infer("--tokens=1,2,3"));
  EXPECT_NE(infer("--tokens=4 --sequence=call-7").find("has no state here"), std::string::npos);
  EXPECT_NE(
      RunClient("infer --model=counter --source=1 --sequence=a").text.find("--sequence goes with"),
      std::string::npos);
}

}  // namespace
}  // namespace cellbatch

#include "client/commands.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/json_request.h"
#include "client/null_server.h"
#include "client/output.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

class CommandsTest : public testing::Test {
 protected:
  void SetUp() override { server_ = *NullServer::Start({.vocabulary_size = 100}); }

  CommandResult Run(std::vector<std::string> arguments) const {
    arguments.push_back("--url=" + server_->address());
    return RunCommand(arguments);
  }
  Json RunJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    return Json::parse(Run(arguments).output, nullptr, false);
  }

  std::unique_ptr<NullServer> server_;
};

TEST_F(CommandsTest, InferPrintsEveryOutput) {
  const CommandResult result = Run({"infer", "--model=null", "--tokens=1, 2 39"});
  EXPECT_EQ(result.exit_code, 0) << result.complaint;
  EXPECT_EQ(result.output,
            "null version 1\n"
            "output  datatype  shape  values\n"
            "OUTPUT  FP32      [2]     3  42\n");
}

TEST_F(CommandsTest, InferInJsonHasTheFormOfTheProtocol) {
  const Json answer = RunJson({"infer", "--model=null", "--tokens=1,2", "--id=a"});
  EXPECT_EQ(answer["model_name"], "null");
  EXPECT_EQ(answer["id"], "a");
  EXPECT_EQ(answer["outputs"][0]["name"], "OUTPUT");
  EXPECT_EQ(answer["outputs"][0]["data"], (Json{2.0, 3.0}));
}

TEST_F(CommandsTest, InferReadsARequestFromAFile) {
  const std::string path = testing::TempDir() + "/commands_test_request.json";
  std::ofstream(path) << R"({"id": "f", "inputs": [{"name": "TOKENS", "shape": [2],
                             "datatype": "INT32", "data": [[5], [6]]}]})";
  const Json answer = RunJson({"infer", "--model=null", "--input=" + path});
  std::remove(path.c_str());
  EXPECT_EQ(answer["id"], "f");
  EXPECT_EQ(answer["outputs"][0]["data"], (Json{2.0, 11.0}));
}

TEST_F(CommandsTest, RandomTokensStayInsideTheVocabularyAndFollowTheSeed) {
  const auto once = RunJson({"infer", "--model=null", "--random=40", "--seed=5"});
  EXPECT_EQ(once["outputs"][0]["data"][0], 40.0);
  EXPECT_EQ(once, RunJson({"infer", "--model=null", "--random=40", "--seed=5"}));
  EXPECT_NE(once, RunJson({"infer", "--model=null", "--random=40", "--seed=6"}));
}

TEST_F(CommandsTest, MoreRandomStepsThanMemoryHoldsAreRefused) {
  const CommandResult result = Run({"infer", "--model=null", "--random=1000000000000"});
  EXPECT_EQ(result.complaint,
            "INVALID_ARGUMENT: 1000000000000 random steps, expected 1 to 67108864 of model "
            "\"null\"\n");
}

TEST_F(CommandsTest, AnErrorPrintsCodeAndTextAndExitsWithOne) {
  const CommandResult result = Run({"infer", "--model=null", "--tokens=100"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.complaint, "INVALID_ARGUMENT: token 0 is 100, the vocabulary ends at 99\n");
  EXPECT_EQ(RunJson({"config", "--model=other"})["error"]["code"], "NOT_FOUND");
}

TEST_F(CommandsTest, AnErrorThatNamesAFileInOtherLettersThanUtf8IsJsonToo) {
  const Json error = RunJson({"infer", "--model=null", "--input=/nowhere/caf\xe9.json"});
  EXPECT_TRUE(error.contains("error")) << error;
}

TEST_F(CommandsTest, TheOtherCommandsPrintWhatTheServerSays) {
  EXPECT_EQ(Run({"health"}).output, "live    yes\nready   yes\nhealth  SERVING\n");
  EXPECT_EQ(RunJson({"health"})["ready"], true);
  EXPECT_FALSE(RunJson({"health"}).contains("model_ready"));
  EXPECT_NE(Run({"metadata"}).output.find("cellbatch-null 0"), std::string::npos);
  EXPECT_NE(Run({"metadata", "--model=null"}).output.find("input   TOKENS  INT32     [?]"),
            std::string::npos)
      << Run({"metadata", "--model=null"}).output;
  EXPECT_NE(Run({"config", "--model=null"}).output.find("vocabulary_size    100"),
            std::string::npos)
      << Run({"config", "--model=null"}).output;
  EXPECT_EQ(RunJson({"config", "--model=null"})["parameters"]["vocabulary_size"]["string_value"],
            "100");
  EXPECT_NE(Run({"repository"}).output.find("null         1  READY"), std::string::npos)
      << Run({"repository"}).output;
  EXPECT_EQ(RunJson({"stats"})["models"][0]["name"], "null");
  EXPECT_EQ(RunJson({"latency"})["models"][0]["phases"]["request"]["count"], 0);
  EXPECT_NE(Run({"latency"}).output.find("p99.9"), std::string::npos);
}

// Two versions of one model may be served. Who was turned away is none of them, and stands in stats.
TEST_F(CommandsTest, WhoEndedOtherwiseIsCountedByVersion) {
  ModelTimes times;
  times.name = "m";
  times.version = "2";
  times.failed = 1234;
  EXPECT_NE(ToText({times}).find("\nm version 2: 1,234 more began and ended otherwise\n"),
            std::string::npos)
      << ToText({times});
}

TEST_F(CommandsTest, HealthAsksOfAModelThatIsNamedToo) {
  const CommandResult there = Run({"health", "--model=null", "--version=1"});
  EXPECT_EQ(there.output, "live    yes\nready   yes\nhealth  SERVING\nmodel   yes\n");
  EXPECT_EQ(there.exit_code, 0);
  const CommandResult none = Run({"health", "--model=other"});
  EXPECT_EQ(none.output, "live    yes\nready   yes\nhealth  SERVING\nmodel   no\n");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(RunJson({"health", "--model=null"})["model_ready"], true);
  EXPECT_EQ(RunJson({"health", "--model=other"})["model_ready"], false);
}

TEST_F(CommandsTest, SpansAreOfCharacters) {
  const CommandResult result = Run({"infer", "--model=null", "--tokens=1 2", "--spans=0-2:1"});
  EXPECT_EQ(result.complaint,
            "cellbatch-client: --spans are words over --chars, which are not given\n");
  EXPECT_EQ(result.exit_code, 2);
}

TEST_F(CommandsTest, APieceOfASequenceIsNoTypedInput) {
  for (const char* flag : {"--sequence=s", "--sequence-start", "--sequence-end"}) {
    EXPECT_EQ(
        Run({"infer", "--model=null", "--text=a", flag}).complaint,
        "INVALID_ARGUMENT: --sequence goes with --tokens, --random or --input, not with typed "
        "inputs\n");
  }
}

TEST_F(CommandsTest, DecodeSaysWhatItReads) {
  for (const char* other : {"--tokens=1 2", "--tree=(a)", "--chars=1"}) {
    EXPECT_EQ(Run({"decode", "--model=null", other}).complaint,
              "cellbatch-client: decode does not read " +
                  std::string(other).substr(0, std::string(other).find('=')) + ": infer does\n");
  }
  EXPECT_EQ(Run({"decode", "--model=null"}).complaint,
            "INVALID_ARGUMENT: decode wants --source or --text\n");
}

TEST(CommandWordsTest, AFlagThatACommandDoesNotReadIsNotLeftOutInSilence) {
  struct Case {
    std::vector<std::string> arguments;
    std::string complaint;
  };
  for (const Case& wrong : std::vector<Case>{
           {{"repository", "--version=2"},
            "repository does not read --version: health, metadata, config, infer, decode, tag, "
            "stats, latency do"},
           {{"repository", "--model", "m"},
            "repository does not read --model: health, metadata, config, infer, decode, tag, "
            "stats, latency do"},
           {{"infer", "--model=m", "--tokens=1", "--window=60"},
            "infer does not read --window: latency does"},
           {{"health", "--sequence-start=false"},
            "health does not read --sequence-start: infer does"},
           {{"stats", "--priority=1"}, "stats does not read --priority: infer, decode do"},
           {{"stats", "--version=1"}, "--version is of a --model, which is not given"},
           {{"infer", "--model=m", "--tokens=1", "--seed=1"},
            "--seed is for --random, which is not given"}}) {
    const CommandResult result = RunCommand(wrong.arguments);
    EXPECT_EQ(result.complaint, "cellbatch-client: " + wrong.complaint + "\n");
    EXPECT_EQ(result.exit_code, 2);
  }
  EXPECT_EQ(RunCommand({"tag", "a", "--version=1", "--url=127.0.0.1:1", "--timeout=0.1"}).exit_code,
            1)
      << "its model has a name";
}

TEST(CommandWordsTest, WrongWordsAreToldAndExitWithTwo) {
  EXPECT_EQ(RunCommand({}).exit_code, 2);
  EXPECT_EQ(RunCommand({"dance"}).complaint,
            "cellbatch-client: no command \"dance\"; --help lists them\n");
  EXPECT_EQ(RunCommand({"infer"}).complaint, "cellbatch-client: infer wants --model=NAME\n");
  EXPECT_EQ(RunCommand({"health", "--colour"}).exit_code, 2);
  EXPECT_EQ(RunCommand({"health", "stats"}).exit_code, 2);
  EXPECT_EQ(RunCommand({"--help"}).exit_code, 0);
}

TEST(CommandWordsTest, ValuesThatCannotBeAreNamedWithWhatIsAllowed) {
  const auto complaint = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"infer", "--model=m"});
    const CommandResult result = RunCommand(flags);
    EXPECT_EQ(result.exit_code, 2);
    return result.complaint;
  };
  EXPECT_EQ(complaint({"--timeout=1e17"}),
            "cellbatch-client: --timeout=1e+17: wants more than 0 seconds, 1e+08 at most\n");
  EXPECT_EQ(complaint({"--timeout=0"}),
            "cellbatch-client: --timeout=0: wants more than 0 seconds, 1e+08 at most\n");
  EXPECT_EQ(complaint({"--random=-1"}),
            "cellbatch-client: --random=-1: wants a number of steps, 1 or more\n");
  EXPECT_EQ(complaint({"--tokens=1", "--values=-1"}),
            "cellbatch-client: --values=-1: wants 0 or more\n");
}

TEST(CommandWordsTest, InferTakesOneRequestAndNoneIsLeftOutInSilence) {
  const auto complaint = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"infer", "--model=m"});
    return RunCommand(flags).complaint;
  };
  EXPECT_EQ(complaint({"--tokens=1 2", "--text=a b"}),
            "cellbatch-client: infer wants one of --tokens, --text\n");
  EXPECT_EQ(complaint({"--random=3", "--tokens=1", "--input=-"}),
            "cellbatch-client: infer wants one of --tokens, --random, --input\n");
}

TEST(CommandWordsTest, ANameThatNoServerTakesMakesNoToken) {
  const std::string file = testing::TempDir() + "/commands_test.token";
  for (const std::string& name :
       {std::string("a\"b"), std::string("a\nb"), std::string("caf\xe9"), std::string(65, 'n')}) {
    const CommandResult result = RunCommand({"token", "--name=" + name, "--token-file=" + file});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.complaint,
              "INVALID_ARGUMENT: --name=" + name +
                  ": expected 1 to 64 letters, digits, '.', '_' or '-', and not 32 "
                  "hexadecimal digits in a row\n");
    EXPECT_FALSE(std::ifstream(file)) << "nothing is drawn";
  }
  const CommandResult drawn = RunCommand({"token", "--name=a.b_c-1", "--token-file=" + file});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.complaint;
  EXPECT_TRUE(drawn.output.starts_with("token {\n  name: \"a.b_c-1\"\n")) << drawn.output;
  std::remove(file.c_str());
}

TEST(CommandWordsTest, TagWantsASentenceOrAFileAndNotBoth) {
  const char* wants = "cellbatch-client: tag wants a sentence, or --input=FILE\n";
  EXPECT_EQ(RunCommand({"tag"}).complaint, wants);
  EXPECT_EQ(RunCommand({"tag", "He", "said", "--input=-"}).complaint, wants);
}

TEST_F(CommandsTest, TagSaysWhatTheServerOrTheSentenceLacks) {
  EXPECT_EQ(Run({"tag", " "}).complaint, "INVALID_ARGUMENT: there is no word to tag\n");
  for (const std::string& file : {std::string("/nowhere"), testing::TempDir()}) {
    EXPECT_EQ(Run({"tag", "--input=" + file}).complaint,
              "NOT_FOUND: --input=" + file + ": cannot be read\n");
  }
  EXPECT_EQ(Run({"tag", "He", "went."}).exit_code, 1) << "this server has no tagger";
}

TEST(CommandWordsTest, NoServerExitsWithOne) {
  const CommandResult result = RunCommand({"health", "--url=127.0.0.1:1", "--timeout=0.05"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(
      result.complaint,
      "UNAVAILABLE: no server answers at 127.0.0.1:1 within 50 ms: ipv4:127.0.0.1:1: Failed to "
      "connect to remote host: Connection refused\n");
  EXPECT_EQ(RunCommand({"health", "--url=127.0.0.1:65537"}).complaint,
            "INVALID_ARGUMENT: 127.0.0.1:65537: a port is at most 65535\n");
}

TEST(JsonRequestTest, BrokenRequestsAreErrorsThatNameTheInput) {
  for (const char* text : {"", "[]", "{}", "{\"inputs\": []}", "{\"inputs\": [3]}",
                           "{\"inputs\": [{\"name\": \"T\"}]}",
                           "{\"inputs\": [{\"name\": \"T\", \"shape\": \"x\"}]}"}) {
    EXPECT_EQ(RequestFromJson(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  const auto request = RequestFromJson(
      R"({"inputs": [{"name": "T", "datatype": "INT32", "shape": [3], "data": [1, 2]}]})");
  EXPECT_EQ(std::string(request.status().message()), "tensor T: 2 values where its shape holds 3");
}

TEST(JsonRequestTest, WhatWouldBeSentAsSomethingElseIsRefused) {
  const auto error = [](const std::string& members) {
    const std::string input = R"("name": "T", )" + members;
    return std::string(RequestFromJson("{\"inputs\": [{" + input + "}]}").status().message());
  };
  EXPECT_EQ(error(R"("datatype": "INT32", "shape": 1, "data": [1])"),
            "input T: the shape is no list of integers");
  EXPECT_EQ(error(R"("datatype": "INT32", "shape": [18446744073709551615], "data": [1])"),
            "input T: the shape is no list of integers");
  EXPECT_EQ(error(R"("datatype": "INT64", "shape": [1], "data": [9007199254740994])"),
            "input T: 9007199254740994 is beyond 2^53, up to which whole numbers are read");
  EXPECT_EQ(error(R"("datatype": "INT64", "shape": [1], "data": [9007199254740992])"), "");
  EXPECT_EQ(error(R"("datatype": "FP32", "shape": [1], "data": [1e39])"),
            "tensor T: a value does not fit datatype FP32");
  EXPECT_EQ(error(R"("datatype": "FP64", "shape": [1], "data": [1e39])"), "");
  EXPECT_EQ(error(R"("datatype": "BF16", "shape": [1], "data": [1])"),
            "tensor T: numbers are not written as datatype \"BF16\"");
  EXPECT_EQ(error(R"("shape": [1], "data": [1])"),
            "tensor T: numbers are not written as datatype \"\"");
  EXPECT_EQ(error(R"("datatype": "INT32", "shape": [1], "data": )" + std::string(100'000, '[')),
            "the request is nested more than 64 deep");
  const std::string one =
      R"({"inputs": [{"name": "T", "datatype": "INT32", "shape": [1], "data": [1]}], )";
  EXPECT_EQ(std::string(RequestFromJson(one + R"("id": 7})").status().message()),
            "the request's id is no text");
  EXPECT_EQ(
      std::string(RequestFromJson(one + R"("parameters": {"priority": 18446744073709551615}})")
                      .status()
                      .message()),
      "parameter priority: neither a word, a number of 64 bits nor a truth");
}

// Left out, it would be answered as another request.
TEST(JsonRequestTest, AMemberThatIsNotKnownIsRefused) {
  const auto error = [](const std::string& of_input, const std::string& of_request) {
    const std::string input =
        R"({"name": "T", "datatype": "INT32", "shape": [1], "data": [1])" + of_input + "}";
    return std::string(
        RequestFromJson("{\"inputs\": [" + input + "]" + of_request + "}").status().message());
  };
  EXPECT_EQ(error("", R"(, "outputs": [{"name": "OUTPUT"}])"), "");
  EXPECT_EQ(error("", R"(, "output": [{"name": "OUTPUT"}])"),
            "the request has a member \"output\", known are id, inputs, outputs, parameters");
  EXPECT_EQ(error(R"(, "parameters": {"binary_data_size": 4})", ""),
            "input T has a member \"parameters\", known are name, shape, datatype, data");
  EXPECT_EQ(error("", R"(, "outputs": [{"name": "OUTPUT", "parameters": {"classification": 3}}])"),
            "output OUTPUT has a member \"parameters\", known are name");
}

TEST(JsonRequestTest, TextsAndParametersKeepTheirKind) {
  const auto request = RequestFromJson(
      R"({"inputs": [{"name": "W", "datatype": "BYTES", "shape": [2], "data": ["a", ""]}],
          "outputs": [{"name": "LABELS"}], "parameters": {"a": true, "b": 3, "c": "x", "d": 0.5}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(*request->inputs[0].AsTexts(), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(request->outputs, std::vector<std::string>{"LABELS"});
  EXPECT_EQ(std::get<bool>(request->parameters.at("a")), true);
  EXPECT_EQ(std::get<int64_t>(request->parameters.at("b")), 3);
  EXPECT_EQ(std::get<std::string>(request->parameters.at("c")), "x");
  EXPECT_EQ(std::get<double>(request->parameters.at("d")), 0.5);
}

}  // namespace
}  // namespace cellbatch

// cellbatch-server --check and --explain, as people run them before they deploy: exit code and what is printed. And the
// page of a served model that says what --explain says.
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Ran {
  int exit_code = -1;
  std::string printed, complained;  // stdout, stderr
};

std::string Contents(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Ran RunServer(const std::string& flags, const std::string& repository) {
  const std::string out = testing::TempDir() + "/out", err = testing::TempDir() + "/err";
  const int status = std::system(("server/cellbatch-server " + flags + " --model-repository " +
                                  repository + " > " + out + " 2> " + err)
                                     .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Contents(out), Contents(err)};
}

Ran Check(const std::string& repository) { return RunServer("--check", repository); }

TEST(CheckTest, GoodModelsAreListedAndBadOnesFailTheCheckWithEveryProblem) {
  const std::string repository = testing::TempDir() + "/checked";
  std::filesystem::remove_all(repository);
  AddModel(repository, {.name = "words", .vocabulary = 10});
  AddModel(repository, {.name = "vectors"});
  Ran checked = Check(repository);
  EXPECT_EQ(checked.exit_code, 0) << checked.complained;
  EXPECT_EQ(checked.complained, "");
  EXPECT_THAT(checked.printed, AllOf(HasSubstr("model \"vectors\" version 1: OK, "),
                                     HasSubstr("model \"words\" version 1: OK, "),
                                     HasSubstr("\n2 models: 2 OK, 0 with 0 problems\n")));

  AddModel(repository, {.name = "torn", .vocabulary = 10});
  std::filesystem::resize_file(repository + "/torn/1/weights.safetensors", 100);
  std::ofstream(repository + "/torn/config.textproto", std::ios::app)
      << "max_sequence_length: -1\n";
  AddModel(repository, {.name = "typing", .vocabulary = 10});
  std::ofstream(repository + "/typing/config.textproto") << "\ncell_typos {}\n";
  checked = Check(repository);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(
      checked.complained,
      AllOf(HasSubstr("model \"torn\": "), HasSubstr("torn/1/weights.safetensors"),
            HasSubstr("max_sequence_length is -1"),
            HasSubstr("model \"typing\": config.textproto:2:"), Not(HasSubstr("\"words\""))));
  EXPECT_THAT(checked.printed, AllOf(HasSubstr("model \"words\" version 1: OK, "),
                                     HasSubstr("\n4 models: 2 OK, 2 with 3 problems\n")));
}

// As the start would, by what --devices says: no device is opened, and none need be there.
TEST(CheckTest, WhereModelsLiveIsCheckedWithoutTheDevices) {
  const std::string repository = testing::TempDir() + "/placed";
  std::filesystem::remove_all(repository);
  const auto add = [&](const std::string& name, const std::string& says) {
    AddModel(repository, {.name = name, .vocabulary = 10});
    std::ofstream(repository + "/" + name + "/config.textproto", std::ios::app) << says << "\n";
  };
  add("cpu", "devices: CPU");
  add("gpu", "devices: GPU");
  add("any", "");
  add("both", "bits: MAY_DIFFER");
  add("w8", "precision: PRECISION_W8");
  const Ran both = RunServer("--check --devices=cpu:0,cuda:7", repository);
  EXPECT_EQ(both.exit_code, 0) << both.complained;
  EXPECT_THAT(both.printed, AllOf(ContainsRegex("model \"cpu\" .*, lives on CPU\n"),
                                  ContainsRegex("model \"gpu\" .*, lives on GPU\n"),
                                  ContainsRegex("model \"any\" .*, lives on GPU\n"),
                                  ContainsRegex("model \"both\" .*, lives on CPU and GPU\n"),
                                  ContainsRegex("model \"w8\" .*, lives on CPU\n")));
  const Ran cpu = Check(repository);
  EXPECT_EQ(cpu.exit_code, 1);
  EXPECT_THAT(cpu.complained,
              AllOf(ContainsRegex("^model \"gpu\": config.textproto:[0-9]+: devices is GPU, this "
                                  "server computes on CPU .--devices.\n$")));
  EXPECT_THAT(cpu.printed, Not(HasSubstr("lives on")));
  const Ran gpu = RunServer("--check --devices=cuda", repository);
  EXPECT_EQ(gpu.exit_code, 1);
  EXPECT_THAT(
      gpu.complained,
      AllOf(
          ContainsRegex("model \"cpu\": .*: devices is CPU, this server computes on GPU "),
          ContainsRegex("model \"w8\": .*: precision is PRECISION_W8, this server computes on GPU "
                        ".--devices., and GPUs compute PRECISION_FP32, PRECISION_TF32 and "
                        "PRECISION_BF16\n")));
  const Ran none = RunServer("--check --devices=tpu:0", repository);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.complained, HasSubstr("devices: \"tpu:0\" is none; write auto, cpu, "));
}

TEST(CheckTest, ARepositoryThatIsNoneFails) {
  const Ran checked = Check(testing::TempDir() + "/nowhere");
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.complained, HasSubstr("nowhere"));
}

TEST(ExplainTest, WhatBecameOfAModelIsPrintedWithTimesMeasuredHere) {
  const std::string repository = testing::TempDir() + "/explained";
  std::filesystem::remove_all(repository);
  AddModel(repository, {.name = "words", .vocabulary = 10});
  AddModel(repository, {.name = "torn"});
  std::filesystem::resize_file(repository + "/torn/1/weights.safetensors", 100);
  const Ran explained = RunServer("--batch-limit=8 --explain words", repository);
  EXPECT_EQ(explained.exit_code, 0) << explained.complained;
  EXPECT_THAT(
      explained.printed,
      AllOf(HasSubstr("model \"words\" version 1: "), HasSubstr("h = o * tanh(c)\n"),
            HasSubstr("kernel of its own: gated cell"), HasSubstr("|before.h|embed/table[]\n"),
            HasSubstr("\n    fused program "), HasSubstr("folded table: "),
            HasSubstr("\n         1 "), HasSubstr("\n         8 "),
            HasSubstr("a task has at most b_max = "), Not(HasSubstr("torn"))));
}

TEST(ExplainTest, AModelThatIsWrongOrNotThereFailsWithEveryProblem) {
  const std::string repository = testing::TempDir() + "/unexplained";
  std::filesystem::remove_all(repository);
  AddModel(repository, {.name = "torn", .vocabulary = 10});
  std::filesystem::resize_file(repository + "/torn/1/weights.safetensors", 100);
  const Ran torn = RunServer("--explain torn", repository);
  EXPECT_EQ(torn.exit_code, 1);
  EXPECT_EQ(torn.printed, "");
  EXPECT_THAT(torn.complained,
              AllOf(HasSubstr("model \"torn\": "), HasSubstr("torn/1/weights.safetensors")));
  const Ran missing = RunServer("--explain nobody", repository);
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.complained, HasSubstr("nobody"));
}

TEST(ExplainTest, TheStatusPageLeadsToThePageOfEachServedModel) {
  const std::string repository = NewRepository();
  AddModel(repository, {.name = "words", .vocabulary = 10});
  for (const char* name : {"more \"words\"?", "\u00fc%2F"}) {
    AddModel(repository, {.name = "plain", .vocabulary = 10});
    const std::string config = repository + "/plain/config.textproto", said = "name: \"plain\"";
    std::string text = Contents(config);
    ASSERT_NE(text.find(said), std::string::npos);
    std::ofstream(config) << text.erase(text.find(said), said.size());  // as the folder is called
    std::filesystem::rename(repository + "/plain", repository + "/" + name);
  }
  const auto server = ServerProcess::Serving(repository);
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(HttpGet(server->http(), "/"), HasSubstr("<a href=\"/explain/words\">"));
  EXPECT_THAT(HttpGet(server->http(), "/explain/words"),
              AllOf(HasSubstr("200 <!doctype html>"), HasSubstr("h = o * tanh(c)\n"),
                    HasSubstr("a task has at most b_max = ")));
  EXPECT_THAT(HttpGet(server->http(), "/explain/nobody"), HasSubstr("404 "));
  for (const char* part : {"more%20%22words%22%3F", "%C3%BC%252F"}) {
    const std::string path = std::string("/explain/") + part;
    EXPECT_THAT(HttpGet(server->http(), "/"), HasSubstr("<a href=\"" + path + "\">"));
    EXPECT_THAT(HttpGet(server->http(), path), HasSubstr("200 <!doctype html>"));
  }
}

}  // namespace
}  // namespace cellbatch

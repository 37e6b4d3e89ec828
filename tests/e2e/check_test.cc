// cellbatch-server --check, as people run it before they deploy: its exit code and what it prints.
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Checked {
  int exit_code = -1;
  std::string printed, complained;  // stdout, stderr
};

std::string Contents(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Checked Check(const std::string& repository) {
  const std::string out = testing::TempDir() + "/out", err = testing::TempDir() + "/err";
  const int status = std::system(("server/cellbatch-server --check --model-repository " +
                                  repository + " > " + out + " 2> " + err)
                                     .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Contents(out), Contents(err)};
}

TEST(CheckTest, GoodModelsAreListedAndBadOnesFailTheCheckWithEveryProblem) {
  const std::string repository = testing::TempDir() + "/checked";
  std::filesystem::remove_all(repository);
  AddModel(repository, {.name = "words", .vocabulary = 10});
  AddModel(repository, {.name = "vectors"});
  Checked checked = Check(repository);
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

TEST(CheckTest, ARepositoryThatIsNoneFails) {
  const Checked checked = Check(testing::TempDir() + "/nowhere");
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.complained, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace cellbatch

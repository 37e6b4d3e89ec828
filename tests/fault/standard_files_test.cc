// A server that is started without stdin, stdout or stderr: nothing that it opens later gets their numbers, so that no line of
// its log is written into a record or to a client.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fault/served_models.h"

extern char** environ;

namespace cellbatch {
namespace {

std::string Text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string FileBehind(pid_t pid, int number) {
  char path[4096];
  const std::string link = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

// Starts the server with `closed` closed, and what is left of stdout and stderr in the file `said`.
pid_t StartWithout(const std::vector<int>& closed, const std::string& repository,
                   const std::string& said, const std::string& record) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, file, said.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0600);
  }
  for (const int file : closed) posix_spawn_file_actions_addclose(&actions, file);
  std::vector<std::string> flags = {"server/cellbatch-server",
                                    "--model-repository=" + repository,
                                    "--grpc-address=127.0.0.1:0",
                                    "--http-address=127.0.0.1:0",
                                    "--metrics-address=127.0.0.1:0",
                                    "--drain-delay=0",
                                    "--devices=cpu:0",
                                    "--record=" + record};
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, flags[0].c_str(), &actions, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// The address of gRPC, as the log or stdout says it.
std::string WaitForAddress(const std::string& said) {
  while (true) {
    const std::string text = Text(said);
    const size_t begin = text.find("{\"ready\"");
    const size_t end = begin == text.npos ? begin : text.find('\n', begin);
    if (end != text.npos) {
      return nlohmann::json::parse(text.substr(begin, end - begin)).value("grpc", "");
    }
    std::this_thread::yield();
  }
}

TEST(StandardFilesTest, WhatIsClosedStaysNobodysAndTheRecordIsWhole) {
  const std::string repository = NewRepository();
  AddModel(repository, kWords);
  for (const auto& closed : std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 1}, {0, 2}}) {
    SCOPED_TRACE(testing::PrintToString(closed));
    const std::string name = repository + "-" + std::to_string(closed.size()) +
                             (closed.empty() ? "" : std::to_string(closed.back()));
    const std::string said = name + ".log", record = name + ".record";
    const pid_t pid = StartWithout(closed, repository, said, record);
    ASSERT_GT(pid, 0);
    GrpcCaller caller(WaitForAddress(said));
    ExpectGood(caller);
    inference::ModelInferResponse answer;
    EXPECT_FALSE(caller.Infer(Words({101}), answer).ok()) << "a line of the log";
    for (const int file : closed) EXPECT_EQ(FileBehind(pid, file), "/dev/null") << file;
    kill(pid, SIGTERM);
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << Text(said);
    const std::string recorded = Text(record);
    EXPECT_NE(recorded.find("words"), std::string::npos);
    for (const char* line : {" info ", " warning ", "\"ready\""}) {
      EXPECT_EQ(recorded.find(line), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace cellbatch

#include "tests/e2e/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "nlohmann/json.hpp"
#include "tests/e2e/tcp_connection.h"

extern char** environ;

namespace cellbatch {

namespace {

constexpr const char* kServer = "server/cellbatch-server";

std::string NewLogFile() {
  const char* folder = std::getenv("TEST_TMPDIR");
  std::string name = std::string(folder == nullptr ? "/tmp" : folder) + "/server-log-XXXXXX";
  const int file = mkstemp(name.data());
  if (file >= 0) close(file);
  return name;
}

}  // namespace

void GoToRunfiles() {
  namespace fs = std::filesystem;
  const fs::path runfiles = fs::canonical("/proc/self/exe").string() + ".runfiles/cellbatch";
  if (fs::exists(runfiles)) fs::current_path(runfiles);
}

ServerProcess::ServerProcess(std::vector<std::string> flags, std::vector<std::string> environment)
    : log_file_(NewLogFile()) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_file_.c_str(), O_WRONLY | O_APPEND,
                                   0600);
  flags.insert(flags.begin(), kServer);
  std::vector<char*> arguments, variables;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  if (posix_spawn(&pid_, kServer, &actions, nullptr, arguments.data(), variables.data()) != 0) {
    pid_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  out_ = pipe_ends[0];
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
}

std::unique_ptr<ServerProcess> ServerProcess::Serving(const std::string& repository,
                                                      std::vector<std::string> flags) {
  const std::vector<std::string> usual = {
      "--model-repository=" + repository, "--grpc-address=127.0.0.1:0",
      "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--drain-delay=0"};
  flags.insert(flags.begin(), usual.begin(), usual.end());
  auto server = std::make_unique<ServerProcess>(std::move(flags));
  return server->WaitUntilReady() ? std::move(server) : nullptr;
}

bool ServerProcess::WaitUntilReady() {
  std::string line;
  for (char c = 0; read(out_, &c, 1) == 1 && c != '\n';) line += c;
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.value("ready", false)) return false;
  grpc_ = json.value("grpc", "");
  http_ = json.value("http", "");
  metrics_ = json.value("metrics", "");
  return true;
}

void ServerProcess::Signal(int number) const { kill(pid_, number); }

void ServerProcess::LimitFiles(uint64_t most) const {
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr);
}

size_t ServerProcess::OpenFiles() const {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid_) + "/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

int ServerProcess::Wait() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

namespace {

// A line of /proc/PID/status that is in kB.
int64_t OfStatus(pid_t pid, std::string_view name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace

int64_t PeakResidentBytes(pid_t pid) { return OfStatus(pid, "VmHWM:"); }
int64_t ServerProcess::ResidentBytes() const { return OfStatus(pid_, "VmRSS:"); }

std::string ServerProcess::Log() const {
  std::ifstream file(log_file_);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string HttpGet(const std::string& address, const std::string& path) {
  TcpConnection connection(address);
  if (!connection.connected()) return "";
  connection.Send("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = connection.ReceiveUntil("");
  const size_t body = answer.find("\r\n\r\n");
  if (body == answer.npos || answer.size() < 12) return "";
  return answer.substr(9, 3) + " " + answer.substr(body + 4);
}

std::string ModelReadyAnswer(const std::string& name, bool ready) {
  return (ready ? "200" : "503") + (R"( {"name":")" + name) +
         (ready ? R"(","ready":true})" : R"(","ready":false})");
}

double Metric(const ServerProcess& server, const std::string& sample) {
  const std::string page = HttpGet(server.metrics(), "/metrics");
  const size_t at = page.find("\n" + sample + " ");
  return at == page.npos ? -1 : std::stod(page.substr(at + sample.size() + 2));
}

}  // namespace cellbatch

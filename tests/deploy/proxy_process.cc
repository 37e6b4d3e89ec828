#include "tests/deploy/proxy_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

extern char** environ;

namespace cellbatch {

namespace {

constexpr const char* kConfig = "deploy/proxy/haproxy.cfg";
constexpr const char* kProxy = "/usr/sbin/haproxy";  // of Debian's package haproxy
constexpr int kBacklog = 4096;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Replace(std::string& text, const std::string& what, const std::string& with) {
  size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << kConfig << " does not say: " << what;
  for (; at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

std::string WriteFile(const std::string& text) {
  std::string name = ::testing::TempDir() + "/haproxy-XXXXXX";
  const int file = mkstemp(name.data());
  EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(file);
  return name;
}

}  // namespace

ProxyProcess::ProxyProcess(const ServerProcess& server) {
  std::string config = ReadFile(kConfig);
  Replace(config, "127.0.0.1:9001", server.grpc());
  Replace(config, "127.0.0.1:9000", server.http());
  Replace(config, "127.0.0.1:9002", server.metrics());
  Listen(config);
  const std::string file = WriteFile(config);
  std::string arguments[] = {kProxy, "-db", "-q", "-f", file};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, kProxy, nullptr, nullptr, argv.data(), environ), 0)
      << kProxy << " is missing: deploy/install_packages installs it";
}

ProxyProcess::~ProxyProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int socket : sockets_) close(socket);
}

void ProxyProcess::Listen(std::string& config) {
  for (const int port : {8000, 8001, 8002, 8003}) {
    // Inherited by the proxy: whoever connects before it is there waits for it.
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    sockets_.push_back(listening);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listening, kBacklog), 0);
    EXPECT_EQ(getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size), 0);
    addresses_[port] = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    Replace(config, "bind :" + std::to_string(port), "bind fd@" + std::to_string(listening));
  }
}

void ProxyProcess::Signal(int number) const { kill(pid_, number); }

int ProxyProcess::Wait() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace cellbatch

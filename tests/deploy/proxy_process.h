// Debian's HAProxy as a child process with the configuration that we ship, in which nothing but addresses is replaced: the
// server's by those of a server under test, its own by listening sockets of the test's on free ports. One thread.
#ifndef CELLBATCH_TESTS_DEPLOY_PROXY_PROCESS_H_
#define CELLBATCH_TESTS_DEPLOY_PROXY_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"

namespace cellbatch {

class ProxyProcess {
 public:
  // EXPECTs HAProxy to be installed.
  explicit ProxyProcess(const ServerProcess& server);
  ~ProxyProcess();  // kills it, if it still runs
  ProxyProcess(const ProxyProcess&) = delete;
  ProxyProcess& operator=(const ProxyProcess&) = delete;

  void Signal(int number) const;
  int Wait();  // its exit code; -1: killed by a signal
  int64_t PeakResidentBytes() const { return cellbatch::PeakResidentBytes(pid_); }

  // Where it listens, as the configuration names it: 8001 is gRPC's.
  const std::string& at(int port) const { return addresses_.at(port); }
  const std::string& grpc() const { return at(8001); }
  const std::string& http() const { return at(8000); }

 private:
  // A listening socket on a free port in place of each "bind :PORT".
  void Listen(std::string& config);

  pid_t pid_ = -1;
  std::vector<int> sockets_;
  std::map<int, std::string> addresses_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_DEPLOY_PROXY_PROCESS_H_

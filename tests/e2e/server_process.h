// The real server as a child process, on free ports of the loopback interface: what end-to-end and
// fault tests drive. Paths are those of Bazel's runfiles. One test thread.
#ifndef CELLBATCH_TESTS_E2E_SERVER_PROCESS_H_
#define CELLBATCH_TESTS_E2E_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cellbatch {

// For programs that no test runner starts: the server lies among their runfiles, and is looked for there from now on.
void GoToRunfiles();
// The most memory that a process has had at any time; while it runs.
int64_t PeakResidentBytes(pid_t pid);

class ServerProcess {
 public:
  // Starts the server; Ready waits for its line of JSON. `environment`: "NAME=VALUE" lines to add.
  explicit ServerProcess(std::vector<std::string> flags, std::vector<std::string> environment = {});
  ~ServerProcess();  // kills it, if it still runs
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // A server of `repository` with any free ports and no drain delay, ready.
  static std::unique_ptr<ServerProcess> Serving(const std::string& repository,
                                                std::vector<std::string> flags = {});

  bool WaitUntilReady();  // false: it ended before
  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  void LimitFiles(uint64_t most) const;  // that it may have open, from now on
  size_t OpenFiles() const;
  int Wait();               // its exit code; -1: killed by a signal
  std::string Log() const;  // what it wrote to stderr so far
  // The most memory that it has had at any time; while it runs.
  int64_t PeakResidentBytes() const { return cellbatch::PeakResidentBytes(pid_); }
  int64_t ResidentBytes() const;  // now

  const std::string& grpc() const { return grpc_; }
  const std::string& http() const { return http_; }
  const std::string& metrics() const { return metrics_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string log_file_;
  std::string grpc_, http_, metrics_;
};

// The body of a GET, its status first: "404 nothing". Empty: nobody is there.
std::string HttpGet(const std::string& address, const std::string& path);
// What it is of /v2/health/.., and of /v2/models/NAME/ready.
inline constexpr const char* kLiveAnswer = R"(200 {"live":true})";
inline constexpr const char* kReadyAnswer = R"(200 {"ready":true})";
inline constexpr const char* kNotReadyAnswer = R"(503 {"ready":false})";
std::string ModelReadyAnswer(const std::string& name, bool ready);
// A sample of Prometheus' text by its whole name with labels, as on the page; -1: not there.
double Metric(const ServerProcess& server, const std::string& sample);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_SERVER_PROCESS_H_

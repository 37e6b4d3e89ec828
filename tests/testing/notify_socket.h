// A service manager of systemd's kind, as far as a server sees it: a socket, and what came there. One test thread.
#ifndef CELLBATCH_TESTS_TESTING_NOTIFY_SOCKET_H_
#define CELLBATCH_TESTS_TESTING_NOTIFY_SOCKET_H_

#include <chrono>
#include <string>

namespace cellbatch::testing {

class NotifySocket {
 public:
  // `name` as NOTIFY_SOCKET has it: a path, or '@' and a name that is no file's. Empty: one of these that nobody else has.
  explicit NotifySocket(std::string name = "");
  ~NotifySocket();
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  const std::string& name() const { return name_; }
  // The next message; empty: none came within `patience`.
  std::string Heard(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const;

 private:
  const std::string name_;
  int socket_ = -1;
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_NOTIFY_SOCKET_H_

// A TCP connection to a server under test, for clients that no library would be. One thread.
#ifndef CELLBATCH_TESTS_E2E_TCP_CONNECTION_H_
#define CELLBATCH_TESTS_E2E_TCP_CONNECTION_H_

#include <string>

namespace cellbatch {

class TcpConnection {
 public:
  // To "127.0.0.1:8001", or "[::1]:8001", from an address of this machine ("127.0.0.9") or from any. Nobody there: not connected.
  explicit TcpConnection(const std::string& address, const std::string& from = "");
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  bool connected() const { return socket_ >= 0; }
  // All of it is the system's; false: the peer has hung up.
  bool Send(const std::string& bytes) const;
  // What comes next, some bytes at most of this size. Empty: the peer has hung up (closed() then), or a minute
  // passed in silence.
  std::string Receive(size_t most = 1 << 16);
  // Everything until `enough` is in it, or the peer hung up, or a minute passed in silence.
  std::string ReceiveUntil(const std::string& enough);
  // Reads on until the peer hangs up; false: it did not, in a minute of silence.
  bool ReceiveUntilClosed();
  bool closed() const { return closed_; }

 private:
  int socket_ = -1;
  bool closed_ = false;
};

// For a test of thousands of connections: as many files as its hard limit allows. False: not even that.
bool RaiseOwnFileLimit();

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_TCP_CONNECTION_H_

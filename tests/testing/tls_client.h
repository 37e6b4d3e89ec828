// A client of TLS by hand, which waits: for what a library would not do. One thread.
#ifndef CELLBATCH_TESTS_TESTING_TLS_CLIENT_H_
#define CELLBATCH_TESTS_TESTING_TLS_CLIENT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "openssl/ssl.h"
#include "tests/testing/certificates.h"

namespace cellbatch {

struct TlsClientOptions {
  std::string root;             // PEM; whose certificates are believed
  IssuedCertificate own = {};   // shown, if there is one
  std::string protocol = "h2";  // offered; empty: none
  int newest = TLS1_3_VERSION;  // spoken
  int receive_buffer = 0;       // of the kernel; 0: as it is
  int silence_seconds = 0;      // after which the server counts as gone; 0: it is waited for
};

class TlsClient {
 public:
  // Connects, and shakes hands unless told otherwise.
  TlsClient(const std::string& address, const TlsClientOptions& options, bool shake_hands = true);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return socket_ >= 0; }
  bool shaken() const { return shaken_; }
  // Of whom the server's certificate is: its common name.
  std::string ServerName() const;

  bool Send(const std::string& bytes);
  // So many, or fewer if it ends before.
  std::string Receive(size_t bytes);
  std::string ReceiveAll();
  // Whether the server has said that no more will come, rather than just gone.
  bool ended_well() const { return ended_well_; }
  void EndSending();
  // Says that it uses other keys from now on, and wants as much of the server.
  bool ChangeKeys();
  // Bytes of TCP, beside all TLS.
  bool SendRaw(const std::string& bytes) const;

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> session_{nullptr, SSL_free};
  int socket_ = -1;
  bool shaken_ = false, ended_well_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_TLS_CLIENT_H_

// One connection's side of TLS, over a socket that never waits: a step at a time, and what the peer's certificate names.
// One thread at a time; the socket is its maker's.
#ifndef CELLBATCH_SERVER_TLS_TLS_SESSION_H_
#define CELLBATCH_SERVER_TLS_TLS_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "openssl/ssl.h"

namespace cellbatch {

enum class TlsStep : uint8_t {
  kDone,   // the step was made
  kWaits,  // for bytes of the peer, or for room for ours
  kEnded,  // the peer has said all that it will
  kBroken  // nothing more goes either way
};

class TlsSession {
 public:
  // `protocols`: those that may be chosen, each with its length before it, the best first; outlives it.
  TlsSession(const std::shared_ptr<SSL_CTX>& context, int socket, const std::string& protocols);

  TlsStep Accept();
  // kDone: `got` bytes; none, where what came was the protocol's own (new keys): there may be more, at once. So a peer that
  // sends nothing else keeps nobody here.
  TlsStep Read(char* to, size_t room, size_t& got);
  // kDone: `taken` of them, more than none. After kWaits the same bytes come again, wherever they lie.
  TlsStep Write(const char* from, size_t size, size_t& taken);
  // Says that nothing more will come.
  TlsStep End();

  // After Accept: what names the peer, if it brought a certificate.
  std::string PeerName() const;
  // After kBroken of Accept.
  const std::string& why() const { return why_; }

 private:
  TlsStep StepOf(int result);
  bool MoreIsThere() const;

  const std::unique_ptr<SSL, decltype(&SSL_free)> session_;  // null: there was no memory
  std::string why_;
};

// What a certificate names: the first URI of its alternative names, else the first host, else its common name; at most
// 256 bytes, what does not print left out.
std::string NameOf(const X509* certificate);

// Of a session's `protocols` the first that the peer offers; a peer that offers none of them is told so. For contexts.
int ChooseProtocol(SSL* session, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned offered_size, void* ignored);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_TLS_SESSION_H_

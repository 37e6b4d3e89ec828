// The certificate that is shown, its key, and whose certificates are asked for: three files of PEM, which may be
// replaced while the server runs.
//
//   files --Look: did a byte change?--> all three parse and fit together --> in force, for handshakes from now on
//                                   \-> else: what was in force stays, and the log says why, once for each change
//
// So it does not matter in which order the files are replaced, nor whether one is seen half written. TLS 1.2 at least;
// no renegotiation, no compression. Tickets of sessions are made by keys of the certificate in force and go with it.
#ifndef CELLBATCH_SERVER_TLS_TLS_CERTIFICATES_H_
#define CELLBATCH_SERVER_TLS_TLS_CERTIFICATES_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "openssl/ssl.h"
#include "server/tls/tls_counts.h"

namespace cellbatch {

struct TlsFiles {
  std::string certificate;  // the server's own, then those that lead to its root
  std::string key;          // of that, without a passphrase
  std::string client_ca;    // roots of clients' certificates; empty: none is asked for
};

class TlsCertificates {
 public:
  // INVALID_ARGUMENT: which file cannot be used, and why. `counts` outlives it.
  static absl::StatusOr<std::unique_ptr<TlsCertificates>> Open(const TlsFiles& files,
                                                               TlsCounts& counts);

  // Takes what changed, if it can be used. Reads the files. One thread at a time.
  void Look();
  // What handshakes are made by. Any thread.
  std::shared_ptr<SSL_CTX> current() const;

 private:
  struct Texts {
    std::string certificate, key, client_ca;
    bool operator==(const Texts&) const = default;
  };
  TlsCertificates(TlsFiles files, TlsCounts& counts) : files_(std::move(files)), counts_(counts) {}
  absl::StatusOr<Texts> Read() const;
  absl::Status Take(const Texts& texts);

  const TlsFiles files_;
  TlsCounts& counts_;
  Texts seen_;        // at the last look, used or not
  std::string told_;  // why not, as it was last said
  mutable std::mutex mutex_;
  std::shared_ptr<SSL_CTX> current_;  // under it
};

// What OpenSSL says of the last thing that it would not do, on this thread; forgets it.
std::string TlsError();

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_TLS_CERTIFICATES_H_

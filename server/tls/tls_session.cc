#include "server/tls/tls_session.h"

#include <sys/socket.h>

#include <cerrno>

#include "openssl/err.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"
#include "server/tls/tls_certificates.h"

namespace cellbatch {

namespace {

constexpr size_t kMostName = 256;

std::string Printable(const unsigned char* bytes, int size) {
  std::string text;
  for (int i = 0; i < size && text.size() < kMostName; ++i) {
    if (bytes[i] > ' ' && bytes[i] < 0x7f) text += static_cast<char>(bytes[i]);
  }
  return text;
}

std::string Printable(const ASN1_STRING* text) {
  return Printable(ASN1_STRING_get0_data(text), ASN1_STRING_length(text));
}

std::string AlternativeName(const X509* certificate, int kind) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  if (names == nullptr) return "";
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == kind) return Printable(name->d.ia5);
  }
  return "";
}

std::string CommonName(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  return Printable(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

}  // namespace

std::string NameOf(const X509* certificate) {
  for (const int kind : {GEN_URI, GEN_DNS}) {
    if (std::string name = AlternativeName(certificate, kind); !name.empty()) return name;
  }
  return CommonName(certificate);
}

int ChooseProtocol(SSL* session, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned offered_size, void*) {
  const auto* const known = static_cast<const std::string*>(SSL_get_app_data(session));
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, reinterpret_cast<const unsigned char*>(known->data()),
                            static_cast<unsigned>(known->size()), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

TlsSession::TlsSession(const std::shared_ptr<SSL_CTX>& context, int socket,
                       const std::string& protocols)
    : session_(SSL_new(context.get()), SSL_free) {
  if (session_ == nullptr) return;
  SSL_set_app_data(session_.get(), const_cast<std::string*>(&protocols));
  SSL_set_fd(session_.get(), socket);
  SSL_set_accept_state(session_.get());
  SSL_clear_mode(session_.get(), SSL_MODE_AUTO_RETRY);  // see Read
}

// What OpenSSL said of this thread's last call.
TlsStep TlsSession::StepOf(int result) {
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_NONE:
      return TlsStep::kDone;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return TlsStep::kWaits;
    case SSL_ERROR_ZERO_RETURN:
      return TlsStep::kEnded;
    default:
      return TlsStep::kBroken;
  }
}

TlsStep TlsSession::Accept() {
  if (session_ == nullptr) return TlsStep::kBroken;
  ERR_clear_error();
  const TlsStep step = StepOf(SSL_accept(session_.get()));
  if (step == TlsStep::kDone || step == TlsStep::kWaits) return step;
  const long verified = SSL_get_verify_result(session_.get());  // NOLINT: OpenSSL's type
  why_ = ERR_peek_last_error() == 0 ? std::string("the peer left") : TlsError();
  if (verified != X509_V_OK)
    why_ += std::string(" (") + X509_verify_cert_error_string(verified) + ")";
  return TlsStep::kBroken;
}

TlsStep TlsSession::Read(char* to, size_t room, size_t& got) {
  ERR_clear_error();
  const int result = SSL_read_ex(session_.get(), to, room, &got);
  if (SSL_get_error(session_.get(), result) != SSL_ERROR_WANT_READ) return StepOf(result);
  got = 0;
  return MoreIsThere() ? TlsStep::kDone : TlsStep::kWaits;
}

// Or the end, or an error: whoever is woken by edges alone would not hear of it again.
bool TlsSession::MoreIsThere() const {
  char byte = 0;
  return recv(SSL_get_fd(session_.get()), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
         (errno != EAGAIN && errno != EWOULDBLOCK);
}

TlsStep TlsSession::Write(const char* from, size_t size, size_t& taken) {
  ERR_clear_error();
  const TlsStep step = StepOf(SSL_write_ex(session_.get(), from, size, &taken));
  return step == TlsStep::kEnded ? TlsStep::kBroken : step;
}

TlsStep TlsSession::End() {
  ERR_clear_error();
  const int result = SSL_shutdown(session_.get());
  if (result >= 0) return TlsStep::kDone;  // said; whether the peer says so too is not waited for
  return StepOf(result) == TlsStep::kWaits ? TlsStep::kWaits : TlsStep::kBroken;
}

std::string TlsSession::PeerName() const {
  const X509* const certificate = SSL_get0_peer_certificate(session_.get());
  return certificate == nullptr ? "" : NameOf(certificate);
}

}  // namespace cellbatch

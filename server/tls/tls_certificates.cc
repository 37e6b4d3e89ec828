#include "server/tls/tls_certificates.h"

#include <time.h>

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "server/repository/text_file.h"
#include "server/tls/tls_session.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

constexpr int64_t kMostBytes = 1 << 20;  // of a file
constexpr const char* kSessionsOf = "cellbatch";

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Unusable(const char* flag, const std::string& file, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("--{} {}: {}", flag, file, why));
}

absl::StatusOr<std::string> ReadFile(const char* flag, const std::string& path) {
  auto text = ReadTextFile(path, kMostBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      fmt::format("--{} {}", flag, std::string(text.status().message())));
}

Bio Memory(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}
// A key that wants a passphrase has none.
int NoPassphrase(char*, int, int, void*) { return 0; }

Certificate NextCertificate(BIO* bio) {
  return {PEM_read_bio_X509(bio, nullptr, NoPassphrase, nullptr), X509_free};
}

// What made NextCertificate find no other behind `found` of them: the file's end, or one that cannot be read. A file that is
// seen half written would else be taken for its first ones, and clients of the other roots be refused.
absl::Status EndOf(const char* flag, const std::string& file, int found) {
  const unsigned long error = ERR_peek_last_error();  // NOLINT: OpenSSL's type
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return Unusable(flag, file,
                    fmt::format("certificate {} cannot be read: {}", found + 1, TlsError()));
  }
  ERR_clear_error();
  return absl::OkStatus();
}

// 0: it says no time that can be read.
int64_t UnixSeconds(const ASN1_TIME* time) {
  tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

absl::Status UseCertificate(SSL_CTX* context, const std::string& text, const std::string& file) {
  const Bio bio = Memory(text);
  const Certificate own = NextCertificate(bio.get());
  if (own == nullptr) return Unusable("tls-certificate", file, "no certificate: " + TlsError());
  if (SSL_CTX_use_certificate(context, own.get()) != 1) {
    return Unusable("tls-certificate", file, TlsError());
  }
  int found = 1;
  while (Certificate next = NextCertificate(bio.get())) {
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) {
      return Unusable("tls-certificate", file, TlsError());
    }
    next.release();
    ++found;
  }
  return EndOf("tls-certificate", file, found);
}

absl::Status UseKey(SSL_CTX* context, const std::string& text, const TlsFiles& files) {
  const Key key(PEM_read_bio_PrivateKey(Memory(text).get(), nullptr, NoPassphrase, nullptr),
                EVP_PKEY_free);
  if (key == nullptr) {
    return Unusable("tls-key", files.key, "no key, or one with a passphrase: " + TlsError());
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    return Unusable("tls-key", files.key,
                    fmt::format("is not the key of --tls-certificate {}", files.certificate));
  }
  return absl::OkStatus();
}

absl::Status UseClientCa(SSL_CTX* context, const std::string& text, const std::string& file) {
  const Bio bio = Memory(text);
  int found = 0;
  while (const Certificate root = NextCertificate(bio.get())) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get()) != 1 ||
        SSL_CTX_add_client_CA(context, root.get()) != 1) {
      return Unusable("tls-client-ca", file, TlsError());
    }
    ++found;
  }
  if (found == 0) return Unusable("tls-client-ca", file, "no certificate: " + TlsError());
  if (absl::Status status = EndOf("tls-client-ca", file, found); !status.ok()) return status;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

std::shared_ptr<SSL_CTX> NewContext() {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // Forward secret, authenticated ciphers only, of TLS 1.2 too.
  SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE |
                                         SSL_OP_PRIORITIZE_CHACHA | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Sessions live in tickets, which clients keep: nothing of them stays here.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_session_id_context(
      context.get(), reinterpret_cast<const uint8_t*>(kSessionsOf),
      static_cast<unsigned>(std::char_traits<char>::length(kSessionsOf)));
  // An idle connection keeps no buffers, and what was half written may lie elsewhere when it goes on.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  return context;
}

}  // namespace

std::string TlsError() {
  const unsigned long error = ERR_peek_last_error();  // NOLINT: OpenSSL's type
  const char* const reason = ERR_reason_error_string(error);
  ERR_clear_error();
  return reason == nullptr ? "nothing more is known" : reason;
}

absl::StatusOr<std::unique_ptr<TlsCertificates>> TlsCertificates::Open(const TlsFiles& files,
                                                                       TlsCounts& counts) {
  std::unique_ptr<TlsCertificates> opened(new TlsCertificates(files, counts));
  const auto texts = opened->Read();
  if (!texts.ok()) return texts.status();
  absl::Status status = opened->Take(*texts);
  if (!status.ok()) return status;
  return opened;
}

absl::StatusOr<TlsCertificates::Texts> TlsCertificates::Read() const {
  auto certificate = ReadFile("tls-certificate", files_.certificate);
  if (!certificate.ok()) return certificate.status();
  auto key = ReadFile("tls-key", files_.key);
  if (!key.ok()) return key.status();
  Texts texts{*std::move(certificate), *std::move(key), ""};
  if (files_.client_ca.empty()) return texts;
  auto client_ca = ReadFile("tls-client-ca", files_.client_ca);
  if (!client_ca.ok()) return client_ca.status();
  texts.client_ca = *std::move(client_ca);
  return texts;
}

absl::Status TlsCertificates::Take(const Texts& texts) {
  seen_ = texts;
  std::shared_ptr<SSL_CTX> context = NewContext();
  if (context == nullptr) return absl::InternalError("OpenSSL cannot begin: " + TlsError());
  absl::Status status = UseCertificate(context.get(), texts.certificate, files_.certificate);
  if (status.ok()) status = UseKey(context.get(), texts.key, files_);
  if (status.ok() && !files_.client_ca.empty()) {
    status = UseClientCa(context.get(), texts.client_ca, files_.client_ca);
  }
  if (!status.ok()) return status;
  const X509* const own = SSL_CTX_get0_certificate(context.get());
  const int64_t not_after = UnixSeconds(X509_get0_notAfter(own));
  counts_.not_after.store(not_after);
  if (not_after < time(nullptr)) {
    spdlog::warn("--tls-certificate {}: {} has expired", files_.certificate, NameOf(own));
  }
  const std::lock_guard lock(mutex_);
  current_ = std::move(context);
  return absl::OkStatus();
}

void TlsCertificates::Look() {
  const auto texts = Read();
  if (texts.ok() && *texts == seen_) return told_.clear();  // if they are gone again, that is news
  const absl::Status status = texts.ok() ? Take(*texts) : texts.status();
  if (status.ok()) {
    told_.clear();
    ++counts_.certificates_taken;
    spdlog::info("--tls-certificate {}: {} is in force", files_.certificate,
                 NameOf(SSL_CTX_get0_certificate(current().get())));
    return;
  }
  const std::string why(status.message());
  if (texts.ok() || why != told_) {
    ++counts_.certificates_refused;
    spdlog::error("{}; the certificate that was in force stays", why);
  }
  told_ = why;
}

std::shared_ptr<SSL_CTX> TlsCertificates::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

}  // namespace cellbatch

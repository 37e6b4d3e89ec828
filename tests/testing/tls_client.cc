#include "tests/testing/tls_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

#include "openssl/pem.h"
#include "openssl/x509.h"

namespace cellbatch {

namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Bio Memory(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

int ConnectTo(const std::string& address, int receive_buffer) {
  const size_t colon = address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0) {
    setsockopt(made, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  if (connect(made, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return made;
  close(made);
  return -1;
}

}  // namespace

TlsClient::TlsClient(const std::string& address, const TlsClientOptions& options, bool shake_hands)
    : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
      socket_(ConnectTo(address, options.receive_buffer)) {
  if (socket_ < 0 || !shake_hands) return;
  const timeval silence = {.tv_sec = options.silence_seconds, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
  SSL_CTX_set_max_proto_version(context_.get(), options.newest);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  const Certificate root(PEM_read_bio_X509(Memory(options.root).get(), nullptr, nullptr, nullptr),
                         X509_free);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), root.get());
  if (!options.own.key.empty()) {
    const Certificate own(
        PEM_read_bio_X509(Memory(options.own.certificate).get(), nullptr, nullptr, nullptr),
        X509_free);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        PEM_read_bio_PrivateKey(Memory(options.own.key).get(), nullptr, nullptr, nullptr),
        EVP_PKEY_free);
    SSL_CTX_use_certificate(context_.get(), own.get());
    SSL_CTX_use_PrivateKey(context_.get(), key.get());
  }
  session_.reset(SSL_new(context_.get()));
  if (!options.protocol.empty()) {
    const std::string offered =
        static_cast<char>(options.protocol.size()) + std::string(options.protocol);
    SSL_set_alpn_protos(session_.get(), reinterpret_cast<const unsigned char*>(offered.data()),
                        static_cast<unsigned>(offered.size()));
  }
  SSL_set_fd(session_.get(), socket_);
  shaken_ = SSL_connect(session_.get()) == 1;
}

TlsClient::~TlsClient() {
  if (socket_ >= 0) close(socket_);
}

std::string TlsClient::ServerName() const {
  const X509* const shown = SSL_get0_peer_certificate(session_.get());
  if (shown == nullptr) return "";
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName, name, sizeof(name));
  return name;
}

bool TlsClient::Send(const std::string& bytes) {
  size_t sent = 0;
  return SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &sent) == 1;
}

std::string TlsClient::Receive(size_t bytes) {
  constexpr size_t kPiece = 1 << 16;
  std::string received;
  std::string piece(kPiece, '\0');
  while (received.size() < bytes) {
    size_t got = 0;
    const int result =
        SSL_read_ex(session_.get(), piece.data(), std::min(kPiece, bytes - received.size()), &got);
    if (result != 1) {
      ended_well_ = SSL_get_error(session_.get(), result) == SSL_ERROR_ZERO_RETURN;
      break;
    }
    received.append(piece, 0, got);
  }
  return received;
}

std::string TlsClient::ReceiveAll() { return Receive(std::string::npos); }

void TlsClient::EndSending() {
  SSL_shutdown(session_.get());
  shutdown(socket_, SHUT_WR);
}

bool TlsClient::ChangeKeys() {
  return SSL_key_update(session_.get(), SSL_KEY_UPDATE_REQUESTED) == 1 &&
         SSL_do_handshake(session_.get()) == 1;
}

bool TlsClient::SendRaw(const std::string& bytes) const {
  return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace cellbatch

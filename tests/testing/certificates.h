// Certificates made for a test, as PEM: a root, and what it issues. Keys are on P-256. One thread.
#ifndef CELLBATCH_TESTS_TESTING_CERTIFICATES_H_
#define CELLBATCH_TESTS_TESTING_CERTIFICATES_H_

#include <chrono>
#include <memory>
#include <string>

#include "openssl/evp.h"
#include "openssl/x509.h"

namespace cellbatch {

struct IssuedCertificate {
  std::string certificate, key;
};

struct CertificateWish {
  std::string common_name = "localhost";
  std::string names =
      "DNS:localhost,IP:127.0.0.1";        // as OpenSSL spells alternative names; empty: none
  std::chrono::hours from{-1}, until{24};  // of now
};

class CertificateRoot {
 public:
  explicit CertificateRoot(const std::string& common_name);
  const std::string& certificate() const { return pem_; }
  IssuedCertificate Issue(const CertificateWish& wish) const;

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> root_;
  std::string pem_;
};

// Writes a file whole: what reads it sees what was there before, or this.
void ReplaceFile(const std::string& path, const std::string& text);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_CERTIFICATES_H_

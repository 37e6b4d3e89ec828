#include "tests/testing/certificates.h"

#include <cstdio>
#include <fstream>
#include <random>

#include "cells/check.h"
#include "openssl/ec.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"

namespace cellbatch {

namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

std::string TextOf(BIO* bio) {
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

std::string PemOf(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(bio.get(), certificate);
  return TextOf(bio.get());
}

std::string PemOf(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(bio.get());
}

void Extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  Check(extension != nullptr, "no such extension of a certificate");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Not yet signed.
X509* NewCertificate(const CertificateWish& wish, EVP_PKEY* key) {
  X509* const made = X509_new();
  X509_set_version(made, X509_VERSION_3);
  std::random_device chance;
  ASN1_INTEGER_set(X509_get_serialNumber(made), static_cast<int32_t>(chance() >> 1));
  const auto seconds = [](std::chrono::hours hours) {
    return static_cast<long>(std::chrono::seconds(hours).count());  // NOLINT: OpenSSL's type
  };
  X509_gmtime_adj(X509_getm_notBefore(made), seconds(wish.from));
  X509_gmtime_adj(X509_getm_notAfter(made), seconds(wish.until));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(wish.common_name.c_str()), -1,
                             -1, 0);
  X509_set_pubkey(made, key);
  return made;
}

}  // namespace

CertificateRoot::CertificateRoot(const std::string& common_name)
    : key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
      root_(NewCertificate({.common_name = common_name, .names = ""}, key_.get()), X509_free) {
  X509_set_issuer_name(root_.get(), X509_get_subject_name(root_.get()));
  Extend(root_.get(), root_.get(), NID_basic_constraints, "critical,CA:TRUE");
  Extend(root_.get(), root_.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  Extend(root_.get(), root_.get(), NID_subject_key_identifier, "hash");
  X509_sign(root_.get(), key_.get(), EVP_sha256());
  pem_ = PemOf(root_.get());
}

IssuedCertificate CertificateRoot::Issue(const CertificateWish& wish) const {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(NewCertificate(wish, key.get()),
                                                         X509_free);
  X509_set_issuer_name(made.get(), X509_get_subject_name(root_.get()));
  Extend(made.get(), root_.get(), NID_basic_constraints, "critical,CA:FALSE");
  Extend(made.get(), root_.get(), NID_authority_key_identifier, "keyid");
  if (!wish.names.empty()) Extend(made.get(), root_.get(), NID_subject_alt_name, wish.names);
  X509_sign(made.get(), key_.get(), EVP_sha256());
  return {PemOf(made.get()), PemOf(key.get())};
}

void ReplaceFile(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  std::ofstream(beside, std::ios::binary) << text;
  Check(std::rename(beside.c_str(), path.c_str()) == 0, "a file of the test cannot be replaced");
}

}  // namespace cellbatch

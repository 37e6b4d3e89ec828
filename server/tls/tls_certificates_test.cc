#include "server/tls/tls_certificates.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "server/tls/tls_session.h"
#include "tests/testing/certificates.h"

namespace cellbatch {
namespace {

class TlsCertificatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    Write(root_.Issue({.common_name = "first"}));
    ReplaceFile(files_.client_ca, root_.certificate());
  }
  void Write(const IssuedCertificate& issued) const {
    ReplaceFile(files_.certificate, issued.certificate);
    ReplaceFile(files_.key, issued.key);
  }
  // Of whom the certificate in force is.
  static std::string InForce(const TlsCertificates& certificates) {
    const auto context = certificates.current();
    return NameOf(SSL_CTX_get0_certificate(context.get()));
  }

  const std::string folder_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const CertificateRoot root_{"a root"};
  TlsFiles files_ = {folder_ + "/tls.crt", folder_ + "/tls.key", folder_ + "/ca.crt"};
  TlsCounts counts_;
};

TEST_F(TlsCertificatesTest, WhatCannotBeUsedIsNamedByFlagAndFile) {
  const auto why = [&](const TlsFiles& files) {
    return std::string(TlsCertificates::Open(files, counts_).status().message());
  };
  EXPECT_EQ(why(files_), "");
  TlsFiles files = files_;
  files.certificate = folder_ + "/missing";
  EXPECT_EQ(why(files), "--tls-certificate " + files.certificate + ": no such file");
  files = files_;
  files.key = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(files.key.c_str(), 0600), 0);
  EXPECT_EQ(why(files), "--tls-key " + files.key + ": no file") << "and nobody waits for a writer";
  files.key = folder_ + "/long";
  ReplaceFile(files.key, std::string((1 << 20) + 1, 'a'));
  EXPECT_EQ(why(files), "--tls-key " + files.key + ": has more than 1048576 bytes, the limit");
  ReplaceFile(files_.certificate, "no PEM");
  EXPECT_EQ(why(files_),
            "--tls-certificate " + files_.certificate + ": no certificate: no start line");
  Write({root_.Issue({}).certificate, root_.Issue({}).key});
  EXPECT_EQ(why(files_), "--tls-key " + files_.key + ": is not the key of --tls-certificate " +
                             files_.certificate);
  Write(root_.Issue({}));
  ReplaceFile(files_.client_ca, "");
  EXPECT_EQ(why(files_), "--tls-client-ca " + files_.client_ca + ": no certificate: no start line");
}

TEST_F(TlsCertificatesTest, AChangedCertificateIsTakenOnceItsKeyIsThereToo) {
  const auto certificates = TlsCertificates::Open(files_, counts_);
  ASSERT_TRUE(certificates.ok());
  const IssuedCertificate next = root_.Issue({.common_name = "second", .names = ""});
  ReplaceFile(files_.certificate, next.certificate);
  (*certificates)->Look();
  EXPECT_EQ(InForce(**certificates), "localhost");  // a host among its names goes before "first"
  EXPECT_EQ(counts_.certificates_refused.load(), 1);
  (*certificates)->Look();
  EXPECT_EQ(counts_.certificates_refused.load(), 1) << "it was said once";
  ReplaceFile(files_.key, next.key);
  (*certificates)->Look();
  EXPECT_EQ(InForce(**certificates), "second");
  EXPECT_EQ(counts_.certificates_taken.load(), 1);
}

TEST_F(TlsCertificatesTest, FilesThatAreGoneOrBrokenLeaveWhatWasInForce) {
  const auto certificates = TlsCertificates::Open(files_, counts_);
  ASSERT_TRUE(certificates.ok());
  const auto before = (*certificates)->current();
  std::filesystem::remove(files_.key);
  (*certificates)->Look();
  (*certificates)->Look();
  EXPECT_EQ(counts_.certificates_refused.load(), 1);
  Write(root_.Issue({}));
  ReplaceFile(files_.client_ca, root_.certificate().substr(0, 200));
  (*certificates)->Look();
  EXPECT_EQ((*certificates)->current(), before);
  ReplaceFile(files_.client_ca, root_.certificate());
  (*certificates)->Look();
  EXPECT_NE((*certificates)->current(), before);
}

// A file that is seen while it is written: its first certificate is whole, the next one is not.
TEST_F(TlsCertificatesTest, AFileWhoseNextCertificateIsCutOffOrDamagedIsNotTakenForItsFirst) {
  const std::string other = CertificateRoot("another root").certificate();
  const auto certificates = TlsCertificates::Open(files_, counts_);
  ASSERT_TRUE(certificates.ok());
  const auto before = (*certificates)->current();
  std::string damaged = other;
  damaged[damaged.size() / 2] = '!';
  for (const std::string& next : {other.substr(0, 200), damaged}) {
    ReplaceFile(files_.client_ca, root_.certificate() + next);
    (*certificates)->Look();
    EXPECT_EQ((*certificates)->current(), before);
    const absl::Status opened = TlsCertificates::Open(files_, counts_).status();
    EXPECT_TRUE(std::string(opened.message())
                    .starts_with("--tls-client-ca " + files_.client_ca +
                                 ": certificate 2 cannot be read: "))
        << opened;
  }
  EXPECT_EQ(counts_.certificates_refused.load(), 2);
  ReplaceFile(files_.client_ca, root_.certificate() + other + "a remark behind them\n");
  const IssuedCertificate issued = root_.Issue({});
  ReplaceFile(files_.key, issued.key);
  ReplaceFile(files_.certificate, issued.certificate + other.substr(0, 200));
  EXPECT_TRUE(std::string(TlsCertificates::Open(files_, counts_).status().message())
                  .starts_with("--tls-certificate " + files_.certificate +
                               ": certificate 2 cannot be read: "));
  ReplaceFile(files_.certificate, issued.certificate + other);
  EXPECT_TRUE(TlsCertificates::Open(files_, counts_).ok());
}

TEST_F(TlsCertificatesTest, AFileThatIsGoneASecondTimeIsSaidASecondTime) {
  const auto certificates = TlsCertificates::Open(files_, counts_);
  ASSERT_TRUE(certificates.ok());
  const auto before = (*certificates)->current();
  for (int time = 1; time <= 2; ++time) {
    std::filesystem::rename(files_.key, files_.key + "-aside");
    (*certificates)->Look();
    (*certificates)->Look();
    EXPECT_EQ(counts_.certificates_refused.load(), time);
    std::filesystem::rename(files_.key + "-aside", files_.key);
    (*certificates)->Look();
  }
  EXPECT_EQ((*certificates)->current(), before) << "what is back is what was in force";
}

TEST_F(TlsCertificatesTest, ACertificateIsNamedByItsUriElseItsHostElseItsCommonName) {
  const auto name = [&](const CertificateWish& wish) {
    Write(root_.Issue(wish));
    const auto certificates = TlsCertificates::Open(files_, counts_);
    return certificates.ok() ? InForce(**certificates)
                             : std::string(certificates.status().message());
  };
  EXPECT_EQ(name({.common_name = "someone", .names = "DNS:a.example,URI:spiffe://house/tagger"}),
            "spiffe://house/tagger");
  EXPECT_EQ(name({.common_name = "someone", .names = "IP:10.0.0.7,DNS:a.example"}), "a.example");
  EXPECT_EQ(name({.common_name = "someone", .names = ""}), "someone");
}

}  // namespace
}  // namespace cellbatch

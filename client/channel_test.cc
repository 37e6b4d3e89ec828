// What a client is told of a server that it cannot reach.
#include "client/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "proto/grpc_service.grpc.pb.h"
#include "tests/testing/certificates.h"

// The leak sanitizer asks this of a program. Debian's c-ares 1.18 loses the name whenever it is asked for "localhost".
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: the name is its
  return "leak:libcares";
}

namespace cellbatch {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A server that speaks TLS, or does not, and answers nothing.
class Listener {
 public:
  explicit Listener(std::shared_ptr<grpc::ServerCredentials> credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  std::string At(const std::string& host) const { return host + ":" + std::to_string(port_); }

 private:
  int port_ = 0;
  inference::GRPCInferenceService::Service service_;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status Connecting(const std::string& url, const Security& security,
                        std::chrono::milliseconds timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // nobody else's connection
  return WaitUntilConnected(OpenChannel(url, security, arguments), url, timeout);
}

std::string WhyNot(const std::string& url, const Security& security) {
  const absl::Status status = Connecting(url, security, std::chrono::milliseconds(300));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const std::string text(status.message());
  EXPECT_THAT(text, StartsWith("no server answers at " + url + " within 300 ms: "));
  return text;
}

class ChannelTest : public ::testing::Test {
 protected:
  std::shared_ptr<grpc::ServerCredentials> Tls() const {
    const IssuedCertificate issued = root_.Issue({.names = "DNS:localhost"});
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({issued.key, issued.certificate});
    return grpc::SslServerCredentials(options);
  }
  static Security Trusting(const CertificateRoot& root) {
    Security security;
    security.tls = true;
    security.roots = root.certificate();
    return security;
  }
  const CertificateRoot root_{"a root"};
};

TEST_F(ChannelTest, OneThatAnswersIsConnected) {
  constexpr std::chrono::minutes kLong(5);
  const Listener plain(grpc::InsecureServerCredentials()), over_tls(Tls());
  EXPECT_TRUE(Connecting(plain.At("127.0.0.1"), {}, kLong).ok());
  EXPECT_TRUE(Connecting(over_tls.At("localhost"), Trusting(root_), kLong).ok());
}

TEST_F(ChannelTest, WhatIsWrongWithACertificateIsSaid) {
  const Listener over_tls(Tls());
  EXPECT_THAT(WhyNot(over_tls.At("localhost"), Trusting(CertificateRoot("another"))),
              HasSubstr("certificate verify failed"));
  EXPECT_THAT(WhyNot(over_tls.At("127.0.0.1"), Trusting(root_)),
              HasSubstr("Peer name 127.0.0.1 is not in peer certificate"));
}

TEST_F(ChannelTest, OneThatSpeaksNoTlsIsToldFromOneThatIsNotThere) {
  const Listener plain(grpc::InsecureServerCredentials());
  EXPECT_THAT(WhyNot(plain.At("localhost"), Trusting(root_)), HasSubstr("handshake failed"));
  EXPECT_THAT(WhyNot("127.0.0.1:1", Trusting(root_)), HasSubstr("Connection refused"));
}

TEST_F(ChannelTest, APortThatDoesNotExistIsNotTakenForAnother) {
  for (const char* url : {"127.0.0.1:65536", "[::1]:99999999999", "localhost:70000"}) {
    const absl::Status status = Connecting(url, {}, std::chrono::milliseconds(50));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_EQ(std::string(status.message()), std::string(url) + ": a port is at most 65535");
  }
  for (const char* url : {"127.0.0.1:65535", "unix:/nowhere/70000"}) {
    EXPECT_NE(Connecting(url, {}, std::chrono::milliseconds(50)).code(),
              absl::StatusCode::kInvalidArgument)
        << url;
  }
  EXPECT_EQ(Connecting("127.0.0.1:1", {}, std::chrono::milliseconds(50)).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace cellbatch

// TLS in front of the real server: who may speak to it, what is kept of every bound behind it, certificates replaced
// under traffic, and that nobody's handshake is another's trouble.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fault/background_call.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/own_server_test.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tls_client.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

// Of what is freed, so that it sees whoever touches it (quarantine_size_mb in .bazelrc).
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kSanitizerKeeps = 64 << 20;
#else
constexpr int64_t kSanitizerKeeps = 0;
#endif

constexpr const char* kTokensJson =
    R"({"inputs":[{"name":"TOKENS","shape":[3],"datatype":"INT32","data":[3,1,4]}]})";

class TlsTest : public OwnServerTest {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    std::filesystem::create_directories(folder_);
    Show("first");
    ReplaceFile(folder_ + "/ca.crt", root_.certificate());
    credentials_ = Credentials({});
  }
  // The certificate that the server shows, or will show.
  void Show(const std::string& common_name) const {
    const IssuedCertificate issued = root_.Issue({.common_name = common_name});
    ReplaceFile(folder_ + "/tls.crt", issued.certificate);
    ReplaceFile(folder_ + "/tls.key", issued.key);
  }
  void ServeTls(std::vector<std::string> flags) {
    flags.push_back("--tls-certificate=" + folder_ + "/tls.crt");
    flags.push_back("--tls-key=" + folder_ + "/tls.key");
    flags.emplace_back("--reload-poll=20ms");
    Serve(std::move(flags));
  }
  std::shared_ptr<grpc::ChannelCredentials> Credentials(const IssuedCertificate& own) const {
    return grpc::SslCredentials({.pem_root_certs = root_.certificate(),
                                 .pem_private_key = own.key,
                                 .pem_cert_chain = own.certificate});
  }
  TlsClientOptions Http(const IssuedCertificate& own = {}) const {
    return {.root = root_.certificate(), .own = own, .protocol = "http/1.1"};
  }
  // The reply, whole.
  std::string Ask(const std::string& head, const std::string& body = "") const {
    TlsClient client(server_->http(), Http());
    client.Send(head + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.ReceiveAll();
  }
  double Handshakes(const std::string& outcome) const {
    return Metric(*server_, "cellbatch_tls_handshakes_total{outcome=\"" + outcome + "\"}");
  }

  const std::string folder_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const CertificateRoot root_{"a root"};
};

TEST_F(TlsTest, BothPortsAnswerOverTlsWithTheSameBitsAsWithoutAndPlainClientsAreHungUpOn) {
  const auto over_tls = std::exchange(credentials_, grpc::InsecureChannelCredentials());
  ASSERT_NO_FATAL_FAILURE(Serve({}));  // plain: what is compared with
  ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_));
  ASSERT_NO_FATAL_FAILURE(End());
  credentials_ = over_tls;
  ASSERT_NO_FATAL_FAILURE(ServeTls({}));
  ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_));
  EXPECT_EQ(Ask("POST /v2/models/words/infer", kTokensJson).substr(9, 3), "200");
  EXPECT_EQ(Ask("GET /v2/health/ready").substr(9, 3), "200");
  GrpcCaller plain(server_->grpc());
  inference::ModelInferResponse answer;
  EXPECT_EQ(plain.Infer(Words({1, 2}), answer).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(HttpGet(server_->http(), "/v2/health/ready"), "");
  EXPECT_GT(Handshakes("failed"), 0);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TlsTest, P8WhoShowsNoCertificateOfOursIsUnavailableAndWhoDoesIsServed) {
  const CertificateRoot another("another root");
  const IssuedCertificate good = root_.Issue({.common_name = "tagger"});
  credentials_ = Credentials(good);
  ASSERT_NO_FATAL_FAILURE(ServeTls({"--tls-client-ca=" + folder_ + "/ca.crt"}));
  using std::chrono::hours;
  const std::vector<IssuedCertificate> wrong = {
      {},
      another.Issue({}),
      root_.Issue({.from = hours(-48), .until = hours(-24)}),
      root_.Issue({.from = hours(24), .until = hours(48)})};
  for (const IssuedCertificate& own : wrong) {
    GrpcCaller stranger(server_->grpc(), Credentials(own));
    inference::ModelInferResponse answer;
    EXPECT_EQ(stranger.Infer(Words({1, 2}), answer).error_code(), StatusCode::UNAVAILABLE);
    TlsClient over_http(server_->http(), Http(own));
    over_http.Send("GET /v2/health/ready HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(over_http.Receive(12), "");
  }
  EXPECT_EQ(HttpGet(server_->metrics(), "/v2/health/ready"), kReadyAnswer) << "a probe has none";
  ExpectGood(*caller_);
  TlsClient over_http(server_->http(), Http(good));
  ASSERT_TRUE(over_http.Send("GET /v2/health/ready HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(over_http.Receive(12), "HTTP/1.1 200");
  ASSERT_NO_FATAL_FAILURE(End());
}

// For shares of the admission: all of them come from one address.
TEST_F(TlsTest, ClientsAreToldApartByTheirCertificatesOverBothPorts) {
  const IssuedCertificate flood = root_.Issue({.common_name = "flood", .names = ""});
  const IssuedCertificate honest = root_.Issue({.common_name = "honest", .names = ""});
  credentials_ = Credentials(flood);
  ASSERT_NO_FATAL_FAILURE(
      ServeTls({"--tls-client-ca=" + folder_ + "/ca.crt", "--max-queued-requests=20",
                "--max-queued-cells=10000000", "--max-queued-bytes=64GiB", "--row-budget=80MiB"}));
  std::vector<std::unique_ptr<BackgroundCall>> calls;
  for (int i = 0; i < 40; ++i) {
    calls.push_back(std::make_unique<BackgroundCall>(*caller_, SlowRequest()));
  }
  WaitForPage(*server_, [](const MetricsPage& page) {
    return page.Admitted() == 16 && page.Sum("cellbatch_rejected_total") == 24;
  });
  inference::ModelInferResponse answer;
  GrpcCaller same(server_->grpc(), Credentials(flood)), other(server_->grpc(), Credentials(honest));
  EXPECT_EQ(same.Infer(Words({1, 2}), answer).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(other.Infer(Words({1, 2}), answer).ok());
  const std::pair<const IssuedCertificate*, const char*> over_http[] = {{&flood, "HTTP/1.1 429"},
                                                                        {&honest, "HTTP/1.1 200"}};
  for (const auto& [own, expected] : over_http) {
    TlsClient client(server_->http(), Http(*own));
    client.Send("POST /v2/models/words/infer HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                std::to_string(std::string(kTokensJson).size()) + "\r\n\r\n" + kTokensJson);
    EXPECT_EQ(client.Receive(12), expected);
  }
  calls.clear();
  WaitUntilEmpty(*server_);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TlsTest, P8AServerOfAnotherNameOrRootIsNotSpokenTo) {
  ASSERT_NO_FATAL_FAILURE(ServeTls({}));
  ExpectGood(*caller_);
  const CertificateRoot another("another root");
  inference::ModelInferResponse answer;
  grpc::SslCredentialsOptions trusts_another;
  trusts_another.pem_root_certs = another.certificate();
  GrpcCaller distrusts(server_->grpc(), grpc::SslCredentials(trusts_another));
  EXPECT_EQ(distrusts.Infer(Words({1, 2}), answer).error_code(), StatusCode::UNAVAILABLE);
  const IssuedCertificate elsewhere =
      root_.Issue({.common_name = "elsewhere", .names = "DNS:elsewhere.example"});
  ReplaceFile(folder_ + "/tls.crt", elsewhere.certificate);
  ReplaceFile(folder_ + "/tls.key", elsewhere.key);
  WaitForPage(*server_, [](const MetricsPage& page) {
    return page.Sum("cellbatch_tls_certificates_total", {R"(outcome="taken")"}) == 1;
  });
  GrpcCaller finds_another(server_->grpc(), credentials_);
  EXPECT_EQ(finds_another.Infer(Words({1, 2}), answer).error_code(), StatusCode::UNAVAILABLE);
  ExpectGood(*caller_);  // which came before
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TlsTest, CertificatesAreReplacedUnderTrafficAndNoCallIsLost) {
  ASSERT_NO_FATAL_FAILURE(ServeTls({}));
  constexpr int kReplaced = 10;
  std::atomic<bool> stop = false;
  std::atomic<int64_t> answered = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&, stays = i == 0] {
      GrpcCaller caller(server_->grpc(), credentials_);
      while (!stop.load()) {
        GrpcCaller another(server_->grpc(), credentials_);
        inference::ModelInferResponse answer;
        const grpc::Status status = (stays ? caller : another).Infer(Words({1, 2, 3}), answer);
        EXPECT_TRUE(status.ok()) << status.error_message();
        ++answered;
      }
    });
  }
  for (int i = 1; i <= kReplaced; ++i) {
    Show("number " + std::to_string(i));
    WaitForPage(*server_, [&](const MetricsPage& page) {
      return page.Sum("cellbatch_tls_certificates_total", {R"(outcome="taken")"}) >= i;
    });
    EXPECT_EQ(TlsClient(server_->http(), Http()).ServerName(), "number " + std::to_string(i));
    // One that cannot be used changes nothing.
    ReplaceFile(folder_ + "/tls.key", "broken");
    WaitForPage(*server_, [&](const MetricsPage& page) {
      return page.Sum("cellbatch_tls_certificates_total", {R"(outcome="refused")"}) >= i;
    });
    EXPECT_EQ(TlsClient(server_->http(), Http()).ServerName(), "number " + std::to_string(i));
  }
  stop.store(true);
  for (std::thread& client : clients) client.join();
  EXPECT_GT(answered.load(), kReplaced);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TlsTest, ThousandsOfHandshakesThatLeadNowhereHurtNobodyAndKeepNothing) {
  ASSERT_NO_FATAL_FAILURE(ServeTls({"--tls-max-handshakes=200"}));
  ExpectGood(*caller_);
  const int64_t before = server_->ResidentBytes();
  const std::string hello = {'\x16', '\x03', '\x01', '\x40', '\x00',
                             '\x01', '\x00', '\x3f', '\xfc'};
  std::vector<std::unique_ptr<TlsClient>> strangers;
  for (int i = 0; i < 3000; ++i) {
    strangers.push_back(std::make_unique<TlsClient>(i % 2 == 0 ? server_->grpc() : server_->http(),
                                                    Http(), /*shake_hands=*/false));
    if (i % 4 == 1) strangers.back()->SendRaw(hello + std::string(8 << 10, 'x'));
    if (i % 4 == 2) strangers.back()->SendRaw(http2::Greeting());
    if (i % 4 == 3) strangers.back()->SendRaw(std::string(1 << 10, '\xff'));
    if (strangers.size() > 800) strangers.erase(strangers.begin(), strangers.begin() + 400);
    if (i % 300 == 0) {
      ExpectGood(*caller_);
      GrpcCaller fresh(server_->grpc(), credentials_);
      ExpectGood(fresh);
    }
  }
  EXPECT_LE(Metric(*server_, "cellbatch_tls_handshakes"), 200);
  EXPECT_LT(server_->PeakResidentBytes() - before, kSanitizerKeeps + (int64_t{64} << 20));
  ASSERT_NO_FATAL_FAILURE(End());
}

// P7: what is bounded of plain connections is bounded behind TLS.
TEST_F(TlsTest, AHeaderBlockWithoutAnEndIsHungUpOn) {
  ASSERT_NO_FATAL_FAILURE(ServeTls({}));
  TlsClient peer(server_->grpc(), {.root = root_.certificate()});
  ASSERT_TRUE(peer.Send(http2::Greeting() + http2::InferHeaders(1, {}, http2::kNone)));
  const std::string frame = http2::Frame(http2::kContinuation, http2::kNone, 1,
                                         http2::Header("x-long", std::string(100, 'x')));
  std::string many;
  while (many.size() < 60'000) many += frame;
  while (peer.Send(many)) {
  }
  WaitForPage(*server_, [](const MetricsPage& page) {
    return page.Sum("cellbatch_grpc_cut_total", {R"(reason="header_block")"}) == 1;
  });
  ExpectGood(*caller_);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TlsTest, TheLargestMessagesGoThroughBothWaysAtOnce) {
  ASSERT_NO_FATAL_FAILURE(ServeTls({}));
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([this] {
      GrpcCaller caller(server_->grpc(), credentials_);
      inference::ModelInferRequest request = Words(std::vector<int32_t>(20'000, 7));
      request.add_outputs()->set_name("ALL_HIDDEN");
      inference::ModelInferResponse answer;
      const grpc::Status status = caller.Infer(request, answer);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(answer.raw_output_contents(0).size(), 20'000U * 24 * sizeof(float));
    });
  }
  for (std::thread& client : clients) client.join();
  // Refused by the bound of messages, after all of it has come.
  inference::ModelInferResponse answer;
  const grpc::Status status = caller_->Infer(Words(std::vector<int32_t>(40 << 20, 7)), answer);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TlsTest, WhatWasAcceptedIsAnsweredWhenTheServerIsTold) {
  ASSERT_NO_FATAL_FAILURE(ServeTls({"--drain-timeout=1h"}));
  std::vector<std::unique_ptr<BackgroundCall>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(
        std::make_unique<BackgroundCall>(*caller_, Words(std::vector<int32_t>(3000, 1), "slow")));
  }
  WaitForPage(*server_, [](const MetricsPage& page) { return page.Admitted() == 8; });
  server_->Signal(SIGTERM);
  for (const auto& call : calls) EXPECT_TRUE(call->Wait().ok()) << call->Wait().error_message();
  calls.clear();
  caller_.reset();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
}

TEST_F(TlsTest, AStartWithoutAUsableCertificateSaysWhichFile) {
  ReplaceFile(folder_ + "/tls.key", "broken");
  ServerProcess server({"--model-repository=" + *repository_, "--grpc-address=127.0.0.1:0",
                        "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                        "--tls-certificate=" + folder_ + "/tls.crt",
                        "--tls-key=" + folder_ + "/tls.key"});
  EXPECT_FALSE(server.WaitUntilReady());
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_NE(server.Log().find("--tls-key " + folder_ + "/tls.key: no key"), std::string::npos)
      << server.Log();
}

}  // namespace
}  // namespace cellbatch

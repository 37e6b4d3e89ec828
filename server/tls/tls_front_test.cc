#include "server/tls/tls_front.h"

#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <csignal>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tls_client.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostHandshakes = 32;
constexpr std::chrono::seconds kPatience{60};

// The plain ends that were handed over, as a server that waits would use them.
class Server {
 public:
  void Take(PlainEnd end) {
    const std::lock_guard lock(mutex_);
    ends_.push_back(std::move(end));
    came_.notify_all();
  }
  // The next one; without a descriptor: none came.
  PlainEnd Next() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, kPatience, [&] { return !ends_.empty(); })) return {};
    PlainEnd end = std::move(ends_.front());
    ends_.pop_front();
    return end;
  }
  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<PlainEnd> ends_;
};

bool WaitFor(int descriptor, short events) {  // NOLINT: the system's type
  pollfd waited = {.fd = descriptor, .events = events, .revents = 0};
  return poll(&waited, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
}
// Until there are so many, or the peer ended.
std::string ReadPlain(const PlainEnd& end, size_t bytes) {
  std::string read;
  std::string piece(1 << 16, '\0');
  while (read.size() < bytes && WaitFor(end.descriptor.get(), POLLIN)) {
    const ssize_t got =
        recv(end.descriptor.get(), piece.data(), std::min(piece.size(), bytes - read.size()), 0);
    if (got <= 0) break;
    read.append(piece, 0, static_cast<size_t>(got));
  }
  return read;
}
bool WritePlain(const PlainEnd& end, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    if (!WaitFor(end.descriptor.get(), POLLOUT)) return false;
    const ssize_t more =
        send(end.descriptor.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += static_cast<size_t>(more);
  }
  return true;
}

// Writes until there has been no room for a second, or so many bytes are the system's.
size_t FillPlain(const PlainEnd& end, size_t most) {
  const std::string piece(1 << 16, 'x');
  size_t taken = 0;
  for (pollfd room = {.fd = end.descriptor.get(), .events = POLLOUT, .revents = 0};
       taken < most && poll(&room, 1, 1000) == 1;) {
    const ssize_t sent = send(end.descriptor.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (sent > 0) taken += static_cast<size_t>(sent);
  }
  return taken;
}

class TlsFrontTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    std::filesystem::create_directories(folder_);
    Show("first");
  }
  // The certificate that the server will show.
  void Show(const std::string& common_name) const {
    const IssuedCertificate issued = root_.Issue({.common_name = common_name});
    ReplaceFile(folder_ + "/tls.crt", issued.certificate);
    ReplaceFile(folder_ + "/tls.key", issued.key);
  }
  void Open(bool mutual = false,
            std::chrono::milliseconds handshake_timeout = std::chrono::minutes(1)) {
    ReplaceFile(folder_ + "/ca.crt", root_.certificate());
    auto front = TlsFront::Open({.files = {.certificate = folder_ + "/tls.crt",
                                           .key = folder_ + "/tls.key",
                                           .client_ca = mutual ? folder_ + "/ca.crt" : ""},
                                 .handshake_timeout = handshake_timeout,
                                 .max_handshakes = kMostHandshakes},
                                counts_);
    ASSERT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
    const auto address = front_->Listen("grpc-address", "127.0.0.1:0", "h2",
                                        [this](PlainEnd end) { server_.Take(std::move(end)); });
    ASSERT_TRUE(address.ok()) << address.status();
    address_ = *address;
    front_->Begin();
  }
  TlsClientOptions Honest() const { return {.root = root_.certificate()}; }
  int64_t Ended(HandshakeEnd how) const { return counts_.ended[static_cast<size_t>(how)].load(); }

  const std::string folder_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const CertificateRoot root_{"a root"};
  TlsCounts counts_;
  Server server_;
  std::unique_ptr<TlsFront> front_;
  std::string address_;
};

TEST_F(TlsFrontTest, BytesGoBothWaysUnchangedAndTheClientIsKnownByItsAddress) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (const int newest : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    TlsClientOptions options = Honest();
    options.newest = newest;
    TlsClient client(address_, options);
    ASSERT_TRUE(client.shaken());
    const PlainEnd end = server_.Next();
    EXPECT_EQ(end.address.substr(0, 15), "ipv4:127.0.0.1:");
    EXPECT_EQ(end.certificate, "");
    std::string sent(5 << 20, '\0');
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 + i / 251);
    std::thread sender([&] { EXPECT_TRUE(client.Send(sent)); });
    EXPECT_TRUE(ReadPlain(end, sent.size()) == sent);
    sender.join();
    std::thread writer([&] { EXPECT_TRUE(WritePlain(end, sent)); });
    EXPECT_TRUE(client.Receive(sent.size()) == sent);
    writer.join();
  }
}

TEST_F(TlsFrontTest, AnOlderVersionOrAnotherProtocolIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Open());
  TlsClientOptions options = Honest();
  options.newest = TLS1_1_VERSION;
  EXPECT_FALSE(TlsClient(address_, options).shaken());
  options = Honest();
  options.protocol = "http/1.1";
  EXPECT_FALSE(TlsClient(address_, options).shaken());
  options.protocol = "";
  EXPECT_TRUE(TlsClient(address_, options).shaken());
}

TEST_F(TlsFrontTest, EachEndIsPassedOnAfterAllThatWasSaidBefore) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::string said(1 << 20, 'q'), answer(3 << 20, 'a');
  TlsClient client(address_, Honest());
  PlainEnd end = server_.Next();
  std::thread sender([&] {
    EXPECT_TRUE(client.Send(said));
    client.EndSending();
  });
  EXPECT_EQ(ReadPlain(end, said.size() + 1).size(), said.size());
  sender.join();
  // The other direction goes on.
  std::thread writer([&] {
    EXPECT_TRUE(WritePlain(end, answer));
    end.descriptor.Close();
  });
  EXPECT_EQ(client.ReceiveAll().size(), answer.size());
  EXPECT_TRUE(client.ended_well());
  writer.join();
}

// What comes is the protocol's own: nobody is told of it, what comes behind it is not forgotten, nor an end.
TEST_F(TlsFrontTest, ManyChangesOfKeysAreSurvivedAndWhatFollowsThemArrives) {
  ASSERT_NO_FATAL_FAILURE(Open());
  TlsClient client(address_, Honest());
  const PlainEnd end = server_.Next();
  for (const int changes : {1, 1000, 3}) {
    for (int i = 0; i < changes; ++i) ASSERT_TRUE(client.ChangeKeys());
    EXPECT_TRUE(client.Send("hello"));
    EXPECT_EQ(ReadPlain(end, 5), "hello");
    EXPECT_TRUE(WritePlain(end, "you too"));
    EXPECT_EQ(client.Receive(7), "you too");
  }
  ASSERT_TRUE(client.ChangeKeys());
  client.EndSending();
  EXPECT_EQ(ReadPlain(end, 1), "");
}

TEST_F(TlsFrontTest, WhoDoesNotReadHoldsUpItsServerAndNobodyElse) {
  ASSERT_NO_FATAL_FAILURE(Open());
  TlsClientOptions options = Honest();
  options.receive_buffer = 4096;
  const TlsClient deaf(address_, options);
  const PlainEnd end = server_.Next();
  // What the kernel and the relay take is bounded; then there is no room.
  constexpr size_t kMost = 64 << 20;
  const size_t taken = FillPlain(end, kMost);
  EXPECT_LT(taken, kMost);
  TlsClient other(address_, Honest());
  const PlainEnd others = server_.Next();
  EXPECT_TRUE(WritePlain(others, "hello"));
  EXPECT_EQ(other.Receive(5), "hello");
}

TEST_F(TlsFrontTest, HandshakesThatStandStillMakeRoomForOneThatDoesNot) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<std::unique_ptr<TlsClient>> slow;
  // Nothing, some bytes of a hello that promises more, and no TLS at all, in turn.
  const std::string half = {'\x16', '\x03', '\x01', '\x02', '\x00', '\x01', '\x00', '\x01', '\xfc'};
  for (int i = 0; i < 1000; ++i) {
    slow.push_back(std::make_unique<TlsClient>(address_, Honest(), false));
    ASSERT_TRUE(slow.back()->connected());
    if (i % 3 == 1) slow.back()->SendRaw(half);
    if (i % 3 == 2) slow.back()->SendRaw("GET / HTTP/1.1\r\n\r\n");
    if (i % 100 == 0) {
      EXPECT_TRUE(TlsClient(address_, Honest()).shaken());
      EXPECT_LE(counts_.handshakes.load(), kMostHandshakes + 1);
    }
  }
  TlsClient honest(address_, Honest());
  ASSERT_TRUE(honest.shaken());
  EXPECT_GT(Ended(HandshakeEnd::kPushedOut), 500);
}

TEST_F(TlsFrontTest, AHandshakeHasItsTime) {
  ASSERT_NO_FATAL_FAILURE(Open(false, std::chrono::milliseconds(50)));
  TlsClient slow(address_, Honest(), false);
  ASSERT_TRUE(slow.connected());
  while (Ended(HandshakeEnd::kTimeout) == 0) std::this_thread::yield();
  EXPECT_TRUE(TlsClient(address_, Honest()).shaken());
}

TEST_F(TlsFrontTest, ACertificateThatIsReplacedIsShownFromThenOnAndConnectionsGoOn) {
  ASSERT_NO_FATAL_FAILURE(Open());
  TlsClient before(address_, Honest());
  EXPECT_EQ(before.ServerName(), "first");
  const PlainEnd end = server_.Next();
  Show("second");
  front_->Look();
  const TlsClient after(address_, Honest());
  EXPECT_EQ(after.ServerName(), "second");
  EXPECT_TRUE(before.Send("still here"));
  EXPECT_EQ(ReadPlain(end, 10), "still here");
}

TEST_F(TlsFrontTest, ClientsShowACertificateOfTheRootOrGetNothing) {
  ASSERT_NO_FATAL_FAILURE(Open(/*mutual=*/true));
  TlsClientOptions options = Honest();
  options.own = root_.Issue({.common_name = "tagger", .names = ""});
  TlsClient client(address_, options);
  PlainEnd end = server_.Next();
  EXPECT_EQ(end.certificate, "tagger");
  EXPECT_TRUE(WritePlain(end, "yes"));
  EXPECT_EQ(client.Receive(3), "yes");
  const CertificateRoot other("another root");
  const std::vector<IssuedCertificate> wrong = {
      {},
      root_.Issue({.from = std::chrono::hours(-48), .until = std::chrono::hours(-24)}),
      root_.Issue({.from = std::chrono::hours(24), .until = std::chrono::hours(48)}),
      other.Issue({})};
  for (const IssuedCertificate& own : wrong) {
    options.own = own;
    TlsClient stranger(address_, options);  // of TLS 1.3 it hears of it with the first byte
    EXPECT_EQ(stranger.Receive(1), "");
  }
  // A client has its alert a moment before it is counted.
  while (Ended(HandshakeEnd::kFailed) < static_cast<int64_t>(wrong.size()))
    std::this_thread::yield();
  EXPECT_EQ(Ended(HandshakeEnd::kFailed), static_cast<int64_t>(wrong.size()));
  EXPECT_EQ(server_.waiting(), 0U);
}

TEST_F(TlsFrontTest, WhatAServerSaidBeforeItEndedReachesAClientThatReadsSlowly) {
  ASSERT_NO_FATAL_FAILURE(Open());
  TlsClientOptions options = Honest();
  options.receive_buffer = 4096;
  TlsClient client(address_, options);
  size_t said = 0;
  {
    const PlainEnd end = server_.Next();
    said = FillPlain(end, 64 << 20);  // the relay, and the pair, are full
    EXPECT_FALSE(front_->Drain(std::chrono::milliseconds(0))) << "it has not ended";
  }
  front_->StopAccepting();
  std::string received;
  std::thread reader([&] { received = client.ReceiveAll(); });
  EXPECT_TRUE(front_->Drain(kPatience));
  front_.reset();
  reader.join();
  EXPECT_EQ(received.size(), said);
  EXPECT_TRUE(client.ended_well());
}

TEST_F(TlsFrontTest, AClientThatIsGoneIsGoneForItsServerToo) {
  ASSERT_NO_FATAL_FAILURE(Open());
  PlainEnd end;
  {
    const TlsClient client(address_, Honest());
    end = server_.Next();
  }
  EXPECT_EQ(ReadPlain(end, 1), "");
  end.descriptor.Close();
  while (counts_.connections.load() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace cellbatch

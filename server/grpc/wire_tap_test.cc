#include "server/grpc/wire_tap.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/grpc/listening_socket.h"
#include "tests/testing/http2_frames.h"

namespace cellbatch {
namespace {

constexpr size_t kMiB = 1 << 20;

// A connection as gRPC reads one: without waiting, woken by edges.
class WireTapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WireTap::InForce());
    Connect();
  }
  void Connect() {
    client_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(PortOf(listening_.get())));
    ASSERT_EQ(connect(client_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    int accepted = -1;
    while (accepted < 0) {  // the listening socket does not wait
      accepted = accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    server_ = Descriptor(accepted);
    tap_ = WireTap::Enrol(accepted, totals_);
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLET;
    ASSERT_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, accepted, &event), 0);
  }
  // What recvmsg says, as libgrpc.so calls it.
  ssize_t Receive(std::string& into) const {
    iovec piece = {.iov_base = into.data(), .iov_len = into.size()};
    msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    return recvmsg(server_.get(), &message, 0);
  }
  // How many it could.
  size_t SendAll(const std::string& bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = send(client_.get(), &bytes[sent], bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += static_cast<size_t>(more);
    }
    return sent;
  }
  // Sends as libgrpc.so does; expects the client to get that.
  void ExpectGets(const std::string& expected, std::string bytes) const {
    iovec piece = {.iov_base = bytes.data(), .iov_len = bytes.size()};
    msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    ASSERT_EQ(sendmsg(server_.get(), &message, 0), static_cast<ssize_t>(bytes.size()));
    std::string got(expected.size(), '\0');
    ASSERT_EQ(recv(client_.get(), got.data(), got.size(), MSG_WAITALL),
              static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, expected);
    char more = 0;
    EXPECT_EQ(recv(client_.get(), &more, 1, MSG_DONTWAIT), -1);
  }
  void WaitForAnEdge() const {
    epoll_event event = {};
    ASSERT_EQ(epoll_wait(events_.get(), &event, 1, /*timeout=*/60'000), 1) << "nobody was woken";
  }

  Descriptor listening_ = *ListenOn("127.0.0.1:0", std::chrono::seconds(20));
  Descriptor client_;
  Descriptor events_{epoll_create1(EPOLL_CLOEXEC)};
  Descriptor server_;
  const std::shared_ptr<WireTotals> totals_ = std::make_shared<WireTotals>(FrameBounds());
  std::shared_ptr<WireTap> tap_;
};

TEST_F(WireTapTest, ARoundOfReadingEndsThoughMoreIsThereAndTheNextIsBegunByAnEdge) {
  constexpr size_t kBytes = 64 * kMiB, kMostARound = 128 * 1024;
  const std::string all(kBytes, 'x');
  std::thread sender([&] { EXPECT_EQ(SendAll(all), all.size()); });
  std::string into(kMiB, '\0');  // as gRPC offers it where much was there before
  size_t received = 0;
  while (received < kBytes) {
    ASSERT_NO_FATAL_FAILURE(WaitForAnEdge());
    size_t round = 0;
    ssize_t more = 0;
    while ((more = Receive(into)) > 0) round += static_cast<size_t>(more);
    ASSERT_EQ(errno, EAGAIN);
    EXPECT_LE(round, kMostARound);
    received += round;
  }
  sender.join();
  EXPECT_EQ(received, kBytes);
}

TEST_F(WireTapTest, AGoodbyeIsSaidOnceToWhoIsThereAfterOurSettingsWhereAFrameMayStand) {
  const std::string goaway = http2::Frame(http2::kGoAway, http2::kNone, 0,
                                          http2::BigEndian(0x7fffffff, 4) + http2::BigEndian(0, 4));
  const std::string settings = http2::Setting(http2::kInitialWindowSize, 65'535);
  const std::string block = http2::Frame(http2::kHeaders, http2::kNone, 1, "headers");
  const std::string rest = http2::Frame(http2::kContinuation, http2::kEndHeaders, 1, "of one call");
  const std::string body = http2::Frame(http2::kData, http2::kNone, 1, "body");
  ASSERT_NO_FATAL_FAILURE(ExpectGets(settings, settings));
  ASSERT_NO_FATAL_FAILURE(ExpectGets(block.substr(0, 5), block.substr(0, 5)));
  totals_->goodbyes = 1;
  ASSERT_NO_FATAL_FAILURE(ExpectGets(block.substr(5, 7), block.substr(5, 7))) << "of a header";
  ASSERT_NO_FATAL_FAILURE(ExpectGets(block.substr(12), block.substr(12))) << "of what is in it";
  ASSERT_NO_FATAL_FAILURE(ExpectGets(rest, rest)) << "a block of headers is in one piece";
  ASSERT_NO_FATAL_FAILURE(ExpectGets(goaway + body, body));
  ASSERT_NO_FATAL_FAILURE(ExpectGets(body, body)) << "once";

  ASSERT_NO_FATAL_FAILURE(Connect());
  ASSERT_NO_FATAL_FAILURE(ExpectGets(settings + body, settings + body));
  ASSERT_NO_FATAL_FAILURE(ExpectGets(body, body)) << "it came after that";
  totals_->goodbyes = 2;
  ASSERT_NO_FATAL_FAILURE(ExpectGets(goaway + body, body));
  ASSERT_NO_FATAL_FAILURE(Connect());
  totals_->goodbyes = 3;
  ASSERT_NO_FATAL_FAILURE(ExpectGets(settings.substr(0, 3), settings.substr(0, 3)));
  ASSERT_NO_FATAL_FAILURE(ExpectGets(settings.substr(3) + body, settings.substr(3) + body));
  ASSERT_NO_FATAL_FAILURE(ExpectGets(goaway + body, body));
}

// All that are amid a message share what one turn of reading brings: nobody waits behind 200 times 128 KiB.
TEST_F(WireTapTest, ManyAmidAMessageHaveShorterRoundsEach) {
  constexpr uint32_t kAnnounced = 2 * kMiB;  // never whole
  const std::string begun =
      std::string(http2::kPreface) + http2::Frame(http2::kHeaders, http2::kEndHeaders, 1, "h") +
      http2::Frame(http2::kData, http2::kNone, 1, http2::HeadOfMessage(kAnnounced));
  std::string message;
  while (message.size() < kMiB) {
    message += http2::Frame(http2::kData, http2::kNone, 1, std::string(1000, 'x'));
  }
  for (const auto& [others, most] : std::vector<std::pair<int64_t, size_t>>{
           {15, 128 << 10}, {63, 32 << 10}, {10'000, 16 << 10}}) {
    SCOPED_TRACE(others);
    ASSERT_NO_FATAL_FAILURE(Connect());
    std::string into(kMiB, '\0');
    ASSERT_EQ(SendAll(begun), begun.size());
    for (size_t received = 0; received < begun.size();) {
      ASSERT_NO_FATAL_FAILURE(WaitForAnEdge());
      const ssize_t more = Receive(into);
      ASSERT_GT(more, 0);
      received += static_cast<size_t>(more);
    }
    EXPECT_EQ(totals_->amid, 1);
    totals_->amid += others;
    std::thread sender([&] { EXPECT_EQ(SendAll(message), message.size()); });
    size_t received = 0, longest = 0;
    while (received < message.size()) {
      ASSERT_NO_FATAL_FAILURE(WaitForAnEdge());
      size_t round = 0;
      ssize_t more = 0;
      while ((more = Receive(into)) > 0) round += static_cast<size_t>(more);
      ASSERT_EQ(errno, EAGAIN);
      longest = std::max(longest, round);
      received += round;
    }
    sender.join();
    EXPECT_LE(longest, most);
    totals_->amid -= others;
    tap_.reset();
    server_.Close();
    EXPECT_EQ(totals_->amid, 0) << "it has left";
  }
}

// One end of a pair of this process, as connections are handed over (server/tls): no kernel looks again there by itself.
TEST_F(WireTapTest, ARoundOfAPairEndsToo) {
  constexpr size_t kBytes = 16 * kMiB, kMostARound = 128 * 1024;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  client_ = Descriptor(ends[0]);
  server_ = Descriptor(ends[1]);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const int room =
      kBytes;  // so that all may be there at once: nothing that is sent later wakes anybody
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
  tap_ = WireTap::Enrol(ends[1], std::make_shared<WireTotals>(FrameBounds()));
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;  // as gRPC asks
  ASSERT_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, ends[1], &event), 0);
  const std::string all(kBytes, 'x');
  std::thread sender([&] { EXPECT_EQ(SendAll(all), all.size()); });
  std::string into(kMiB, '\0');
  size_t received = 0;
  while (received < kBytes) {
    ASSERT_NO_FATAL_FAILURE(WaitForAnEdge());
    size_t round = 0;
    ssize_t more = 0;
    while ((more = Receive(into)) > 0) round += static_cast<size_t>(more);
    ASSERT_EQ(errno, EAGAIN);
    EXPECT_LE(round, kMostARound);
    received += round;
  }
  sender.join();
  EXPECT_EQ(received, kBytes);
}

// Of a message's pieces, filled in their order and as long as they were.
TEST_F(WireTapTest, RoomInPiecesIsCutWhereTheRoundEndsAndGivenBack) {
  constexpr size_t kMostARound = 128 * 1024, kRoom = 256 * 1024;
  for (const size_t size : {size_t{50'000}, size_t{8192}, kMostARound, kRoom}) {
    SCOPED_TRACE(size);
    std::string sent(kMiB, '\0');
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 + i / 251);
    std::thread sender([&] { EXPECT_EQ(SendAll(sent), sent.size()); });
    std::vector<std::string> pieces(kRoom / size, std::string(size, '\0'));
    std::vector<iovec> list;
    for (std::string& piece : pieces) list.push_back({piece.data(), piece.size()});
    msghdr message = {};
    message.msg_iov = list.data();
    message.msg_iovlen = list.size();
    std::string received;
    size_t most = 0;
    while (received.size() < sent.size()) {
      ASSERT_NO_FATAL_FAILURE(WaitForAnEdge());
      size_t round = 0;
      ssize_t more = 0;
      while ((more = recvmsg(server_.get(), &message, 0)) > 0) {
        ASSERT_EQ(message.msg_iovlen, list.size());
        size_t left = static_cast<size_t>(more);
        round += left;
        for (size_t i = 0; i < list.size(); ++i) {
          ASSERT_EQ(list[i].iov_len, size);
          received += pieces[i].substr(0, std::min(left, size));
          left -= std::min(left, size);
        }
      }
      ASSERT_EQ(errno, EAGAIN);
      most = std::max(most, round);
    }
    sender.join();
    EXPECT_EQ(received, sent);
    EXPECT_LE(most, kMostARound);
  }
}

// The edge of its leaving came with its last bytes: no other will.
TEST_F(WireTapTest, ARoundThatEndsWithItsPeersLeavingGoesOn) {
  for (const bool reset : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(Connect());
    // All of a round, and nothing is there any more.
    std::string into(32 * 1024, 'x');
    for (int part = 0; part < 4; ++part) {
      ASSERT_EQ(SendAll(into), into.size());
      for (int there = 0; there != static_cast<int>(into.size());) {
        ASSERT_EQ(ioctl(server_.get(), FIONREAD, &there), 0);
      }
      ASSERT_EQ(Receive(into), static_cast<ssize_t>(into.size()));
    }
    if (reset) {
      const linger at_once = {.l_onoff = 1, .l_linger = 0};
      ASSERT_EQ(setsockopt(client_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    }
    client_.Close();
    ASSERT_NO_FATAL_FAILURE(WaitForAnEdge());
    errno = 0;
    EXPECT_EQ(Receive(into), reset ? -1 : 0);
    EXPECT_EQ(errno, reset ? ECONNRESET : 0);
  }
}

TEST_F(WireTapTest, WhoeverIsCutReadsNoMore) {
  ASSERT_EQ(send(client_.get(), "abc", 3, MSG_NOSIGNAL), 3);
  WaitForAnEdge();
  tap_->Cut(GrpcCut::kResets);
  std::string into(16, '\0');
  EXPECT_EQ(Receive(into), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(WireTapTest, ADescriptorThatWasClosedIsEnrolledNoMore) {
  const int number = server_.get();
  EXPECT_NE(WireTap::Of(number), nullptr);
  server_.Close();
  EXPECT_EQ(WireTap::Of(number), nullptr);
}

}  // namespace
}  // namespace cellbatch

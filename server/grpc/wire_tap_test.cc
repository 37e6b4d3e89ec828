#include "server/grpc/wire_tap.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "server/grpc/listening_socket.h"

namespace cellbatch {
namespace {

constexpr size_t kMiB = 1 << 20;

// A connection as gRPC reads one: without waiting, woken by edges.
class WireTapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WireTap::InForce());
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
    tap_ = WireTap::Enrol(accepted, std::make_shared<WireTotals>(FrameBounds()));
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
  void WaitForAnEdge() const {
    epoll_event event = {};
    ASSERT_EQ(epoll_wait(events_.get(), &event, 1, /*timeout=*/60'000), 1) << "nobody was woken";
  }

  Descriptor listening_ = ListenOn("127.0.0.1:0", std::chrono::seconds(20));
  Descriptor client_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Descriptor events_{epoll_create1(EPOLL_CLOEXEC)};
  Descriptor server_;
  std::shared_ptr<WireTap> tap_;
};

TEST_F(WireTapTest, ARoundOfReadingEndsThoughMoreIsThereAndTheNextIsBegunByAnEdge) {
  constexpr size_t kBytes = 64 * kMiB, kMostARound = (128 + 64) * 1024;
  std::thread sender([this] {
    const std::string part(kMiB, 'x');
    for (size_t sent = 0; sent < kBytes;) {
      const ssize_t more = send(client_.get(), part.data(), part.size(), MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += static_cast<size_t>(more);
    }
  });
  std::string into(64 * 1024, '\0');
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

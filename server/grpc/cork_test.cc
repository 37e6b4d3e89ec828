#include "server/grpc/cork.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "gtest/gtest.h"
#include "server/grpc/listening_socket.h"

namespace cellbatch {
namespace {

class CorkTest : public ::testing::Test {
 protected:
  bool held() const {
    int value = 0;
    socklen_t size = sizeof(value);
    EXPECT_EQ(getsockopt(server_.get(), IPPROTO_TCP, TCP_CORK, &value, &size), 0);
    return value != 0;
  }
  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(server_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // So many bytes, as they come.
  std::string Receive(size_t size) const {
    std::string bytes(size, '\0');
    EXPECT_EQ(recv(client_.get(), bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return bytes;
  }

  Descriptor listening_ = *ListenOn("127.0.0.1:0", std::chrono::seconds(20));
  Descriptor client_{Connect()};
  Descriptor server_{AcceptOne()};
  Cork cork_{server_.get()};

 private:
  int Connect() const {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(PortOf(listening_.get())));
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return client;
  }
  int AcceptOne() const {
    while (true) {  // the listening socket does not wait
      const int accepted = accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return accepted;
    }
  }
};

TEST_F(CorkTest, WhatWasSentUnderAHeldOneArrivesWhenItFlows) {
  cork_.Hold();
  EXPECT_TRUE(held());
  Send("one ");
  Send("two");
  cork_.Flow();
  EXPECT_FALSE(held());
  EXPECT_EQ(Receive(7), "one two");
}

TEST_F(CorkTest, TheLastOfSeveralHoldersLetsItFlow) {
  cork_.Hold();
  cork_.Hold();
  cork_.Flow();
  EXPECT_TRUE(held());
  cork_.Flow();
  EXPECT_FALSE(held());
}

TEST_F(CorkTest, ASocketThatWasRemovedFlowsAndIsNotTouchedAgain) {
  cork_.Hold();
  cork_.Remove();
  EXPECT_FALSE(held());
  cork_.Flow();
  cork_.Hold();  // it may be another's by now
  EXPECT_FALSE(held());
}

}  // namespace
}  // namespace cellbatch

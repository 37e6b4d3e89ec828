#include "server/grpc/listening_socket.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr std::chrono::milliseconds kSystems{0};

// Some machines have no IPv6: what is asserted of it holds where there is some.
bool HasIpv6() { return ListenOn("[::1]:0", kSystems).ok(); }

// From the loopback interface's address of one family; none: nobody listens there.
Descriptor ConnectTo(int port, bool ipv6) {
  Descriptor client(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  v4.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  const int failed =
      ipv6 ? connect(client.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof(v6))
           : connect(client.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
  return failed == 0 ? std::move(client) : Descriptor();
}

// How a client of that family is called; empty: it could not connect.
std::string PeerAt(const std::string& address, bool ipv6) {
  const absl::StatusOr<Descriptor> listening = ListenOn(address, kSystems);
  EXPECT_TRUE(listening.ok()) << address << ": " << listening.status();
  if (!listening.ok()) return "";
  const Descriptor client = ConnectTo(PortOf(listening->get()), ipv6);
  if (client.get() < 0) return "";
  pollfd comes{.fd = listening->get(), .events = POLLIN, .revents = 0};
  poll(&comes, 1, -1);
  const Descriptor accepted(accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::string peer = PeerOf(accepted.get());
  const std::string port = fmt::format(":{}", PortOf(client.get()));
  EXPECT_TRUE(peer.ends_with(port)) << peer;
  return peer.substr(0, peer.rfind(':'));
}

TEST(ListeningSocketTest, AWildcardTakesBothFamiliesAndOneAddressIsOneNameWhicheverSocketTookIt) {
  EXPECT_EQ(PeerAt("127.0.0.1:0", false), "ipv4:127.0.0.1");
  EXPECT_EQ(PeerAt("0.0.0.0:0", false), "ipv4:127.0.0.1");
  EXPECT_EQ(PeerAt("localhost:0", false), "ipv4:127.0.0.1");
  if (!HasIpv6()) return;
  EXPECT_EQ(PeerAt("[::]:0", false), "ipv4:127.0.0.1");
  EXPECT_EQ(PeerAt("0.0.0.0:0", true), "ipv6:%5B::1%5D");
  EXPECT_EQ(PeerAt("[::1]:0", true), "ipv6:%5B::1%5D");
}

TEST(ListeningSocketTest, WhatIsNoPeerOfTcpsHasNoName) {
  int pair[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Descriptor ours(pair[0]), theirs(pair[1]);
  EXPECT_EQ(PeerOf(ours.get()), "");
  EXPECT_EQ(PeerOf(-1), "");
}

TEST(ListeningSocketTest, AnAddressThatAnotherListensOnIsTakenAndOneOfNoMachineCannotBeHad) {
  const absl::StatusOr<Descriptor> first = ListenOn("127.0.0.1:0", kSystems);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = fmt::format("127.0.0.1:{}", PortOf(first->get()));
  EXPECT_TRUE(absl::IsAlreadyExists(ListenOn(address, kSystems).status()));
  EXPECT_TRUE(absl::IsUnavailable(ListenOn("192.0.2.1:0", kSystems).status()));
}

}  // namespace
}  // namespace cellbatch

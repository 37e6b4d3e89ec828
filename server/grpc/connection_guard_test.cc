#include "server/grpc/connection_guard.h"

#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

class Peer final : public ConnectionGuard::Entry {
 public:
  using Entry::Entry;
  void Cut(GrpcCut reason) override { cut = reason; }
  bool EverCalled() const override { return called; }
  std::optional<GrpcCut> cut;
  bool called = false;
};

class ConnectionGuardTest : public ::testing::Test {
 protected:
  std::shared_ptr<Peer> Come(int64_t most = 4) {
    auto peer = std::make_shared<Peer>("ipv4:10.0.0.7:" + std::to_string(next_port_++));
    guard_.Add(peer, most);
    return peer;
  }
  int64_t Count(GrpcCut reason) const { return counts_.cut[static_cast<size_t>(reason)]; }

  int next_port_ = 1;
  GrpcCounts counts_;
  ConnectionGuard guard_{counts_};
};

TEST_F(ConnectionGuardTest, WhoeverComesWhenAllPlacesAreTakenTakesThatOfTheLongestIdleOne) {
  const auto first = Come(), second = Come(), third = Come(), fourth = Come();
  guard_.Moved(*first);
  const auto fifth = Come();
  EXPECT_EQ(second->cut, GrpcCut::kConnections);
  EXPECT_FALSE(first->cut || third->cut || fourth->cut || fifth->cut);
  EXPECT_EQ(guard_.size(), 4);
  EXPECT_EQ(Count(GrpcCut::kConnections), 1);
  EXPECT_EQ(guard_.Find(second->peer()), nullptr);
  EXPECT_NE(guard_.Find(first->peer()), nullptr);
}

TEST_F(ConnectionGuardTest, AConnectionWithACallUnderWayGoesOnlyWhenAllHaveOne) {
  const auto first = Come(), second = Come(), third = Come(), fourth = Come();
  for (const auto& peer : {first, second, fourth}) guard_.Find(peer->peer())->CallCame();
  const auto fifth = Come();
  EXPECT_TRUE(third->cut);
  guard_.Find(fifth->peer())->CallCame();
  const auto sixth = Come();
  EXPECT_TRUE(first->cut);
  guard_.Find(second->peer())->CallEnded();
  guard_.Find(sixth->peer())->CallCame();
  const auto seventh = Come();
  EXPECT_TRUE(second->cut);
  EXPECT_FALSE(fourth->cut || fifth->cut || sixth->cut);
}

TEST_F(ConnectionGuardTest, WhoNeverCalledGoesBeforeWhoIsBetweenTwoCalls) {
  const auto first = Come(), second = Come(), third = Come(), fourth = Come();
  first->called = second->called = true;
  const auto fifth = Come(), sixth = Come(), seventh = Come();
  EXPECT_TRUE(third->cut);
  EXPECT_TRUE(fourth->cut);
  EXPECT_TRUE(fifth->cut);
  EXPECT_FALSE(first->cut);
  EXPECT_FALSE(second->cut);
}

TEST_F(ConnectionGuardTest, ABoundThatFallsIsMetByTheNextThatComes) {
  const auto first = Come(), second = Come(), third = Come();
  const auto fourth = Come(2);
  EXPECT_TRUE(first->cut && second->cut);
  EXPECT_FALSE(third->cut || fourth->cut);
  EXPECT_EQ(guard_.size(), 2);
}

TEST_F(ConnectionGuardTest, RoomForAFileIsMadeByAnyoneButTheOneThatHasJustCome) {
  EXPECT_FALSE(guard_.CutOne(GrpcCut::kDescriptors));
  const auto only = Come();
  EXPECT_FALSE(guard_.CutOne(GrpcCut::kDescriptors, only.get()));
  const auto second = Come();
  EXPECT_TRUE(guard_.CutOne(GrpcCut::kDescriptors, only.get()));
  EXPECT_EQ(second->cut, GrpcCut::kDescriptors);
  EXPECT_EQ(Count(GrpcCut::kDescriptors), 1);
}

TEST_F(ConnectionGuardTest, APeerThatComesAgainFromTheSamePortHasAnAccountOfItsOwn) {
  const auto first = Come();
  const auto old_account = guard_.Find(first->peer());
  const auto again = std::make_shared<Peer>(first->peer());
  guard_.Add(again, 4);
  guard_.Remove(*first);
  const auto account = guard_.Find(again->peer());
  ASSERT_NE(account, nullptr);
  EXPECT_NE(account, old_account);
  EXPECT_FALSE(first->cut);
  EXPECT_EQ(guard_.size(), 1);
}

TEST_F(ConnectionGuardTest, CallsMayComeAndEndWhileConnectionsComeAndGo) {
  std::vector<std::shared_ptr<Peer>> peers;
  for (int i = 0; i < 4; ++i) peers.push_back(Come());
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto account = guard_.Find("ipv4:10.0.0.7:" + std::to_string(1 + (i + t) % 40));
        if (account == nullptr) continue;
        account->CallCame();
        account->CallEnded();
      }
    });
  }
  for (int i = 0; i < 1000; ++i) peers.push_back(Come());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guard_.size(), 4);
  EXPECT_EQ(Count(GrpcCut::kConnections), 1000);
}

}  // namespace
}  // namespace cellbatch

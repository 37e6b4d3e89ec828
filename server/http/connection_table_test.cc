#include "server/http/connection_table.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

class Client final : public ConnectionTable::Entry {
 public:
  explicit Client(ConnectionTable& table) : table_(table) {}
  void Cut(HttpCut reason) override {
    cut = reason;
    table_.Remove(*this);
  }
  std::optional<HttpCut> cut;

 private:
  ConnectionTable& table_;
};

class ConnectionTableTest : public ::testing::Test {
 protected:
  std::shared_ptr<Client> Come() {
    auto client = std::make_shared<Client>(table_);
    EXPECT_TRUE(table_.Add(client));
    return client;
  }
  static int64_t Count(const HttpCounts& counts, HttpCut reason) {
    return counts.cut[static_cast<size_t>(reason)];
  }

  HttpCounts counts_;
  ConnectionTable table_{4, 1000, counts_};
};

TEST_F(ConnectionTableTest, WhoeverComesWhenAllPlacesAreTakenTakesTheLongestIdleOnes) {
  const auto oldest = Come(), idle = Come(), idle_later = Come(), other = Come();
  table_.Move(*idle_later, HttpStage::kIdle);
  table_.Move(*idle, HttpStage::kIdle);
  table_.Move(*idle, HttpStage::kHead);
  table_.Move(*idle, HttpStage::kIdle);
  const auto fifth = Come();
  EXPECT_EQ(idle_later->cut, HttpCut::kConnections);
  const auto sixth = Come();
  EXPECT_EQ(idle->cut, HttpCut::kConnections);
  EXPECT_FALSE(oldest->cut || other->cut || fifth->cut);
  EXPECT_EQ(table_.size(), 4);
  EXPECT_EQ(Count(counts_, HttpCut::kConnections), 2);
}

TEST_F(ConnectionTableTest, ThenTheOldestUnfinishedOneAndNeverOneThatIsBeingAnswered) {
  const auto answered = Come(), first = Come(), second = Come(), third = Come();
  table_.Move(*answered, HttpStage::kAnswer);
  table_.Move(*first, HttpStage::kBody);  // which makes it no younger
  const auto fifth = Come();
  EXPECT_EQ(first->cut, HttpCut::kConnections);
  const auto sixth = Come();
  EXPECT_EQ(second->cut, HttpCut::kConnections);
  table_.Move(*answered, HttpStage::kReply);  // its client has the time that others have
  const auto seventh = Come();
  EXPECT_EQ(third->cut, HttpCut::kConnections);
  EXPECT_FALSE(answered->cut || fifth->cut || sixth->cut || seventh->cut);
}

TEST_F(ConnectionTableTest, SomePlacesAreKeptFromThoseThatAreBeingAnswered) {
  std::vector<std::shared_ptr<Client>> clients;
  while (table_.MayAnswer()) {
    clients.push_back(Come());
    table_.Move(*clients.back(), HttpStage::kAnswer);
  }
  EXPECT_EQ(clients.size(), 3u);
  const auto probe = Come(), next_probe = Come();
  EXPECT_EQ(probe->cut, HttpCut::kConnections);
  EXPECT_FALSE(next_probe->cut);
  for (const auto& client : clients) EXPECT_FALSE(client->cut);
}

TEST_F(ConnectionTableTest, HeldBytesBeyondTheBoundCutTheOldestThatHoldAny) {
  const auto holds_nothing = Come(), old = Come(), young = Come();
  table_.Move(*old, HttpStage::kBody);
  table_.Move(*young, HttpStage::kBody);
  table_.Hold(*old, 600);
  table_.Hold(*young, 400);
  EXPECT_FALSE(old->cut);
  table_.Hold(*young, 401);
  EXPECT_EQ(old->cut, HttpCut::kBytes);
  EXPECT_FALSE(holds_nothing->cut || young->cut);
  EXPECT_EQ(counts_.held_bytes, 401);
  table_.Hold(*young, 1001);
  EXPECT_EQ(young->cut, HttpCut::kBytes);
  EXPECT_EQ(counts_.held_bytes, 0);
}

TEST_F(ConnectionTableTest, AReplyIsNotThrownAwayForItsOwnSize) {
  const auto body = Come(), reply = Come();
  table_.Move(*body, HttpStage::kBody);
  table_.Hold(*body, 10);
  table_.Move(*reply, HttpStage::kAnswer);
  table_.Move(*reply, HttpStage::kReply);
  table_.Hold(*reply, 5000);
  EXPECT_TRUE(body->cut.has_value());
  EXPECT_FALSE(reply->cut);
}

TEST_F(ConnectionTableTest, TheOneThatHasJustComeIsSpared) {
  const auto only = Come();
  EXPECT_FALSE(table_.CutOne(HttpCut::kDescriptors, only.get()));
  const auto next = Come();
  EXPECT_TRUE(table_.CutOne(HttpCut::kDescriptors, next.get()));
  EXPECT_EQ(only->cut, HttpCut::kDescriptors);
  EXPECT_FALSE(next->cut);
}

}  // namespace
}  // namespace cellbatch

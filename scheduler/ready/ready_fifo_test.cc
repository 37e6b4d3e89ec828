#include "scheduler/ready/ready_fifo.h"

#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "cells/any_cell.h"
#include "cells/cell_definition.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

CellType NodeType() {
  const std::vector<Column> y = {{"y", ElementType::kFp32, 4}};
  CellType type;
  type.id = CellTypeId(0);
  type.definition = testing::AnyCell("node", {{"x", y, Arity::kOne}}, y);
  type.in = {TableId(0)};
  type.out = TableId(1);
  return type;
}

// A FIFO of single nodes beside the obvious one, through every way an entry comes and goes.
class FifoTest : public ::testing::Test {
 protected:
  static constexpr int kRecords = 20'000;
  explicit FifoTest(int32_t capacity = 4096)
      : fifo_(TypeShape(NodeType()), capacity), records_(kRecords) {
    for (NodeRecord& r : records_) {
      r.length = 1;
      r.state = NodeState::kBlocked;
      idle_.push_back(&r);
    }
  }

  bool Push() {
    if (idle_.empty()) return false;
    fifo_.Push(*idle_.front(), block_);
    expected_.push_back(idle_.front());
    idle_.pop_front();
    return true;
  }
  void Pop() {
    const ReadyEntry head = fifo_.Head();
    ASSERT_EQ(head.record, expected_.empty() ? nullptr : expected_.front());
    if (head.record == nullptr) return;
    fifo_.PopHead();
    idle_.push_back(head.record);
    expected_.pop_front();
  }
  void TakeOut(size_t at) {
    NodeRecord* const r = expected_[at];
    fifo_.Remove(*r);
    idle_.push_back(r);
    expected_.erase(expected_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void ExpectSame() {
    EXPECT_EQ(fifo_.nodes(), static_cast<int32_t>(expected_.size()));
    std::vector<NodeRecord*> seen;
    fifo_.ForEach([&](const ReadyEntry& e) { seen.push_back(e.record); });
    EXPECT_EQ(seen, std::vector<NodeRecord*>(expected_.begin(), expected_.end()));
  }

  ReadyFifo fifo_;
  RequestBlock block_;
  std::vector<NodeRecord> records_;
  std::deque<NodeRecord*> idle_, expected_;
};

TEST_F(FifoTest, OrderSurvivesGrowingPastItsMemoryAndEmptyingAgain) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 700; ++i) Push();
    for (int i = 0; i < 500; ++i) Pop();  // so that it wraps before it is longer
    while (Push()) {
    }
    ExpectSame();
    while (!expected_.empty()) Pop();
    Pop();
    ExpectSame();
  }
}

TEST_F(FifoTest, HolesAreClosedInsteadOfGrowing) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 1000; ++i) Push();
    while (expected_.size() > 60) TakeOut(random() % expected_.size());
    ExpectSame();
  }
}

TEST_F(FifoTest, RandomPushesPopsAndRemovals) {
  constexpr uint32_t kSeed = 20260102;
  std::mt19937 random(kSeed);
  for (int phase = 0; phase < 60; ++phase) {
    const uint32_t pushes = 20 + random() % 70;  // of a hundred
    for (int i = 0; i < 700; ++i) {
      const uint32_t what = random() % 100;
      if (what < pushes) {
        Push();
      } else if (what % 2 == 0 || expected_.empty()) {
        Pop();
      } else {
        TakeOut(random() % expected_.size());
      }
    }
    ExpectSame();
    ASSERT_FALSE(HasFailure()) << "seed " << kSeed << " phase " << phase;
  }
}

// What joins next is decided by it: were it not taken back, there would be no bound to who joins.
TEST(GivenWayTest, AChainThatGaveItsPlaceAwayIsCountedWhileItWaits) {
  const std::vector<Column> y = {{"y", ElementType::kFp32, 4}};
  CellType type = NodeType();
  type.definition =
      testing::AnyCell("chain", {{"x", y, Arity::kOne}, {"before", y, Arity::kOne}}, y, InputId(1));
  type.in = {TableId(0), TableId(1)};
  ReadyFifo fifo(TypeShape(type), 64);
  RequestBlock block;
  std::vector<NodeRecord> records(4);
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].length = 10;
    records[i].next = static_cast<int32_t>(i);  // the first one has not run
  }
  for (NodeRecord& r : records) fifo.Push(r, block);
  EXPECT_EQ(fifo.nodes(), 4);
  EXPECT_EQ(fifo.given_way(), 3);
  for (const int32_t left : {3, 2}) {
    EXPECT_NE(fifo.Head().record, nullptr);
    fifo.PopHead();
    EXPECT_EQ(fifo.given_way(), left);
  }
  fifo.Remove(records[3]);
  EXPECT_EQ(fifo.given_way(), 1);
  fifo.CountIn(records[1]);
  EXPECT_EQ(fifo.given_way(), 2);
  fifo.CountOut(records[1]);
  fifo.Remove(records[2]);
  EXPECT_EQ(fifo.given_way(), 0);
  EXPECT_EQ(fifo.nodes(), 0);
}

}  // namespace
}  // namespace cellbatch

// Claims about requests whose graphs grow by pieces.
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int32_t kSteps = 6;

// A leaf, then pieces of one pair each over the newest two states; at most kSteps of them. Every state
// is returned.
class GrowthTest : public ::testing::Test {
 protected:
  explicit GrowthTest(WorldOptions options = {}) : world_(options) { world_.Add(model_); }

  std::unique_ptr<Request> Make() {
    return world_.Make(model_, [&](CellGraph& g) {
      Growth most;
      most.pieces = kSteps;
      most.nodes = kSteps;
      most.rows = {0, kSteps};
      g.Grow(std::move(most));
      const SubgraphId leaf = g.Add(kLeaf, 1, {{.from = world_.Tokens(g, 1), .input = kIn0}});
      g.Return(leaf, kH, {}, {.tensor = g.AddTensor("H", WireType::kFp32, {kSteps + 1, 4})});
    });
  }
  // The next pair; `grow` false: the last one.
  static void AddPair(Request& request, bool grow = true) {
    CellGraph& g = request.graph;
    const int64_t newest = static_cast<int64_t>(g.subgraphs().size()) - 1;
    const SubgraphId pair =
        g.Add(kPair, 1,
              {{.from = SubgraphId(newest), .input = kIn0},
               {.from = SubgraphId(std::max<int64_t>(newest - 1, 1)), .input = kIn1}});
    g.Return(pair, kH, {}, {.tensor = 0, .offset_bytes = 16 * newest});
    if (!grow) g.CloseGrowth();
    const absl::Status sealed = g.Seal(*request.model, 2);
    ASSERT_TRUE(sealed.ok()) << sealed;
  }
  // Runs until something is delivered; that.
  Delivery Next() {
    for (;;) {
      Delivery one;
      if (world_.scheduler().Take(OutboxId(0), absl::MakeSpan(&one, 1)) == 1) return one;
      if (!world_.Step()) {
        ADD_FAILURE() << "nothing is delivered";
        return one;
      }
    }
  }

  void RunThreePiecesMore();

  std::shared_ptr<Model> model_ = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
  World world_;
};

std::vector<float> State(const Request& request, int i) {
  std::vector<float> h(4);
  std::memcpy(h.data(), request.graph.tensors()[0].bytes.data() + 16 * i, 16);
  return h;
}

void GrowthTest::RunThreePiecesMore() {
  world_.Submit(Make(), 7);
  int64_t rows = 0;
  for (int piece = 0; piece < 3; ++piece) {
    const Delivery d = Next();
    ASSERT_EQ(d.kind, Delivery::Kind::kPiece);
    EXPECT_EQ(d.done, nullptr);
    EXPECT_EQ(d.request->tag, 7u);
    EXPECT_NE(State(*d.request, piece), std::vector<float>(4, 0)) << "what it left may be read";
    EXPECT_EQ(State(*d.request, piece + 1), std::vector<float>(4, 0));
    if (piece == 0) rows = world_.RowsUsed();
    EXPECT_EQ(world_.RowsUsed(), rows) << "reserved at once, and kept";
    EXPECT_EQ(rows, 1 + 1 + kSteps);
    EXPECT_TRUE(world_.scheduler().CheckInvariants().ok());
    AddPair(*d.request, /*grow=*/piece < 2);
    world_.scheduler().Extended(*d.request, absl::OkStatus());
  }
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_TRUE(d.done->status.ok()) << d.done->status;
  EXPECT_EQ(d.done->nodes_executed, 4);
  EXPECT_EQ(d.done->times.last_task_end - d.done->times.first_task_start, 4 * 1000)
      << "from the first piece's start to the last one's end";
  world_.ExpectClean();
}

TEST_F(GrowthTest, PiecesRunOneAfterTheOtherOnTheSameRowsAndTheLastOneAnswers) {
  RunThreePiecesMore();
}

class HostBlocksTest : public GrowthTest {
 protected:
  static WorldOptions Apart(std::shared_ptr<SimHostBlocks> blocks) {
    WorldOptions options;
    options.host_blocks = std::move(blocks);
    return options;
  }
  explicit HostBlocksTest(std::shared_ptr<SimHostBlocks> blocks = std::make_shared<SimHostBlocks>())
      : GrowthTest(Apart(blocks)), blocks_(std::move(blocks)) {}
  const std::shared_ptr<SimHostBlocks> blocks_;
};

TEST_F(HostBlocksTest, SoDoTheyWhereDevicesReachHostBlocksOnly) {
  RunThreePiecesMore();
  EXPECT_EQ(blocks_->bytes_in_use(), 0);
}

TEST_F(HostBlocksTest, WhatEachPieceBringsGoesBackWithIt) {
  world_.Submit(world_.Make(model_,
                            [&](CellGraph& g) {
                              Growth most;
                              most.pieces = most.nodes = 2;
                              most.rows = {2, 2};
                              g.Grow(std::move(most));
                              g.Add(kLeaf, 1, {{.from = world_.Tokens(g, 1), .input = kIn0}});
                            }),
                1);
  for (int piece = 0; piece < 2; ++piece) {
    const Delivery d = Next();
    ASSERT_EQ(d.kind, Delivery::Kind::kPiece);
    CellGraph& g = d.request->graph;
    g.Add(kLeaf, 1, {{.from = world_.Tokens(g, 1), .input = kIn0}});
    if (piece == 1) g.CloseGrowth();
    const absl::Status sealed = g.Seal(*model_, 2);
    ASSERT_TRUE(sealed.ok()) << sealed;
    world_.scheduler().Extended(*d.request, absl::OkStatus());
  }
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_TRUE(d.done->status.ok()) << d.done->status;
  EXPECT_EQ(d.done->nodes_executed, 3);
  EXPECT_EQ(blocks_->bytes_in_use(), 0);
}

TEST_F(HostBlocksTest, WhatExtendWritesIntoTheAnswerStays) {
  world_.Submit(Make(), 1);
  const Delivery first = Next();
  ASSERT_EQ(first.kind, Delivery::Kind::kPiece);
  const std::vector<float> mine(4, 8.5f);
  std::memcpy(first.request->graph.tensors()[0].bytes.data() + 16 * kSteps, mine.data(), 16);
  AddPair(*first.request, /*grow=*/false);
  world_.scheduler().Extended(*first.request, absl::OkStatus());
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_EQ(State(*d.done, kSteps), mine);
  EXPECT_NE(State(*d.done, 1), std::vector<float>(4, 0));
}

TEST_F(GrowthTest, NothingAddedIsTheEnd) {
  world_.Submit(Make(), 1);
  world_.scheduler().Extended(*Next().request, absl::OkStatus());
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_TRUE(d.done->status.ok());
  EXPECT_EQ(d.done->nodes_executed, 1);
  world_.ExpectClean();
}

TEST_F(GrowthTest, AnErrorOfTheUnfolderIsTheAnswer) {
  world_.Submit(Make(), 1);
  world_.scheduler().Extended(*Next().request, absl::InvalidArgumentError("a stack of nothing"));
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_EQ(d.done->status, absl::InvalidArgumentError("a stack of nothing"));
  world_.ExpectClean();
}

TEST_F(GrowthTest, ACancelBetweenPiecesFreesTheRowsAtOnceAndAnswersWhenItsTakerIsDoneWithIt) {
  for (const bool adds : {false, true}) {
    const RequestId id = world_.Submit(Make(), 1);
    Request& request = *Next().request;
    world_.scheduler().Notify(id, News::kCancelled);
    world_.scheduler().Notify(id, News::kExpired);
    world_.Run();
    EXPECT_EQ(world_.RowsUsed(), 0);
    EXPECT_TRUE(world_.Deliveries().empty()) << "it is still its taker's";
    if (adds) AddPair(request);
    world_.scheduler().Extended(request, absl::OkStatus());
    const Delivery d = Next();
    ASSERT_EQ(d.kind, Delivery::Kind::kDone);
    EXPECT_EQ(d.done->status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(d.done->nodes_executed, 1);
    world_.ExpectClean();
  }
}

TEST_F(GrowthTest, ACancelWhileTheLastTaskOfAPieceRunsEndsTheRequest) {
  const RequestId id = world_.Submit(Make(), 1);
  world_.scheduler().StepManager();  // its only node is submitted: it drains
  world_.scheduler().Notify(id, News::kCancelled);
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_EQ(d.done->status.code(), absl::StatusCode::kCancelled);
  world_.ExpectClean();
}

TEST_F(GrowthTest, APieceThatATaskCouldNotCarryIsTheErrorOfItsRequest) {
  world_.Submit(Make(), 1);
  Request& request = *Next().request;
  const SubgraphId pair = request.graph.Add(kPair, 1, {{.from = SubgraphId(1), .input = kIn0}});
  for (int i = 0; i < 17; ++i) {
    request.graph.Return(pair, kH, {}, {.tensor = 0, .offset_bytes = 16});
  }
  ASSERT_TRUE(request.graph.Seal(*request.model, 2).ok());
  world_.scheduler().Extended(request, absl::OkStatus());
  const Delivery d = Next();
  EXPECT_EQ(d.done->status,
            absl::InvalidArgumentError("subgraph 0 returns a node 17 times; 16 fit"));
  world_.ExpectClean();
}

TEST_F(GrowthTest, StopAnswersWhoIsBetweenPiecesOnceItsTakerIsDoneWithIt) {
  world_.Submit(Make(), 1);
  world_.Submit(Make(), 2);
  Request& taken = *Next().request;
  world_.Run();  // the other one's piece lies in the outbox
  world_.scheduler().Stop();
  AddPair(taken);
  world_.scheduler().Extended(taken, absl::OkStatus());
  int answered = 0;
  for (int i = 0; i < 3; ++i) {
    for (const Delivery& d : world_.Deliveries()) {
      if (d.kind == Delivery::Kind::kPiece) {
        world_.scheduler().Extended(*d.request, absl::OkStatus());
        continue;
      }
      ++answered;
      EXPECT_EQ(d.done->status.code(), absl::StatusCode::kUnavailable);
    }
  }
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(world_.RowsUsed(), 0);
}

TEST_F(GrowthTest, ARemovedModelWaitsForNobodyWhoseTakerKeepsHim) {
  world_.Submit(Make(), 1);
  Request& taken = *Next().request;
  ASSERT_TRUE(world_.Remove(model_->id).ok());
  EXPECT_TRUE(world_.scheduler().stats().Lanes().empty());
  EXPECT_TRUE(world_.Deliveries().empty()) << "it is still its taker's";
  AddPair(taken);
  world_.scheduler().Extended(taken, absl::OkStatus());
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_EQ(d.done->status, absl::UnavailableError("the model version was unloaded"));
}

class TwoDevicesTest : public GrowthTest {
 protected:
  static WorldOptions TwoDevices() {
    WorldOptions options;
    options.devices = 2;
    return options;
  }
  TwoDevicesTest() : GrowthTest(TwoDevices()) {}
};

TEST_F(TwoDevicesTest, BetweenPiecesADeviceThatFailsTakesNobodyWithItWhileAnotherOneIsLeft) {
  world_.Submit(Make(), 1);
  Request& request = *Next().request;
  world_.device(0).Fail(absl::InternalError("out of smoke"));
  world_.Run();
  AddPair(request);
  world_.scheduler().Extended(request, absl::OkStatus());
  ASSERT_EQ(Next().kind, Delivery::Kind::kPiece);
  world_.device(1).Fail(absl::InternalError("this one too"));
  world_.Run();
  EXPECT_EQ(world_.RowsUsed(), 0);
  world_.scheduler().Extended(request, absl::OkStatus());
  const Delivery d = Next();
  ASSERT_EQ(d.kind, Delivery::Kind::kDone);
  EXPECT_EQ(d.done->status.code(), absl::StatusCode::kInternal);
}

// The second worker was not busy when they came, so half of them run there; what they go on with is divided anew.
TEST_F(TwoDevicesTest, PiecesGoToWhoHasLeastOfTheirKindToDo) {
  for (uint64_t i = 0; i < 12; ++i) world_.Submit(Make(), i);
  world_.Run();
  std::vector<Delivery> pieces = world_.Deliveries();
  ASSERT_EQ(pieces.size(), 12u);
  const auto tasks = [&](size_t device) {
    return world_.scheduler().stats().Devices()[device].tasks;
  };
  const uint64_t before[] = {tasks(0), tasks(1)};
  for (const Delivery& d : pieces) {
    AddPair(*d.request, /*grow=*/false);
    world_.scheduler().Extended(*d.request, absl::OkStatus());
  }
  world_.scheduler().StepManager();  // all of them, before anybody could steal
  world_.Run();
  EXPECT_EQ(world_.Deliveries().size(), 12u);
  EXPECT_EQ(tasks(0) - before[0], 2u) << "six in tasks of four";
  EXPECT_EQ(tasks(1) - before[1], 2u);
  world_.ExpectClean();
}

// As few rows as one request may need: a second one waits in line until the first has left.
TEST(GrowthRowsTest, ARequestThatGrowsNeverWaitsForRowsOnceItRuns) {
  WorldOptions options;
  options.scheduler.row_budget_bytes = 2048;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const int32_t most = world.scheduler().MaxRowsPerRequest(ModelId(1))[kState.value()];
  const auto make = [&] {
    return world.Make(model, [&](CellGraph& g) {
      Growth grow;
      grow.pieces = most - 1;
      grow.nodes = most - 1;
      grow.rows = {0, most - 1};
      g.Grow(std::move(grow));
      g.Add(kLeaf, 1, {{.from = world.Tokens(g, 1), .input = kIn0}});
    });
  };
  for (uint64_t i = 0; i < 3; ++i) world.Submit(make(), i);
  int answered = 0;
  std::vector<uint64_t> order;
  while (answered < 3) {
    ASSERT_TRUE(world.Step() || world.Step());
    const auto all = world.Deliveries();
    EXPECT_LE(all.size(), 1u) << "only one of them has rows";
    for (const Delivery& d : all) {
      order.push_back(d.request->tag);
      if (d.kind == Delivery::Kind::kDone) {
        EXPECT_TRUE(d.done->status.ok()) << d.done->status;
        EXPECT_EQ(d.done->nodes_executed, most);
        ++answered;
        continue;
      }
      CellGraph& g = d.request->graph;
      if (g.pieces() < most) {
        const SubgraphId newest(static_cast<int64_t>(g.subgraphs().size()) - 1);
        g.Add(kPair, 1, {{.from = newest, .input = kIn0}});
        const absl::Status sealed = g.Seal(*model, 2);
        ASSERT_TRUE(sealed.ok()) << sealed;
      }
      world.scheduler().Extended(*d.request, absl::OkStatus());
    }
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  world.ExpectClean();
}

TEST_F(GrowthTest, APieceThatNobodyTookGoesWithTheScheduler) {
  const auto users = model_.use_count();
  auto world = std::make_unique<World>();
  world->Add(model_);
  world->Submit(Make(), 1);
  world->Run();  // to where it waits for its next piece
  EXPECT_GT(model_.use_count(), users);
  world.reset();
  EXPECT_EQ(model_.use_count(), users);
}

}  // namespace
}  // namespace cellbatch

// Claims about what the processor does to requests, seen between its calls: no manager, no device. The test makes
// tasks of what is ready, says when they are done, and writes the words that a device would have written.
#include "scheduler/request_processor.h"

#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/check.h"
#include "cells/device/sim/sim_memory.h"
#include "gtest/gtest.h"
#include "scheduler/answer_sink.h"
#include "scheduler/batch_former.h"
#include "scheduler/policy/whole_graphs.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int kDepth = 4;
constexpr int32_t kStopWord = 3;

// A taker as quick as can be: what was answered is its own at once, and it writes over the block.
class QuickTaker final : public AnswerSink {
 public:
  void Tell(RequestBlock& /*block*/, uint8_t /*what*/) override {}
  void Answer(RequestBlock& block) override {
    block.last_end_ns = -7;
    // The next request's, say, whose memory it may be from now on.
    block.state = RequestState::kDraining;
    block.memory = 0;
    std::memcpy(&taken_.emplace_back().bytes, static_cast<void*>(&block), sizeof(RequestBlock));
    taken_.back().block = &block;
  }
  size_t answered() const { return taken_.size(); }
  // Whether every block is as this taker left it.
  bool Undisturbed() const {
    for (const Taken& t : taken_) {
      if (std::memcmp(t.bytes, static_cast<const void*>(t.block), sizeof(RequestBlock)) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Taken {
    RequestBlock* block;
    std::byte bytes[sizeof(RequestBlock)];
  };
  std::vector<Taken> taken_;
};

class RequestProcessorTest : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 2;
  explicit RequestProcessorTest(LaneRules rules = nullptr)
      : slab_(64), model_(MakeModel(ModelId(1), {64, 64, 64, 64, 64})) {
    options_.batch_limit = 64;
    options_.max_requests = 64;
    options_.calibrate = false;
    const RowBudget budget{std::vector<int32_t>(model_->tables.size(), 4096)};
    auto there = memory_.Load(*model_, budget);
    Check(there.ok(), "the model does not load");
    std::vector<Lane::Loaded> loaded;
    loaded.push_back({*std::move(there), std::make_unique<StateArena>(budget.rows)});
    const std::vector<int> memory_of(kWorkers, 0);
    lane_ = std::make_unique<Lane>(0, 1, model_, std::move(rules), std::move(loaded), memory_of,
                                   options_);
    lane_->Open();
    lanes_ = {lane_.get()};
    for (int w = 0; w < kWorkers; ++w) {
      const int64_t bytes = TaskRing::BytesNeeded(kDepth, options_.batch_limit);
      ring_memory_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes)));
      rings_.push_back(std::make_unique<TaskRing>(
          absl::MakeSpan(ring_memory_.back().get(), static_cast<size_t>(bytes)), kDepth,
          options_.batch_limit));
      links_.push_back({rings_.back().get(), /*memory=*/0});
    }
    processor_ = std::make_unique<RequestProcessor>(absl::MakeSpan(links_), lanes_, taker_,
                                                    options_.max_requests);
    former_ = std::make_unique<BatchFormer>(options_.batch_limit, options_.chain_turn);
  }

  RequestBlock& Join(const std::function<void(CellGraph&)>& fill, int worker = 0) {
    requests_.push_back(std::make_unique<Request>());
    Request& request = *requests_.back();
    request.model = model_;
    fill(request.graph);
    Check(request.graph.Seal(*model_, kDepth).ok(), "the graph is wrong");
    const auto slot = static_cast<uint32_t>(requests_.size() - 1);
    RequestBlock* block = nullptr;
    Check(BuildBlock(request, kDepth, /*facts=*/false, slab_.of(slot), &block).ok(), "no block");
    block->slot = slot;
    processor_->Arrived(*block);
    Check(processor_->Join(*lane_, *block, worker), "no rows");
    return *block;
  }

  // Forms and submits a task; returns its sequence.
  uint64_t Submit(CellTypeId type, int worker = 0) {
    TaskRing& ring = *rings_[static_cast<size_t>(worker)];
    ReadyQueue& queue = lane_->queue(worker, static_cast<int>(type.value()));
    former_->Form(queue, *lane_->loaded(0).model, worker, options_.batch_limit, ring);
    ring.Next().notes->lane = lane_.get();
    ring.Next().notes->queue = &queue;
    const uint64_t sequence = ring.next_sequence();
    ring.Submit();
    lane_->TaskSubmitted(worker);
    queue.TaskSubmitted(static_cast<uint32_t>(sequence));
    processor_->Submitted(*lane_, former_->facts(), worker, static_cast<uint32_t>(sequence));
    return sequence;
  }

  void Done(uint64_t sequence, int worker = 0) {
    TaskRing& ring = *rings_[static_cast<size_t>(worker)];
    ring.Retire(sequence);
    const TaskSlot& slot = ring.slot(sequence);
    slot.task->start_ns = 1;
    slot.task->end_ns = 2;
    slot.notes->queue->TaskRetired();
    lane_->TaskRetired();
    processor_->TaskDone(slot, worker);
  }

  // What the device leaves in the word column of the task's i-th node.
  void Write(uint64_t sequence, size_t i, int32_t word) {
    const BatchedTask& task = *rings_[0]->slot(sequence).task;
    const absl::Span<const int32_t> column = lane_->loaded(0).model->host_column(kWords, kWord);
    const_cast<int32_t*>(column.data())[task.output_rows[i]] = word;
  }

  SimMemory memory_;
  BlockSlab slab_;
  SchedulerOptions options_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Lane> lane_;
  std::vector<Lane*> lanes_;
  std::vector<std::unique_ptr<std::byte[]>> ring_memory_;
  std::vector<std::unique_ptr<TaskRing>> rings_;
  std::vector<WorkerLink> links_;
  QuickTaker taker_;
  std::unique_ptr<RequestProcessor> processor_;
  std::unique_ptr<BatchFormer> former_;
  std::vector<std::unique_ptr<Request>> requests_;
};

// Two stopping chains in one request: the second stopped a task ago and ran on into this task, the first stops
// here. The request is answered while the second one's node of this task has still to be discarded.
TEST_F(RequestProcessorTest, AnAnswerIsTheLastThatIsDoneToARequest) {
  RequestBlock& block = Join([](CellGraph& g) {
    for (int chain = 0; chain < 2; ++chain) {
      const SubgraphId words =
          g.Add(kDecoder, 40, {{.from = kZeroSource, .input = kIn0}}, Stop{kWord, kStopWord});
      g.Return(words, kWord, {0, 40},
               {.tensor = g.AddTensor("WORDS", WireType::kInt32, {40}), .stride_bytes = 4});
    }
  });
  const uint64_t first = Submit(kDecoder);
  const uint64_t second = Submit(kDecoder);
  ASSERT_EQ(rings_[0]->slot(second).task->num_nodes, 2);
  Write(first, 0, 5);
  Write(first, 1, kStopWord);
  Done(first);
  EXPECT_EQ(taker_.answered(), 0u);
  Write(second, 0, kStopWord);
  Write(second, 1, 5);
  Done(second);
  EXPECT_EQ(taker_.answered(), 1u);
  EXPECT_TRUE(taker_.Undisturbed()) << "the processor wrote to a request that was its taker's";
  EXPECT_EQ(block.overrun_nodes, 1);
}

TEST_F(RequestProcessorTest, AStealCountsNodesASetOf19Counts19) {
  for (int i = 0; i < 10; ++i) {
    Join([](CellGraph& g) {
      const SubgraphId set = g.Add(kLeaf, 19, {{.from = kZeroSource, .input = kIn0}});
      g.Return(set, kH, {}, {.tensor = g.AddTensor("OUT", WireType::kFp32, {4})});
    });
  }
  ASSERT_EQ(lane_->queue(0, 1).ready(), 190);
  EXPECT_EQ(processor_->Steal(*lane_, 1, /*victim=*/0, /*thief=*/1, 95), 95);
  EXPECT_EQ(lane_->queue(0, 1).ready(), 95);
  EXPECT_EQ(lane_->queue(1, 1).ready(), 95);
  // A set is not split: the next one would be more than asked for. Of a victim's only set something is taken, though.
  EXPECT_EQ(processor_->Steal(*lane_, 1, 0, 1, 30), 19);
  EXPECT_EQ(processor_->Steal(*lane_, 1, 0, 1, 5), 19);
}

class LeavingTogetherTest : public RequestProcessorTest {
 protected:
  LeavingTogetherTest()
      : RequestProcessorTest(LaneRules(nullptr, std::make_unique<const WholeGraphs>(
                                                    8, GraphBatching{.leave_together = true}))) {}
};

// Of a batch, one is between two pieces and the other is done and waits for it. The last device fails: the first is withdrawn, so the
// second is answered.
TEST_F(LeavingTogetherTest, WhoIsAnsweredBecauseAnotherIsWithdrawnIsNotLookedAtAgain) {
  const auto leaf = [](CellGraph& g) {
    const SubgraphId set = g.Add(kLeaf, 1, {{.from = kZeroSource, .input = kIn0}});
    g.Return(set, kH, {}, {.tensor = g.AddTensor("OUT", WireType::kFp32, {4})});
  };
  RequestBlock& grows = Join([&](CellGraph& g) {
    Growth most;
    most.pieces = most.nodes = 2;
    most.rows = {0, 2};
    g.Grow(std::move(most));
    leaf(g);
  });
  RequestBlock& done = Join(leaf);
  Done(Submit(kLeaf));
  ASSERT_EQ(grows.state, RequestState::kPaused);
  ASSERT_EQ(lane_->batch()->parked(), 1);
  for (WorkerLink& link : links_) link.alive = false;
  const std::vector<RequestBlock*> running = {&grows, &done};
  processor_->Fence(0, rings_[0]->retired(), running);
  EXPECT_EQ(grows.outcome, Outcome::kDeviceFailed);
  EXPECT_EQ(taker_.answered(), 1u);
  EXPECT_TRUE(taker_.Undisturbed()) << "the processor wrote to a request that was its taker's";
}

}  // namespace
}  // namespace cellbatch

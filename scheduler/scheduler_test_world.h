// What the scheduler's tests share: a small model with a type of each sort, simulated devices in
// virtual time, and a scheduler whose steps the test makes.
#ifndef CELLBATCH_SCHEDULER_SCHEDULER_TEST_WORLD_H_
#define CELLBATCH_SCHEDULER_SCHEDULER_TEST_WORLD_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/device/sim/sim_device.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"

namespace cellbatch::scheduler_testing {

inline constexpr TableId kTokens{0}, kState{1}, kLogits{2}, kWords{3};
inline constexpr CellTypeId kChain{0}, kLeaf{1}, kPair{2}, kHead{3}, kDecoder{4};
inline constexpr InputId kIn0{0}, kIn1{1};
inline constexpr ColumnId kH{0}, kY{0}, kWord{1};

// max_batch by type; missing: 8.
std::shared_ptr<Model> MakeModel(ModelId id, std::vector<int32_t> max_batch = {});

struct WorldOptions {
  int devices = 1;
  SimCost cost = {.task_ns = 1000, .node_ns = 0};
  bool zero_cost = false;
  bool fingerprints = true;
  bool calibrate = false;
  bool threads = false;  // the scheduler's own; nobody steps, and devices move time
  std::vector<DeviceKind> kinds = {DeviceKind::kCpu};       // of memories; devices take turns
  std::function<void(SimDeviceOptions&)> device = nullptr;  // anything else of each device
  std::shared_ptr<SimHostBlocks> host_blocks = nullptr;     // of memories of the last kind
  SchedulerOptions scheduler = {};
};

class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(const SimTime& time) : time_(time) {}
  int64_t NowNs() const override { return time_.now_ns(); }

 private:
  const SimTime& time_;
};

class World {
 public:
  explicit World(WorldOptions options = {});
  ~World();

  Scheduler& scheduler() { return *scheduler_; }
  SimDevice& device(int d) { return *devices_[static_cast<size_t>(d)]; }
  SimMemory& memory(size_t m = 0) { return *memories_[m]; }
  SimTime& time() { return time_; }
  void Add(std::shared_ptr<const Model> model, LaneRules rules = nullptr);
  absl::Status TryAdd(std::shared_ptr<const Model> model, LaneRules rules = nullptr);
  absl::Status Remove(ModelId model);

  // Requests of `model`, made by `fill`; tokens() is an input subgraph of that many rows.
  std::unique_ptr<Request> Make(std::shared_ptr<const Model> model,
                                const std::function<void(CellGraph&)>& fill);
  RequestId Submit(std::unique_ptr<Request> request, uint64_t tag);
  SubgraphId Tokens(CellGraph& graph, int32_t rows);
  // A chain over its own tokens, answered by `head` of its last node.
  std::unique_ptr<Request> Sentence(std::shared_ptr<const Model> model, int32_t length);
  // A full binary tree: one set of leaves, single inner nodes, answered by `head` of the root.
  std::unique_ptr<Request> Tree(std::shared_ptr<const Model> model, int32_t leaves);
  // Words decoded from one token, up to the word `end`, at most `cap` of them.
  std::unique_ptr<Request> Decoding(std::shared_ptr<const Model> model, int32_t cap, int32_t end);

  // One step of the manager, then of each worker; moves time to the next event if none did work.
  // False: nothing is left to do.
  bool Step();
  void Run();  // until nothing is left
  // Everything that finished since the last call, in order.
  std::vector<std::unique_ptr<Request>> Finished();
  std::vector<Delivery> Deliveries();     // the same where requests stream
  std::unique_ptr<Request> TheOne();      // exactly one finished
  std::unique_ptr<Request> WaitForOne();  // with threads
  void ExpectClean();                     // no violation, no row in use, invariants hold
  int64_t RowsUsed();

 private:
  void MoveTime(bool moves);

  bool threads_ = false;
  SimTime time_;
  VirtualClock clock_{time_};
  std::vector<SimMemory*> memories_;
  std::vector<SimDevice*> devices_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<int32_t[]>> tokens_;
  int32_t next_token_ = 1;
};

}  // namespace cellbatch::scheduler_testing

#endif  // CELLBATCH_SCHEDULER_SCHEDULER_TEST_WORLD_H_

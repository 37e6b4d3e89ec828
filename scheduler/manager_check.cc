// Manager, for tests and the simulation: does everything it keeps agree with itself? Slow, obvious,
// written against the definitions and not against the code that keeps them true.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/manager.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

absl::Status Broken(const Lane& lane, const RequestBlock& block, const char* what) {
  return absl::InternalError(
      absl::StrCat("model ", lane.model().id.value(), ", slot ", block.slot, ": ", what));
}

}  // namespace

absl::Status Manager::CheckInvariants() const {
  for (size_t w = 0; w < workers_.size(); ++w) {
    const TaskRing& ring = *workers_[w].ring;
    if (ring.in_flight() > depth_) {
      return absl::InternalError(absl::StrCat("worker ", w, " has ", ring.in_flight(),
                                              " tasks in flight; ", depth_, " are allowed"));
    }
  }
  for (Lane* lane : lanes_) {
    if (lane == nullptr) continue;
    if (absl::Status s = CheckQueues(*lane); !s.ok()) return s;
    if (absl::Status s = CheckPriorities(*lane); !s.ok()) return s;
    if (absl::Status s = CheckNodes(*lane); !s.ok()) return s;
    if (absl::Status s = CheckBatch(*lane); !s.ok()) return s;
    int64_t running = 0, waiting = 0, rows = 0;
    for (uint32_t slot = 0; slot < static_cast<uint32_t>(options_.max_requests); ++slot) {
      if (!processor_.IsPresent(slot)) continue;
      const RequestBlock& block = *parts_.slots->block(slot);
      if (block.lane != lane->index() || block.lane_serial != lane->serial()) continue;
      ++(block.state == RequestState::kWaiting ? waiting : running);
      for (int32_t t = 0; t < block.num_tables && block.memory >= 0; ++t) {
        rows += block.counts()[t];
      }
      if (absl::Status s = CheckRequest(*lane, block); !s.ok()) return s;
    }
    const int64_t used = lane->memories().rows_used();
    if (running != lane->running_requests() || waiting != lane->line().size() || rows != used) {
      return absl::InternalError(absl::StrCat("model ", lane->model().id.value(), ": ", running,
                                              " requests run and ", waiting, " wait with ", rows,
                                              " rows; counted ", lane->running_requests(), ", ",
                                              lane->line().size(), " and ", used));
    }
  }
  return absl::OkStatus();
}

// What policies see of single nodes of one type, counted anew from the records.
struct Manager::CountedNodes {
  int64_t total = 0, total_depths = 0;  // of all nodes
  int64_t remaining = 0, remaining_depths = 0;
  std::map<int32_t, int64_t> heights;  // of first nodes of what remains, a set's nodes each
  std::map<int, std::map<int32_t, int64_t>> ready_heights, ready_at_depth;  // by worker
  std::map<int, int64_t> ready_depths;

  // As a policy would see it.
  TypeNodes SeenBy(int worker) {
    TypeNodes nodes;
    nodes.total = total;
    nodes.total_depths = total_depths;
    nodes.remaining = remaining;
    nodes.remaining_depths = remaining_depths;
    nodes.ready_depths = ready_depths[worker];
    if (const auto& depths = ready_at_depth[worker]; !depths.empty()) {
      std::tie(nodes.least_depth, nodes.at_least_depth) = *depths.begin();
    }
    nodes.tallest = heights.empty() ? 0 : heights.rbegin()->first;
    nodes.tops = heights[nodes.tallest];
    nodes.ready_tops = ready_heights[worker][nodes.tallest];
    return nodes;
  }
};

void Manager::CountNodes(const Lane& lane, const RequestBlock& block,
                         std::vector<CountedNodes>& counted) const {
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    const ReadyQueue& queue = lane.queue(std::max<int>(r.queue_worker, 0), r.type);
    const bool chain = queue.shape().is_chain(), running = r.state == NodeState::kRunning;
    const bool over = r.state == NodeState::kEnded || r.state == NodeState::kAwaitingStop;
    const int32_t next = over ? r.length : running ? queue.chains().NextNode(r.position) : r.next;
    const NodeFacts& facts = r.facts;
    CountedNodes& c = counted[Index(r.type)];
    for (int32_t n = 0; n < r.length; ++n) {
      const int32_t depth = facts.depth + (chain ? n : 0);
      ++c.total;
      c.total_depths += depth;
      if (n < next) continue;
      ++c.remaining;
      c.remaining_depths += depth;
      if (chain && n > next) continue;
      const int32_t height = std::max<int32_t>(1, facts.height - (chain ? n : 0));
      ++c.heights[height];
      if (!running && r.state != NodeState::kQueued) continue;
      ++c.ready_heights[r.queue_worker][height];
      ++c.ready_at_depth[r.queue_worker][std::min(depth, kMostDepth)];
      c.ready_depths[r.queue_worker] += depth;
    }
  }
}

absl::Status Manager::CheckNodes(Lane& lane) const {
  if (!lane.counts_nodes()) return absl::OkStatus();
  const size_t types = Index(lane.num_types());
  std::vector<CountedNodes> counted(types);
  for (uint32_t slot = 0; slot < static_cast<uint32_t>(options_.max_requests); ++slot) {
    if (!processor_.IsPresent(slot)) continue;
    const RequestBlock& block = *parts_.slots->block(slot);
    if (block.lane_serial != lane.serial() || block.state != RequestState::kRunning) continue;
    CountNodes(lane, block, counted);
  }
  const bool depths = lane.decider().needs() >= FrontierNeeds::kNodes;
  const auto numbers = [&](const TypeNodes& n) -> std::vector<int64_t> {
    std::vector<int64_t> all = {n.remaining, n.tallest, n.tops, n.ready_tops};
    if (depths) {
      all.insert(all.end(), {n.remaining_depths, n.ready_depths, n.total, n.total_depths});
    }
    if (lane.decider().picks_depth()) all.insert(all.end(), {n.least_depth, n.at_least_depth});
    return all;
  };
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    const Frontier frontier = lane.LookAt(w);
    for (size_t t = 0; t < types; ++t) {
      const std::vector<int64_t> are = numbers(counted[t].SeenBy(w));
      const std::vector<int64_t> seen = numbers(frontier[t].nodes);
      if (are == seen) continue;
      return absl::InternalError(absl::StrCat(
          "worker ", w, ", type ", t, ": remaining, tallest, tops, ready tops, depths of ",
          "what remains, of what is ready, total, depths, least depth, how many ",
          absl::StrJoin(are, " "), ", counted ", absl::StrJoin(seen, " ")));
    }
  }
  return absl::OkStatus();
}

// In lanes with priority levels: who waits to join, and who is ready, stands where its request's level says.
absl::Status Manager::CheckPriorities(const Lane& lane) const {
  const auto now = static_cast<int64_t>(lane.tasks_submitted());
  if (const PriorityHeap* const line = lane.line().heap()) {
    if (static_cast<int64_t>(line->size()) != lane.line().size()) {
      return absl::InternalError("a line with priority levels is miscounted");
    }
    for (const PriorityHeap::Standing& s : line->InOrder()) {
      const RequestBlock& block = *s.item.entry.block;
      const int64_t arrived =
          static_cast<int64_t>(s.item.key) - block.priority * options_.priority_ageing;
      if (block.state != RequestState::kWaiting || arrived > now ||
          block.line_position != static_cast<uint32_t>(s.handle)) {
        return Broken(lane, block, "it stands in the line where its priority does not say");
      }
    }
  }
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    for (int t = 0; t < lane.num_types(); ++t) {
      const UrgentFirst* const waiting = lane.queue(w, t).urgent_first();
      if (waiting == nullptr) continue;
      for (const PriorityHeap::Standing& s : waiting->heap().InOrder()) {
        const RequestBlock& block = *s.item.entry.block;
        const int64_t ripe_at =
            now + static_cast<int32_t>(block.ripe_at - static_cast<uint32_t>(now));
        const int64_t key = static_cast<int64_t>(s.item.key);
        const int64_t most = block.priority * options_.priority_ageing;
        if (key < ripe_at || key > std::max(now, ripe_at) || ripe_at > now + most ||
            s.item.entry.record->position != s.handle) {
          return Broken(lane, block, "a subgraph waits where its request's priority does not say");
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Manager::CheckQueues(const Lane& lane) const {
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    for (int t = 0; t < lane.num_types(); ++t) {
      const ReadyQueue& queue = lane.queue(w, t);
      int64_t nodes = 0;
      absl::Status status;
      const RequestBlock* before = nullptr;
      std::set<const RequestBlock*> begun;  // roots of a request stand side by side (BatchFormer)
      queue.ForEach([&](const ReadyEntry& e) {
        const bool parted = e.block != before && !begun.insert(e.block).second;
        if (parted && !e.block->copied) status = Broken(lane, *e.block, "its roots stand apart");
        before = e.block;
        nodes += queue.shape().is_chain() ? 1 : e.record->length - e.record->next;
        const bool listed =
            e.record->state == NodeState::kQueued || e.record->state == NodeState::kRunning;
        if (!listed || e.record->queue_worker != w || e.record->type != t) {
          status = Broken(lane, *e.block, "a queue holds a subgraph that is not queued there");
        }
        if (e.block->state != RequestState::kRunning) {
          status = Broken(lane, *e.block, "a queue holds a subgraph of a request that left");
        }
      });
      if (!status.ok()) return status;
      if (nodes > 0 && !lane.LivesOn(w)) {
        return absl::InternalError(absl::StrCat("worker ", w, ", type ", t, ": ", nodes,
                                                " nodes of a model that does not live there"));
      }
      if (nodes != queue.ready()) {
        return absl::InternalError(absl::StrCat("worker ", w, ", type ", t, ": ", nodes,
                                                " nodes ready, counted ", queue.ready()));
      }
      for (int32_t slot = 0; slot < queue.chains().size(); ++slot) {
        if (queue.chains().chain(slot).record->position == slot) continue;
        return Broken(lane, *queue.chains().chain(slot).block,
                      "a running chain is not where it says");
      }
    }
  }
  return absl::OkStatus();
}

// What ended and keeps its place is padding, and nothing else is; who is done waits for somebody; who waits to join is in
// a bucket, where there are any.
absl::Status Manager::CheckBatch(const Lane& lane) const {
  const auto broken = [&lane](int64_t are, const char* what, int64_t counted) {
    return absl::InternalError(absl::StrCat("model ", lane.model().id.value(), ": ", are, " ", what,
                                            ", counted ", counted));
  };
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    for (int t = 0; t < lane.num_types(); ++t) {
      const RunningChains& chains = lane.queue(w, t).chains();
      int64_t padding = 0;
      for (int32_t slot = 0; slot < chains.size(); ++slot) {
        if (chains.NextNode(slot) >= chains.chain(slot).record->length) ++padding;
      }
      if (padding != chains.num_padding()) {
        return broken(padding, "chains are padding", chains.num_padding());
      }
    }
  }
  if (lane.batch() == nullptr) return absl::OkStatus();
  if (const int64_t parked = lane.batch()->parked();
      parked > 0 && parked >= lane.running_requests()) {
    return broken(parked, "requests are done and wait for the others", lane.running_requests());
  }
  const LengthBuckets* const buckets = lane.batch()->buckets();
  if (buckets == nullptr) return absl::OkStatus();
  int64_t waiting = 0;
  for (uint32_t slot = 0; slot < static_cast<uint32_t>(options_.max_requests); ++slot) {
    if (!processor_.IsPresent(slot)) continue;
    const RequestBlock& block = *parts_.slots->block(slot);
    if (block.lane_serial != lane.serial() || block.state != RequestState::kWaiting) continue;
    if (!buckets->Has(block)) return Broken(lane, block, "it waits in no bucket");
    ++waiting;
  }
  return waiting == buckets->size() ? absl::OkStatus()
                                    : broken(waiting, "requests wait", buckets->size());
}

absl::Status Manager::CheckRequest(const Lane& lane, const RequestBlock& block) const {
  if (block.state == RequestState::kAnswered)
    return Broken(lane, block, "it is done and still here");
  const bool paused = block.state == RequestState::kPaused && block.outcome == Outcome::kOk;
  if (block.state != RequestState::kRunning && !paused) return absl::OkStatus();
  for (int32_t t = 0; t < block.num_tables; ++t) {
    if (block.counts()[t] == 0) continue;
    const RowPool& pool = lane.loaded(block.memory).arena->pool(TableId(t));
    if (pool.OwnerAt(block.base(TableId(t))) != block.slot) {
      return Broken(lane, block, "its rows belong to someone else");
    }
  }
  if (paused) return absl::OkStatus();  // its records are its taker's
  std::vector<int32_t> pending(Index(block.num_records), 0);
  int32_t unfinished = 0;
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    if (r.state == NodeState::kEnded) continue;
    ++unfinished;
    if (r.consumer >= 0) ++pending[Index(r.consumer)];
    if (r.more_consumers == 0) continue;
    for (int32_t reader : block.list(r.more_consumers)) ++pending[Index(reader)];
  }
  if (unfinished != block.remaining)
    return Broken(lane, block, "its unfinished subgraphs are miscounted");
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    if (r.pending != pending[Index(i)])
      return Broken(lane, block, "a subgraph's predecessors are miscounted");
    const bool blocked = r.state == NodeState::kBlocked;
    if (blocked != (r.pending > 0))
      return Broken(lane, block, "readiness and predecessors disagree");
    if ((blocked || r.state == NodeState::kConflict) && r.position >= 0 &&
        processor_.conflicts()[Index(r.position)].entry.record != &r) {
      return Broken(lane, block, "a conflict is not where it says");
    }
  }
  return absl::OkStatus();
}

}  // namespace cellbatch

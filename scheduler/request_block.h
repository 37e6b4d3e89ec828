// The manager's view of one request: a header and one 64-byte record per subgraph, in one block.
//
//   RequestBlock, bases | counts by table | copies in      roots, their types | NodeRecord 0 .. n-1 | pool
//   --------- head ------------------------------------      ------------------ body ---------------------
//
//   pool (of int32)   [inputs | more readers | NodeInfo, returns] of record 0, ... of record 1, ..
//
// Everything the manager needs of a CellGraph is compiled into it on the submitting thread, so that
// a binary tree node costs the manager one cache line: two input rows and one consumer are inline. What
// a record does not hold lies together in the pool, on a line of its own or shared with its neighbours'
// (`tail`). Between two tasks the device has filled the caches with weights, so what a node costs is
// lines: its record, its tail, its readers, and one of the header.
// Rows stay relative to the request; base(table) is added while a task is formed, so a request can
// join (or be placed) anywhere.
//
// The head lies in its slot's own memory (BlockSlab) if it fits there, as nearly all do, and so does the
// body of a small one: nothing is allocated. A larger body is owned by Request::run. So the heads, which
// every node of a request needs, lie densely, and a task that touches those of hundreds of requests
// touches few pages. After Submit the manager's alone; Take reads it when the request is done.
//
// A later piece of a graph that grows is compiled into a block of its own, of which the request's takes
// over what is below its bases (NextPiece, Adopt):
//
//   the request's   header | bases | piece 0's copies, records, pool      records, copies point
//   the piece's       -    |   -   | copies, records, pool           <--- here from then on
#ifndef CELLBATCH_SCHEDULER_REQUEST_BLOCK_H_
#define CELLBATCH_SCHEDULER_REQUEST_BLOCK_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/device/batched_task.h"
#include "cells/ids.h"
#include "scheduler/request.h"

namespace cellbatch {

inline constexpr int kMaxWorkers = 8;          // devices of one scheduler
inline constexpr int kMaxReturnsPerNode = 16;  // returned pieces that cover one node
inline constexpr int kMaxInputPieces = 2048;   // columns of request inputs of one graph

// Encodings of NodeRecord::input_row and of rows in the pool.
inline constexpr int32_t kReadsZero = -1;
inline constexpr int32_t kReadsLastOf = -2;  // -2 - r: the node where the stop of record r fell

enum class NodeState : uint8_t {
  kBlocked,  // predecessors not submitted (`position` >= 0: of two workers, its place among conflicts)
  kConflict,      // unfinished predecessors on two workers
  kQueued,        // in a FIFO: `position` is its place there
  kRunning,       // in the dense arrays of a queue: `position` is its slot
  kAwaitingStop,  // every node submitted, the stop not seen yet
  kEnded,         // readers may follow: (pin_worker, pin_sequence) is its last task
};

// What a policy may ask of a record's first node; filled in where one does (has_facts).
struct NodeFacts {
  uint32_t depth : 20;   // as it is told (cells/cell_graph_depths.h), or kMostDepth
  uint32_t height : 12;  // the most nodes of its type on a path that begins with it, or kMostHeight
  static constexpr int32_t kMostDepth = (1 << 20) - 1, kMostHeight = (1 << 12) - 1;
};

// The same of a whole block, type by type and level by level, so that joining looks at no record. Of has_facts, in the
// pool behind the root types.
struct BlockHeights {
  struct Nodes {
    int32_t type;
    int32_t count;
  };
  // So many nodes of that height could go into a task next, were they ready: chains count with their first.
  struct Tops {
    int16_t type;
    int16_t level;
    int32_t count;
  };
  absl::Span<const Nodes> nodes;
  absl::Span<const Tops> tops;
};

// One subgraph with a cell type.
struct alignas(64) NodeRecord {
  int32_t input_row[2];  // by input, of node 0, relative: cells with at most two kOne inputs
  int32_t first_row;     // relative; node t lives in first_row + t % ring
  int32_t ring;
  int32_t length;
  int32_t next;     // nodes submitted (a running chain: as of its entry in the dense arrays)
  int32_t pending;  // predecessors not submitted yet
  int32_t position;
  // Until its first task: the newest unfinished predecessor's last task. After: its own last task.
  uint32_t pin_sequence;
  int16_t type;
  int8_t pin_worker;  // -1: none
  NodeState state;
  NodeFacts facts;
  int32_t consumer;  // the first reader; -1: none
  // Pool offsets: in int32, from the block's first record.
  int32_t more_consumers;  // of {count, indices}; 0: none
  int32_t wide;            // of the inputs of cells with more, or summed, inputs; 0: none
  int32_t info;            // of NodeInfo and its returns; 0: nothing returned, no stop
  int8_t stride[2];        // of input_row, rows per node
  bool has_stop;
  int8_t queue_worker;  // while queued or running: whose queue

  // Where its part of the pool begins; 0: it has none.
  int32_t tail() const { return wide != 0 ? wide : more_consumers != 0 ? more_consumers : info; }
};
static_assert(sizeof(NodeRecord) == 64);

// A column of `count` nodes from `first` goes to dest, dest + stride, ...
struct ReturnRun {
  std::byte* dest;
  int64_t stride;
  int32_t first;
  int32_t count;
  ColumnId column;
};

// What returns or stops; in the pool, at an even offset.
struct alignas(8) NodeInfo {
  int32_t num_returns;
  int32_t stop_column;
  int32_t stop_value;
  int32_t stopped_at;  // node; -1: not yet
  int32_t counted;     // 1: the first stopping chain, whose words RequestBlock::words counts

  ReturnRun* first_return() { return reinterpret_cast<ReturnRun*>(this + 1); }
  absl::Span<const ReturnRun> returns() const {
    return {reinterpret_cast<const ReturnRun*>(this + 1), static_cast<size_t>(num_returns)};
  }
};
inline constexpr int kNodeInfoInts = sizeof(NodeInfo) / sizeof(int32_t);
inline constexpr int kReturnInts = sizeof(ReturnRun) / sizeof(int32_t);
static_assert(kNodeInfoInts % 2 == 0 && kReturnInts % 2 == 0 && alignof(ReturnRun) <= 8);

// kPaused: between two pieces, and the taker's: the manager keeps its rows, and hears news of it. Cancelled
// there, it belongs to no lane (-1), and has no rows.
enum class RequestState : uint8_t { kWaiting, kRunning, kDraining, kPaused, kAnswered };
enum class Outcome : uint8_t {
  kOk,
  kCancelled,
  kExpired,
  kDeviceFailed,
  kNoDevice,
  kStopping,
  kNoLane,
  kTooLarge,
  kBadGraph,  // Request::status says why
};

// What the request is told. `device_health` is asked if a device failed.
absl::Status StatusOf(Outcome outcome, absl::FunctionRef<absl::Status()> device_health);

struct alignas(64) RequestBlock {
  // Line 0: arriving, joining, leaving.
  Request* request;
  RequestBlock* next_starter;  // others whose first node is in the same task
  RequestBlock* next_leaver;   // others that wait for the same task to be done
  uint32_t slot;
  uint32_t generation;
  uint32_t line_position;
  uint32_t lane_serial;  // of the lane it was submitted to: indices are used again
  int32_t num_nodes;
  int32_t roots;       // pool offset of {count, record indices}: negative, they lie in front
  int32_t root_types;  // pool offset of {count, types}
  int32_t num_copies;
  int16_t lane;
  int16_t outbox;
  RequestState state;
  int8_t home;  // worker it joined on
  Outcome outcome;
  uint8_t priority;  // levels below the most urgent
  // Line 1: the rest.
  int64_t first_start_ns;
  int64_t last_end_ns;
  CopyIn* copies;  // relative rows
  int32_t num_records;
  // Where its lane has priority levels: when it counts as having arrived (waiting_line.h), in tasks of its lane, modulo
  // 2^32.
  uint32_t ripe_at;
  int32_t nodes_executed;
  int32_t overrun_nodes;
  std::atomic<int32_t> words;  // written by the manager (release) once they lie in the answer
  // What the outbox holds of a request that is told of more than once: kInOutbox while an entry of it
  // lies there untaken. The manager sets, Take clears; whoever sets it first puts the entry.
  static constexpr uint8_t kInOutbox = 1, kAnswered = 2, kPieceDone = 4;
  std::atomic<uint8_t> mail;
  bool mails;    // streams or grows (at Submit): told of by `mail`
  bool streams;  // its words are told of
  bool grows;    // another piece may follow the one that runs
  // Between pieces: what Extended made, for the manager to go on with; null: nothing more is to run.
  RequestBlock* next_piece;
  uint32_t copy_sequence;    // with `home`: the task that copied the inputs in
  int8_t memory;             // whose rows it holds; -1: none
  uint8_t num_roots_capped;  // 255: that many or more
  int16_t num_tables;
  // Line 2: submitting.
  alignas(64) uint32_t last_sequence[kMaxWorkers];  // of `touched` workers
  NodeRecord* records;
  int32_t remaining;  // records not finished
  uint8_t touched;
  bool has_stops;
  bool copied;  // its inputs, into its rows: by a task that was formed
  bool has_facts;

  // From the end of line 2 on: bases, then counts, by table.
  int32_t* bases() {
    return reinterpret_cast<int32_t*>(reinterpret_cast<std::byte*>(this) + kBasesAt);
  }
  const int32_t* bases() const { return const_cast<RequestBlock*>(this)->bases(); }
  Row base(TableId table) const { return bases()[table.value()]; }
  int32_t* counts() { return bases() + num_tables; }
  const int32_t* counts() const { return bases() + num_tables; }
  int32_t* pool() const { return reinterpret_cast<int32_t*>(records); }
  NodeInfo& info(const NodeRecord& r) const {
    return *reinterpret_cast<NodeInfo*>(pool() + r.info);
  }
  absl::Span<const int32_t> list(int32_t offset) const {
    return {pool() + offset + 1, static_cast<size_t>(pool()[offset])};
  }
  // REQUIRES: has_facts.
  BlockHeights heights() const {
    const int32_t* at = pool() + root_types + 1 + pool()[root_types];
    const auto nodes = static_cast<size_t>(at[0]), tops = static_cast<size_t>(at[1]);
    const auto* first = reinterpret_cast<const BlockHeights::Nodes*>(at + 2);
    return {{first, nodes}, {reinterpret_cast<const BlockHeights::Tops*>(first + nodes), tops}};
  }
  static constexpr int32_t kNearBases = 4;  // of the first tables, on line 2
  static constexpr size_t kBasesAt = 3 * 64 - kNearBases * sizeof(int32_t);
  // Goes on with next_piece.
  void AdoptNextPiece();
};
static_assert(sizeof(RequestBlock) == 192 && kBlockAlignment == 128);
static_assert(offsetof(RequestBlock, has_facts) < RequestBlock::kBasesAt);

// Start loading what arriving and joining need, of most requests: the head; then, the head being here, the
// roots and the first record. Inlined always: GCC drops calls of functions that only prefetch.
[[gnu::always_inline]] inline void PrefetchHead(const RequestBlock* block) {
  constexpr int kLines = 4;
  for (int line = 0; line < kLines; ++line) {
    __builtin_prefetch(reinterpret_cast<const std::byte*>(block) + 64 * line, 1);
  }
}
[[gnu::always_inline]] inline void PrefetchBody(const RequestBlock* block) {
  __builtin_prefetch(block->pool() + block->roots);
  __builtin_prefetch(block->records, 1);
  if (block->has_facts) [[unlikely]] {
    constexpr int32_t kLine = 64 / sizeof(int32_t), kMostLines = 8;  // the heights lie between them
    for (int32_t at = std::max(block->roots + kLine, -kMostLines * kLine); at < 0; at += kLine) {
      __builtin_prefetch(block->pool() + at);
    }
  }
}

// Compiles `request.graph` (sealed) into a block that request.run owns. Fails with INVALID_ARGUMENT
// for what a task could not carry: more than kMaxReturnsPerNode pieces of one node, more than
// kMaxInputPieces inputs, a stop chain sealed for fewer than `max_tasks_in_flight` tasks; then the
// block is there, with its header and nothing else. O(links); the caller's thread.
// `slab`: kSlabBytes for a block that fits them. The block comes back by `*block`. Of a graph that has
// grown, the latest piece.
// facts: with NodeFacts.
absl::Status BuildBlock(Request& request, int max_tasks_in_flight, bool facts, std::byte* slab,
                        RequestBlock** block);
// Where the stopping chains of the piece that is done stopped (CellGraph::SetStopped).
void RecordStops(const RequestBlock& block, CellGraph& graph);

// Memory for the block of each request slot, on huge pages where the system has them: with 10^5
// requests in flight every touch of a small page costs a walk through the page tables.
inline constexpr size_t kSlabBytes = 512;  // a sentence with its head takes 448
class BlockSlab {
 public:
  explicit BlockSlab(int slots);
  ~BlockSlab();
  BlockSlab(const BlockSlab&) = delete;
  BlockSlab& operator=(const BlockSlab&) = delete;
  std::byte* of(uint32_t slot) { return memory_ + size_t{slot} * kSlabBytes; }

 private:
  size_t bytes_;
  std::byte* memory_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_REQUEST_BLOCK_H_

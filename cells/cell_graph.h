// One request's work: subgraphs of cells and the links (data) between them, as flat arrays.
//
// A *subgraph* is `length` nodes of one cell type: a chain (types with a carry input), a set of
// independent nodes, or one node. It is the unit of readiness, pinning and bookkeeping. A request
// input is a subgraph without a type: rows that are there when the request joins.
//
//   TOKENS [24] ----> chain L of 24 ----> node H        links: L.x    <- {TOKENS, first 0, stride
//   1} (rows 0..23)      (2 rows in a ring)                        L.prev <- {kZero}   (carry: node
//   0's)
//                                                               H.x    <- {L, first 23, stride 0}
//
// Rows are counted from 0 per table; joining adds the base the arena gave. A chain of which only
// the end is read by links needs a ring of two rows, whatever its length (what it returns is
// copied out as it is computed); otherwise every node has its own row. A stopping chain may run
// ahead of the host, so its ring is max(2, max_tasks_to_submit): the node where it stopped is
// still there after those already queued behind it have run, and the manager reads its words
// before it submits more.
//
// Life: Reserve, AddInput/Add/Return in any valid order, Seal once, then read by the manager.
// The gRPC thread's until submitted, the manager's after. Add is amortised free after Reserve;
// Seal is O(links), no recursion.
#ifndef CELLBATCH_CELLS_CELL_GRAPH_H_
#define CELLBATCH_CELLS_CELL_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/ids.h"
#include "cells/model.h"

namespace cellbatch {

class Vocabulary;

inline constexpr SubgraphId kZeroSource{};     // invalid id: the input reads zeros
inline constexpr int32_t kLastNode = -1;       // Link::first: the last node, wherever a Stop fell
inline constexpr int32_t kMaxSumLinks = 4096;  // links of one kSum input

// Input `input` of node t reads node first + t * stride of `from`. For the carry input of a chain
// this says what node 0 reads (stride is ignored); without it node 0 reads zeros. Inputs of
// arity kSum take any number of links (at most kMaxSumLinks), summed in the order given; types with
// such an input make subgraphs of length one only. `from` is an earlier subgraph, so cycles cannot
// be written. Of a chain with a Stop only kLastNode can be read, with stride 0.
struct Link {
  SubgraphId from = kZeroSource;
  InputId input;
  int32_t first = 0;
  int32_t stride = 0;  // -1, 0 or 1
};

// Ends a chain early: after the first node whose int32 column equals `value`; length is then a cap.
// Such a chain returns int32 columns only: the manager writes them as it reads them, so what ran
// past the stop leaves no trace in the answer (its elements stay zero).
struct Stop {
  ColumnId column;  // invalid: no stop
  int32_t value = 0;
};

struct NodeRange {
  int32_t first = 0;
  int32_t count = 1;
};

// Where returned columns go: node first + i of the range is written at byte
// offset_bytes + i * stride_bytes of output number `tensor` (any sign of stride).
struct Placement {
  int32_t tensor = 0;
  int64_t offset_bytes = 0;
  int64_t stride_bytes = 0;
};

// What is said about where a chain's Stop fell, by numbers of tensors, all INT32; -1: not said.
struct StopTensors {
  int32_t words = -1;    // [nodes of the chain]: its words; CloseAnswer cuts it before the stop's
  int32_t length = -1;   // [1]: how many those are
  int32_t stopped = -1;  // [1]: 1 where the stop fell, 0 where the chain reached its cap
};

struct GraphBounds {
  int32_t inputs = 0, subgraphs = 0, links = 0, returns = 0, tensors = 0;
};

// One tensor of the answer. `bytes` is zeroed by Seal and filled by copies out of batched tasks.
struct ReturnedTensor {
  std::string name;  // empty: not sent, there for CloseAnswer
  WireType type = WireType::kFp32;
  std::vector<int64_t> dims;
  absl::Span<std::byte> bytes;  // little-endian, row-major; owned by the graph
  // INT32 ids that the client sees as BYTES, by these names; the model's, which the request keeps.
  const Vocabulary* names = nullptr;
};

// How the scheduler sees a subgraph after Seal.
struct Subgraph {
  CellTypeId type;        // invalid: a request input
  TableId table;          // whose rows it owns
  int32_t length = 0;     // nodes (for a stopping chain: the cap)
  int32_t first_row = 0;  // relative to the request's base in `table`
  int32_t ring =
      0;  // rows it owns: node t lives in row first_row + t % ring (ring == length: each its own)
  int32_t depth = 0;  // longest path from a source in nodes, all of those it waits for counted
  int32_t num_predecessors = 0;           // different subgraphs with a type that it reads
  int32_t first_link = 0, num_links = 0;  // into links(); ordered by input, then as given
  int32_t first_consumer = 0,
          num_consumers = 0;  // into consumers(): later ones that read it, once each
  int32_t first_return = 0, num_returns = 0;  // into returns()
  const std::byte* data = nullptr;            // request inputs: the rows, packed, row-major
  Stop stop;
};

// Where words, length and stopped of one stopping chain go.
struct StopReport {
  SubgraphId chain;
  StopTensors tensors;
};

struct ReturnPiece {
  ColumnId column;
  NodeRange nodes;
  Placement where;
};

class CellGraph {
 public:
  CellGraph() = default;
  CellGraph(CellGraph&&) = default;  // what tensors() point into moves along
  CellGraph& operator=(CellGraph&&) = default;

  // So that filling allocates once. Bounds may be exceeded; that only costs time.
  void Reserve(const GraphBounds& most);

  // Rows the request brings: `rows` rows of `table` (one column), packed at `data`, which stays
  // valid and unchanged until the request is answered.
  SubgraphId AddInput(TableId table, int32_t rows, const std::byte* data);
  // Memory that lives as long as the graph (it moves along), for rows that an unfolder makes instead
  // of finding them packed in the request. Uninitialised, aligned for any element.
  std::byte* Keep(int64_t bytes);
  // What `other` kept. It is good for nothing but destruction then.
  void KeepToo(CellGraph&& other);
  // `length` >= 1 nodes of `type`. See Link for what the links mean.
  SubgraphId Add(CellTypeId type, int32_t length, absl::Span<const Link> links, Stop stop = {});
  // A tensor of the answer; returns its number. Every element should be covered by Return pieces.
  int32_t AddTensor(std::string_view name, WireType type, std::vector<int64_t> dims,
                    const Vocabulary* names = nullptr);
  // `column` of those nodes of `from` is part of the answer.
  void Return(SubgraphId from, ColumnId column, NodeRange nodes, Placement where);

  // The answer says where the stop of `chain` (which has one) fell: a Return of its words, every node's, and what
  // CloseAnswer makes of them. Without tensors.words a tensor that is not sent holds them. Once a chain.
  void ReturnStop(SubgraphId chain, const StopTensors& tensors);

  // Checks everything above against the model (types exist, links point backwards and in range, the
  // tables that inputs read match, pieces lie inside their tensors), then lays out relative rows,
  // consumers and depths and allocates the answer. INVALID_ARGUMENT names the subgraph and both
  // values; the graph is then good for nothing but destruction. Afterwards links hold node numbers
  // (kLastNode stays only where a Stop decides), carry links have stride 0.
  // `max_tasks_to_submit` bounds how far a stopping chain may run ahead of the host (its ring).
  absl::Status Seal(const Model& model, int max_tasks_to_submit);

  // After the request is done (OK), once, by whoever took it, before tensors() are read as its answer: cuts tensors
  // that end where a stop fell, fills those that say so, drops what is not sent. O(words).
  void CloseAnswer();

  // After Seal.
  absl::Span<const Subgraph> subgraphs() const { return subgraphs_; }
  absl::Span<const Link> links() const { return links_; }
  absl::Span<const SubgraphId> consumers() const { return consumers_; }
  absl::Span<const ReturnPiece> returns() const { return returns_; }
  absl::Span<const ReturnedTensor> tensors() const { return tensors_; }
  absl::Span<const StopReport> stop_reports() const { return stop_reports_; }
  absl::Span<const int32_t> row_counts() const { return row_counts_; }  // rows needed, by TableId
  int64_t num_nodes() const { return num_nodes_; }                      // cells; inputs not counted
  int64_t device_bytes() const { return device_bytes_; }                // of those rows
  int64_t result_bytes() const { return static_cast<int64_t>(result_.size()); }

 private:
  // Seal's passes, in order.
  absl::Status CheckSubgraph(const Model& model, int32_t index);
  absl::Status CheckLinks(const Model& model, int32_t index);
  void OrderLinks(int32_t index, std::vector<Link>& scratch);
  absl::Status CheckReturn(const Model& model, const ReturnPiece& piece, SubgraphId owner) const;
  absl::Status CheckStopReport(const StopReport& report) const;
  void SortReturns();
  absl::Status LayRows(const Model& model, int max_tasks_to_submit);
  void FindConsumers();
  absl::Status AllocateAnswer();

  std::vector<Subgraph> subgraphs_;
  std::vector<Link> links_;
  std::vector<SubgraphId> consumers_;
  std::vector<ReturnPiece> returns_;
  std::vector<SubgraphId> return_owner_;  // until Seal sorts returns_ by subgraph
  std::vector<ReturnedTensor> tensors_;
  std::vector<StopReport> stop_reports_;
  std::vector<int32_t> row_counts_;
  std::vector<std::byte> result_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  int64_t num_nodes_ = 0;
  int64_t device_bytes_ = 0;
  bool sealed_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CELL_GRAPH_H_

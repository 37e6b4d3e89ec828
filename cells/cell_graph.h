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
// copied out as it is computed); otherwise every node has its own row. Subgraphs have their rows in their
// own order, or by level (Model::unfold, level_rows). A stopping chain may run
// ahead of the host, so its ring is max(2, max_tasks_to_submit): the node where it stopped is
// still there after those already queued behind it have run, and the manager reads its words
// before it submits more.
//
// A graph whose shape depends on what was computed *grows* by pieces; a piece may read every row of those
// before it, which stay where they are until the request leaves:
//
//   Unfold:  Grow(at most ..), Add .., Seal    piece 0 runs --> done: its returned tensors may be read
//   Extend:  Add .., Seal                      piece 1 runs --> done
//   Extend:  Add .., CloseGrowth, Seal         the last one; or nothing is added: that was all
//
// Life: Reserve, AddInput/Add/Return in any valid order, Seal once a piece, then read by the manager.
// The gRPC thread's until submitted, the manager's after. Add is amortised free after Reserve;
// Seal is O(links), no recursion.
#ifndef CELLBATCH_CELLS_CELL_GRAPH_H_
#define CELLBATCH_CELLS_CELL_GRAPH_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/ids.h"
#include "cells/model.h"

namespace cellbatch {

class Vocabulary;

inline constexpr SubgraphId kZeroSource{};      // invalid id: the input reads zeros
inline constexpr int32_t kLastNode = -1;        // Link::first: the last node, wherever a Stop fell
inline constexpr int32_t kMaxSumLinks = 4096;   // links of one kSum input
inline constexpr int32_t kMaxPieces = 1 << 16;  // of a graph that grows
inline constexpr int32_t kMostPhases = 16;      // of one request's program

// Of a table's columns some, by ColumnId.
using ColumnSet = std::bitset<kMaxColumns>;
inline constexpr ColumnSet kEveryColumn = (1u << kMaxColumns) - 1;

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
  std::string name;  // empty: not sent, there for CloseAnswer and for Unfolder::Extend
  WireType type = WireType::kFp32;
  TensorDims dims;
  absl::Span<std::byte> bytes;  // little-endian, row-major; owned by the graph
  // INT32 ids that the client sees as BYTES, by these names; the model's, which the request keeps. What cells left may be
  // none of them.
  const Vocabulary* names = nullptr;
};

// What an unfolder knows of one request between its pieces: a parser's stack and buffer. Opaque to all
// others; used by one thread at a time, destroyed with the graph.
class Progress {
 public:
  virtual ~Progress() = default;
};

// The most that may follow piece 0. Admitted, and its rows reserved, as if it came at once: so a request
// that runs never waits for memory. What goes beyond is an error of that request.
struct Growth {
  int32_t pieces = 0;         // 1 to kMaxPieces
  int64_t nodes = 0;          // cells
  std::vector<int32_t> rows;  // by TableId, those of inputs too; missing ones: none
  std::unique_ptr<Progress> progress;
};

// How the scheduler sees a subgraph after Seal.
struct Subgraph {
  CellTypeId type;        // invalid: a request input
  TableId table;          // whose rows it owns
  int32_t length = 0;     // nodes (for a stopping chain: the cap)
  int32_t first_row = 0;  // relative to the request's base in `table`
  int32_t ring =
      0;  // rows it owns: node t lives in row first_row + t % ring (ring == length: each its own)
  int32_t depth = 0;   // longest path from a source in nodes, all of those it waits for counted
  int32_t phase = 0;   // as SetPhase said, or the latest of what it reads
  int32_t place = -1;  // as SetPlace said; -1: it did not
  int32_t num_predecessors = 0;           // different subgraphs with a type that it reads
  int32_t first_link = 0, num_links = 0;  // into links(); ordered by input, then as given
  int32_t first_consumer = 0,
          num_consumers = 0;  // into consumers(): later ones that read it, once each
  int32_t first_return = 0, num_returns = 0;  // into returns()
  const std::byte* data = nullptr;   // request inputs: the rows, packed, column after column
  ColumnSet brought = kEveryColumn;  // request inputs: what `data` holds of the table's columns
  Stop stop;
  int32_t stopped_at = -1;  // the node where it stopped, once its piece is done
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

  // Rows the request brings: `rows` rows of `table`, packed at `data`, which stays valid and unchanged
  // until the request is answered. Of a table of several columns (a state to begin from, which else a cell
  // leaves) all rows of its first column lie first, then those of the next; columns that are not `brought`
  // are left out, and who reads them reads anything.
  SubgraphId AddInput(TableId table, int32_t rows, const std::byte* data,
                      ColumnSet brought = kEveryColumn);
  // Memory that lives as long as the graph (it moves along), for rows that an unfolder makes instead
  // of finding them packed in the request. Uninitialised, aligned for any element.
  std::byte* Keep(int64_t bytes);
  // What `other` kept. It is good for nothing but destruction then.
  void KeepToo(CellGraph&& other);
  // `length` >= 1 nodes of `type`. See Link for what the links mean.
  SubgraphId Add(CellTypeId type, int32_t length, absl::Span<const Link> links, Stop stop = {});
  // What is added from here on belongs to that stage of the request's program, 0 (as nothing said) to kMostPhases - 1:
  // spelled words, then sentences, then labels; an encoder, then its decoder. Whoever reads a later stage is of that
  // stage. Policies that look at depth take one stage after the other (cell_graph_depths.h). Nothing else changes.
  void SetPhase(int32_t phase);
  // How many steps of the program come before its first node, where that says more than its longest path: the same
  // in all requests, whichever arms of a branch each took. Policies may be told it (cell_graph_depths.h, ghost nodes).
  void SetPlace(SubgraphId id, int32_t place) {
    subgraphs_[static_cast<size_t>(id.value())].place = place;
  }
  // In piece 0: more may follow.
  void Grow(Growth most);
  const Growth& growth() const { return growth_; }  // as given to Grow
  Progress* progress() const { return growth_.progress.get(); }
  // In a later piece, or in piece 0: no other follows this one.
  void CloseGrowth() {
    Open();
    grows_ = false;
  }
  // Every node of this chain keeps its row, for pieces to come: without it they may read the last only.
  void KeepRows(SubgraphId chain);
  // A tensor of the answer, in piece 0; returns its number. Every element should be covered by Return
  // pieces, or be written by Extend. Without a name it is not sent: for Extend to read.
  int32_t AddTensor(std::string_view name, WireType type, TensorDims dims,
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
  // Of a graph that grows: once a piece. Later ones are held to what Grow said.
  absl::Status Seal(const Model& model, int max_tasks_to_submit);

  // Whether something was added since Seal; how many pieces are sealed; whether another may follow.
  bool added() const { return !sealed_ && !piece().empty(); }
  int32_t pieces() const { return pieces_; }
  bool grows() const { return grows_; }
  // Of the latest piece: its subgraphs (from number first_subgraph() on), returns and cells.
  int32_t first_subgraph() const { return first_subgraph_; }
  absl::Span<const Subgraph> piece() const {
    return subgraphs().subspan(static_cast<size_t>(first_subgraph_));
  }
  int32_t first_return() const { return first_return_; }
  int64_t piece_nodes() const { return num_nodes_ - earlier_nodes_; }
  // The scheduler's, when a piece is done: where that chain stopped.
  void SetStopped(SubgraphId chain, int32_t node) {
    subgraphs_[static_cast<size_t>(chain.value())].stopped_at = node;
  }

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
  // Rows needed, by TableId: those of pieces to come included.
  absl::Span<const int32_t> row_counts() const { return row_counts_; }
  int64_t num_nodes() const { return num_nodes_; }  // cells so far; inputs not counted
  int64_t most_nodes() const { return grows_ ? first_nodes_ + growth_.nodes : num_nodes_; }
  int64_t device_bytes() const { return device_bytes_; }  // of those rows
  int64_t result_bytes() const { return static_cast<int64_t>(result_.size()); }

 private:
  void Open();  // begins the next piece, if the last one is sealed
  absl::Status CheckGrowth(const Model& model) const;
  // Seal's passes, in order.
  absl::Status CheckSubgraph(const Model& model, int32_t index);
  absl::Status CheckLinks(const Model& model, int32_t index);
  void OrderLinks(int32_t index, std::vector<Link>& scratch);
  absl::Status CheckReturn(const Model& model, const ReturnPiece& piece, SubgraphId owner) const;
  absl::Status CheckStopReport(const StopReport& report) const;
  void SortReturns();
  absl::Status LayRows(const Model& model, int max_tasks_to_submit);
  absl::Status LayRowsOf(const Model& model, int max_tasks_to_submit, Subgraph& s);
  absl::Status CountRows(const Model& model);
  void FindConsumers();
  absl::Status AllocateAnswer();

  // Room without an allocation: for one sequence through a layer or two, the smallest of what is asked, of which there
  // are most.
  absl::InlinedVector<Subgraph, 6> subgraphs_;
  absl::InlinedVector<Link, 12> links_;
  absl::InlinedVector<SubgraphId, 8> consumers_;
  absl::InlinedVector<ReturnPiece, 6> returns_;
  absl::InlinedVector<SubgraphId, 6> return_owner_;  // until Seal sorts returns_ by subgraph
  absl::InlinedVector<ReturnedTensor, 2> tensors_;
  std::vector<StopReport> stop_reports_;
  absl::InlinedVector<int32_t, 6> row_counts_;
  absl::InlinedVector<int32_t, 6> next_row_;  // by table: rows laid out so far
  std::vector<std::byte> result_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  int64_t num_nodes_ = 0;
  int64_t device_bytes_ = 0;
  int32_t phase_ = 0;  // of what is added next
  bool sealed_ = false;
  // Growing. Where the latest piece begins, and what there was before it.
  Growth growth_;
  bool grows_ = false;
  int32_t pieces_ = 0;
  int32_t first_subgraph_ = 0, first_return_ = 0;
  int64_t earlier_nodes_ = 0, first_nodes_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CELL_GRAPH_H_

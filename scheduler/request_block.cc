#include "scheduler/request_block.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "cells/cell_graph.h"
#include "cells/cell_graph_depths.h"
#include "cells/check.h"
#include "cells/large_memory.h"
#include "cells/model.h"
#include "scheduler/block_heights.h"

namespace cellbatch {
namespace {

constexpr int64_t kLineInts = 64 / sizeof(int32_t);

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Levels below the most urgent.
uint8_t PriorityOf(const Request& request) {
  const Model& model = *request.model;
  const int32_t level = request.priority > 0 ? request.priority : model.default_priority_level;
  cellbatch::Check(level >= 1 && level <= model.priority_levels,
                   "a request has none of its model's levels");
  return static_cast<uint8_t>(level - 1);
}

// What a record of a cell type needs beside itself.
struct TypeFacts {
  explicit TypeFacts(const CellDefinition& cell)
      : num_inputs(static_cast<int32_t>(cell.inputs().size())),
        wide(num_inputs > 2 || std::any_of(cell.inputs().begin(), cell.inputs().end(),
                                           [](const Input& i) { return i.arity == Arity::kSum; })) {
  }
  int32_t num_inputs;
  bool wide;  // more inputs than a record has room for, or a summed one
};

// Compiles one graph. First counts, then fills one allocation.
class BlockBuilder {
 public:
  BlockBuilder(Request& request, int max_tasks_in_flight, bool facts, std::byte* slab)
      : request_(request),
        slab_(slab),
        graph_(request.graph),
        model_(*request.model),
        max_tasks_in_flight_(max_tasks_in_flight) {
    for (const CellType& type : model_.types) types_.emplace_back(*type.definition);
    if (facts) heights_.emplace(graph_, model_);
  }

  absl::Status Build() {
    Count();
    Allocate();
    if (absl::Status s = Check(); !s.ok()) return s;
    for (size_t i = 0; i < graph_.piece().size(); ++i) {
      const Subgraph& s = graph_.piece()[i];
      if (s.type.valid()) {
        FillRecord(s, block_->records[record_of_[i]]);
      } else {
        FillCopies(s);
      }
    }
    FillRoots();
    if (heights_) FillFacts();
    return absl::OkStatus();
  }

  void Count();
  absl::Status Check() const;
  void Allocate();
  void FillCopies(const Subgraph& s);
  void FillRecord(const Subgraph& s, NodeRecord& r);
  void FillWide(const Subgraph& s, NodeRecord& r);
  void FillNarrow(const Subgraph& s, NodeRecord& r);
  void FillConsumers(const Subgraph& s, NodeRecord& r);
  void FillInfo(const Subgraph& s, NodeRecord& r);
  void FillRoots();
  void FillFacts();

  int32_t TailInts(const Subgraph& s) const;
  // Where a tail of so many goes that may begin at `at`: on one line, if it fits one.
  static int64_t PlaceTail(int64_t at, int32_t ints) {
    const int64_t left = kLineInts - at % kLineInts;
    return ints > left && ints <= kLineInts ? at + left : at;
  }

  // The relative row that `link` reads for node 0 of its subgraph, and rows per node.
  int32_t RowOf(const Link& link) const {
    if (link.from == kZeroSource) return kReadsZero;
    const Subgraph& from = graph_.subgraphs()[Index(link.from.value())];
    if (!from.stop.column.valid()) return from.first_row + link.first % from.ring;
    if (link.from.value() >= graph_.first_subgraph()) return kReadsLastOf - RecordOf(link.from);
    return from.first_row + from.stopped_at % from.ring;
  }
  // Of the piece, by its place there.
  int32_t RecordOf(SubgraphId id) const {
    return record_of_[Index(id.value() - graph_.first_subgraph())];
  }

  RequestBlock* block() const { return block_; }

 private:
  Request& request_;
  std::byte* const slab_;
  const CellGraph& graph_;
  const Model& model_;
  const int max_tasks_in_flight_;
  absl::InlinedVector<TypeFacts, 12> types_;
  std::optional<BlockHeightsBuilder> heights_;
  std::vector<int32_t> record_of_;  // by subgraph of the piece; -1: a request input
  int32_t num_records_ = 0;
  int32_t num_inputs_ = 0;  // columns of them
  int32_t num_roots_ = 0;
  int64_t pool_ints_ = 0;  // its length; the records in front of it are whole lines
  int32_t pool_used_ = 0;  // to this offset, from the records' begin
  int32_t roots_at_ = 0;   // as an offset
  RequestBlock* block_ = nullptr;
  CopyIn* copies_ = nullptr;
};

// Of what a record does not hold. Even, so that the next one begins where a NodeInfo may.
int32_t BlockBuilder::TailInts(const Subgraph& s) const {
  int32_t ints = 0;
  const TypeFacts& type = types_[Index(s.type.value())];
  if (type.wide) ints += 2 * type.num_inputs + s.num_links;
  if (s.num_consumers > 1) ints += s.num_consumers;  // count + all but the first
  ints += ints % 2;
  if (s.num_returns > 0 || s.stop.column.valid()) {
    ints += kNodeInfoInts + s.num_returns * kReturnInts;
  }
  return ints;
}

void BlockBuilder::Count() {
  record_of_.reserve(graph_.piece().size());
  for (const Subgraph& s : graph_.piece()) {
    record_of_.push_back(s.type.valid() ? num_records_++ : -1);
    if (!s.type.valid()) {
      for (size_t c = 0; c < model_.table(s.table).columns.size(); ++c) {
        num_inputs_ += s.brought[c] ? 1 : 0;
      }
      continue;
    }
    if (s.num_predecessors == 0) ++num_roots_;
    const int32_t tail = TailInts(s);
    pool_ints_ = PlaceTail(pool_ints_, tail) + tail;
  }
}

absl::Status BlockBuilder::Check() const {
  if (num_inputs_ > kMaxInputPieces) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", num_inputs_, " request inputs; ", kMaxInputPieces, " fit"));
  }
  for (size_t i = 0; i < graph_.piece().size(); ++i) {
    const Subgraph& s = graph_.piece()[i];
    if (s.stop.column.valid() && s.ring < std::min(s.length, std::max(2, max_tasks_in_flight_))) {
      return absl::InvalidArgumentError(
          absl::StrCat("subgraph ", i, " stops early and was sealed with a ring of ", s.ring,
                       " rows; ", std::max(2, max_tasks_in_flight_),
                       " tasks may be in flight (Scheduler::max_tasks_in_flight)"));
    }
    if (s.num_returns <= kMaxReturnsPerNode) continue;
    std::vector<int32_t> edges(Index(s.length) + 1);
    for (const ReturnPiece& p :
         graph_.returns().subspan(Index(s.first_return), Index(s.num_returns))) {
      ++edges[Index(p.nodes.first)];
      --edges[Index(p.nodes.first + p.nodes.count)];
    }
    int32_t covered = 0;
    for (int32_t edge : edges) {
      covered += edge;
      if (covered > kMaxReturnsPerNode) {
        return absl::InvalidArgumentError(absl::StrCat("subgraph ", i, " returns a node ", covered,
                                                       " times; ", kMaxReturnsPerNode, " fit"));
      }
    }
  }
  return absl::OkStatus();
}

void BlockBuilder::Allocate() {
  const size_t tables = graph_.row_counts().size();
  const auto up = [](size_t n, size_t to) { return (n + to - 1) / to * to; };
  const size_t bases_end = RequestBlock::kBasesAt + 2 * tables * sizeof(int32_t);
  const size_t copies_at = up(std::max(sizeof(RequestBlock), bases_end), 8);
  const size_t head = copies_at + Index(num_inputs_) * sizeof(CopyIn);
  const size_t root_ints = 2 + Index(num_roots_) +
                           std::min(Index(num_roots_), model_.types.size()) +
                           (heights_ ? heights_->ints() : 0);
  const size_t roots = root_ints * sizeof(int32_t);
  const size_t body =
      Index(num_records_) * sizeof(NodeRecord) + Index(pool_ints_) * sizeof(int32_t);
  const size_t size = up(head + roots, 64) + body;
  const bool first_piece = graph_.pieces() == 1;
  std::byte *at = slab_, *owned = nullptr;
  std::byte* records;  // whole lines, the roots in front of them
  size_t owned_bytes = 0;
  if (first_piece && size <= kSlabBytes) {
    records = at + up(head + roots, 64);
  } else if (first_piece && head <= kSlabBytes) {
    owned_bytes = up(roots, 64) + body;
    owned = static_cast<std::byte*>(NewBlock(owned_bytes));
    records = owned + up(roots, 64);
  } else {
    owned_bytes = size;
    at = owned = static_cast<std::byte*>(NewBlock(size));
    records = at + up(head + roots, 64);
  }
  block_ = new (at) RequestBlock();
  if (first_piece) {
    request_.run.Adopt(block_, owned, owned_bytes);
  } else {
    request_.run.AdoptPiece(owned, owned_bytes);
  }
  pool_used_ = static_cast<int32_t>(num_records_ * kLineInts);
  roots_at_ = -static_cast<int32_t>(root_ints);
  block_->records = reinterpret_cast<NodeRecord*>(records);
  block_->copies = copies_ = reinterpret_cast<CopyIn*>(at + copies_at);
  block_->request = &request_;
  block_->num_tables = static_cast<int16_t>(tables);
  std::copy(graph_.row_counts().begin(), graph_.row_counts().end(), block_->counts());
  std::fill_n(block_->bases(), tables, 0);
  block_->num_records = block_->remaining = num_records_;
  block_->num_nodes = static_cast<int32_t>(graph_.piece_nodes());
  block_->home = -1;
  block_->priority = PriorityOf(request_);
  block_->has_facts = heights_.has_value();
  block_->outbox = static_cast<int16_t>(request_.outbox.value());
  block_->memory = -1;
  block_->streams = request_.stream;
  block_->grows = graph_.grows();
  block_->mails = block_->streams || block_->grows;
}

// A request input, column by column.
void BlockBuilder::FillCopies(const Subgraph& s) {
  const std::vector<Column>& columns = model_.table(s.table).columns;
  const std::byte* at = s.data;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!s.brought[c]) continue;
    copies_[block_->num_copies++] = {at, s.table, s.first_row, s.length,
                                     ColumnId(static_cast<int64_t>(c))};
    at += s.length * columns[c].bytes();
  }
}

void BlockBuilder::FillRecord(const Subgraph& s, NodeRecord& r) {
  r = NodeRecord{};
  r.input_row[0] = r.input_row[1] = kReadsZero;
  r.first_row = s.first_row;
  r.ring = s.ring;
  r.length = s.length;
  r.pending = s.num_predecessors;
  r.position = -1;
  r.type = static_cast<int16_t>(s.type.value());
  r.pin_worker = -1;
  r.state = NodeState::kBlocked;
  r.has_stop = s.stop.column.valid();
  const int32_t tail = TailInts(s);
  pool_used_ = static_cast<int32_t>(PlaceTail(pool_used_, tail));
  const int32_t tail_end = pool_used_ + tail;
  if (types_[Index(s.type.value())].wide) {
    FillWide(s, r);
  } else {
    FillNarrow(s, r);
  }
  FillConsumers(s, r);
  FillInfo(s, r);
  cellbatch::Check(pool_used_ <= tail_end, "a record's part of the pool was counted too small");
  pool_used_ = tail_end;
}

void BlockBuilder::FillNarrow(const Subgraph& s, NodeRecord& r) {
  for (const Link& link : graph_.links().subspan(Index(s.first_link), Index(s.num_links))) {
    const size_t input = Index(link.input.value());
    r.input_row[input] = RowOf(link);
    r.stride[input] = static_cast<int8_t>(link.from == kZeroSource ? 0 : link.stride);
  }
}

// Per input: kOne {row, stride}; kSum {count, rows}.
void BlockBuilder::FillWide(const Subgraph& s, NodeRecord& r) {
  r.wide = pool_used_;
  const auto links = graph_.links().subspan(Index(s.first_link), Index(s.num_links));
  size_t next = 0;
  const auto inputs = model_.type(s.type).definition->inputs();
  for (size_t input = 0; input < inputs.size(); ++input) {
    int32_t* const at = block_->pool() + pool_used_;
    if (inputs[input].arity == Arity::kOne) {
      at[0] = kReadsZero;
      at[1] = 0;
      pool_used_ += 2;
      for (; next < links.size() && Index(links[next].input.value()) == input; ++next) {
        at[0] = RowOf(links[next]);
        at[1] = links[next].from == kZeroSource ? 0 : links[next].stride;
      }
      continue;
    }
    at[0] = 0;
    for (; next < links.size() && Index(links[next].input.value()) == input; ++next) {
      at[++at[0]] = RowOf(links[next]);
    }
    pool_used_ += 1 + at[0];
  }
}

void BlockBuilder::FillConsumers(const Subgraph& s, NodeRecord& r) {
  r.consumer = -1;
  if (s.num_consumers == 0) return;
  const auto readers = graph_.consumers().subspan(Index(s.first_consumer), Index(s.num_consumers));
  r.consumer = RecordOf(readers[0]);
  if (readers.size() == 1) return;
  r.more_consumers = pool_used_;
  block_->pool()[pool_used_++] = s.num_consumers - 1;
  for (SubgraphId reader : readers.subspan(1)) {
    block_->pool()[pool_used_++] = RecordOf(reader);
  }
}

void BlockBuilder::FillInfo(const Subgraph& s, NodeRecord& r) {
  if (s.num_returns == 0 && !s.stop.column.valid()) return;
  r.info = pool_used_ + pool_used_ % 2;
  pool_used_ = r.info + kNodeInfoInts + s.num_returns * kReturnInts;
  const int32_t counted = r.has_stop && !block_->has_stops ? 1 : 0;
  if (r.has_stop) block_->has_stops = true;
  NodeInfo& info = block_->info(r);
  info = {s.num_returns, s.stop.column.value(), s.stop.value, -1, counted};
  ReturnRun* to = info.first_return();
  for (const ReturnPiece& p :
       graph_.returns().subspan(Index(s.first_return), Index(s.num_returns))) {
    std::byte* const tensor = graph_.tensors()[Index(p.where.tensor)].bytes.data();
    *to++ = {tensor + p.where.offset_bytes, p.where.stride_bytes, p.nodes.first, p.nodes.count,
             p.column};
  }
}

void BlockBuilder::FillRoots() {
  block_->roots = roots_at_;
  int32_t* const roots = block_->pool() + roots_at_;
  roots[0] = 0;
  for (int32_t i = 0; i < num_records_; ++i) {
    if (block_->records[i].pending == 0) roots[++roots[0]] = i;
  }
  cellbatch::Check(roots[0] == num_roots_, "a graph's roots were counted and found differently");
  block_->num_roots_capped = static_cast<uint8_t>(std::min(num_roots_, 255));
  block_->root_types = roots_at_ + 1 + num_roots_;
  int32_t* const types = block_->pool() + block_->root_types;
  types[0] = 0;
  for (int32_t root : block_->list(block_->roots)) {
    const int32_t type = block_->records[root].type;
    if (std::find(types + 1, types + 1 + types[0], type) == types + 1 + types[0]) {
      types[++types[0]] = type;
    }
  }
}

void BlockBuilder::FillFacts() {
  int32_t* const types = block_->pool() + block_->root_types;
  heights_->Fill(types + 1 + types[0]);
  const std::vector<int32_t> depths = ToldDepths(graph_, model_);
  for (size_t i = 0; i < graph_.piece().size(); ++i) {
    const Subgraph& s = graph_.piece()[i];
    if (!s.type.valid()) continue;
    NodeFacts& facts = block_->records[record_of_[i]].facts;
    facts.depth = static_cast<uint32_t>(std::min(depths[i], NodeFacts::kMostDepth));
    facts.height = static_cast<uint32_t>(heights_->height(i));
  }
}

}  // namespace

absl::Status BuildBlock(Request& request, int max_tasks_in_flight, bool facts, std::byte* slab,
                        RequestBlock** block) {
  BlockBuilder builder(request, max_tasks_in_flight, facts, slab);
  const absl::Status status = builder.Build();
  *block = builder.block();
  return status;
}

absl::Status StatusOf(Outcome outcome, absl::FunctionRef<absl::Status()> device_health) {
  switch (outcome) {
    case Outcome::kOk:
    case Outcome::kBadGraph:
      break;
    case Outcome::kCancelled:
      return absl::CancelledError("the request was cancelled");
    case Outcome::kExpired:
      return absl::DeadlineExceededError("the request's deadline passed");
    case Outcome::kDeviceFailed:
    case Outcome::kNoDevice:
      return absl::InternalError(absl::StrCat("a device failed: ", device_health().message()));
    case Outcome::kStopping:
      return absl::UnavailableError("the server is stopping");
    case Outcome::kTooLarge:
      return absl::ResourceExhaustedError(
          "the request needs more rows than a request may have (Scheduler::MaxRowsPerRequest)");
    case Outcome::kNoLane:
      return absl::UnavailableError("the model version was unloaded");
  }
  return absl::OkStatus();
}

void RecordStops(const RequestBlock& block, CellGraph& graph) {
  if (!block.has_stops) return;
  const NodeRecord* record = block.records;
  for (size_t i = 0; i < graph.piece().size(); ++i) {
    if (!graph.piece()[i].type.valid()) continue;
    if (record->has_stop) {
      const SubgraphId id(graph.first_subgraph() + static_cast<int64_t>(i));
      graph.SetStopped(id, block.info(*record).stopped_at);
    }
    ++record;
  }
}

void RequestBlock::AdoptNextPiece() {
  const RequestBlock& piece = *next_piece;
  records = piece.records;
  copies = piece.copies;
  num_records = remaining = piece.num_records;
  num_nodes = piece.num_nodes;
  num_copies = piece.num_copies;
  roots = piece.roots;
  root_types = piece.root_types;
  num_roots_capped = piece.num_roots_capped;
  has_stops = piece.has_stops;
  grows = piece.grows;
  copied = false;
  touched = 0;
  words.store(0, std::memory_order_relaxed);
  next_piece = nullptr;
}

static_assert(kSlabBytes % kBlockAlignment == 0 && kLargeMemoryAlignment % kBlockAlignment == 0);

BlockSlab::BlockSlab(int slots)
    : bytes_(Index(slots) * kSlabBytes),
      memory_(static_cast<std::byte*>(NewLargeMemory(bytes_, Backing::kAddresses))) {
  cellbatch::Check(memory_ != nullptr, "no address space for request blocks");
}

BlockSlab::~BlockSlab() { DeleteLargeMemory(memory_, bytes_); }

}  // namespace cellbatch

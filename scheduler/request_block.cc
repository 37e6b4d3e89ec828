#include "scheduler/request_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cells/cell_graph.h"
#include "cells/check.h"
#include "cells/model.h"

namespace cellbatch {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

bool IsWide(const CellDefinition& cell) {
  if (cell.inputs().size() > 2) return true;
  return std::any_of(cell.inputs().begin(), cell.inputs().end(),
                     [](const Input& input) { return input.arity == Arity::kSum; });
}

// Compiles one graph. First counts, then fills one allocation.
class BlockBuilder {
 public:
  BlockBuilder(Request& request, int max_tasks_in_flight, std::byte* slab)
      : request_(request),
        slab_(slab),
        graph_(request.graph),
        model_(*request.model),
        max_tasks_in_flight_(max_tasks_in_flight) {}

  absl::Status Build() {
    Count();
    Allocate();
    if (absl::Status s = Check(); !s.ok()) return s;
    for (size_t i = 0; i < graph_.piece().size(); ++i) {
      const Subgraph& s = graph_.piece()[i];
      if (s.type.valid()) {
        FillRecord(s, block_->records[record_of_[i]], record_of_[i]);
      } else {
        copies_[block_->num_copies++] = {s.data, s.table, s.first_row, s.length};
      }
    }
    FillRoots();
    return absl::OkStatus();
  }

  void Count();
  absl::Status Check() const;
  void Allocate();
  void FillRecord(const Subgraph& s, NodeRecord& r, int32_t index);
  void FillWide(const Subgraph& s, NodeRecord& r);
  void FillNarrow(const Subgraph& s, NodeRecord& r);
  void FillConsumers(const Subgraph& s, NodeRecord& r);
  void FillInfo(const Subgraph& s, NodeRecord& r);
  void FillRoots();

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
  std::vector<int32_t> record_of_;  // by subgraph of the piece; -1: a request input
  int32_t num_records_ = 0;
  int32_t num_inputs_ = 0;
  int32_t num_roots_ = 0;
  int64_t pool_ints_ = 1;  // offset 0 means none
  int32_t pool_used_ = 1;
  RequestBlock* block_ = nullptr;
  CopyIn* copies_ = nullptr;
};

void BlockBuilder::Count() {
  record_of_.reserve(graph_.piece().size());
  for (const Subgraph& s : graph_.piece()) {
    record_of_.push_back(s.type.valid() ? num_records_++ : -1);
    if (!s.type.valid()) {
      ++num_inputs_;
      continue;
    }
    if (s.num_predecessors == 0) ++num_roots_;
    if (s.num_consumers > 1) pool_ints_ += s.num_consumers;  // count + all but the first
    if (s.num_returns > 0 || s.stop.column.valid()) {
      pool_ints_ += 1 + kNodeInfoInts + int64_t{s.num_returns} * kReturnInts;  // 1: to be even
    }
    const CellDefinition& cell = *model_.type(s.type).definition;
    if (IsWide(cell)) pool_ints_ += 2 * static_cast<int64_t>(cell.inputs().size()) + s.num_links;
  }
  pool_ints_ += 2 + num_roots_ + static_cast<int64_t>(model_.types.size());
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
  const size_t copies_at = up(sizeof(RequestBlock) + 2 * tables * sizeof(int32_t), 8);
  const size_t pool_at = copies_at + Index(num_inputs_) * sizeof(CopyIn);
  const size_t records_at = up(pool_at + Index(pool_ints_) * sizeof(int32_t), 64);
  const size_t size = records_at + Index(num_records_) * sizeof(NodeRecord);
  const bool first_piece = graph_.pieces() == 1;
  const bool on_slab = first_piece && size <= kSlabBytes;
  auto* bytes = on_slab ? slab_ : static_cast<std::byte*>(NewBlock(size));
  block_ = new (bytes) RequestBlock();
  block_->on_slab = on_slab;
  if (first_piece) {
    request_.run.Adopt(block_, on_slab ? 0 : size);
  } else {
    request_.run.AdoptPiece(block_, size);
  }
  block_->request = &request_;
  block_->records = reinterpret_cast<NodeRecord*>(bytes + records_at);
  block_->pool = reinterpret_cast<int32_t*>(bytes + pool_at);
  block_->copies = copies_ = reinterpret_cast<CopyIn*>(bytes + copies_at);
  block_->num_tables = static_cast<int32_t>(tables);
  std::copy(graph_.row_counts().begin(), graph_.row_counts().end(), block_->counts());
  std::fill_n(block_->bases(), tables, 0);
  block_->num_records = block_->remaining = num_records_;
  block_->num_nodes = static_cast<int32_t>(graph_.piece_nodes());
  block_->home = -1;
  block_->outbox = static_cast<int16_t>(request_.outbox.value());
  block_->memory = -1;
  block_->streams = request_.stream;
  block_->grows = graph_.grows();
  block_->mails = block_->streams || block_->grows;
}

void BlockBuilder::FillRecord(const Subgraph& s, NodeRecord& r, int32_t index) {
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
  r.index = index;
  r.has_stop = s.stop.column.valid();
  if (IsWide(*model_.type(s.type).definition)) {
    FillWide(s, r);
  } else {
    FillNarrow(s, r);
  }
  FillConsumers(s, r);
  FillInfo(s, r);
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
    int32_t* const at = block_->pool + pool_used_;
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
  block_->pool[pool_used_++] = s.num_consumers - 1;
  for (SubgraphId reader : readers.subspan(1)) {
    block_->pool[pool_used_++] = RecordOf(reader);
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
  block_->roots = pool_used_;
  int32_t* const roots = block_->pool + pool_used_;
  roots[0] = 0;
  for (int32_t i = 0; i < num_records_; ++i) {
    if (block_->records[i].pending == 0) roots[++roots[0]] = i;
  }
  cellbatch::Check(roots[0] == num_roots_, "a graph's roots were counted and found differently");
  pool_used_ += 1 + num_roots_;
  block_->num_roots_capped = static_cast<uint8_t>(std::min(num_roots_, 255));
  block_->root_types = pool_used_;
  int32_t* const types = block_->pool + pool_used_;
  types[0] = 0;
  for (int32_t root : block_->list(block_->roots)) {
    const int32_t type = block_->records[root].type;
    if (std::find(types + 1, types + 1 + types[0], type) == types + 1 + types[0]) {
      types[++types[0]] = type;
    }
  }
  pool_used_ += 1 + types[0];
  cellbatch::Check(pool_used_ <= pool_ints_, "a request block's pool was counted too small");
}

}  // namespace

absl::Status BuildBlock(Request& request, int max_tasks_in_flight, std::byte* slab,
                        RequestBlock** block) {
  BlockBuilder builder(request, max_tasks_in_flight, slab);
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

void NoteStops(const RequestBlock& block, CellGraph& graph) {
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
  pool = piece.pool;
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

BlockSlab::BlockSlab(int slots)
    : bytes_((Index(slots) * kSlabBytes + kHugePage - 1) & ~(kHugePage - 1)) {
  // Page-aligned is not enough for huge pages: takes one more, and lets the system find them.
  void* memory = mmap(nullptr, bytes_ + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  cellbatch::Check(memory != MAP_FAILED, "no address space for request blocks");
  mapped_ = memory;
  const uintptr_t at = (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) & ~(kHugePage - 1);
  memory_ = reinterpret_cast<std::byte*>(at);
  madvise(memory_, bytes_, MADV_HUGEPAGE);  // a wish: small pages do, more slowly
}

BlockSlab::~BlockSlab() { munmap(mapped_, bytes_ + kHugePage); }

}  // namespace cellbatch

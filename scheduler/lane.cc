#include "scheduler/lane.h"

#include <algorithm>
#include <bit>

#include "cells/check.h"
#include "scheduler/policy/cellular_policy.h"

namespace cellbatch {
namespace {

constexpr int kSizes = 16;  // log2 of the largest batch, and more
constexpr int32_t kMaxRowsOfTable = 1 << 22;

}  // namespace

WaitingLine::WaitingLine(int max_requests)
    : mask_(std::bit_ceil(static_cast<uint32_t>(std::max(max_requests, 16)) + 1) - 1),
      line_(new RequestBlock*[size_t{mask_} + 1]) {}

void WaitingLine::Push(RequestBlock& block) {
  if (tail_ - head_ > mask_) CloseHoles();
  block.line_position = tail_ & mask_;
  line_[tail_++ & mask_] = &block;
  ++size_;
}

RequestBlock* WaitingLine::Head() {
  while (head_ != tail_) {
    RequestBlock* block = line_[head_ & mask_];
    if (block != nullptr) return block;
    ++head_;
  }
  return nullptr;
}

void WaitingLine::PopHead() {
  line_[head_++ & mask_] = nullptr;
  --size_;
}

void WaitingLine::Remove(RequestBlock& block) {
  RequestBlock*& place = line_[block.line_position];
  Check(place == &block, "a waiting request is not where it says");
  place = nullptr;
  --size_;
}

void WaitingLine::Prefetch() const {
  constexpr uint32_t kHead = 9, kBody = 6, kRoots = 3;
  constexpr size_t kMostRoots = 4;
  if (const RequestBlock* block = Behind(kHead)) PrefetchHead(block);
  if (const RequestBlock* block = Behind(kBody)) PrefetchBody(block);
  if (const RequestBlock* block = Behind(kRoots)) {
    const absl::Span<const int32_t> roots = block->list(block->roots);
    for (const int32_t root : roots.first(std::min(kMostRoots, roots.size()))) {
      __builtin_prefetch(&block->records[root], 1);
    }
  }
}

void WaitingLine::CloseHoles() {
  uint32_t to = head_;
  for (uint32_t from = head_; from != tail_; ++from) {
    RequestBlock* block = line_[from & mask_];
    if (block == nullptr) continue;
    block->line_position = to & mask_;
    line_[to++ & mask_] = block;
  }
  tail_ = to;
  Check(tail_ - head_ <= mask_, "more requests wait than there are slots");
}

Lane::Lane(int index, uint32_t serial, std::shared_ptr<const Model> model,
           std::unique_ptr<const Policy> policy, std::vector<Loaded> loaded,
           absl::Span<const int> memory_of, const SchedulerOptions& options)
    : line(options.max_requests),
      index_(index),
      serial_(serial),
      model_(std::move(model)),
      policy_(policy ? std::move(policy) : std::make_unique<CellularPolicy>()),
      max_wait_tasks_(std::max<int64_t>(options.max_wait_tasks,
                                        2 * static_cast<int64_t>(model_->types.size()))),
      loaded_(std::move(loaded)),
      tasks_(memory_of.size(), 0),
      type_counters_(model_->types.size()),
      ready_gauges_(model_->types.size()) {
  for (const CellType& type : model_->types) {
    shapes_.emplace_back(type);
    max_batch_.push_back(type.max_batch > 0 ? std::min(type.max_batch, options.batch_limit)
                                            : options.batch_limit);
    TypeView view;
    view.type = type.id;
    view.priority = type.priority;
    views_.push_back(view);
  }
  for (size_t w = 0; w < memory_of.size(); ++w) {
    for (const TypeShape& shape : shapes_) {
      // Each ready subgraph owns a row of its table, so there are never more of them.
      const StateArena& arena = *loaded_[static_cast<size_t>(memory_of[w])].arena;
      const int32_t capacity = arena.pool(shape.out).num_rows();
      queues_.push_back(
          std::make_unique<ReadyQueue>(shape, options.batch_limit, capacity, &tasks_[w]));
    }
  }
  for (const TypeShape& shape : shapes_) {
    int32_t rows = kMaxRowsOfTable;
    for (const Loaded& l : loaded_) rows = std::min(rows, l.arena->pool(shape.out).num_rows() - 1);
    const int32_t share = rows / static_cast<int32_t>(memory_of.size());
    Check(share >= 1, "a table has fewer rows than there are workers");
    warm_rows_.push_back(std::min(share, options.batch_limit));
  }
  calibration =
      std::make_unique<Calibration>(*model_, warm_rows_, options.batch_limit,
                                    static_cast<int>(memory_of.size()), options.calibrate);
  expected_ns_.assign(shapes_.size() * kSizes, 0);
  for (int t = 0; t < num_types(); ++t) set_max_batch(t, max_batch(t));
}

void Lane::Unload() {
  for (Loaded& loaded : loaded_) loaded.model.reset();
}

void Lane::set_max_batch(int type, int32_t max_batch) {
  max_batch_[static_cast<size_t>(type)] = max_batch;
  type_counters(type).max_batch.store(max_batch, std::memory_order_relaxed);
}

bool Lane::HasReady(int worker) const {
  for (int t = 0; t < num_types(); ++t) {
    if (queue(worker, t).ready() > 0) return true;
  }
  return false;
}

int64_t Lane::Ready(int worker) const {
  int64_t nodes = 0;
  for (int t = 0; t < num_types(); ++t) nodes += queue(worker, t).ready();
  return nodes;
}

std::optional<int> Lane::Choose(int worker) {
  int overdue = -1, full = -1;
  int64_t longest = max_wait_tasks_;
  for (int t = 0; t < num_types(); ++t) {
    const ReadyQueue& q = queue(worker, t);
    if (q.waited() > longest) {
      longest = q.waited();
      overdue = t;
    }
    if (q.ready() >= max_batch(t) &&
        (full < 0 ||
         shapes_[static_cast<size_t>(t)].priority > shapes_[static_cast<size_t>(full)].priority)) {
      full = t;
    }
  }
  if (overdue >= 0) return overdue;
  if (full >= 0) return full;
  for (int t = 0; t < num_types(); ++t) {
    TypeView& view = views_[static_cast<size_t>(t)];
    view.ready = queue(worker, t).ready();
    view.tasks_in_flight = queue(worker, t).tasks_in_flight();
    view.max_batch = max_batch(t);
  }
  const std::optional<CellTypeId> choice = policy_->Choose(views_);
  if (!choice) return std::nullopt;
  Check(choice->valid() && choice->value() < num_types() &&
            queue(worker, choice->value()).ready() > 0,
        "a policy chose a type of which nothing is ready");
  return choice->value();
}

int64_t& Lane::Expected(int type, int32_t nodes) {
  const int size = std::bit_width(static_cast<uint32_t>(nodes));
  return expected_ns_[static_cast<size_t>(type * kSizes + std::min(size, kSizes - 1))];
}

int64_t Lane::Charge(int type, int32_t nodes) {
  const int64_t ns = Expected(type, nodes);
  virtual_ns_ += static_cast<double>(ns) / model_->weight;
  return ns;
}

void Lane::Correct(int type, int32_t nodes, int64_t charged_ns, int64_t actual_ns) {
  virtual_ns_ += static_cast<double>(actual_ns - charged_ns) / model_->weight;
  Expected(type, nodes) = actual_ns;
  TypeCounters& c = type_counters(type);
  AddTo<uint64_t>(c.tasks, 1);
  AddTo<uint64_t>(c.cells, static_cast<uint64_t>(nodes));
  c.batch_size.Record(nodes);
  c.task_ns.Record(actual_ns);
  AddTo(counters.device_ns, actual_ns);
}

void Lane::PublishGauges(int num_workers) {
  const auto set = [](std::atomic<int64_t>& gauge, int64_t value) {
    gauge.store(value, std::memory_order_relaxed);
  };
  set(counters.waiting_requests, line.size());
  set(counters.waiting_cells, waiting_cells);
  set(counters.running_requests, running_requests);
  int64_t rows = 0;
  for (const Loaded& loaded : loaded_) rows += loaded.arena->rows_used();
  set(counters.rows_used, rows);
  for (int t = 0; t < num_types(); ++t) {
    int64_t ready = 0;
    for (int w = 0; w < num_workers; ++w) ready += queue(w, t).ready();
    set(ready_gauges_[static_cast<size_t>(t)], ready);
  }
}

RowBudget DivideRows(const Model& model, int64_t bytes) {
  int64_t row_bytes = 0;
  for (const TableSpec& table : model.tables) row_bytes += table.row_bytes();
  const int64_t each = std::max<int64_t>(bytes / std::max<int64_t>(row_bytes, 1), 2);
  RowBudget budget;
  for (const TableSpec& table : model.tables) {
    const bool small = table.row_bytes() * 32 <= row_bytes;  // e.g. tokens beside hidden states
    budget.rows.push_back(
        static_cast<int32_t>(std::min<int64_t>(small ? 8 * each : each, kMaxRowsOfTable)));
  }
  return budget;
}

}  // namespace cellbatch

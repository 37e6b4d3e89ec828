#include "scheduler/host_copies.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "scheduler/request.h"
#include "scheduler/request_block.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

absl::Status NoRoom(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no host memory that devices reach is left for ", bytes, " bytes of a request"));
}

// Where the graph's tensors begin: they lie one after the other.
std::byte* AnswerOf(const Request& request) {
  const auto tensors = request.graph.tensors();
  return tensors.empty() ? nullptr : tensors[0].bytes.data();
}

// The first `nodes` of what a record returned, from the staged answer into the one at `to`.
void BringRecord(const Request& request, const RequestBlock& block, const NodeRecord& record,
                 int32_t nodes, const std::byte* staged, std::byte* to) {
  const Model& model = *request.model;
  const TableSpec& table = model.table(model.type(CellTypeId(record.type)).out);
  for (const ReturnRun& run : block.info(record).returns()) {
    const size_t bytes = 4 * Index(table.columns[Index(run.column.value())].width);
    for (int32_t i = 0; i < run.count && run.first + i < nodes; ++i) {
      const std::byte* const from = run.dest + i * run.stride;
      std::memcpy(to + (from - staged), from, bytes);
    }
  }
}

}  // namespace

absl::Status HostCopies::Stage(const Request& request, RequestBlock& block, HostBlocks& blocks) {
  blocks_ = &blocks;
  if (absl::Status s = StageInputs(request, block); !s.ok()) return s;
  if (answer_ == nullptr && request.graph.result_bytes() > 0) {
    answer_bytes_ = request.graph.result_bytes();
    answer_ = blocks.Allocate(answer_bytes_);
    if (answer_ == nullptr) return NoRoom(answer_bytes_);
    std::memset(answer_, 0, Index(answer_bytes_));
  }
  std::byte* const answer = AnswerOf(request);
  for (int32_t r = 0; r < block.num_records; ++r) {
    const NodeRecord& record = block.records[r];
    if (record.info == 0) continue;
    NodeInfo& info = block.info(record);
    for (int32_t i = 0; i < info.num_returns; ++i) {
      ReturnRun& run = info.first_return()[i];
      run.dest = answer_ + (run.dest - answer);
    }
  }
  return absl::OkStatus();
}

// Those of the piece before are in its rows by now.
absl::Status HostCopies::StageInputs(const Request& request, RequestBlock& block) {
  FreeInputs();
  const auto bytes_of = [&](const CopyIn& copy) {
    const Column& column = request.model->table(copy.table).columns[Index(copy.column.value())];
    return copy.rows * column.bytes();
  };
  const absl::Span<CopyIn> copies(block.copies, Index(block.num_copies));
  int64_t bytes = 0;
  for (const CopyIn& copy : copies) bytes += bytes_of(copy);
  if (bytes == 0) return absl::OkStatus();
  inputs_ = blocks_->Allocate(bytes);
  if (inputs_ == nullptr) return NoRoom(bytes);
  inputs_bytes_ = bytes;
  std::byte* at = inputs_;
  for (CopyIn& copy : copies) {
    std::memcpy(at, copy.source, Index(bytes_of(copy)));
    copy.source = at;
    at += bytes_of(copy);
  }
  return absl::OkStatus();
}

void HostCopies::Bring(const Request& request, const RequestBlock& block) const {
  for (int32_t r = 0; r < block.num_records; ++r) {
    const NodeRecord& record = block.records[r];
    if (record.info == 0) continue;
    const int32_t nodes = record.has_stop ? block.info(record).stopped_at + 1 : record.length;
    BringRecord(request, block, record, nodes, answer_, AnswerOf(request));
  }
}

void HostCopies::BringWords(const Request& request, const RequestBlock& block,
                            int32_t words) const {
  for (int32_t r = 0; r < block.num_records; ++r) {
    const NodeRecord& record = block.records[r];
    if (!record.has_stop || block.info(record).counted == 0) continue;
    BringRecord(request, block, record, words, answer_, AnswerOf(request));
    return;
  }
}

void HostCopies::FreeInputs() {
  if (inputs_ != nullptr) blocks_->Free(inputs_, inputs_bytes_);
  inputs_ = nullptr;
}

void HostCopies::Free() {
  if (blocks_ == nullptr) return;
  FreeInputs();
  if (answer_ != nullptr) blocks_->Free(answer_, answer_bytes_);
  answer_ = nullptr;
  blocks_ = nullptr;
}

}  // namespace cellbatch

// The part of CellGraph::Seal that is about the answer: the memory of its tensors, what of which subgraph goes where in
// them. Everything that a request could get wrong about it is refused here.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/cell_graph.h"

namespace cellbatch {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kTensorAlignment = 64;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

int64_t SizeOnWire(WireType type) {
  switch (type) {
    case WireType::kInt32:
    case WireType::kFp32:
      return 4;
    case WireType::kInt64:
      return 8;
    case WireType::kBytes:
      break;
  }
  return 0;
}

bool Carries(ElementType column, WireType tensor) {
  return (column == ElementType::kFp32 && tensor == WireType::kFp32) ||
         (column == ElementType::kInt32 && tensor == WireType::kInt32);
}

// Whether a and b (where a column of one node is put, of the first and of the last, in any order) lie in [0, size).
bool InRange(int64_t a, int64_t b, int64_t size) {
  return std::min(a, b) >= 0 && std::max(a, b) < size;
}

}  // namespace

// One zeroed block for all tensors, each from a multiple of 64 bytes within it.
absl::Status CellGraph::AllocateAnswer() {
  absl::InlinedVector<int64_t, 8> offsets;
  int64_t total = 0;
  for (const ReturnedTensor& t : tensors_) {
    int64_t bytes = SizeOnWire(t.type);
    if (bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("returned tensor \"", t.name, "\" is of BYTES; cells leave numbers"));
    }
    for (int64_t d : t.dims) {
      if (d < 0 || (d > 0 && bytes > kMaxInt32 / d)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "returned tensor \"", t.name, "\": dimension ", d, " takes it beyond 2^31 - 1 bytes"));
      }
      bytes *= d;
    }
    offsets.push_back(total);
    total += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    if (total > kMaxInt32) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the answer takes ", total, " bytes with tensor \"", t.name, "\"; 2^31 - 1 fit"));
    }
  }
  result_.assign(Index(total), std::byte{0});
  for (size_t i = 0; i < tensors_.size(); ++i) {
    int64_t bytes = SizeOnWire(tensors_[i].type);
    for (int64_t d : tensors_[i].dims) bytes *= d;
    tensors_[i].bytes = absl::MakeSpan(result_).subspan(Index(offsets[i]), Index(bytes));
  }
  return absl::OkStatus();
}

absl::Status CellGraph::CheckReturn(const Model& model, const ReturnPiece& piece,
                                    SubgraphId owner) const {
  const auto fail = [&](auto... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("a returned piece of subgraph ", owner.value(), ": ", what...));
  };
  if (!owner.valid() || Index(owner.value()) >= subgraphs_.size()) {
    return fail("the graph has ", subgraphs_.size(), " subgraphs");
  }
  if (owner.value() < first_subgraph_) return fail("it is of an earlier piece");
  const Subgraph& s = subgraphs_[Index(owner.value())];
  if (!s.type.valid()) return fail("it is a request input; only what cells leave is returned");
  const absl::Span<const Column> columns = model.type(s.type).definition->columns();
  if (!piece.column.valid() || Index(piece.column.value()) >= columns.size()) {
    return fail("column ", piece.column.value(), "; its rows have ", columns.size());
  }
  const Column& column = columns[Index(piece.column.value())];
  const NodeRange nodes = piece.nodes;
  if (nodes.first < 0 || nodes.count < 1 || int64_t{nodes.first} + nodes.count > s.length) {
    return fail("nodes from ", nodes.first, ", ", nodes.count, " of them; it has ", s.length);
  }
  if (piece.where.tensor < 0 || Index(piece.where.tensor) >= tensors_.size()) {
    return fail("tensor ", piece.where.tensor, "; the answer has ", tensors_.size());
  }
  const ReturnedTensor& tensor = tensors_[Index(piece.where.tensor)];
  if (!Carries(column.type, tensor.type)) {
    return fail("column \"", column.name, "\" is ", Name(column.type), ", tensor \"", tensor.name,
                "\" takes another type");
  }
  if (s.stop.column.valid() && column.type != ElementType::kInt32) {
    return fail("column \"", column.name, "\" is ", Name(column.type),
                "; a stopping chain returns INT32");
  }
  // Bounded by the tensor's size on both sides, so that nothing below overflows.
  const int64_t size = static_cast<int64_t>(tensor.bytes.size());
  const Placement at = piece.where;
  const int64_t width = column.bytes();
  const int64_t steps = nodes.count - 1;
  const bool sane = at.offset_bytes >= 0 && at.offset_bytes <= size && at.stride_bytes >= -size &&
                    at.stride_bytes <= size && at.offset_bytes % 4 == 0 && at.stride_bytes % 4 == 0;
  if (!sane ||
      !InRange(at.offset_bytes, at.offset_bytes + steps * at.stride_bytes, size - width + 1)) {
    return fail("offset ", at.offset_bytes, " and stride ", at.stride_bytes, " for ", nodes.count,
                " times ", width, " bytes do not fit tensor \"", tensor.name, "\" of ", size);
  }
  return absl::OkStatus();
}

// That the words lie in their tensor, CheckReturn says; here: that CloseAnswer can cut it.
absl::Status CellGraph::CheckStopReport(const StopReport& report) const {
  const Subgraph& s = subgraphs_[Index(report.chain.value())];
  const auto wrong = [&](int32_t tensor, int64_t length) {
    if (tensor < 0) return false;
    if (Index(tensor) >= tensors_.size()) return true;
    const ReturnedTensor& t = tensors_[Index(tensor)];
    return t.type != WireType::kInt32 || t.dims != TensorDims{length};
  };
  const StopTensors& to = report.tensors;
  if (!wrong(to.words, s.length) && !wrong(to.length, 1) && !wrong(to.stopped, 1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the stop of subgraph ", report.chain.value(), " is returned in tensors ", to.words, ", ",
      to.length, ", ", to.stopped, "; expected are INT32 of [", s.length, "], [1], [1]"));
}

// A stable counting sort by subgraph: first_return and num_returns become valid.
void CellGraph::SortReturns() {
  const size_t begin = Index(first_return_);
  if (returns_.size() == begin) return;
  for (size_t i = begin; i < returns_.size(); ++i) {
    ++subgraphs_[Index(return_owner_[i].value())].num_returns;
  }
  int32_t next = first_return_;
  for (Subgraph& s : absl::MakeSpan(subgraphs_).subspan(Index(first_subgraph_))) {
    s.first_return = next;
    next += s.num_returns;
    s.num_returns = 0;
  }
  const absl::InlinedVector<ReturnPiece, 8> given(returns_.begin() + first_return_, returns_.end());
  for (size_t i = 0; i < given.size(); ++i) {
    Subgraph& s = subgraphs_[Index(return_owner_[begin + i].value())];
    returns_[Index(s.first_return + s.num_returns++)] = given[i];
  }
}

}  // namespace cellbatch

// What unfolders check about the tensors of a request, and how they say it: "input WORDS: ..." with
// both values. Pure; any thread. Costs what it looks at.
#ifndef CELLBATCH_CELLS_UNFOLD_REQUEST_CHECK_H_
#define CELLBATCH_CELLS_UNFOLD_REQUEST_CHECK_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/unfold/request_input.h"

namespace cellbatch {

// Elements of one tensor: node and row numbers are 32 bits, and no message is larger.
inline constexpr int64_t kMaxTensorRows = int64_t{1} << 28;

// An output that several unfolders offer: a row for every node, or every state.
inline constexpr char kNodeOutputs[] = "NODE_OUTPUTS";

absl::Status WrongInput(std::string_view tensor, std::string_view what);

// Type, rank and dimensions (-1: any from 1 to kMaxTensorRows), and that the bytes are that many.
absl::Status CheckTensor(const InputTensor& tensor, WireType type, absl::Span<const int64_t> dims);
// A tensor of which a request may have none: left out, and sent without rows ([0, ..]), are the same, null.
const InputTensor* FindRows(const RequestInput& input, std::string_view name);
// Every tensor of the request is one of `names`.
absl::Status CheckNames(const RequestInput& input, absl::Span<const std::string_view> names);

// The elements of an INT32 tensor.
absl::Span<const int32_t> Int32s(const InputTensor& tensor);

// Numbers that cells look up: those below `size` are known. Others are refused, or served as
// `unknown`.
struct IdRange {
  int64_t size = 0;
  std::optional<int32_t> unknown;

  bool Has(int32_t id) const { return id >= 0 && id < size; }
};
// Rows for CellGraph::AddInput of ids that lie packed in `tensor`: the tensor's own bytes, or, where
// an unknown one is replaced, a copy that `graph` keeps. `what`: "character", "token".
absl::StatusOr<const std::byte*> KnownIds(const InputTensor& tensor, std::string_view what,
                                          const IdRange& range, CellGraph& graph);

// A message of several: where one of them begins and how long it is.
struct Piece {
  int32_t offset = 0, length = 0;
};
// LENGTHS INT32 [B] of a message whose `source` has `total` steps, each piece at most `longest`;
// absent (null): one piece.
absl::StatusOr<absl::InlinedVector<Piece, 1>> SplitByLengths(const InputTensor* lengths,
                                                             std::string_view source, int64_t total,
                                                             int64_t longest);

// Asked for by name, each known and at most once; an empty request asks for the first of `names`.
// By position in `names`.
absl::StatusOr<absl::InlinedVector<bool, 8>> AskedOutputs(const RequestInput& input,
                                                          absl::Span<const std::string_view> names);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_REQUEST_CHECK_H_

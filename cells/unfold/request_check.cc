#include "cells/unfold/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace cellbatch {
namespace {

constexpr int64_t kElement = 4;

}  // namespace

absl::Status WrongInput(std::string_view tensor, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("input {}: {}", tensor, what));
}

absl::Status CheckTensor(const InputTensor& tensor, WireType type, absl::Span<const int64_t> dims) {
  const auto wrong = [&](std::string what) { return WrongInput(tensor.name, what); };
  if (tensor.type != type) {
    return wrong(fmt::format("datatype {}, expected {}", Name(tensor.type), Name(type)));
  }
  if (tensor.dims.size() != dims.size()) {
    return wrong(fmt::format("{} dimensions, expected {}", tensor.dims.size(), dims.size()));
  }
  int64_t bytes = kElement;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t dim = tensor.dims[d];
    if (dims[d] >= 0 ? dim != dims[d] : dim < 1) {
      return wrong(fmt::format("shape [{}], expected [{}]", fmt::join(tensor.dims, ", "),
                               fmt::join(dims, ", ")));
    }
    if (dim > kMaxTensorRows || bytes > std::numeric_limits<int64_t>::max() / dim) {
      return wrong(fmt::format("shape [{}] is too large", fmt::join(tensor.dims, ", ")));
    }
    bytes *= dim;
  }
  if (static_cast<int64_t>(tensor.bytes.size()) == bytes) return absl::OkStatus();
  return wrong(fmt::format("{} bytes, shape [{}] takes {}", tensor.bytes.size(),
                           fmt::join(tensor.dims, ", "), bytes));
}

const InputTensor* FindRows(const RequestInput& input, std::string_view name) {
  const InputTensor* t = input.Find(name);
  const bool empty = t != nullptr && !t->dims.empty() && t->dims[0] == 0 && t->bytes.empty();
  return empty ? nullptr : t;
}

absl::Status CheckNames(const RequestInput& input, absl::Span<const std::string_view> names) {
  for (const InputTensor& t : input.tensors) {
    if (std::find(names.begin(), names.end(), t.name) != names.end()) continue;
    return WrongInput(
        t.name, fmt::format("the model has no such input, it takes {}", fmt::join(names, ", ")));
  }
  return absl::OkStatus();
}

absl::Span<const int32_t> Int32s(const InputTensor& tensor) {
  // Aligned: RequestInput promises it.
  return {reinterpret_cast<const int32_t*>(tensor.bytes.data()), tensor.bytes.size() / kElement};
}

absl::StatusOr<const std::byte*> KnownIds(const InputTensor& tensor, std::string_view what,
                                          const IdRange& range, CellGraph& graph) {
  const absl::Span<const int32_t> ids = Int32s(tensor);
  const auto stranger =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return !range.Has(id); });
  if (stranger == ids.end()) return tensor.bytes.data();
  if (!range.unknown) {
    return WrongInput(tensor.name, fmt::format("{} {} is {}, the vocabulary ends at {}", what,
                                               stranger - ids.begin(), *stranger, range.size - 1));
  }
  std::byte* kept = graph.Keep(static_cast<int64_t>(tensor.bytes.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t id = range.Has(ids[i]) ? ids[i] : *range.unknown;
    std::memcpy(kept + i * sizeof(id), &id, sizeof(id));
  }
  return kept;
}

absl::StatusOr<absl::InlinedVector<Piece, 1>> SplitByLengths(const InputTensor* lengths,
                                                             std::string_view source, int64_t total,
                                                             int64_t longest) {
  const auto too_long = [&](std::string_view tensor, std::string_view what, int64_t length) {
    return WrongInput(tensor, fmt::format("{}{}, the model takes {}", what, length, longest));
  };
  if (lengths == nullptr) {
    if (total > longest) return too_long(source, "length ", total);
    return absl::InlinedVector<Piece, 1>{{0, static_cast<int32_t>(total)}};
  }
  if (absl::Status s = CheckTensor(*lengths, WireType::kInt32, {-1}); !s.ok()) return s;
  absl::InlinedVector<Piece, 1> pieces;
  pieces.reserve(static_cast<size_t>(lengths->dims[0]));
  int64_t offset = 0;
  for (const int32_t length : Int32s(*lengths)) {
    const size_t i = pieces.size();
    if (length < 1) {
      return WrongInput(lengths->name, fmt::format("length {} is {}, the least is 1", i, length));
    }
    if (length > longest) return too_long(lengths->name, fmt::format("length {} is ", i), length);
    if (length > total - offset) {
      return WrongInput(lengths->name, fmt::format("lengths 0 to {} add up to {}, {} has {}", i,
                                                   offset + length, source, total));
    }
    pieces.push_back({static_cast<int32_t>(offset), length});
    offset += length;
  }
  if (offset == total) return pieces;
  return WrongInput(lengths->name,
                    fmt::format("the lengths add up to {}, {} has {}", offset, source, total));
}

absl::StatusOr<absl::InlinedVector<bool, 8>> AskedOutputs(
    const RequestInput& input, absl::Span<const std::string_view> names) {
  absl::InlinedVector<bool, 8> asked(names.size(), false);
  if (input.outputs.empty()) asked[0] = true;
  for (const std::string_view name : input.outputs) {
    const size_t i =
        static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (i == names.size()) {
      return absl::InvalidArgumentError(
          fmt::format("output {}: the model has no such output", name));
    }
    if (asked[i])
      return absl::InvalidArgumentError(fmt::format("output {}: asked for twice", name));
    asked[i] = true;
  }
  return asked;
}

}  // namespace cellbatch

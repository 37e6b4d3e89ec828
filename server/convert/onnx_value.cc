#include "server/convert/onnx_value.h"

#include <fmt/format.h>

#include <algorithm>

namespace cellbatch {
namespace {

absl::Status Wrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

int64_t Product(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t d : dims) product *= d;
  return product;
}

template <typename Number, typename Source>
std::shared_ptr<const std::vector<Number>> Pick(const std::vector<Number>& from, int64_t count,
                                                Source source) {
  auto to = std::make_shared<std::vector<Number>>();
  to->reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) to->push_back(from[static_cast<size_t>(source(i))]);
  return to;
}

// The constant of shape `dims` whose element i is `from`'s element source(i).
template <typename Source>
OnnxConstant PickAll(const OnnxConstant& from, std::vector<int64_t> dims, Source source) {
  OnnxConstant made;
  made.dims = std::move(dims);
  const int64_t count = Product(made.dims);
  if (from.floats != nullptr) made.floats = Pick(*from.floats, count, source);
  if (from.integers != nullptr) made.integers = Pick(*from.integers, count, source);
  return made;
}

// Elements before, of and behind a dimension.
struct Split {
  int64_t outer, size, inner;
};
Split SplitAt(const std::vector<int64_t>& dims, int64_t axis) {
  const auto all = absl::MakeConstSpan(dims);
  const size_t at = static_cast<size_t>(axis);
  return {Product(all.first(at)), dims[at], Product(all.subspan(at + 1))};
}

}  // namespace

OnnxValue OnnxValue::Opaque(std::string why) {
  OnnxValue value;
  value.why = std::make_shared<const std::string>(std::move(why));
  return value;
}

OnnxValue OnnxValue::Of(OnnxConstant constant) {
  OnnxValue value;
  value.kind = Kind::kConstant;
  value.constant = std::move(constant);
  return value;
}

OnnxValue OnnxValue::Of(OnnxRows rows) {
  OnnxValue value;
  value.kind = Kind::kRows;
  value.rows = std::move(rows);
  return value;
}

OnnxValue OnnxValue::Fill(float number) {
  OnnxValue value;
  value.kind = Kind::kFill;
  value.fill = number;
  return value;
}

OnnxValue OnnxValue::Integers(std::vector<OnnxDim> values) {
  OnnxConstant constant;
  constant.dims = {static_cast<int64_t>(values.size())};
  constant.integers = std::make_shared<const std::vector<OnnxDim>>(std::move(values));
  return Of(std::move(constant));
}

bool IsAbsentOrZero(const OnnxValue* value) {
  if (value == nullptr) return true;
  if (value->kind == OnnxValue::Kind::kFill) return value->fill == 0;
  if (!value->is_floats()) return false;
  const std::vector<float>& all = *value->constant.floats;
  return std::all_of(all.begin(), all.end(), [](float v) { return v == 0; });
}

std::string DimsText(absl::Span<const int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

absl::Status OnnxFolder::Spend(int64_t elements) {
  if (elements > kMaxOnnxFolded - spent_) {
    return Wrong(fmt::format("constants of more than {} elements in all", kMaxOnnxFolded));
  }
  spent_ += elements;
  return absl::OkStatus();
}

absl::StatusOr<OnnxConstant> OnnxFolder::Reshape(const OnnxConstant& from,
                                                 absl::Span<const OnnxDim> to,
                                                 bool zero_copies) const {
  OnnxConstant made = from;
  made.dims.clear();
  int64_t known = 1, most = 1;  // `most`: of any of its dimensions, where another one is none
  int open = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    int64_t size = to[i].value;
    if (!to[i].known()) return Wrong("to a shape that is not known before it is served");
    if (size == 0 && zero_copies && i < from.dims.size()) size = from.dims[i];
    if (size == -1 && open < 0) {
      open = static_cast<int>(i);
      size = 1;
    }
    if (size < 0 || (size > 0 && most > kMaxOnnxFolded / size)) {
      return Wrong("to an impossible shape");
    }
    known *= size;
    most *= std::max<int64_t>(size, 1);
    made.dims.push_back(size);
  }
  if (open >= 0 && known > 0 && from.size() % known == 0) {
    made.dims[static_cast<size_t>(open)] = from.size() / known;
    known = from.size();
  }
  if (known == from.size()) return made;
  return Wrong(
      fmt::format("{} to {}: other numbers of elements", DimsText(from.dims), DimsText(made.dims)));
}

absl::StatusOr<OnnxConstant> OnnxFolder::Transpose(const OnnxConstant& from,
                                                   std::vector<int64_t> order) {
  const size_t rank = from.dims.size();
  if (order.empty()) {
    for (size_t i = rank; i > 0; --i) order.push_back(static_cast<int64_t>(i) - 1);
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = order.size() == rank;
  for (size_t i = 0; i < sorted.size(); ++i) {
    permutation = permutation && sorted[i] == static_cast<int64_t>(i);
  }
  if (!permutation) {
    return Wrong(fmt::format("perm {} of a shape {}", DimsText(order), DimsText(from.dims)));
  }
  if (absl::Status s = Spend(from.size()); !s.ok()) return s;
  std::vector<int64_t> stride(rank, 1), dims, strides;
  for (size_t i = rank; i > 1; --i) stride[i - 2] = stride[i - 1] * from.dims[i - 1];
  for (const int64_t axis : order) {
    dims.push_back(from.dims[static_cast<size_t>(axis)]);
    strides.push_back(stride[static_cast<size_t>(axis)]);
  }
  const std::vector<int64_t> sizes = dims;
  return PickAll(from, std::move(dims), [&sizes, &strides](int64_t i) {
    int64_t at = 0;
    for (size_t d = sizes.size(); d > 0; --d) {
      at += i % sizes[d - 1] * strides[d - 1];
      i /= sizes[d - 1];
    }
    return at;
  });
}

absl::StatusOr<OnnxConstant> OnnxFolder::Slice(const OnnxConstant& from, int64_t axis,
                                               int64_t begin, int64_t step, int64_t count) {
  const Split split = SplitAt(from.dims, axis);
  std::vector<int64_t> dims = from.dims;
  dims[static_cast<size_t>(axis)] = count;
  if (absl::Status s = Spend(Product(dims)); !s.ok()) return s;
  return PickAll(from, std::move(dims), [&](int64_t i) {
    const int64_t inner = i % split.inner, at = i / split.inner % count;
    return (i / split.inner / count * split.size + begin + at * step) * split.inner + inner;
  });
}

absl::StatusOr<OnnxConstant> OnnxFolder::Gather(const OnnxConstant& from, int64_t axis,
                                                absl::Span<const int64_t> indices, bool scalar) {
  const Split split = SplitAt(from.dims, axis);
  for (const int64_t index : indices) {
    if (index >= -split.size && index < split.size) continue;
    return Wrong(fmt::format("index {} of {}", index, split.size));
  }
  const int64_t count = static_cast<int64_t>(indices.size());
  if (split.inner > 0 && split.outer > 0 && count > kMaxOnnxFolded / split.inner / split.outer) {
    return Spend(kMaxOnnxFolded + 1);
  }
  if (absl::Status s = Spend(split.outer * count * split.inner); !s.ok()) return s;
  std::vector<int64_t> dims = from.dims;
  const auto at = dims.begin() + axis;
  if (scalar) {
    dims.erase(at);
  } else {
    *at = count;
  }
  return PickAll(from, std::move(dims), [&](int64_t i) {
    const int64_t inner = i % split.inner,
                  index = indices[static_cast<size_t>(i / split.inner % count)];
    return (i / split.inner / count * split.size + (index < 0 ? index + split.size : index)) *
               split.inner +
           inner;
  });
}

absl::StatusOr<OnnxConstant> OnnxFolder::Concat(absl::Span<const OnnxConstant* const> parts,
                                                int64_t axis) {
  const OnnxConstant& first = *parts[0];
  std::vector<int64_t> dims = first.dims;
  dims[static_cast<size_t>(axis)] = 0;
  int64_t elements = 0;
  for (const OnnxConstant* part : parts) {
    std::vector<int64_t> others = part->dims;
    const bool fits =
        others.size() == dims.size() && (part->floats == nullptr) == (first.floats == nullptr);
    if (fits) others[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)];
    if (!fits || others != dims) {
      return Wrong(fmt::format("{} beside {}", DimsText(part->dims), DimsText(first.dims)));
    }
    dims[static_cast<size_t>(axis)] += part->dims[static_cast<size_t>(axis)];
    elements += part->size();
  }
  if (absl::Status s = Spend(elements); !s.ok()) return s;
  auto floats = std::make_shared<std::vector<float>>();
  auto integers = std::make_shared<std::vector<OnnxDim>>();
  const int64_t outer = SplitAt(dims, axis).outer;
  for (int64_t o = 0; o < outer; ++o) {
    for (const OnnxConstant* part : parts) {
      const int64_t run = part->size() / std::max<int64_t>(outer, 1);
      const ptrdiff_t begin = o * run, end = begin + run;
      if (part->floats != nullptr) {
        floats->insert(floats->end(), part->floats->begin() + begin, part->floats->begin() + end);
      } else {
        integers->insert(integers->end(), part->integers->begin() + begin,
                         part->integers->begin() + end);
      }
    }
  }
  OnnxConstant made;
  made.dims = std::move(dims);
  if (first.floats != nullptr) {
    made.floats = std::move(floats);
  } else {
    made.integers = std::move(integers);
  }
  return made;
}

}  // namespace cellbatch

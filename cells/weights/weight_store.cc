#include "cells/weights/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cells/device/cpu/process_limits.h"

namespace cellbatch {
namespace {

constexpr int64_t kMaxDimension = int64_t{1} << 30;

absl::Status Wrong(std::string_view tensor, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("tensor \"{}\" {}", tensor, what));
}

Shape ShapeFor(absl::Span<const int64_t> dims) {
  const int32_t last = static_cast<int32_t>(dims.back());
  return dims.size() == 2 ? Shape::Matrix(static_cast<int32_t>(dims[0]), last)
                          : Shape::Vector(last);
}

std::vector<float> Transposed(absl::Span<const float> from, Shape shape) {
  std::vector<float> to(from.size());
  for (int32_t r = 0; r < shape.rows; ++r) {
    for (int32_t c = 0; c < shape.cols; ++c) {
      to[static_cast<size_t>(int64_t{c} * shape.rows + r)] =
          from[static_cast<size_t>(int64_t{r} * shape.cols + c)];
    }
  }
  return to;
}

}  // namespace

absl::StatusOr<WeightStore> WeightStore::Open(const std::string& path, uint64_t max_bytes) {
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path, max_bytes);
  if (!file.ok()) return file.status();
  return WeightStore(*std::move(file));
}

absl::StatusOr<const SafetensorsEntry*> WeightStore::Find(const std::string& tensor) const {
  const SafetensorsEntry* entry = file_.Find(tensor);
  if (entry == nullptr) return Wrong(tensor, "is not in the file");
  if (!entry->is_float()) {
    return Wrong(tensor, fmt::format("is {}, weights are F32, F64, F16 or BF16", entry->dtype));
  }
  const std::string shape = ShapeText(entry->shape);
  if (entry->shape.empty() || entry->shape.size() > 2) {
    return Wrong(tensor, fmt::format("is {}, weights have one or two dimensions", shape));
  }
  for (const int64_t d : entry->shape) {
    if (d < 1 || d > kMaxDimension || entry->num_elements() > kMaxDimension) {
      return Wrong(tensor,
                   fmt::format("is {}, of which 1 to {} elements fit", shape, kMaxDimension));
    }
  }
  return entry;
}

absl::StatusOr<std::vector<int64_t>> WeightStore::ShapeOf(absl::Span<const std::string> tensors,
                                                          bool transposed) const {
  const SafetensorsEntry* first = nullptr;
  for (const std::string& tensor : tensors) {
    const absl::StatusOr<const SafetensorsEntry*> entry = Find(tensor);
    if (!entry.ok()) return entry.status();
    if (first == nullptr) first = *entry;
    if ((*entry)->shape != first->shape) {
      return Wrong(tensor,
                   fmt::format("is {}, \"{}\", to which it is added, is {}",
                               ShapeText((*entry)->shape), first->name, ShapeText(first->shape)));
    }
  }
  if (first == nullptr) return absl::InvalidArgumentError("no tensor is named");
  std::vector<int64_t> shape = first->shape;
  if (transposed && shape.size() == 1) return Wrong(first->name, "is a vector, to be transposed");
  if (transposed) std::swap(shape[0], shape[1]);
  return shape;
}

absl::Status WeightStore::AddTensor(const SafetensorsEntry& entry, absl::Span<float> sum) const {
  std::vector<float> values(sum.size());
  if (absl::Status s = file_.ReadTensor(entry, absl::MakeSpan(values)); !s.ok()) return s;
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (bad != values.end()) {
    return Wrong(entry.name, fmt::format("holds {} at element {}", *bad, bad - values.begin()));
  }
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  return absl::OkStatus();
}

absl::StatusOr<Weight> WeightStore::Get(absl::Span<const std::string> tensors, bool transposed) {
  const absl::StatusOr<std::vector<int64_t>> dims = ShapeOf(tensors, transposed);
  if (!dims.ok()) return dims.status();
  std::pair key(transposed, std::vector<std::string>(tensors.begin(), tensors.end()));
  if (const auto made = made_.find(key); made != made_.end()) return made->second;

  const Shape shape = ShapeFor(*dims);
  const size_t size = static_cast<size_t>(shape.size());
  RequireMemory(static_cast<int64_t>(2 * size * sizeof(float)));  // beside the sum, what is added
  const std::shared_ptr<float[]> data(new float[size]());
  const absl::Span<float> sum(data.get(), size);
  for (const std::string& tensor : tensors) {
    if (absl::Status s = AddTensor(*file_.Find(tensor), sum); !s.ok()) return s;
  }
  if (transposed) {
    const std::vector<float> turned = Transposed(sum, Shape::Matrix(shape.cols, shape.rows));
    std::copy(turned.begin(), turned.end(), sum.begin());
  }
  return made_[std::move(key)] = Weight{data, shape};
}

Weight ZeroWeight(Shape shape) {
  return {std::shared_ptr<const float[]>(new float[static_cast<size_t>(shape.size())]()), shape};
}

}  // namespace cellbatch

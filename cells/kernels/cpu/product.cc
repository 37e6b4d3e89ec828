#include "cells/kernels/cpu/product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cells/check.h"

namespace cellbatch::kernels {

namespace {

// Of the segment that has most.
int MostGroups(const ProductSpec& spec) {
  int most = spec.segments.empty() ? spec.groups : 0;
  for (const SegmentSpec& s : spec.segments) {
    const auto there = std::count_if(s.weights, s.weights + spec.groups,
                                     [](const WeightView& w) { return w.data != nullptr; });
    most = std::max(most, static_cast<int>(there));
  }
  return most;
}

int BlocksPerPanel(const ProductSpec& spec) {
  const int by_columns = kPanelColumns / std::max(1, MostGroups(spec));
  return std::max(1, std::min(by_columns, kPanelSums / std::max(1, spec.groups)));
}

// Of one unit, what it has of a column is what all have.
TailProgram ReadAsColumns(TailProgram tail) {
  for (TailOp& op : tail.ops) {
    if (op.kind == TailOpKind::kScalar) op.kind = TailOpKind::kColumn;
  }
  return tail;
}

float LargestOf(const WeightView& w, int32_t depth, int64_t unit) {
  float largest = 0.0f;
  for (int k = 0; k < depth; ++k) {
    largest = std::max(largest, std::abs(w.data[unit * w.unit_stride + k * w.depth_stride]));
  }
  return largest;
}

// One of the columns of 16 of a segment's part of a panel, each of so many steps.
struct Columns {
  WeightOrder order;
  int64_t all, this_one, steps;

  int64_t At(int64_t step) const {
    return order == WeightOrder::kStepByStep ? step * all + this_one : this_one * steps + step;
  }
};

// Of the k-th weight of unit `lane` of its block.
template <typename Stored>
int64_t StoredAt(int64_t k, Columns columns, int64_t lane) {
  if constexpr (std::is_same_v<Stored, uint16_t>) {
    // In memory what is above is behind.
    return (columns.At(k / 2) * kLanes + lane) * 2 + (1 - k % 2);
  } else {
    return columns.At(k) * kLanes + lane;
  }
}

enum class Part : uint8_t { kWhole, kUpper, kLower };

uint16_t Bf16Of(float weight, Part part) {
  if (part == Part::kWhole) return RoundedToBf16(weight);
  return part == Part::kUpper ? SplitBf16(weight).upper : SplitBf16(weight).lower;
}

// Of units [first, first + lanes). `scales`: of int8. `part`: of bf16.
template <typename Stored>
void PackColumn(const WeightView& w, int32_t depth, int64_t first, int lanes, const float* scales,
                Columns columns, Stored* to, Part part = Part::kWhole) {
  for (int lane = 0; lane < lanes; ++lane) {
    const float* const from = w.data + (first + lane) * w.unit_stride;
    for (int k = 0; k < depth; ++k) {
      Stored& stored = to[StoredAt<Stored>(k, columns, lane)];
      const float weight = from[k * w.depth_stride];
      if constexpr (std::is_same_v<Stored, int8_t>) stored = Quantised(weight, scales[lane]);
      if constexpr (std::is_same_v<Stored, uint16_t>) stored = Bf16Of(weight, part);
      if constexpr (std::is_same_v<Stored, float>) stored = weight;
    }
    if (!std::is_same_v<Stored, uint16_t> || depth % 2 == 0) continue;
    // The other of the last pair: -0, which times the zero that it meets leaves every sum as it is.
    to[StoredAt<Stored>(depth, columns, lane)] = static_cast<Stored>(RoundedToBf16(-0.0f));
  }
}

}  // namespace

float ScaleOfLargest(float largest) {
  const float scale = largest / 127.0f;
  return scale >= std::numeric_limits<float>::min() ? scale : 0.0f;
}

int8_t Quantised(float weight, float scale) {
  if (scale == 0.0f) return 0;
  const double steps = std::nearbyint(double{weight} / double{scale});
  return std::isnan(steps) ? int8_t{0} : static_cast<int8_t>(std::clamp(steps, -127.0, 127.0));
}

int64_t PackedProduct::StoredBytes(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kFp32Split:
    case Precision::kTf32:
      return sizeof(float);
    case Precision::kBf16:
      return sizeof(uint16_t);
    case Precision::kW8:
      return sizeof(int8_t);
  }
  NoSuchEnumerator();
}

int64_t PackedProduct::StoredDepth(Precision precision, int32_t depth) {
  const bool pairs = precision == Precision::kBf16 || precision == Precision::kFp32Split;
  return pairs ? (int64_t{depth} + 1) / 2 * 2 : depth;
}

PackedProduct::PackedProduct(const ProductSpec& spec, const Packing& packing)
    : units_(spec.units),
      groups_(spec.groups),
      precision_(spec.precision),
      packing_(packing),
      tail_(spec.tail),
      match_(ClassifyTail(spec.tail)) {
  Check(units_ > 0 && groups_ >= 0 && groups_ <= kMaxGroups, "a product of no shape");
  Check(spec.segments.size() <= size_t{kMaxSegments}, "a product with too many segments");
  Check(spec.parameters.size() == static_cast<size_t>(tail_.num_parameters),
        "as many parameter vectors as the tail names");
  Check(tail_.ops.size() <= size_t{kMaxTailOps} && tail_.num_columns <= kMaxTailColumns,
        "a tail with too many operations or columns");
  const std::string wrong = CheckTail(tail_, groups_);
  Check(wrong.empty(), wrong);
  code_ = MakeTailCode(IsOfNumbers() ? ReadAsColumns(tail_) : tail_);
  num_blocks_ = (units_ + kLanes - 1) / kLanes;
  blocks_per_panel_ = BlocksPerPanel(spec);
  num_panels_ = (num_blocks_ + blocks_per_panel_ - 1) / blocks_per_panel_;
  const bool has_whole_blocks = units_ >= kLanes;  // which alone are run compiled
  if (has_whole_blocks && match_.shape == TailShape::kGeneral &&
      CompiledTail::IsUseful(packing_.tails)) {
    const int64_t bytes = int64_t{num_blocks_} * kLanes * static_cast<int64_t>(sizeof(float));
    compiled_ = CompiledTail::Make(code_, packing_.tails, {bytes, kChunkRows, groups_ == 0});
  }

  const int last_blocks = BlocksOf(num_panels_ - 1);
  int64_t last_stored = 0;
  for (const SegmentSpec& s : spec.segments) {
    Segment segment{s.depth, 0, {}, panel_stored_, last_stored};
    for (int g = 0; g < groups_; ++g) {
      if (s.weights[g].data != nullptr) segment.group[segment.groups++] = g;
    }
    const int64_t of_block = StoredDepth(precision_, s.depth) * segment.groups * kLanes;
    panel_stored_ += of_block * blocks_per_panel_;
    last_stored += of_block * last_blocks;
    segments_.push_back(segment);
  }
  stored_ = panel_stored_ * (num_panels_ - 1) + last_stored;
  weights_ = PackedMemory((weight_bytes() + 3) / static_cast<int64_t>(sizeof(float)));
  if (precision_ == Precision::kW8) FindScales(spec);
  switch (precision_) {
    case Precision::kFp32:
      for (int p = 0; p < num_panels_; ++p) PackPanel<float>(spec, p);
      break;
    case Precision::kFp32Split:
      Check(packing_.order == WeightOrder::kStepByStep, "split weights lie step by step");
      for (int p = 0; p < num_panels_; ++p) PackSplitPanel(spec, p);
      break;
    case Precision::kTf32:
      Check(false, "CPUs compute TF32 as FP32");
      break;
    case Precision::kBf16:
      for (int p = 0; p < num_panels_; ++p) PackPanel<uint16_t>(spec, p);
      break;
    case Precision::kW8:
      for (int p = 0; p < num_panels_; ++p) PackPanel<int8_t>(spec, p);
      break;
  }
  FindZeroTerms(spec);
  PackUnitValues(spec);
}

int PackedProduct::BlocksOf(int panel) const {
  return std::min(blocks_per_panel_, num_blocks_ - panel * blocks_per_panel_);
}

int64_t PackedProduct::multiply_adds(int segment) const {
  const Segment& s = segments_[static_cast<size_t>(segment)];
  return StoredDepth(precision_, s.depth) * s.groups * num_blocks_ * kLanes;
}

void PackedProduct::PackUnitValues(const ProductSpec& spec) {
  bias_ = PackedMemory(accumulator_width());
  parameters_ = PackedMemory(int64_t{tail_.num_parameters} * num_blocks_ * kLanes);
  for (int i = 0; IsOfNumbers() && i < tail_.num_parameters; ++i) {
    std::fill_n(parameters_.data() + int64_t{i} * kLanes, kLanes, spec.parameters[i][0]);
  }
  for (int u = 0; u < units_; ++u) {
    const int64_t block = u / kLanes, lane = u % kLanes;
    for (int g = 0; g < groups_; ++g) {
      if (spec.bias[g] == nullptr) continue;
      bias_.data()[(block * groups_ + g) * kLanes + lane] = spec.bias[g][u];
    }
    for (int i = 0; i < tail_.num_parameters; ++i) {
      parameters_.data()[int64_t{i} * num_blocks_ * kLanes + u] = spec.parameters[i][u];
    }
  }
}

void PackedProduct::FindScales(const ProductSpec& spec) {
  scales_ = PackedMemory(accumulator_width() * static_cast<int64_t>(segments_.size()));
  for (size_t i = 0; i < segments_.size(); ++i) {
    float* const scales = scales_.data() + accumulator_width() * static_cast<int64_t>(i);
    for (int c = 0; c < segments_[i].groups; ++c) {
      const int g = segments_[i].group[c];
      const SegmentSpec& s = spec.segments[i];
      for (int64_t u = 0; u < units_; ++u) {
        const float largest =
            s.largest[g] != nullptr ? s.largest[g][u] : LargestOf(s.weights[g], s.depth, u);
        scales[(u / kLanes * groups_ + g) * kLanes + u % kLanes] = ScaleOfLargest(largest);
      }
    }
  }
}

template <typename Stored>
void PackedProduct::PackPanel(const ProductSpec& spec, int panel) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    Stored* const to = const_cast<Stored*>(Weights<Stored>(panel, s));
    const int blocks = BlocksOf(panel);
    for (int b = 0; b < blocks; ++b) {
      const int block = panel * blocks_per_panel_ + b;
      for (int c = 0; c < s.groups; ++c) {
        const int g = s.group[c];
        const float* const scales =
            precision_ != Precision::kW8
                ? nullptr
                : Scales(static_cast<int>(i)) + (int64_t{block} * groups_ + g) * kLanes;
        const int64_t steps = precision_ == Precision::kBf16 ? (s.depth + 1) / 2 : s.depth;
        const Columns columns = {packing_.order, blocks * s.groups, b * s.groups + c, steps};
        PackColumn(spec.segments[i].weights[g], s.depth, block * kLanes,
                   std::min(kLanes, units_ - block * kLanes), scales, columns, to);
      }
    }
  }
}

void PackedProduct::PackSplitPanel(const ProductSpec& spec, int panel) {
  const int blocks = BlocksOf(panel);
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    auto* const to = reinterpret_cast<uint16_t*>(const_cast<float*>(Weights(panel, s)));
    const int64_t columns = int64_t{blocks} * s.groups, steps = (int64_t{s.depth} + 1) / 2;
    for (int64_t column = 0; column < 2 * columns; ++column) {
      const int64_t of_part = column % columns;
      const int block = panel * blocks_per_panel_ + static_cast<int>(of_part / s.groups);
      PackColumn(spec.segments[i].weights[s.group[of_part % s.groups]], s.depth, block * kLanes,
                 std::min(kLanes, units_ - block * kLanes), nullptr,
                 {packing_.order, 2 * columns, column, steps}, to,
                 column < columns ? Part::kUpper : Part::kLower);
    }
  }
}

// Stored as int8, terms of a row of zeros are summed from +0 and are +0, as is what their scale makes of them.
void PackedProduct::FindZeroTerms(const ProductSpec& spec) {
  zero_terms_ = PackedMemory(accumulator_width() * static_cast<int64_t>(segments_.size()));
  if (precision_ == Precision::kW8) return;
  for (size_t i = 0; i < segments_.size(); ++i) {
    float* const terms = zero_terms_.data() + accumulator_width() * static_cast<int64_t>(i);
    for (int c = 0; c < segments_[i].groups; ++c) {
      const int g = segments_[i].group[c];
      const WeightView& w = spec.segments[i].weights[g];
      for (int64_t u = 0; u < units_; ++u) {
        const float* const from = w.data + u * w.unit_stride;
        int k = 0;  // nearly always one look: the first weight that is not negative ends it
        while (k < segments_[i].depth && std::signbit(from[k * w.depth_stride])) ++k;
        if (k < segments_[i].depth) continue;
        terms[(u / kLanes * groups_ + g) * kLanes + u % kLanes] = -0.0f;
      }
    }
  }
}

ProductScratch::ProductScratch(Tuning tuning)
    : tuning_(tuning),
      memory_(2 * kAccumulatorFloats + kValueFloats + kPanelFloats + kExpandedFloats),
      packed_rows_(kPackedFloats),
      largest_(kLargestRows),
      rows_((kMaxSegments + 1 + kMaxGroups + kMaxTailColumns) * kChunkRows) {}

}  // namespace cellbatch::kernels

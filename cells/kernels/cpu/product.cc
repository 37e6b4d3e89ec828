#include "cells/kernels/cpu/product.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

PackedProduct::PackedProduct(const ProductSpec& spec)
    : units_(spec.units), groups_(spec.groups), tail_(spec.tail), match_(ClassifyTail(spec.tail)) {
  Check(units_ > 0 && groups_ >= 0 && groups_ <= kMaxGroups, "a product of no shape");
  Check(spec.segments.size() <= size_t{kMaxSegments}, "a product with too many segments");
  Check(spec.parameters.size() == static_cast<size_t>(tail_.num_parameters),
        "as many parameter vectors as the tail names");
  Check(tail_.ops.size() <= size_t{kMaxTailOps} && tail_.num_columns <= kMaxTailColumns,
        "a tail with too many operations or columns");
  const std::string wrong = CheckTail(tail_, groups_);
  Check(wrong.empty(), wrong);
  code_ = MakeTailCode(tail_);
  num_blocks_ = (units_ + kLanes - 1) / kLanes;
  blocks_per_panel_ = BlocksPerPanel(spec);
  num_panels_ = (num_blocks_ + blocks_per_panel_ - 1) / blocks_per_panel_;

  const int last_blocks = BlocksOf(num_panels_ - 1);
  int64_t last_floats = 0;
  for (const SegmentSpec& s : spec.segments) {
    Segment segment{s.depth, 0, {}, panel_floats_, last_floats};
    for (int g = 0; g < groups_; ++g) {
      if (s.weights[g].data != nullptr) segment.group[segment.groups++] = g;
    }
    const int64_t block_floats = int64_t{s.depth} * segment.groups * kLanes;
    panel_floats_ += block_floats * blocks_per_panel_;
    last_floats += block_floats * last_blocks;
    segments_.push_back(segment);
  }
  weight_floats_ = panel_floats_ * (num_panels_ - 1) + last_floats;
  weights_ = PackedMemory(weight_floats_);
  for (int p = 0; p < num_panels_; ++p) PackPanel(spec, p);

  FindZeroTerms(spec);
  bias_ = PackedMemory(accumulator_width());
  parameters_ = PackedMemory(int64_t{tail_.num_parameters} * num_blocks_ * kLanes);
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

int PackedProduct::BlocksOf(int panel) const {
  return std::min(blocks_per_panel_, num_blocks_ - panel * blocks_per_panel_);
}

int64_t PackedProduct::weight_bytes(int segment) const {
  const Segment& s = segments_[static_cast<size_t>(segment)];
  return int64_t{s.depth} * s.groups * num_blocks_ * kLanes * static_cast<int64_t>(sizeof(float));
}

const float* PackedProduct::Weights(int panel, const Segment& s) const {
  return weights_.data() + panel_floats_ * panel +
         (panel == num_panels_ - 1 ? s.last_offset : s.offset);
}

void PackedProduct::PackPanel(const ProductSpec& spec, int panel) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    const int blocks = BlocksOf(panel);
    float* const to = weights_.data() + (Weights(panel, s) - weights_.data());
    const int64_t k_floats = int64_t{blocks} * s.groups * kLanes;
    for (int block = 0; block < blocks; ++block) {
      const int first = (panel * blocks_per_panel_ + block) * kLanes;
      const int lanes = std::min(kLanes, units_ - first);
      for (int c = 0; c < s.groups; ++c) {
        const WeightView& w = spec.segments[i].weights[s.group[c]];
        float* const column = to + (block * s.groups + c) * kLanes;
        for (int lane = 0; lane < lanes; ++lane) {
          const float* from = w.data + (first + lane) * w.unit_stride;
          for (int k = 0; k < s.depth; ++k) column[k * k_floats + lane] = from[k * w.depth_stride];
        }
      }
    }
  }
}

void PackedProduct::FindZeroTerms(const ProductSpec& spec) {
  zero_terms_ = PackedMemory(accumulator_width() * static_cast<int64_t>(segments_.size()));
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
      memory_(kAccumulatorFloats + kValueFloats + kPanelFloats),
      largest_(kLargestRows),
      rows_((kMaxSegments + 1 + kMaxGroups) * kChunkRows) {}

}  // namespace cellbatch::kernels

#include "cells/compile/apply_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cpu_limits.h"
#include "memplan/memory_layout.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;

CellSkeleton SkeletonOf(const CellDefinition& cell) { return *MakeSkeleton(cell, kCpuLimits); }

std::string Planned(const CellSkeleton& skeleton) {
  return Describe(ApplyPlan(skeleton, PlanCell(skeleton), kCpuLimits));
}

std::string Declared(const CellSkeleton& skeleton) {
  return Describe(ApplyPlan(skeleton, DeclaredPlan(skeleton), kCpuLimits));
}

TEST(ApplyPlanTest, GroupsThatReadOneInputStandTogether) {
  const CellSkeleton gru = SkeletonOf(testing::GruCell(3, 5));
  EXPECT_EQ(Declared(gru), "product 4x5 in0.0[3]@012 in1.0[5]@023 tail 16 -> out0\n");
  EXPECT_EQ(Planned(gru), "product 4x5 in0.0[3]@012 in1.0[5]@123 tail 16 -> out0\n");
}

// The gates stand as the model stacks them, although the state needs the second of them first.
TEST(ApplyPlanTest, StackedWeightsKeepTheirOrder) {
  const CellSkeleton lstm = SkeletonOf(testing::LstmCell(3, 5));
  const CellProgram program = ApplyPlan(lstm, PlanCell(lstm), kCpuLimits);
  const auto& product = std::get<ProductStep>(program.steps[0]);
  for (const SegmentPlan& segment : product.segments) {
    for (size_t g = 1; g < 4; ++g) {
      EXPECT_EQ(segment.weights[g]->offset - segment.weights[g - 1]->offset, 5 * segment.depth);
    }
  }
}

// Two pieces of a long row, computed in the other order than the one they are joined in; `width` of each.
CellDefinition Joined(int32_t width) {
  CellBuilder b("joined");
  const ValueId x = b.Read("x", "x", 5);
  const ValueId first = b.Op1(OpKind::kSoftmax, b.MatMul(x, b.Matrix("U", width, 5)));
  const ValueId second = b.Op1(OpKind::kSoftmax, b.MatMul(x, b.Matrix("W", width, 5)));
  b.Leave("y", b.MatMul(b.Concat(second, first), b.Matrix("V", 4, 2 * width)));
  b.Leave("sum", b.Op1(OpKind::kSum, first));
  return b.Build();
}

TEST(ApplyPlanTest, PiecesOfALongRowBecomeOneSegmentWhereNothingLiesBetween) {
  EXPECT_NE(Planned(SkeletonOf(Joined(32))).find("[64]"), std::string::npos)
      << Planned(SkeletonOf(Joined(32)));
  EXPECT_EQ(Planned(SkeletonOf(Joined(20))).find("[40]"), std::string::npos);  // 12 floats between
}

// Where sums depend on where K is cut (tile registers, 32 deep), what becomes one segment is cut where the two were.
TEST(ApplyPlanTest, InBf16PiecesBecomeOneSegmentOnlyWhereTheFirstIsWholeTilesDeep) {
  const auto in_bf16 = [](int32_t width) {
    const ProgramLimits limits = kCpuLimits.In(Precision::kBf16);
    return Describe(*Lower(Joined(width), limits));
  };
  EXPECT_NE(in_bf16(32).find("[64]"), std::string::npos) << in_bf16(32);
  EXPECT_NE(Planned(SkeletonOf(Joined(48))).find("[96]"), std::string::npos);
  EXPECT_EQ(in_bf16(48).find("[96]"), std::string::npos) << in_bf16(48);
}

// tanh(W tanh(W ... x)), each layer of its own width.
CellDefinition Layers(int32_t layers) {
  CellBuilder b("layers");
  ValueId v = b.Read("x", "x", 16);
  for (int32_t i = 0; i < layers; ++i) {
    v = b.Tanh(b.MatMul(v, b.Matrix("W" + std::to_string(i), 16 * (i + 2), 16 * (i + 1))));
  }
  b.Leave("y", b.Op1(OpKind::kSum, v));
  return b.Build();
}

TEST(ApplyPlanTest, ValuesThatAreNeverNeededTogetherShareSpace) {
  EXPECT_EQ(Planned(SkeletonOf(Layers(4))),
            "product 1x32 in0.0[16] tail 3 -> scratch+48\n"
            "product 1x48 scratch+48[32] tail 3 -> scratch\n"
            "product 1x64 scratch[48] tail 3 -> scratch+80\n"
            "product 1x80 scratch+80[64] tail 3 -> scratch\n"
            "sum scratch [1] -> out0\n");
}

// Whoever lives at the same time lies apart, in every program of every device.
TEST(ApplyPlanTest, NoStepWritesWhatItOrALaterOneStillReads) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const CellSkeleton skeleton = SkeletonOf(testing::RandomCell(seed));
    const CellProgram program = ApplyPlan(skeleton, PlanCell(skeleton), kCpuLimits);
    struct Value {
      int first = -1, last = -1;
      int64_t begin = 0;
    };
    std::vector<Value> values(skeleton.scratch.size());
    for (size_t s = 0; s < skeleton.steps.size(); ++s) {
      std::vector<Place> named, placed;
      ForEachPlace(skeleton.steps[s], skeleton.lookups,
                   [&](const Place& p) { named.push_back(p); });
      ForEachPlace(program.steps[s], program.lookups, [&](const Place& p) { placed.push_back(p); });
      const bool merged = named.size() != placed.size();
      for (size_t i = 0; i < named.size(); ++i) {
        if (named[i].kind != PlaceKind::kScratch) continue;
        Value& value = values[static_cast<size_t>(named[i].index)];
        if (value.first < 0) value.first = static_cast<int>(s);
        value.last = static_cast<int>(s);
        if (!merged) value.begin = placed[i].offset - named[i].offset;
      }
    }
    for (size_t a = 0; a < values.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (values[a].first < 0 || values[b].first < 0) continue;
        if (values[a].first > values[b].last || values[b].first > values[a].last) continue;
        EXPECT_TRUE(values[a].begin + skeleton.scratch[a] <= values[b].begin ||
                    values[b].begin + skeleton.scratch[b] <= values[a].begin)
            << "seed " << seed << ": values " << a << " and " << b << "\n"
            << Describe(program);
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch

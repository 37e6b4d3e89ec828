// Point 8 of cells/device/device.h: devices that compute flush denormals, on every core and with every kind of step, and
// leave the mode of the thread that calls them alone.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/conformance/devices.h"
#include "tests/conformance/task_bench.h"
#include "tests/testing/builders.h"

namespace cellbatch::conformance {
namespace {

struct Extent {
  int32_t width = 600, nodes = 40;  // enough for helpers to be woken
  int32_t read = 20;                // of the nodes
  int times = 5;                    // helpers take other blocks each time
};

constexpr Extent kEmulated = {.width = 130, .nodes = 12, .read = 12, .times = 1};
constexpr float kTiny = 1e-40f, kSmall = 1e-20f;

// Denormals come in (x), or out of numbers that are none (small), by way of each kind of step.
CellDefinition TinyCell(int32_t width) {
  testing::CellBuilder b("tiny");
  const ValueId x = b.Read("x", "x", width), small = b.Read("small", "small", width);
  const ValueId children = b.Read("children", "copy", width, ElementType::kFp32, Arity::kSum);
  const ValueId minus_95 = b.Constant(-95.0f, Shape::Vector(width));
  b.Leave("copy", x);
  b.Leave("sum", b.Add(x, x));
  b.Leave("product", b.Mul(small, small));
  b.Leave("matmul_in", b.MatMul(x, b.Matrix("W", width, width)));
  b.Leave("matmul_out", b.MatMul(b.Mul(small, b.Constant(1e-19f)), b.Matrix("U", width, width)));
  b.Leave("relu", b.Op1(OpKind::kRelu, b.Add(x, small)));
  b.Leave("exp", b.Op1(OpKind::kExp, b.Add(small, minus_95)));
  b.Leave("tanh", b.Tanh(b.Mul(x, small)));
  b.Leave("mean", b.Op1(OpKind::kMean, x));
  b.Leave("softmax", b.Op1(OpKind::kSoftmax, b.Concat(b.Add(x, minus_95), b.Slice(small, 0, 1))));
  b.Leave("children", b.Mul(children, b.Constant(1.0f)));
  return b.Build();
}

class DenormalsTest : public ::testing::TestWithParam<Kind> {
 protected:
  DenormalsTest()
      : extent(GetParam().slow ? kEmulated : Extent()),
        model(testing::OneCellModel(TinyCell(extent.width))),
        setup(GetParam().make()) {
    const auto fill = [&](float v) {
      std::vector<float> values(
          static_cast<size_t>(extent.nodes) * static_cast<size_t>(extent.width), v);
      for (size_t i = 0; i < values.size(); i += 3) values[i] = -v;
      return values;
    };
    x = fill(kTiny);
    small = fill(kSmall);
  }

  // What the nodes leave, by column, one behind the other. They run twice: the second time, each is also the parent of
  // two of the first.
  std::vector<std::vector<float>> Run() {
    TaskBench bench(*model, setup, 2 * extent.nodes + 1);
    BatchedTask* const leaves = Task(bench, 1, false);
    bench.CopyIn(leaves, testing::FindTable(*model, "x"), 1, extent.nodes, x.data());
    bench.CopyIn(leaves, testing::FindTable(*model, "small"), 1, extent.nodes, small.data());
    BatchedTask* const parents = Task(bench, 1 + extent.nodes, true);
    std::vector<std::vector<float>> left;
    const auto columns = model->types[0].definition->columns();
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto width = static_cast<size_t>(columns[c].width);
      left.emplace_back(width * static_cast<size_t>(extent.read), 9.0f);
      for (int32_t i = 0; i < extent.read; ++i) {
        bench.CopyOut(parents, ColumnId(static_cast<int64_t>(c)), 1 + extent.nodes + i,
                      left[c].data() + width * static_cast<size_t>(i));
      }
    }
    EXPECT_TRUE(bench.Run(0));
    return left;
  }

  BatchedTask* Task(TaskBench& bench, Row first, bool parents) {
    TaskSpec spec = {.cell = CellTypeId(0), .inputs = {{}, {}, {}}, .sums = {{}, {}, {}}};
    for (Row r = 1; r <= extent.nodes; ++r) {
      spec.inputs[0].push_back(r);
      spec.inputs[1].push_back(r);
      spec.sums[2].push_back(parents ? std::vector<Row>{r, 1 + r % extent.nodes}
                                     : std::vector<Row>());
      spec.out.push_back(first + r - 1);
    }
    return bench.Task(0, spec);
  }

  const Extent extent;
  std::shared_ptr<Model> model;
  DeviceSetup setup;
  std::vector<float> x, small;
};

INSTANTIATE_TEST_SUITE_P(Every, DenormalsTest, ::testing::ValuesIn(ComputingKinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DenormalsTest, WhatIsComputedHasNoneAndWhatIsCopiedKeepsThem) {
  for (int again = 0; again < extent.times; ++again) {
    const std::vector<std::vector<float>> left = Run();
    ASSERT_FALSE(left.empty());
    EXPECT_EQ(std::memcmp(left[0].data(), x.data(), left[0].size() * 4), 0) << "copies keep bits";
    for (size_t c = 1; c < left.size(); ++c) {
      const std::string& name = model->types[0].definition->columns()[c].name;
      for (size_t i = 0; i < left[c].size(); ++i) {
        ASSERT_NE(std::fpclassify(left[c][i]), FP_SUBNORMAL) << name << " " << i;
        if (name == "relu") {
          ASSERT_EQ(left[c][i], std::max(small[i], 0.0f)) << i;
        } else if (name != "softmax") {
          ASSERT_EQ(left[c][i], 0.0f) << name << " " << i;
        }
      }
    }
  }
}

TEST_P(DenormalsTest, TheCallersThreadKeepsItsOwnMode) {
  Run();
  volatile float small_number = kSmall;
  EXPECT_EQ(std::fpclassify(small_number * small_number), FP_SUBNORMAL);
}

}  // namespace
}  // namespace cellbatch::conformance

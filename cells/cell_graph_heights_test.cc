#include "cells/cell_graph_heights.h"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "cells/cell_graph_test_model.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using namespace cell_graph_testing;

// A tree over a chain over leaves of two types: by hand.
TEST(SameTypeHeightsTest, CountsNodesOfTheTypeOnTheLongestPathAndNothingElse) {
  const Model model = TestModel();
  CellGraph g;
  const int32_t tokens[3] = {1, 2, 3};
  const SubgraphId in = g.AddInput(kTokens, 3, reinterpret_cast<const std::byte*>(tokens));
  const SubgraphId first = g.Add(kChain, 3, {{.from = in, .input = kX, .stride = 1}});
  const SubgraphId tree = g.Add(
      kTree, 1, {{.from = first, .input = kX, .first = 2}, {.from = kZeroSource, .input = kPrev}});
  const SubgraphId second =
      g.Add(kChain, 2, {{.from = in, .input = kX, .stride = 1}, {.from = tree, .input = kPrev}});
  const SubgraphId set = g.Add(kHead, 3, {{.from = first, .input = kX, .stride = 1}});
  const SubgraphId head = g.Add(kHead, 1, {{.from = second, .input = kX, .first = kLastNode}});
  g.Return(set, kH, {0, 3},
           {.tensor = g.AddTensor("A", WireType::kFp32, {3, 3}), .stride_bytes = 12});
  g.Return(head, kH, {}, {.tensor = g.AddTensor("B", WireType::kFp32, {3})});
  ASSERT_TRUE(g.Seal(model, 2).ok());
  EXPECT_EQ(SameTypeHeights(g, model), (std::vector<int32_t>{0, 5, 1, 2, 1, 1}));
}

// The longest path in nodes of type `t` among the readers of `of`, path by path.
int32_t LongestBehind(const CellGraph& g, const Model& model, size_t of, CellTypeId t) {
  int32_t most = 0;
  const Subgraph& s = g.piece()[of];
  for (int32_t c = 0; c < s.num_consumers; ++c) {
    const auto reader =
        static_cast<size_t>(g.consumers()[static_cast<size_t>(s.first_consumer + c)].value());
    const Subgraph& r = g.piece()[reader];
    const bool chain = model.type(r.type).definition->carry().has_value();
    const int32_t own = r.type != t ? 0 : chain ? r.length : 1;
    most = std::max(most, own + LongestBehind(g, model, reader, t));
  }
  return most;
}

TEST(SameTypeHeightsTest, AgreesWithTheLongestPathOnRandomGraphs) {
  constexpr uint32_t kSeed = 40;
  std::mt19937 random(kSeed);
  const Model model = TestModel();
  for (int round = 0; round < 300; ++round) {
    CellGraph g;
    std::vector<SubgraphId> made;
    for (uint32_t n = 2 + random() % 9; n > 0; --n) {
      const auto any = [&] { return made.empty() ? kZeroSource : made[random() % made.size()]; };
      const uint32_t what = random() % 3;
      const CellTypeId type = what == 0 ? kTree : what == 1 ? kSum : kStack;
      const int32_t length = what == 2 ? 1 + static_cast<int32_t>(random() % 4) : 1;
      std::vector<Link> links = {{.from = any(), .input = kX, .first = kLastNode}};
      if (what != 1) links.push_back({.from = any(), .input = kPrev, .first = kLastNode});
      made.push_back(g.Add(type, length, links));
    }
    ASSERT_TRUE(g.Seal(model, 2).ok()) << "seed " << kSeed << " round " << round;
    const std::vector<int32_t> heights = SameTypeHeights(g, model);
    for (size_t i = 0; i < heights.size(); ++i) {
      const Subgraph& s = g.piece()[i];
      const bool chain = model.type(s.type).definition->carry().has_value();
      EXPECT_EQ(heights[i], (chain ? s.length : 1) + LongestBehind(g, model, i, s.type))
          << "seed " << kSeed << " round " << round << " subgraph " << i;
    }
  }
}

}  // namespace
}  // namespace cellbatch

// For tests of unfolders: that a request is refused as too large when its graph is, and never else.
#ifndef CELLBATCH_CELLS_UNFOLD_SIZE_BOUND_H_
#define CELLBATCH_CELLS_UNFOLD_SIZE_BOUND_H_

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "cells/cell_graph.h"

namespace cellbatch {

inline int64_t CellsOf(const CellGraph& graph) {
  int64_t cells = 0;
  for (const Subgraph& s : graph.piece()) cells += s.type.valid() ? s.length : 0;
  return cells;
}

// Unfolds one request into a fresh graph, by an unfolder of a model that takes so many cells.
using UnfoldBounded = std::function<absl::Status(int64_t max_nodes, CellGraph& graph)>;

inline void ExpectTakenByItsSizeAlone(const UnfoldBounded& unfold) {
  constexpr int64_t kMost = 100000;
  CellGraph free;
  const absl::Status taken = unfold(kMost, free);
  ASSERT_TRUE(taken.ok()) << taken;
  const int64_t cells = CellsOf(free);
  ASSERT_GT(cells, 0);
  CellGraph bounded;
  const absl::Status as_large = unfold(cells, bounded);
  EXPECT_TRUE(as_large.ok()) << "refused, though it makes no more than " << cells << ": "
                             << as_large;
  if (cells == 1) return;
  CellGraph refused;
  const absl::Status too_large = unfold(cells - 1, refused);
  EXPECT_EQ(too_large.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_large.message()),
              ::testing::AllOf(::testing::HasSubstr(fmt::format(" {} ", cells)),
                               ::testing::HasSubstr(fmt::format("the model takes {}", cells - 1))));
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_SIZE_BOUND_H_

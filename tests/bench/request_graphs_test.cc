#include "tests/bench/request_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

// Chains of these lengths, all of whose first steps run together, then all second ones, ...
RequestGraphs Chains(const std::vector<int32_t>& lengths) {
  static const std::byte data[4] = {};
  RequestGraphs graphs;
  graphs.model = testing::OneCellModel(testing::ElmanCell(1, 1));
  const CellType& type = graphs.model->types[0];
  for (const int32_t length : lengths) {
    for (int32_t t = 0; t < length; ++t) {
      graphs.values.push_back({type.in[0], data});
      const int32_t before = t == 0 ? kZeros : static_cast<int32_t>(graphs.values.size()) - 2;
      const auto x = static_cast<int32_t>(graphs.values.size()) - 1;
      if (static_cast<size_t>(t) == graphs.batches.size()) graphs.batches.emplace_back();
      graphs.batches[static_cast<size_t>(t)].push_back(static_cast<int32_t>(graphs.nodes.size()));
      graphs.nodes.push_back({type.id, x + 1, {{x}, {before}}});
      graphs.values.push_back({type.out, nullptr});
    }
  }
  return graphs;
}

std::vector<Row> RowsRead(const RequestGraphs& graphs, const NumberedRows& numbered, size_t batch,
                          size_t input) {
  std::vector<Row> rows;
  for (const int32_t n : numbered.batches[batch]) {
    const int32_t value = graphs.nodes[static_cast<size_t>(n)].reads[input][0];
    rows.push_back(value == kZeros ? kZeroRow : numbered.row[static_cast<size_t>(value)]);
  }
  return rows;
}

bool AreNeighbours(const std::vector<Row>& rows) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return false;
  }
  return true;
}

TEST(RequestGraphsTest, AcrossCellsChainsStayInPlaceThoughOthersEnd) {
  const RequestGraphs graphs = Chains({4, 1, 5, 2, 5});
  const NumberedRows across = AcrossCells(graphs), plain = ByRequest(graphs);
  bool plain_ones_are = true;
  for (size_t b = 0; b < graphs.batches.size(); ++b) {
    EXPECT_TRUE(AreNeighbours(RowsRead(graphs, across, b, 0))) << "what arrives, batch " << b;
    EXPECT_TRUE(b == 0 || AreNeighbours(RowsRead(graphs, across, b, 1))) << "carry, batch " << b;
    plain_ones_are &= AreNeighbours(RowsRead(graphs, plain, b, 0));
  }
  EXPECT_FALSE(plain_ones_are) << "request by request they do not";
}

TEST(RequestGraphsTest, EveryRowIsNumberedOnceAndBatchesKeepTheirNodes) {
  const RequestGraphs graphs = Chains({3, 7, 1, 2});
  for (const NumberedRows& numbered : {ByRequest(graphs), AcrossCells(graphs)}) {
    std::set<std::pair<int32_t, Row>> seen;
    for (size_t v = 0; v < graphs.values.size(); ++v) {
      const int32_t table = graphs.values[v].table.value();
      EXPECT_TRUE(seen.insert({table, numbered.row[v]}).second);
      EXPECT_NE(numbered.row[v], kZeroRow);
      EXPECT_LT(numbered.row[v], numbered.rows[static_cast<size_t>(table)]);
    }
    ASSERT_EQ(numbered.batches.size(), graphs.batches.size());
    for (size_t b = 0; b < graphs.batches.size(); ++b) {
      EXPECT_TRUE(std::is_permutation(numbered.batches[b].begin(), numbered.batches[b].end(),
                                      graphs.batches[b].begin(), graphs.batches[b].end()));
    }
  }
}

}  // namespace
}  // namespace cellbatch

#include "cells/compile/plan_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;

struct Left {
  std::string column;
  int32_t width;
};

// A model whose first type leaves `left` and a word, and whose others each read some columns of it.
std::shared_ptr<Model> ModelOf(const std::vector<Left>& left,
                               const std::vector<std::vector<Left>>& readers) {
  testing::ModelBuilder models;
  CellBuilder writer("writer");
  const ValueId x = writer.Read("x", "x", 4);
  writer.Leave("word", writer.Op1(OpKind::kArgMax, x));
  for (const Left& l : left) {
    writer.Leave(l.column, writer.MatMul(x, writer.Matrix("W" + l.column, l.width, 4)));
  }
  const CellTypeId from = models.Add(writer.Build(), 1);
  for (size_t r = 0; r < readers.size(); ++r) {
    CellBuilder reader("reader" + std::to_string(r));
    ValueId sum;
    for (const Left& l : readers[r]) {
      const ValueId y = reader.MatMul(reader.Read("y", l.column, l.width),
                                      reader.Matrix("V" + l.column, 3, l.width));
      sum = sum.valid() ? reader.Add(sum, y) : y;
    }
    reader.Leave("out" + std::to_string(r), sum);
    models.Connect(models.Add(reader.Build(), 2), "y", from);
  }
  return models.Build();
}

std::vector<std::string> OrderOf(const Model& model) {
  const TableId table = model.types[0].out;
  const std::vector<std::vector<int32_t>> orders = PlanTables(model);
  std::vector<std::string> names;
  for (const int32_t c : orders[static_cast<size_t>(table.value())]) {
    names.push_back(model.table(table).columns[static_cast<size_t>(c)].name);
  }
  return names;
}

bool SideBySide(const std::vector<std::string>& order, const std::vector<std::string>& columns) {
  size_t first = order.size(), last = 0;
  for (const std::string& c : columns) {
    const auto at = static_cast<size_t>(std::find(order.begin(), order.end(), c) - order.begin());
    first = std::min(first, at);
    last = std::max(last, at);
  }
  return last - first + 1 == columns.size();
}

TEST(PlanTablesTest, OneOrderServesAllWhoReadSomeOfTheColumns) {
  const Left a{"a", 8}, b{"b", 8}, c{"c", 8}, d{"d", 8};
  const auto order = OrderOf(*ModelOf({a, b, c, d}, {{a, c}, {c, d}, {b, d}}));
  ASSERT_EQ(order.size(), 4u);
  EXPECT_TRUE(SideBySide(order, {"a", "c"}));
  EXPECT_TRUE(SideBySide(order, {"c", "d"}));
  EXPECT_TRUE(SideBySide(order, {"b", "d"}));
}

TEST(PlanTablesTest, WhereNotAllCanBeServedTheFewestAreGivenUp) {
  const Left a{"a", 8}, b{"b", 64}, c{"c", 24};
  const auto order = OrderOf(*ModelOf({b, a, c}, {{a, b}, {b, c}, {a, c}, {b, c}, {a, c}}));
  EXPECT_EQ(order.size(), 3u);
  EXPECT_TRUE(SideBySide(order, {"b", "c"}));
  EXPECT_TRUE(SideBySide(order, {"a", "c"}));
}

TEST(PlanTablesTest, WhatNobodyAsksForKeepsTheOrderOfTheDefinitionWithoutIntegers) {
  const Left a{"a", 8}, b{"b", 8}, c{"c", 8};
  EXPECT_EQ(OrderOf(*ModelOf({b, a}, {{a}})), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(OrderOf(*ModelOf({c, b, a}, {{a, b, c}, {b}})),
            (std::vector<std::string>{"c", "b", "a"}));
}

}  // namespace
}  // namespace cellbatch

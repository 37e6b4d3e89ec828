// The small model that the tests of CellGraph build graphs for: one type of each sort.
#ifndef CELLBATCH_CELLS_CELL_GRAPH_TEST_MODEL_H_
#define CELLBATCH_CELLS_CELL_GRAPH_TEST_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/any_cell.h"
#include "cells/cell_graph.h"
#include "gtest/gtest.h"

namespace cellbatch::cell_graph_testing {

using testing::AnyCell;

inline constexpr TableId kTokens{0}, kState{1}, kLogits{2}, kWords{3};
inline constexpr CellTypeId kChain{0}, kHead{1}, kTree{2}, kSum{3}, kDecoder{4}, kStack{5};
inline constexpr InputId kX{0}, kPrev{1};
inline constexpr ColumnId kH{0}, kC{1}, kWord{1};

inline const Column h{"h", ElementType::kFp32, 4};
inline const Column c{"c", ElementType::kFp32, 4};
inline const Column word{"word", ElementType::kInt32, 1};

inline Model TestModel() {
  const auto one = [](std::vector<Column> reads) { return Input{"x", std::move(reads)}; };
  const Column logits{"logits", ElementType::kFp32, 3};
  Model m;
  m.tables = {{"tokens", {{"token", ElementType::kInt32, 1}}},
              {"state", {h, c}},
              {"logits", {logits}},
              {"words", {h, word}}};
  const Column token{"token", ElementType::kInt32, 1};
  const auto add = [&](std::string name, std::shared_ptr<const CellDefinition> d,
                       std::vector<TableId> in, TableId out) {
    m.types.push_back({.id = CellTypeId(static_cast<int64_t>(m.types.size())),
                       .name = std::move(name),
                       .definition = std::move(d),
                       .weights = {},
                       .in = std::move(in),
                       .out = out});
  };
  const Input prev{"prev", {h, c}};
  add("chain", AnyCell("chain", {one({token}), prev}, {h, c}, kPrev), {kTokens, kState}, kState);
  add("head", AnyCell("head", {one({h})}, {logits}), {kState}, kLogits);
  add("tree", AnyCell("tree", {one({h, c}), prev}, {h, c}), {kState, kState}, kState);
  add("sum", AnyCell("sum", {{"x", {h, c}, Arity::kSum}}, {h, c}), {kState}, kState);
  add("decoder", AnyCell("decoder", {one({h}), {"prev", {h, word}}}, {h, word}, kPrev),
      {kState, kWords}, kWords);
  add("stack", AnyCell("stack", {one({h}), prev}, {h, c}, kPrev), {kState, kState}, kState);
  return m;
}

}  // namespace cellbatch::cell_graph_testing

#endif  // CELLBATCH_CELLS_CELL_GRAPH_TEST_MODEL_H_

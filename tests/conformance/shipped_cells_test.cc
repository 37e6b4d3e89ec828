// The shipped cells (text) reach the specialised kernels: nothing recognises them by name, so a reworded definition
// that lowers to something slower would only be noticed here.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "server/cell_codec.h"

namespace cellbatch {
namespace {

using kernels::TailShape;

CellText Shipped(std::string_view name) {
  for (const ShippedCell& cell : ShippedCells()) {
    if (cell.name != name) continue;
    absl::StatusOr<CellText> text = ParseCell(cell.text, std::string(name));
    EXPECT_TRUE(text.ok()) << text.status();
    return *std::move(text);
  }
  ADD_FAILURE() << "no shipped cell " << name;
  return {};
}

CellProgram Lowered(const CellText& text, const Sizes& sizes) {
  const absl::StatusOr<CellDefinition> cell = BuildCell(text, sizes, {});
  EXPECT_TRUE(cell.ok()) << cell.status();
  absl::StatusOr<CellProgram> program = Lower(*cell);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// The one product of a program and what its tail is recognised as.
TailShape ShapeOf(const CellProgram& program) {
  std::vector<const ProductStep*> products;
  for (const Step& step : program.steps) {
    if (const auto* product = std::get_if<ProductStep>(&step)) products.push_back(product);
  }
  EXPECT_EQ(products.size(), 1u) << Describe(program);
  EXPECT_EQ(program.scratch_width, 0) << Describe(program);
  return products.empty() ? TailShape::kGeneral : kernels::ClassifyTail(products[0]->tail).shape;
}

const Sizes kSizes = {{"D", 5}, {"H", 7}, {"V", 100}, {"C", 3}, {"F", 2}, {"B", 3}};

TEST(ShippedCellsTest, RecurrentCellsAreOneProductWithAKernelOfItsOwn) {
  EXPECT_EQ(ShapeOf(Lowered(Shipped("lstm"), kSizes)), TailShape::kGatedCell);
  EXPECT_EQ(ShapeOf(Lowered(Shipped("gru"), kSizes)), TailShape::kGatedUpdate);
  EXPECT_EQ(ShapeOf(Lowered(Shipped("elman"), kSizes)), TailShape::kTanh);
  EXPECT_EQ(ShapeOf(Lowered(Shipped("elman_relu"), kSizes)), TailShape::kRelu);
  EXPECT_EQ(ShapeOf(Lowered(Shipped("linear"), kSizes)), TailShape::kIdentity);
}

TEST(ShippedCellsTest, WhatIsPutInFrontBecomesASegment) {
  for (const char* name : {"lstm", "gru", "elman"}) {
    for (const char* before : {"embed", "pair", "below"}) {
      SCOPED_TRACE(std::string(before) + " before " + name);
      const absl::StatusOr<CellText> joined = PutBefore(Shipped(before), Shipped(name), "x");
      ASSERT_TRUE(joined.ok()) << joined.status();
      const CellProgram program = Lowered(*joined, kSizes);
      EXPECT_NE(ShapeOf(program), TailShape::kGeneral);
      const auto& product = std::get<ProductStep>(program.steps.back());
      EXPECT_EQ(product.segments.size(), std::string(before) == "pair" ? 3u : 2u);
      EXPECT_EQ(product.segments[0].source.kind,
                std::string(before) == "embed" ? PlaceKind::kTableRow : PlaceKind::kInput);
    }
  }
}

TEST(ShippedCellsTest, CellsWithoutAProductOnlyCopy) {
  EXPECT_EQ(Describe(Lowered(Shipped("embed"), kSizes)), "index table0\ncopy table0 [5] -> out0\n");
  EXPECT_EQ(Describe(Lowered(Shipped("below"), kSizes)), "copy in0.0 [5] -> out0\n");
  EXPECT_EQ(Describe(Lowered(Shipped("pair"), kSizes)),
            "copy in0.0 [2] -> out0\ncopy in1.0 [3] -> out0+2\n");
}

}  // namespace
}  // namespace cellbatch

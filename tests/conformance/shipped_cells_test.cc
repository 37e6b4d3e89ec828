// The shipped cells (text) reach the specialised kernels: nothing recognises them by name, so a reworded definition
// that lowers to something slower would only be noticed here.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/cpu/tail_shape.h"
#include "server/cells/cell_codec.h"

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
  absl::StatusOr<CellProgram> program = Lower(*cell, kCpuLimits);
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

const Sizes kSizes = {{"D", 5}, {"H", 7}, {"V", 100}, {"C", 3}, {"F", 2},  {"B", 3},
                      {"L", 4}, {"M", 6}, {"P", 4},   {"S", 2}, {"BOS", 1}};

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

// Every other shipped cell and the program it becomes, step by step.
struct Expected {
  const char* cell;
  const char* program;
};

constexpr Expected kPrograms[] = {
    {"treelstm_leaf", "product 3x7 in0.0[5] tail 11 -> out0 -> out1\n"},
    // The forget gates, each of one child, at either end: what a child is read by stands together.
    {"treelstm_internal", "product 5x7 in0.0[7]@1234 in1.0[7]@0123 tail 21 -> out0 -> out1\n"},
    {"treelstm_nary", "product 5x7 in0.0[5] in1.0[7] in2.0[7] tail 21 -> out0 -> out1\n"},
    {"treelstm_childsum",
     "sum in1.0 [7] -> scratch\nsum in2.0 [7] -> scratch+16\n"
     "product 3x7 in0.0[5] scratch[7] tail 13 -> out0 -> out1\n"},
    {"treelstm_childsum_edge", "product 1x7 in0.0[5] in1.0[7] tail 5 -> out0\n"},
    {"treegru_leaf",
     "product 2x7 in0.0[7] tail 8 -> scratch -> scratch+16\n"
     "product 1x7 scratch[7] tail 8 -> out0\n"},
    // What both children's second products read (r0 h0, r1 h1) lies side by side.
    {"treegru_internal",
     "product 4x7 in0.0[7]@01 in1.0[7]@23 tail 16 -> scratch+16 -> scratch -> scratch+32 -> "
     "scratch+48\n"
     "product 2x7 scratch+16[7]@0 scratch+32[7]@1 tail 18 -> out0\n"},
    {"mv_leaf", "index table0\nindex table1\ncopy table0 [7] -> out0\ncopy table1 [49] -> out1\n"},
    {"mv_internal",
     "matmul in1.0 in0.1 [7] -> scratch\nmatmul in0.0 in1.1 [7] -> scratch+16\n"
     "matmul_by_columns parameter2 in0.1 [7, 7] -> scratch+32\n"
     "matmul_by_columns parameter2+7 in1.1 [7, 7] -> scratch+96\n"
     "product 1x7 scratch[7] scratch+16[7] tail 3 -> out0\nproduct 0x49 tail 6 -> out1\n"},
    {"merge_lstm", "sum in0.0 [7] -> out0\nsum in0.1 [7] -> out1\n"},
    {"merge_gru", "sum in0.0 [7] -> out0\n"},
    {"start_lstm", "product 0x7 tail 4 -> out0 -> out1\n"},
    {"start_gru", "product 0x7 tail 2 -> out0\n"},
    {"decoder_lstm",
     "index table0\nproduct 4x7 table0[5] in0.0[7] tail 16 -> out0 -> out1\n"
     "product 1x100 out0[7] tail 2 largest -> out2\n"},
    {"decoder_lstm2",
     "index table0\nproduct 4x7 table0[5] in0.0[7] tail 16 -> out0 -> out1\n"
     "product 4x7 out0[7] in0.2[7] tail 16 -> out2 -> out3\n"
     "product 1x100 out2[7] tail 2 largest -> out4\n"},
    {"bridge_lstm", "copy in0.0 [7] -> out0\ncopy in0.1 [7] -> out1\nproduct 0x1 tail 2 -> out2\n"},
    {"bridge_lstm2",
     "copy in0.0 [7] -> out0\ncopy in0.1 [7] -> out1\ncopy in1.0 [7] -> out2\n"
     "copy in1.1 [7] -> out3\nproduct 0x1 tail 2 -> out4\n"},
    {"nmt_encoder_lstm",
     "product 1x4 in0.0[5] tail 3 -> scratch\n"
     "product 4x7 scratch[4] in1.0[7] tail 16 -> out0 -> out1\n"},
    {"tagger_output",
     "product 1x6 in0.0[2] in1.0[3] tail 3 -> scratch\nproduct 1x3 scratch[6] tail 2 -> out0\n"},
    {"word_from_chars", "copy in0.0 [2] -> out0\ncopy in1.0 [3] -> out0+2\n"},
    {"gru_v1",
     "product 2x7 in0.0[5] in1.0[7] tail 8 -> scratch -> scratch+16\n"
     "product 1x7 in0.0[5] scratch[7] tail 8 -> out0\n"},
    {"lstmp",
     "product 4x7 in0.0[5] in1.0[4] tail 16 -> out1 -> scratch\n"
     "product 1x4 scratch[7] tail 2 -> out0\n"},
    {"mingru", "product 2x7 in0.0[5] tail 8 -> out0\n"},
    {"minlstm", "product 3x7 in0.0[5] tail 12 -> out0\n"},
    {"slstm", "product 4x7 in0.0[5] in1.0[7] tail 36 -> out0 -> out1 -> out2 -> out3\n"},
};

// Two products, not four: what is reduced is stored, and gates are read from there.
TEST(ShippedCellsTest, ALayerNormalisedLstmComputesItsProductsOnce) {
  int products = 0;
  for (const Step& step : Lowered(Shipped("lstm_layernorm"), kSizes).steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    products += product != nullptr ? product->groups() : 0;
  }
  EXPECT_EQ(products, 2);
}

TEST(ShippedCellsTest, CellsOfTheZooTakeAFewSteps) {
  for (const Expected& e : kPrograms) {
    EXPECT_EQ(Describe(Lowered(Shipped(e.cell), kSizes)), e.program) << e.cell;
  }
}

TEST(ShippedCellsTest, EveryShippedCellCompiles) {
  for (const ShippedCell& cell : ShippedCells()) {
    SCOPED_TRACE(std::string(cell.name));
    EXPECT_EQ(Shipped(cell.name).message.name(), cell.name);
    EXPECT_FALSE(Lowered(Shipped(cell.name), kSizes).steps.empty());
  }
}

TEST(ShippedCellsTest, WordsMayBePutInFrontOfEveryCellThatReadsX) {
  for (const ShippedCell& cell : ShippedCells()) {
    const CellText text = Shipped(cell.name);
    const auto& inputs = text.message.inputs();
    const bool reads_x = std::any_of(inputs.begin(), inputs.end(), [](const auto& in) {
      return in.name() == "x" && in.columns(0).name() == "x";
    });
    if (!reads_x) continue;
    SCOPED_TRACE(std::string(cell.name));
    const absl::StatusOr<CellText> joined = PutBefore(Shipped("embed"), text, "x");
    ASSERT_TRUE(joined.ok()) << joined.status();
    Sizes sizes = kSizes;
    if (cell.name == "treegru_leaf") sizes["D"] = sizes["H"];  // the update is of the embedding
    EXPECT_EQ(Lowered(*joined, sizes).lookups.size(), 1u);
  }
}

}  // namespace
}  // namespace cellbatch

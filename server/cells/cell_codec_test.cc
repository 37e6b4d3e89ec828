#include "server/cells/cell_codec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cells/definitions/shipped.h"
#include "cells/kernels/reference/interpreter.h"

namespace cellbatch {
namespace {

using testing::HasSubstr;

CellText Shipped(std::string_view name) {
  for (const ShippedCell& cell : ShippedCells()) {
    if (cell.name != name) continue;
    auto text = ParseCell(cell.text, std::string(name) + ".textproto");
    EXPECT_TRUE(text.ok()) << text.status();
    return *std::move(text);
  }
  ADD_FAILURE() << "no shipped cell " << name;
  return {};
}

std::vector<KnownShape> Shapes(std::vector<std::pair<std::string, std::vector<int64_t>>> shapes) {
  std::vector<KnownShape> known;
  for (auto& [name, dims] : shapes) known.push_back({name, dims, "tensor \"t." + name + "\""});
  return known;
}

std::string ErrorOf(const absl::StatusOr<CellDefinition>& cell) {
  if (cell.ok()) return "accepted";
  EXPECT_EQ(cell.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(cell.status().message());
}

// A one-line cell around some operators.
std::string ErrorOfText(const std::string& text) {
  const auto cell = ParseCell(text, "t.textproto");
  return cell.ok() ? ErrorOf(BuildCell(*cell, {{"N", 3}}, {}))
                   : std::string(cell.status().message());
}

TEST(CellCodecTest, CellsBuildFromTheShapesOfTheirWeights) {
  struct Case {
    const char* name;
    std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
    std::vector<Column> columns;
  };
  const std::vector<Case> cases = {
      {"lstm",
       {{"W", {28, 5}}, {"U", {28, 7}}},
       {{"h", ElementType::kFp32, 7}, {"c", ElementType::kFp32, 7}}},
      {"gru", {{"W", {21, 5}}, {"U", {21, 7}}}, {{"h", ElementType::kFp32, 7}}},
      {"elman", {{"W", {7, 5}}, {"U", {7, 7}}, {"b", {7}}}, {{"h", ElementType::kFp32, 7}}},
      {"elman_relu", {{"W", {7, 5}}, {"U", {7, 7}}, {"b", {7}}}, {{"h", ElementType::kFp32, 7}}},
      {"linear", {{"W", {3, 5}}, {"b", {3}}}, {{"y", ElementType::kFp32, 3}}},
      {"embed", {{"table", {11, 5}}}, {{"x", ElementType::kFp32, 5}}},
      {"below", {{"x.h", {5}}}, {{"x", ElementType::kFp32, 5}}},
      {"pair", {{"forward.h", {5}}, {"backward.h", {6}}}, {{"x", ElementType::kFp32, 11}}},
  };
  for (const Case& c : cases) {
    const auto cell = BuildCell(Shipped(c.name), {}, Shapes(c.shapes));
    ASSERT_TRUE(cell.ok()) << cell.status();
    EXPECT_EQ(cell->name(), c.name);
    EXPECT_EQ(std::vector<Column>(cell->columns().begin(), cell->columns().end()), c.columns);
  }
}

// What an assembler knows: the shapes of tensors, and of what lies below; never what a symbol stands for (but of BOS,
// which no shape implies).
TEST(CellCodecTest, EveryShippedCellNeedsNoSizes) {
  const Sizes sizes = {{"D", 5}, {"H", 7}, {"V", 9}, {"C", 3}, {"F", 2},
                       {"B", 4}, {"L", 6}, {"M", 8}, {"P", 11}};
  for (const ShippedCell& shipped : ShippedCells()) {
    const CellText text = Shipped(shipped.name);
    std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
    const auto add = [&](const std::string& name, const auto& dims) {
      shapes.emplace_back(name, std::vector<int64_t>());
      for (const std::string& dim : dims) {
        shapes.back().second.push_back(*EvaluateDimension(dim, sizes));
      }
    };
    for (const disk::CellParameter& p : text.message.parameters()) {
      if (!p.optional()) add(p.name(), p.dims());
    }
    for (const disk::CellInput& in : text.message.inputs()) {
      if (in.name() == text.message.carry()) continue;
      for (const disk::CellColumn& c : in.columns()) {
        if (c.dims_size() == 1) add(in.name() + "." + c.name(), c.dims());
      }
    }
    const auto cell = BuildCell(text, {{"BOS", 1}}, Shapes(shapes));
    EXPECT_TRUE(cell.ok()) << shipped.name << ": " << cell.status();
  }
}

TEST(CellCodecTest, AnLstmReadsTokensThroughAnEmbedding) {
  const auto joined = PutBefore(Shipped("embed"), Shipped("lstm"), "x");
  ASSERT_TRUE(joined.ok()) << joined.status();
  const auto cell =
      BuildCell(*joined, {}, Shapes({{"embed/table", {100, 5}}, {"W", {28, 5}}, {"U", {28, 7}}}));
  ASSERT_TRUE(cell.ok()) << cell.status();
  ASSERT_EQ(cell->inputs().size(), 2u);
  EXPECT_EQ(cell->inputs()[0].name, "token");
  EXPECT_EQ(cell->inputs()[0].reads[0], (Column{"token", ElementType::kInt32, 1}));
  EXPECT_EQ(cell->carry(), InputId(1));
  EXPECT_EQ(cell->parameters()[0].name, "embed/table");
  EXPECT_EQ(cell->parameters()[0].shape, Shape::Matrix(100, 5));
}

TEST(CellCodecTest, APairInFrontJoinsTwoDirections) {
  const auto joined = PutBefore(Shipped("pair"), Shipped("gru"), "x");
  ASSERT_TRUE(joined.ok()) << joined.status();
  const auto cell =
      BuildCell(*joined, {},
                Shapes({{"W", {21, 9}}, {"U", {21, 7}}, {"forward.h", {5}}, {"backward.h", {4}}}));
  ASSERT_TRUE(cell.ok()) << cell.status();
  EXPECT_EQ(cell->inputs().size(), 3u);
  const auto wrong =
      BuildCell(*joined, {},
                Shapes({{"W", {21, 9}}, {"U", {21, 7}}, {"forward.h", {5}}, {"backward.h", {5}}}));
  EXPECT_THAT(ErrorOf(wrong),
              testing::MatchesRegex("gru.textproto:[0-9]+: cell \"gru\": operator \"product_x\" "
                                    ".*10.*9.*"));
}

TEST(CellCodecTest, WhatIsPutInFrontMustFit) {
  const auto message = [](const char* before, const char* cell, const char* input) {
    const auto joined = PutBefore(Shipped(before), Shipped(cell), input);
    return joined.ok() ? "accepted" : std::string(joined.status().message());
  };
  EXPECT_THAT(message("embed", "lstm", "y"), HasSubstr("no such input"));
  EXPECT_THAT(message("embed", "lstm", "before"), HasSubstr("what a chain carries"));
  EXPECT_THAT(message("gru", "lstm", "x"), HasSubstr("in front is a chain"));
  EXPECT_THAT(message("linear", "lstm", "x"),
              HasSubstr("reads column \"x\", which the cell in front"));
}

TEST(CellCodecTest, ShapesThatDisagreeAreNamedWithBothValues) {
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("lstm"), {}, Shapes({{"W", {28, 5}}, {"U", {24, 7}}}))),
              HasSubstr("\"U\" is [4*H = 28, H = 7], tensor \"t.U\" is [24, 7]"));
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("lstm"), {{"H", 8}}, Shapes({{"W", {28, 5}}}))),
              HasSubstr("\"W\" is [4*H = 32, D = 5], tensor \"t.W\" is [28, 5]"));
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("lstm"), {}, Shapes({{"W", {27, 5}}}))),
              HasSubstr("\"W\" is [4*H, D = 5], tensor \"t.W\" is [27, 5]"));
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("linear"), {}, Shapes({{"W", {5}}}))),
              HasSubstr("\"W\" is [C, D], tensor \"t.W\" is [5]"));
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("linear"), {}, Shapes({{"weight", {5, 5}}}))),
              HasSubstr("no parameter or input \"weight\""));
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("linear"), {}, {})), HasSubstr("is not known"));
  EXPECT_THAT(ErrorOf(BuildCell(Shipped("embed"), {{"V", int64_t{1} << 40}, {"D", 4}}, {})),
              HasSubstr("a value beyond"));
}

TEST(CellCodecTest, MistakesInTheTextAreFoundByLine) {
  EXPECT_THAT(ErrorOfText("name: \"t\"\n\nop { }\n"), HasSubstr("t.textproto:3:"));
  EXPECT_THAT(
      ErrorOfText("name: \"t\"\ninputs { name: \"x\" columns { name: \"x\" dims: \"N\" } }\n"
                  "ops { name: \"y\" kind: TANH args: \"x\" }\n"),
      HasSubstr("t.textproto:3: there is no earlier operator, parameter or input column \"x\""));
  const std::string head =
      "name: \"t\"\ninputs { name: \"x\" columns { name: \"x\" dims: \"N\" } }\n";
  EXPECT_EQ(ErrorOfText(head + "ops { name: \"y\" kind: TANH args: \"x.x\" }\n"
                               "outputs { column: \"y\" value: \"y\" }"),
            "accepted");
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" args: \"x.x\" }"),
              HasSubstr("t.textproto:3: operator \"y\" has no kind"));
  EXPECT_THAT(
      ErrorOfText(
          head +
          "\nops { name: \"y\" kind: ADD args: \"x.x\" }\noutputs { column: \"y\" value: \"y\" }"),
      HasSubstr("t.textproto:4: cell \"t\": operator \"y\" (Add): 1 argument"));
  EXPECT_THAT(
      ErrorOfText(head + "ops { name: \"y\" kind: SLICE args: \"x.x\" begin: \"1\" end: \"4\" }\n"
                         "outputs { column: \"y\" value: \"y\" }"),
      HasSubstr("t.textproto:3: cell \"t\": operator \"y\""));
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" kind: TANH args: \"x.x\" begin: \"1\" }"),
              HasSubstr("belong to other kinds"));
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" kind: TANH args: \"x.x\" }\n"
                                 "ops { name: \"y\" kind: TANH args: \"x.x\" }"),
              HasSubstr("t.textproto:4: the name \"y\" is there twice"));
  EXPECT_THAT(ErrorOfText(head + "parameters { name: \"w\" dims: \"N\" }\n"
                                 "outputs { column: \"y\" value: \"x.x\" }"),
              HasSubstr("t.textproto:3: parameter \"w\" is never used"));
  EXPECT_THAT(ErrorOfText(head + "carry: \"h\""), HasSubstr("the carry \"h\" is no input"));
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" kind: CONSTANT value: nan dims: \"N\" }"),
              HasSubstr("not finite"));
  EXPECT_THAT(ErrorOfText("name: \"t\"\nparameters { name: \"w\" dims: \"M\" }\n"),
              HasSubstr("t.textproto:2: dimension \"M\": size M is not known"));
  EXPECT_THAT(ErrorOfText("name: \"t\"\nparameters { name: \"w\" dims: \"N-3\" }\n"),
              HasSubstr("is 0, allowed are 1 to"));
  EXPECT_THAT(ErrorOfText(std::string(kMaxCellText + 1, ' ')), HasSubstr("the limit is"));
}

TEST(CellCodecTest, AConstantMayBeAWholeNumberThatTheModelGives) {
  const std::string text =
      "name: \"t\"\nops { name: \"first\" kind: CONSTANT integer: \"BOS + 1\" }\n"
      "outputs { column: \"word\" value: \"first\" }";
  const absl::StatusOr<CellText> parsed = ParseCell(text, "t.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const absl::StatusOr<CellDefinition> cell = BuildCell(*parsed, {{"BOS", 6}}, {});
  ASSERT_TRUE(cell.ok()) << cell.status();
  EXPECT_EQ(cell->columns()[0], (Column{"word", ElementType::kInt32, 1}));
  EXPECT_EQ(InterpretNode(*cell, {}, {}), RowValues({{7.0}}));
  EXPECT_THAT(ErrorOf(BuildCell(*parsed, {}, {})), HasSubstr("size BOS is not known"));
  const std::string head = "name: \"t\"\n";
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" kind: TANH integer: \"1\" }"),
              HasSubstr("t.textproto:2: integer belongs to constants"));
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" kind: CONSTANT integer: \"1\" value: 2 }"),
              HasSubstr("instead of value"));
  EXPECT_THAT(ErrorOfText(head + "ops { name: \"y\" kind: CONSTANT integer: \"1\" dims: \"2\" }"),
              HasSubstr("without dims"));
}

TEST(CellCodecTest, TooManyPartsAreRefusedBeforeTheyCostAnything) {
  std::string text = "name: \"t\"\n";
  for (int i = 0; i < 600; ++i) text += fmt::format("ops {{ name: \"o{}\" kind: TANH }}\n", i);
  EXPECT_THAT(ErrorOfText(text), HasSubstr("600 operators, the limit is 512"));
  text = "name: \"t\"\n";
  for (int i = 0; i < 65; ++i) text += fmt::format("parameters {{ name: \"p{}\" }}\n", i);
  EXPECT_THAT(ErrorOfText(text), HasSubstr("65 parameters, the limit is 64"));
}

TEST(CellCodecTest, AnArgMaxIsAddedUnderANameThatTheTextLeavesFree) {
  const auto head = ParseCell(R"(name: "head"
inputs { name: "x" columns { name: "x" type: FP32 dims: "N" } }
ops { name: "label/argmax" kind: TANH args: "x.x" }
outputs { column: "y" value: "label/argmax" })",
                              "head.textproto");
  ASSERT_TRUE(head.ok()) << head.status();
  const auto labelled = AddArgMax(*head, "y", "label");
  ASSERT_TRUE(labelled.ok()) << labelled.status();
  const auto cell = BuildCell(*labelled, {{"N", 3}}, {});
  ASSERT_TRUE(cell.ok()) << cell.status();
  EXPECT_EQ(cell->columns()[1], (Column{"label", ElementType::kInt32, 1}));
}

}  // namespace
}  // namespace cellbatch

// A cell written with one mistake each, and the whole text that comes out: the line to change, both values, what would do.
#include "server/cells/cell_mistakes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cellbatch {
namespace {

constexpr char kElman[] = R"(name: "elman"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
inputs { name: "before" columns { name: "h" type: FP32 dims: "H" } }
parameters { name: "W" dims: "H" dims: "D" }
parameters { name: "U" dims: "H" dims: "H" }
parameters { name: "b" dims: "H" }
ops { name: "from_x" kind: MATMUL args: "x.x" args: "W" }
ops { name: "biased" kind: ADD args: "b" args: "from_x" }
ops { name: "from_h" kind: MATMUL args: "before.h" args: "U" }
ops { name: "sum" kind: ADD args: "biased" args: "from_h" }
ops { name: "h" kind: TANH args: "sum" }
outputs { column: "h" value: "h" }
carry: "before"
)";
constexpr char kWritten[] =
    "; a chain's node reads what the one before it left, so write the same type and dims";
constexpr char kTurned[] =
    "; turned round, every shape fits: a matrix is written [rows out, columns in], and a tensor "
    "that is stored the other "
    "way is read with transposed: true";

using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// kElman with `from` replaced by `to`, built as a model would: tensors of 7 units over 5 numbers, unless said otherwise.
std::string Error(const std::string& from, const std::string& to,
                  const Shapes& tensors = {{"W", {7, 5}}, {"U", {7, 7}}, {"b", {7}}}) {
  std::string text = kElman;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const absl::StatusOr<CellText> cell = ParseCell(text, "t.textproto");
  if (!cell.ok()) return std::string(cell.status().message());
  std::vector<KnownShape> known;
  for (const auto& [name, dims] : tensors) {
    known.push_back({name, dims, "tensor \"rnn." + name + "\""});
  }
  const absl::Status fits = CheckShapes(*cell, {}, known);
  if (!fits.ok()) return std::string(fits.message());
  known.push_back({"x.x", {5}, "what is below"});
  const absl::StatusOr<CellDefinition> made = BuildCell(*cell, {}, known);
  return made.ok() ? "accepted" : std::string(made.status().message());
}

TEST(CellMistakesTest, WithoutAMistakeItIsACell) {
  EXPECT_EQ(Error("TANH", "TANH"), "accepted");
  EXPECT_EQ(Error("x\" type: FP32", "x\""), "accepted") << "a column without a type is FP32";
}

TEST(CellMistakesTest, AMatrixTheWrongWayRoundIsToBlameAndNotTheOthers) {
  EXPECT_EQ(
      Error("\"W\" dims: \"H\" dims: \"D\"", "\"W\" dims: \"D\" dims: \"H\""),
      std::string("t.textproto:4: cell \"elman\": \"W\" is [D = 5, H = 7], tensor \"rnn.W\" is "
                  "[7, 5]") +
          kTurned);
  EXPECT_EQ(
      Error("\"W\"", "\"W\"", {{"W", {5, 7}}, {"U", {7, 7}}, {"b", {7}}}),
      std::string("t.textproto:4: cell \"elman\": \"W\" is [H = 7, D = 5], tensor \"rnn.W\" is "
                  "[5, 7]") +
          kTurned)
      << "the tensor is stored so";
  EXPECT_EQ(Error("\"W\" dims: \"H\" dims: \"D\"", "\"W\" dims: \"H\" dims: \"2*D\""),
            "t.textproto:4: cell \"elman\": \"W\" is [H = 7, 2*D = 10], tensor \"rnn.W\" is [7, 5] "
            "(H = 7 by "
            "tensor \"rnn.U\", D = 5 by what is below)");
}

TEST(CellMistakesTest, WhatAllOthersContradictIsToBlame) {
  EXPECT_EQ(Error("\"W\"", "\"W\"", {{"W", {6, 5}}, {"U", {7, 7}}, {"b", {7}}}),
            "t.textproto:4: cell \"elman\": \"W\" is [H = 7, D = 5], tensor \"rnn.W\" is [6, 5] (H "
            "= 7 by "
            "tensor \"rnn.U\")");
  EXPECT_EQ(Error("\"x\" type: FP32 dims: \"D\"", "\"x\" type: FP32 dims: \"D + 1\""),
            "t.textproto:2: cell \"elman\": \"x.x\" is [D + 1 = 6], what is below is [5] (D = 5 by "
            "tensor \"rnn.W\")");
  EXPECT_EQ(Error("\"W\"", "\"w\""),
            "t.textproto: cell \"elman\" has no parameter or input \"W\"; did you mean \"w\"?");
}

TEST(CellMistakesTest, AnOperatorWithTooFewArgumentsIsNotAnUnusedParameter) {
  EXPECT_EQ(Error("ADD args: \"b\" args: \"from_x\"", "ADD args: \"from_x\""),
            "t.textproto:8: cell \"elman\": operator \"biased\" (Add): 1 argument (\"from_x\"), it "
            "takes 2");
  EXPECT_EQ(
      Error("TANH args: \"sum\"", "TANH args: \"sum\" args: \"b\""),
      "t.textproto:11: cell \"elman\": operator \"h\" (Tanh): 2 arguments (\"sum\", \"b\"), it "
      "takes 1");
  EXPECT_EQ(Error("TANH args: \"sum\"", "CONCAT args: \"b\" args: \"b\" args: \"b\" args: \"sum\""),
            "t.textproto:11: operator \"h\" has 4 arguments, CONCAT takes 3 at most");
  EXPECT_EQ(Error("ADD args: \"b\" args: \"from_x\"", "ADD args: \"from_x\" args: \"from_x\""),
            "t.textproto:6: parameter \"b\" is never used: no operator has it among its args");
}

TEST(CellMistakesTest, ACarryOfTheWrongWidthIsNotAnOperators) {
  const std::string carry = "t.textproto:3: cell \"elman\": carry \"before\" reads column \"h\"";
  EXPECT_EQ(Error("\"h\" type: FP32 dims: \"H\"", "\"h\" type: FP32 dims: \"D\""),
            carry + " as FP32 [5], the cell leaves FP32 [7]" + kWritten);
  EXPECT_EQ(Error("\"h\" type: FP32 dims: \"H\"", "\"h\" type: FP32"),
            carry + " as FP32 [1], the cell leaves FP32 [7]" + kWritten);
  EXPECT_EQ(Error("\"h\" type: FP32 dims: \"H\"", "\"h\" type: INT32 dims: \"H\""),
            carry + " as INT32 [7], the cell leaves FP32 [7]" + kWritten);
  EXPECT_EQ(Error("outputs { column: \"h\" value: \"h\" }",
                  "ops { name: \"twice\" kind: CONCAT args: \"h\" args: \"h\" }\n"
                  "outputs { column: \"h\" value: \"twice\" }"),
            carry + " as FP32 [7], the cell leaves FP32 [14]" + kWritten);
  EXPECT_EQ(
      Error("column: \"h\"", "column: \"y\""),
      carry + ", which the cell does not leave; a chain's node reads what the one before it left");
  EXPECT_EQ(Error("args: \"before.h\" args: \"U\"", "args: \"x.x\" args: \"U\""),
            "t.textproto:9: cell \"elman\": operator \"from_h\" (MatMul): \"x.x\" is [5], \"U\" is "
            "[7, 7]: their last dimensions are 5 and 7, and must agree")
      << "an operator's is not the carry's";
  EXPECT_EQ(Error("carry: \"before\"", "carry: \"befor\""),
            "t.textproto:13: the carry \"befor\" is no input; did you mean \"before\"?");
}

TEST(CellMistakesTest, ASizeThatNothingGivesSaysWhereItCanBeGiven) {
  const std::string where =
      ": neither a tensor's shape nor what is below gives it; write sizes { key: \"K\" value: .. } "
      "into the cell type (known are D = 5, H = 7)";
  EXPECT_EQ(Error("\"U\" dims: \"H\" dims: \"H\"", "\"U\" dims: \"H\" dims: \"K\" optional: true",
                  {{"W", {7, 5}}, {"b", {7}}}),
            "t.textproto:5: dimension \"K\": size K is not known" + where);
  EXPECT_EQ(Error("TANH args: \"sum\"", "SLICE args: \"sum\" begin: \"0\" end: \"K/2\""),
            "t.textproto:11: end: dimension \"K/2\": size K is not known" + where);
  EXPECT_EQ(
      Error("\"U\" dims: \"H\"", "\"U\" dims: \"1H\""),
      "t.textproto:5: cell \"elman\": \"U\": dimension \"1H\": \"1H\" is no number, and no size; "
      "products are written 4*H");
}

TEST(CellMistakesTest, OperandsAreNamedWithBothShapesAndWhatWouldDo) {
  const std::string at = "t.textproto:7: cell \"elman\": operator \"from_x\" (MatMul): ";
  EXPECT_EQ(
      Error("\"W\" dims: \"H\" dims: \"D\"", "\"W\" dims: \"D\" dims: \"H\"",
            {{"W", {5, 7}}, {"U", {7, 7}}, {"b", {7}}}),
      at + "\"x.x\" is [5], \"W\" is [5, 7]: their last dimensions are 5 and 7, and must agree; a "
           "matrix is written [rows out, columns in]: exchange its dims");
  EXPECT_EQ(
      Error("args: \"x.x\" args: \"W\"", "args: \"W\" args: \"x.x\""),
      "t.textproto:8: cell \"elman\": operator \"biased\" (Add): \"b\" is [7], \"from_x\" is [7, "
      "1]: they differ and neither is [1]; of a MatMul the vector is the first argument, the "
      "matrix the second");
  EXPECT_EQ(
      Error("args: \"biased\" args: \"from_h\"", "args: \"biased\" args: \"x.x\""),
      "t.textproto:10: cell \"elman\": operator \"sum\" (Add): \"biased\" is [7], \"x.x\" is [5]: "
      "they differ and neither is [1]");
  EXPECT_EQ(
      Error("TANH args: \"sum\"", "LOOKUP args: \"U\" args: \"x.x\""),
      "t.textproto:11: cell \"elman\": operator \"h\" (Lookup): the index \"x.x\" is FP32 [5], it "
      "must be INT32 [1]");
  EXPECT_EQ(
      Error("TANH args: \"sum\"", "SLICE args: \"sum\" begin: \"H\" end: \"2*H\""),
      "t.textproto:11: cell \"elman\": operator \"h\" (Slice): elements 7 <= i < 14 of \"sum\", "
      "which is [7]: begin and end are within 0 to 7");
  EXPECT_EQ(
      Error("TANH args: \"sum\"", "SLICE args: \"sum\" begin: \"2\""),
      "t.textproto:11: operator \"h\" (Slice) has no end: it takes begin and end, the elements "
      "begin <= i < end");
}

TEST(CellMistakesTest, AnArgumentThatIsNothingSaysWhatMayHaveBeenMeant) {
  const std::string none = "there is no earlier operator, parameter or input column ";
  EXPECT_EQ(Error("args: \"from_x\"", "args: \"form_x\""),
            "t.textproto:8: " + none + "\"form_x\"; did you mean \"from_x\"?");
  EXPECT_EQ(Error("args: \"x.x\"", "args: \"x\""),
            "t.textproto:7: " + none + "\"x\"; a column of an input is written \"x.x\"");
  EXPECT_EQ(Error("args: \"before.h\"", "args: \"before.state\""),
            "t.textproto:9: " + none + "\"before.state\" (there are \"before.h\")");
  EXPECT_EQ(Error("args: \"b\"", "args: \"h\""),
            "t.textproto:8: " + none +
                "\"h\"; that operator is at t.textproto:11, and operators read what stands before "
                "them");
  EXPECT_EQ(Error("value: \"h\"", "value: \"hh\""),
            "t.textproto:12: " + none + "\"hh\"; did you mean \"h\"?");
}

TEST(CellMistakesTest, EveryPartIsFoundByItsLine) {
  EXPECT_EQ(Error("outputs {", "outputs { column: \"h\" value: \"sum\" }\noutputs {"),
            "t.textproto:13: cell \"elman\": two outputs are named \"h\"");
  EXPECT_EQ(Error("column: \"h\" ", ""), "t.textproto:12: cell \"elman\": output 0 has no name");
  EXPECT_EQ(Error("outputs { column: \"h\" value: \"h\" }", ""),
            "t.textproto: cell \"elman\": no outputs, and a cell leaves one column at least");
  EXPECT_EQ(Error("inputs { name: \"before\"",
                  "inputs { name: \"x\" columns { name: \"y\" } }\ninputs { name: \"before\""),
            "t.textproto:3: cell \"elman\": two inputs are named \"x\"");
  EXPECT_EQ(
      Error("name: \"before\"", "name: \"before\" arity: SUM"),
      "t.textproto:3: cell \"elman\": carry \"before\" is a sum, a chain carries one node's row");
  EXPECT_EQ(Error("{ name: \"sum\"", "{ name: \"U\""),
            "t.textproto:10: the name \"U\" is there twice: t.textproto:5 has it");
  EXPECT_EQ(Error("x\" type: FP32", "x\" type: BF16"),
            "t.textproto:2: BF16 columns are not offered yet, FP32 and INT32 are");
}

TEST(CellMistakesTest, WordsThatTheLanguageLacksAreNamedWithThoseItHas) {
  EXPECT_EQ(
      Error("kind: MATMUL", "kind: MATMULT"),
      "t.textproto:7:36: Unknown enumeration value of \"MATMULT\" for field \"kind\"; did you "
      "mean \"MATMUL\"?");
  EXPECT_EQ(
      Error("kind: TANH", "kind: GELU"),
      "t.textproto:11:28: Unknown enumeration value of \"GELU\" for field \"kind\"; did you mean "
      "\"RELU\"?");
  EXPECT_EQ(Error("kind: TANH args: \"sum\" }", "args: \"sum\" kind: GELU\n  # h\n}").substr(0, 42),
            "t.textproto:11:35: Unknown enumeration val")
      << "where it stands, not what follows";
  EXPECT_EQ(Error("inputs {", "input {"),
            "t.textproto:2:7: Message type \"cellbatch.disk.CellDefinition\" has no field named "
            "\"input\"; did you mean \"inputs\"?");
  EXPECT_EQ(
      Error("dims: \"D\"", "shape: \"D\""),
      "t.textproto:2:56: Message type \"cellbatch.disk.CellColumn\" has no field named \"shape\" "
      "(there are \"name\", \"type\", \"dims\")");
  EXPECT_EQ(Error("dims: \"D\"", "dims: 5"),
            "t.textproto:2:57: Expected string, got: 5; it stands in quotation marks, \"5\"");
}

// Leaves (columns of inputs, parameters) are no operators.
TEST(CellMistakesTest, FiveHundredAndTwelveOperatorsAreTakenWhateverTheyRead) {
  const auto error = [](int ops) {
    std::string text = "name: \"t\"\ninputs { name: \"x\" columns { name: \"x\" dims: \"3\" } }\n";
    for (int i = 0; i < 3; ++i) {
      text += fmt::format("parameters {{ name: \"p{}\" dims: \"3\" }}\n", i);
    }
    for (int i = 0; i < ops; ++i) {
      text +=
          fmt::format("ops {{ name: \"o{}\" kind: ADD args: \"x.x\" args: \"p{}\" }}\n", i, i % 3);
    }
    const auto cell = ParseCell(text + "outputs { column: \"y\" value: \"o9\" }", "t.textproto");
    EXPECT_TRUE(cell.ok()) << cell.status();
    const auto made = BuildCell(*cell, {}, {});
    return made.ok() ? "accepted" : std::string(made.status().message());
  };
  EXPECT_EQ(error(512), "accepted");
  EXPECT_EQ(error(513), "t.textproto: 513 operators, the limit is 512");
}

}  // namespace
}  // namespace cellbatch

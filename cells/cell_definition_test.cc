#include "cells/cell_definition.h"

#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

// A cell under construction; each method returns the value it makes.
struct Draft {
  std::vector<Op> ops;
  std::vector<Input> inputs;
  std::vector<Parameter> parameters;
  std::vector<Output> outputs;
  std::optional<InputId> carry;

  ValueId Add(OpKind kind, std::array<ValueId, 3> args = {}, std::array<int32_t, 2> attr = {},
              Shape shape = {}) {
    ops.push_back({.kind = kind, .args = args, .attr = attr, .shape = shape});
    return ValueId(static_cast<int64_t>(ops.size()) - 1);
  }
  ValueId Read(std::string name, int32_t width, ElementType type = ElementType::kFp32,
               Arity arity = Arity::kOne) {
    inputs.push_back({name, {{name, type, width}}, arity});
    return Add(OpKind::kInput, {}, {static_cast<int32_t>(inputs.size()) - 1, 0});
  }
  ValueId Weight(std::string name, Shape shape) {
    parameters.push_back({name, shape});
    return Add(OpKind::kParameter, {}, {static_cast<int32_t>(parameters.size()) - 1, 0});
  }
  absl::StatusOr<CellDefinition> Create() const {
    return CellDefinition::Create("c", ops, inputs, parameters, outputs, carry);
  }
  std::string Error() const {
    const absl::StatusOr<CellDefinition> made = Create();
    if (made.ok()) return "";
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  }
};

Draft Elman(int32_t d, int32_t h) {
  Draft c;
  const ValueId x = c.Read("x", d), before = c.Read("h", h);
  const ValueId w = c.Weight("W", Shape::Matrix(h, d)), u = c.Weight("U", Shape::Matrix(h, h));
  const ValueId from_x = c.Add(OpKind::kMatMul, {x, w}),
                from_h = c.Add(OpKind::kMatMul, {before, u});
  const ValueId sum = c.Add(OpKind::kAdd, {from_x, from_h});
  c.outputs = {{"h", c.Add(OpKind::kTanh, {sum})}};
  c.carry = InputId(1);
  return c;
}

TEST(CellDefinitionTest, AnElmanCellHasItsShapesColumnsAndFlops) {
  const absl::StatusOr<CellDefinition> made = Elman(3, 5).Create();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->op(ValueId(4)).shape, Shape::Vector(5));
  EXPECT_EQ(made->op(ValueId(0)).shape, Shape::Vector(3));
  ASSERT_EQ(made->columns().size(), 1u);
  EXPECT_EQ(made->columns()[0], (Column{"h", ElementType::kFp32, 5}));
  EXPECT_EQ(made->flops(), 2 * 3 * 5 + 2 * 5 * 5 + 5 + 5);
  EXPECT_EQ(made->carry(), InputId(1));
}

TEST(CellDefinitionTest, EveryKindInfersItsShapeAndType) {
  Draft c;
  const ValueId x = c.Read("x", 6), t = c.Read("t", 1, ElementType::kInt32);
  const ValueId table = c.Weight("E", Shape::Matrix(10, 4));
  const ValueId two = c.Add(OpKind::kConstant, {}, {0x40000000, 0}, Shape{});
  const ValueId row = c.Add(OpKind::kLookup, {table, t});
  const ValueId scaled = c.Add(OpKind::kMul, {two, row});
  const ValueId slice = c.Add(OpKind::kSlice, {x}, {2, 5});
  const ValueId joined = c.Add(OpKind::kConcat, {scaled, slice, x});
  const ValueId turned = c.Add(OpKind::kTranspose, {table});
  const ValueId soft = c.Add(OpKind::kSoftmax, {joined});
  const ValueId best = c.Add(OpKind::kArgMax, {soft});
  const ValueId mean = c.Add(OpKind::kMean, {joined});
  EXPECT_EQ(c.Add(OpKind::kSub, {joined, mean}), ValueId(12));
  const ValueId several = c.Add(OpKind::kMatMul, {turned, turned});
  const ValueId below = c.Add(OpKind::kConcat, {several, several});
  c.outputs = {{"p", soft}, {"word", best}, {"mean", mean}, {"gram", several}};
  const absl::StatusOr<CellDefinition> made = c.Create();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->op(row).shape, Shape::Vector(4));
  EXPECT_EQ(made->op(scaled).shape, Shape::Vector(4));
  EXPECT_EQ(made->op(joined).shape, Shape::Vector(13));
  EXPECT_EQ(made->op(soft).shape, Shape::Vector(13));
  EXPECT_EQ(made->op(ValueId(12)).shape, Shape::Vector(13)) << "less one number";
  EXPECT_EQ(made->op(turned).shape, Shape::Matrix(4, 10));
  EXPECT_EQ(made->op(best).type, ElementType::kInt32);
  EXPECT_EQ(made->op(several).shape, Shape::Matrix(4, 4));
  EXPECT_EQ(made->op(below).shape, Shape::Matrix(8, 4));
  EXPECT_EQ(made->columns()[1], (Column{"word", ElementType::kInt32, 1}));
  EXPECT_EQ(made->columns()[3].width, 16);
}

TEST(CellDefinitionTest, AnInputMayBeFoldedToAMatrix) {
  Draft c;
  c.Read("m", 12);
  c.ops[0].shape = Shape::Matrix(3, 4);
  c.outputs = {{"m", ValueId(0)}};
  EXPECT_EQ(c.Error(), "");
  c.ops[0].shape = Shape::Matrix(3, 5);
  EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Input): shape [3, 5] is given, [12] is there");
}

TEST(CellDefinitionTest, DisagreeingProductsNameBothShapes) {
  Draft c = Elman(3, 5);
  c.parameters[0].shape = Shape::Matrix(5, 4);
  EXPECT_EQ(
      c.Error(),
      "cell \"c\": op 4 (MatMul): \"x.x\" is [3], \"W\" is [5, 4]: their last dimensions are 3 and "
      "4, and must agree");
}

TEST(CellDefinitionTest, DisagreeingOperandsNameBothShapes) {
  Draft c = Elman(3, 5);
  c.parameters[0].shape = Shape::Matrix(6, 3);
  EXPECT_EQ(c.Error(),
            "cell \"c\": op 6 (Add): op 4 is [6], op 5 is [5]: they differ and neither is [1]");
}

TEST(CellDefinitionTest, ValuesAreMadeBeforeTheyAreRead) {
  Draft c = Elman(3, 5);
  c.ops[4].args[0] = ValueId(4);
  EXPECT_EQ(c.Error(),
            "cell \"c\": op 4 (MatMul): argument 0 is value 4, only values before 4 exist");
}

TEST(CellDefinitionTest, EveryOperatorTakesItsArguments) {
  Draft c = Elman(3, 5);
  c.ops[4].args[1] = ValueId();
  EXPECT_EQ(c.Error(), "cell \"c\": op 4 (MatMul): 1 argument (\"x.x\"), it takes 2");
  c.ops[4].args = {ValueId(), ValueId(1), ValueId()};
  EXPECT_EQ(c.Error(), "cell \"c\": op 4 (MatMul): argument 1 is given, argument 0 is not");
  c = Elman(3, 5);
  c.ops[7].args[1] = ValueId(1);
  EXPECT_EQ(c.Error(), "cell \"c\": op 7 (Tanh): 2 arguments (op 6, \"h.h\"), it takes 1");
  c.ops[7] = {.kind = OpKind::kConcat, .args = {ValueId(1)}};
  EXPECT_EQ(c.Error(), "cell \"c\": op 7 (Concat): 1 argument (\"h.h\"), it takes 2 or 3");
}

TEST(CellDefinitionTest, LeavesNameWhatExists) {
  Draft c = Elman(3, 5);
  c.ops[2].attr[0] = 2;
  EXPECT_EQ(c.Error(), "cell \"c\": op 2 (Parameter): parameter 2 of 2");
  c = Elman(3, 5);
  c.ops[0].attr[0] = -1;
  EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Input): input -1 of 2");
  c = Elman(3, 5);
  c.ops[0].attr[1] = 1;
  EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Input): column 1 of input \"x\", which reads 1");
  c = Elman(3, 5);
  c.ops[0].shape = Shape::Vector(4);
  EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Input): shape [4] is given, [3] is there");
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}}) {
    c.ops[0] = {.kind = OpKind::kConstant, .shape = shape};
    EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Constant): shape " + shape.ToString());
  }
  c.ops[0] = {.kind = OpKind::kConstant, .shape = {1, 3}, .type = ElementType::kBf16};
  EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Constant): BF16, constants are FP32 or INT32");
  c = Elman(3, 5);
  c.ops[2].attr[0] = -1;
  EXPECT_EQ(c.Error(), "cell \"c\": op 2 (Parameter): parameter -1 of 2");
  c = Elman(3, 5);
  c.ops[0].attr[0] = 2;
  EXPECT_EQ(c.Error(), "cell \"c\": op 0 (Input): input 2 of 2");
  c = Elman(3, 5);
  c.ops[2].shape = Shape::Matrix(3, 5);
  EXPECT_EQ(c.Error(), "cell \"c\": op 2 (Parameter): shape [3, 5] is given, [5, 3] is there")
      << "rows that a node reads may be folded, weights may not";
}

TEST(CellDefinitionTest, SlicesStayInside) {
  Draft c = Elman(3, 5);
  for (const auto& [begin, end] : {std::pair{-1, 2}, {2, 2}, {3, 6}}) {
    c.ops[7] = {.kind = OpKind::kSlice, .args = {ValueId(6)}, .attr = {begin, end}};
    EXPECT_EQ(c.Error(), "cell \"c\": op 7 (Slice): elements " + std::to_string(begin) +
                             " <= i < " + std::to_string(end) +
                             " of op 6, which is [5]: begin and end are within 0 to 5");
  }
}

TEST(CellDefinitionTest, IntegersAreLookedUpNotComputedOn) {
  Draft c;
  const ValueId t = c.Read("t", 1, ElementType::kInt32), x = c.Read("x", 1);
  const ValueId table = c.Weight("E", Shape::Matrix(10, 4));
  c.outputs = {{"y", x}};
  Draft lookup = c;
  lookup.Add(OpKind::kLookup, {table, x});
  EXPECT_EQ(lookup.Error(),
            "cell \"c\": op 3 (Lookup): the index \"x.x\" is FP32 [1], it must be INT32 [1]");
  lookup.ops.back().args = {t, t};
  EXPECT_EQ(
      lookup.Error(),
      "cell \"c\": op 3 (Lookup): \"t.t\" is INT32; the table is the first argument, the index "
      "the second");
  Draft add = c;
  add.Add(OpKind::kAdd, {x, t});
  EXPECT_EQ(add.Error(), "cell \"c\": op 3 (Add): \"t.t\" is INT32, it computes on FP32");
  Draft concat = c;
  concat.Add(OpKind::kConcat, {x, t});
  EXPECT_EQ(concat.Error(), "cell \"c\": op 3 (Concat): \"t.t\" is INT32, \"x.x\" is FP32");
  Draft matrices = c;
  matrices.Add(OpKind::kConcat, {x, table});
  EXPECT_EQ(matrices.Error(), "cell \"c\": op 3 (Concat): \"E\" is [10, 4], it joins vectors");
  Draft vector = c;
  vector.Add(OpKind::kConcat, {table, x});
  EXPECT_EQ(vector.Error(),
            "cell \"c\": op 3 (Concat): \"x.x\" is [1], \"E\" is [10, 4]: it joins matrices of one "
            "width");
  Draft row = c;
  row.Add(OpKind::kConcat, {table, row.Read("r", 4)});
  EXPECT_EQ(row.Error(),
            "cell \"c\": op 4 (Concat): \"r.r\" is [4], \"E\" is [10, 4]: it joins matrices of one "
            "width");
  Draft several = c;
  several.Add(OpKind::kLookup, {table, several.Read("i", 2, ElementType::kInt32)});
  EXPECT_EQ(several.Error(),
            "cell \"c\": op 4 (Lookup): the index \"i.i\" is INT32 [2], it must be INT32 [1]");
  Draft turned = c;
  turned.Add(OpKind::kConcat, {table, turned.Add(OpKind::kTranspose, {table})});
  EXPECT_EQ(
      turned.Error(),
      "cell \"c\": op 4 (Concat): op 3 is [4, 10], \"E\" is [10, 4]: it joins matrices of one "
      "width");
}

TEST(CellDefinitionTest, InputsAreNamedOnceAndReadSomething) {
  Draft c = Elman(3, 5);
  c.inputs[0].name = "h";
  EXPECT_EQ(c.Error(), "cell \"c\": two inputs are named \"h\"");
  c.inputs[0].name = "";
  EXPECT_EQ(c.Error(), "cell \"c\": input 0 has no name");
  c = Elman(3, 5);
  c.inputs[0].reads.clear();
  EXPECT_EQ(c.Error(), "cell \"c\": input \"x\" reads no column");
  c = Elman(3, 5);
  c.inputs[0].reads[0].width = 0;
  EXPECT_NE(c.Error().find("input \"x\": column \"x\" has 0 elements"), std::string::npos);
  c.inputs[0].reads = {{"x", ElementType::kFp32, 1}, {"x", ElementType::kFp32, 1}};
  EXPECT_EQ(c.Error(), "cell \"c\": input \"x\" reads column \"x\" twice");
  c.inputs.resize(kMaxInputs + 1);
  EXPECT_EQ(c.Error(), "cell \"c\": 9 inputs, the most is 8");
}

TEST(CellDefinitionTest, OnlyFloatColumnsAreSummed) {
  Draft c;
  c.Read("t", 1, ElementType::kInt32, Arity::kSum);
  c.outputs = {{"t", ValueId(0)}};
  EXPECT_EQ(c.Error(), "cell \"c\": input \"t\": only FP32 columns can be summed, \"t\" is INT32");
}

TEST(CellDefinitionTest, ParametersAreNamedOnceAndFp32) {
  Draft c = Elman(3, 5);
  c.parameters[1].name = "W";
  EXPECT_EQ(c.Error(), "cell \"c\": two parameters are named \"W\"");
  c.parameters[1].name = "";
  EXPECT_EQ(c.Error(), "cell \"c\": parameter 1 has no name");
  c = Elman(3, 5);
  c.parameters[0].shape.rows = 0;
  EXPECT_EQ(c.Error(), "cell \"c\": parameter \"W\" has shape [0, 3]");
  c.parameters[0].shape = {5, 0};
  EXPECT_EQ(c.Error(), "cell \"c\": parameter \"W\" has shape [5, 0]");
  c = Elman(3, 5);
  c.parameters[0].type = ElementType::kInt32;
  EXPECT_EQ(c.Error(), "cell \"c\": parameter \"W\" is INT32, parameters are FP32");
  c.parameters.resize(kMaxParameters + 1);
  EXPECT_EQ(c.Error(), "cell \"c\": 65 parameters, the most is 64");
}

TEST(CellDefinitionTest, OutputsNameValuesThatExist) {
  Draft c = Elman(3, 5);
  c.outputs[0].value = ValueId(8);
  EXPECT_EQ(c.Error(), "cell \"c\": output \"h\" is value 8, there are 8");
  c.outputs = {{"h", ValueId(7)}, {"h", ValueId(6)}};
  EXPECT_EQ(c.Error(), "cell \"c\": two outputs are named \"h\"");
  c.outputs = {{"", ValueId(7)}};
  EXPECT_EQ(c.Error(), "cell \"c\": output 0 has no name");
  c.outputs.clear();
  EXPECT_EQ(c.Error(), "cell \"c\": no outputs, and a cell leaves one column at least");
  c.outputs.resize(kMaxColumns + 1);
  EXPECT_EQ(c.Error(), "cell \"c\": 17 outputs, the most is 16");
}

TEST(CellDefinitionTest, TheCarryReadsWhatTheCellLeaves) {
  Draft c = Elman(3, 5);
  c.carry = InputId(2);
  EXPECT_EQ(c.Error(), "cell \"c\": carry is input 2, there are 2");
  c.carry = InputId(0);
  EXPECT_EQ(c.Error(),
            "cell \"c\": carry \"x\" reads column \"x\", which the cell does not leave; a "
            "chain's node reads what the one before it left");
  c = Elman(3, 5);
  c.outputs[0].value = ValueId(0);
  EXPECT_EQ(c.Error(),
            "cell \"c\": carry \"h\" reads column \"h\" as FP32 [5], the cell leaves FP32 [3]; a "
            "chain's node reads what the one before it left, so write the same type and dims");
  c.outputs[0].value = c.Add(OpKind::kArgMax, {ValueId(7)});
  c.inputs[1].reads[0].width = 1;
  c.ops[4] = c.ops[5] = c.ops[0];
  EXPECT_NE(c.Error().find("reads column \"h\" as FP32 [1], the cell leaves INT32 [1]"),
            std::string::npos);
  c = Elman(3, 5);
  c.inputs[1].arity = Arity::kSum;
  EXPECT_EQ(c.Error(), "cell \"c\": carry \"h\" is a sum, a chain carries one node's row");
}

TEST(CellDefinitionTest, SizesHaveLimits) {
  Draft c = Elman(3, 5);
  const size_t leaves = 4;
  c.ops.resize(leaves + kMaxOps, {.kind = OpKind::kTanh, .args = {ValueId(0)}});
  c.outputs[0].value = ValueId(7);
  EXPECT_EQ(c.Error(), "");
  c.ops.push_back(c.ops.back());
  EXPECT_EQ(c.Error(), "cell \"c\": 513 operators, the most is 512") << "leaves are not counted";
  c.ops.assign(kMaxLeaves + 1, c.ops[0]);
  EXPECT_EQ(c.Error(), "cell \"c\": 193 leaves, the most is 192");
  c.ops.clear();
  EXPECT_EQ(c.Error(), "cell \"c\": no operators");
  c = Elman(3, 5);
  c.ops.push_back({.kind = static_cast<OpKind>(99)});
  EXPECT_EQ(c.Error(), "cell \"c\": op 8: kind 99 does not exist");
  Draft wide;
  const ValueId x = wide.Read("x", 1 << 28);
  wide.Add(OpKind::kConcat, {x, x});
  wide.outputs = {{"x", x}};
  EXPECT_EQ(wide.Error(), "cell \"c\": op 1 (Concat): 536870912 elements, the most is 268435456");
  EXPECT_EQ(CellDefinition::Create("", {}, {}, {}, {}, {}).status().message(),
            "a cell has no name");
}

// Eight inputs of sixteen columns, 64 parameters, sixteen outputs; and as many elements as there may be.
TEST(CellDefinitionTest, EveryLimitMayBeReached) {
  Draft c;
  for (int32_t i = 0; i < kMaxInputs; ++i) {
    c.inputs.push_back({.name = "i" + std::to_string(i), .reads = {}});
    for (int32_t column = 0; column < kMaxColumns; ++column) {
      c.inputs.back().reads.push_back({"c" + std::to_string(column), ElementType::kFp32, 1});
      c.Add(OpKind::kInput, {}, {i, column});
    }
  }
  for (int i = 0; i < kMaxParameters; ++i) c.Weight("p" + std::to_string(i), Shape{});
  for (int i = 0; i < kMaxColumns; ++i) c.outputs.push_back({"o" + std::to_string(i), ValueId(i)});
  EXPECT_EQ(c.ops.size(), static_cast<size_t>(kMaxLeaves));
  EXPECT_EQ(c.Error(), "");
  constexpr int32_t kMost = 1 << 28;
  Draft wide;
  const ValueId half = wide.Read("x", kMost / 2);
  wide.outputs = {{"x", wide.Add(OpKind::kConcat, {half, half})}};
  EXPECT_EQ(wide.Error(), "");
  wide.Read("y", kMost);
  wide.Weight("E", Shape::Matrix(kMost, 4));  // of which nobody makes a value
  EXPECT_EQ(wide.Error(), "");
  wide.inputs[1].reads[0].width = kMost + 1;
  EXPECT_EQ(
      wide.Error(),
      "cell \"c\": input \"y\": column \"y\" has 268435457 elements, allowed are 1 to 268435456");
}

// A product of a matrix and a matrix, by what it multiplies; a reduction, by what it reads.
TEST(CellDefinitionTest, FlopsAreOfWhatIsRead) {
  Draft c;
  const ValueId w = c.Weight("W", Shape::Matrix(4, 3)), u = c.Weight("U", Shape::Matrix(5, 3));
  c.outputs = {{"y", c.Add(OpKind::kSum, {c.Add(OpKind::kMatMul, {w, u})})}};
  const absl::StatusOr<CellDefinition> made = c.Create();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->op(ValueId(2)).shape, Shape::Matrix(4, 5));
  EXPECT_EQ(made->flops(), 2 * 4 * 5 * 3 + 4 * 5);
}

TEST(CellDefinitionTest, KindsHaveNames) {
  EXPECT_STREQ(Name(OpKind::kInput), "Input");
  EXPECT_STREQ(Name(OpKind::kLog), "Log");
  EXPECT_STREQ(Name(OpKind::kArgMax), "ArgMax");
}

}  // namespace
}  // namespace cellbatch

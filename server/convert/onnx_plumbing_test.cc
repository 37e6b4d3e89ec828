// What only moves dimensions about in an ONNX graph, written as chains of operators:
//
//   "Transpose perm=0,2,1,3 | Slice 0 -1 1 =y | MatMul @y f6x2"
//
// An operator's first operand is what the one before it left (~), unless it names its first (@y, or ! for none).
// 0,-1: whole numbers; #0: one without dimensions; f6x2: floats 0, 1, .. of that shape; =y: its name from here on;
// >2:1: of two outputs, the second is followed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "server/convert/onnx_graph_maker.h"

namespace cellbatch {
namespace {

using testing::HasSubstr;

std::vector<int64_t> Numbers(const std::string& text, char between) {
  std::vector<int64_t> numbers;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, between);) {
    constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
    numbers.push_back(word == "far" ? kFar : word == "-far" ? -kFar : std::stoll(word));
  }
  return numbers;
}

class Chain {
 public:
  Chain(OnnxGraphMaker& made, std::string from) : made_(made), at_(std::move(from)) {}

  // The name of what the last operator leaves.
  std::string Run(const std::string& text) {
    std::stringstream words(text);
    std::vector<std::string> one;
    for (std::string word; words >> word;) {
      if (word != "|") {
        one.push_back(word);
        continue;
      }
      Add(one);
      one.clear();
    }
    if (!one.empty()) Add(one);
    return at_;
  }

 private:
  std::string Fresh() { return fmt::format("v{}", made_.graph().ByteSizeLong()); }

  std::string Operand(const std::string& word) {
    if (word == "~") return at_;
    if (word[0] == '@') return word.substr(1);
    const std::string name = Fresh();
    if (word[0] == 'f' && word != "far") {
      made_.Floats(name, Numbers(word.substr(1), 'x'), 0);
    } else {
      made_.Whole(name, Numbers(word.substr(word[0] == '#' ? 1 : 0), ','));
      auto& initializers = *made_.graph().mutable_initializer();
      if (word[0] == '#') initializers.rbegin()->clear_dims();
    }
    return name;
  }

  void Attribute(onnx::Node& node, const std::string& name, const std::string& value) {
    onnx::Attribute& a = OnnxGraphMaker::Set(node, name);
    const std::vector<int64_t> numbers = Numbers(value, ',');
    const bool several =
        name == "perm" || name == "axes" || name == "split" || name == "starts" || name == "ends";
    if (several) a.mutable_ints()->Add(numbers.begin(), numbers.end());
    if (name == "alpha" || name == "beta") a.set_f(static_cast<float>(numbers[0]));
    a.set_i(numbers[0]);
  }

  void Add(const std::vector<std::string>& words) {
    std::vector<std::string> operands, outputs;
    std::vector<std::pair<std::string, std::string>> attributes;
    std::string called;
    size_t followed = 0;
    const bool first_is_said =
        words.size() > 1 && (words[1][0] == '@' || words[1][0] == '!' || words[1][0] == '~');
    if (!first_is_said) operands.push_back(at_);
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const size_t equals = word.find('=');
      if (word[0] == '>') {
        outputs.resize(static_cast<size_t>(word[1] - '0'));
        followed = static_cast<size_t>(word[3] - '0');
      } else if (equals == 0) {
        called = word.substr(1);
      } else if (equals != word.npos) {
        attributes.emplace_back(word.substr(0, equals), word.substr(equals + 1));
      } else if (word != "!") {
        operands.push_back(Operand(word));
      }
    }
    if (outputs.empty()) outputs.resize(1);
    for (std::string& name : outputs) name = fmt::format("{}_{}", Fresh(), &name - outputs.data());
    if (!called.empty()) outputs[followed] = called;
    onnx::Node& node = made_.Node(words[0], operands, outputs);
    for (const auto& [name, value] : attributes) Attribute(node, name, value);
    at_ = outputs[followed];
  }

  OnnxGraphMaker& made_;
  std::string at_;
};

class OnnxPlumbingTest : public ImportOnnxTest {
 protected:
  struct Of {
    int64_t directions = 1, steps = 0;  // 0: the file leaves it open
    int64_t opset = 17;
  };
  // What an LSTM's `from` ("ry" [T, D, B, 3], "rh", "rc" [D, B, 3]) is served as behind a chain; or why it is not.
  std::string Behind(const Of& of, const std::string& from, const std::string& chain,
                     const std::string& before = "") {
    OnnxGraphMaker made;
    made.Opset(of.opset);
    made.graph().clear_input();
    made.Input("x", 1, {of.steps, 0, kI});
    const std::string x = Chain(made, "x").Run(before);
    onnx::Node& lstm = made.Recurrent("LSTM", x, 4, kI, of.directions);
    if (of.directions == 2) OnnxGraphMaker::Set(lstm, "direction").set_s("bidirectional");
    made.Output(Chain(made, from).Run(chain));
    return Served(made);
  }
  // The last output's name among ours.
  std::string Served(OnnxGraphMaker& made) {
    const auto imported = Import(made);
    if (!imported.ok()) return std::string(imported.status().message());
    const std::string& note = imported->notes.back();
    return note.substr(note.rfind("\" is ") + 5);
  }
  // The weight of a head [3, 2] that a chain makes of floats 0, 1, .. of a shape: [2, 3].
  std::string Folded(const std::vector<int64_t>& dims, const std::string& chain) {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4);
    made.Floats("k", dims, 0);
    made.Node("MatMul", {"rh", Chain(made, "k").Run(chain)}, {"out"});
    made.Output("out");
    const std::string served = Served(made);
    return served == "OUTPUT" ? fmt::format("{}", fmt::join(Tensor("head.weight"), " ")) : served;
  }
};

constexpr char kAll[] = "ALL_HIDDEN, on request";

TEST_F(OnnxPlumbingTest, DimensionsMayBePutTogetherTakenApartAndLeftOut) {
  struct Case {
    OnnxPlumbingTest::Of of;
    std::string from, chain, served;
  };
  const std::string told = "steps and features cannot be told apart",
                    merged = "Transpose perm=0,2,1,3 | ";
  for (const Case& c : std::vector<Case>{
           {{2}, "ry", merged + "Reshape 0,0,-1", kAll},
           {{2}, "ry", merged + "Reshape 0,0,6", kAll},
           {{2}, "ry", merged + "Reshape -1,1,6", kAll},
           {{2}, "ry", "Reshape 0,-1,3", kAll},
           {{2}, "ry", merged + "Reshape 0,0,6 | Reshape 0,0,2,3 | Reshape 0,0,-1", kAll},
           {{2}, "ry", merged + "Reshape 0,0,3", told},
           {{2}, "ry", merged + "Reshape 0,0,4", told},
           {{2}, "ry", merged + "Reshape 0,-1,-1", told},
           {{2}, "ry", merged + "Reshape 0,0,-2", "to a dimension of -2"},
           {{1}, "ry", "Reshape 0,3 allowzero=1", "to a dimension of 0"},
           {{1}, "ry", "Reshape 0,3", kAll},
           {{1}, "ry", "Reshape -1,3", kAll},
           {{1}, "ry", "Reshape 0", told},
           {{1, 5}, "ry", "Reshape 5,3", kAll},
           {{1, 5}, "ry", "Reshape 4,3", told},
           {{1, 3}, "ry", "Reshape 3,-1", kAll},
           {{1, 1}, "ry", "Reshape 1,3", told},
           {{1}, "ry", "Flatten", kAll},
           {{1}, "ry", "Flatten axis=2", "attribute axis is 2, 1 is understood"},
           {{1}, "rh", "Reshape -1,3", "OUTPUT"},
           {{2}, "rh", "Transpose perm=1,0,2 | Flatten", "OUTPUT"},
           {{1}, "ry", "Squeeze | Transpose perm=1,0,2", kAll},
           {{1}, "ry", "Squeeze -3 | Transpose perm=1,0,2", kAll},
           {{1}, "ry", "Squeeze axes=1,2 | Transpose perm=0,1", kAll},
           {{2}, "ry", "Squeeze 1", "dimension 1 is not one"},
           {{1, 1}, "ry", "Squeeze 0", "dimension 0 is not one"},
           {{1}, "ry", "Squeeze 4", "axis 4 of 4"},
           {{1}, "ry", "Unsqueeze -1,0 | Transpose perm=1,2,3,4,0,5", kAll},
           {{1}, "ry", "Unsqueeze 2,2", "an axis twice"},
           {{1}, "ry", "Unsqueeze -2,4", "an axis twice"},
           {{1}, "ry", "Unsqueeze 5", "axis 5 of 5"},
           {{1}, "ry", "Unsqueeze 0,1,2,3,4", "to 9 dimensions"},
           {{1}, "rh", "Transpose | Squeeze 2", "OUTPUT"},
           {{1}, "ry", "Transpose perm=0,0,2,3", "names a dimension twice"},
           {{1}, "ry", "Transpose perm=0,1,2", "perm [0, 1, 2] of 4 dimensions"},
           {{2}, "ry", "Transpose perm=0,3,1,2", "puts features before directions"}}) {
    EXPECT_THAT(Behind(c.of, c.from, c.chain), HasSubstr(c.served)) << c.from << " " << c.chain;
  }
}

// We answer a row a step. What a graph puts in another order would come out right in its numbers and wrong in their places.
TEST_F(OnnxPlumbingTest, AnOutputWhoseNumbersComeBeforeItsStepsIsRefused) {
  struct Case {
    OnnxPlumbingTest::Of of;
    std::string chain, served;
  };
  for (const Case& c : std::vector<Case>{
           {{1},
            "Squeeze 1 | Transpose perm=1,2,0",
            "is [B, 3, T]; served is a row a step, [T, 3]"},
           {{1}, "Squeeze | Transpose", "is [3, B, T]; served is a row a step, [T, 3]"},
           {{1, 5}, "Squeeze 1 | Transpose perm=1,2,0", "is [B, 3, 5]; served is a row a step"},
           {{1}, "Transpose perm=3,1,0,2 | Squeeze -1", "is [3, 1, T]; served is a row a step"},
           {{1}, "Transpose perm=1,3,0,2 | Unsqueeze 0", "is [1, 1, 3, T, B]; served is a row"},
           {{2}, "Transpose perm=1,0,2,3", "is [2, T, B, 3]; served is a row a step, [T, 6]"},
           {{2}, "Transpose perm=1,2,0,3", "is [2, B, T, 3]; served is a row a step, [T, 6]"},
           {{2},
            "Transpose perm=0,2,1,3 | Reshape 0,0,6 | Transpose perm=1,2,0",
            "is [B, 6, T]; served is a row a step, [T, 6]"},
           {{1}, "MatMul f3x2 | Transpose perm=1,2,3,0", "is [1, B, 2, T]; served is a row a step"},
           {{1}, "MatMul f3x2 | Softmax | Transpose perm=3,0,1,2", "is [2, T, 1, B]; served is"},
           {{1}, "MatMul f3x2 | Transpose perm=3,0,1,2 | Softmax axis=0", "axis is 0 of 4"},
           {{1}, "MatMul f3x2 | Transpose perm=3,0,1,2 | Reshape 2,-1,1", "[T, 2]"},
           {{1}, "Transpose perm=1,2,3,0 | Flatten", "cannot be told apart"},
           {{1}, "Transpose perm=1,2,3,0 | Transpose perm=0,3,1,2", kAll},
           {{1}, "Squeeze 1 | Transpose perm=1,2,0 | Gather #-1 axis=2", "OUTPUT"},
           {{1}, "Squeeze 1 | Transpose perm=1,2,0 | Slice -1 far 2", "OUTPUT"},
           {{2}, "Transpose perm=1,2,0,3 | Gather #0 axis=0", "served are the top layer"},
           {{1}, "MatMul f3x1 | Transpose perm=1,2,3,0", "OUTPUT"}}) {  // the same numbers
    EXPECT_THAT(Behind(c.of, "ry", c.chain), HasSubstr(c.served)) << c.chain;
  }
}

TEST_F(OnnxPlumbingTest, AnInputWhoseNumbersComeBeforeItsStepsIsRefused) {
  const auto error = [this](const std::vector<int64_t>& dims, const std::string& before) {
    OnnxGraphMaker made;
    made.graph().clear_input();
    made.Input("x", 1, dims);
    made.Recurrent("LSTM", Chain(made, "x").Run(before), 4);
    made.Output("rh");
    return Served(made);
  };
  const std::string said = "; X is a row a step, [T, 4]: export the model without the Transpose";
  EXPECT_THAT(error({0, kI, 0}, "Transpose perm=2,0,1"),
              HasSubstr("the graph input \"x\" is [B, 4, T]" + said));
  EXPECT_THAT(error({1, 0, 7}, "Transpose perm=2,0,1"),
              HasSubstr("the graph input \"x\" is [1, 4, 7]" + said));
  EXPECT_THAT(
      error({kI, 0, 0}, "Transpose perm=1,2,0 | Transpose perm=2,0,1 | Transpose perm=1,2,0"),
      HasSubstr("the graph input \"x\" is [4, T, B]" + said));
  EXPECT_EQ(error({0, 0, kI}, "Transpose perm=1,0,2"), "OUTPUT");
}

TEST_F(OnnxPlumbingTest, SizesOfTheInputMayBeReckonedWith) {
  const std::string sizes =
      "Shape @x =s | Gather #0 axis=0 | Unsqueeze 0 =t | "
      "Slice @s 1 2 0 =b | ";
  for (const auto& [chain, served] : std::vector<std::pair<std::string, std::string>>{
           {"Concat @t 3 axis=0 =to | Reshape @ry @to", kAll},
           {"Concat @t 3 axis=0 =to | Reshape @rh @to", "cannot be told apart"},
           {"Concat @t @b 3 axis=0 =to | Reshape @ry -1,3 | Reshape ~ @to", kAll},
           {"Concat @b @t 3 axis=0 =to | Reshape @ry -1,3 | Reshape ~ @to", kAll},
           {"Mul @t 1 | Concat ~ 3 axis=0 =to | Reshape @ry @to", kAll},
           {"Mul ! 1 @t | Concat ~ 3 axis=0 =to | Reshape @rh @to", "cannot be told apart"},
           {"Slice @ry 0 @t 0", kAll},
           {"Slice @ry 0 @b 0", "takes some of the steps"},
           {"Sub @t 1 =last | Slice @ry @last far 0", "from a place that is not known"},
           {"Add @t @b =both | Gather @ry @both", "by a size that is not known"}}) {
    EXPECT_THAT(Behind({}, "rh", sizes + chain), HasSubstr(served)) << chain;
  }
}

TEST_F(OnnxPlumbingTest, PartsOfStatesAreWholeStates) {
  struct Case {
    OnnxPlumbingTest::Of of;
    std::string from, chain, served;
  };
  const std::string merged = "Transpose perm=0,2,1,3 | ";
  for (const Case& c : std::vector<Case>{
           {{1}, "ry", "Gather #-1 axis=0 | Transpose perm=1,0,2", "OUTPUT"},
           {{1}, "ry", "Gather -1 axis=0 | Transpose perm=0,2,1,3", "OUTPUT"},
           {{1}, "ry", "Gather #0 axis=0", "takes the first step of the forward direction"},
           {{1, 1}, "ry", "Gather #0 axis=0", "takes the first step of the forward direction"},
           {{1, 5}, "ry", "Gather #4 axis=0", "OUTPUT"},
           {{1}, "ry", "MatMul f3x2 | Gather #-1 axis=0", "takes one step of what a linear layer"},
           {{1}, "ry", "Gather 0,1 axis=0", "by 2 indices, one is understood"},
           {{1}, "ry", "Gather ~ @x axis=0", "by what are no constant whole numbers"},
           {{1}, "ry", "Slice 0 far 0 2", "step 2: a model that turns"},
           {{2}, "ry", merged + "Slice 0 2 3", "takes a part of every direction's"},
           {{2}, "ry", merged + "Reshape 0,0,6 | Slice 1 4 2", "takes numbers 1 to 4 of 6: whole"},
           {{2}, "ry", "Slice 1 1 1", "takes 1 to 1 of 2"},
           {{2}, "ry", "Slice -2 far 1", kAll},
           {{2}, "ry", "MatMul f3x2", "reads 3 numbers of a state of 6, its weight takes 3"},
           {{1}, "ry", "MatMul f3x6 | Slice 0 2 3", "takes some of the numbers of a step"},
           {{1}, "ry", "Slice @x 0 2 2", "takes some of the numbers of a step"},
           {{2}, "ry", "Split axis=1 >2:0 =f | Concat ~ @ry axis=1", "served are the top layer"},
           {{2}, "ry", "Split axis=1 >2:1 =b | Slice @ry 0 1 1 | Concat ~ @b axis=1", kAll},
           {{2},
            "ry",
            "Split axis=1 split=1,1 >2:1 =b | Slice @ry 0 1 1 | Concat ~ @b axis=-1",
            kAll},
           {{2}, "ry", "Split 3,-1 axis=1 >2:0", "a part of 3 of 2"},
           {{2}, "ry", "Concat ~ ~ axis=3", "between directions or layers"},
           {{2}, "ry", "Concat ~ @rh axis=0", "of states of different kinds or dimensions"},
           {{2}, "ry", "Concat ~ 1 axis=0", "of constants with what is computed"},
           {{1}, "ry", "MatMul f3x3 =l | Concat @ry @l axis=3", "of states of different kinds"},
           {{1}, "ry", "MatMul f3x3 =l | Concat @l @ry axis=3", "of what are no states"},
           {{2},
            "ry",
            merged + "Reshape 0,0,6 =w | Slice @w 0 3 2 | Concat ~ @w axis=1",
            "of states of different kinds"}}) {
    EXPECT_THAT(Behind(c.of, c.from, c.chain), HasSubstr(c.served)) << c.from << " " << c.chain;
  }
  std::string many = "Concat";
  for (int i = 0; i < 257; ++i) many += " @rh";
  EXPECT_THAT(Behind({}, "rh", many + " axis=0"), HasSubstr("of more than 256 states"));
}

TEST_F(OnnxPlumbingTest, WhatTheGraphReadsMayBeTurned) {
  for (const auto& [before, served] : std::vector<std::pair<std::string, std::string>>{
           {"Transpose perm=1,0,2 | Transpose perm=1,0,2", kAll},
           {"Unsqueeze 3 | Squeeze 3", kAll},
           {"Unsqueeze -1 | Reshape 0,0,4", kAll},
           {"Slice 0 2 2", "takes a part of the input"},
           {"Squeeze 1", "dimension 1 is not one"},
           {"Unsqueeze 3", "X has 4 dimensions, expected 3"},
           {"Cast to=10", kAll},
           {"Cast to=7", "attribute to is 7: between numbers of one kind only"},
           {"MatMul f4x4", "a linear layer before the recurrent ones is not served"},
           {"Softmax", "served is the softmax of a linear layer"}}) {
    EXPECT_THAT(Behind({}, "ry", "", before), HasSubstr(served)) << before;
  }
}

TEST_F(OnnxPlumbingTest, AHeadReadsWhatItsGraphSays) {
  struct Case {
    OnnxPlumbingTest::Of of;
    std::string from, chain, weight;
  };
  const std::string row = "0 2 4 1 3 5", later = "0 0 0 " + row.substr(0, 5);
  for (const Case& c : std::vector<Case>{
           {{1}, "rh", "MatMul f3x2", "0 2 4 1 3 5"},
           {{1}, "rh", "Squeeze 0 | Gemm f3x2", "0 2 4 1 3 5"},
           {{1}, "rh", "Squeeze 0 | Gemm f2x3 transB=1", "0 1 2 3 4 5"},
           {{2},
            "rh",
            "Gather #0 axis=0 | Transpose perm=0,1 | MatMul f3x2",
            "0 2 4 0 0 0 1 3 5 0 0 0"},
           {{2}, "rh", "Gather #1 axis=0 | MatMul f3x2", "0 0 0 0 2 4 0 0 0 1 3 5"},
           {{2},
            "rh",
            "Gather -1 axis=0 | Transpose perm=1,0,2 | MatMul f3x2",
            "0 0 0 0 2 4 0 0 0 1 3 5"},
           {{2}, "rh", "Transpose perm=1,0,2 | Reshape 0,-1 | MatMul f6x1", "0 1 2 3 4 5"},
           {{2},
            "rh",
            "Gather #1 axis=0 =b | Gather @rh #0 axis=0 | Concat @b ~ axis=1 | MatMul f6x1",
            "3 4 5 0 1 2"},
           {{2}, "rh", "Gather #1 axis=0 | Concat ~ ~ axis=-1 | MatMul f6x1", "0 0 0 3 5 7"}}) {
    ASSERT_EQ(Behind(c.of, c.from, c.chain), "OUTPUT") << c.chain;
    EXPECT_EQ(fmt::format("{}", fmt::join(Tensor("head.weight"), " ")), c.weight) << c.chain;
  }
  for (const auto& [chain, said] : std::vector<std::pair<std::string, std::string>>{
           {"Squeeze 0 | Gemm f3x2 transA=1", "attribute transA is 1"},
           {"Squeeze 0 | Gemm f3x2 f2 beta=2", "attribute beta is 2, served is 1"},
           {"Squeeze 0 | Gemm f3x2 f3", "the bias is [3], expected [2]"},
           {"Squeeze 0 | Gemm f3x2 f2x1", "the bias is [2, 1], expected [2]"},
           {"Squeeze 0 | Gemm f3x2 f2 | Add ~ f2", "a second bias"},
           {"MatMul f3x2 | Add ~ f2 | Add ~ f2", "a second bias"},
           {"MatMul f3x2 | Softmax | Add ~ f2", "a second bias"},
           {"MatMul f3x2 | Sub ~ f2", "served is the sum of a linear layer with its bias"},
           {"MatMul f3x2 | Mul ~ f2", "served is the sum of a linear layer with its bias"},
           {"MatMul f3x2 | Softmax | Softmax", "a second softmax"},
           {"MatMul f3x2 | Softmax axis=0", "attribute axis is 0 of 3 dimensions"},
           {"MatMul f3x2 | MatMul f2x2", "a second linear layer is not served"},
           {"MatMul f3x0", "\"head.weight\" is [0, 3], of which 1 to"},
           {"MatMul f1x3x2", "served is a product of a state with a constant matrix"}}) {
    EXPECT_THAT(Behind({}, "rh", chain), HasSubstr(said)) << chain;
  }
  ASSERT_EQ(Behind({}, "rh", "Squeeze 0 | Gemm f3x2 f1x2"), "OUTPUT");
  EXPECT_EQ(Tensor("head.bias"), (std::vector<float>{0, 1}));
  EXPECT_EQ(Behind({}, "ry", "MatMul f3x2"), "OUTPUT");
  EXPECT_THAT(Config(), HasSubstr("token_head: \"head\""));
  EXPECT_EQ(Behind({}, "rh", "MatMul f3x2"), "OUTPUT");
  EXPECT_THAT(Config(), HasSubstr(" head: \"head\""));
}

// Of the classes without saying so since opset 13; of all from dimension 1 on before it.
TEST_F(OnnxPlumbingTest, WhatASoftmaxIsOfDependsOnTheOpset) {
  for (const int64_t opset : {12, 13}) {
    EXPECT_EQ(Behind({1, 0, opset}, "rh", "MatMul f3x2 | Softmax") == "OUTPUT", opset == 13);
    EXPECT_EQ(Behind({1, 0, opset}, "rh", "Squeeze 0 | MatMul f3x2 | Softmax"), "OUTPUT");
  }
}

TEST_F(OnnxPlumbingTest, ConstantsAreFoldedToTheirLastElement) {
  struct Case {
    std::vector<int64_t> dims;
    std::string chain, weight;  // rows of the transpose
  };
  const std::string turned = "0 2 4 1 3 5", straight = "0 1 2 3 4 5";
  for (const Case& c : std::vector<Case>{
           {{3, 2}, "Identity", turned},
           {{2, 3}, "Transpose", straight},
           {{2, 3}, "Transpose perm=1,0", straight},
           {{2, 3}, "Transpose perm=0,1 | Transpose", straight},
           {{2, 1, 3}, "Transpose perm=2,0,1 | Squeeze", straight},
           {{2, 1, 3}, "Transpose perm=2,0,1 | Squeeze -1", straight},
           {{1, 3, 2}, "Squeeze axes=0", turned},
           {{1, 3, 2}, "Squeeze axes=0,3", "axis 3 of 3"},
           {{1, 3, 2}, "Squeeze 0,-4", "axis -4 of 3"},
           {{6}, "Reshape 3,-1", turned},
           {{6}, "Reshape -1,2", turned},
           {{3, 2, 1}, "Reshape 0,0", turned},
           {{6}, "Reshape 4,2", "[6] to [4, 2]: other numbers of elements"},
           {{6}, "Reshape 4,-1", "other numbers of elements"},
           {{0, 2}, "Reshape 0,4611686018427387904,8 allowzero=1", "to an impossible shape"},
           {{3, 2}, "Reshape 0,2 allowzero=1", "other numbers of elements"},
           {{3, 2}, "Unsqueeze 0 | Squeeze 0", turned},
           {{3, 2}, "Unsqueeze -1,1 | Transpose perm=0,2,1,3 | Reshape 3,2", turned},
           {{5, 2}, "Slice 1 4 0", "2 4 6 3 5 7"},
           {{5, 2}, "Slice -3 far 0", "4 6 8 5 7 9"},
           {{5, 2}, "Slice -100 3", turned},
           {{5, 2}, "Slice 0 -2 0", turned},
           {{5, 2}, "Slice 0 5 0 2", "0 4 8 1 5 9"},
           {{3, 4}, "Slice 0 far -1 3", "0 4 8 3 7 11"},
           {{5, 3}, "Slice 1,0 4,2", "3 6 9 4 7 10"},
           {{5, 3}, "Slice starts=1,0 ends=4,2", "3 6 9 4 7 10"},
           {{5, 3}, "Slice starts=0,1 ends=2,4 axes=1,0", "3 6 9 4 7 10"},
           {{5, 2}, "Slice 3 0 0 -1", "6 4 2 7 5 3"},
           {{5, 2}, "Slice 100 1 0 -1", "8 6 4 9 7 5"},
           {{5, 2}, "Slice 2 -100 0 -1", "4 2 0 5 3 1"},
           {{7, 2}, "Slice 6 0 0 -2", "12 8 4 13 9 5"},
           {{5, 2}, "Slice 0 3 0,1", "starts, ends, axes and steps are not equally many"},
           {{5, 2}, "Slice 0 3 0 1,1", "starts, ends, axes and steps are not equally many"},
           {{5, 2}, "Slice 0 3,1 0", "starts, ends, axes and steps are not equally many"},
           {{5, 2}, "Slice 0 3 2", "axis 2 of 2"},
           {{5, 2}, "Gather 4,0,-3 axis=0", "8 0 4 9 1 5"},
           {{3, 4}, "Gather 3,1 axis=-1", "3 7 11 1 5 9"},
           {{2, 3, 2}, "Gather #1", "6 8 10 7 9 11"},
           {{3, 2, 2}, "Gather #-1 axis=1", "2 6 10 3 7 11"},
           {{3, 2}, "Gather 0,1,3", "index 3 of 3"},
           {{3, 2}, "Gather 0,1,-4", "index -4 of 3"},
           {{3, 2}, "Slice 0 1 0 =a | Slice @k 1 3 0 | Concat ~ @a axis=0", "2 4 0 3 5 1"},
           {{3, 2}, "Slice 0 1 1 =a | Slice @k 1 2 1 | Concat ~ @a axis=-1", "1 3 5 0 2 4"},
           {{3, 2}, "Slice 0 1 1 =a | Concat ~ @k axis=0", "[3, 2] beside [3, 1]"},
           {{5, 2}, "Split 2,3 axis=0 >2:1", "4 6 8 5 7 9"},
           {{5, 2}, "Split split=3,2 >2:0", turned},
           {{3, 4}, "Split axis=-1 >2:1", "2 6 10 3 7 11"},
           {{5, 2}, "Split num_outputs=2 >2:0", turned},
           {{4, 2}, "Split 3,-1 >2:0", "a part of -1 of 4"},
           {{5, 2}, "Split 3,1 axis=0 >2:0", "parts of 4 in all, of 5"},
           {{5, 2}, "Split 3,3 axis=0 >2:0", "parts of 6 in all, of 5"},
           {{3, 2}, "Cast to=1", turned},
           {{3, 2}, "Cast to=16", turned},
           {{3, 2}, "Cast to=6", "attribute to is 6: between numbers of one kind only"}}) {
    EXPECT_THAT(Folded(c.dims, c.chain), HasSubstr(c.weight)) << c.chain;
  }
}

TEST_F(OnnxPlumbingTest, SizesOfConstantsAreReckonedWith) {
  const std::string turned = "0 2 4 1 3 5";
  struct Case {
    std::vector<int64_t> dims;
    std::string chain, weight;
  };
  for (const Case& c : std::vector<Case>{
           {{1, 3, 2}, "Shape start=1 =to | Reshape @k @to", turned},
           {{1, 3, 2}, "Shape start=-2 =to | Reshape @k @to", turned},
           {{3, 2, 1}, "Shape end=2 =to | Reshape @k @to", turned},
           {{3, 2, 1}, "Shape end=-1 =to | Reshape @k @to", turned},
           {{3, 2, 1}, "Shape start=-9 end=2 =to | Cast to=6 | Reshape @k ~", turned},
           {{6}, "Shape | Cast to=1", "attribute to is 1: between numbers of one kind only"},
           {{6}, "Sub ! 5 2 | Concat ~ 2 axis=0 =to | Reshape @k @to", turned},
           {{6}, "Add ! 1 2 | Concat ~ 2 axis=0 =to | Reshape @k @to", turned},
           {{6}, "Mul ! #3 1 | Concat ~ 2 axis=0 =to | Reshape @k @to", turned},
           {{6}, "Add ! #1 #2 | Unsqueeze 0 | Concat ~ 2 axis=0 =to | Reshape @k @to", turned},
           {{6}, "Add ! 1,1 2", "of several sizes"},
           {{6},
            "Mul ! 4611686018427387904 2 | Concat ~ 2 axis=0 =to | Reshape @k @to",
            "to a shape that is not known"}}) {
    EXPECT_THAT(Folded(c.dims, c.chain), HasSubstr(c.weight)) << c.chain;
  }
}

}  // namespace
}  // namespace cellbatch

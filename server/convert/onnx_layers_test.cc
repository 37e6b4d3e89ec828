// What an ONNX graph's recurrent nodes and embeddings say of themselves, and what becomes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/convert/onnx_graph_maker.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Maker = OnnxGraphMaker;

class OnnxLayersTest : public ImportOnnxTest {
 protected:
  static void SetActivations(onnx::Node& node, const std::vector<std::string>& names) {
    onnx::Attribute& a = Maker::Set(node, "activations");
    for (const std::string& name : names) a.add_strings(name);
  }
  // The last output's name among ours; or why it has none.
  std::string Served(OnnxGraphMaker& made, const std::string& output) {
    made.Output(output);
    const auto imported = Import(made);
    if (!imported.ok()) return std::string(imported.status().message());
    const std::string& note = imported->notes.back();
    return note.substr(note.rfind("\" is ") + 5);
  }
  // Of an LSTM with these weights' and biases' shapes.
  std::string OfShapes(const std::vector<int64_t>& w, const std::vector<int64_t>& r,
                       const std::vector<int64_t>& b, const std::string& direction = "forward") {
    OnnxGraphMaker made;
    made.Floats("W", w);
    made.Floats("R", r);
    made.Floats("B", b);
    Maker::Set(made.Node("LSTM", {"x", "W", "R", "B"}, {"y", "h"}), "direction").set_s(direction);
    return Served(made, "y");
  }
};

TEST_F(OnnxLayersTest, ADirectionIsServedAsItIsWithItsOwnWeights) {
  for (const auto& [direction, forward, backward] : {std::tuple("forward", true, false),
                                                     {"reverse", false, true},
                                                     {"bidirectional", true, true}}) {
    OnnxGraphMaker made;
    const int64_t directions = forward && backward ? 2 : 1;
    Maker::Set(made.Recurrent("LSTM", "x", 4, kI, directions), "direction").set_s(direction);
    ASSERT_EQ(Served(made, "ry"), "ALL_HIDDEN, on request") << direction;
    EXPECT_EQ(Config().find("  forward: ") != std::string::npos, forward) << direction;
    EXPECT_EQ(Config().find("  backward: ") != std::string::npos, backward) << direction;
    const std::vector<float> first = Tensor("layer0.forward.W"),
                             second = Tensor("layer0.backward.W");
    ASSERT_EQ(first.empty(), !forward);
    ASSERT_EQ(second.empty(), !backward);
    const float begin = 0.25f, behind = begin + (forward ? 4 * kH * kI : 0);
    EXPECT_EQ(forward ? first[0] : begin, begin);
    EXPECT_EQ(backward ? second[0] : behind, behind);
  }
}

TEST_F(OnnxLayersTest, FunctionsAreThoseOfTheCellInEveryDirection) {
  const auto error = [this](const char* op, int64_t gates, int64_t directions,
                            const std::vector<std::string>& names) {
    OnnxGraphMaker made;
    onnx::Node& node = made.Recurrent(op, "x", gates, kI, directions);
    if (directions == 2) Maker::Set(node, "direction").set_s("bidirectional");
    SetActivations(node, names);
    return Served(made, "ry");
  };
  const std::string served = "ALL_HIDDEN, on request";
  EXPECT_EQ(error("LSTM", 4, 1, {"Sigmoid", "Tanh", "Tanh"}), served);
  EXPECT_EQ(error("LSTM", 4, 2, {"sigmoid", "tanh", "TANH", "Sigmoid", "Tanh", "Tanh"}), served);
  EXPECT_EQ(error("GRU", 3, 2, {"Sigmoid", "Tanh", "Sigmoid", "Tanh"}), served);
  EXPECT_EQ(error("RNN", 1, 2, {"Relu", "Relu"}), served);
  EXPECT_THAT(Config(), AllOf(HasSubstr("elman_relu"), Not(HasSubstr("\"elman\""))));
  EXPECT_THAT(error("RNN", 1, 2, {"Relu", "Tanh"}),
              HasSubstr("activations[1] is \"Tanh\", served is \"relu\""));
  EXPECT_THAT(error("LSTM", 4, 1, {"Relu", "Relu", "Relu"}),
              HasSubstr("activations[0] is \"Relu\", served is \"sigmoid\""));
  EXPECT_THAT(error("GRU", 3, 2, {"Sigmoid", "Tanh", "Sigmoid", "Relu"}),
              HasSubstr("activations[3] is \"Relu\", served is \"tanh\""));
  EXPECT_THAT(error("GRU", 3, 2, {"Sigmoid", "Tanh"}),
              HasSubstr("attribute activations has 2 names, 2 directions take 4"));
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    EXPECT_THAT(LstmError([&](Maker&, onnx::Node& n) { Maker::Set(n, name).add_floats(0.2f); }),
                HasSubstr(fmt::format("attribute {} is given", name)));
    EXPECT_EQ(LstmError([&](Maker&, onnx::Node& n) { Maker::Set(n, name); }), "imported");
  }
}

TEST_F(OnnxLayersTest, WeightsAndBiasesFitTheirNode) {
  EXPECT_EQ(OfShapes({1, 12, 4}, {1, 12, 3}, {1, 24}), "ALL_HIDDEN, on request");
  EXPECT_THAT(OfShapes({1, 12, 4}, {1, 12, 3}, {1, 24}, "bidirectional"),
              HasSubstr("W is [1, 12, 4], R is [1, 12, 3]; 2 directions take [2, 4*H, I]"));
  for (const auto& [w, r] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{2, 12, 4}, {1, 12, 3}},
                                                                          {{1, 9, 4}, {1, 12, 3}},
                                                                          {{1, 12, 4}, {2, 12, 3}},
                                                                          {{1, 12, 4}, {1, 9, 3}},
                                                                          {{12, 4}, {12, 3}},
                                                                          {{1, 0, 4}, {1, 0, 0}}}) {
    EXPECT_THAT(OfShapes(w, r, {1, 24}), HasSubstr("; 1 directions take [1, 4*H, I]"));
  }
  EXPECT_THAT(OfShapes({1, 12, 4}, {1, 12, 3}, {1, 12}),
              HasSubstr("B is [1, 12], expected [1, 24]"));
  EXPECT_THAT(OfShapes({1, 12, 4}, {1, 12, 3}, {24}), HasSubstr("B is [24], expected [1, 24]"));
  for (const float bias : {0.0f, 1.0f}) {  // made by the graph, of any shape
    OnnxGraphMaker made;
    made.Whole("shape", {1, 24});
    onnx::Tensor& value =
        *Maker::Set(made.Node("ConstantOfShape", {"shape"}, {"B"}), "value").mutable_t();
    value.set_data_type(1);
    value.add_float_data(bias);
    made.Floats("W", {1, 12, 4});
    made.Floats("R", {1, 12, 3});
    made.Node("LSTM", {"x", "W", "R", "B"}, {"y", "h"});
    EXPECT_THAT(Served(made, "h"), HasSubstr(bias == 0 ? "OUTPUT" : "B is no constant"));
    EXPECT_THAT(Config(), Not(HasSubstr("name: \"b\"")));
  }
}

TEST_F(OnnxLayersTest, WithBatchesInFrontStatesAndOutputsHaveThemThereToo) {
  const auto served = [this](int64_t layout, const std::vector<int64_t>& zeros,
                             const std::string& from, int64_t axis) {
    OnnxGraphMaker made;
    onnx::Node& node = made.Recurrent("GRU", "x", 3);
    Maker::Set(node, "layout").set_i(layout);
    for (float& v : *made.Floats("h0", zeros).mutable_float_data()) v = 0;
    for (const char* name : {"", "h0"}) node.add_input(name);
    made.Whole("last", {-1});
    Maker::Set(made.Node("Gather", {from, "last"}, {"out"}), "axis").set_i(axis);
    return Served(made, "out");
  };
  EXPECT_EQ(served(0, {1, 5, 3}, "ry", 0), "OUTPUT");                  // [T, D, B, H]
  EXPECT_EQ(served(1, {5, 1, 3}, "ry", 1), "OUTPUT");                  // [B, T, D, H]
  EXPECT_EQ(served(1, {5, 1, 3}, "ry", 0), "ALL_HIDDEN, on request");  // the only sequence
  EXPECT_EQ(served(1, {5, 1, 3}, "ry", 2), "ALL_HIDDEN, on request");  // the only direction
  EXPECT_EQ(served(1, {5, 1, 3}, "rh", 1), "OUTPUT");                  // [B, D, H]
  EXPECT_THAT(served(0, {5, 1, 3}, "ry", 0), HasSubstr("initial_h is [5, 1, 3], expected 1"));
  EXPECT_THAT(served(1, {1, 5, 3}, "ry", 1), HasSubstr("initial_h is [1, 5, 3], expected 1"));
  EXPECT_THAT(served(2, {1, 5, 3}, "ry", 0), HasSubstr("attribute layout is 2"));
}

TEST_F(OnnxLayersTest, LengthsAreWholeNumbersThatTheGraphReads) {
  for (const int type : {6, 7, 1}) {
    OnnxGraphMaker made;
    made.Input("lengths", type, {0});
    made.Recurrent("GRU", "x", 3, kI, 1, "a").add_input("lengths");
    made.Whole("one", {1});
    made.Node("Squeeze", {"ay", "one"}, {"x2"});
    made.Recurrent("GRU", "x2", 3, kH, 1, "b").add_input("lengths");
    made.Output("bh");
    const auto imported = Import(made);
    EXPECT_EQ(imported.ok(), type != 1);
    if (!imported.ok()) continue;
    EXPECT_EQ(testing::PrintToString(imported->notes),
              testing::PrintToString(std::vector<std::string>{
                  "\"x\" is X",
                  "\"lengths\" (sequence_lens) is not asked for: every sequence has its own length "
                  "(LENGTHS)",
                  "\"bh\" is OUTPUT"}));
  }
}

TEST_F(OnnxLayersTest, ALayerReadsTheStepsOfWhatLiesBelowInTheOrderOfItsDirections) {
  OnnxGraphMaker made;
  Maker::Set(made.Recurrent("GRU", "x", 3, kI, 2, "a"), "direction").set_s("bidirectional");
  onnx::Node& split = made.Node("Split", {"ay"}, {"f", "b"});
  Maker::Set(split, "axis").set_i(1);
  Maker::Set(made.Node("Concat", {"b", "f"}, {"bf"}), "axis").set_i(3);  // [T, 1, B, 6]
  made.Whole("one", {1});
  made.Node("Squeeze", {"bf", "one"}, {"x2"});
  made.Recurrent("RNN", "x2", 1, 2 * kH, 1, "b");
  ASSERT_EQ(Served(made, "bh"), "OUTPUT");
  const std::vector<float> w = Tensor("layer1.forward.W");
  EXPECT_EQ(std::vector<float>(w.begin(), w.begin() + 6),
            (std::vector<float>{3.25, 4.25, 5.25, 0.25, 1.25, 2.25}));
  const auto above = [this](const std::string& x, int64_t width) {
    OnnxGraphMaker two;
    two.Recurrent("GRU", "x", 3, kI, 1, "a");
    two.Whole("one", {1});
    two.Node("Squeeze", {"ay", "one"}, {"x2"});
    two.Recurrent("GRU", x, 3, width, 1, "b");
    return Served(two, "bh");
  };
  EXPECT_EQ(above("x2", kH), "OUTPUT");
  EXPECT_THAT(above("x2", 5), HasSubstr("X is 3 wide, W takes 5"));
  EXPECT_THAT(above("ay", kH), HasSubstr("X has 4 dimensions, expected 3"));
  EXPECT_THAT(above("ah", kH), HasSubstr("X is no sequence of the input, an embedding or a layer"));
  OnnxGraphMaker whole;
  whole.graph().clear_input();
  whole.Input("x", 7, {0, 0, kI});
  whole.Recurrent("GRU", "x", 3);
  EXPECT_THAT(Served(whole, "rh"), HasSubstr("X is the whole numbers of \"x\", expected floats"));
  OnnxGraphMaker one;  // [T, B] of one number each
  one.graph().clear_input();
  one.Input("numbers", 1, {0, 0});
  one.Whole("two", {2});
  one.Node("Unsqueeze", {"numbers", "two"}, {"x"});
  one.Recurrent("GRU", "x", 3, 1);
  EXPECT_EQ(Served(one, "rh"), "OUTPUT");
}

TEST_F(OnnxLayersTest, EndsOfAllLayersAreServedInTheirOrderAndOthersAreNot) {
  const auto served = [this](const std::vector<std::string>& ends, bool with_head,
                             const std::string& ignored = "") {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4, kI, 1, "a");
    made.Whole("one", {1});
    made.Node("Squeeze", {"ay", "one"}, {"x2"});
    made.Recurrent("LSTM", "x2", 4, kH, 1, "b");
    made.Floats("fc", {kH, 2});
    if (with_head) made.Node("MatMul", {"bh", "fc"}, {"logits"});
    if (with_head) made.Output("logits");
    std::string out = ends[0];
    if (ends.size() > 1) {
      Maker::Set(made.Node("Concat", ends, {out = "all"}), "axis").set_i(0);
    }
    options_.hints.ignored.clear();
    if (!ignored.empty()) options_.hints.ignored.push_back(ignored);
    return Served(made, out);
  };
  EXPECT_EQ(served({"ah", "bh"}, false), "FINAL_H, on request");
  EXPECT_EQ(served({"ac", "bc"}, true), "FINAL_C, on request");
  EXPECT_EQ(served({"by"}, true), "ALL_HIDDEN, on request");
  EXPECT_EQ(served({"bh"}, false), "OUTPUT");
  EXPECT_EQ(served({"bh"}, true, "logits"), "OUTPUT") << "no head is served";
  for (const auto& ends : std::vector<std::vector<std::string>>{
           {"bh", "ah"}, {"ah", "bc"}, {"ac", "bh"}, {"bc"}, {"bh"}}) {
    EXPECT_THAT(served(ends, true), HasSubstr("served are the top layer at every step or at its"));
  }
  OnnxGraphMaker one;
  one.Recurrent("LSTM", "x", 4);
  EXPECT_EQ(Served(one, "rc"), "FINAL_C, on request");
}

TEST_F(OnnxLayersTest, AHeadReadsTheNumbersOfAStepAndNotTheSteps) {
  const auto error = [this](const std::vector<int64_t>& perm) {
    OnnxGraphMaker made;
    made.Floats("W", {1, 4, 4});
    made.Floats("R", {1, 4, 1});
    made.Node("LSTM", {"x", "W", "R"}, {"y"});  // [T, 1, B, 1]
    onnx::Attribute& a = Maker::Set(made.Node("Transpose", {"y"}, {"turned"}), "perm");
    for (const int64_t place : perm) a.add_ints(place);
    made.Floats("fc", {1, 2});
    made.Node("MatMul", {"turned", "fc"}, {"out"});
    return Served(made, "out");
  };
  EXPECT_EQ(error({0, 1, 2, 3}), "OUTPUT");
  EXPECT_EQ(error({0, 3, 1, 2}), "OUTPUT") << "along a batch of one";
  EXPECT_THAT(error({1, 2, 3, 0}), HasSubstr("(MatMul): reads along the steps"));
}

TEST_F(OnnxLayersTest, OneHeadReadsHOfTheTopLayer) {
  const auto error = [this](const std::string& from, bool another) {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4, kI, 1, "a");
    made.Whole("one", {1});
    made.Node("Squeeze", {"ay", "one"}, {"x2"});
    made.Recurrent("LSTM", "x2", 4, kH, 1, "b");
    made.Floats("fc", {kH, 2});
    made.Node("MatMul", {from, "fc"}, {"logits"});
    if (another) made.Node("MatMul", {"bh", "fc"}, {"others"});
    if (another) made.Output("others");
    made.Output("bh");
    options_.hints.ignored = {"bh"};
    return Served(made, "logits");
  };
  EXPECT_THAT(error("bh", true), HasSubstr("is a second head beside node \"the_others\""));
  EXPECT_THAT(error("bc", false), HasSubstr("reads c of node \"the_by\" (LSTM); a head reads h"));
  EXPECT_EQ(error("bh", false), "OUTPUT");
}

TEST_F(OnnxLayersTest, AnEmbeddingIsATableThatTheInputIsLookedUpIn) {
  const auto error = [this](const std::vector<int64_t>& table, int type,
                            const std::vector<int64_t>& dims, bool twice) {
    OnnxGraphMaker made;
    made.graph().clear_input();
    made.Input("words", type, dims);
    made.Floats("table", table);
    made.Node("Gather", {"table", "words"}, {"x"});
    if (twice) made.Node("Gather", {"table", "x"}, {"again"});
    made.Recurrent("LSTM", twice ? "again" : "x", 4);
    return Served(made, "rh");
  };
  EXPECT_EQ(error({5, 4}, 7, {0, 0}, false), "OUTPUT");
  EXPECT_THAT(error({5, 4}, 7, {0, 0}, true), HasSubstr("by what are no words of the input"));
  EXPECT_THAT(error({5, 4}, 1, {0, 0}, false), HasSubstr("by what are no words of the input"));
  EXPECT_THAT(error({5, 1, 4}, 7, {0, 0}, false), HasSubstr("the table is [5, 1, 4]"));
  EXPECT_THAT(error({20}, 7, {0, 0}, false), HasSubstr("the table is [20], expected [V, E]"));
  EXPECT_THAT(error({5, 4}, 7, {0}, false), HasSubstr("X has 2 dimensions, expected 3"));
}

}  // namespace
}  // namespace cellbatch

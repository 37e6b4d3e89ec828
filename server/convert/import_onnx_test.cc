#include "server/convert/import_onnx.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>
#include <utility>

#include "proto/onnx.pb.h"
#include "server/convert/onnx_file.h"
#include "server/convert/onnx_graph_maker.h"
#include "server/convert/write_model.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(ImportOnnxTest, GatesAreTakenFromOnnxsOrderIntoOurs) {
  struct Kind {
    const char* op;
    int64_t gates;
    int64_t before;  // linear_before_reset; -1: has none
    const char* cell;
    std::vector<int> order;  // ours by theirs
  };
  for (const Kind& kind :
       {Kind{"LSTM", 4, -1, "lstm", {0, 2, 3, 1}}, Kind{"GRU", 3, 1, "gru", {1, 0, 2}},
        Kind{"GRU", 3, 0, "gru_v1", {1, 0, 2}}, Kind{"RNN", 1, -1, "elman", {0}}}) {
    OnnxGraphMaker made;
    onnx::Node& node = made.Recurrent(kind.op, "x", kind.gates);
    if (kind.before >= 0) OnnxGraphMaker::Set(node, "linear_before_reset").set_i(kind.before);
    made.Output("rh");
    ASSERT_EQ(Error(made), "imported") << kind.cell;
    EXPECT_THAT(Config(), HasSubstr(fmt::format("cell: \"{}\"", kind.cell)));
    const std::vector<float> w = Tensor("layer0.forward.W"), b = Tensor("layer0.forward.Rb");
    ASSERT_EQ(w.size(), static_cast<size_t>(kind.gates * kH * kI));
    for (int gate = 0; gate < kind.gates; ++gate) {
      const auto theirs = static_cast<float>(kind.order[static_cast<size_t>(gate)]);
      EXPECT_EQ(w[static_cast<size_t>(gate * kH * kI)], 0.25f + theirs * kH * kI) << kind.cell;
      EXPECT_EQ(b[static_cast<size_t>(gate * kH)],
                0.25f + static_cast<float>(kind.gates * kH) + theirs * kH)
          << kind.cell;
    }
  }
}

TEST_F(ImportOnnxTest, BatchesMayComeFirst) {
  OnnxGraphMaker made;
  onnx::Node& node = made.Recurrent("LSTM", "x", 4);
  OnnxGraphMaker::Set(node, "layout").set_i(1);
  made.Output("ry");  // [B, T, 1, 3]
  ASSERT_EQ(Error(made), "imported");
  const std::vector<float> first = Tensor("layer0.forward.W");
  OnnxGraphMaker steps_first;
  steps_first.Recurrent("LSTM", "x", 4);
  steps_first.Output("ry");
  ASSERT_EQ(Error(steps_first), "imported");
  EXPECT_EQ(Tensor("layer0.forward.W"), first);
}

TEST_F(ImportOnnxTest, AttributesAndOperandsThatAreNotServedAreNamed) {
  using Maker = OnnxGraphMaker;
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) { Maker::Set(n, "clip").set_f(3.5f); }),
              AllOf(HasSubstr("output \"rh\": node \"the_ry\" (LSTM): attribute clip is 3.5")));
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) { Maker::Set(n, "input_forget").set_i(1); }),
              HasSubstr("attribute input_forget is 1"));
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) {
                for (const char* name : {"Sigmoid", "Tanh", "HardSigmoid"}) {
                  if (n.attribute_size() == 0) Maker::Set(n, "activations");
                  n.mutable_attribute(0)->add_strings(name);
                }
              }),
              HasSubstr("attribute activations[2] is \"HardSigmoid\", served is \"tanh\""));
  EXPECT_THAT(
      LstmError([](Maker&, onnx::Node& n) { Maker::Set(n, "direction").set_s("sideways"); }),
      HasSubstr("attribute direction is \"sideways\""));
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) { Maker::Set(n, "hidden_size").set_i(5); }),
              HasSubstr("attribute hidden_size is 5, R is [1, 12, 3]"));
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) { Maker::Set(n, "seven").set_i(5); }),
              HasSubstr("attribute seven is not understood"));
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) { n.set_domain("com.microsoft"); }),
              HasSubstr("operators of \"com.microsoft\" are not understood"));
  EXPECT_THAT(LstmError([](Maker& m, onnx::Node& n) {
                m.Floats("p", {1, 9});
                for (const char* name : {"", "", "", "p"}) n.add_input(name);
              }),
              HasSubstr("P: peepholes are not served"));
  EXPECT_THAT(LstmError([](Maker& m, onnx::Node& n) {
                m.Floats("h0", {1, 1, 3});
                for (const char* name : {"", "h0"}) n.add_input(name);
              }),
              HasSubstr("initial_h is not zeros"));
  EXPECT_THAT(LstmError([](Maker& m, onnx::Node& n) {
                for (float& v : *m.Floats("c0", {1, 1, 5}).mutable_float_data()) v = 0;
                for (const char* name : {"", "", "c0"}) n.add_input(name);
              }),
              HasSubstr("initial_c is [1, 1, 5], expected 1 directions of 3"));
  EXPECT_THAT(LstmError([](Maker& m, onnx::Node& n) {
                m.Whole("lengths", {4});
                n.add_input("lengths");
              }),
              HasSubstr("sequence_lens is neither absent nor a graph input"));
  EXPECT_THAT(
      LstmError([](Maker& m, onnx::Node&) { m.graph().mutable_initializer(1)->set_dims(2, 4); }),
      HasSubstr("initializer \"rR\": it holds 36 numbers, its shape [1, 12, 4] takes 48"));
  EXPECT_THAT(LstmError([](Maker& m, onnx::Node& n) {
                m.Floats("wide", {1, 12, 5});
                n.set_input(1, "wide");
              }),
              HasSubstr("X is 4 wide, W takes 5"));
  EXPECT_THAT(LstmError([](Maker&, onnx::Node& n) { n.set_input(0, "y"); }),
              HasSubstr("\"y\" is needed before any node makes it"));
}

TEST_F(ImportOnnxTest, ANodeWithoutANameIsCalledByTheFirstOutputThatHasOne) {
  EXPECT_THAT(LstmError([](OnnxGraphMaker&, onnx::Node& n) {
                n.clear_name();
                n.set_output(0, "");  // Y, which nobody reads
                OnnxGraphMaker::Set(n, "clip").set_f(3.5f);
              }),
              HasSubstr("output \"rh\": the node that makes \"rh\" (LSTM): attribute clip is 3.5"));
}

TEST_F(ImportOnnxTest, StatesOfZerosMayBeMadeInHalfPrecision) {
  // initial_h as converters to float16 leave it: [1, batch, 3] of one number.
  const auto error = [this](int type, const std::function<void(onnx::Tensor&)>& number) {
    return LstmError([&](OnnxGraphMaker& made, onnx::Node& lstm) {
      made.Whole("shape", {1, 1, 3});
      onnx::Node zeros;
      zeros.set_op_type("ConstantOfShape");
      zeros.set_name("zeros");
      zeros.add_input("shape");
      zeros.add_output("h0");
      onnx::Tensor& value = *OnnxGraphMaker::Set(zeros, "value").mutable_t();
      value.set_data_type(type);
      value.add_dims(1);
      number(value);
      for (const char* name : {"", "h0"}) lstm.add_input(name);
      const onnx::Node last = lstm;
      made.graph().mutable_node()->RemoveLast();
      *made.graph().add_node() = zeros;
      *made.graph().add_node() = last;
    });
  };
  EXPECT_EQ(error(1, [](onnx::Tensor& v) { v.add_float_data(0); }), "imported");
  EXPECT_EQ(error(10, [](onnx::Tensor& v) { v.add_int32_data(0); }), "imported");
  EXPECT_EQ(error(10, [](onnx::Tensor& v) { v.set_raw_data(std::string(2, '\0')); }), "imported");
  EXPECT_EQ(error(11, [](onnx::Tensor& v) { v.add_double_data(0); }), "imported");
  EXPECT_EQ(error(16, [](onnx::Tensor& v) { v.add_int32_data(0); }), "imported");
  EXPECT_THAT(error(10, [](onnx::Tensor& v) { v.add_int32_data(0x3c00); }),
              HasSubstr("initial_h is not zeros"));
  EXPECT_THAT(error(7, [](onnx::Tensor& v) { v.add_int64_data(0); }),
              HasSubstr("node \"zeros\" (ConstantOfShape): attribute value is not one float"));
}

TEST_F(ImportOnnxTest, StatesOfZerosMayBeSpreadToTheirShape) {
  // A one of either shape gives way to the other's: [.., from] expanded to [1, 1, to].
  const auto error = [this](int64_t from, int64_t to, bool filled) {
    return LstmError([&](OnnxGraphMaker& made, onnx::Node& lstm) {
      for (const char* name : {"", "h0"}) lstm.add_input(name);
      const onnx::Node last = lstm;
      made.graph().mutable_node()->RemoveLast();
      made.Whole("from", {1, from});
      made.Whole("to", {1, 1, to});
      if (filled) {
        made.Node("ConstantOfShape", {"from"}, {"zeros"});
      } else {
        for (float& v : *made.Floats("zeros", {1, from}).mutable_float_data()) v = 0;
      }
      made.Node("Expand", {"zeros", "to"}, {"h0"});
      *made.graph().add_node() = last;
    });
  };
  for (const bool filled : {false, true}) {
    EXPECT_EQ(error(kH, 1, filled), "imported") << filled;
    EXPECT_EQ(error(1, kH, filled), "imported") << filled;
    EXPECT_EQ(error(kH, kH, filled), "imported") << filled;
    EXPECT_THAT(error(1, 1, filled), HasSubstr("initial_h is [.., 1], expected 1 directions of 3"));
    EXPECT_THAT(error(5, 1, filled), HasSubstr("initial_h is [.., 5], expected 1 directions of 3"));
    EXPECT_THAT(error(1, 5, filled), HasSubstr("initial_h is [.., 5], expected 1 directions of 3"));
  }
}

TEST_F(ImportOnnxTest, AStateThatIsNotUnderstoodIsNamedBeforeWhatIsUnknownInItsMaking) {
  // A learned state, repeated for a batch as exporters write it, by operators of which none is understood.
  EXPECT_THAT(LstmError([](OnnxGraphMaker& made, onnx::Node& lstm) {
                for (const char* name : {"", "", "c0"}) lstm.add_input(name);
                const onnx::Node last = lstm;
                made.graph().mutable_node()->RemoveLast();
                made.Floats("learned", {1, 1, 3});
                made.Node("Tile", {"learned", "x"}, {"c0"});
                *made.graph().add_node() = last;
              }),
              HasSubstr("node \"the_ry\" (LSTM): initial_c is not understood (sequences start "
                        "from zeros): node \"the_c0\" (Tile): this operator is not understood"));
}

TEST_F(ImportOnnxTest, DropoutIsLeftOutUnlessItIsForTraining) {
  const auto error = [this](const std::function<void(onnx::Tensor&)>& training) {
    return ErrorBehind("Dropout", "rh", {"ratio", "training"},
                       [&](OnnxGraphMaker& made, onnx::Node&) {
                         made.Floats("ratio", {}, 0.5f);
                         onnx::Tensor& mode = made.Floats("training", {});
                         mode.clear_float_data();
                         mode.set_data_type(9);
                         training(mode);
                       });
  };
  EXPECT_EQ(error([](onnx::Tensor& t) { t.set_raw_data(std::string(1, '\0')); }), "imported");
  EXPECT_EQ(error([](onnx::Tensor& t) { t.add_int32_data(0); }), "imported");
  EXPECT_THAT(error([](onnx::Tensor& t) { t.set_raw_data("\1"); }),
              HasSubstr("(Dropout): training_mode is true: a model is served as it infers"));
  for (const float everywhere : {0.0f, 1.0f}) {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4);
    made.Floats("number", {}, everywhere);
    made.Whole("shape", {1});
    made.Node("Expand", {"number", "shape"}, {"wide"});
    OnnxGraphMaker::Set(made.Node("Cast", {"wide"}, {"mode"}), "to").set_i(9);
    made.Node("Dropout", {"rh", "", "mode"}, {"out"});
    made.Output("out");
    EXPECT_THAT(Error(made), HasSubstr(everywhere == 0 ? "imported" : "training_mode is true"));
  }
  EXPECT_THAT(ErrorBehind("Dropout", "rh", {"", "rh"}, [](OnnxGraphMaker&, onnx::Node&) {}),
              HasSubstr("(Dropout): training_mode is no constant"));
}

TEST_F(ImportOnnxTest, StatesThatCallersBringAreZerosOnlyWhereTheUserSaysSo) {
  OnnxGraphMaker made;
  made.Input("h0", 1, {1, 0, 3});
  onnx::Node& node = made.Recurrent("GRU", "x", 3);
  node.add_input("");
  node.add_input("h0");
  made.Output("rh");
  EXPECT_THAT(
      Error(made),
      HasSubstr("initial_h is the graph input \"h0\"; sequences start from zeros (--zeros h0"));
  options_.zeros = {"h0"};
  EXPECT_EQ(Error(made), "imported");
  options_.zeros = {"h1"};
  EXPECT_THAT(Error(made), HasSubstr("--zeros h1: the graph has no such input"));
  options_.zeros.clear();
  options_.hints.head = "fc";
  EXPECT_THAT(Error(made), HasSubstr("--head and --head-reads are for a state_dict"));
}

TEST_F(ImportOnnxTest, WhatLiesBehindALayerIsServedOrNamed) {
  using Maker = OnnxGraphMaker;
  const auto none = [](Maker&, onnx::Node&) {};
  EXPECT_THAT(ErrorBehind("Relu", "rh", {}, none),
              HasSubstr("node \"the_out\" (Relu): this operator is not understood"));
  EXPECT_THAT(ErrorBehind("Softmax", "rh", {}, none),
              HasSubstr("(Softmax): served is the softmax of a linear layer"));
  EXPECT_THAT(ErrorBehind("MatMul", "rh", {"fc"},
                          [](Maker& m, onnx::Node&) {
                            m.Floats("fc", {4, 2});
                          }),
              HasSubstr("(MatMul): reads 3 numbers of a state of 3, its weight takes 4"));
  EXPECT_EQ(ErrorBehind("MatMul", "rh", {"fc"},
                        [](Maker& m, onnx::Node&) {
                          m.Floats("fc", {3, 2});
                        }),
            "imported");
  EXPECT_THAT(ErrorBehind("Gemm", "rh", {"fc"},
                          [](Maker& m, onnx::Node& n) {
                            m.Floats("fc", {3, 2});
                            Maker::Set(n, "alpha").set_f(2);
                          }),
              HasSubstr("(Gemm): attribute alpha is 2, served is 1"));
  EXPECT_THAT(
      ErrorBehind("Slice", "ry", {"one", "far", "time"},
                  [](Maker& m, onnx::Node&) {
                    m.Whole("one", {1});
                    m.Whole("far", {1000000000000});
                    m.Whole("time", {0});
                  }),
      HasSubstr("(Slice): takes some of the steps; the first, the last and all are served"));
  EXPECT_THAT(
      ErrorBehind("Slice", "ry", {"back", "front", "time", "step"},
                  [](Maker& m, onnx::Node&) {
                    m.Whole("back", {-1});
                    m.Whole("front", {-1000000000000});
                    m.Whole("time", {0});
                    m.Whole("step", {-1});
                  }),
      HasSubstr("(Slice): step -1: a model that turns its sequence around itself is not served"));
  const auto last_step = [](Maker& m, onnx::Node&) { m.Whole("last", {-1}); };
  EXPECT_EQ(ErrorBehind("Gather", "ry", {"last"}, last_step), "imported");
  EXPECT_THAT(ErrorBehind("Gather", "ry", {"far"},
                          [](Maker& m, onnx::Node&) {
                            m.Whole("far", {std::numeric_limits<int64_t>::max()});
                          }),
              HasSubstr("(Gather): index 9223372036854775807"));
  EXPECT_THAT(ErrorBehind("Gather", "ry", {"last"}, last_step, 2),
              HasSubstr("(Gather): takes the last step of the backward direction of layer 0, which "
                        "has then read one "
                        "step"));
  EXPECT_THAT(ErrorBehind(
                  "Transpose", "ry", {},
                  [](Maker&, onnx::Node& n) {
                    for (const int64_t i : {0, 3, 2, 1}) {
                      if (n.attribute_size() == 0) Maker::Set(n, "perm");
                      n.mutable_attribute(0)->add_ints(i);
                    }
                  },
                  2),
              HasSubstr("(Transpose): perm [0, 3, 2, 1] puts features before directions"));
}

// Attention's weights, say, are a softmax of the steps.
TEST_F(ImportOnnxTest, ASoftmaxIsOfTheClassesAndABiasIsOne) {
  const auto error = [this](int64_t classes, const std::string& op,
                            const std::vector<int64_t>& perm, const std::vector<int64_t>& shape,
                            bool squeezed) {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4);
    made.Whole("directions", {1});
    made.Node("Squeeze", {"ry", "directions"}, {"y"});  // [T, B, 3]
    made.Floats("fc", {kH, classes});
    made.Node("MatMul", {"y", "fc"}, {"logits"});
    made.Whole("last", {-1});
    made.Whole("shape", shape);
    made.Floats("bias", {classes});
    std::string at = "logits";
    if (squeezed) made.Node("Squeeze", {std::exchange(at, "squeezed"), "last"}, {"squeezed"});
    if (!shape.empty()) made.Node("Reshape", {std::exchange(at, "shaped"), "shape"}, {"shaped"});
    if (!perm.empty()) {
      auto& turn = OnnxGraphMaker::Set(made.Node("Transpose", {at}, {"turned"}), "perm");
      for (const int64_t place : perm) turn.add_ints(place);
      at = "turned";
    }
    std::vector<std::string> in = {at};
    if (op == "Add") in.push_back("bias");
    onnx::Node& node = made.Node(op, in, {"out"});
    if (op == "Softmax") OnnxGraphMaker::Set(node, "axis").set_i(-1);
    made.Output("out");
    return Error(made);
  };
  for (const char* op : {"Softmax", "Add"}) {
    EXPECT_EQ(error(5, op, {}, {}, false), "imported");
    EXPECT_EQ(error(5, op, {1, 0, 2}, {}, false), "imported");
    EXPECT_THAT(error(5, op, {1, 2, 0}, {}, false), HasSubstr("along another dimension than the"));
  }
  EXPECT_THAT(error(1, "Softmax", {1, 0}, {}, true),
              HasSubstr("(Softmax): is taken along another dimension than the 1 that the linear "
                        "layer leaves of a step"));
  EXPECT_EQ(error(1, "Add", {1, 0}, {}, true), "imported") << "one number is added to all";
  EXPECT_THAT(error(6, "Softmax", {}, {0, 2, 3}, false), HasSubstr("another dimension than the 6"));
}

// The steps of a sequence without its last, as language models read them: where the file leaves sizes open, too.
TEST_F(ImportOnnxTest, ASliceThatEndsBeforeTheEndIsNotAllThereIs) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max(), kOpen = 0;
  const auto error = [this](int64_t steps, bool of_input, int64_t axis, int64_t begin,
                            int64_t end) {
    OnnxGraphMaker made;
    made.graph().clear_input();
    made.Input("x", 1, {steps, 0, kI});
    made.Whole("begin", {begin});
    made.Whole("end", {end});
    made.Whole("axis", {axis});
    if (of_input) made.Node("Slice", {"x", "begin", "end", "axis"}, {"part"});
    made.Recurrent("LSTM", of_input ? "part" : "x", 4);
    if (!of_input) made.Node("Slice", {"ry", "begin", "end", "axis"}, {"part"});  // [T, 1, B, 3]
    made.Output(of_input ? "rh" : "part");
    return Error(made);
  };
  for (const int64_t steps : {kOpen, int64_t{5}}) {
    for (const auto& [begin, end] :
         {std::pair<int64_t, int64_t>{0, -1}, {-1, -1}, {-1, 0}, {-2, -1}, {0, 2}, {1, kFar}}) {
      EXPECT_THAT(error(steps, false, 0, begin, end), HasSubstr("takes some of the steps"))
          << steps << " steps, " << begin << " to " << end;
    }
    EXPECT_EQ(error(steps, false, 0, 0, kFar), "imported");
    EXPECT_EQ(error(steps, false, 0, -1, kFar), "imported");
    EXPECT_EQ(error(steps, true, 0, 0, kFar), "imported");
    EXPECT_THAT(error(steps, true, 0, 0, -1), HasSubstr("(Slice): takes a part of the input"));
    for (const auto& [begin, end] :
         {std::pair<int64_t, int64_t>{0, -1}, {0, 0}, {-1, 0}, {1, 2}, {-2, -1}}) {
      EXPECT_THAT(error(steps, false, 2, begin, end),
                  HasSubstr("takes another sequence of a batch"))
          << begin << " to " << end;
    }
    EXPECT_EQ(error(steps, false, 2, 0, 1), "imported");
    EXPECT_EQ(error(steps, false, 2, -1, kFar), "imported");
  }
  EXPECT_EQ(error(5, false, 0, 0, 5), "imported");
  EXPECT_EQ(error(5, false, 0, 4, 5), "imported");
  EXPECT_THAT(error(5, false, 0, 0, 4), HasSubstr("takes some of the steps"));
}

TEST_F(ImportOnnxTest, WhatIsTakenOfADimensionIsThere) {
  using Maker = OnnxGraphMaker;
  const auto gather = [this](const std::vector<int64_t>& shape, int64_t index) {
    return ErrorBehind("Gather", "ry", {"index"}, [&](Maker& m, onnx::Node& n) {
      m.Whole("index", {index});
      onnx::Tensor& made = *m.graph().mutable_initializer(m.graph().initializer_size() - 1);
      made.clear_dims();
      for (const int64_t d : shape) made.add_dims(d);
      Maker::Set(n, "axis").set_i(1);  // the only direction
    });
  };
  for (const int64_t index : {0, -1}) {
    EXPECT_EQ(gather({1}, index), "imported") << index;
    EXPECT_EQ(gather({}, index), "imported") << index;
    EXPECT_THAT(gather({1, 1}, index), HasSubstr("(Gather): by a matrix of indices"));
  }
  EXPECT_THAT(gather({1}, 1), HasSubstr("(Gather): index 1 of 1"));
  EXPECT_THAT(gather({1}, -2), HasSubstr("(Gather): index -2 of 1"));
  for (const int64_t axis : {0, 2}) {  // how many steps and sequences there are, nobody knows yet
    EXPECT_THAT(
        ErrorBehind("Split", "ry", {},
                    [&](Maker&, onnx::Node& n) {
                      n.add_output("rest");
                      Maker::Set(n, "axis").set_i(axis);
                    }),
        HasSubstr(fmt::format("(Split): of dimension {}, whose size the file leaves open", axis)));
  }
}

// make_node of the Python package writes clip=3 as a whole number, which is not where a float is looked for.
TEST_F(ImportOnnxTest, AnAttributeOfAnotherKindIsNotReadAsIfItWereNotThere) {
  using Maker = OnnxGraphMaker;
  const auto error = [this](const char* op, int64_t gates, const char* name, int type) {
    OnnxGraphMaker made;
    onnx::Attribute& a = Maker::Set(made.Recurrent(op, "x", gates), name);
    a.set_type(type);
    a.set_i(1);
    made.Output("rh");
    return Error(made);
  };
  EXPECT_THAT(error("LSTM", 4, "clip", 2),
              HasSubstr("attribute clip is of type INT, expected FLOAT"));
  EXPECT_THAT(error("GRU", 3, "linear_before_reset", 1),
              HasSubstr("attribute linear_before_reset is of type FLOAT, expected INT"));
  EXPECT_THAT(error("LSTM", 4, "direction", 8),
              HasSubstr("attribute direction is of type STRINGS, expected STRING"));
  EXPECT_THAT(error("RNN", 1, "activations", 99),
              HasSubstr("attribute activations is of type 99, expected STRINGS"));
  EXPECT_EQ(error("GRU", 3, "linear_before_reset", 2), "imported");
  OnnxGraphMaker made;
  made.Recurrent("GRU", "x", 3);
  Maker::Set(made.Node("Constant", {}, {"one"}), "value_float").set_type(2);
  made.Node("Identity", {"one"}, {"out"});
  made.Output("out");
  EXPECT_THAT(Error(made),
              HasSubstr("node \"the_one\" (Constant): attribute value_float is of type "
                        "INT, expected FLOAT"));
}

TEST_F(ImportOnnxTest, InputsMayBeOfAnyWidthAndStandBesideInitializers) {
  for (const int type : {1, 10, 11}) {
    OnnxGraphMaker made;
    made.graph().clear_input();
    made.Input("x", type, {0, 0, 0});
    made.Input("rW", 1, {1, 12, 4});  // as before IR version 4: a default that nobody replaces
    made.Recurrent("LSTM", "x", 4);
    made.Output("rh");
    EXPECT_EQ(Error(made), "imported") << type;
  }
  for (const int type : {6, 7}) {
    OnnxGraphMaker made;
    made.graph().clear_input();
    made.Input("words", type, {0, 0});
    made.Floats("table", {5, kI});
    made.Node("Gather", {"table", "words"}, {"x"});
    made.Recurrent("LSTM", "x", 4);
    made.Output("rh");
    const auto imported = Import(made);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->notes[0], "\"words\" is TOKENS");
    EXPECT_EQ(imported->model.vocabulary, 5);
  }
  const auto error = [this](const std::function<void(onnx::ValueInfo&)>& change) {
    OnnxGraphMaker made;
    change(*made.graph().mutable_input(0));
    made.Recurrent("LSTM", "x", 4);
    made.Output("rh");
    return Error(made);
  };
  EXPECT_THAT(
      error([](onnx::ValueInfo& x) { x.mutable_type()->mutable_tensor_type()->set_elem_type(2); }),
      HasSubstr("the graph input \"x\" is of type UINT8: neither floats nor whole numbers"));
  EXPECT_THAT(
      error([](onnx::ValueInfo& x) { x.mutable_type()->mutable_tensor_type()->clear_shape(); }),
      HasSubstr("the graph input \"x\" has no shape"));
  EXPECT_THAT(error([](onnx::ValueInfo& x) {
                auto& shape = *x.mutable_type()->mutable_tensor_type()->mutable_shape();
                while (shape.dim_size() < 9) shape.add_dim();
              }),
              HasSubstr("the graph input \"x\" has no shape"));
}

TEST_F(ImportOnnxTest, ConstantsStandInAnyAttributeOfTheirNode) {
  using Maker = OnnxGraphMaker;
  // The last step of Y [T, 1, B, 3]: by one number [1, B, 3], by a list of one [1, 1, B, 3].
  const auto step = [this](const std::function<void(onnx::Node&)>& value, int64_t rank) {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4);
    value(made.Node("Constant", {}, {"last"}));
    made.Node("Gather", {"ry", "last"}, {"step"}).set_domain("ai.onnx");
    onnx::Attribute& perm = Maker::Set(made.Node("Transpose", {"step"}, {"out"}), "perm");
    for (int64_t i = 0; i < rank; ++i) perm.add_ints(i);
    made.Output("out");
    return Error(made);
  };
  EXPECT_EQ(step([](onnx::Node& n) { Maker::Set(n, "value_int").set_i(-1); }, 3), "imported");
  EXPECT_EQ(step([](onnx::Node& n) { Maker::Set(n, "value_ints").add_ints(-1); }, 4), "imported");
  EXPECT_THAT(step([](onnx::Node& n) { Maker::Set(n, "value_strings"); }, 3),
              HasSubstr("node \"the_last\" (Constant): has no value that is understood"));
  EXPECT_THAT(step([](onnx::Node& n) { Maker::Set(n, "value_ints").add_ints(-1); }, 3),
              HasSubstr("perm [0, 1, 2] of 4 dimensions"));
  const auto state = [this](const std::function<void(onnx::Node&)>& value) {
    OnnxGraphMaker made;
    value(made.Node("Constant", {}, {"number"}));
    made.Whole("to", {1, 1, 3});
    made.Node("Expand", {"number", "to"}, {"h0"});
    onnx::Node& lstm = made.Recurrent("LSTM", "x", 4);
    for (const char* name : {"", "h0"}) lstm.add_input(name);
    made.Output("rh");
    return Error(made);
  };
  EXPECT_EQ(state([](onnx::Node& n) { Maker::Set(n, "value_float").set_f(0); }), "imported");
  EXPECT_THAT(state([](onnx::Node& n) { Maker::Set(n, "value_float").set_f(0.5f); }),
              HasSubstr("initial_h is not zeros"));
  const auto floats = [](onnx::Node& n, float last) {
    onnx::Attribute& a = Maker::Set(n, "value_floats");
    for (const float v : {0.0f, 0.0f, last}) a.add_floats(v);
  };
  EXPECT_EQ(state([&](onnx::Node& n) { floats(n, 0); }), "imported");
  EXPECT_THAT(state([&](onnx::Node& n) { floats(n, 1); }),
              HasSubstr("(Expand): of what is not one float everywhere"));
  OnnxGraphMaker biased;
  biased.Recurrent("LSTM", "x", 4);
  biased.Floats("fc", {kH, 3});
  biased.Node("MatMul", {"rh", "fc"}, {"y"});
  floats(biased.Node("Constant", {}, {"bias"}), 7);
  biased.Node("Add", {"y", "bias"}, {"out"});
  biased.Output("out");
  ASSERT_EQ(Error(biased), "imported");
  EXPECT_EQ(Tensor("head.bias"), (std::vector<float>{0, 0, 7}));
}

TEST_F(ImportOnnxTest, AGraphHasABoundOfParts) {
  const auto error = [this](int initializers) {
    OnnxGraphMaker made;
    made.Recurrent("LSTM", "x", 4);
    made.Output("rh");
    while (made.graph().initializer_size() < initializers) made.graph().add_initializer();
    return Error(made);
  };
  EXPECT_EQ(error(1 << 16), "imported");
  EXPECT_THAT(error((1 << 16) + 1),
              HasSubstr("a graph of 65537 parts of a kind, the limit is 65536"));
}

// ONNX forbids it; whichever of the two were taken might be the wrong one.
TEST_F(ImportOnnxTest, WhatIsThereTwiceIsRefused) {
  using Maker = OnnxGraphMaker;
  const auto error = [this](const std::function<void(Maker&, onnx::Node&)>& change) {
    return LstmError(change);
  };
  EXPECT_THAT(error([](Maker& m, onnx::Node&) {
                m.Floats("rW", {1, 12, 4}, 7);
              }),
              HasSubstr("initializer \"rW\" is there twice"));
  EXPECT_THAT(error([](Maker& m, onnx::Node&) {
                m.Input("x", 1, {0, 0, 5});
              }),
              HasSubstr("the graph input \"x\" is there twice"));
  EXPECT_THAT(error([](Maker& m, onnx::Node&) {
                m.Floats("ry", {1, 12, 4});
              }),
              HasSubstr("node \"the_ry\" (LSTM) makes \"ry\", which is there already"));
  EXPECT_THAT(error([](Maker&, onnx::Node& n) {
                Maker::Set(n, "direction").set_s("forward");
                Maker::Set(n, "direction").set_s("reverse");
              }),
              HasSubstr("attribute direction is there twice"));
}

TEST_F(ImportOnnxTest, WhatANodeReadsIsOneThing) {
  OnnxGraphMaker both;
  both.Recurrent("LSTM", "x", 4, kI, 1, "a");
  OnnxGraphMaker::Set(both.Recurrent("LSTM", "x", 4, kI, 1, "b"), "layout").set_i(1);
  both.Output("bh");
  EXPECT_THAT(Error(both), HasSubstr("reads the steps along a dimension that is something else"));
  OnnxGraphMaker first;
  first.Recurrent("LSTM", "x", 4);
  first.Node("Sin", {"rh"}, {"one"});
  first.Node("Cos", {"rh"}, {"other"});
  first.Node("Concat", {"one", "other"}, {"out"});
  first.Output("out");
  EXPECT_THAT(Error(first), HasSubstr("output \"out\": node \"the_one\" (Sin): this operator"));
  EXPECT_THAT(LstmError([](OnnxGraphMaker&, onnx::Node& n) {
                OnnxGraphMaker::Set(n, "hidden_size").set_ref_attr_name("size");
              }),
              HasSubstr("attribute hidden_size is not understood"));
}

TEST_F(ImportOnnxTest, AHeadMayReadTheDirectionsInAnyOrderOrOneOfThem) {
  OnnxGraphMaker made;
  OnnxGraphMaker::Set(made.Recurrent("GRU", "x", 3, kI, 2), "direction").set_s("bidirectional");
  made.Whole("zero", {0});
  made.Whole("one", {1});
  for (const auto& [out, index] : {std::pair("f", "zero"), {"b", "one"}}) {
    OnnxGraphMaker::Set(made.Node("Gather", {"rh", index}, {out}), "axis").set_i(0);  // [1, B, 3]
  }
  OnnxGraphMaker::Set(made.Node("Concat", {"b", "f"}, {"bf"}), "axis").set_i(2);
  made.Floats("fc", {6, 1});
  made.Node("MatMul", {"bf", "fc"}, {"y"});
  made.Output("y");
  ASSERT_EQ(Error(made), "imported");
  EXPECT_EQ(Tensor("head.weight"), (std::vector<float>{3.25, 4.25, 5.25, 0.25, 1.25, 2.25}));
}

TEST_F(ImportOnnxTest, DirectionsAreNotPutBehindEachOtherInTime) {
  for (const auto& [axis, said] :
       {std::pair(0, "(Concat): of states of different kinds or dimensions"), {1, "imported"}}) {
    OnnxGraphMaker made;
    OnnxGraphMaker::Set(made.Recurrent("GRU", "x", 3, kI, 2), "direction").set_s("bidirectional");
    OnnxGraphMaker::Set(made.Node("Split", {"ry"}, {"f", "b"}), "axis").set_i(1);  // [T, 1, B, 3]
    OnnxGraphMaker::Set(made.Node("Concat", {"f", "b"}, {"fb"}), "axis").set_i(axis);
    made.Output("fb");
    EXPECT_THAT(Error(made), HasSubstr(said)) << axis;
  }
}

TEST_F(ImportOnnxTest, OutputsThatAreNotServedCanBeLeftOut) {
  OnnxGraphMaker made;
  made.Recurrent("LSTM", "x", 4);
  made.Node("Relu", {"ry"}, {"strange"});
  made.Output("rh");
  made.Output("strange");
  made.Output("x");
  EXPECT_THAT(Error(made), AllOf(HasSubstr("output \"strange\": node \"the_strange\" (Relu)"),
                                 HasSubstr("\noutput \"x\": no recurrent layer computes it")));
  options_.hints.ignored = {"strange", "x", "z"};
  EXPECT_THAT(
      Error(made),
      HasSubstr("--ignore z: the graph has no such output, it has \"rh\", \"strange\", \"x\""));
  options_.hints.ignored = {"strange", "x"};
  const auto imported = Import(made);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(Summary(*imported, options_),
              AllOf(HasSubstr("note     \"x\" is X\n"), HasSubstr("\"rh\" is OUTPUT\n")));
  options_.hints.ignored = {"strange", "x", "rh"};
  EXPECT_THAT(Error(made), HasSubstr("there is no output to serve"));
}

TEST_F(ImportOnnxTest, LayersThatDoNotLieOnEachOtherAreNamed) {
  OnnxGraphMaker made;
  made.Recurrent("GRU", "x", 3, kI, 1, "a");
  made.Recurrent("GRU", "x", 3, kI, 1, "b");
  OnnxGraphMaker::Set(made.Node("Concat", {"ay", "by"}, {"ab"}), "axis").set_i(3);
  made.Whole("axis", {1});
  made.Node("Squeeze", {"ab", "axis"}, {"x2"});
  made.Recurrent("GRU", "x2", 3, 2 * kH, 1, "top");
  made.Output("toph");
  EXPECT_THAT(
      Error(made),
      HasSubstr(
          "node \"the_topy\" (GRU) reads node \"the_ay\" (GRU) and node \"the_by\" (GRU) at once"));
}

TEST_F(ImportOnnxTest, TwoDirectionsInNodesOfTheirOwnAreNamed) {
  OnnxGraphMaker made;
  made.Recurrent("LSTM", "x", 4, kI, 1, "a");
  OnnxGraphMaker::Set(made.Recurrent("LSTM", "x", 4, kI, 1, "b"), "direction").set_s("reverse");
  OnnxGraphMaker::Set(made.Node("Concat", {"ah", "bh"}, {"ends"}), "axis").set_i(2);
  made.Output("ends");
  EXPECT_THAT(Error(made), HasSubstr("output \"ends\": node \"the_ay\" (LSTM) is none of the "
                                     "layers below node \"the_by\" (LSTM); both directions of a "
                                     "layer are served of one node (bidirectional; --ignore ends"));
}

TEST_F(ImportOnnxTest, FilesThatAreNoneOrLieAreRefused) {
  options_.from = testing::TempDir() + "/absent.onnx";
  EXPECT_THAT(std::string(ImportOnnx(options_).status().message()), HasSubstr("No such file"));
  options_.from = testing::TempDir() + "/graph.onnx";
  for (const std::string bytes : {"", "nonsense", "\x3a\xff\xff\xff\xff\x0f"}) {
    std::ofstream(options_.from, std::ios::binary) << bytes;
    EXPECT_THAT(std::string(ImportOnnx(options_).status().message()), HasSubstr("no"));
  }
  OnnxGraphMaker old;
  old.Opset(6);
  EXPECT_THAT(Error(old), HasSubstr("is of opset 6, the oldest understood is 7"));
  OnnxGraphMaker twice;
  twice.Node("Identity", {"x"}, {"x"});
  EXPECT_THAT(Error(twice), HasSubstr("makes \"x\", which is there already"));
  OnnxGraphMaker late;
  late.Node("Identity", {"rh"}, {"out"});
  late.Recurrent("GRU", "x", 3);
  late.Output("out");
  EXPECT_THAT(Error(late), HasSubstr("node \"the_ry\" (GRU) makes \"rh\", which a node before it "
                                     "reads: the file's nodes are not in the order"));
  OnnxGraphMaker many;  // bytes that would become messages many times their size
  many.graph().set_name(std::string(kMaxOnnxStructure + 1, 'x'));
  EXPECT_THAT(Error(many), HasSubstr("bytes beside its tensors' data, the limit is"));
  const auto external = [this](const std::string& location, const std::string& offset) {
    OnnxGraphMaker made;
    made.Recurrent("GRU", "x", 3);
    made.Output("rh");
    onnx::Tensor& t = *made.graph().mutable_initializer(0);
    t.clear_float_data();
    t.set_data_location(1);
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"location", location}, {"offset", offset}}) {
      onnx::StringPair& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return Error(made);
  };
  std::ofstream(testing::TempDir() + "/graph.data", std::ios::binary)
      << std::string(8 + 9 * 4 * 4, '\0');
  EXPECT_EQ(external("graph.data", "8"), "imported");
  EXPECT_THAT(external("graph.data", "12"), HasSubstr("its data is 144 bytes at 12 of"));
  EXPECT_THAT(external("graph.data", "-1"), HasSubstr("its data's offset is \"-1\""));
  EXPECT_THAT(external("absent.data", "8"),
              AllOf(HasSubstr("initializer \"rW\": its data lies in"),
                    HasSubstr("/absent.data, which is no file that is there")));
  EXPECT_THAT(external("../graph.data", "8"),
              HasSubstr("lies in \"../graph.data\", not beside the model"));
  EXPECT_THAT(external("/etc/passwd", "0"), HasSubstr("not beside the model"));
}

}  // namespace
}  // namespace cellbatch

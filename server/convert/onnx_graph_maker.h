// Graphs in the making, and what becomes of them: for tests of the ONNX importer.
#ifndef CELLBATCH_SERVER_CONVERT_ONNX_GRAPH_MAKER_H_
#define CELLBATCH_SERVER_CONVERT_ONNX_GRAPH_MAKER_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cells/weights/safetensors.h"
#include "proto/onnx.pb.h"
#include "server/convert/import_onnx.h"

namespace cellbatch {

inline constexpr int64_t kI = 4, kH = 3;

// A graph in the making: one LSTM over X [T, B, 4], three units, its Y_h as the output; tests change it.
class OnnxGraphMaker {
 public:
  OnnxGraphMaker() {
    model_.set_ir_version(8);
    Opset(17);
    Input("x", 1, {0, 0, kI});
  }

  onnx::Model& model() { return model_; }
  onnx::Graph& graph() { return *model_.mutable_graph(); }
  void Opset(int64_t version) {
    model_.clear_opset_import();
    model_.add_opset_import()->set_version(version);
  }
  void Input(const std::string& name, int type, const std::vector<int64_t>& dims) {
    onnx::ValueInfo& input = *graph().add_input();
    input.set_name(name);
    input.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const int64_t d : dims) shape.add_dim()->set_dim_value(d);
  }
  void Output(const std::string& name) { graph().add_output()->set_name(name); }
  // Numbers first, first + 1, ..
  onnx::Tensor& Floats(const std::string& name, const std::vector<int64_t>& dims,
                       float first = 0.25f) {
    onnx::Tensor& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(1);
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    for (const int64_t d : dims) t.add_dims(d);
    for (int64_t i = 0; i < count; ++i) t.add_float_data(first + static_cast<float>(i));
    return t;
  }
  void Whole(const std::string& name, const std::vector<int64_t>& values) {
    onnx::Tensor& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(7);
    t.add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t v : values) t.add_int64_data(v);
  }
  onnx::Node& Node(const std::string& op, const std::vector<std::string>& in,
                   const std::vector<std::string>& out) {
    onnx::Node& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name("the_" + out[0]);
    for (const std::string& name : in) node.add_input(name);
    for (const std::string& name : out) node.add_output(name);
    return node;
  }
  // A recurrent node with its weights, in one or two directions.
  onnx::Node& Recurrent(const std::string& op, const std::string& x, int64_t gates,
                        int64_t input = kI, int64_t directions = 1, const std::string& name = "r") {
    Floats(name + "W", {directions, gates * kH, input});
    Floats(name + "R", {directions, gates * kH, kH});
    Floats(name + "B", {directions, 2 * gates * kH});
    std::vector<std::string> outputs = {name + "y", name + "h"};
    if (gates == 4) outputs.push_back(name + "c");
    return Node(op, {x, name + "W", name + "R", name + "B"}, outputs);
  }
  static onnx::Attribute& Set(onnx::Node& node, const std::string& name) {
    onnx::Attribute& a = *node.add_attribute();
    a.set_name(name);
    return a;
  }

 private:
  onnx::Model model_;
};

class ImportOnnxTest : public testing::Test {
 protected:
  ImportOnnxTest() {
    std::filesystem::remove_all(repository_);
    options_ = {.from = testing::TempDir() + "/graph.onnx",
                .repository = repository_,
                .name = "m",
                .overwrite = true,
                .hints = {}};
  }

  absl::StatusOr<Imported> Import(OnnxGraphMaker& made) {
    std::ofstream(options_.from, std::ios::binary) << made.model().SerializeAsString();
    return ImportOnnx(options_);
  }
  std::string Error(OnnxGraphMaker& made) {
    const auto imported = Import(made);
    return imported.ok() ? "imported" : std::string(imported.status().message());
  }
  // The error of an LSTM after `change`.
  std::string LstmError(const std::function<void(OnnxGraphMaker&, onnx::Node&)>& change) {
    OnnxGraphMaker made;
    onnx::Node& node = made.Recurrent("LSTM", "x", 4);
    made.Output("rh");
    change(made, node);
    return Error(made);
  }
  // The error of an LSTM with one operator behind its Y_h [1, B, 3], or (of `from`) Y [T, 1, B, 3].
  std::string ErrorBehind(const std::string& op, const std::string& from,
                          const std::vector<std::string>& others,
                          const std::function<void(OnnxGraphMaker&, onnx::Node&)>& change,
                          int64_t directions = 1) {
    OnnxGraphMaker made;
    onnx::Node& lstm = made.Recurrent("LSTM", "x", 4, kI, directions);
    if (directions == 2) OnnxGraphMaker::Set(lstm, "direction").set_s("bidirectional");
    std::vector<std::string> in = {from};
    in.insert(in.end(), others.begin(), others.end());
    onnx::Node& node = made.Node(op, in, {"out"});
    change(made, node);
    made.Output("out");
    return Error(made);
  }
  std::vector<float> Tensor(const std::string& name) {
    const auto file = SafetensorsFile::Open(repository_ + "/m/1/weights.safetensors", 1 << 20);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok() || file->Find(name) == nullptr) return {};
    std::vector<float> values(static_cast<size_t>(file->Find(name)->num_elements()));
    EXPECT_TRUE(file->ReadTensor(*file->Find(name), absl::MakeSpan(values)).ok());
    return values;
  }
  std::string Config() const {
    std::stringstream text;
    text << std::ifstream(repository_ + "/m/config.textproto").rdbuf();
    return text.str();
  }

  const std::string repository_ = testing::TempDir() + "/models";
  ImportOptions options_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_ONNX_GRAPH_MAKER_H_

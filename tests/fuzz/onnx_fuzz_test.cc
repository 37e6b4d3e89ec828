// Damaged ONNX files: whatever the bytes or the graph, the importer answers, and what it makes of it fits together. The
// corpus is what exporters and tests/golden's scripts wrote.
#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>

#include "proto/onnx.pb.h"
#include "server/convert/onnx_graph.h"
#include "server/convert/write_model.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSeed = 20241121;

std::vector<std::string> Corpus() {
  std::vector<std::string> files, names;
  for (const auto& entry : fs::directory_iterator("tests/golden/onnx")) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    std::ifstream file(name, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

// Changes to a graph that leave it a graph: other operators, operands, attributes and sizes.
class GraphMutator {
 public:
  explicit GraphMutator(Mutator& random) : random_(random) {}

  void Change(onnx::Graph& graph) {
    if (graph.node_size() == 0) return;
    onnx::Node& node = *graph.mutable_node(Pick(graph.node_size()));
    const onnx::Node& other = graph.node(Pick(graph.node_size()));
    switch (random_.Below(9)) {
      case 0:
        node.set_op_type(other.op_type());
        return;
      case 1:
        if (node.input_size() > 0 && other.output_size() > 0) {
          node.set_input(Pick(node.input_size()), other.output(Pick(other.output_size())));
        }
        return;
      case 2:
        if (node.input_size() > 0) node.set_input(Pick(node.input_size()), "");
        return;
      case 3:
        if (graph.initializer_size() > 0) {
          node.add_input(graph.initializer(Pick(graph.initializer_size())).name());
        }
        return;
      case 4:
        for (onnx::Attribute& a : *node.mutable_attribute()) ChangeAttribute(a);
        return;
      case 5:
        *node.mutable_attribute() = other.attribute();
        return;
      case 6:
        graph.mutable_output(Pick(graph.output_size()))
            ->set_name(other.output_size() > 0 ? other.output(0) : "");
        return;
      case 7:
        graph.mutable_node()->SwapElements(Pick(graph.node_size()), Pick(graph.node_size()));
        return;
      default:
        ChangeSizes(graph);
    }
  }

 private:
  int Pick(int n) { return static_cast<int>(random_.Below(static_cast<uint64_t>(std::max(n, 1)))); }
  int64_t Number() {
    constexpr int64_t kNumbers[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    7,
                                    -2,
                                    1000,
                                    int64_t{1} << 31,
                                    std::numeric_limits<int64_t>::max(),
                                    std::numeric_limits<int64_t>::min()};
    return kNumbers[random_.Below(std::size(kNumbers))];
  }
  void ChangeAttribute(onnx::Attribute& a) {
    if (random_.Below(2) == 0) return;
    a.set_i(Number());
    for (int64_t& i : *a.mutable_ints()) i = Number();
    if (a.strings_size() > 0) a.add_strings("Relu");
    if (a.has_t()) ChangeTensor(*a.mutable_t());
  }
  void ChangeTensor(onnx::Tensor& t) {
    for (int64_t& d : *t.mutable_dims()) {
      if (random_.Below(3) == 0) d = Number();
    }
    if (t.data_type() == 7 && t.raw_data().size() >= sizeof(int64_t)) {
      const int64_t number = Number();
      std::copy_n(reinterpret_cast<const char*>(&number), sizeof(number),
                  t.mutable_raw_data()->begin());
    }
    if (random_.Below(4) == 0) t.set_data_type(static_cast<int32_t>(random_.Below(18)));
  }
  void ChangeSizes(onnx::Graph& graph) {
    if (random_.Below(2) == 0 && graph.initializer_size() > 0) {
      ChangeTensor(*graph.mutable_initializer(Pick(graph.initializer_size())));
    } else if (graph.input_size() > 0) {
      auto& shape = *graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
      if (random_.Below(3) == 0) shape.add_dim();
      for (onnx::Dimension& d : *shape.mutable_dim()) d.set_dim_value(Number());
    }
  }

  Mutator& random_;
};

class StackTensors : public TensorSource {
 public:
  explicit StackTensors(const OnnxStack& stack) : stack_(stack) {}
  std::vector<int64_t> ShapeOf(const std::string& tensor) const override {
    return stack_.tensors.at(tensor).dims;
  }
  absl::Status Read(const std::string& tensor, absl::Span<float> out) const override {
    const std::vector<float>& all = *stack_.tensors.at(tensor).floats;
    std::copy(all.begin(), all.end(), out.begin());
    return absl::OkStatus();
  }

 private:
  const OnnxStack& stack_;
};

// What is accepted has every tensor with as many numbers as its shape says, and loads.
void ExpectSound(const OnnxStack& stack, bool write) {
  ASSERT_FALSE(stack.model.layers.empty());
  bool finite = true;
  for (const auto& [name, tensor] : stack.tensors) {
    int64_t size = 1;
    for (const int64_t d : tensor.dims) size *= d;
    ASSERT_NE(tensor.floats, nullptr) << name;
    ASSERT_EQ(static_cast<int64_t>(tensor.floats->size()), size) << name;
    for (const float v : *tensor.floats) finite = finite && std::isfinite(v);
  }
  if (!write || !finite) return;
  const ImportOptions options = {.from = "fuzzed.onnx",
                                 .repository = testing::TempDir() + "/fuzzed",
                                 .name = "m",
                                 .overwrite = true,
                                 .hints = {}};
  const auto written = WriteModel(stack.model, StackTensors(stack), options);
  EXPECT_TRUE(written.ok()) << written.status();
}

struct Count {
  int parsed = 0, accepted = 0;
};

void Try(const std::string& bytes, bool write, Count& count) {
  const absl::StatusOr<OnnxFile> file = OnnxFile::Parse(bytes, testing::TempDir());
  if (!file.ok()) {
    EXPECT_FALSE(file.status().message().empty());
    return;
  }
  ++count.parsed;
  const absl::StatusOr<OnnxWalked> walked = WalkOnnx(*file, {});
  if (!walked.ok()) return;
  const absl::StatusOr<OnnxStack> stack = FindStack(*walked, {});
  if (!stack.ok()) {
    EXPECT_FALSE(stack.status().message().empty());
    return;
  }
  ++count.accepted;
  ExpectSound(*stack, write);
}

TEST(OnnxFuzzTest, DamagedBytesAreRefusedOrSound) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(kSeed, {"LSTM", "Gather", std::string("\x0a\x00", 2),
                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", std::string("\x08\x01", 2),
                          "reverse", "\x3a", "\x2a"});
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 15u);
  Count count;
  for (const std::string& valid : corpus) Try(valid, true, count);
  ASSERT_EQ(count.accepted, static_cast<int>(corpus.size()));
  FuzzBudget budget(100, 0.5);
  while (budget.Next() && !HasFailure()) {
    for (const std::string& valid : corpus) Try(mutator.Mutate(valid), false, count);
  }
  std::cout << count.parsed << " parsed, " << count.accepted << " accepted\n";
}

TEST(OnnxFuzzTest, DamagedGraphsAreRefusedOrSound) {
  std::cout << "seed " << kSeed << "\n";
  Mutator random(kSeed, {});
  GraphMutator mutator(random);
  std::vector<onnx::Model> corpus;
  for (const std::string& bytes : Corpus()) {
    onnx::Model model;
    ASSERT_TRUE(model.ParseFromString(bytes));
    corpus.push_back(std::move(model));
  }
  Count count;
  FuzzBudget budget(100, 0.5);
  while (budget.Next() && !HasFailure()) {
    for (const onnx::Model& valid : corpus) {
      onnx::Model damaged = valid;
      for (uint64_t i = 0, n = 1 + random.Below(4); i < n; ++i)
        mutator.Change(*damaged.mutable_graph());
      Try(damaged.SerializeAsString(), count.accepted % 8 == 0, count);
    }
  }
  std::cout << count.parsed << " parsed, " << count.accepted << " accepted\n";
  EXPECT_GT(count.accepted, 0);
}

}  // namespace
}  // namespace cellbatch

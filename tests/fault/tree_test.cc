// Trees that are none (serving.md 4.4: V9, V12, V13, V18), each with its code and text, in every form that a request may
// have, against the real server. forest_test and bracket_text_test have more of each kind; here they cross gRPC.
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <random>

#include "cells/weights/safetensors.h"
#include "gtest/gtest.h"
#include "tests/fault/fault_test.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/sequence_pieces.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;
using Ints = std::vector<int32_t>;

constexpr int64_t kWordCount = 30, kWidth = 4, kHidden = 6;
constexpr rlim_t kStackBytes =
    1 << 20;  // of each of the server's threads: ten bytes a level of the deepest tree

// "trees": a binary TreeLSTM that reads text, too. "sums": a child-sum one, of at most 40 cells a request.
constexpr char kBinary[] = R"(
cell_types { name: "leaf" cell: "treelstm_leaf" reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "words" } parameters { name: "W" tensors: "W" } }
cell_types { name: "node" cell: "treelstm_internal" parameters { name: "U" tensors: "U2" }
  parameters { name: "U_f0" tensors: "U_f" } parameters { name: "U_f1" tensors: "U_g" } }
tree { leaf: "leaf" internal: "node" }
)";
constexpr char kChildSum[] = R"(
cell_types { name: "node" cell: "treelstm_childsum" reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "words" } parameters { name: "W" tensors: "W" }
  parameters { name: "U" tensors: "U" } }
cell_types { name: "edge" cell: "treelstm_childsum_edge" reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "words" } parameters { name: "W_f" tensors: "W_f" }
  parameters { name: "U_f" tensors: "U_f" } }
tree { internal: "node" edge: "edge" }
max_nodes: 40
)";

const std::map<std::string, std::vector<int64_t>>& Shapes() {
  static const std::map<std::string, std::vector<int64_t>> shapes = {
      {"words", {kWordCount, kWidth}},    {"W", {3 * kHidden, kWidth}},
      {"U2", {3 * kHidden, 2 * kHidden}}, {"U", {3 * kHidden, kHidden}},
      {"U_f", {kHidden, kHidden}},        {"U_g", {kHidden, kHidden}},
      {"W_f", {kHidden, kWidth}}};
  return shapes;
}

std::map<std::string, std::vector<float>> Weights() {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::map<std::string, std::vector<float>> values;
  for (const auto& [tensor, shape] : Shapes()) {
    std::vector<float>& v = values[tensor];
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) v.push_back(draw(random));
  }
  return values;
}

// Both models as the papers have them, in double, a node at a time.
class TreeReference {
 public:
  using Vector = std::vector<double>;
  struct State {
    Vector h = Vector(kHidden), c = Vector(kHidden);
  };

  State Leaf(int32_t word) const {
    Vector gates(3 * kHidden);
    Add("W", Word(word), gates);
    return Close(gates, Vector(kHidden));
  }
  State Internal(const State& left, const State& right) const {
    Vector both = left.h, gates(3 * kHidden), first(kHidden), second(kHidden);
    both.insert(both.end(), right.h.begin(), right.h.end());
    Add("U2", both, gates);
    Add("U_f", left.h, first);
    Add("U_g", right.h, second);
    Vector kept(kHidden);
    for (size_t i = 0; i < kHidden; ++i) {
      kept[i] = Sigmoid(first[i]) * left.c[i] + Sigmoid(second[i]) * right.c[i];
    }
    return Close(gates, kept);
  }
  // The root's h of a tree as CHILDREN says it.
  Vector Binary(const Ints& tokens, const Ints& children) const {
    std::vector<State> nodes;
    for (const int32_t token : tokens) nodes.push_back(Leaf(token));
    for (size_t k = 0; k + 1 < children.size(); k += 2) {
      nodes.push_back(Internal(nodes[static_cast<size_t>(children[k])],
                               nodes[static_cast<size_t>(children[k + 1])]));
    }
    return nodes.back().h;
  }
  // The same of a child-sum tree of one word at every node; parents come after their children.
  Vector Sums(const Ints& parents, int32_t word) const {
    std::vector<State> nodes(parents.size());
    std::vector<Vector> sums(parents.size(), Vector(kHidden)), kept = sums;
    for (size_t n = 0; n < parents.size(); ++n) {
      Vector gates(3 * kHidden), forget(kHidden);
      Add("W", Word(word), gates);
      Add("U", sums[n], gates);
      nodes[n] = Close(gates, kept[n]);
      if (parents[n] < 0) return nodes[n].h;
      const auto parent = static_cast<size_t>(parents[n]);
      Add("W_f", Word(word), forget);
      Add("U_f", nodes[n].h, forget);
      for (size_t i = 0; i < kHidden; ++i) {
        sums[parent][i] += nodes[n].h[i];
        kept[parent][i] += Sigmoid(forget[i]) * nodes[n].c[i];
      }
    }
    return {};
  }

 private:
  static double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  Vector Word(int32_t word) const {
    const auto at = weights_.at("words").begin() + word * kWidth;
    return Vector(at, at + kWidth);
  }
  void Add(const std::string& matrix, const Vector& x, Vector& y) const {
    const std::vector<float>& m = weights_.at(matrix);
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) y[i] += double{m[i * x.size() + j]} * x[j];
    }
  }
  // Gates i, o, u, one upon the other.
  static State Close(const Vector& gates, const Vector& kept) {
    State s;
    for (size_t i = 0; i < kHidden; ++i) {
      s.c[i] = Sigmoid(gates[i]) * std::tanh(gates[2 * kHidden + i]) + kept[i];
      s.h[i] = Sigmoid(gates[kHidden + i]) * std::tanh(s.c[i]);
    }
    return s;
  }
  const std::map<std::string, std::vector<float>> weights_ = Weights();
};

void AddTreeModel(const std::string& repository, const std::string& name, const char* config) {
  const std::string folder = repository + "/" + name;
  std::filesystem::create_directories(folder + "/1");
  std::ofstream(folder + "/config.textproto") << config;
  const std::map<std::string, std::vector<float>> values = Weights();
  std::vector<SafetensorsSource> sources;
  for (const auto& [tensor, shape] : Shapes())
    sources.push_back({tensor, shape, values.at(tensor)});
  ASSERT_TRUE(WriteSafetensors(folder + "/1/weights.safetensors", sources).ok());
  std::ofstream words(folder + "/1/vocabulary.txt");
  for (int64_t i = 0; i + 1 < kWordCount; ++i) words << "w" << i << "\n";
  words << "\xe6\xa0\x91\n";
}

ModelInferRequest Binary(const Ints& tokens, const Ints& children) {
  ModelInferRequest request;
  request.set_model_name("trees");
  SetTensor(request, "TOKENS", "INT32", {static_cast<int64_t>(tokens.size())}, tokens);
  if (!children.empty()) {
    SetTensor(request, "CHILDREN", "INT32", {static_cast<int64_t>(children.size() / 2), 2},
              children);
  }
  return request;
}

ModelInferRequest Parents(const Ints& parents, const std::string& model = "sums") {
  ModelInferRequest request;
  request.set_model_name(model);
  const int64_t nodes = static_cast<int64_t>(parents.size());
  SetTensor(request, "TOKENS", "INT32", {nodes}, Ints(parents.size(), 3));
  SetTensor(request, "PARENT", "INT32", {nodes}, parents);
  return request;
}

// A request whose TREE has these raw bytes.
ModelInferRequest RawText(const std::string& bytes) {
  ModelInferRequest request;
  request.set_model_name("trees");
  SetTensor(request, "TREE", "BYTES", {1}, std::vector<char>(bytes.begin(), bytes.end()));
  return request;
}

std::string Frame(uint32_t length, const std::string& text) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

ModelInferRequest Text(const std::string& text) {
  return RawText(Frame(static_cast<uint32_t>(text.size()), text));
}

ModelInferRequest With(ModelInferRequest request, const Ints& lengths) {
  SetTensor(request, "LENGTHS", "INT32", {static_cast<int64_t>(lengths.size())}, lengths);
  return request;
}

class TreeFaultTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    const std::string repository = FaultRepository();
    AddTreeModel(repository, "trees", kBinary);
    AddTreeModel(repository, "sums", kChildSum);
    // A recursion that trees' depth drives would not get far on such stacks.
    rlimit stack;
    getrlimit(RLIMIT_STACK, &stack);
    const rlimit small = {.rlim_cur = kStackBytes, .rlim_max = stack.rlim_max};
    setrlimit(RLIMIT_STACK, &small);
    ASSERT_NO_FATAL_FAILURE(Serve(repository, {"--devices=cpu:0"}));
    setrlimit(RLIMIT_STACK, &stack);
    good_ = Answer(Binary({5, 29, 0}, {1, 2, 0, 3}));
    ASSERT_EQ(good_.size(), static_cast<size_t>(kHidden));
  }
  void TearDown() override {
    EXPECT_EQ(Answer(Binary({5, 29, 0}, {1, 2, 0, 3})), good_) << "the next good tree";
    FaultTest::TearDown();
  }
  static std::vector<float> Answer(const ModelInferRequest& request) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_TRUE(status.ok()) << status.error_code() << ": " << status.error_message();
    return FirstOutput(answer);
  }
  static void ExpectNear(const std::vector<float>& values, const std::vector<double>& expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
  }
  static void Invalid(const ModelInferRequest& request, const std::string& text) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos)
        << status.error_message() << "\nexpected: " << text;
  }

  static std::vector<float> good_;
};
std::vector<float> TreeFaultTest::good_;

TEST_F(TreeFaultTest, AllFormsOfATreeHaveOneAnswer) {
  ExpectNear(good_, TreeReference().Binary({5, 29, 0}, {1, 2, 0, 3}));
  EXPECT_EQ(Answer(Text("(3 (2 w5) (4 (1 \xe6\xa0\x91) (2 w0)))")), good_);
  ModelInferRequest parents = Parents({4, 4, 1, 1, -1}, "trees");
  const Ints tokens = {5, 1, 29, 0, 1};
  parents.set_raw_input_contents(0, reinterpret_cast<const char*>(tokens.data()), 20);
  EXPECT_EQ(Answer(parents), good_);
  ModelInferRequest wide = Binary({5, 29, 0}, {});
  SetTensor(wide, "CHILDREN", "INT64", {2, 2}, std::vector<int64_t>{1, 2, 0, 3});
  EXPECT_EQ(Answer(wide), good_);
  // Beside another tree in one message: the same bits.
  std::vector<float> both = Answer(With(Binary({7, 5, 29, 0}, {1, 2, 0, 3}), {1, 3}));
  ASSERT_EQ(both.size(), 2 * good_.size());
  both.erase(both.begin(), both.begin() + kHidden);
  EXPECT_EQ(both, good_);
}

TEST_F(TreeFaultTest, S4AModelWithoutAStateHasNoSequences) {
  ModelInferRequest piece = Piece(7, Binary({5, 29, 0}, {1, 2, 0, 3}));
  Invalid(piece, "this model keeps no state between requests");
  Invalid(Piece(7, piece, Mark::kStart), "this model keeps no state between requests");
  const MetricsPage page(*server_);
  EXPECT_EQ(page.Sum("cellbatch_sequences"), 0);
  EXPECT_EQ(page.Sum("cellbatch_sequence_changes_total"), 0);
}

TEST_F(TreeFaultTest, V9FramesOfBytes) {
  Invalid(RawText(""), "raw contents end before element 0 of 1");
  Invalid(RawText("abc"), "raw contents end before element 0 of 1");
  Invalid(RawText(Frame(9, "(1 w1)")), "element 0 is 9 bytes long, 6 are left");
  Invalid(RawText(Frame(0xFFFFFFFF, "(1 w1)")), "element 0 is 4294967295 bytes long, 6 are left");
  Invalid(RawText(Frame(6, "(1 w1)") + "x"), "1 bytes follow the last of 1 elements");
  Invalid(RawText(Frame(6, "(1 w1)") + Frame(6, "(1 w1)")),
          "10 bytes follow the last of 1 elements");
  ModelInferRequest two = Text("(1 w1)");
  two.mutable_inputs(0)->set_shape(0, 2);
  Invalid(two, "dimension 0 is 2, expected 1");
  ModelInferRequest typed = Text("(1 w1)");
  typed.clear_raw_input_contents();
  typed.mutable_inputs(0)->mutable_contents()->add_bytes_contents(
      "(3 (2 w5) (4 (1 \xe6\xa0\x91) (2 w0)))");
  EXPECT_EQ(Answer(typed), good_);
  typed.mutable_inputs(0)->mutable_contents()->add_bytes_contents("(1 w1)");
  Invalid(typed, "bytes_contents has 2 values, its shape needs 1");
  Invalid(Text(std::string("(1 w\0 1)", 8)), "input TREE: byte 6: \"1\" is one word too many");
  Invalid(Text(std::string("(1 w1\0)", 7)), "word 0 (\"w1\\000\") is not in the vocabulary");
}

TEST_F(TreeFaultTest, V12ChildrenThatAreNoTree) {
  const Ints three = {1, 2, 3};
  Invalid(Binary(three, {1, 2, 0, 5}),
          "model \"trees\": input CHILDREN: row 1 (node 4): child 1 is 5, the nodes before it are "
          "0 to 3");
  Invalid(Binary(three, {1, 2, 0, 4}),
          "row 1 (node 4): child 1 is 4, the nodes before it are 0 to 3");
  Invalid(Binary(three, {1, -1, 0, 3}),
          "row 0 (node 3): child 1 is -1, the nodes before it are 0 to 2");
  Invalid(Binary(three, {1, 2, 2, 3}),
          "row 1 (node 4): child 0 is 2, which is a child of node 3 already");
  Invalid(Binary(three, {1, 2, 3, 3}),
          "row 1 (node 4): child 1 is 3, which is a child of node 4 already");
  Invalid(Binary({1, 2, 3, 4}, {0, 1, 2, 3}), "2 rows, a binary tree of 4 leaves has 3");
  Invalid(Binary(three, {0, 1, 3, 2, 4, 2}), "3 rows, a binary tree of 3 leaves has 2");
  Invalid(Binary(three, {}), "0 rows, a binary tree of 3 leaves has 2");
  ModelInferRequest empty = Binary(three, {});
  SetTensor(empty, "CHILDREN", "INT32", {0, 2}, Ints());
  Invalid(empty, "0 rows, a binary tree of 3 leaves has 2");
  ModelInferRequest alone = Binary({1}, {});
  const std::vector<float> leaf = Answer(alone);
  SetTensor(alone, "CHILDREN", "INT32", {0, 2}, Ints());
  EXPECT_EQ(Answer(alone), leaf) << "a single leaf is a tree";
  ModelInferRequest flat = Binary(three, {});
  SetTensor(flat, "CHILDREN", "INT32", {4}, Ints{1, 2, 0, 3});
  Invalid(flat, "input CHILDREN of model \"trees\": shape has 1 dimensions, expected 2");
  Invalid(Binary({1, 30}, {0, 1}),
          "input TOKENS of model \"trees\": token 1 is 30, the vocabulary ends at 29");
}

TEST_F(TreeFaultTest, V12ParentsThatAreNoTree) {
  const TreeReference reference;
  ExpectNear(Answer(Parents({-1})), reference.Sums({-1}, 3));
  ExpectNear(Answer(Parents({1, 2, -1, 2, 2, 2})), reference.Sums({1, 5, 5, 5, 5, -1}, 3));
  Invalid(Parents({-1, 0, -1}),
          "model \"sums\": input PARENT: nodes 0 and 2 are both roots (parent -1)");
  Invalid(Parents({1, 2, 0}), "none of 3 nodes is the root (parent -1)");
  Invalid(Parents({-1, 2, 1, 0}),
          "node 1 does not lead to the root: its parents (the first is 2) run in a circle");
  Invalid(Parents({-1, 1}), "node 1 is its own parent");
  ModelInferRequest blank = Parents({1, -1}, "trees");
  blank.mutable_raw_input_contents(0)->replace(4, 4, "\xff\xff\xff\xff");
  Invalid(blank, "token 1 is -1, the vocabulary ends at 29; 0 will do where no cell reads it");
  Invalid(Parents({-1, -2}), "the parent of node 1 is -2, nodes are 0 to 1 (-1: the root)");
  Invalid(Parents({-1, 2}), "the parent of node 1 is 2, nodes are 0 to 1 (-1: the root)");
  Invalid(Parents({-1, std::numeric_limits<int32_t>::min()}),
          "the parent of node 1 is -2147483648");
  Invalid(Parents({-1, 0, 0, 0}, "trees"), "node 0 has 3 children, cell type \"node\" takes 2");
  ModelInferRequest shorter = Parents({-1, 0});
  shorter.mutable_inputs(1)->set_shape(0, 1);
  shorter.mutable_raw_input_contents(1)->resize(4);
  Invalid(shorter, "input PARENT: 1 nodes, TOKENS has 2");
  ModelInferRequest both = Binary({1, 2, 3}, {1, 2, 0, 3});
  SetTensor(both, "PARENT", "INT32", {3}, Ints{-1, 0, 0});
  Invalid(both, "input CHILDREN: given beside PARENT; one of them says it all");
}

TEST_F(TreeFaultTest, V12NodesBeyondTheCap) {
  Answer(Parents(
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, -1}));  // 39 cells
  Ints chain;
  for (int32_t i = 1; i <= 20; ++i) chain.push_back(i);
  chain.push_back(-1);
  Invalid(Parents(chain), "21 nodes take 41 cells, the model takes 40");
  Invalid(Parents(Ints(41, -1)), "input PARENT: 41 nodes, the model takes 40");
  Invalid(Binary(Ints(600'000, 1), Ints(2 * 599'999, 0)),
          "input TOKENS: 1199999 nodes, the model takes 1048576");
}

TEST_F(TreeFaultTest, V12ChainsOfAHundredThousand) {
  constexpr int32_t kDeep = 100'000;
  Ints children, tokens(kDeep + 1, 1);
  // Both ends count: the deepest words are others than those near the root.
  for (int32_t k = 0; k < 20; ++k) {
    tokens[static_cast<size_t>(k)] = 2 + k % 7;
    tokens[static_cast<size_t>(kDeep - k)] = 3 + k % 11;
  }
  for (int32_t k = 0; k < kDeep; ++k) {
    children.push_back(k == 0 ? 0 : kDeep + k);
    children.push_back(k + 1);
  }
  const std::vector<double> expected = TreeReference().Binary(tokens, children);
  const double before = MetricsPage(*server_).Cells("trees");
  ExpectNear(Answer(Binary(tokens, children)), expected);
  EXPECT_EQ(MetricsPage(*server_).Cells("trees") - before, 2 * kDeep + 1) << "every node, once";
  std::string text;
  const auto leaf = [&](int32_t k) { return "(1 w" + std::to_string(tokens[k]) + ")"; };
  for (int32_t k = 0; k < kDeep; ++k) text += "(0 ";
  text += leaf(0);
  for (int32_t k = 0; k < kDeep; ++k) text += leaf(k + 1) + ")";
  ExpectNear(Answer(Text(text)), expected);
  EXPECT_EQ(MetricsPage(*server_).Cells("trees") - before, 2 * (2 * kDeep + 1));
  // And to the right: the deep child is the other one.
  Ints mirrored = children;
  for (size_t k = 0; k < mirrored.size(); k += 2) std::swap(mirrored[k], mirrored[k + 1]);
  ExpectNear(Answer(Binary(tokens, mirrored)), TreeReference().Binary(tokens, mirrored));
  // The nodes of a PARENT tree, deepest first.
  Ints parents;
  for (int32_t n = 1; n <= kDeep; ++n) parents.push_back(n);
  parents.push_back(-1);
  EXPECT_EQ(Answer(Parents(parents, "trees")).size(), static_cast<size_t>(kHidden));
}

TEST_F(TreeFaultTest, V13TextThatIsNoTree) {
  Invalid(Text(""), "model \"trees\": input TREE: the text has no tree");
  Invalid(Text(" \n"), "the text has no tree");
  Invalid(Text("()"), "byte 0: an empty pair of brackets");
  Invalid(Text("(2 (3 w1) (3 w2)"),
          "byte 16: the text ends with 1 brackets open, the last of them at byte 0");
  Invalid(Text("(2 w1))"), "byte 6: a closing bracket, and none is open");
  Invalid(Text("w1"), "byte 0: \"w1\" stands outside of brackets");
  Invalid(Text("(1 w1 w2 w3)"), "byte 6: \"w2\" is one word too many for the leaf at byte 0");
  Invalid(Text("(w1 (w2 w3))"), "byte 0: \"w1\" stands in front of a tree: a label is a number");
  Invalid(Text("(2 (1 w1) w2)"), "byte 10: \"w2\" stands behind a tree");
  Invalid(Text("(2 (1 w1) (1 w2) (1 w3))"), "node 3 has 3 children, cell type \"node\" takes 2");
  EXPECT_EQ(Answer(Text("(0 (0 w1))")).size(), static_cast<size_t>(kHidden))
      << "the other child reads zeros";
  Invalid(Text("(1 w1) (1 w2)"), "2 trees; several in one message come with LENGTHS");
  Invalid(Text("(2 (1 w1) (1 na\xc3\xafve))"),
          "word 1 (\"na\\303\\257ve\") is not in the vocabulary");
  Invalid(Text(std::string(1 << 20, '(')), "the text ends with 1048576 brackets open");
  Invalid(Text(std::string(1 << 21, '(')),
          "byte 1048576: a node too many, the model takes 1048576");
  Invalid(Text(std::string(1 << 20, ')')), "byte 0: a closing bracket, and none is open");
  Invalid(Text("(1 " + std::string(1 << 20, 'x') + ")"), "is not in the vocabulary");
  ModelInferRequest beside = Text("(1 w1)");
  SetTensor(beside, "TOKENS", "INT32", {1}, Ints{1});
  Invalid(beside, "input TOKENS: given beside TREE; one of them says it all");
  ModelInferRequest sums = Text("(1 w1)");
  sums.set_model_name("sums");
  Invalid(sums, "\"TREE\" is none of model \"sums\"'s inputs");
}

TEST_F(TreeFaultTest, V18LengthsOfSeveralTrees) {
  const ModelInferRequest two = Binary({1, 2, 3, 4}, {0, 1, 0, 1});
  EXPECT_EQ(Answer(With(two, {2, 2})).size(), static_cast<size_t>(2 * kHidden));
  Invalid(With(two, {2, 1}), "input LENGTHS: the lengths add up to 3, TOKENS has 4");
  Invalid(With(two, {2, 3}), "input LENGTHS: lengths 0 to 1 add up to 5, TOKENS has 4");
  Invalid(With(two, {0, 4}), "input LENGTHS: length 0 is 0, the least is 1");
  Invalid(With(two, {2, -2}), "input LENGTHS: length 1 is -2, the least is 1");
  Invalid(With(two, {std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max()}),
          "length 0 is 2147483647, the model takes 268435456");
  ModelInferRequest wide = two;
  SetTensor(wide, "LENGTHS", "INT64", {2}, std::vector<int64_t>{int64_t{1} << 32, 2});
  Invalid(wide, "value 0 is 4294967296, which is beyond INT32");
  Invalid(With(two, {1, 3}),
          "tree 1: row 1 (node 4): child 0 is 0, which is a child of node 3 already");
  EXPECT_EQ(Answer(With(Text("(1 w1) (2 (1 w2) (1 w3))"), {1, 2})).size(),
            static_cast<size_t>(2 * kHidden));
  Invalid(With(Text("(1 w1) (2 (1 w2) (1 w3))"), {2, 1}), "length 0 is 2, that tree has 1 leaves");
  Invalid(With(Text("(1 w1) (2 (1 w2) (1 w3))"), {3}), "1 lengths, TREE has 2 trees");
  Invalid(With(Parents({1, -1, -1}), {2, 2}), "lengths 0 to 1 add up to 4, PARENT has 3");
}

}  // namespace
}  // namespace cellbatch

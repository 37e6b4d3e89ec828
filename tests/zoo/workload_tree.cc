// treelstm, treelstm_2type, treegru, mvrnn, childsum
#include <random>

#include "tests/zoo/reference_tree.h"
#include "tests/zoo/workload_parts.h"

namespace cellbatch::zoo {
namespace {

struct Tree {
  BinaryTree shape;
  std::vector<int32_t> tokens;
  std::vector<int32_t> types;  // of internal nodes; empty: there is one type
};

std::vector<std::string> InternalNames(int types) {
  return types == 1 ? std::vector<std::string>{"internal"}
                    : std::vector<std::string>{"internal0", "internal1"};
}

// Each internal node's type is a fair coin, as in ED-Batch.
std::vector<Tree> Trees(const Data<BinaryTree>& data, const Sizes& sizes, size_t items, int types) {
  std::mt19937_64 coin(1);
  std::vector<Tree> trees;
  for (const BinaryTree& shape :
       Some(data.items, items, [](const BinaryTree& t) { return t.words.size(); })) {
    Tree& tree = trees.emplace_back();
    tree.shape = shape;
    tree.tokens = WordIds(shape.words, sizes.vocabulary);
    if (types == 1) continue;
    for (size_t k = 0; k < shape.children.size(); ++k) {
      tree.types.push_back(static_cast<int32_t>(coin() >> 63));
    }
  }
  return trees;
}

Asked Ask(const Tree& tree) {
  return {TreeTensors(tree.shape, tree.tokens, tree.types), {"OUTPUT", "NODE_OUTPUTS"}, {}};
}

// The root's, and every node's.
Answer AtNodes(const std::vector<Vec>& y, size_t root) {
  return {{"OUTPUT", y[root]}, {"NODE_OUTPUTS", Joined(y)}};
}

std::string TreeText(const std::vector<std::string>& internal) {
  std::string text = "tree {\n  leaf: \"leaf\"\n";
  for (const std::string& cell : internal) text += "  internal: \"" + cell + "\"\n";
  return text + "  output: \"output\"\n}\n";
}

}  // namespace

Workload TreeLstm(const Sizes& sizes, size_t items, int internal_types) {
  Workload made;
  const int64_t h = sizes.hidden;
  const std::vector<std::string> internal = InternalNames(internal_types);
  WeightSet& weights = made.model.weights;
  weights.AddTable("embedding", sizes.vocabulary, sizes.embedding);
  weights.AddMatrix("leaf.W", 3 * h, sizes.embedding);
  weights.AddBias("leaf.b", 3 * h);
  std::string text =
      CellType("leaf", "treelstm_leaf", {{"x", "embed"}}, {"W", "b", "embed/table=embedding"});
  for (const std::string& cell : internal) {
    weights.AddMatrix(cell + ".U", 3 * h, 2 * h);
    weights.AddBias(cell + ".b", 3 * h);
    weights.AddMatrix(cell + ".U_f0", h, h);
    weights.AddMatrix(cell + ".U_f1", h, h);
    weights.AddBias(cell + ".b_f", h);
    text += CellType(cell, "treelstm_internal", {}, {"U", "b", "U_f0", "U_f1", "b_f"});
  }
  AddLinear(weights, "output", h, sizes.classes);
  made.model.config = text + OutputType() + TreeText(internal);
  const Data<BinaryTree> data = SstTrees();
  made.source = data.source;
  const std::vector<Tree> trees = Trees(data, sizes, items, internal_types);
  for (const Tree& tree : trees) made.requests.push_back(Ask(tree));
  made.paper_outputs = {"NODE_OUTPUTS"};
  made.reference = [weights, trees, internal](size_t i, const Answer&) {
    const Tree& tree = trees[i];
    const std::vector<Vec> x = Rows(weights.M("embedding"), tree.tokens);
    const auto y = TreeLstmReference(weights, x, tree.shape, tree.types, internal);
    return AtNodes(y, y.size() - 1);
  };
  return made;
}

Workload TreeGru(const Sizes& sizes, size_t items) {
  Workload made;
  const int64_t h = sizes.hidden;
  WeightSet& weights = made.model.weights;
  weights.AddTable("embedding", sizes.vocabulary,
                   h);  // a leaf is an update of the embedding itself
  weights.AddMatrix("leaf.U", 3 * h, h);
  weights.AddBias("leaf.b", 3 * h);
  weights.AddMatrix("internal.U", 3 * h, h);
  weights.AddBias("internal.b", 3 * h);
  AddLinear(weights, "output", h, sizes.classes);
  made.model.config =
      CellType("leaf", "treegru_leaf", {{"x", "embed"}}, {"U", "b", "embed/table=embedding"}) +
      CellType("internal", "treegru_internal", {}, {"U", "b"}) + OutputType() +
      TreeText({"internal"});
  const Data<BinaryTree> data = SstTrees();
  made.source = data.source;
  const std::vector<Tree> trees = Trees(data, sizes, items, 1);
  for (const Tree& tree : trees) made.requests.push_back(Ask(tree));
  made.paper_outputs = {"NODE_OUTPUTS"};
  made.reference = [weights, trees](size_t i, const Answer&) {
    const std::vector<Vec> x = Rows(weights.M("embedding"), trees[i].tokens);
    const auto y = TreeGruReference(weights, x, trees[i].shape);
    return AtNodes(y, y.size() - 1);
  };
  return made;
}

Workload MvRnn(const Sizes& sizes, size_t items) {
  Workload made;
  const int64_t h = sizes.hidden;
  WeightSet& weights = made.model.weights;
  weights.AddTable("leaf.vectors", sizes.vocabulary, h);
  weights.AddMatrix("leaf.matrices", sizes.vocabulary, h * h, static_cast<double>(h));
  weights.AddMatrix("internal.W_v", h, 2 * h);
  weights.AddBias("internal.b_v", h);
  weights.AddMatrix("internal.W_m", h, 2 * h);
  weights.AddMatrix("internal.b_m", h, h);
  AddLinear(weights, "output", h, sizes.classes);
  made.model.definitions["below_v"] =
      "# x is the v of the node below.\n"
      "name: \"below_v\"\n"
      "inputs { name: \"x\" columns { name: \"v\" type: FP32 dims: \"D\" } }\n"
      "outputs { column: \"x\" value: \"x.v\" }\n";
  made.model.config = CellType("leaf", "mv_leaf", {}, {"vectors", "matrices"}) +
                      CellType("internal", "mv_internal", {}, {"W_v", "b_v", "W_m", "b_m"}) +
                      CellType("output", "linear", {{"x", "below_v"}}, {"W", "b"}) +
                      TreeText({"internal"});
  const Data<BinaryTree> data = SstTrees();
  made.source = data.source;
  const std::vector<Tree> trees = Trees(data, sizes, items, 1);
  for (const Tree& tree : trees) made.requests.push_back(Ask(tree));
  made.paper_outputs = {"NODE_OUTPUTS"};
  made.reference = [weights, trees](size_t i, const Answer&) {
    const auto y = MvRnnReference(weights, trees[i].tokens, trees[i].shape);
    return AtNodes(y, y.size() - 1);
  };
  return made;
}

Workload ChildSum(const Sizes& sizes, size_t items) {
  Workload made;
  const int64_t h = sizes.hidden;
  WeightSet& weights = made.model.weights;
  weights.AddTable("embedding", sizes.vocabulary, sizes.embedding);
  AddRecurrent(weights, "node", 3, sizes.embedding, h);
  weights.AddMatrix("edge.W_f", h, sizes.embedding);
  weights.AddMatrix("edge.U_f", h, h);
  weights.AddBias("edge.b_f", h);
  AddLinear(weights, "output", h, sizes.classes);
  made.model.config = CellType("words", "embed", {}, {"table=embedding"}) +
                      CellType("node", "treelstm_childsum", {}, {"W", "U", "b"}) +
                      CellType("edge", "treelstm_childsum_edge", {}, {"W_f", "U_f", "b_f"}) +
                      OutputType() + R"(
tree {
  embedding: "words"
  internal: "node"
  edge: "edge"
  output: "output"
}
)";
  const Data<DependencyTree> data = EwtTrees();
  made.source = data.source;
  const std::vector<DependencyTree> trees =
      Some(data.items, items, [](const DependencyTree& t) { return t.words.size(); });
  for (const DependencyTree& tree : trees) {
    made.requests.push_back(
        {TreeTensors(tree, WordIds(tree.words, sizes.vocabulary)), {"OUTPUT", "NODE_OUTPUTS"}, {}});
  }
  made.paper_outputs = {"NODE_OUTPUTS"};
  made.reference = [weights, trees, sizes](size_t i, const Answer&) {
    const DependencyTree& tree = trees[i];
    const std::vector<Vec> x = Rows(weights.M("embedding"), WordIds(tree.words, sizes.vocabulary));
    const auto root = std::find(tree.parent.begin(), tree.parent.end(), -1);
    return AtNodes(ChildSumReference(weights, x, tree),
                   static_cast<size_t>(root - tree.parent.begin()));
  };
  return made;
}

}  // namespace cellbatch::zoo

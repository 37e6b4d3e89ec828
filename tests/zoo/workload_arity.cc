// childsum_by_arity: the child-sum TreeLSTM as the JIT paper's sub-graphs: a cell type of its own for
// each number of children, everything that depends on it inside. To compare with, not to serve with.
#include <fmt/format.h>

#include <algorithm>

#include "tests/zoo/reference_tree.h"
#include "tests/zoo/workload_parts.h"

namespace cellbatch::zoo {
namespace {

// A cell has eight inputs at most, x among them. Nodes of more children (four in a thousand) are served
// as `childsum` serves all: an edge a child, and one type for the rest of the node.
constexpr int kMostChildren = 7;
// In `types`. Words come first: what they leave is what the others read.
constexpr size_t kWord = 0, kFirstArity = 1, kEdge = kFirstArity + kMostChildren + 1,
                 kNode = kEdge + 1, kOutput = kNode + 1;

std::string Op(const std::string& name, const char* kind, const std::string& one,
               const std::string& two = "") {
  return fmt::format("ops {{ name: \"{}\" kind: {} args: \"{}\"{} }}\n", name, kind, one,
                     two.empty() ? "" : fmt::format(" args: \"{}\"", two));
}

// i, f, u, o of Tai et al. for exactly `children` children, as one cell.
std::string Definition(int children) {
  std::string text = fmt::format("name: \"childsum{}\"\n", children) +
                     "inputs { name: \"x\" columns { name: \"x\" type: FP32 dims: \"D\" } }\n";
  for (int k = 0; k < children; ++k) {
    text += fmt::format(
        "inputs {{ name: \"child{}\" columns {{ name: \"h\" type: FP32 dims: \"H\" }} "
        "columns {{ name: \"c\" type: FP32 dims: \"H\" }} }}\n",
        k);
  }
  text +=
      "parameters { name: \"W\" dims: \"3*H\" dims: \"D\" }\n"
      "parameters { name: \"b\" dims: \"3*H\" }\n";
  if (children > 0) {
    text +=
        "parameters { name: \"U\" dims: \"3*H\" dims: \"H\" }\n"
        "parameters { name: \"W_f\" dims: \"H\" dims: \"D\" }\n"
        "parameters { name: \"U_f\" dims: \"H\" dims: \"H\" }\n"
        "parameters { name: \"b_f\" dims: \"H\" }\n";
  }
  text += Op("product_x", "MATMUL", "x.x", "W") + Op("from_x", "ADD", "b", "product_x");
  std::string gates = "from_x";
  if (children > 0) {
    std::string sum = "child0.h";
    for (int k = 1; k < children; ++k) {
      const std::string next = fmt::format("sum{}", k);
      text += Op(next, "ADD", sum, fmt::format("child{}.h", k));
      sum = next;
    }
    text += Op("from_h", "MATMUL", sum, "U") + Op("gates", "ADD", "from_x", "from_h") +
            Op("product_f", "MATMUL", "x.x", "W_f") + Op("forget", "ADD", "b_f", "product_f");
    gates = "gates";
  }
  const char* names[] = {"i", "o", "u"};
  for (int g = 0; g < 3; ++g) {
    text += fmt::format(
                "ops {{ name: \"sum_{}\" kind: SLICE args: \"{}\" begin: \"{}*H\" "
                "end: \"{}*H\" }}\n",
                names[g], gates, g, g + 1) +
            Op(names[g], g == 2 ? "TANH" : "SIGMOID", fmt::format("sum_{}", names[g]));
  }
  text += Op("c0", "MUL", "i", "u");
  for (int k = 0; k < children; ++k) {
    text += Op(fmt::format("u{}", k), "MATMUL", fmt::format("child{}.h", k), "U_f") +
            Op(fmt::format("s{}", k), "ADD", "forget", fmt::format("u{}", k)) +
            Op(fmt::format("f{}", k), "SIGMOID", fmt::format("s{}", k)) +
            Op(fmt::format("fc{}", k), "MUL", fmt::format("f{}", k), fmt::format("child{}.c", k)) +
            Op(fmt::format("c{}", k + 1), "ADD", fmt::format("c{}", k), fmt::format("fc{}", k));
  }
  const std::string c = fmt::format("c{}", children);
  return text + Op("squashed", "TANH", c) + Op("h", "MUL", "o", "squashed") +
         "outputs { column: \"h\" value: \"h\" }\n" +
         fmt::format("outputs {{ column: \"c\" value: \"{}\" }}\n", c);
}

// A request: words in an order that puts children first, then the root's output.
class Drawing {
 public:
  Drawing(const DependencyTree& tree, std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {
    const size_t n = tree.parent.size();
    for (size_t k = 0; k < n; ++k) words_.push_back(Add(kWord));
    std::vector<std::vector<size_t>> children(n);
    std::vector<size_t> waits(n), order;
    for (size_t k = 0; k < n; ++k) {
      if (tree.parent[k] >= 0) children[static_cast<size_t>(tree.parent[k])].push_back(k);
    }
    for (size_t k = 0; k < n; ++k) {
      waits[k] = children[k].size();
      if (waits[k] == 0) order.push_back(k);
    }
    number_.resize(n);
    for (size_t done = 0; done < order.size(); ++done) {
      const size_t word = order[done];
      AddNode(word, children[word]);
      const int32_t parent = tree.parent[word];
      if (parent >= 0 && --waits[static_cast<size_t>(parent)] == 0) {
        order.push_back(static_cast<size_t>(parent));
      }
    }
    const int32_t output = Add(kOutput);
    Edge(number_[order.back()], output, 0);
  }

  Asked Ask() const {
    Asked asked;
    asked.inputs = {IntsTensor("NODE_TYPES", types_),
                    Int32Tensor("EDGES", {static_cast<int64_t>(edges_.size() / 3), 3}, edges_),
                    IntsTensor("words.token", tokens_)};
    asked.outputs = {"OUTPUT"};
    return asked;
  }

 private:
  int32_t Add(size_t type) {
    types_.push_back(static_cast<int32_t>(type));
    return static_cast<int32_t>(types_.size()) - 1;
  }
  void Edge(int32_t from, int32_t to, int32_t input) {
    edges_.insert(edges_.end(), {from, to, input});
  }
  // Inputs are x, child0 .. of a word's own type; x, children, edges of the variadic one; x and child of an
  // edge.
  void AddNode(size_t word, const std::vector<size_t>& children) {
    const bool own = children.size() <= kMostChildren;
    std::vector<int32_t> brought;
    for (const size_t child : children) {
      if (own) continue;
      brought.push_back(Add(kEdge));
      Edge(words_[word], brought.back(), 0);
      Edge(number_[child], brought.back(), 1);
    }
    const int32_t node = number_[word] = Add(own ? kFirstArity + children.size() : kNode);
    Edge(words_[word], node, 0);
    for (size_t k = 0; k < children.size(); ++k) {
      Edge(number_[children[k]], node, own ? static_cast<int32_t>(k) + 1 : 1);
    }
    for (const int32_t edge : brought) Edge(edge, node, 2);
  }

  const std::vector<int32_t> tokens_;
  std::vector<int32_t> types_, edges_, words_, number_;
};

}  // namespace

Workload ChildSumByArity(const Sizes& sizes, size_t items) {
  Workload made = ChildSum(sizes, items);  // weights, and what is right
  ModelFolder& model = made.model;
  const size_t tree = model.config.find("tree {");
  model.config.resize(tree);
  std::string types;
  for (int children = 0; children <= kMostChildren; ++children) {
    const std::string name = fmt::format("childsum{}", children);
    model.definitions[name] = Definition(children);
    std::vector<std::string> parameters = {"W=node.W", "b=node.b"};
    if (children > 0) {
      for (const char* p : {"U=node.U", "W_f=edge.W_f", "U_f=edge.U_f", "b_f=edge.b_f"}) {
        parameters.push_back(p);
      }
    }
    model.config += CellType(name, name, {}, parameters);
    types += fmt::format("  types: \"{}\"\n", name);
  }
  model.config += "dag {\n  types: \"words\"\n" + types + R"(  types: "edge"
  types: "node"
  types: "output"
  output_type: "output"
}
)";
  const Data<DependencyTree> data = EwtTrees();
  made.requests.clear();
  for (const DependencyTree& item :
       Some(data.items, items, [](const DependencyTree& t) { return t.words.size(); })) {
    made.requests.push_back(Drawing(item, WordIds(item.words, sizes.vocabulary)).Ask());
  }
  made.paper_outputs = {"OUTPUT"};
  made.reference = [all = made.reference](size_t i, const Answer& got) -> Answer {
    return {{"OUTPUT", all(i, got).at("OUTPUT")}};
  };
  return made;
}

}  // namespace cellbatch::zoo

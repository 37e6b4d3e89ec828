#include "tests/zoo/reference_tree.h"

#include "cells/check.h"

namespace cellbatch::zoo {
namespace {

struct Node {
  Vec h, c;
};

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// W x + b of one of three gates (i, o, u; or r, z, c~) that stand in this order in W and b.
Vec GateOf(const Mat& stacked, const Vec& b, size_t gate, const Vec& x) {
  return Gate(stacked, gate, 3) * x + Gate(b, gate, 3);
}

Node TreeLstmLeaf(const WeightSet& weights, const Vec& x) {
  const Mat W = weights.M("leaf.W");
  const Vec b = weights.V("leaf.b");
  const Vec i = Sigmoid(GateOf(W, b, 0, x)), o = Sigmoid(GateOf(W, b, 1, x));
  const Vec u = Tanh(GateOf(W, b, 2, x));
  const Vec c = i * u;
  return {o * Tanh(c), c};
}

struct TreeLstmInternal {
  TreeLstmInternal(const WeightSet& weights, const std::string& cell)
      : U(weights.M(cell + ".U")),
        U_f1(weights.M(cell + ".U_f0")),
        U_f2(weights.M(cell + ".U_f1")),
        b(weights.V(cell + ".b")),
        b_f(weights.V(cell + ".b_f")) {}
  Node operator()(const Node& one, const Node& two) const {
    const Vec e = Concat(one.h, two.h);
    const Vec i = Sigmoid(GateOf(U, b, 0, e)), o = Sigmoid(GateOf(U, b, 1, e));
    const Vec u = Tanh(GateOf(U, b, 2, e));
    const Vec f1 = Sigmoid(U_f1 * one.h + b_f), f2 = Sigmoid(U_f2 * two.h + b_f);
    const Vec c = i * u + f1 * one.c + f2 * two.c;
    return {o * Tanh(c), c};
  }
  Mat U, U_f1, U_f2;
  Vec b, b_f;
};

// y = W h + b of cell "output".
std::vector<Vec> Outputs(const WeightSet& weights, const std::vector<Vec>& nodes) {
  const Mat W = weights.M("output.W");
  const Vec b = weights.V("output.b");
  std::vector<Vec> y;
  for (const Vec& h : nodes) y.push_back(W * h + b);
  return y;
}

}  // namespace

std::vector<Vec> TreeLstmReference(const WeightSet& weights, const std::vector<Vec>& x,
                                   const BinaryTree& tree, const std::vector<int32_t>& types,
                                   const std::vector<std::string>& internal) {
  std::vector<TreeLstmInternal> cells;
  for (const std::string& cell : internal) cells.emplace_back(weights, cell);
  std::vector<Node> nodes;
  for (const Vec& word : x) nodes.push_back(TreeLstmLeaf(weights, word));
  for (size_t k = 0; k < tree.children.size(); ++k) {
    const auto [one, two] = tree.children[k];
    const size_t type = types.empty() ? 0 : Index(types[k]);
    nodes.push_back(cells[type](nodes[Index(one)], nodes[Index(two)]));
  }
  std::vector<Vec> h;
  for (const Node& node : nodes) h.push_back(node.h);
  return Outputs(weights, h);
}

std::vector<Vec> TreeGruReference(const WeightSet& weights, const std::vector<Vec>& x,
                                  const BinaryTree& tree) {
  const auto update = [&](const std::string& cell, const Vec& s) {
    const Mat U = weights.M(cell + ".U");
    const Vec b = weights.V(cell + ".b");
    const Vec r = Sigmoid(GateOf(U, b, 0, s)), z = Sigmoid(GateOf(U, b, 1, s));
    const Vec candidate = Tanh(GateOf(U, b, 2, r * s));
    return z * s + (1 - z) * candidate;
  };
  std::vector<Vec> h;
  for (const Vec& word : x) h.push_back(update("leaf", word));
  for (const auto& [one, two] : tree.children) {
    h.push_back((update("internal", h[Index(one)]) + update("internal", h[Index(two)])) / 2);
  }
  return Outputs(weights, h);
}

std::vector<Vec> MvRnnReference(const WeightSet& weights, const std::vector<int32_t>& tokens,
                                const BinaryTree& tree) {
  const Mat vectors = weights.M("leaf.vectors"), matrices = weights.M("leaf.matrices");
  const Mat W_v = weights.M("internal.W_v"), W_m = weights.M("internal.W_m");
  const Vec b_v = weights.V("internal.b_v");
  const Mat b_m = weights.M("internal.b_m");
  const size_t size = vectors.columns;
  std::vector<Vec> v;
  std::vector<Mat> M;
  for (const int32_t token : tokens) {
    v.push_back(Row(vectors, token));
    M.push_back({size, size, Row(matrices, token)});
  }
  for (const auto& children : tree.children) {
    const size_t one = Index(children[0]), two = Index(children[1]);
    v.push_back(Tanh(W_v * Concat(M[one] * v[two], M[two] * v[one]) + b_v));
    M.push_back(W_m * Concat(M[one], M[two]) + b_m);
  }
  return Outputs(weights, v);
}

std::vector<Vec> ChildSumReference(const WeightSet& weights, const std::vector<Vec>& x,
                                   const DependencyTree& tree) {
  const Mat W = weights.M("node.W"), U = weights.M("node.U");
  const Mat W_f = weights.M("edge.W_f"), U_f = weights.M("edge.U_f");
  const Vec b = weights.V("node.b"), b_f = weights.V("edge.b_f");
  const size_t size = U.columns, n = x.size();
  // Whose children are all done is computed next.
  std::vector<int> waits(n);
  for (const int32_t parent : tree.parent) {
    if (parent >= 0) ++waits[Index(parent)];
  }
  std::vector<size_t> order;
  for (size_t k = 0; k < n; ++k) {
    if (waits[k] == 0) order.push_back(k);
  }
  std::vector<Vec> h_sum(n, Zeros(size)), fc_sum(n, Zeros(size)), h(n);
  for (size_t done = 0; done < order.size(); ++done) {
    const size_t node = order[done];
    const auto gate = [&](size_t g) {
      return Gate(W, g, 3) * x[node] + Gate(U, g, 3) * h_sum[node] + Gate(b, g, 3);
    };
    const Vec i = Sigmoid(gate(0)), o = Sigmoid(gate(1)), u = Tanh(gate(2));
    const Vec c = i * u + fc_sum[node];
    h[node] = o * Tanh(c);
    if (tree.parent[node] < 0) continue;
    const size_t parent = Index(tree.parent[node]);
    const Vec f = Sigmoid(W_f * x[parent] + U_f * h[node] + b_f);
    fc_sum[parent] = fc_sum[parent] + f * c;
    h_sum[parent] = h_sum[parent] + h[node];
    if (--waits[parent] == 0) order.push_back(parent);
  }
  Check(order.size() == n, "a dependency tree has a cycle");
  return Outputs(weights, h);
}

}  // namespace cellbatch::zoo

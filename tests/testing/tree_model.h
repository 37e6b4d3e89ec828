// Small tree models for tests, their requests, and what they must answer: in double, straight from the equations
// (algorithms.md section 8; Tai, Socher, Manning 2015), knowing nothing of cells, graphs or unfolders.
#ifndef CELLBATCH_TESTS_TESTING_TREE_MODEL_H_
#define CELLBATCH_TESTS_TESTING_TREE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/unfold/tree_unfolder.h"

namespace cellbatch::testing {

enum class TreeKind {
  kBinary,    // TreeLSTM as ED-Batch writes it: leaf, internal
  kTwoTypes,  // the same with two internal types
  kNary,  // three children, words at every node, through an embedding type; leaves are nodes, too
  kChildSum,      // words at every node; leaves are nodes, too
  kChildSumLeaf,  // the same with a leaf type
};

struct TreeRequest {
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> children = {};  // [m, 2]; or
  std::vector<int32_t> parents = {};   // [nodes]
  std::vector<int32_t> types = {};     // INTERNAL_TYPES; empty: absent
  std::vector<int32_t> lengths = {};   // empty: one tree
  // TREE, its length in front; the tensors above then describe it to Reference alone.
  std::string text = {};

  // Borrows from this.
  RequestInput Input(std::vector<std::string_view> outputs = {}) const;
  // Sends the same trees as TREE: words are w0, w1, .. (TreeModel's vocabulary). Binary ones.
  void MakeText();
  int64_t nodes() const {
    return static_cast<int64_t>(parents.empty() ? tokens.size() + children.size() / 2
                                                : parents.size());
  }
};

struct TreeModelSpec {
  TreeKind kind = TreeKind::kBinary;
  int32_t hidden = 4, width = 3, classes = 2, vocabulary = 20;
  bool output = true;
  int64_t max_nodes = 1 << 20;
};

class TreeModel {
 public:
  explicit TreeModel(const TreeModelSpec& sizes);

  std::shared_ptr<const Model> model() const { return model_; }
  const TreeSpec& spec() const { return spec_; }
  const Unfolder& unfolder() const { return *model_->unfolder; }
  bool node_tokens() const { return sizes_.kind >= TreeKind::kNary; }

  // A tree of about `size` nodes that the model takes.
  TreeRequest Random(std::mt19937_64& random, int size) const;
  // Several in one message.
  static TreeRequest Together(const std::vector<TreeRequest>& requests);

  // Unfolded and sealed; ends the process where that fails.
  CellGraph Graph(const TreeRequest& request, std::vector<std::string_view> outputs = {}) const;

  struct Answers {
    std::vector<double> h, c, y;  // of every node, in the request's numbers, end to end
    std::vector<double> root_h, root_c, root_y;  // of every tree
  };
  Answers Reference(const TreeRequest& request) const;

 private:
  using Vector = std::vector<double>;
  struct Node {
    std::vector<int32_t> children;
    int32_t token = -1;
    int32_t type = -1;  // of the internal ones; -1: a leaf
    Vector h, c, y;
  };
  void AddBinary();
  void AddNary();
  void AddChildSum(bool leaf);
  std::vector<Node> Nodes(const TreeRequest& request, size_t tree, size_t first_token,
                          size_t first_internal, std::vector<int32_t>& order) const;
  Vector Parameter(CellTypeId type, const char* name) const;
  Vector Product(CellTypeId type, const char* matrix, const Vector& x) const;
  Vector Word(CellTypeId type, int32_t token) const;
  void Compute(std::vector<Node>& nodes, Node& node) const;
  void ComputeLeaf(Node& node) const;
  void ComputeBinary(const std::vector<Node>& nodes, Node& node) const;
  void ComputeNary(const std::vector<Node>& nodes, Node& node) const;
  void ComputeChildSum(const std::vector<Node>& nodes, Node& node) const;

  TreeModelSpec sizes_;
  std::shared_ptr<Model> model_;
  TreeSpec spec_;
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_TREE_MODEL_H_

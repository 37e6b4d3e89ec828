#include "tests/ordering/paper_graphs.h"

#include "cells/check.h"

namespace cellbatch::ordering {
namespace {

using Nodes = std::vector<int32_t>;

size_t At(int64_t i) { return static_cast<size_t>(i); }

// By an inner node's number, leaf, output, sum; and how many types.
struct TreeTypes {
  int32_t even, odd, leaf, output, sum, all;
};
constexpr TreeTypes kOneType = {0, 0, 1, 2, 3, 4};        // I L O R
constexpr TreeTypes kTwoInnerTypes = {0, 1, 2, 3, 4, 5};  // I J L O R

const TreeTypes& TreeTypesOf(PaperGraph kind) {
  return kind == PaperGraph::kTwoTypes ? kTwoInnerTypes : kOneType;
}

// By inner node: its number if the tree is walked from the root, left before right.
Nodes PreOrder(const zoo::BinaryTree& tree) {
  const auto leaves = static_cast<int32_t>(tree.words.size());
  Nodes number(tree.children.size(), 0), open;
  int32_t next = 0;
  if (!tree.children.empty()) open.push_back(static_cast<int32_t>(tree.children.size()) - 1);
  while (!open.empty()) {
    const int32_t k = open.back();
    open.pop_back();
    number[At(k)] = next++;
    for (const int side : {1, 0}) {
      const int32_t child = tree.children[At(k)][At(side)];
      if (child >= leaves) open.push_back(child - leaves);
    }
  }
  return number;
}

// Its nodes with an output.
void Add(PaperGraph kind, const zoo::BinaryTree& tree, TypedGraph& graph, Nodes& outputs) {
  const TreeTypes& types = TreeTypesOf(kind);
  Nodes nodes;
  for (size_t i = 0; i < tree.words.size(); ++i) {
    nodes.push_back(graph.Add(types.leaf, {}));
  }
  const Nodes number = PreOrder(tree);
  for (size_t k = 0; k < tree.children.size(); ++k) {
    const auto [left, right] = tree.children[k];
    const int32_t type = number[k] % 2 == 0 ? types.even : types.odd;
    nodes.push_back(graph.Add(type, {nodes[At(left)], nodes[At(right)]}));
  }
  const size_t from = kind == PaperGraph::kTreeRoot ? nodes.size() - 1 : 0;
  for (size_t i = from; i < nodes.size(); ++i) {
    outputs.push_back(graph.Add(types.output, {nodes[i]}));
  }
}

enum BiLstmTypes { kBackward, kForward, kTag, kTagSum, kBiLstmTypes };

void Add(PaperGraph, const zoo::Words& sentence, TypedGraph& graph, Nodes& outputs) {
  const auto words = static_cast<int64_t>(sentence.size());
  Nodes forward, backward;
  for (int64_t i = 0; i < words; ++i) {
    forward.push_back(graph.Add(kForward, i == 0 ? Nodes{} : Nodes{forward.back()}));
  }
  for (int64_t i = 0; i < words; ++i) {
    backward.push_back(graph.Add(kBackward, i == 0 ? Nodes{} : Nodes{backward.back()}));
  }
  for (int64_t i = 0; i < words; ++i) {
    outputs.push_back(graph.Add(kTag, {forward[At(i)], backward[At(words - 1 - i)]}));
  }
}

enum Seq2SeqTypes { kDecoder, kEncoder, kProjection, kLossSum, kSeq2SeqTypes };

void Add(PaperGraph, const zoo::Lengths& lengths, TypedGraph& graph, Nodes& outputs) {
  Nodes last;
  for (int i = 0; i < lengths.source; ++i) last = {graph.Add(kEncoder, last)};
  for (int i = 0; i < lengths.target; ++i) {
    last = {graph.Add(kDecoder, last)};
    outputs.push_back(graph.Add(kProjection, last));
  }
}

enum LatticeTypes { kCharacter, kLabel, kLabelSum, kMerge, kWord, kLatticeTypes };

void Add(PaperGraph, const zoo::Lattice& lattice, TypedGraph& graph, Nodes& outputs) {
  std::vector<Nodes> state = {{}};
  for (int32_t p = 1; p <= static_cast<int32_t>(lattice.characters.size()); ++p) {
    Nodes arcs = {graph.Add(kCharacter, state.back())};
    for (const auto& [start, end, id] : lattice.words) {
      if (end == p) arcs.push_back(graph.Add(kWord, state[At(start)]));
    }
    state.push_back({arcs.size() == 1 ? arcs[0] : graph.Add(kMerge, arcs)});
    outputs.push_back(graph.Add(kLabel, state.back()));
  }
}

struct Kind {
  int32_t types, sum;
};

Kind TypesOf(PaperGraph kind) {
  switch (kind) {
    case PaperGraph::kBiLstm:
      return {kBiLstmTypes, kTagSum};
    case PaperGraph::kSeq2Seq:
      return {kSeq2SeqTypes, kLossSum};
    case PaperGraph::kLattice:
    case PaperGraph::kWeiboLattice:
      return {kLatticeTypes, kLabelSum};
    default:
      return {TreeTypesOf(kind).all, TreeTypesOf(kind).sum};
  }
}

}  // namespace

PaperRows::PaperRows(PaperGraph kind) : kind_(kind) {
  switch (kind) {
    case PaperGraph::kTree:
    case PaperGraph::kTreeRoot:
    case PaperGraph::kTwoTypes:
      data_ = zoo::SstTrainTrees();
      break;
    case PaperGraph::kBiLstm:
      data_ = zoo::WikigoldSentences();
      break;
    case PaperGraph::kSeq2Seq:
      data_ = zoo::IwsltLengths();
      break;
    case PaperGraph::kLattice:
      data_ = zoo::EdbatchLattices();
      break;
    case PaperGraph::kWeiboLattice:
      data_ = zoo::WeiboLattices();
      break;
  }
}

bool PaperRows::is_real() const {
  return std::visit([](const auto& data) { return data.is_real; }, data_);
}

const std::string& PaperRows::source() const {
  return std::visit([](const auto& data) -> const std::string& { return data.source; }, data_);
}

TypedGraph PaperRows::Graph(int32_t count, int32_t first) const {
  const auto [types, sum] = TypesOf(kind_);
  TypedGraph graph(types);
  Nodes outputs;
  std::visit(
      [&](const auto& data) {
        Check(At(first) + At(count) <= data.items.size(), data.source + " has too few rows");
        for (size_t i = At(first); i < At(first) + At(count); ++i) {
          Add(kind_, data.items[i], graph, outputs);
        }
      },
      data_);
  graph.Add(sum, outputs);
  return graph;
}

}  // namespace cellbatch::ordering

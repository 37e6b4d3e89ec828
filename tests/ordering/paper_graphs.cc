#include "tests/ordering/paper_graphs.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "cells/check.h"
#include "nlohmann/json.hpp"
#include "tests/zoo/data.h"

namespace cellbatch::ordering {
namespace {

using Nodes = std::vector<int32_t>;

size_t At(int64_t i) { return static_cast<size_t>(i); }

std::optional<std::vector<std::string>> ReadRows(const std::string& file, int32_t rows,
                                                 int32_t first) {
  const char* named = std::getenv("CELLBATCH_DATA");
  const std::string folder = named != nullptr && *named != '\0' ? named : "../shared/data";
  std::ifstream in(folder + "/" + file);
  if (!in) return std::nullopt;
  std::vector<std::string> lines;
  std::string line;
  for (int32_t i = 0; i < first + rows && std::getline(in, line); ++i) {
    if (i >= first) lines.push_back(line);
  }
  Check(lines.size() == At(rows), file + " has too few rows");
  return lines;
}

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
void AddTree(PaperGraph kind, const std::string& row, TypedGraph& graph, Nodes& outputs) {
  const TreeTypes& types = TreeTypesOf(kind);
  zoo::BinaryTree tree;
  Check(zoo::ParseBracketed(row, tree), "a row is no bracketed tree");
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

void AddBiLstm(const std::string& row, TypedGraph& graph, Nodes& outputs) {
  const auto words = 1 + std::count(row.begin(), row.end(), ' ');
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

void AddSeq2Seq(const std::string& row, TypedGraph& graph, Nodes& outputs) {
  int source = 0, target = 0;
  Check(std::sscanf(row.c_str(), "%d\t%d", &source, &target) == 2, "a row is no pair of lengths");
  Nodes last;
  for (int i = 0; i < source; ++i) last = {graph.Add(kEncoder, last)};
  for (int i = 0; i < target; ++i) {
    last = {graph.Add(kDecoder, last)};
    outputs.push_back(graph.Add(kProjection, last));
  }
}

enum LatticeTypes { kCharacter, kLabel, kLabelSum, kMerge, kWord, kLatticeTypes };

void AddLattice(const std::string& row, TypedGraph& graph, Nodes& outputs) {
  const auto json = nlohmann::json::parse(row, nullptr, /*allow_exceptions=*/false);
  Check(!json.is_discarded(), "a row is no lattice");
  std::vector<Nodes> state = {{}};
  for (int32_t p = 1; p <= json.at("n").get<int32_t>(); ++p) {
    Nodes arcs = {graph.Add(kCharacter, state.back())};
    for (const auto& word : json.at("words")) {
      if (word[1].get<int32_t>() != p) continue;
      arcs.push_back(graph.Add(kWord, state[At(word[0].get<int32_t>())]));
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
      return {kLatticeTypes, kLabelSum};
    default:
      return {TreeTypesOf(kind).all, TreeTypesOf(kind).sum};
  }
}

}  // namespace

std::optional<TypedGraph> ReadPaperGraph(PaperGraph kind, const std::string& file, int32_t rows,
                                         int32_t first) {
  const std::optional<std::vector<std::string>> lines = ReadRows(file, rows, first);
  if (!lines.has_value()) return std::nullopt;
  const auto [types, sum] = TypesOf(kind);
  TypedGraph graph(types);
  Nodes outputs;
  for (const std::string& row : *lines) {
    if (kind == PaperGraph::kBiLstm) {
      AddBiLstm(row, graph, outputs);
    } else if (kind == PaperGraph::kSeq2Seq) {
      AddSeq2Seq(row, graph, outputs);
    } else if (kind == PaperGraph::kLattice) {
      AddLattice(row, graph, outputs);
    } else {
      AddTree(kind, row, graph, outputs);
    }
  }
  graph.Add(sum, outputs);
  return graph;
}

}  // namespace cellbatch::ordering

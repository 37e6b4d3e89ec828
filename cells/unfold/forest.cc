#include "cells/unfold/forest.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "cells/unfold/bracket_text.h"
#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/parent_reader.h"

namespace cellbatch {
namespace {

constexpr int32_t kNone = -1;
constexpr int64_t kAnyLength = kMaxTensorRows;  // of one tree: the message's nodes are limited

size_t Index(int64_t i) { return static_cast<size_t>(i); }

absl::Status TooMany(std::string_view tensor, int64_t nodes, const ForestRules& rules) {
  return WrongInput(tensor, fmt::format("{} nodes, the model takes {}", nodes, rules.max_nodes));
}

absl::Status AddTokens(const RequestInput& input, const ForestRules& rules, CellGraph& graph,
                       Forest& forest, int64_t& count) {
  const InputTensor* tokens = FindRows(input, kTokensInput);
  if (tokens == nullptr) return WrongInput(kTokensInput, "missing");
  if (absl::Status s = CheckTensor(*tokens, WireType::kInt32, {-1}); !s.ok()) return s;
  const absl::StatusOr<const std::byte*> known = KnownIds(*tokens, "token", rules.words, graph);
  if (!known.ok()) return known.status();
  forest.tokens = *known;
  count = tokens->dims[0];
  return absl::OkStatus();
}

// One tree's rows of CHILDREN. `parent` is scratch.
absl::Status CheckChildren(const Forest& forest, int64_t tree, absl::Span<const int32_t> rows,
                           int64_t first_row, std::vector<int32_t>& parent) {
  const TreeSize size = forest.trees[Index(tree)];
  parent.assign(Index(size.nodes()), kNone);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t node = size.leaves + static_cast<int32_t>(i / 2), child = rows[i];
    const auto wrong = [&](std::string_view what) {
      return WrongInput(kChildrenInput, fmt::format("{}row {} (node {}): {}", OfTree(forest, tree),
                                                    first_row + node - size.leaves, node, what));
    };
    if (child < 0 || child >= node) {
      return wrong(
          fmt::format("child {} is {}, the nodes before it are 0 to {}", i % 2, child, node - 1));
    }
    if (parent[Index(child)] != kNone) {
      return wrong(fmt::format("child {} is {}, which is a child of node {} already", i % 2, child,
                               parent[Index(child)]));
    }
    parent[Index(child)] = node;
  }
  return absl::OkStatus();
}

absl::Status ReadChildren(const RequestInput& input, const ForestRules& rules, CellGraph& graph,
                          Forest& forest) {
  forest.form = kChildrenInput;
  int64_t leaves = 0;
  if (absl::Status s = AddTokens(input, rules, graph, forest, leaves); !s.ok()) return s;
  const auto pieces = SplitByLengths(input.Find(kLengthsInput), kTokensInput, leaves, kAnyLength);
  if (!pieces.ok()) return pieces.status();
  const int64_t trees = static_cast<int64_t>(pieces->size()), rows = leaves - trees;
  if (leaves + rows > rules.max_nodes) return TooMany(kTokensInput, leaves + rows, rules);
  const InputTensor* children = FindRows(input, kChildrenInput);
  if (children != nullptr) {
    if (absl::Status s = CheckTensor(*children, WireType::kInt32, {-1, 2}); !s.ok()) return s;
    forest.children = Int32s(*children);
  }
  const int64_t given = static_cast<int64_t>(forest.children.size()) / 2;
  if (given != rows) {
    const std::string of =
        trees == 1 ? "a binary tree of" : fmt::format("{} binary trees of", trees);
    return WrongInput(kChildrenInput,
                      fmt::format("{} rows, {} {} leaves has {}", given, of, leaves, rows));
  }
  std::vector<int32_t> parent;
  int64_t row = 0;
  for (const Piece& piece : *pieces) {
    forest.trees.push_back({piece.length, piece.length - 1});
    const auto own = forest.children.subspan(Index(2 * row), Index(2 * (piece.length - 1)));
    const int64_t tree = static_cast<int64_t>(forest.trees.size()) - 1;
    if (absl::Status s = CheckChildren(forest, tree, own, row, parent); !s.ok()) return s;
    row += piece.length - 1;
  }
  return absl::OkStatus();
}

absl::Status ReadParents(const RequestInput& input, const ForestRules& rules, CellGraph& graph,
                         Forest& forest) {
  forest.form = kParentInput;
  forest.node_tokens = true;
  int64_t nodes = 0;
  if (absl::Status s = AddTokens(input, rules, graph, forest, nodes); !s.ok()) return s;
  const InputTensor& parents = *FindRows(input, kParentInput);
  if (absl::Status s = CheckTensor(parents, WireType::kInt32, {-1}); !s.ok()) return s;
  if (parents.dims[0] != nodes) {
    return WrongInput(kParentInput, fmt::format("{} nodes, TOKENS has {}", parents.dims[0], nodes));
  }
  if (nodes > rules.max_nodes) return TooMany(kParentInput, nodes, rules);
  const auto pieces = SplitByLengths(input.Find(kLengthsInput), kParentInput, nodes, kAnyLength);
  if (!pieces.ok()) return pieces.status();
  forest.own_numbers.reserve(Index(nodes));
  forest.own_children.reserve(Index(nodes));
  forest.own_child_ends.reserve(Index(nodes));
  ParentReader reader(forest);
  for (const Piece& piece : *pieces) {
    const auto own = Int32s(parents).subspan(Index(piece.offset), Index(piece.length));
    if (absl::Status s = reader.Read(own); !s.ok()) return s;
  }
  forest.children = forest.own_children;
  forest.child_ends = forest.own_child_ends;
  forest.numbers = forest.own_numbers;
  // Tokens in the order of the rows.
  std::byte* rows = graph.Keep(nodes * 4);
  size_t row = 0;
  for (const Piece& piece : *pieces) {
    for (int32_t i = 0; i < piece.length; ++i, ++row) {
      std::memcpy(rows + row * 4, forest.tokens + Index(piece.offset + forest.numbers[row]) * 4, 4);
    }
  }
  forest.tokens = rows;
  return absl::OkStatus();
}

// The one element of TREE, out of its frame.
absl::StatusOr<std::string_view> TextOf(const InputTensor& tree) {
  uint32_t length = 0;
  if (tree.type != WireType::kBytes || tree.dims != TensorDims{1}) {
    return WrongInput(kTreeInput, fmt::format("{} of shape [{}], expected BYTES of [1]",
                                              Name(tree.type), fmt::join(tree.dims, ", ")));
  }
  if (tree.bytes.size() >= sizeof(length)) std::memcpy(&length, tree.bytes.data(), sizeof(length));
  if (tree.bytes.size() != sizeof(length) + length) {
    return WrongInput(kTreeInput, fmt::format("{} bytes, a text of {} and its length take {}",
                                              tree.bytes.size(), length, sizeof(length) + length));
  }
  return std::string_view(reinterpret_cast<const char*>(tree.bytes.data()) + sizeof(length),
                          length);
}

absl::Status LookUpWords(const std::vector<std::string_view>& words, const ForestRules& rules,
                         CellGraph& graph, Forest& forest) {
  constexpr size_t kShown = 40;
  std::byte* rows = graph.Keep(static_cast<int64_t>(words.size()) * 4);
  for (size_t i = 0; i < words.size(); ++i) {
    int32_t id = rules.vocabulary->Find(words[i]).value_or(kNone);
    if (!rules.words.Has(id)) {
      if (!rules.words.unknown) {
        return WrongInput(kTreeInput,
                          fmt::format("word {} (\"{}\") is not in the vocabulary", i,
                                      absl::CEscape(std::string(words[i].substr(0, kShown)))));
      }
      id = *rules.words.unknown;
    }
    std::memcpy(rows + i * 4, &id, sizeof(id));
  }
  forest.tokens = rows;
  return absl::OkStatus();
}

absl::Status ReadText(const RequestInput& input, const ForestRules& rules, CellGraph& graph,
                      Forest& forest) {
  forest.form = kTreeInput;
  if (rules.vocabulary == nullptr) {
    return WrongInput(kTreeInput, "the model has no vocabulary.txt to look words up in");
  }
  const absl::StatusOr<std::string_view> text = TextOf(*FindRows(input, kTreeInput));
  if (!text.ok()) return text.status();
  absl::StatusOr<BracketTrees> read = ParseBracketText(*text, rules.max_nodes);
  if (!read.ok()) return WrongInput(kTreeInput, std::string(read.status().message()));
  for (const BracketTrees::Tree& tree : read->trees) {
    forest.trees.push_back({tree.leaves, tree.internals});
  }
  const InputTensor* lengths = input.Find(kLengthsInput);
  if (lengths == nullptr && read->trees.size() != 1) {
    return WrongInput(kTreeInput, fmt::format("{} trees; several in one message come with {}",
                                              read->trees.size(), kLengthsInput));
  }
  const auto pieces =
      SplitByLengths(lengths, kTreeInput, static_cast<int64_t>(read->words.size()), kAnyLength);
  if (!pieces.ok()) return pieces.status();
  if (pieces->size() != read->trees.size()) {
    return WrongInput(kLengthsInput, fmt::format("{} lengths, {} has {} trees", pieces->size(),
                                                 kTreeInput, read->trees.size()));
  }
  for (size_t i = 0; i < pieces->size(); ++i) {
    if ((*pieces)[i].length == read->trees[i].leaves) continue;
    return WrongInput(kLengthsInput, fmt::format("length {} is {}, that tree has {} leaves", i,
                                                 (*pieces)[i].length, read->trees[i].leaves));
  }
  forest.own_children = std::move(read->children);
  forest.own_child_ends = std::move(read->child_ends);
  forest.children = forest.own_children;
  forest.child_ends = forest.own_child_ends;
  return LookUpWords(read->words, rules, graph, forest);
}

// INTERNAL_TYPES follow the request's numbers; here they follow ours.
void ReorderTypes(absl::Span<const int32_t> given, Forest& forest) {
  forest.own_types.reserve(given.size());
  std::vector<int32_t> place;  // among the tree's internal nodes, by the request's number
  size_t first_node = 0, first_type = 0;
  for (const TreeSize& tree : forest.trees) {
    const auto numbers = forest.numbers.subspan(first_node, Index(tree.nodes()));
    place.assign(Index(tree.nodes()), 0);
    for (const int32_t n : numbers.subspan(Index(tree.leaves))) place[Index(n)] = 1;
    int32_t sum = 0;
    for (int32_t& p : place) p = std::exchange(sum, sum + p);
    for (const int32_t n : numbers.subspan(Index(tree.leaves))) {
      forest.own_types.push_back(given[first_type + Index(place[Index(n)])]);
    }
    first_node += Index(tree.nodes());
    first_type += Index(tree.internals);
  }
  forest.types = forest.own_types;
}

absl::Status ReadTypes(const RequestInput& input, const ForestRules& rules, Forest& forest) {
  const InputTensor* types = FindRows(input, kInternalTypesInput);
  if (types == nullptr) return absl::OkStatus();
  if (absl::Status s = CheckTensor(*types, WireType::kInt32, {-1}); !s.ok()) return s;
  if (types->dims[0] != forest.all.internals) {
    return WrongInput(kInternalTypesInput, fmt::format("{} types, {} nodes have children",
                                                       types->dims[0], forest.all.internals));
  }
  const absl::Span<const int32_t> given = Int32s(*types);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] >= 0 && given[i] < rules.num_types) continue;
    return WrongInput(kInternalTypesInput, fmt::format("type {} is {}, the model's end at {}", i,
                                                       given[i], rules.num_types - 1));
  }
  if (forest.numbers.empty()) {
    forest.types = given;
  } else {
    ReorderTypes(given, forest);
  }
  return absl::OkStatus();
}

// Exactly one form, and nothing that belongs to another.
absl::Status CheckForm(const RequestInput& input, const ForestRules& rules) {
  const std::array<std::string_view, 6> names = {kTokensInput, kChildrenInput,      kParentInput,
                                                 kTreeInput,   kInternalTypesInput, kLengthsInput};
  if (absl::Status s = CheckNames(input, names); !s.ok()) return s;
  const bool tree = FindRows(input, kTreeInput) != nullptr;
  const std::string_view form = tree                                       ? kTreeInput
                                : FindRows(input, kParentInput) != nullptr ? kParentInput
                                                                           : kChildrenInput;
  for (const std::string_view other : {kTokensInput, kChildrenInput, kParentInput}) {
    if (other == form || (other == kTokensInput && !tree) || FindRows(input, other) == nullptr)
      continue;
    return WrongInput(other, fmt::format("given beside {}; one of them says it all", form));
  }
  if (rules.leaf_tokens || form == kParentInput) return absl::OkStatus();
  return WrongInput(form,
                    fmt::format("gives words to leaves only, every node of this model reads one: "
                                "send {}",
                                kParentInput));
}

}  // namespace

absl::StatusOr<Forest> ReadForest(const RequestInput& input, const ForestRules& rules,
                                  CellGraph& graph) {
  if (absl::Status s = CheckForm(input, rules); !s.ok()) return s;
  Forest forest;
  forest.several = input.Find(kLengthsInput) != nullptr;
  const auto read = FindRows(input, kTreeInput) != nullptr     ? ReadText
                    : FindRows(input, kParentInput) != nullptr ? ReadParents
                                                               : ReadChildren;
  if (absl::Status s = read(input, rules, graph, forest); !s.ok()) return s;
  for (const TreeSize& tree : forest.trees) {
    forest.all.leaves += tree.leaves;
    forest.all.internals += tree.internals;
  }
  if (absl::Status s = ReadTypes(input, rules, forest); !s.ok()) return s;
  return forest;
}

}  // namespace cellbatch

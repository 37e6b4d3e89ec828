// Lines of text to shapes.
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>

#include "cells/unfold/bracket_text.h"
#include "nlohmann/json.hpp"
#include "server/learn/request_shape.h"

namespace cellbatch {
namespace {

constexpr int32_t kMostWords = 1 << 20;

absl::Status NotA(ShapeKind kind, std::string_view line, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no {}: {}", line.substr(0, 60), Name(kind), why));
}

// Numbers between spaces and tabs; none: something else is there.
std::optional<std::vector<int32_t>> Numbers(std::string_view text) {
  std::vector<int32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == '\t' || *at == '\r') {
      ++at;
      continue;
    }
    int32_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || number > kMostWords) return std::nullopt;
    numbers.push_back(number);
    at = next;
  }
  return numbers;
}

absl::StatusOr<RequestShape> ParseSequence(ShapeKind kind, std::string_view line) {
  const auto numbers = Numbers(line);
  if (!numbers || numbers->empty()) return NotA(kind, line, "it takes numbers, words first");
  RequestShape shape;
  shape.length = numbers->front();
  if (shape.length < 1) return NotA(kind, line, "it has no words");
  if (kind == ShapeKind::kTranslation) {
    if (numbers->size() != 2 || numbers->back() < 1) {
      return NotA(kind, line, "it takes two numbers, of 1 and more");
    }
    shape.target = numbers->back();
  }
  if (kind == ShapeKind::kSpelled) {
    shape.spelled.assign(numbers->begin() + 1, numbers->end());
    if (!shape.spelled.empty() && shape.spelled.size() != static_cast<size_t>(shape.length)) {
      return NotA(kind, line, "behind the number of words it takes none, or one a word");
    }
  }
  return shape;
}

// As the server reads such text (cells/unfold/bracket_text), which numbers its nodes as shapes do.
absl::StatusOr<RequestShape> ParseTree(std::string_view line) {
  const absl::StatusOr<BracketTrees> read = ParseBracketText(line, 2 * kMostWords);
  if (!read.ok()) return NotA(ShapeKind::kTree, line, std::string(read.status().message()));
  if (read->trees.size() != 1) return NotA(ShapeKind::kTree, line, "it is more than one");
  RequestShape shape;
  shape.length = read->trees[0].leaves;
  int32_t from = 0;
  for (const int32_t end : read->child_ends) {
    if (end - from != 2) return NotA(ShapeKind::kTree, line, "a node has not two children");
    shape.children.push_back(
        {read->children[static_cast<size_t>(from)], read->children[static_cast<size_t>(from) + 1]});
    from = end;
  }
  return shape;
}

absl::StatusOr<RequestShape> ParseHeads(std::string_view line) {
  const size_t tab = line.rfind('\t');
  const auto heads = Numbers(tab == line.npos ? line : line.substr(tab + 1));
  if (!heads || heads->empty()) return NotA(ShapeKind::kHeads, line, "it takes numbers");
  RequestShape shape;
  shape.length = static_cast<int32_t>(heads->size());
  for (const int32_t head : *heads) {
    if (head > shape.length) return NotA(ShapeKind::kHeads, line, "a head is beyond its words");
    shape.parents.push_back(head - 1);
  }
  return shape;
}

absl::StatusOr<RequestShape> ParseLattice(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [&](const char* why) { return NotA(ShapeKind::kLattice, line, why); };
  if (!json.is_object() || !json.contains("n") || !json["n"].is_number_integer()) {
    return wrong("it takes {\"n\": characters, \"words\": [[start, end], ...]}");
  }
  const int64_t n = json["n"].get<int64_t>();
  if (n < 1 || n > kMostWords) return wrong("n is not a number of characters");
  RequestShape shape;
  shape.length = static_cast<int32_t>(n);
  if (!json.contains("words")) return shape;
  if (!json["words"].is_array()) return wrong("words is no list");
  for (const auto& span : json["words"]) {
    if (!span.is_array() || span.size() < 2 || !span[0].is_number_integer() ||
        !span[1].is_number_integer()) {
      return wrong("a word is not [start, end]");
    }
    const int64_t from = span[0].get<int64_t>(), to = span[1].get<int64_t>();
    if (from < 0 || from >= to || to > n) return wrong("a word lies outside the characters");
    shape.spans.push_back({static_cast<int32_t>(from), static_cast<int32_t>(to)});
  }
  return shape;
}

// False: no whole number from `least` to kMostWords.
bool TakeNumber(const nlohmann::json& from, int64_t least, int32_t& number) {
  if (!from.is_number_integer()) return false;
  if (from.is_number_unsigned() && from.get<uint64_t>() > uint64_t{kMostWords}) return false;
  const int64_t value = from.get<int64_t>();
  if (value < least || value > kMostWords) return false;
  number = static_cast<int32_t>(value);
  return true;
}

absl::StatusOr<RequestShape> ParseGraph(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [&](const char* why) { return NotA(ShapeKind::kGraph, line, why); };
  if (!json.is_object() || !json.contains("types") || !json["types"].is_array()) {
    return wrong("it takes {\"types\": [type, ...], \"edges\": [[from, to, input], ...]}");
  }
  RequestShape shape;
  for (const auto& type : json["types"]) {
    if (!TakeNumber(type, 0, shape.node_types.emplace_back())) return wrong("a type is no number");
  }
  if (shape.node_types.empty() || shape.node_types.size() > static_cast<size_t>(kMostWords)) {
    return wrong("it has no nodes, or too many");
  }
  shape.length = static_cast<int32_t>(shape.node_types.size());
  if (!json.contains("edges")) return shape;
  if (!json["edges"].is_array()) return wrong("edges is no list");
  for (const auto& edge : json["edges"]) {
    std::array<int32_t, 3>& made = shape.edges.emplace_back();
    bool numbers = edge.is_array() && edge.size() == made.size();
    for (size_t i = 0; numbers && i < made.size(); ++i) {
      numbers = TakeNumber(edge[i], 0, made[i]);
    }
    if (!numbers) return wrong("an edge is not [from, to, input]");
    if (made[0] >= made[1] || made[1] >= shape.length) {
      return wrong("an edge does not lead from a node to one after it");
    }
  }
  return shape;
}

constexpr size_t kMostDims = 8;

// Lists of lists of numbers, all of one depth and equally long; false: they are not. No recursion: nlohmann's parser has
// a limit of its own for nested lists, and a tensor's is lower.
bool TakeLists(const nlohmann::json& from, ShapeTensor& tensor) {
  std::vector<const nlohmann::json*> level = {&from};
  while (level[0]->is_array()) {
    const size_t width = level[0]->size();
    if (width == 0 || tensor.dims.size() == kMostDims) return false;
    tensor.dims.push_back(static_cast<int64_t>(width));
    std::vector<const nlohmann::json*> below;
    for (const nlohmann::json* list : level) {
      if (!list->is_array() || list->size() != width) return false;
      for (const nlohmann::json& element : *list) below.push_back(&element);
    }
    level = std::move(below);
  }
  for (const nlohmann::json* number : level) {
    if (!TakeNumber(*number, -kMostWords, tensor.numbers.emplace_back())) return false;
  }
  return !tensor.dims.empty();
}

// {"dims": [3, 64]}
bool TakeDims(const nlohmann::json& from, ShapeTensor& tensor) {
  if (!from.is_object() || !from.contains("dims") || !from["dims"].is_array()) return false;
  int64_t elements = 1;
  for (const auto& dim : from["dims"]) {
    int32_t number = 0;
    if (!TakeNumber(dim, 1, number) || tensor.dims.size() == kMostDims) return false;
    tensor.dims.push_back(number);
    elements *= number;
    if (elements > int64_t{16} * kMostWords) return false;
  }
  return !tensor.dims.empty();
}

absl::StatusOr<RequestShape> ParseTensors(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.empty()) {
    return NotA(ShapeKind::kTensors, line,
                "it takes {\"NAME\": [numbers], \"NAME\": {\"dims\": [rows, width]}, ...}");
  }
  RequestShape shape;
  for (const auto& [name, value] : json.items()) {
    ShapeTensor& tensor = shape.tensors.emplace_back();
    tensor.name = name;
    if (value.is_array() ? TakeLists(value, tensor) : TakeDims(value, tensor)) continue;
    return NotA(ShapeKind::kTensors, line,
                fmt::format("{} is neither lists of whole numbers, equally long, nor dims", name));
  }
  shape.length = static_cast<int32_t>(shape.tensors[0].dims[0]);
  return shape;
}

}  // namespace

absl::StatusOr<RequestShape> ParseShape(ShapeKind kind, std::string_view line) {
  switch (kind) {
    case ShapeKind::kTree:
      return ParseTree(line);
    case ShapeKind::kHeads:
      return ParseHeads(line);
    case ShapeKind::kLattice:
      return ParseLattice(line);
    case ShapeKind::kGraph:
      return ParseGraph(line);
    case ShapeKind::kTensors:
      return ParseTensors(line);
    case ShapeKind::kSequence:
    case ShapeKind::kSpelled:
    case ShapeKind::kTranslation:
      break;
  }
  return ParseSequence(kind, line);
}

}  // namespace cellbatch

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

}  // namespace

absl::StatusOr<RequestShape> ParseShape(ShapeKind kind, std::string_view line) {
  switch (kind) {
    case ShapeKind::kTree:
      return ParseTree(line);
    case ShapeKind::kHeads:
      return ParseHeads(line);
    case ShapeKind::kLattice:
      return ParseLattice(line);
    case ShapeKind::kSequence:
    case ShapeKind::kSpelled:
    case ShapeKind::kTranslation:
      break;
  }
  return ParseSequence(kind, line);
}

}  // namespace cellbatch

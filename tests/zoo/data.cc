#include "tests/zoo/data.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "cells/check.h"
#include "nlohmann/json.hpp"
#include "tests/zoo/synthetic.h"

namespace cellbatch::zoo {
namespace {

std::string DataFolder() {
  const char* named = std::getenv("CELLBATCH_DATA");
  return named != nullptr && *named != '\0' ? named : "../shared/data";
}

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

// An item a line; `parse` says whether the line is one.
template <typename Item>
Data<Item> Read(const std::string& name,
                const std::function<bool(const std::string& line, Item& item)>& parse,
                std::vector<Item> (*synthetic)()) {
  Data<Item> data;
  std::ifstream file(DataFolder() + "/" + name);
  if (!file) {
    data.items = synthetic();
    data.source = fmt::format("synthetic, of the statistics of {} (which is not here)", name);
    fmt::print("SYNTHETIC DATA instead of {}: CELLBATCH_DATA names no folder that has it\n", name);
    return data;
  }
  data.source = name;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    Item item;
    Check(parse(line, item), fmt::format("{}:{} is not what its README says", name, number));
    data.items.push_back(std::move(item));
  }
  Check(!data.items.empty(), fmt::format("{} is empty", name));
  return data;
}

bool ParseTagged(const std::string& line, Words& words) {
  for (const std::string& token : Split(line, ' ')) {
    const size_t bar = token.rfind('|');
    if (bar == token.npos) return false;
    words.push_back(token.substr(0, bar));
  }
  return !words.empty();
}

bool ParseHeads(const std::string& line, DependencyTree& tree) {
  const std::vector<std::string> fields = Split(line, '\t');
  if (fields.size() != 3) return false;
  tree.words = Split(fields[1], ' ');
  for (const std::string& head : Split(fields[2], ' ')) tree.parent.push_back(std::stoi(head) - 1);
  return !tree.words.empty() && tree.words.size() == tree.parent.size();
}

bool ParseLattice(const std::string& line, Lattice& lattice) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return false;
  lattice.characters = json.at("char_ids").get<std::vector<int32_t>>();
  const auto& spans = json.at("words");
  const auto& ids = json.at("word_ids");
  if (spans.size() != ids.size()) return false;
  for (size_t i = 0; i < spans.size(); ++i) {
    lattice.words.push_back({spans[i][0], spans[i][1], ids[i]});
  }
  return !lattice.characters.empty();
}

bool ParsePair(const std::string& line, Translation& pair) {
  const std::vector<std::string> fields = Split(line, '\t');
  if (fields.size() != 2) return false;
  pair.source = Split(fields[0], ' ');
  pair.target = Split(fields[1], ' ');
  return !pair.source.empty() && !pair.target.empty();
}

}  // namespace

bool ParseBracketed(const std::string& text, BinaryTree& tree) {
  struct Bracket {
    std::vector<int32_t> nodes;  // a leaf is its place, an internal node ~its place
    bool holds_word = false;
  };
  std::vector<Bracket> open;
  std::vector<int32_t> done;  // finished and in no bracket
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
    } else if (text[at] == '(') {
      at = text.find_first_of(" ()", at + 1);  // behind the label
      if (at == text.npos || (open.empty() && !done.empty())) return false;
      open.emplace_back();
    } else if (text[at] == ')') {
      if (open.empty() || open.back().nodes.size() != (open.back().holds_word ? 1 : 2))
        return false;
      int32_t node = open.back().nodes[0];
      if (!open.back().holds_word) {
        node = ~static_cast<int32_t>(tree.children.size());
        tree.children.push_back({open.back().nodes[0], open.back().nodes[1]});
      }
      open.pop_back();
      (open.empty() ? done : open.back().nodes).push_back(node);
      ++at;
    } else {
      const size_t end = std::min(text.find_first_of(" ()", at), text.size());
      if (open.empty() || !open.back().nodes.empty()) return false;
      open.back() = {{static_cast<int32_t>(tree.words.size())}, /*holds_word=*/true};
      tree.words.push_back(text.substr(at, end - at));
      at = end;
    }
  }
  const auto leaves = static_cast<int32_t>(tree.words.size());
  for (auto& children : tree.children) {
    for (int32_t& child : children) child = child >= 0 ? child : leaves + ~child;
  }
  return open.empty() && done.size() == 1;
}

Data<Words> WikigoldSentences() {
  return Read<Words>("wikigold_en.txt", ParseTagged, SyntheticSentences);
}

Data<Words> WikinerSentences() {
  return Read<Words>("wikiner_en_sample.txt", ParseTagged, SyntheticSentences);
}

Data<Translation> EuroparlPairs() {
  return Read<Translation>("europarl_de_en_tok.tsv", ParsePair, SyntheticTranslations);
}

Data<BinaryTree> SstTrees() {
  return Read<BinaryTree>("sst_test.ptb", ParseBracketed, SyntheticBinaryTrees);
}

Data<DependencyTree> EwtTrees() {
  return Read<DependencyTree>("ud_ewt_test.tsv", ParseHeads, SyntheticDependencies);
}

Data<Lattice> WeiboLattices() {
  return Read<Lattice>("weibo_lattices.jsonl", ParseLattice, SyntheticLattices);
}

int32_t WordId(const std::string& word, int32_t size) {
  uint64_t hash = 14695981039346656037ull;
  for (const unsigned char byte : word) hash = (hash ^ byte) * 1099511628211ull;
  return static_cast<int32_t>((hash ^ hash >> 32) % static_cast<uint64_t>(size));
}

}  // namespace cellbatch::zoo

#include "loadgen/corpus/parse.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"

namespace cellbatch::corpus {
namespace {

using Json = nlohmann::json;

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    parts.push_back(part);
  }
  return parts;
}

bool ReadInts(const Json& list, std::vector<int32_t>& values) {
  if (!list.is_array()) {
    return false;
  }
  for (const Json& value : list) {
    // Compared before it is narrowed: 2^32 + 5 is not 5. (One beyond int64 comes out negative: refused by all.)
    if (!value.is_number_integer() || value > std::numeric_limits<int32_t>::max() ||
        value < std::numeric_limits<int32_t>::min()) {
      return false;
    }
    values.push_back(value.get<int32_t>());
  }
  return true;
}

// The root is one, and every way leads to it.
bool IsTree(const std::vector<int32_t>& parent) {
  const auto n = static_cast<int32_t>(parent.size());
  std::vector<int32_t> children(parent.size(), 0);
  int32_t roots = 0;
  for (const int32_t above : parent) {
    if (above < -1 || above >= n) {
      return false;
    }
    above < 0 ? ++roots : ++children[above];
  }
  // Leaves are taken off until nothing is left: what stays is in a circle.
  std::vector<int32_t> leaves;
  for (int32_t i = 0; i < n; ++i) {
    if (children[i] == 0) {
      leaves.push_back(i);
    }
  }
  size_t taken = 0;
  for (; taken < leaves.size(); ++taken) {
    const int32_t above = parent[leaves[taken]];
    if (above >= 0 && --children[above] == 0) {
      leaves.push_back(above);
    }
  }
  return roots == 1 && taken == parent.size();
}

}  // namespace

bool ParseLengths(const std::string& line, Lengths& lengths) {
  const std::vector<std::string> fields = Split(line, '\t');
  if (fields.empty() || fields.size() > 2) {
    return false;
  }
  return absl::SimpleAtoi(fields[0], &lengths.source) && lengths.source > 0 &&
         (fields.size() == 1 ||
          (absl::SimpleAtoi(fields[1], &lengths.target) && lengths.target > 0));
}

bool ParseTagged(const std::string& line, Words& words) {
  for (const std::string& token : Split(line, ' ')) {
    const size_t bar = token.rfind('|');
    if (bar == token.npos) {
      return false;
    }
    words.push_back(token.substr(0, bar));
  }
  return !words.empty();
}

bool ParseSentence(const std::string& line, Words& words) {
  std::istringstream stream(line);
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return !words.empty();
}

bool ParsePair(const std::string& line, Translation& pair) {
  const std::vector<std::string> fields = Split(line, '\t');
  if (fields.size() != 2) {
    return false;
  }
  pair.source = Split(fields[0], ' ');
  pair.target = Split(fields[1], ' ');
  return !pair.source.empty() && !pair.target.empty();
}

bool ParseBracketed(const std::string& line, BinaryTree& tree) {
  struct Bracket {
    std::vector<int32_t> nodes;  // a leaf is its place, an internal node ~its place
    bool holds_word = false;
  };
  std::vector<Bracket> open;
  std::vector<int32_t> done;  // finished and in no bracket
  for (size_t at = 0; at < line.size();) {
    if (line[at] == ' ') {
      ++at;
    } else if (line[at] == '(') {
      at = line.find_first_of(" ()", at + 1);  // behind the label
      if (at == line.npos) {
        return false;
      }
      open.emplace_back();
    } else if (line[at] == ')') {
      if (open.empty() || open.back().nodes.size() != (open.back().holds_word ? 1 : 2)) {
        return false;
      }
      int32_t node = open.back().nodes[0];
      if (!open.back().holds_word) {
        node = ~static_cast<int32_t>(tree.children.size());
        tree.children.push_back({open.back().nodes[0], open.back().nodes[1]});
      }
      open.pop_back();
      (open.empty() ? done : open.back().nodes).push_back(node);
      ++at;
    } else {
      const size_t end = std::min(line.find_first_of(" ()", at), line.size());
      if (open.empty() || !open.back().nodes.empty()) {
        return false;
      }
      open.back() = {{static_cast<int32_t>(tree.words.size())}, /*holds_word=*/true};
      tree.words.push_back(line.substr(at, end - at));
      at = end;
    }
  }
  const auto leaves = static_cast<int32_t>(tree.words.size());
  for (auto& children : tree.children) {
    for (int32_t& child : children) {
      child = child >= 0 ? child : leaves + ~child;
    }
  }
  return open.empty() && done.size() == 1;
}

bool ParseHeads(const std::string& line, DependencyTree& tree) {
  const std::vector<std::string> fields = Split(line, '\t');
  if (fields.size() != 3) {
    return false;
  }
  tree.words = Split(fields[1], ' ');
  for (const std::string& word : Split(fields[2], ' ')) {
    int32_t head = 0;
    if (!absl::SimpleAtoi(word, &head) || head < 0) {
      return false;
    }
    tree.parent.push_back(head - 1);
  }
  return tree.words.size() == tree.parent.size() && IsTree(tree.parent);
}

bool ParseLattice(const std::string& line, Lattice& lattice) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"words", "char_ids", "word_ids"}) {
    if (!json.is_object() || !json.contains(key)) {
      return false;
    }
  }
  std::vector<int32_t> ids;
  if (!json["words"].is_array() || !ReadInts(json["char_ids"], lattice.characters) ||
      !ReadInts(json["word_ids"], ids) || ids.size() != json["words"].size()) {
    return false;
  }
  const auto characters = static_cast<int32_t>(lattice.characters.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> span;
    if (!ReadInts(json["words"][i], span) || span.size() != 2 || span[0] < 0 ||
        span[0] >= span[1] || span[1] > characters) {
      return false;
    }
    lattice.words.push_back({span[0], span[1], ids[i]});
  }
  const auto negative = [](int32_t id) { return id < 0; };
  return characters > 0 && std::none_of(ids.begin(), ids.end(), negative) &&
         std::none_of(lattice.characters.begin(), lattice.characters.end(), negative);
}

bool ParseRequest(const std::string& line, JsonRequest& request) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  request.text = line;
  return json.is_object() && json.contains("inputs");
}

}  // namespace cellbatch::corpus

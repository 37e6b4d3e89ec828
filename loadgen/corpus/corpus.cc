#include "loadgen/corpus/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "loadgen/corpus/parse.h"

namespace cellbatch::corpus {
namespace {

// The next line that is not empty, without what other systems end it with.
bool NextLine(std::ifstream& file, std::string& line, int64_t& number) {
  while (std::getline(file, line)) {
    ++number;
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (line.find_first_not_of(" \t") != line.npos) {
      return true;
    }
  }
  return false;
}

template <typename Item>
absl::StatusOr<Corpus> Read(const std::string& path,
                            bool (*parse)(const std::string& line, Item& item)) {
  std::ifstream file(path);
  std::vector<Item> items;
  int64_t number = 0;
  Corpus corpus{path.substr(path.rfind('/') + 1), std::vector<Item>()};
  for (std::string line; NextLine(file, line, number);) {
    Item item;
    if (!parse(line, item)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line {} is no line of {}", path, number, corpus.kind()));
    }
    items.push_back(std::move(item));
  }
  corpus.items = std::move(items);
  return corpus;
}

template <typename Item>
bool Is(const std::string& line, bool (*parse)(const std::string& line, Item& item)) {
  Item item;
  return parse(line, item);
}

}  // namespace

size_t Corpus::size() const {
  return std::visit([](const auto& list) { return list.size(); }, items);
}

const char* Corpus::kind() const {
  constexpr const char* kKinds[] = {"lengths",      "sentences",        "sentence pairs",
                                    "binary trees", "dependency trees", "lattices",
                                    "requests"};
  return kKinds[items.index()];
}

absl::StatusOr<Corpus> ReadCorpus(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(fmt::format("{}: cannot be read", path));
  }
  std::string first;
  int64_t number = 0;
  if (!NextLine(file, first, number)) {
    return absl::InvalidArgumentError(fmt::format("{}: holds nothing", path));
  }
  if (first[0] == '{') {
    return Is(first, ParseRequest) ? Read(path, ParseRequest) : Read(path, ParseLattice);
  }
  if (Is(first, ParseLengths)) {
    return Read(path, ParseLengths);
  }
  switch (std::count(first.begin(), first.end(), '\t')) {
    case 1:
      return Read(path, ParsePair);
    case 2:
      return Read(path, ParseHeads);
    default:
      break;
  }
  if (first[0] == '(') {
    return Read(path, ParseBracketed);
  }
  return Is(first, ParseTagged) ? Read(path, ParseTagged) : Read(path, ParseSentence);
}

}  // namespace cellbatch::corpus

// A file of items, whatever kind it is, or what stands in for one.

#ifndef CELLBATCH_LOADGEN_CORPUS_CORPUS_H_
#define CELLBATCH_LOADGEN_CORPUS_CORPUS_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "loadgen/corpus/items.h"

namespace cellbatch::corpus {

struct Corpus {
  std::string source;  // for people: the file, or whose statistics it has
  std::variant<std::vector<Lengths>, std::vector<Words>, std::vector<Translation>,
               std::vector<BinaryTree>, std::vector<DependencyTree>, std::vector<Lattice>,
               std::vector<JsonRequest>>
      items;

  size_t size() const;
  // "sentence pairs", "binary trees", ..
  const char* kind() const;
};

// An item a line; empty lines are skipped. What kind of items is seen from the first line:
//
//   (3 (2 It) ..       binary trees            {"char_ids": ..   lattices      {"inputs": ..   requests
//   3<TAB>a b c<TAB>2 0 2   dependency trees   ein Satz<TAB>a sentence   pairs
//   23  or  23<TAB>27  lengths                 token|TAG token|TAG, or any other text   sentences
//
// NOT_FOUND, or INVALID_ARGUMENT naming file and line of the first that is not of the first one's kind.
absl::StatusOr<Corpus> ReadCorpus(const std::string& path);

}  // namespace cellbatch::corpus

#endif  // CELLBATCH_LOADGEN_CORPUS_CORPUS_H_

// From items to what a model reads: tensors, parameters and a size, before any message.
//
//   corpus::Corpus    +    ModelNeeds    ->    RequestContents ...
//   "binary trees"         "TOKENS and CHILDREN, ids below 97"     TOKENS [5], CHILDREN [4, 2]
//
// Pure functions of their arguments and the seed.

#ifndef CELLBATCH_LOADGEN_CONTENTS_H_
#define CELLBATCH_LOADGEN_CONTENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/tensor.h"
#include "loadgen/corpus/corpus.h"
#include "loadgen/mix.h"
#include "loadgen/needs.h"

namespace cellbatch {

struct RequestContents {
  std::vector<Tensor> inputs;
  std::map<std::string, Parameter> parameters;  // decode_steps, or what a request of a file brings
  int32_t size = 0;  // steps, nodes, or characters and words: what cells there are to compute
  bool goes_on =
      false;  // a piece of the sequence that the request before it in the list is a piece of
  std::vector<std::string> outputs = {};  // that a request of a file names; none: the entry's
};

struct ContentsList {
  std::vector<RequestContents> requests;
  std::string source;  // for people: of what they were made, what was cut and left out
};

// Built-in items that fit the model. FAILED_PRECONDITION where there are none (its inputs are its own).
absl::StatusOr<corpus::Corpus> BuiltInCorpus(const ModelNeeds& needs);

// What entry.data or entry.lengths names, or else the built-in corpus.
absl::StatusOr<corpus::Corpus> CorpusOf(const MixEntry& entry, const ModelNeeds& needs);

// One request for each item, in their order. Sequences beyond the model's limit are cut, trees and lattices beyond it
// left out. FAILED_PRECONDITION, naming the field, where the model reads another kind of items than these.
absl::StatusOr<ContentsList> ContentsOf(const corpus::Corpus& corpus, const ModelNeeds& needs,
                                        const MixEntry& entry, uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_CONTENTS_H_

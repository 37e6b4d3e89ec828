// How each unfolder's part of a config becomes a Model: one function each, in a file of its own
// (chain.cc, ..), over what they share. An assembler adds its cell types bottom to top (TypeMaker::Add),
// makes the unfolder and the signature, and notes every problem it can tell. One thread.
#ifndef CELLBATCH_SERVER_ASSEMBLE_ASSEMBLY_H_
#define CELLBATCH_SERVER_ASSEMBLE_ASSEMBLY_H_

#include <memory>
#include <string>
#include <utility>

#include "cells/model.h"
#include "cells/unfold/request_check.h"
#include "cells/vocabulary.h"
#include "proto/model.pb.h"
#include "server/assemble/loader_limits.h"
#include "server/assemble/type_maker.h"

namespace cellbatch {

struct Assembly {
  const disk::ModelDescription& config;
  const LoaderLimits& limits;
  std::string model_folder;  // config.textproto lies here
  TypeMaker& types;
  Model& model;

  const ConfigPlaces& places;

  // Notes a problem of the unfolder; or of another field at the top of the config.
  void Problem(const std::string& text) { types.Problem(types.UnfolderPlace() + ": " + text); }
  void Problem(std::string_view field, const std::string& text) {
    types.Problem(places.Of(field) + ": " + text);
  }
  // Ends the adding of types: false (and everything that can be told is told) if one is broken, or looks up what is held to
  // no vocabulary.
  bool Finish(bool all_made);
  // The length in force: the model's, or the server's limit.
  int64_t MaxSequenceLength() const {
    return config.max_sequence_length() == 0 ? limits.max_sequence_length
                                             : config.max_sequence_length();
  }
  // The cells that one request may have: the model's number, or the server's limit.
  int64_t MaxNodes() const {
    return config.max_nodes() == 0 ? limits.max_nodes : config.max_nodes();
  }
  // Words below this number are known: the config's size, or as many as the embedding that reads the request's
  // `table` has rows. Notes a problem (and answers none) where the config promises more.
  std::optional<int64_t> VocabularySize(TableId table);
  // The same of any vocabulary and table, with what others are served as. `what`: "characters", for problems.
  std::optional<IdRange> KnownIds(const disk::Vocabulary& vocabulary, TableId table,
                                  const std::string& what);
  // What happens to words beyond it, into the signature.
  void ApplyVocabulary(int64_t size);
  // Words, characters or labels by number: `file` ("vocabulary.txt") of the version folder, one entry a line
  // (cells/vocabulary.h), at most `most` of them. Null: there is no such file, or a problem was noted.
  std::shared_ptr<const Vocabulary> ReadNames(const char* file, int64_t most);
  // Lists the outputs that the config wants shown; the signature is complete.
  void ListOutputs();
};

void AssembleChain(Assembly& assembly);
void AssembleEncoderDecoder(Assembly& assembly);
void AssembleLattice(Assembly& assembly);
void AssembleDag(Assembly& assembly);
void AssembleTree(Assembly& assembly);
void AssembleLibrary(Assembly& assembly);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_ASSEMBLY_H_

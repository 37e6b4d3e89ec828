// What a model wants to be sent, as its server tells it: ModelMetadata lists the inputs, ModelConfig's
// parameters say how large their numbers may be (server/kserve/README.md). Plain values, pure functions.

#ifndef CELLBATCH_LOADGEN_NEEDS_H_
#define CELLBATCH_LOADGEN_NEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/client.h"

namespace cellbatch {

// By the inputs that say it.
enum class RequestForm {
  kVectors,        // X [T, D]
  kTokens,         // TOKENS [T]
  kSpelledTokens,  // the same, and CHAR_IDS, CHAR_LENGTHS
  kSource,         // SOURCE [S]: a decoder answers in words
  kBinaryTree,     // TOKENS, CHILDREN
  kDependencyTree,  // TOKENS of every node, PARENT; also where CHILDREN would do, but cells take more than two
  kLattice,  // CHARS, WORDS
  kGraph,    // NODE_TYPES, EDGES and rows
  kOther,    // whatever an unfolder of the user's own reads
};

// One of the types that NODE_TYPES numbers.
struct GraphNodeType {
  struct Port {
    std::string name;            // "leaf.x"
    bool brought = false;        // by the request, as a tensor of this name
    bool sums = false;           // takes any number of edges
    std::vector<int32_t> reads;  // edges come from nodes of these types
    // Of what is brought:
    bool floats = false;
    int64_t width = 1, ids = 0;
  };
  std::string name;
  std::vector<Port> inputs;
};

// A tensor of what a sequence begins from: "INITIAL_H" [2, 512], as "FINAL_H" is left.
struct StatePart {
  std::string initial, final;
  std::vector<int64_t> dims;
};

struct ModelNeeds {
  std::string model;
  std::string version;  // as the caller wants it; empty: the one that is served
  RequestForm form = RequestForm::kOther;
  std::string inputs;                    // for people: "TOKENS, CHILDREN"
  std::string token_datatype = "INT32";  // or INT64
  int64_t vocabulary = 0;                // TOKENS, SOURCE, the words of WORDS: ids are below
  int64_t characters = 0;                // CHAR_IDS, CHARS: likewise
  int64_t width = 0;                     // X: numbers a step
  int64_t internal_types = 1;            // trees: INTERNAL_TYPES are below
  bool binary_trees = false;             // TOKENS, CHILDREN are taken
  bool dependency_trees = false;         // TOKENS, PARENT are, by cells of more than two children
  int64_t most_children = 0;             // of a node; 0: any number
  bool reads_words = true;               // lattices: WORDS
  int64_t most_steps = 0;                // of a sequence, or characters of a lattice; 0: any number
  int64_t most_nodes = 0;                // cells of one request; 0: any number
  int64_t most_decode_steps = 0;         // of a decoder
  std::vector<GraphNodeType> node_types;
  int32_t output_type = -1;
  std::vector<StatePart> states;  // that a request may bring; empty: sequences begin from zeros
};

// FAILED_PRECONDITION where what the server says of an input is not enough to fill it.
absl::StatusOr<ModelNeeds> NeedsOf(const ModelMetadata& metadata, const ModelConfiguration& config,
                                   const std::string& version);

// "TOKENS and CHILDREN, binary trees"
const char* FormName(RequestForm form);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_NEEDS_H_

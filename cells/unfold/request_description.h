// What an unfolder says of its requests to those who make some (ModelConfig passes it on, cellbatch-loadgen reads
// it), beside the signature: how large their numbers and they themselves may be. The unfolder checks by itself.
// Plain values.
#ifndef CELLBATCH_CELLS_UNFOLD_REQUEST_DESCRIPTION_H_
#define CELLBATCH_CELLS_UNFOLD_REQUEST_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

// One of the types that NODE_TYPES numbers, where requests draw their own graphs.
struct NodeTypeDescription {
  struct Port {
    std::string name;      // "leaf.x": the type's and the input's, as a tensor that brings it
    bool brought = false;  // by the request
    bool sums = false;     // takes any number of edges
    std::vector<int32_t> reads = {};  // edges come from nodes of these types
  };
  std::string name;
  std::vector<Port> inputs;  // as EDGES numbers them
};

struct RequestDescription {
  struct Input {
    std::string name;
    int64_t num_ids = 0;   // its numbers (of rows: the last column) are below; 0: they are no ids
    int64_t max_rows = 0;  // of its first dimension; 0: the signature's max_sequence_length says
  };
  std::vector<Input> inputs = {};  // those of which there is more to say than the signature does
  int64_t max_nodes = 0;           // cells of one request; 0: any number
  int64_t max_decode_steps = 0;    // of a decoder; 0: there is none
  int64_t max_children = 0;  // of a node of a tree, whatever its type; 0: requests are no trees
  std::vector<NodeTypeDescription> node_types = {};  // of graphs that requests draw
  int32_t output_type = -1;  // of them, whose nodes are the outputs; -1: any
  bool users_own = false;    // a user's unfolder: what its tensors mean nobody else knows
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_REQUEST_DESCRIPTION_H_

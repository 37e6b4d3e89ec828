// Learns in which order a model's cells are batched, proves it on requests that were not learned from, and writes
// policy.textproto beside the model's weights: a table, or, where none was as good in the proof, the rule of thumb that
// was best; the file says from what, and how good.
//
//   requests (a file of shapes, or made up) --> unfolded --> lessons, proofs --> trainer --> policy.textproto
//                                                                                     +--> curve.svg, machine.dot
//
// Plain function; one thread; seconds. Nothing of an earlier policy is read.
#ifndef CELLBATCH_SERVER_LEARN_LEARN_ORDER_H_
#define CELLBATCH_SERVER_LEARN_LEARN_ORDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

struct LearnOrderOptions {
  std::string repository, model;
  int64_t version = 0;  // 0: the highest
  std::string
      requests;  // a file, a request a line (request_shape.h); empty: made up (built_in_shapes.h)
  // That requests name; empty: NODE_OUTPUTS too where the model has it, for then an output hangs on every node.
  std::vector<std::string> outputs;
  uint64_t seed = 1;
  bool unfolder_libraries = false;            // whether the model may bring code of its own
  std::string curve, drawing;                 // files to write; empty: none
  std::function<void(std::string_view)> say;  // a line of progress; null: nobody asks
};

struct LearnedOrder {
  std::string file;     // that was written
  std::string text;     // what is in it
  std::string summary;  // for a person, some lines
  bool table_is_best = false;
};

// INVALID_ARGUMENT: a model, file or line of it that cannot be; texts name it. FAILED_PRECONDITION: a model with one cell
// type, which leaves nothing to learn, or one whose config.textproto asks for a policy or a join beside which no policy.textproto
// decides. UNIMPLEMENTED: requests of a user's own unfolder, and no file of them.
absl::StatusOr<LearnedOrder> LearnOrder(const LearnOrderOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_LEARN_ORDER_H_

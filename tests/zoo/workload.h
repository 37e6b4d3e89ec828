// The zoo: the ten workloads of the papers (design.md section 8), each a model, real requests, and what
// the right answers are. Tests serve them over gRPC; benchmarks in process; both mean the same model.
//
//   const Workload w = MakeWorkload("treelstm", Sizes{}, 24);
//   w.model.Write(repository, "treelstm");
//   ... ask w.requests[i] ... w.reference(i, answer)
//
// Plain values; one thread.
#ifndef CELLBATCH_TESTS_ZOO_WORKLOAD_H_
#define CELLBATCH_TESTS_ZOO_WORKLOAD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "client/tensor.h"
#include "tests/zoo/reference_math.h"
#include "tests/zoo/weights.h"

namespace cellbatch::zoo {

// Widths of a model. Defaults are a test's: odd, so that no kernel meets only whole vectors.
struct Sizes {
  int64_t hidden = 21;      // of every recurrent cell
  int64_t embedding = 13;   // of a word
  int64_t vocabulary = 97;  // words, folded by hash (ED-Batch folds to 256)
  int64_t characters = 53;
  int64_t classes = 5;  // of an output
  // ED-Batch's: embeddings as wide as the hidden state, 256 words.
  static Sizes Benchmark(int64_t hidden) { return {hidden, hidden, 256, 256, 9}; }
};

// config.textproto, beside the tensors that it names.
struct ModelFolder {
  std::string config;
  WeightSet weights{1};
  std::map<std::string, std::string> definitions;  // cells of its own: NAME.textproto

  // REPOSITORY/NAME/config.textproto, with `more` behind it, and REPOSITORY/NAME/1/weights.safetensors.
  void Write(const std::string& repository, const std::string& name,
             const std::string& more = "") const;
};

struct Asked {
  std::vector<Tensor> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, int64_t> parameters;
};

// Numbers by the name of the tensor.
using Answer = std::map<std::string, Vec>;

struct Workload {
  std::string name;
  std::string source;  // of its data
  ModelFolder model;
  std::vector<Asked> requests;             // for every output that has a reference
  std::vector<std::string> paper_outputs;  // those that the papers' programs compute
  // The right answer to request `i`. A model that feeds its own words back is followed along the words
  // that it gave (`got`): see reference_translation.h.
  std::function<Answer(size_t i, const Answer& got)> reference;
};

// The names of design.md section 8, in its order.
absl::Span<const std::string_view> WorkloadNames();
// And two more: "childsum", the JIT paper's child-sum TreeLSTM over dependency trees, one cell type for
// any number of children; and "childsum_by_arity", the same with a type for each number of children.

// Ends the program for another name. At most `items` requests, from the smallest item to the largest;
// 0: the whole file, in its order.
Workload MakeWorkload(std::string_view name, const Sizes& sizes, size_t items);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_WORKLOAD_H_

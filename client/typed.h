// What our own typed service takes and gives, as plain values: sequences, trees, lattices and graphs, many
// of them in one call, and words as they are decoded. No gRPC, no threads.
//
//   InferManyInput many = {.model = "sentiment",
//                          .inputs = {TreeInput{.bracketed = "(3 (2 good) (2 film))"}, ...}};
//   const auto result = (*client)->InferMany(many);  // a loop over a temporary's answers would outlive it
//   for (const auto& answer : result->answers) ...
//
//   (*client)->Decode({.model = "translate", .source = {.tokens = {17, 4, 250}}}, {},
//                     [](const DecodedWord& word) { std::cout << word.id << ' '; return true; });
//
// proto/cellbatch.proto says what each field means, and which tensors of ModelInfer it stands for.

#ifndef CELLBATCH_CLIENT_TYPED_H_
#define CELLBATCH_CLIENT_TYPED_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace cellbatch {

// One of tokens, words and vectors.
struct SequenceInput {
  std::vector<int32_t> tokens = {};
  std::vector<std::string> words = {};  // looked up by the server
  std::vector<float> vectors = {};      // `width` for each step
  int32_t width = 0;
  std::vector<int32_t> character_ids = {};     // of words spelled out, end to end
  std::vector<int32_t> character_counts = {};  // one a token; 0: by its token
};

// Tokens of the leaves with left and right, or tokens of all nodes with parents, or bracketed alone.
struct TreeInput {
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> left = {}, right = {};
  std::vector<int32_t> parents = {};
  std::string bracketed = {};
  std::vector<int32_t> internal_types = {};
};

struct LatticeInput {
  struct Word {
    int32_t start = 0, end = 0, word = 0;  // characters [start, end)
  };
  std::vector<int32_t> characters = {};
  std::vector<Word> words = {};
};

struct GraphInput {
  struct Edge {
    int32_t from = 0, to = 0, input = 0;
  };
  struct Rows {
    std::string name;  // "leaf.x"
    int32_t width = 1;
    std::vector<float> floats = {};
    std::vector<int32_t> integers = {};
  };
  std::vector<int32_t> node_types = {};
  std::vector<Edge> edges = {};
  std::vector<Rows> rows = {};
};

// The last: tensors as ModelInfer takes them.
using TypedInput =
    std::variant<SequenceInput, TreeInput, LatticeInput, GraphInput, std::vector<Tensor>>;

struct InferManyInput {
  std::string model = {};
  std::string version = {};
  std::string id = {};
  std::vector<TypedInput> inputs = {};
  std::vector<std::string> outputs = {};           // of each; empty: OUTPUT alone
  std::map<std::string, int64_t> parameters = {};  // of each
};

struct InferManyResult {
  std::string model;
  std::string version;
  std::string id;
  std::vector<absl::StatusOr<std::vector<Tensor>>> answers;  // by input
};

struct DecodeInput {
  std::string model = {};
  std::string version = {};
  SequenceInput source = {};
  std::optional<int64_t> max_decode_steps = {};  // absent: the model's cap
  std::optional<int64_t> decode_steps = {};      // exactly so many
  int64_t priority = 0;  // 1, the most urgent, to the model's priority_levels; 0: its default
};

struct DecodedWord {
  int32_t step = 0;
  int32_t id = 0;
  std::string text;  // where the model has names for its words
};

struct DecodeResult {
  int32_t length = 0;
  bool stopped = false;  // by the end of the sequence; else at the cap
};

// Called for each word in its order. False: that is enough, the call is cancelled.
using WordCallback = std::function<bool(const DecodedWord&)>;

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TYPED_H_

// Damaged messages of our own service through the whole codec: whatever comes, each input is a request or
// INVALID_ARGUMENT with a short text; nothing crashes, and what is accepted keeps its promises.
#include <memory>

#include "gtest/gtest.h"
#include "server/requests/decoded_request.h"
#include "server/typed/typed_codec.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

// A model with inputs of every name that typed messages make, so that all of them reach the checks.
std::shared_ptr<Model> ManyInputs() {
  std::shared_ptr<Model> model = TinyModel();
  const auto add = [&](const char* name, WireType type, std::vector<int64_t> dims) {
    model->signature.inputs.push_back({name, type, std::move(dims), /*optional=*/true});
  };
  model->signature.inputs[0].optional = true;
  add("X", WireType::kFp32, {-1, 2});
  add("WORDS_TEXT", WireType::kBytes, {-1});
  add("CHAR_IDS", WireType::kInt32, {-1});
  add("CHAR_LENGTHS", WireType::kInt32, {-1});
  add("CHILDREN", WireType::kInt32, {-1, 2});
  add("PARENT", WireType::kInt32, {-1});
  add("TREE", WireType::kBytes, {1});
  add("INTERNAL_TYPES", WireType::kInt32, {-1});
  add("CHARS", WireType::kInt32, {-1});
  add("WORDS", WireType::kInt32, {-1, 3});
  add("NODE_TYPES", WireType::kInt32, {-1});
  add("EDGES", WireType::kInt32, {-1, 3});
  add("leaf.x", WireType::kFp32, {-1, 2});
  add("leaf.token", WireType::kInt32, {-1});
  model->signature.parameters = {"max_decode_steps"};
  return model;
}

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  v1::InferRequest request;
  request.set_model_name("tiny");
  const auto keep = [&] {
    corpus.push_back(request.SerializeAsString());
    return request.add_inputs();
  };
  v1::Sequence& tokens = *keep()->mutable_sequence();
  for (const int t : {1, 2, 3}) tokens.add_tokens(t);
  v1::Sequence& vectors = *keep()->mutable_sequence();
  for (const float x : {1.0f, 2.0f, 3.0f, 4.0f}) vectors.add_vectors(x);
  vectors.set_width(2);
  v1::Sequence& words = *keep()->mutable_sequence();
  words.add_words("some");
  words.add_words("words");
  v1::Tree& tree = *keep()->mutable_tree();
  for (const int t : {4, 5, 6}) tree.add_tokens(t);
  for (const int left : {0, 3}) tree.mutable_binary()->add_left(left);
  for (const int right : {1, 2}) tree.mutable_binary()->add_right(right);
  keep()->mutable_tree()->set_bracketed("(1 (2 a) (3 b))");
  v1::Lattice& lattice = *keep()->mutable_lattice();
  for (const int c : {7, 8, 9}) lattice.add_characters(c);
  lattice.mutable_words()->add_start(0);
  lattice.mutable_words()->add_end(2);
  lattice.mutable_words()->add_word(12);
  v1::Graph& graph = *keep()->mutable_graph();
  for (const int t : {0, 0, 1}) graph.add_node_types(t);
  for (const int from : {0, 1}) {
    graph.mutable_edges()->add_from(from);
    graph.mutable_edges()->add_to(2);
    graph.mutable_edges()->add_input(from);
  }
  v1::NodeRows& rows = *graph.add_rows();
  rows.set_name("leaf.x");
  rows.set_width(2);
  for (const float x : {1.0f, 2.0f, 3.0f, 4.0f}) rows.add_floats(x);
  v1::RawTensor& raw = *keep()->mutable_tensors()->add_tensors();
  raw.set_name("TOKENS");
  raw.set_datatype("INT32");
  raw.add_shape(1);
  raw.set_contents(std::string("\x05\0\0\0", 4));
  request.add_outputs("OUTPUT");
  (*request.mutable_parameters())["max_decode_steps"] = 7;
  keep();
  return corpus;
}

void ExpectPromisesKept(const RequestInput& input) {
  for (const InputTensor& tensor : input.tensors) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) {
      ASSERT_GE(dim, 1);
      elements *= dim;
    }
    if (tensor.type == WireType::kBytes) {
      ASSERT_GE(tensor.bytes.size(), static_cast<size_t>(elements) * 4);
      continue;
    }
    ASSERT_EQ(tensor.bytes.size(), static_cast<size_t>(elements) * 4);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 4, 0u);
  }
}

TEST(TypedCodecFuzzTest, DamagedMessagesAreRefusedOrKeepTheirPromises) {
  const uint64_t seed = 20261121;
  SCOPED_TRACE(seed);
  Mutator mutator(seed,
                  {"leaf.x", "TOKENS", "INT32", "max_decode_steps", std::string("\x0a\x00", 2),
                   "\x0a\x04", "\x18\xff\xff\xff\xff\x0f", "\x12\x02\x08\x01", "\x22\x06"});
  const std::shared_ptr<Model> model = ManyInputs();
  const std::vector<std::string> corpus = Corpus();
  const WireLimits limits = {
      .max_elements = 1 << 16, .max_bytes_elements = 1 << 10, .max_messages = 1 << 12};
  const MessageScanner infer = TypedInferScanner(limits), decode_too = DecodeScanner(limits);
  int64_t accepted = 0;
  FuzzBudget budget(1000);
  const auto check = [](const absl::Status& status) {
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ASSERT_LT(status.message().size(), 1000u);
  };
  while (budget.Next()) {
    const std::string bytes = mutator.Mutate(corpus[mutator.Below(corpus.size())]);
    v1::InferRequest request;
    if (absl::Status s = infer.Parse(bytes, request); !s.ok()) {
      check(s);
      continue;
    }
    bool all = request.inputs_size() > 0;
    for (const v1::Input& input : request.inputs()) {
      MadeContents made;
      PlainRequest plain;
      DecodedRequest decoded;
      absl::Status s = ToTensors(input, model->signature, made, plain);
      if (s.ok()) s = decoded.Decode(plain, *model);
      if (s.ok()) {
        ExpectPromisesKept(decoded.input());
      } else {
        all = false;
        check(s);
      }
      if (HasFatalFailure()) return;
    }
    accepted += all ? 1 : 0;
    v1::DecodeRequest decode;  // the same bytes, read as another message
    if (absl::Status s = decode_too.Parse(bytes, decode); !s.ok()) check(s);
    if (HasFatalFailure()) return;
  }
  // Damage that leaves nothing alive, or everything, tests nothing.
  EXPECT_GT(accepted, budget.cases() / 50);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

}  // namespace
}  // namespace cellbatch

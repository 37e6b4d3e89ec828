// Damaged bodies of inference over HTTP through the whole codec: whatever comes, the answer is a request or
// INVALID_ARGUMENT with a short text; nothing crashes, and what is accepted keeps its promises.
#include <algorithm>
#include <string>
#include <vector>

#include "cells/cell_graph.h"
#include "gtest/gtest.h"
#include "server/http/kserve/infer_json.h"
#include "server/requests/decoded_request.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

struct Body {
  std::string bytes;
  size_t json_bytes;
};

std::vector<Body> Corpus() {
  const std::vector<std::string> whole = {
      R"({"inputs":[{"name":"TOKENS","shape":[4],"datatype":"INT32","data":[1,2,3,4]}]})",
      R"({"id":"an id","parameters":{"timeout":1000,"priority":1,"text":"a\u00e9"},
          "inputs":[{"data":[[5],[6],[7]],"shape":[3],"datatype":"INT64","name":"TOKENS"}],
          "outputs":[{"name":"OUTPUT","parameters":{"binary_data":true}}]})"};
  std::vector<Body> corpus;
  for (const std::string& json : whole) corpus.push_back({json, json.size()});
  const std::string json =
      R"({"inputs":[{"name":"TOKENS","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":8}}]})";
  corpus.push_back({json + std::string("\1\0\0\0\2\0\0\0", 8), json.size()});
  return corpus;
}

TEST(InferJsonFuzzTest, DamagedBodiesAreRefusedOrKeepTheirPromises) {
  const uint64_t seed = 20261122;
  SCOPED_TRACE(seed);
  Mutator mutator(seed,
                  {"\"data\":", "\"shape\":", "[", "]", "{", "}", ",", "1e39", "-0",
                   "9223372036854775808", "\"INT64\"", "\"FP32\"", "\"BYTES\"", "null", "true",
                   "\"\\ud800\"", "\"binary_data_size\":4", "\"outputs\":", "\"id\":\"x\","});
  const std::shared_ptr<Model> model = TinyModel();
  const std::vector<Body> corpus = Corpus();
  int64_t accepted = 0;
  FuzzBudget budget(1000);
  while (budget.Next()) {
    const Body& valid = corpus[mutator.Below(corpus.size())];
    const std::string bytes = mutator.Mutate(valid.bytes);
    // Where the JSON ends moves with the damage, or does not.
    const size_t behind = valid.bytes.size() - valid.json_bytes;
    const size_t json_bytes = mutator.Below(8) == 0 ? mutator.Below(bytes.size() + 2)
                                                    : bytes.size() - std::min(behind, bytes.size());
    InferJson json;
    DecodedRequest decoded;
    absl::Status status = json.Parse(bytes, json_bytes, {});
    PlainRequest plain;
    if (status.ok()) {
      json.Spell(plain);
      status = decoded.Decode(plain, *model);
    }
    if (status.ok()) {
      ++accepted;
      for (const InputTensor& tensor : decoded.input().tensors) {
        const auto* tokens = reinterpret_cast<const int32_t*>(tensor.bytes.data());
        ASSERT_EQ(tensor.bytes.size(), static_cast<size_t>(tensor.dims[0]) * 4);
        for (int64_t i = 0; i < tensor.dims[0]; ++i) {
          ASSERT_TRUE(tokens[i] >= 0 && tokens[i] < 100) << tokens[i];
        }
      }
      CellGraph graph;
      status = model->unfolder->Unfold(decoded.input(), graph);
      if (status.ok()) status = graph.Seal(*model, 1);
    }
    if (!status.ok()) {
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      ASSERT_LT(status.message().size(), 1000u);
    }
  }
  // Damage that leaves nothing alive, or everything, tests nothing.
  EXPECT_GT(accepted, budget.cases() / 50);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

}  // namespace
}  // namespace cellbatch

// Damaged bodies of inference over HTTP through the whole codec: whatever comes, the answer is a request or
// INVALID_ARGUMENT with a short text; nothing crashes, and what is accepted keeps its promises.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/http/kserve/infer_json.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/tokens_damage.h"

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
  const std::vector<Body> corpus = Corpus();
  std::string bytes;
  std::optional<InferJson> json;
  ExpectRefusedOrPromisesKept([&](const Model&, PlainRequest& plain) {
    const Body& valid = corpus[mutator.Below(corpus.size())];
    bytes = mutator.Mutate(valid.bytes);
    // Where the JSON ends moves with the damage, or does not.
    const size_t behind = valid.bytes.size() - valid.json_bytes;
    const size_t json_bytes = mutator.Below(8) == 0 ? mutator.Below(bytes.size() + 2)
                                                    : bytes.size() - std::min(behind, bytes.size());
    json.emplace();
    absl::Status status = json->Parse(bytes, json_bytes, {});
    if (status.ok()) json->Spell(plain);
    return status;
  });
}

}  // namespace
}  // namespace cellbatch

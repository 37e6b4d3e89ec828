// Damaged ModelInferRequests through the whole codec: whatever comes, the answer is a request or
// INVALID_ARGUMENT with a short text; nothing crashes, and what is accepted keeps its promises.
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/wire/wire_codec.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/tokens_damage.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  inference::ModelInferRequest raw = TokensRequest({1, 2, 3, 4});
  corpus.push_back(raw.SerializeAsString());
  raw.set_id("an id");
  raw.set_model_version("1");
  raw.add_outputs()->set_name("OUTPUT");
  (*raw.mutable_parameters())["timeout"].set_int64_param(1000);
  (*raw.mutable_parameters())["priority"].set_uint64_param(1);
  corpus.push_back(raw.SerializeAsString());
  inference::ModelInferRequest typed = TokensRequest({5, 6, 7});
  typed.clear_raw_input_contents();
  for (const int token : {5, 6, 7}) {
    typed.mutable_inputs(0)->mutable_contents()->add_int_contents(token);
  }
  corpus.push_back(typed.SerializeAsString());
  typed.mutable_inputs(0)->set_datatype("INT64");
  typed.mutable_inputs(0)->clear_contents();
  for (const int token : {5, 6, 7}) {
    typed.mutable_inputs(0)->mutable_contents()->add_int64_contents(token);
  }
  corpus.push_back(typed.SerializeAsString());
  return corpus;
}

TEST(WireCodecFuzzTest, DamagedRequestsAreRefusedOrKeepTheirPromises) {
  const uint64_t seed = 20260719;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"TOKENS", "INT32", "INT64", "FP32", std::string("\x2a\x00", 2), "\x3a\x04",
                         "\x18\xff\xff\xff\xff\x0f", "\x1a\x02\x03\x04", "OUTPUT", "timeout"});
  const std::vector<std::string> corpus = Corpus();
  const MessageScanner scanner = InferScanner({});
  std::string bytes;
  std::optional<InferMessage> message;
  ExpectRefusedOrPromisesKept([&](const Model& model, PlainRequest& plain) {
    bytes = mutator.Mutate(corpus[mutator.Below(corpus.size())]);
    message.emplace();
    absl::Status status = message->Parse(bytes, scanner);
    return status.ok() ? message->Spell(model, plain) : status;
  });
}

}  // namespace
}  // namespace cellbatch

// Damaged ModelInferRequests through the whole codec: whatever comes, the answer is a request or
// INVALID_ARGUMENT with a short text; nothing crashes, and what is accepted keeps its promises.
#include <memory>

#include "gtest/gtest.h"
#include "server/requests/decoded_request.h"
#include "server/wire/wire_codec.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
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

void ExpectPromisesKept(const RequestInput& input) {
  for (const InputTensor& tensor : input.tensors) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) {
      ASSERT_GE(dim, 1);
      elements *= dim;
    }
    ASSERT_EQ(tensor.bytes.size(), static_cast<size_t>(elements) * 4);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 4, 0u);
    for (int64_t i = 0; i < elements; ++i) {
      const int32_t token = reinterpret_cast<const int32_t*>(tensor.bytes.data())[i];
      ASSERT_TRUE(token >= 0 && token < 100) << token;
    }
  }
}

TEST(WireCodecFuzzTest, DamagedRequestsAreRefusedOrKeepTheirPromises) {
  const uint64_t seed = 20260719;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"TOKENS", "INT32", "INT64", "FP32", std::string("\x2a\x00", 2), "\x3a\x04",
                         "\x18\xff\xff\xff\xff\x0f", "\x1a\x02\x03\x04", "OUTPUT", "timeout"});
  const std::shared_ptr<Model> model = TinyModel();
  const std::vector<std::string> corpus = Corpus();
  int64_t accepted = 0;
  FuzzBudget budget(1000);
  while (budget.Next()) {
    const std::string bytes = mutator.Mutate(corpus[mutator.Below(corpus.size())]);
    InferMessage message;
    PlainRequest plain;
    DecodedRequest decoded;
    absl::Status status = message.Parse(bytes, {});
    if (status.ok()) status = message.Spell(*model, plain);
    if (status.ok()) status = decoded.Decode(plain, *model);
    if (status.ok()) {
      ++accepted;
      ExpectPromisesKept(decoded.input());
      if (HasFatalFailure()) return;
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

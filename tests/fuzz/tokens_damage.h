// Requests of tokens to TinyModel, damaged in whatever they were written: how each must end, and that the damage was
// neither too much nor too little. One thread.
#ifndef CELLBATCH_TESTS_FUZZ_TOKENS_DAMAGE_H_
#define CELLBATCH_TESTS_FUZZ_TOKENS_DAMAGE_H_

#include <cstdint>
#include <memory>

#include "cells/cell_graph.h"
#include "gtest/gtest.h"
#include "server/requests/decoded_request.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/testing/test_model.h"

namespace cellbatch {

inline void ExpectTokens(const RequestInput& input) {
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

// `spell(model, plain)`: makes the next damaged message, and a plain request of it if it can; what that views stays until
// the next call.
template <typename Spell>
void ExpectRefusedOrPromisesKept(const Spell& spell) {
  const std::shared_ptr<Model> model = TinyModel();
  int64_t accepted = 0;
  FuzzBudget budget(1000);
  while (budget.Next()) {
    PlainRequest plain;
    DecodedRequest decoded;
    absl::Status status = spell(*model, plain);
    if (status.ok()) status = decoded.Decode(plain, *model);
    if (status.ok()) {
      ++accepted;
      ExpectTokens(decoded.input());
      if (::testing::Test::HasFatalFailure()) return;
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

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FUZZ_TOKENS_DAMAGE_H_

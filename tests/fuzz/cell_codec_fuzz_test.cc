// Damaged definitions: whatever the text, the codec answers, with a place where it refuses, and what it accepts
// obeys what a CellDefinition promises, is compiled or refused by name, and comes apart into operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/explode.h"
#include "server/cells/cell_codec.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20240612;

std::vector<std::string> Tokens() {
  return {"\"4*H\"",
          "\"H/0\"",
          "\"((((((H))))))\"",
          "dims: \"-1\"",
          "dims: \"2147483647\"",
          "args: \"h\"",
          "kind: ARGMAX",
          "kind: LOOKUP",
          "kind: TRANSPOSE",
          "arity: SUM",
          "carry: \"x\"",
          "type: INT32",
          "optional: true",
          "ops {",
          "}",
          "begin: \"H\"",
          "value: nan",
          "\"\\377\"",
          "name: \"\"",
          "# a comment"};
}

// What is known when an LSTM, a GRU or any other of the shipped cells is built.
std::vector<KnownShape> Known(const CellText& text) {
  std::vector<KnownShape> known;
  for (const disk::CellParameter& p : text.message.parameters()) {
    if (p.name() == "W" && p.dims_size() == 2) known.push_back({"W", {24, 5}, "a tensor"});
    if (p.name() == "U" && p.dims_size() == 2) known.push_back({"U", {24, 6}, "a tensor"});
  }
  return known;
}

void ExpectSound(const CellDefinition& cell) {
  EXPECT_FALSE(cell.name().empty());
  EXPECT_FALSE(cell.columns().empty());
  EXPECT_EQ(cell.columns().size(), cell.outputs().size());
  for (const Column& c : cell.columns()) EXPECT_GE(c.width, 1);
  for (size_t i = 0; i < cell.ops().size(); ++i) {
    for (const ValueId a : cell.ops()[i].args) EXPECT_LT(a.value(), static_cast<int32_t>(i));
  }
}

// A program whose every tail is well formed, or a reason. True: a program.
bool ExpectCompiledOrRefused(const CellDefinition& cell) {
  const absl::StatusOr<CellProgram> program = Lower(cell, kCpuLimits);
  if (!program.ok()) {
    EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented) << program.status();
    EXPECT_THAT(std::string(program.status().message()), testing::HasSubstr(cell.name()));
    return false;
  }
  for (const Step& step : program->steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr) continue;
    EXPECT_EQ(CheckProduct(*product, kCpuLimits), "") << Describe(*program);
  }
  return true;
}

void ExpectComesApart(const CellDefinition& cell) {
  const ExplodedCell exploded = Explode(cell);
  ASSERT_EQ(exploded.outputs.size(), cell.outputs().size());
  for (size_t o = 0; o < exploded.outputs.size(); ++o) {
    const auto node = static_cast<size_t>(exploded.outputs[o]);
    ASSERT_LT(node, exploded.nodes.size());
    const Column& left = exploded.nodes[node].definition->columns()[0];
    EXPECT_EQ(left.width, cell.columns()[o].width);
    EXPECT_EQ(left.type, cell.columns()[o].type);
  }
  for (size_t n = 0; n < exploded.nodes.size(); ++n) {
    for (const OperatorSource& s : exploded.nodes[n].sources) {
      EXPECT_LT(s.node, static_cast<int32_t>(n));
    }
  }
}

TEST(CellCodecFuzzTest, DamagedTextsAreRefusedWithAPlaceOrSound) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(kSeed, Tokens());
  int accepted = 0, built = 0, compiled = 0, refused = 0;
  FuzzBudget budget(1000);
  while (budget.Next() && !HasFailure()) {
    const ShippedCell& shipped = ShippedCells()[mutator.Below(ShippedCells().size())];
    absl::StatusOr<CellText> text = ParseCell(mutator.Mutate(shipped.text), "damaged");
    if (text.ok() && mutator.Below(3) == 0) {
      const ShippedCell& front = ShippedCells()[mutator.Below(ShippedCells().size())];
      text = PutBefore(*ParseCell(front.text, "front"), *text, "x");
    }
    if (!text.ok()) {
      ++refused;
      EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(text.status().message()), testing::HasSubstr("damaged"));
      continue;
    }
    ++accepted;
    const Sizes sizes = {{"D", 5}, {"H", 6}, {"V", 9}, {"C", 3}, {"F", 4},
                         {"B", 4}, {"L", 7}, {"M", 2}, {"P", 8}, {"BOS", 1}};
    const auto cell = BuildCell(*text, mutator.Below(2) == 0 ? sizes : Sizes(), Known(*text));
    if (cell.ok()) {
      ++built;
      ExpectSound(*cell);
      compiled += ExpectCompiledOrRefused(*cell) ? 1 : 0;
      ExpectComesApart(*cell);
    } else {
      EXPECT_EQ(cell.status().code(), absl::StatusCode::kInvalidArgument) << cell.status();
    }
  }
  std::cout << refused << " refused, " << accepted << " parsed, " << built << " built, " << compiled
            << " compiled\n";
  EXPECT_GT(refused, budget.cases() / 12);
  EXPECT_GT(built, budget.cases() / 60) << "the damage never gets past the first check";
  EXPECT_GT(compiled, built / 2);
}

}  // namespace
}  // namespace cellbatch

// Damaged lattices and graphs: whatever numbers CHARS, WORDS, LENGTHS, NODE_TYPES and EDGES hold, the unfolder refuses
// them with a text that names the tensor, or the graph that it makes is sound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "cells/unfold/dag_unfolder.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/builders.h"
#include "tests/testing/lattice_model.h"

namespace cellbatch {
namespace {

using testing::LatticeRequest;

constexpr uint64_t kSeed = 20241103;

// Numbers that reach the deeper checks, as the bytes that damage pastes in.
std::vector<std::string> Numbers() {
  std::vector<std::string> pieces;
  for (const int32_t n : {0, 1, 2, 3, 4, 7, 19, 20, 29, 30, 100, -1, INT32_MAX, INT32_MIN}) {
    pieces.emplace_back(reinterpret_cast<const char*>(&n), sizeof(n));
  }
  return pieces;
}

// Whole numbers out of damaged bytes; damage inside a number stays.
void Damage(Mutator& mutator, std::vector<int32_t>& values, size_t columns) {
  const std::string bytes = mutator.Mutate(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)});
  values.resize(bytes.size() / sizeof(int32_t) / columns * columns);
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(int32_t));
  }
}

struct Counts {
  int64_t refused = 0, sealed = 0;
};

void Try(const Model& model, const RequestInput& input, Counts& counts) {
  CellGraph graph;
  const absl::Status unfolded = model.unfolder->Unfold(input, graph);
  if (!unfolded.ok()) {
    ++counts.refused;
    EXPECT_EQ(unfolded.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(unfolded.message()), ::testing::StartsWith("input"));
    return;
  }
  // What an unfolder lets pass is never for Seal to refuse.
  ASSERT_EQ(graph.Seal(model, 2), absl::OkStatus());
  ++counts.sealed;
  for (const ReturnedTensor& t : graph.tensors()) EXPECT_FALSE(t.bytes.empty());
}

TEST(LatticeFuzzTest, DamagedLatticesAreRefusedByNameOrSound) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(kSeed, Numbers());
  std::mt19937_64 random(kSeed);
  const testing::LatticeModel lattices({.max_characters = 60, .max_nodes = 150});
  Counts counts;
  FuzzBudget budget(20'000, 0.5);
  while (budget.Next()) {
    LatticeRequest request = testing::RandomLattice(random, 40);
    const uint64_t what = mutator.Below(8);
    if (what >= 2) request.lengths = {static_cast<int32_t>(request.chars.size())};
    if (what == 3 && request.chars.size() > 4) {
      request.lengths = {2, static_cast<int32_t>(request.chars.size()) - 2};
    }
    if (what < 3) Damage(mutator, request.words, 3);
    if (what == 4 || what == 5) Damage(mutator, request.lengths, 1);
    if (what >= 6) Damage(mutator, request.chars, 1);
    if (request.chars.empty()) continue;  // the wire refuses empty tensors
    Try(*lattices.model(), request.Input({"OUTPUT", "NODE_OUTPUTS"}), counts);
  }
  std::cout << counts.refused << " refused, " << counts.sealed << " sealed\n";
  EXPECT_GT(counts.refused, budget.cases() / 4);
  EXPECT_GT(counts.sealed, budget.cases() / 20) << "the damage never gets past the first check";
}

std::shared_ptr<Model> GraphModel() {
  testing::ModelBuilder builder("dag");
  DagSpec spec;
  spec.types = {builder.Add(testing::ChildSumCell(2, 3), 1),
                builder.Add(testing::ElmanCell(2, 3), 2),
                builder.Add(testing::LinearCell(3, 3, "h"), 3)};
  builder.Connect(spec.types[2], "x", spec.types[0]);
  std::shared_ptr<Model> model = builder.Build();
  spec.inputs = {{spec.types[0], InputId(0), {}}, {spec.types[1], InputId(0), {}}};
  spec.output_type = spec.types[2];
  spec.output = "y";
  spec.max_nodes = 60;
  auto unfolder = DagUnfolder::Create(spec, *model);
  EXPECT_TRUE(unfolder.ok()) << unfolder.status();
  model->unfolder = *std::move(unfolder);
  return model;
}

InputTensor Tensor(std::string_view name, const void* data, TensorDims dims, WireType type) {
  int64_t bytes = 4;
  for (const int64_t d : dims) bytes *= d;
  return {name,
          type,
          std::move(dims),
          {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)}};
}

TEST(LatticeFuzzTest, DamagedGraphsAreRefusedByNameOrSound) {
  Mutator mutator(kSeed, Numbers());
  const std::shared_ptr<Model> model = GraphModel();
  const std::vector<float> rows(2 * 1000);
  Counts counts;
  FuzzBudget budget(20'000, 0.5);
  while (budget.Next()) {
    std::vector<int32_t> types, edges;
    const auto nodes = static_cast<int32_t>(1 + mutator.Below(30));
    for (int32_t n = 0; n < nodes; ++n) {
      types.push_back(n == nodes - 1 ? 2 : static_cast<int32_t>(mutator.Below(3)));
      const int32_t type = types.back();
      for (uint64_t e = n == 0 ? 0 : mutator.Below(type == 0 ? 4 : 2); e > 0; --e) {
        const auto from = static_cast<int32_t>(mutator.Below(static_cast<uint64_t>(n)));
        if (types[static_cast<size_t>(from)] == 2) continue;
        edges.insert(edges.end(), {from, n, type == 2 ? 0 : 1});
      }
    }
    if (mutator.Below(3) == 0) Damage(mutator, types, 1);
    if (mutator.Below(2) == 0) Damage(mutator, edges, 3);
    if (types.empty()) continue;
    RequestInput input;
    const auto count = [&](int32_t type) { return std::count(types.begin(), types.end(), type); };
    input.tensors.push_back(
        Tensor("NODE_TYPES", types.data(), {static_cast<int64_t>(types.size())}, WireType::kInt32));
    if (!edges.empty()) {
      input.tensors.push_back(Tensor(
          "EDGES", edges.data(), {static_cast<int64_t>(edges.size() / 3), 3}, WireType::kInt32));
    }
    const char* const names[] = {"child_sum_0.x", "elman_1.x"};
    for (int32_t type = 0; type < 2; ++type) {
      const int64_t rows_of = count(type) + (mutator.Below(16) == 0 ? 1 : 0);
      if (rows_of == 0) continue;
      input.tensors.push_back(Tensor(names[type], rows.data(), {rows_of, 2}, WireType::kFp32));
    }
    input.outputs = {"OUTPUT", "NODE_OUTPUTS"};
    Try(*model, input, counts);
  }
  std::cout << counts.refused << " refused, " << counts.sealed << " sealed\n";
  EXPECT_GT(counts.refused, budget.cases() / 5);
  EXPECT_GT(counts.sealed, budget.cases() / 20) << "the damage never gets past the first check";
}

}  // namespace
}  // namespace cellbatch

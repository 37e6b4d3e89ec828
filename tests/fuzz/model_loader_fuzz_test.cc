// Damaged model folders: a config or a weights file that was bitten into is refused in words, or
// makes a model that is valid.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cells/weights/safetensors.h"
#include "server/convert/import_torch.h"
#include "server/repository/model_loader.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20240613;

std::string Read(const std::string& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// A new file each time: truncating one makes some file systems wait for the disk.
void Write(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

// A small model of both directions over tokens, with a head.
std::string MakeFolder() {
  const std::string folder = testing::TempDir() + "/fuzzed";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::vector<float> w(200, 0.25f);
  const auto some = [&](size_t n) { return absl::MakeConstSpan(w).first(n); };
  const std::string from = folder + "/state.safetensors";
  EXPECT_TRUE(WriteSafetensors(from, {{"emb.weight", {7, 3}, some(21)},
                                      {"weight_ih_l0", {12, 3}, some(36)},
                                      {"weight_hh_l0", {12, 4}, some(48)},
                                      {"weight_ih_l0_reverse", {12, 3}, some(36)},
                                      {"weight_hh_l0_reverse", {12, 4}, some(48)},
                                      {"fc.weight", {2, 8}, some(16)},
                                      {"fc.bias", {2}, some(2)}})
                  .ok());
  EXPECT_TRUE(ImportTorch({.from = from, .repository = folder, .name = "m", .hints = {}}).ok());
  return folder + "/m";
}

TEST(ModelLoaderFuzzTest, DamagedFoldersAreRefusedOrMakeValidModels) {
  std::cout << "seed " << kSeed << "\n";
  const std::string folder = MakeFolder();
  const std::string config = folder + "/config.textproto";
  const std::string weights = folder + "/1/weights.safetensors";
  const std::string good_config = Read(config), good_weights = Read(weights);
  Mutator mutator(
      kSeed, {"cell: \"pair\"", "cell: \"below\"", "name: \"head\"", "tensors: \"fc.bias\"",
              "transposed: true", "max_batch: -1", "min_batch: 1000000", "priority: 7",
              "priority_levels: 3", "default_priority_level: 2", "head: \"\"", "input: VECTORS",
              "vocabulary { size: -1 }", "weight: nan", "layers { }", "through: \"embed\"",
              "through: \"pair\"", "}", "{"});
  LoaderLimits limits;
  limits.max_weight_bytes = 1 << 20;
  int loaded = 0, refused = 0;
  FuzzBudget budget(500);
  while (budget.Next() && !HasFailure()) {
    const bool bite_config = mutator.Below(3) > 0;
    Write(config, bite_config ? mutator.Mutate(good_config) : good_config);
    Write(weights, bite_config ? good_weights : mutator.Mutate(good_weights));
    const auto model = LoadModel(folder, "m", 1, ModelId(0), limits);
    if (model.ok()) {
      ++loaded;
      EXPECT_TRUE((*model)->Validate().ok());
      EXPECT_NE((*model)->unfolder, nullptr);
      EXPECT_GE((*model)->signature.max_sequence_length, 1);
    } else {
      ++refused;
      EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << model.status();
      EXPECT_FALSE(model.status().message().empty());
    }
  }
  std::cout << loaded << " loaded, " << refused << " refused\n";
  EXPECT_GT(loaded, budget.cases() / 60);
  EXPECT_GT(refused, budget.cases() / 6);
}

}  // namespace
}  // namespace cellbatch

#include "server/convert/precision_cost.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cells/weights/safetensors.h"
#include "server/convert/import_torch.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kIn = 6, kUnits = 20, kLabels = 5, kWords = 30;

using Tensors = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>>;

class PrecisionCostTest : public ::testing::Test {
 protected:
  static std::string Write(const std::string& name, const Tensors& tensors) {
    const std::string file = ::testing::TempDir() + "/" + name;
    std::vector<SafetensorsSource> sources;
    for (const auto& [tensor, of] : tensors) sources.push_back({tensor, of.first, of.second});
    EXPECT_TRUE(WriteSafetensors(file, sources).ok());
    return file;
  }

  // One tensor, which WriteSafetensors, knowing floats only, does not write.
  static std::string WriteIntegers(const std::string& name, const std::vector<int64_t>& numbers) {
    const std::string file = ::testing::TempDir() + "/" + name;
    const std::string json =
        fmt::format(R"({{"words":{{"dtype":"I64","shape":[{}],"data_offsets":[0,{}]}}}})",
                    numbers.size(), numbers.size() * sizeof(int64_t));
    const uint64_t size = json.size();
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), sizeof(size));
    out << json;
    out.write(reinterpret_cast<const char*>(numbers.data()),
              static_cast<std::streamsize>(numbers.size() * sizeof(int64_t)));
    return file;
  }

  // Weights are whole multiples of 1/64 up to 127/64, the largest of every line: what W8 holds exactly.
  void Import(const std::string& precision, bool tokens) {
    std::mt19937 random(7);
    Tensors tensors;
    const auto add = [&](const std::string& name, int64_t rows, int64_t cols) {
      std::vector<float> values;
      for (int64_t i = 0; i < rows * cols; ++i) {
        values.push_back(i % cols == 0 ? 127.0f / 64
                                       : static_cast<float>(random() % 65) / 64 - 0.5f);
      }
      std::vector<int64_t> shape = {rows, cols};
      if (cols == 1) shape.pop_back();
      tensors[name] = {shape, values};
    };
    if (tokens) add("embedding.weight", kWords, kIn);
    add("rnn.weight_ih_l0", 4 * kUnits, kIn);
    add("rnn.weight_hh_l0", 4 * kUnits, kUnits);
    add("rnn.bias_ih_l0", 4 * kUnits, 1);
    add("rnn.bias_hh_l0", 4 * kUnits, 1);
    add("fc.weight", kLabels, kUnits);
    add("fc.bias", kLabels, 1);
    std::filesystem::remove_all(repository_);
    const ImportOptions options = {.from = Write("state.safetensors", tensors),
                                   .repository = repository_,
                                   .name = "m",
                                   .precision = precision,
                                   .hints = {}};
    const auto imported = ImportTorch(options);
    ASSERT_TRUE(imported.ok()) << imported.status();
  }

  absl::StatusOr<PrecisionCost> Measure(const std::string& inputs = "") const {
    return MeasurePrecisionCost(repository_ + "/m", "m", 1, inputs);
  }
  std::string Error(const Tensors& inputs) const {
    const auto cost = Measure(Write("inputs.safetensors", inputs));
    return cost.ok() ? "measured" : std::string(cost.status().message());
  }

  const std::string repository_ = ::testing::TempDir() + "/repository";
};

TEST_F(PrecisionCostTest, OfBf16ItIsWhatAnswersDifferBy) {
  for (const bool tokens : {false, true}) {
    Import("BF16", tokens);
    const auto cost = Measure(), again = Measure();
    ASSERT_TRUE(cost.ok()) << cost.status();
    EXPECT_EQ(cost->computed, Precision::kBf16);
    EXPECT_GT(cost->of_norm, 0.0);
    EXPECT_LT(cost->of_norm, 0.05);
    EXPECT_GT(cost->most, 0.0);
    EXPECT_EQ(cost->rows, 64) << "a row of labels for each sequence";
    EXPECT_LT(cost->other_largest, 16);
    EXPECT_EQ(cost->of_norm, again->of_norm) << "the same sequences";
    EXPECT_THAT(Describe(*cost), HasSubstr("BF16 against FP32, 64 random sequences"));
  }
}

TEST_F(PrecisionCostTest, OfWeightsThatW8HoldsItIsWhatRoundingLeaves) {
  Import("W8", false);
  const auto cost = Measure();
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->computed, Precision::kW8);
  EXPECT_LT(cost->of_norm, 1e-5);
  EXPECT_EQ(cost->other_largest, 0);
}

TEST_F(PrecisionCostTest, SplitFp32CostsNothingWhereItIsFp32AndLittleElsewhere) {
  Import("FP32_SPLIT", false);
  const auto cost = Measure();
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_LT(cost->of_norm, 2e-5);
  const bool split = cost->computed == Precision::kFp32Split;
  EXPECT_THAT(Describe(*cost),
              HasSubstr(split ? "FP32_SPLIT against FP32" : "none on this machine"));
}

TEST_F(PrecisionCostTest, Tf32CostsNothingOnACpu) {
  Import("TF32", false);
  const auto cost = Measure();
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->computed, Precision::kFp32);
  EXPECT_THAT(Describe(*cost), HasSubstr("none on this machine"));
}

TEST_F(PrecisionCostTest, SequencesMayBeGiven) {
  Import("BF16", false);
  const std::string file =
      Write("inputs.safetensors", {{"one", {{2, kIn}, std::vector<float>(12, 0.3f)}},
                                   {"two", {{1, kIn}, std::vector<float>(6, -1)}}});
  const auto cost = Measure(file);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->steps, 3);
  EXPECT_EQ(cost->rows, 2);
  EXPECT_GT(cost->most, 0.0);
  EXPECT_THAT(Describe(*cost), HasSubstr("the 2 sequences of " + file + ", 3 steps"));
  Import("BF16", true);
  EXPECT_EQ(Error({{"words", {{3}, {0, 29, 7}}}}), "measured");
}

TEST_F(PrecisionCostTest, WordsMayBeIntegers) {
  Import("BF16", true);
  const std::string floats = Write("floats.safetensors", {{"words", {{3}, {0, 29, 7}}}});
  const std::string integers = WriteIntegers("integers.safetensors", {0, 29, 7});
  const auto by_floats = Measure(floats), by_integers = Measure(integers);
  ASSERT_TRUE(by_floats.ok()) << by_floats.status();
  ASSERT_TRUE(by_integers.ok()) << by_integers.status();
  EXPECT_EQ(by_integers->steps, 3);
  EXPECT_EQ(by_integers->most, by_floats->most) << "the same words";
  // One more than 2^53, which as a float would be another one.
  for (const int64_t word : {int64_t{30}, int64_t{-1}, int64_t{9007199254740993}}) {
    const auto wrong = Measure(WriteIntegers("wrong.safetensors", {word}));
    EXPECT_THAT(std::string(wrong.status().message()),
                HasSubstr("holds " + std::to_string(word) + ", words are numbered 0 to 29"));
  }
  Import("BF16", false);
  EXPECT_THAT(std::string(Measure(integers).status().message()),
              HasSubstr("is [3], a sequence is [T, 6]"));
}

TEST_F(PrecisionCostTest, WhatIsNoSequenceIsNamed) {
  Import("BF16", false);
  EXPECT_THAT(Error({{"a", {{2, 5}, std::vector<float>(10)}}}),
              HasSubstr("inputs.safetensors: tensor \"a\" is [2, 5], a sequence is [T, 6]"));
  EXPECT_THAT(Error({{"a", {{0, kIn}, {}}}}),
              HasSubstr("tensor \"a\" has 0 steps, a sequence has 1 to"));
  std::vector<float> not_all_numbers(6, 0.5f);
  not_all_numbers[4] = std::nanf("");
  EXPECT_THAT(Error({{"a", {{1, kIn}, not_all_numbers}}}),
              HasSubstr("\"a\" holds nan at element 4"));
  EXPECT_THAT(Error({}), HasSubstr("no tensor, no sequence"));
  EXPECT_THAT(std::string(Measure("absent.safetensors").status().message()),
              HasSubstr("absent.safetensors"));
  Import("BF16", true);
  EXPECT_THAT(Error({{"a", {{1, 2}, {1, 2}}}}), HasSubstr("is [1, 2], a sequence is [T]"));
  EXPECT_THAT(Error({{"a", {{2}, {1, 30}}}}), HasSubstr("holds 30, words are numbered 0 to 29"));
  EXPECT_THAT(Error({{"a", {{2}, {1, 0.5f}}}}), HasSubstr("holds 0.5, words are numbered 0 to 29"));
}

}  // namespace
}  // namespace cellbatch

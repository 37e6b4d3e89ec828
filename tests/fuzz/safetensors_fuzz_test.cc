// Damaged files: whatever the bytes, the parser answers, and what it accepts obeys every rule of
// the header. The corpus is made here; under the sanitizers this is where they look.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "cells/weights/safetensors.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20240611;

std::string WithSize(const std::string& json, size_t data) {
  const uint64_t size = json.size();
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + json + std::string(data, '\7');
}

std::vector<std::string> Corpus() {
  return {
      WithSize("{}", 0),
      WithSize(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[4,3],)"
               R"("data_offsets":[0,48]},"b":{"dtype":"F16","shape":[3],"data_offsets":[48,54]}})",
               54),
      WithSize(R"({"e\u00e9\"":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
               R"("z":{"data_offsets":[8,8],"shape":[0,7],"dtype":"BF16"}}   )",
               8),
  };
}

// What any accepted header promises, however its file came to be.
void ExpectSound(const SafetensorsHeader& header, uint64_t file_size) {
  uint64_t covered = 0;
  for (const SafetensorsEntry& t : header.tensors) {
    EXPECT_EQ(t.begin, covered);
    EXPECT_GE(t.num_elements(), 0);
    EXPECT_LE(static_cast<uint64_t>(t.num_elements()), t.end - t.begin);
    covered = t.end;
  }
  EXPECT_EQ(header.data_begin + covered, file_size);
}

TEST(SafetensorsFuzzTest, DamagedFilesAreRefusedOrSound) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(
      kSeed, {"\"dtype\"", "\"shape\":", "[0,0]", "{", "}", "[", "]", "18446744073709551615", "-1",
              "1e9", "null", "true", "\"F64\"", "\\u0000", "\xff", ",", "9223372036854775807"});
  int accepted = 0, refused = 0;
  const std::vector<std::string> corpus = Corpus();
  FuzzBudget budget(1000);
  for (const std::string& valid : corpus) {
    ASSERT_TRUE(ParseSafetensorsHeader(valid, valid.size()).ok());
  }
  while (budget.Next() && !HasFailure()) {
    for (const std::string& valid : corpus) {
      std::string bytes = mutator.Mutate(valid);
      // Half of the time the length is made right again, so that the damage is looked at.
      if (mutator.Below(2) == 0 && bytes.size() > 8) {
        const uint64_t size = bytes.rfind('}') + 1 - 8;
        if (size < bytes.size()) std::memcpy(bytes.data(), &size, sizeof(size));
      }
      const auto header = ParseSafetensorsHeader(bytes, bytes.size());
      (header.ok() ? accepted : refused)++;
      if (header.ok()) ExpectSound(*header, bytes.size());
    }
  }
  EXPECT_GT(accepted, budget.cases() / 200) << "the damage never gets past the first check";
  EXPECT_GT(refused, budget.cases() / 4);
}

}  // namespace
}  // namespace cellbatch

// Damaged files of --calibration-cache are refused with the file's name, or are a T(b) that a calibration may take: it ends,
// and measures the sizes that it would without.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "scheduler/warm/calibration.h"
#include "server/calibration/kept_calibration.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20261126;

int64_t Ns(int32_t batch) { return std::max<int64_t>(100'000, 6'000 * batch); }

void ExpectItEndsWell(const Model& model, const std::vector<CalibrationPoint>& points) {
  Calibration calibration(model, {1 << 20}, 64, {0}, true);
  calibration.Know(0, CellTypeId(0), points);
  int tasks = 0;
  for (; !calibration.done() && tasks < 1000; ++tasks) {
    const int32_t batch = calibration.Next(0)->batch;
    ASSERT_TRUE(batch >= 1 && batch <= 64);
    calibration.Started(0);
    calibration.Finished(0, Ns(batch));
  }
  ASSERT_TRUE(calibration.done());
  const CellTypeCalibration c = calibration.Results().front();
  EXPECT_TRUE(c.max_batch >= 1 && c.max_batch <= c.peak_batch && c.peak_batch <= 64);
  EXPECT_FALSE(c.points.empty());
}

TEST(KeptCalibrationFuzzTest, DamagedFilesAreRefusedOrAreTimesThatCanBeConfirmedOrNot) {
  std::cout << "seed " << kSeed << "\n";
  const auto model = testing::OneCellModel(testing::ElmanCell(4, 4));
  std::vector<CalibrationPoint> points;
  for (const int32_t b : CalibrationSizes(64)) points.push_back({b, Ns(b)});
  const std::string good =
      KeptCalibrationText({"AMD EPYC; avx512; 2 cores", "lstm", ""}, "0123456789abcdef", points);
  Mutator mutator(kSeed, {"points {", "}", "points { batch: 96 ns: 900000 }", "batch: 0", "ns: -1",
                          "ns: 9223372036854775807", "batch: 2147483647", "ns: 60000000000",
                          "fingerprint: \"\"", "cell_type: \"\\377\"", "# a comment"});
  int taken = 0, refused = 0;
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    const auto read =
        ParseKeptCalibration(mutator.Mutate(good), "kept.textproto", "0123456789abcdef");
    if (!read.ok()) {
      ++refused;
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << read.status();
      EXPECT_EQ(read.status().message().find("kept.textproto:"), 0u) << read.status();
      continue;
    }
    ++taken;
    ExpectItEndsWell(*model, *read);
  }
  std::cout << taken << " taken, " << refused << " refused\n";
  EXPECT_GT(taken, budget.cases() / 60);
  EXPECT_GT(refused, budget.cases() / 6);
}

}  // namespace
}  // namespace cellbatch

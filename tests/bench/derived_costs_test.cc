// The derivation gives the table it was read off (performance notes, section 6: LSTM, h = 1024, one well-tuned launch).
#include "tests/bench/derived_costs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr int64_t kLstm = 2 * 2048 * 4096;  // flops of the product: [1 x 2h] . [2h x 4h]

struct Row {
  int32_t batch;
  double bf16_us, tf32_us, three_us, fp32_us;
};

// In microseconds, as they are written there: rounded.
constexpr Row kTable[] = {
    {1, 6, 9, 9, 9},          {8, 6, 9, 9, 9},           {64, 6, 9, 13, 23},
    {128, 6, 10, 23, 43},     {256, 9, 16, 43, 83},      {512, 16, 30, 83, 163},
    {1024, 29, 57, 164, 324}, {2048, 54, 110, 324, 644},
};

TEST(DerivedCostsTest, TheStepOfAnLstmIsTheTables) {
  for (const Row& row : kTable) {
    const struct {
      const char* name;
      double us;
    } columns[] = {{"bf16", row.bf16_us},
                   {"tf32", row.tf32_us},
                   {"3xtf32", row.three_us},
                   {"fp32", row.fp32_us}};
    for (const auto& column : columns) {
      const double us =
          static_cast<double>(H200TaskNs(*H200ArithmeticOf(column.name), kLstm, row.batch)) * 1e-3;
      EXPECT_NEAR(us, column.us, 0.01 * column.us + 0.6) << column.name << " b " << row.batch;
    }
  }
}

TEST(DerivedCostsTest, ACellsCostsComeFromItsDefinition) {
  const std::shared_ptr<const Model> model = testing::OneCellModel(testing::LstmCell(1024, 1024));
  const H200Arithmetic bf16 = *H200ArithmeticOf("bf16");
  const TaskCosts costs = H200Costs(bf16, *model, 512);
  EXPECT_EQ(costs.types()[0].max_batch, 512);
  for (const int32_t b : {1, 100, 512, 3000}) {
    const auto of_product = static_cast<double>(H200TaskNs(bf16, kLstm, b));
    EXPECT_NEAR(static_cast<double>(costs.Ns(CellTypeId(0), b)), of_product, 0.01 * of_product)
        << "the gates' own arithmetic is less than a hundredth; b " << b;
  }
}

TEST(DerivedCostsTest, AnotherArithmeticIsNone) {
  EXPECT_FALSE(H200ArithmeticOf("fp8").has_value());
}

}  // namespace
}  // namespace cellbatch

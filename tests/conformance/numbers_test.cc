// Devices that compute agree with the interpreter in double within the bound of design.md (Numbers):
//   ||y - y64||_2 <= 1e-5 ||y64||_2   and   max |y - y64| <= 1e-5 max(1, max |y64|)
// over whole chains, and a request has the same bits alone, among others, and on another device of its kind.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "cells/kernels/reference/interpreter.h"
#include "tests/conformance/devices.h"
#include "tests/conformance/task_bench.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch::conformance {
namespace {

void ExpectAgrees(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double error = 0, norm = 0, worst = 0, most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
    worst = std::max(worst, std::abs(got[i] - expected[i]));
    most = std::max(most, std::abs(expected[i]));
  }
  EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm) + 1e-30);
  EXPECT_LE(worst, 1e-5 * std::max(1.0, most));
}

// Chains of one cell with one request input (vectors or tokens) on one device, all of the same length.
class Chains {
 public:
  Chains(const CellDefinition& cell, const DeviceSetup& setup, int32_t chains, int32_t length,
         Precision precision = Precision::kFp32)
      : model_(In(precision, testing::OneCellModel(cell, 42))),
        type_(model_->types[0]),
        bench_(*model_, setup, 1 + chains * std::max(length, 2)),
        chains_(chains),
        length_(length) {
    for (size_t i = 0; i < type_.in.size(); ++i) {
      if (cell.carry() != InputId(static_cast<int64_t>(i))) request_inputs_.push_back(i);
    }
    for (size_t i : request_inputs_) data_.push_back(Data(i));
  }

  // Runs the chains in `order`, one node of each a step, and keeps what the last nodes left: of `only`, or of all.
  void Run(const std::vector<int32_t>& order, std::optional<int32_t> only = {}) {
    const size_t columns = type_.definition->columns().size();
    for (int32_t t = 0; t < length_; ++t) {
      TaskSpec spec = {.cell = type_.id, .inputs = std::vector<std::vector<Row>>(type_.in.size())};
      for (const int32_t chain : order) {
        for (size_t i = 0; i < type_.in.size(); ++i)
          spec.inputs[i].push_back(1 + chain * length_ + t);
        const bool carries = type_.definition->carry().has_value();
        if (carries) {
          spec.inputs[static_cast<size_t>(type_.definition->carry()->value())].back() =
              t == 0 ? kZeroRow : StateRow(chain, t - 1);
        }
        spec.out.push_back(StateRow(chain, t));
      }
      BatchedTask* const task = bench_.Task(0, spec);
      for (size_t i = 0; t == 0 && i < request_inputs_.size(); ++i) {
        bench_.CopyIn(task, type_.in[request_inputs_[i]], 1, chains_ * length_, data_[i].data());
      }
      if (t != length_ - 1) continue;
      left_.assign(static_cast<size_t>(chains_), {});
      for (const int32_t chain : order) {
        if (only.has_value() && chain != *only) continue;
        for (size_t c = 0; c < columns; ++c) {
          const int32_t width = type_.definition->columns()[c].width;
          left_[static_cast<size_t>(chain)].emplace_back(static_cast<size_t>(width));
          bench_.CopyOut(task, ColumnId(static_cast<int64_t>(c)), StateRow(chain, t),
                         left_[static_cast<size_t>(chain)].back().data());
        }
      }
    }
    ASSERT_TRUE(bench_.Run(0));
  }

  const std::vector<std::vector<float>>& Left(int32_t chain) const {
    return left_[static_cast<size_t>(chain)];
  }

  void ExpectAgrees(int32_t chain) const { Compare(chain, conformance::ExpectAgrees); }
  // check(got, expected) of every column.
  template <typename Check>
  void Compare(int32_t chain, const Check& check) const {
    RowValues row;
    for (int32_t t = 0; t < length_; ++t) row = Interpreted(chain, t, row);
    for (size_t c = 0; c < row.size(); ++c) {
      std::vector<double> got;
      for (const float f : Left(chain)[c]) {
        int32_t bits;
        std::memcpy(&bits, &f, 4);
        const bool is_int = type_.definition->columns()[c].type == ElementType::kInt32;
        got.push_back(is_int ? bits : static_cast<double>(f));
      }
      SCOPED_TRACE(type_.definition->columns()[c].name);
      check(got, row[c]);
    }
  }

 private:
  static std::shared_ptr<Model> In(Precision precision, std::shared_ptr<Model> model) {
    model->precision = precision;
    for (CellType& type : model->types) type.precision = precision;
    return model;
  }
  Row StateRow(int32_t chain, int32_t t) const { return 1 + chain * 2 + t % 2; }

  std::vector<float> Data(size_t input) const {
    const Column& column = type_.definition->inputs()[input].reads[0];
    std::vector<float> data =
        testing::RandomFloats(int64_t{chains_} * length_ * column.width, 7 + input);
    for (float& f : data) {
      const auto token = static_cast<int32_t>((f + 1.0f) * 30.0f);
      if (column.type == ElementType::kInt32) std::memcpy(&f, &token, 4);
    }
    return data;
  }

  RowValues Interpreted(int32_t chain, int32_t t, const RowValues& before) const {
    std::vector<RowValues> inputs;
    for (const Input& input : type_.definition->inputs()) inputs.push_back(ZeroRow(input));
    for (size_t i = 0; i < request_inputs_.size(); ++i) {
      ColumnValues& values = inputs[request_inputs_[i]][0];
      const Column& column = type_.definition->inputs()[request_inputs_[i]].reads[0];
      for (size_t u = 0; u < values.size(); ++u) {
        const float f = data_[i][static_cast<size_t>(chain * length_ + t) * values.size() + u];
        int32_t bits;
        std::memcpy(&bits, &f, 4);
        values[u] = column.type == ElementType::kInt32 ? bits : static_cast<double>(f);
      }
    }
    if (t > 0 && type_.definition->carry().has_value()) {
      RowValues& carried = inputs[static_cast<size_t>(type_.definition->carry()->value())];
      const Input& input =
          type_.definition->inputs()[static_cast<size_t>(type_.definition->carry()->value())];
      for (size_t c = 0; c < carried.size(); ++c) {
        const ColumnId id = model_->table(type_.out).Find(input.reads[c].name);
        carried[c] = before[static_cast<size_t>(id.value())];
      }
    }
    return InterpretNode(*type_.definition, type_.weights, inputs);
  }

  std::shared_ptr<Model> model_;
  const CellType& type_;
  TaskBench bench_;
  int32_t chains_, length_;
  std::vector<size_t> request_inputs_;
  std::vector<std::vector<float>> data_;  // by request input: row chain * length + t
  std::vector<std::vector<std::vector<float>>> left_;
};

class NumbersTest : public ::testing::TestWithParam<Kind> {};
std::string KindName(const ::testing::TestParamInfo<Kind>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Every, NumbersTest, ::testing::ValuesIn(NumberKinds()), KindName);
class RoundedNumbersTest : public NumbersTest {};
INSTANTIATE_TEST_SUITE_P(Every, RoundedNumbersTest, ::testing::ValuesIn(RoundedKinds()), KindName);

const Sizes kSizes = {{"D", 29}, {"H", 43}, {"P", 21}, {"L", 17}};

std::vector<CellDefinition> ChainCells() {
  std::vector<CellDefinition> cells;
  for (const char* name :
       {"lstmp", "lstm_layernorm", "mingru", "minlstm", "slstm", "gru_v1", "nmt_encoder_lstm"}) {
    cells.push_back(testing::ShippedDefinition(name, kSizes));
  }
  cells.push_back(testing::LstmCell(29, 75));
  cells.push_back(testing::LstmCellByGate(6, 33));
  cells.push_back(testing::LstmCellConcat(1, 47));
  cells.push_back(testing::TokenLstmCell(60, 31, 53));
  cells.push_back(testing::GruCell(29, 75));
  cells.push_back(testing::GruV1Cell(29, 75));
  cells.push_back(testing::ElmanCell(29, 75));
  cells.push_back(testing::ElmanCell(3, 17, OpKind::kRelu));
  cells.push_back(testing::LinearCell(41, 3));
  cells.push_back(testing::EmbeddingCell(61, 23));
  return cells;
}

TEST_P(NumbersTest, ChainsAgreeWithTheInterpreter) {
  const DeviceSetup setup = GetParam().make();
  for (const CellDefinition& cell : ChainCells()) {
    const bool all_the_way = !GetParam().slow || cell.name() == "lstm";
    for (const int32_t length : {1, 2, all_the_way ? 330 : 50}) {
      SCOPED_TRACE(cell.name() + ", length " + std::to_string(length));
      Chains chains(cell, setup, 3, length);
      chains.Run({2, 0, 1});
      chains.ExpectAgrees(0);
      if (length < 10) chains.ExpectAgrees(2);
    }
  }
}

TEST_P(NumbersTest, RandomCellsAgreeWithTheInterpreter) {
  const DeviceSetup setup = GetParam().make();
  const auto last = 1000 + static_cast<uint64_t>(GetParam().random_cells);
  for (uint64_t seed = 1001; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chains chains(testing::RandomCell(seed), setup, 2, 3);
    chains.Run({0, 1});
    chains.ExpectAgrees(1);
  }
}

TEST_P(NumbersTest, ARequestHasTheSameBitsAloneAndAmongOthers) {
  const DeviceSetup setup = GetParam().make();
  for (const CellDefinition& cell : ChainCells()) {
    SCOPED_TRACE(cell.name());
    Chains chains(cell, setup, 64, 5);
    std::vector<int32_t> all(64);
    for (int32_t i = 0; i < 64; ++i) all[static_cast<size_t>(i)] = (i * 11 + 5) % 64;
    chains.Run({17});
    const std::vector<std::vector<float>> alone = chains.Left(17);
    chains.Run(all);
    EXPECT_EQ(chains.Left(17), alone);
  }
}

// bf16 ------------------------------------------------------------------------------------------

std::vector<CellDefinition> Bf16Cells() {
  std::vector<CellDefinition> cells;
  for (const char* name : {"lstm_layernorm", "minlstm", "gru_v1", "nmt_encoder_lstm"}) {
    cells.push_back(testing::ShippedDefinition(name, kSizes));
  }
  cells.push_back(testing::LstmCell(29, 75));
  cells.push_back(testing::LstmCellConcat(1, 47));
  cells.push_back(testing::TokenLstmCell(60, 31, 53));
  cells.push_back(testing::GruCell(128, 64));
  cells.push_back(testing::LinearCell(41, 3));
  return cells;
}

// Products of numbers rounded by 2^-9: after a few steps 2 % of the largest, and not fp32.
TEST_P(RoundedNumbersTest, Bf16IsNearTheInterpreterAndIsNotFp32) {
  const DeviceSetup setup = GetParam().make();
  for (const CellDefinition& cell : Bf16Cells()) {
    SCOPED_TRACE(cell.name());
    Chains chains(cell, setup, 3, 4, Precision::kBf16), exact(cell, setup, 3, 4);
    chains.Run({2, 0, 1});
    exact.Run({2, 0, 1});
    for (const int32_t chain : {0, 2}) {
      EXPECT_NE(chains.Left(chain), exact.Left(chain));
      chains.Compare(chain, [](const auto& got, const auto& expected) {
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 0.02 * std::max(1.0, std::abs(expected[i]))) << i;
        }
      });
    }
  }
}

// An eighth of that; and on CPUs it is fp32.
TEST_P(RoundedNumbersTest, Tf32IsNearTheInterpreter) {
  const DeviceSetup setup = GetParam().make();
  for (const CellDefinition& cell : Bf16Cells()) {
    SCOPED_TRACE(cell.name());
    Chains chains(cell, setup, 3, 4, Precision::kTf32);
    chains.Run({2, 0, 1});
    for (const int32_t chain : {0, 2}) {
      chains.Compare(chain, [](const auto& got, const auto& expected) {
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 0.0025 * std::max(1.0, std::abs(expected[i]))) << i;
        }
      });
    }
  }
}

TEST_P(RoundedNumbersTest, InTf32ARequestHasTheSameBitsAloneAndAmongOthers) {
  const DeviceSetup setup = GetParam().make();
  for (const CellDefinition& cell : {testing::LstmCell(29, 75), testing::GruCell(128, 64)}) {
    SCOPED_TRACE(cell.name());
    Chains chains(cell, setup, 200, 3, Precision::kTf32);
    std::vector<int32_t> all(200);
    for (int32_t i = 0; i < 200; ++i) all[static_cast<size_t>(i)] = (i * 11 + 5) % 200;
    chains.Run({17}, 17);
    const std::vector<std::vector<float>> alone = chains.Left(17);
    chains.Run(all, 17);
    EXPECT_EQ(chains.Left(17), alone);
  }
}

TEST_P(RoundedNumbersTest, InBf16ARequestHasTheSameBitsAloneAndAmongOthers) {
  const DeviceSetup setup = GetParam().make();
  for (const CellDefinition& cell : Bf16Cells()) {
    SCOPED_TRACE(cell.name());
    Chains chains(cell, setup, 200, 3, Precision::kBf16);
    std::vector<int32_t> all(200);
    for (int32_t i = 0; i < 200; ++i) all[static_cast<size_t>(i)] = (i * 11 + 5) % 200;
    chains.Run({17}, 17);
    const std::vector<std::vector<float>> alone = chains.Left(17);
    for (const size_t company : {size_t{12}, size_t{40}, size_t{90}, size_t{200}}) {
      std::vector<int32_t> some(all.begin(), all.begin() + static_cast<ptrdiff_t>(company));
      if (std::find(some.begin(), some.end(), 17) == some.end()) some.back() = 17;
      chains.Run(some, 17);
      EXPECT_EQ(chains.Left(17), alone) << company;
    }
  }
}

TEST(NumbersTest, OneDeviceAndTwoAndTwoCoresLeaveTheSameBits) {
  const std::vector<Kind> kinds = ComputingKinds();
  for (const CellDefinition& cell : ChainCells()) {
    SCOPED_TRACE(cell.name());
    std::vector<std::vector<float>> first;
    for (const Kind& kind : kinds) {
      // Another arithmetic by design; of GPUs those by multiply-add are compared.
      if (kind.name == "cpu_portable" || kind.name.ends_with("cuda")) continue;
      Chains chains(cell, kind.make(), 5, 6);
      chains.Run({3, 1, 4, 0, 2});
      if (first.empty()) first = chains.Left(4);
      EXPECT_EQ(chains.Left(4), first) << kind.name;
    }
  }
}

}  // namespace
}  // namespace cellbatch::conformance

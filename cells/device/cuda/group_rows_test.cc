// Tasks that go together leave what they leave one by one, whatever rows they name; and those that are kept apart had a reason.
#include "cells/device/cuda/group_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/builders.h"

namespace cellbatch::cuda {
namespace {

constexpr int32_t kRows = 9;  // few, so that tasks meet
constexpr Row kTrash = kRows;
using TableRow = std::pair<int32_t, Row>;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// A task with the lists that it names.
struct Listed {
  BatchedTask task;
  std::vector<std::vector<Row>> rows;
  std::vector<std::vector<int32_t>> offsets;
  std::vector<Row> out;
  std::vector<CopyIn> in;
  std::vector<CopyOut> answers;
  std::byte dest = {};
};

class GroupRowsTest : public ::testing::Test {
 protected:
  GroupRowsTest() {
    testing::ModelBuilder builder;
    types_.push_back(builder.Add(testing::LstmCell(3, 4), 1));
    types_.push_back(builder.Add(testing::ChildSumCell(3, 4), 2));
    types_.push_back(builder.Add(testing::DecodeCell(4, 7), 3));  // its words are mirrored
    builder.Connect(types_[2], "x", types_[0]);
    model_ = builder.Build();
    budget_.rows.assign(model_->tables.size(), kRows);
  }

  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // Of one to three nodes, some of them padding.
  std::unique_ptr<Listed> Random(CellTypeId cell) {
    auto listed = std::make_unique<Listed>();
    const CellType& type = model_->type(cell);
    const int nodes = Pick(1, 3);
    std::set<Row> read;  // of the table that it writes
    for (size_t i = 0; i < type.in.size(); ++i) {
      const bool sum = type.definition->inputs()[i].arity == Arity::kSum;
      std::vector<Row>& rows = listed->rows.emplace_back();
      std::vector<int32_t>& offsets = listed->offsets.emplace_back();
      for (int n = 0; n < nodes; ++n) {
        offsets.push_back(static_cast<int32_t>(rows.size()));
        for (int k = sum ? Pick(0, 2) : 1; k > 0; --k) rows.push_back(Pick(0, 4));
      }
      offsets.push_back(static_cast<int32_t>(rows.size()));
      if (!sum) offsets.clear();
      if (type.in[i] == type.out) read.insert(rows.begin(), rows.end());
    }
    std::vector<Row> free;
    for (Row r = 1; r < kRows; ++r) {
      if (!read.contains(r)) free.push_back(r);
    }
    std::shuffle(free.begin(), free.end(), random_);
    for (int n = 0; n < nodes; ++n) {
      listed->out.push_back(Pick(0, 4) == 0 ? kTrash : free[Index(n)]);
    }
    for (int c = Pick(0, 1); c > 0; --c) {
      const TableId table = type.in[Index(Pick(0, static_cast<int>(type.in.size()) - 1))];
      const Row first = Pick(1, kRows - 2);
      listed->in.push_back({nullptr, table, first, Pick(0, 2)});  // none: blanked
    }
    for (int c = Pick(0, 1); c > 0; --c) {
      const Row row = listed->out[Index(Pick(0, nodes - 1))];
      if (row == kTrash) continue;
      listed->answers.push_back({Pick(0, 3) == 0 ? nullptr : &listed->dest, ColumnId(0), row});
    }
    Name(cell, *listed);
    return listed;
  }

  static void Name(CellTypeId cell, Listed& listed) {
    BatchedTask& task = listed.task;
    task.cell = cell;
    task.num_nodes = static_cast<int32_t>(listed.out.size());
    for (size_t i = 0; i < listed.rows.size(); ++i) {
      const bool sum = !listed.offsets[i].empty();
      task.inputs[i] = {listed.rows[i].data(), sum ? listed.offsets[i].data() : nullptr};
    }
    task.output_rows = listed.out.data();
    task.copies_in = listed.in.data();
    task.num_copies_in = static_cast<int32_t>(listed.in.size());
    task.copies_out = listed.answers.data();
    task.num_copies_out = static_cast<int32_t>(listed.answers.size());
  }

  // Rows as numbers that say where they come from; what was copied out and mirrored, in order.
  struct World {
    std::map<TableRow, uint64_t> rows, mirrors;
    std::vector<uint64_t> answers;
    bool operator==(const World&) const = default;
  };
  static uint64_t Mix(uint64_t a, uint64_t b) {
    return (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
  }

  static void Bring(const Listed& listed, uint64_t number, World& world) {
    for (const CopyIn& copy : listed.in) {
      for (Row r = 0; r < copy.rows; ++r) {
        world.rows[{copy.table.value(), copy.first + r}] = Mix(number, static_cast<uint64_t>(r));
      }
    }
  }
  void Step(const Listed& listed, World& world) const {
    const CellType& type = model_->type(listed.task.cell);
    std::vector<uint64_t> left(listed.out.size(), 1);
    for (size_t i = 0; i < listed.rows.size(); ++i) {
      for (size_t n = 0; n < left.size(); ++n) {
        const bool sum = !listed.offsets[i].empty();
        const size_t from = sum ? Index(listed.offsets[i][n]) : n;
        const size_t to = sum ? Index(listed.offsets[i][n + 1]) : n + 1;
        for (size_t r = from; r < to; ++r) {
          left[n] = Mix(left[n], world.rows[{type.in[i].value(), listed.rows[i][r]}]);
        }
        left[n] = Mix(left[n], i);
      }
    }
    for (size_t n = 0; n < left.size(); ++n) {
      if (listed.out[n] != kTrash) world.rows[{type.out.value(), listed.out[n]}] = left[n];
    }
  }
  void Answer(const Listed& listed, World& world) const {
    const int32_t table = model_->type(listed.task.cell).out.value();
    for (const CopyOut& copy : listed.answers) {
      if (copy.dest != nullptr) world.answers.push_back(world.rows[{table, copy.row}]);
    }
    for (const Row row : listed.out) {
      if (row != kTrash) world.mirrors[{table, row}] = world.rows[{table, row}];
    }
  }

  // Whether the rows of `later` say that it may not go with `earlier`.
  bool Meet(const Listed& earlier, const Listed& later) const {
    const CellType& type = model_->type(later.task.cell);
    std::set<TableRow> touched, left, brought;
    const auto copied = [](const Listed& listed, std::set<TableRow>& rows) {
      for (const CopyIn& copy : listed.in) {
        for (Row r = 0; r < copy.rows; ++r) rows.insert({copy.table.value(), copy.first + r});
      }
    };
    copied(earlier, touched);
    copied(later, brought);
    for (size_t i = 0; i < earlier.rows.size(); ++i) {
      for (const Row row : earlier.rows[i]) touched.insert({type.in[i].value(), row});
    }
    const bool mirrored = later.task.cell == types_[2];
    for (const Row row : earlier.out) {
      if (row == kTrash) continue;
      touched.insert({type.out.value(), row});
      if (mirrored) left.insert({type.out.value(), row});
    }
    for (const CopyOut& copy : earlier.answers) {
      if (copy.dest != nullptr) left.insert({type.out.value(), copy.row});
    }
    return std::any_of(brought.begin(), brought.end(),
                       [&](const TableRow& row) { return touched.contains(row); }) ||
           std::any_of(later.out.begin(), later.out.end(), [&](Row row) {
             return left.contains({type.out.value(), row});
           });
  }

  // As many as go together, of random tasks; how many did.
  size_t Try(GroupRows& rows, CellTypeId cell) {
    std::vector<std::unique_ptr<Listed>> tasks;
    tasks.push_back(Random(cell));
    rows.Begin(tasks[0]->task);
    for (;;) {
      std::unique_ptr<Listed> next = Random(cell);
      const bool meets = std::any_of(tasks.begin(), tasks.end(),
                                     [&](const auto& task) { return Meet(*task, *next); });
      const bool goes = rows.Take(next->task);
      EXPECT_EQ(goes, !meets);
      if (!goes || tasks.size() == 4) break;
      tasks.push_back(std::move(next));
    }
    World one_by_one, together;
    for (uint64_t t = 0; t < tasks.size(); ++t) {
      Bring(*tasks[t], t, one_by_one);
      Step(*tasks[t], one_by_one);
      Answer(*tasks[t], one_by_one);
      Bring(*tasks[t], t, together);
    }
    for (const auto& task : tasks) Step(*task, together);
    for (const auto& task : tasks) Answer(*task, together);
    if (cell != types_[2]) one_by_one.mirrors = together.mirrors = {};
    EXPECT_TRUE(one_by_one == together) << tasks.size() << " tasks";
    return tasks.size();
  }

  std::vector<CellTypeId> types_;
  std::shared_ptr<Model> model_;
  RowBudget budget_;
  std::mt19937_64 random_{20261126};
};

TEST_F(GroupRowsTest, TasksThatGoTogetherLeaveWhatTheyLeaveOneByOne) {
  GroupRows rows(*model_, budget_);
  for (const CellTypeId cell : types_) {
    std::vector<int> of_size(5);
    for (int i = 0; i < 5000; ++i) ++of_size[Try(rows, cell)];
    for (size_t tasks = 1; tasks <= 4; ++tasks) EXPECT_GT(of_size[tasks], 50) << tasks;
  }
}

TEST_F(GroupRowsTest, MarksWrapWithoutHarm) {
  for (uint32_t before = 1; before < 6; ++before) {
    GroupRows rows(*model_, budget_, UINT32_MAX / 2 - before);
    for (int i = 0; i < 20; ++i) Try(rows, types_[0]);
  }
}

}  // namespace
}  // namespace cellbatch::cuda

#include "scheduler/record/schedule_tape.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cells/device/batched_task.h"

namespace cellbatch {
namespace {

// A server of kMostModels has one lane more while it loads another: number 256.
TEST(ScheduleTapeTest, EveryLaneOfATaskIsReadBackAndSoAreItsTypeAndNodes) {
  const std::vector<Row> rows(4096, 7);
  for (const int lane : {0, 1, 255, 256}) {
    // Not on the stack: where the address sanitizer watches it, its lines are not aligned.
    const auto owned = std::make_unique<ScheduleTape>(64);
    ScheduleTape& tape = *owned;
    BatchedTask task;
    task.cell = CellTypeId(300);
    task.num_nodes = 4096;
    task.output_rows = rows.data();
    tape.Submitted(/*worker=*/7, lane, task);
    tape.StepEnds(/*worked=*/true);
    std::vector<uint64_t> words;
    tape.Read(words);
    ASSERT_EQ(words.size(), 3u);
    EXPECT_EQ(OpOf(words[1]), TapeOp::kSubmitted);
    EXPECT_EQ(FieldOf(words[1], 8, 8), 7u);
    EXPECT_EQ(LaneOfTask(words[1]), lane);
    EXPECT_EQ(FieldOf(words[1], 24, 16), 300u);
    EXPECT_EQ(FieldOf(words[1], 40, 16), 4096u);
  }
}

}  // namespace
}  // namespace cellbatch

// How many times this thread asked the heap for memory, in binaries that link :allocation_count (it replaces the
// global operator new).
//
//   const int64_t before = AllocationsOfThisThread();
//   manager.Step();
//   EXPECT_EQ(AllocationsOfThisThread(), before);
#ifndef CELLBATCH_TESTS_TESTING_ALLOCATION_COUNT_H_
#define CELLBATCH_TESTS_TESTING_ALLOCATION_COUNT_H_

#include <cstdint>

namespace cellbatch::testing {

int64_t AllocationsOfThisThread();

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_ALLOCATION_COUNT_H_

// What the unfolder knows, each switched on and off (proto/model.proto, UnfoldOptions), in the closed loop:
//
//   batches.WORKLOAD_bB.depth_phases, depth_ghosts, depth_both      batches of depth under what it is told; so of agenda,
//   agenda_phases, .., agenda_dyn_phases, ..                        by the whole graph and by what remains
//   batches.WORKLOAD_bB.run_rows, run_rows_by_level                 rows one behind the other in what a batch of the learned
//                                                                   policy writes, the mean of all runs
//   batches.WORKLOAD_bB.read_rows, read_rows_by_level               and in what it reads of computed rows
#ifndef CELLBATCH_TESTS_BENCH_UNFOLDING_H_
#define CELLBATCH_TESTS_BENCH_UNFOLDING_H_

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "scheduler/policy/policy.h"
#include "tests/bench/report.h"

namespace cellbatch {

// Of the first requests of a workload of the zoo, as many as each of `sizes` says.
void MeasureUnfolding(const std::string& workload, const Policy& learned,
                      absl::Span<const size_t> sizes, Report& report);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_UNFOLDING_H_

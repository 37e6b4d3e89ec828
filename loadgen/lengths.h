// How long requests are, and in which order they come.

#ifndef CELLBATCH_LOADGEN_LENGTHS_H_
#define CELLBATCH_LOADGEN_LENGTHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

// 1,000 sentence lengths like those of Europarl, as the BatchMaker paper reports them: mean 24, 99 %
// under about 100, longest 330. They are the quantiles of a log-normal distribution, so they need no
// seed.
std::vector<int32_t> EuroparlLikeLengths();

// The first column of a file with one request a line (numbers separated by tabs or blanks). Empty
// lines are skipped; INVALID_ARGUMENT names a line that does not begin with a positive number.
absl::StatusOr<std::vector<int32_t>> LengthsFromFile(const std::string& path);

// Equal issue: `count` indices below `size`, in whole shuffled permutations one after the other.
// Two runs of the same count thus send (almost) the same lengths, whatever their seeds.
std::vector<uint32_t> EqualIssueOrder(uint32_t size, size_t count, uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_LENGTHS_H_

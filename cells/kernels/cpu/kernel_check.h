// For tests: whether one table of kernels computes what kernel_table.h promises, on every path that its functions have.
//
//   CheckKernels(kernels)  ==  ""         or the first thing that is wrong: "product, 3 groups, 7 rows: column 1 ..."
//
// A product's paths are its tiles (rows x columns x lines prefetched), K blocks, chunks, panels, segments present and
// absent, where sums start, how rows are found, edges, tails. The references are the obvious ones: double arithmetic,
// and the bits of the same rows in other company. That the check notices each path when it breaks is tested, too:
// planted_failures_test plants failures in tables, tile_test in every tile there is.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_KERNEL_CHECK_H_
#define CELLBATCH_CELLS_KERNELS_CPU_KERNEL_CHECK_H_

#include <cstdint>
#include <string>

#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

inline constexpr uint64_t kCheckSeed = 20261122;

// All of the following in turn; a second each, the reference for the deepest product most of it.
std::string CheckKernels(const CpuKernels& kernels);

// Products of one to kMaxGroups groups, deeper than two K blocks, of 1 to 40 rows and of more than a chunk.
std::string CheckProducts(const CpuKernels& kernels, Precision precision);
// The same for one number of groups.
std::string CheckProducts(const CpuKernels& kernels, Precision precision, int groups);
// Rows rounded to bf16: ties, what is no number, parts of vectors.
std::string CheckRounding(const CpuKernels& kernels);
// Every shape of tail that has a kernel of its own, and the kernel that runs any; rows alone as in company.
std::string CheckTails(const CpuKernels& kernels);
// The largest of each row that is kept without storing the row, against the rows as they are stored.
std::string CheckLargest(const CpuKernels& kernels);
// The kernels without packed weights: sums, broadcasts, argmax, products of values, copies.
std::string CheckRowKernels(const CpuKernels& kernels);
// Operators alone: rows apart and touching, one row or one number for all, and each element by itself, bit by bit.
std::string CheckElementWise(const CpuKernels& kernels);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_KERNEL_CHECK_H_

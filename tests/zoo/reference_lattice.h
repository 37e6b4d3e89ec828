// Lattice networks in double, straight from their equations (reference/algorithms.md section 8):
//
//   state 0 is learned. Into position p lead the arc of character p - 1 from state p - 1 by the
//   character cell, and the arc of each word [s, p) from state s by the word cell. The state of p is
//   the element-wise sum of what the arcs bring (one arc: just that).
//
// y = W h + b at states 1 .. n. Nothing of the product is used. Plain functions; one thread.
#ifndef CELLBATCH_TESTS_ZOO_REFERENCE_LATTICE_H_
#define CELLBATCH_TESTS_ZOO_REFERENCE_LATTICE_H_

#include <cstdint>
#include <vector>

#include "tests/zoo/data.h"
#include "tests/zoo/reference_math.h"
#include "tests/zoo/weights.h"

namespace cellbatch::zoo {

// Cells character and word (each with its own embedding: CELL.table), start and output.
std::vector<Vec> LatticeLstmReference(const WeightSet& weights, const Lattice& lattice);
std::vector<Vec> LatticeGruReference(const WeightSet& weights, const Lattice& lattice);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_REFERENCE_LATTICE_H_

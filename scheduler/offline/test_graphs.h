// Graphs with known answers, and random ones, for tests and benchmarks: the families of ED-Batch's arguments. Types are
// numbered by the alphabet, as the published counts break ties by name.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_TEST_GRAPHS_H_
#define CELLBATCH_SCHEDULER_OFFLINE_TEST_GRAPHS_H_

#include <array>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch::offline_testing {

// A chain for each word, a type for each letter from 'a' on. The fewest batches are the shortest common supersequence.
TypedGraph Chains(absl::Span<const std::string_view> words);
// The length of that, breadth first over what is left of each word: knows nothing of graphs.
int32_t ShortestSupersequence(absl::Span<const std::string_view> words);

// Types I (inner), L (leaf), O (output), R (reads all outputs).
enum TreeLetters { kI, kL, kO, kR, kTreeTypes };
TypedGraph PerfectTree(int32_t levels);                     // outputs at every node
TypedGraph LeftComb(int32_t inner, bool outputs_at_nodes);  // else at the root alone

// Appendix A.4: a chain of k I, an O on each, R over them; then a chain of k O, an I on each, R over them.
TypedGraph RoleSwap(int32_t k);

// Types C (character), O, R, S (sum), W (word). Position p in 1 .. positions - 1 has a C from p - 1 and a W for each word
// that ends there, an S over several, an O; position 0 has an O. One R over all lattices.
struct SmallLattice {
  int32_t positions;
  std::vector<std::array<int32_t, 2>> words;
};
TypedGraph Lattices(absl::Span<const SmallLattice> lattices);

// Up to two predecessors a node, among the five before it.
TypedGraph RandomGraph(std::mt19937_64& random, int32_t nodes, int32_t types);

}  // namespace cellbatch::offline_testing

#endif  // CELLBATCH_SCHEDULER_OFFLINE_TEST_GRAPHS_H_

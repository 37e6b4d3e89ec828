// Random requests of every shape the scheduler must cope with. Deterministic by seed.
#ifndef CELLBATCH_TESTS_SIMULATION_GENERATOR_H_
#define CELLBATCH_TESTS_SIMULATION_GENERATOR_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tests/simulation/plan.h"

namespace cellbatch::sim {

enum class Shape : uint8_t {
  kSentence,       // a chain, a head at its end
  kStacked,        // chains over chains
  kBidirectional,  // forward and backward chains, paired, in layers
  kTree,           // leaves as one set, pairs above them
  kChildSum,       // a tree whose nodes sum any number of children
  kEdgeTree,       // the same with a cell an edge
  kLattice,        // a chain cut everywhere, with words that skip ahead merged in
  kDag,            // anything reads anything earlier: components of one type are not convex
  kTranslation,    // an encoder, a decoder that may stop, and somebody who reads where it did
  kAlternation,    // decoder, projection, decoder, ...: BatchMaker's own rule dead-locks here
  kTwoSinks,       // one beginning, ends that share nothing
  kNumShapes,
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Plan Any();
  Plan Make(Shape shape);
  // Into pieces at random, each with a cell; perhaps adds one. A plan may stay whole.
  void Cut(Plan& plan);

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Pick(0, 99) < percent; }
  int Length();  // mostly short, sometimes long

  // Where a chain begins: mostly at zeros (no link), else at a state that the request brings.
  std::vector<Link> Begins(Plan& plan, Link over, InputId carry);
  SubgraphId States(Plan& plan, TableId table);
  SubgraphId Chain(Plan& plan, SubgraphId tokens, bool backward);
  SubgraphId Tree(Plan& plan, SubgraphId leaves, int first, int count);
  SubgraphId SumTree(Plan& plan, SubgraphId tokens, int& next, int count, bool edges);
  void Sink(Plan& plan, SubgraphId state, int32_t node);
  SubgraphId AnyState(const std::vector<SubgraphId>& states);
  Link Reads(Plan& plan, SubgraphId from, InputId input);

  Plan Sentence();
  Plan Stacked();
  Plan Bidirectional();
  Plan BinaryTree();
  Plan ChildSum(bool edges);
  Plan Lattice();
  Plan Dag();
  Plan Translation();
  Plan Alternation();
  Plan TwoSinks();

  std::mt19937_64 random_;
};

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_GENERATOR_H_

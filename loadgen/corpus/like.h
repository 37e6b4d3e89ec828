// Built-in items with the statistics of real ones, for where no file is at hand: 1,500 of each, always the
// same on every machine. Sizes are the quantiles of the real files, shapes are drawn; loadgen/README.md has
// both statistics side by side, and like_test compares them.

#ifndef CELLBATCH_LOADGEN_CORPUS_LIKE_H_
#define CELLBATCH_LOADGEN_CORPUS_LIKE_H_

#include <vector>

#include "loadgen/corpus/items.h"

namespace cellbatch::corpus {

std::vector<Words> SentencesLikeWikigold();
std::vector<Translation> PairsLikeEuroparl();
std::vector<BinaryTree> TreesLikeSst();
std::vector<DependencyTree> TreesLikeEwt();
std::vector<Lattice> LatticesLikeWeibo();

}  // namespace cellbatch::corpus

#endif  // CELLBATCH_LOADGEN_CORPUS_LIKE_H_

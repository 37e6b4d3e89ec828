// Stand-ins for the data folder's files where it is absent: the same kinds of items, drawn from a fixed
// seed after the statistics in the folder's README. The same on every machine with this C++ library.
#ifndef CELLBATCH_TESTS_ZOO_SYNTHETIC_H_
#define CELLBATCH_TESTS_ZOO_SYNTHETIC_H_

#include <vector>

#include "tests/zoo/data.h"

namespace cellbatch::zoo {

std::vector<Words> SyntheticSentences();              // mean 23 words, 144 at most
std::vector<Translation> SyntheticTranslations();     // mean 26 and 29, 153 at most
std::vector<BinaryTree> SyntheticBinaryTrees();       // mean 19 leaves, 52 at most
std::vector<DependencyTree> SyntheticDependencies();  // mean 12 words, 81 at most
std::vector<Lattice> SyntheticLattices();             // mean 54 characters and 17 words

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_SYNTHETIC_H_

// One line of a file of each kind, as an item. False: the line is none. Pure; nothing recurs, so a tree
// may be a chain.

#ifndef CELLBATCH_LOADGEN_CORPUS_PARSE_H_
#define CELLBATCH_LOADGEN_CORPUS_PARSE_H_

#include <string>

#include "loadgen/corpus/items.h"

namespace cellbatch::corpus {

// "23" or "23<TAB>27": positive numbers.
bool ParseLengths(const std::string& line, Lengths& lengths);
// "token|TAG token|TAG ..", split at the last bar of each.
bool ParseTagged(const std::string& line, Words& words);
// "a plain sentence"
bool ParseSentence(const std::string& line, Words& words);
// "ein Satz<TAB>a sentence"
bool ParsePair(const std::string& line, Translation& pair);
// "(3 (2 It) (4 (2 's) (2 .)))": a leaf is (label word), an inner node (label left right).
bool ParseBracketed(const std::string& line, BinaryTree& tree);
// "3<TAB>it is good<TAB>3 3 0": length, tokens, heads (1-based, 0: the root).
bool ParseHeads(const std::string& line, DependencyTree& tree);
// {"char_ids": [..], "words": [[start, end], ..], "word_ids": [..]}
bool ParseLattice(const std::string& line, Lattice& lattice);
// {"inputs": [..], ..}
bool ParseRequest(const std::string& line, JsonRequest& request);

}  // namespace cellbatch::corpus

#endif  // CELLBATCH_LOADGEN_CORPUS_PARSE_H_

// Typed graphs of the data folder's first rows, as reference/algorithms.md 4.2 draws them: graphs whose batches are
// known for every policy. Cells alone, no model: what a server unfolds of its own models is tests/zoo's.
//
//   kTree      leaf L, inner I, an O on every node          kTreeRoot  O on roots alone
//   kTwoTypes  inner nodes I and J in turn, in pre-order    kBiLstm    chains F and B, O over the two at a word
//   kSeq2Seq   chain E, chain D behind it, P on each D      kLattice   C, W, S over several arcs, O at every position
//
// and one R over all that nobody reads, of all rows. Types are numbered by the alphabet.
#ifndef CELLBATCH_TESTS_ORDERING_PAPER_GRAPHS_H_
#define CELLBATCH_TESTS_ORDERING_PAPER_GRAPHS_H_

#include <optional>
#include <string>

#include "scheduler/offline/typed_graph.h"

namespace cellbatch::ordering {

enum class PaperGraph { kTree, kTreeRoot, kTwoTypes, kBiLstm, kSeq2Seq, kLattice };

// Of `rows` rows from row `first` on, in the file's order. None: the folder (CELLBATCH_DATA, or shared/data beside the
// checkout) has no such file. Ends the program where a row is not what its README says, or there are too few.
std::optional<TypedGraph> ReadPaperGraph(PaperGraph kind, const std::string& file, int32_t rows,
                                         int32_t first = 0);

}  // namespace cellbatch::ordering

#endif  // CELLBATCH_TESTS_ORDERING_PAPER_GRAPHS_H_

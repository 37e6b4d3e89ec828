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

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/offline/typed_graph.h"
#include "tests/zoo/data.h"

namespace cellbatch::ordering {

enum class PaperGraph { kTree, kTreeRoot, kTwoTypes, kBiLstm, kSeq2Seq, kLattice, kWeiboLattice };

// The rows of one kind's file (wikigold_en, iwslt15_lengths_tst2012, sst_train, edbatch_lattices_train,
// weibo_lattices), in its order; where the data folder has none, built-in ones, which is said (tests/zoo/data.h).
class PaperRows {
 public:
  explicit PaperRows(PaperGraph kind);

  bool is_real() const;
  const std::string& source() const;
  // One graph of `count` rows from row `first` on. REQUIRES: there are as many.
  TypedGraph Graph(int32_t count, int32_t first = 0) const;

 private:
  PaperGraph kind_;
  std::variant<zoo::Data<zoo::BinaryTree>, zoo::Data<zoo::Words>, zoo::Data<zoo::Lengths>,
               zoo::Data<zoo::Lattice>>
      data_;
};

}  // namespace cellbatch::ordering

#endif  // CELLBATCH_TESTS_ORDERING_PAPER_GRAPHS_H_

// Sentences over characters with the words that a dictionary finds in them: LatticeLSTM, LatticeGRU
// (ED-Batch's workloads; algorithms.md section 8).
//
//   CHARS c0 c1 c2 c3 c4    WORDS [0,2) w, [1,4) v, [2,4) u      states stand between characters
//
//        +-------- w ------+  +----- u ------+
//        |                 v  |              v
//   (0) -c0-> (1) -c1->  +(2)-+-c2-> (3)-c3->+(4) -c4-> (5)      state 0 is `initial`, or zeros
//              |                             ^
//              +------------- v -------------+
//
// State p is the sum of what arrives: first the character's arc, then the words' by where they
// start, then by id; where nothing but the character arrives, its arc is the state. So neither the
// order of WORDS nor the company changes a bit of the answer.
//
// A run of characters between whose ends no word starts or ends is one chain (above: c0; c1; c2 c3;
// c4): nobody else reads its middle, so it could not be ready in parts sooner than as a whole.
//
//   OUTPUT        the last state's h [H]; with an output cell its y [C]
//   NODE_OUTPUTS  [n, C]: the output cell on states 1 to n
//   ALL_HIDDEN    [n, H]: their h;   FINAL_H, FINAL_C [H]: of the last state
// With LENGTHS INT32 [B] (characters of each), CHARS holds B lattices end to end, and WORDS counts
// characters from the first of all; OUTPUT, FINAL_H and FINAL_C gain a leading dimension B.
//
// Immutable after Create; any thread. Unfold costs O(characters + words), and a sort where WORDS is
// not ordered by end, start, id (data usually is).
#ifndef CELLBATCH_CELLS_UNFOLD_LATTICE_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_LATTICE_UNFOLDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/model.h"
#include "cells/unfold/request_check.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {

inline constexpr char kCharsInput[] = "CHARS";
inline constexpr char kWordsInput[] = "WORDS";

// Cells meet by the names of their inputs: "before" of `character` and `word` reads a state, their
// other input an id of the request; "arcs" (SUM) of `merge` the arcs; the one input of `output` a
// state. `character`, `word`, `merge` and `initial` leave the same columns, "h" among them.
struct LatticeSpec {
  TableId characters, words;  // of the request: ids
  CellTypeId character;       // chains where it carries "before"
  CellTypeId word, merge;     // both or neither
  CellTypeId initial;         // optional: no inputs
  CellTypeId output;          // optional: leaves "y"
  IdRange known_characters, known_words;
  int64_t max_characters = 0;  // of one lattice
  int64_t max_nodes = 0;       // of one request
};

class LatticeUnfolder : public Unfolder {
 public:
  // Reads `model`'s types and tables (not kept). INVALID_ARGUMENT names the type and what it lacks.
  static absl::StatusOr<std::unique_ptr<LatticeUnfolder>> Create(const LatticeSpec& spec,
                                                                 const Model& model);

  // The tensors of such a model: every output but OUTPUT is on request and not listed.
  Signature MakeSignature() const;

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  // Arcs and states, then outputs on them. Characters, words and sums are placed (CellGraph::SetPlace) where their
  // last character stands, so that in all requests those of one position lie at one depth.
  int32_t phases() const override { return spec_.output.valid() ? 2 : 1; }
  RequestDescription Describe() const override;

 private:
  struct Word {
    int32_t start = 0, end = 0, id = 0;
    int32_t given = 0;  // the id as it came: several that are unknown are still several
    int32_t index = 0;  // its row of WORDS, for error texts
    friend bool operator==(const Word&, const Word&) = default;
  };
  // Where a state lies: a node of a subgraph. Zeros: kZeroSource.
  struct State {
    SubgraphId from = kZeroSource;
    int32_t node = 0;
  };
  struct Arc {
    CellTypeId type;
    InputId id, before;
  };
  struct Rows;    // of the request, in the graph
  struct Answer;  // the tensors that this request returns
  class Builder;

  LatticeUnfolder() = default;
  absl::StatusOr<Arc> MakeArc(const Model& model, CellTypeId type, TableId ids) const;
  absl::Status MakeMerge(const Model& model, const LatticeSpec& spec);
  absl::Status MakeInitial(const Model& model, const LatticeSpec& spec);
  absl::Status MakeOutput(const Model& model, const LatticeSpec& spec);
  std::vector<std::string_view> OutputNames() const;

  absl::StatusOr<std::vector<Word>> ReadWords(const InputTensor& words,
                                              absl::Span<const Piece> lattices) const;
  // Exact: refuses what makes one cell more than the model takes.
  absl::Status CheckSize(int64_t characters, absl::Span<const Word> words, int64_t lattices,
                         const Answer& answer) const;
  absl::StatusOr<Answer> AddTensors(const RequestInput& input, int64_t characters, int64_t lattices,
                                    CellGraph& graph) const;

  LatticeSpec spec_;
  Arc character_, word_;
  bool chains_ = false;  // `character` carries "before"
  TableId state_;        // what every arc leaves
  ColumnId h_, c_;       // c_ invalid: it has none
  int32_t h_width_ = 0, c_width_ = 0;
  ColumnId y_;
  int32_t y_width_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_LATTICE_UNFOLDER_H_

// Sequences through stacked, optionally bidirectional chains, with an optional head at the end or at every step.
//
//   two layers, two directions, T = 4; node numbers inside the chains
//
//   head H:  reads F1[3] (what forward saw last) and B1[3] (what backward saw last)
//   token head Y: 0 1 2 3      Y[t] <- F1[t], B1[3-t]
//   layer 1  F1: 0 1 2 3      each node reads F0 and B0 of its own time step:
//            B1: 3 2 1 0        F1[t] <- F0[t], B0[3-t]      B1[j] <- F0[3-j], B0[j]
//   layer 0  F0: 0 1 2 3      F0[t] <- input[t]
//            B0: 3 2 1 0      B0[j] <- input[3-j]            (stride -1)
//   input    TOKENS [T] or X [T, D]
//
// Words that are spelled (word_input.h) have their x from two character chains and a cell over their ends, W, instead of
// from the embedding, and come later. Chains are cut there, in every layer and direction, so that what lies before runs at
// once; a segment carries on from the end of the one before:
//
//   words    the man Merkelish said so         F0a: 0 1    F0b: 0          F0c: 0 1
//   segments [ a    ][ b     ][ c   ]               |  carry -^  |  carry -^
//                                              F0b[0] <- W of the characters' ends
//
// With LENGTHS INT32 [B] the input holds B sequences end to end (the dimension T is their sum), and the graph B
// independent ones of the above: BatchMaker's answer to padding, inside one message.
//
//   OUTPUT      [D*H]     top layer's last h, forward then backward (PyTorch's h_n); or the head's y [C]; or the token
//                         head's y [T, C]
//   LABELS      [T]       of a token head with labels: the name of y's largest element
//   ALL_HIDDEN  [T, D*H]  top layer's h at every step
//   FINAL_H, FINAL_C  [layers*D, H]  last h and c of every layer and direction, in PyTorch's order; INITIAL_H, INITIAL_C,
//                         in a request: what they begin from (chain_states.h)
//   with LENGTHS: OUTPUT [B, ..], FINAL_* [B, layers*D, H]; what has a row a step lies end to end like the input
//
// Which cells these are it does not know: only what their inputs and columns are called (below).
// Immutable after Create; any thread. Unfold costs O(segments * layers), and O(T + characters) to check them.
#ifndef CELLBATCH_CELLS_UNFOLD_CHAIN_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_CHAIN_UNFOLDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/model.h"
#include "cells/unfold/chain_states.h"
#include "cells/unfold/request_check.h"
#include "cells/unfold/unfolder.h"
#include "cells/unfold/word_input.h"
#include "cells/vocabulary.h"

namespace cellbatch {

// Names that cells and requests meet by.
inline constexpr char kVectorsInput[] = "X";
inline constexpr char kLengthsInput[] = "LENGTHS";
inline constexpr char kOutput[] = "OUTPUT";
inline constexpr char kAllHidden[] = "ALL_HIDDEN";
inline constexpr char kFinalH[] = "FINAL_H";
inline constexpr char kFinalC[] = "FINAL_C";
inline constexpr char kLabels[] = "LABELS";
inline constexpr char kLabelColumn[] = "label";

// One layer: a chain type for each direction. Inputs beside the carry: the lowest layer has one, that
// reads the request's rows (or the embedding's); higher ones "x", or "forward" and "backward" above a layer of
// two directions. It leaves column "h", perhaps "c".
struct ChainLayerSpec {
  CellTypeId forward;   // invalid: backward alone
  CellTypeId backward;  // invalid: forward alone
};

// Words from characters: a chain in each direction, and a cell that reads both ends by inputs "forward" and "backward" and
// leaves its row where the embedding leaves its own.
struct CharacterSpec {
  TableId input;  // of the request: INT32 [1]
  CellTypeId forward, backward;
  CellTypeId word;  // invalid: the model does not read characters
  int64_t vocabulary_size = 0;
};

struct ChainSpec {
  TableId input;         // of the request: one column, INT32 [1] for tokens or FP32 [D] for vectors
  CellTypeId embedding;  // optional: made of every token; the lowest layer reads its column "x"
  std::vector<ChainLayerSpec> layers;
  CellTypeId head;        // optional: one node over the top layer's ends; OUTPUT is its column "y"
  CellTypeId token_head;  // optional, not beside `head`: a node a step; OUTPUT is its column "y"
  CharacterSpec characters;     // optional
  int64_t vocabulary_size = 0;  // tokens: those accepted are below it
  int64_t max_sequence_length = 0;
  int64_t max_nodes = 0;  // of one message; 0: no limit
  // What words of a text are called; null: no WORDS_TEXT. `spelling`: their characters; null: not spelled.
  std::shared_ptr<const Vocabulary> words, spelling;
  std::optional<int32_t> unknown_word;  // serves a word of a text that is neither known nor spelled
  // Of the token head, which then has an INT32 column "label", an ArgMax over as many numbers. Null: no LABELS.
  std::shared_ptr<const Vocabulary> labels;
};

class ChainUnfolder : public Unfolder {
 public:
  // Reads `model`'s types and tables (not kept). INVALID_ARGUMENT names the type and what it lacks.
  static absl::StatusOr<std::unique_ptr<ChainUnfolder>> Create(const ChainSpec& spec,
                                                               const Model& model);

  // The tensors of such a model: every output but OUTPUT is on request and not listed.
  Signature MakeSignature() const;

  // Tokens must lie inside the vocabulary: what is done about others is the decoder's.
  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  RequestDescription Describe() const override;

  // For unfolders that go on where the layers end (encoder_decoder_unfolder.h): whether `rows`, of any name, is one
  // sequence that the layers take; and the layers over it, nothing returned. Answers the chains of each layer,
  // forward first.
  using Below = std::array<SubgraphId, 2>;  // what the layer above reads: forward, backward
  absl::Status CheckSequence(const InputTensor& rows) const;
  std::vector<Below> AddSequence(const InputTensor& rows, CellGraph& graph) const;
  // How many nodes that adds.
  int64_t SequenceNodes(int64_t steps) const {
    return steps * (num_chains_ + (embedding_.valid() ? 1 : 0));
  }
  int64_t num_chains() const { return num_chains_; }
  int32_t next_phase() const { return head_phase_; }  // behind what AddSequence adds

  // Characters and the words they spell, if there are any; the layers; the head. What reads both directions of a layer begins a phase: it waits
  // for the end of one of them, which is as far away as the sentence is long.
  int32_t phases() const override { return head_phase_ + (head_.valid() ? 1 : 0); }

 private:
  // How one chain type reads and what it leaves.
  struct Chain {
    CellTypeId type;
    bool backward = false;
    InputId
        from_forward;  // the layer below, or the request's rows; invalid: below it is a backward direction alone
    InputId from_backward;  // invalid: there is no such direction below
    InputId carry;
    ColumnId h;
    int32_t width = 0;  // of h
  };
  struct Layer {
    std::vector<Chain> directions;  // forward first
  };
  // Steps [begin, begin + length) of a sequence, a chain of its own in every layer and direction. What the lowest layer
  // reads at step begin + i is row base + i of `source`.
  struct Segment {
    int32_t begin = 0, length = 0;
    SubgraphId source;
    int32_t base = 0;
  };
  // One sequence on its way through the layers.
  struct Sequence {
    int64_t number = 0;  // in the message
    int32_t offset = 0, length = 0;
    absl::InlinedVector<Segment, 2> segments;
    absl::Span<const SubgraphId>
        begins;  // by chain: row `number` is what it begins from; none: zeros
  };
  using Segments = absl::InlinedVector<SubgraphId, 2>;  // of one chain, by time
  using Directions = std::array<Segments, 2>;           // forward, backward (perhaps none)
  struct Asked;   // the numbers of the tensors that this request returns
  struct Source;  // what the request brought

  ChainUnfolder() = default;
  // Each reads the tables `below`: what the layer before leaves, forward first.
  absl::StatusOr<TableId> ReadSource(const ChainSpec& spec, const Model& model);
  absl::Status ReadCharacters(const CharacterSpec& spec, const Model& model);
  absl::StatusOr<Chain> MakeChain(const Model& model, CellTypeId id,
                                  absl::Span<const TableId> below, bool lowest) const;
  absl::Status MakeHead(const Model& model, CellTypeId id, absl::Span<const TableId> below);
  absl::Status MakeLabels(const ChainSpec& spec, const Model& model);
  void CountOutputs(const Model& model);
  void CountPhases();
  bool TopIsBackward() const;  // of the layers made so far: it has no forward direction
  void NameTensors();

  absl::StatusOr<Source> ReadSteps(const RequestInput& input, CellGraph& graph) const;
  absl::StatusOr<Asked> AddTensors(const RequestInput& input, int64_t steps, int64_t sequences,
                                   CellGraph& graph) const;
  bool AsksHead(const Asked& asked) const;
  absl::Status Reserve(const Source& source, int64_t sequences, const Asked& asked,
                       size_t num_asked, CellGraph& graph) const;
  void AddSources(Source& source, CellGraph& graph) const;
  void Cut(const Source& source, Sequence& sequence, int32_t& character, CellGraph& graph) const;
  SubgraphId Spell(const Source& source, int32_t first, int32_t length, CellGraph& graph) const;
  static Segments AddChain(const Chain& chain, const Link* begin, const Directions* below,
                           absl::Span<const Segment> segments, CellGraph& graph);
  void ReturnTop(const Segments& from, const Chain& chain, bool backward, const Sequence& sequence,
                 int64_t column_bytes, const Asked& asked, CellGraph& graph) const;
  void AddHead(const Directions& below, const Sequence& sequence, const Asked& asked,
               CellGraph& graph) const;
  void AddTokenHead(const Directions& below, const Sequence& sequence, const Asked& asked,
                    CellGraph& graph) const;
  absl::InlinedVector<Directions, 2> AddLayers(const Sequence& sequence, CellGraph& graph) const;
  void UnfoldSequence(const Sequence& sequence, const Asked& asked, CellGraph& graph) const;

  TableId input_;
  bool tokens_ = false;
  int32_t input_width_ = 1;
  WordReading reading_;
  int64_t max_sequence_length_ = 0;
  int64_t max_nodes_ = 0;
  CellTypeId embedding_;
  std::vector<Layer> layers_;
  std::vector<int32_t> layer_phase_;  // by layer
  int32_t head_phase_ = 1;            // behind all of them
  int64_t num_chains_ = 0;            // over all layers and directions
  TableId characters_;                // of the request
  std::array<Chain, 2> spell_;        // forward, backward; their types invalid: no characters
  CellTypeId word_;                   // over both ends
  InputId word_forward_, word_backward_;
  CellTypeId head_;
  bool head_at_every_step_ = false;
  InputId head_forward_, head_backward_;
  ColumnId head_y_, head_label_;  // label invalid: no LABELS
  std::shared_ptr<const Vocabulary> labels_;
  int64_t output_width_ = 0;                                  // of OUTPUT
  int64_t top_width_ = 0;                                     // of one row of ALL_HIDDEN
  ChainStates states_;                                        // of the layers' chains
  std::vector<std::string_view> input_names_, output_names_;  // OUTPUT first
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_CHAIN_UNFOLDER_H_

// Sequences through stacked, optionally bidirectional chains, with an optional head at the end.
//
//   two layers, two directions, T = 4; node numbers inside the chains
//
//   head H:  reads F1[3] (what forward saw last) and B1[3] (what backward saw last)
//   layer 1  F1: 0 1 2 3      each node reads F0 and B0 of its own time step:
//            B1: 3 2 1 0        F1[t] <- F0[t], B0[3-t]      B1[j] <- F0[3-j], B0[j]
//   layer 0  F0: 0 1 2 3      F0[t] <- input[t]
//            B0: 3 2 1 0      B0[j] <- input[3-j]            (stride -1)
//   input    TOKENS [T] or X [T, D]
//
// With LENGTHS INT32 [B] the input holds B sequences end to end (the dimension T is their sum), and the graph B
// independent ones of the above: BatchMaker's answer to padding, inside one message.
//
//   OUTPUT      [D*H]     top layer's last h, forward then backward (PyTorch's h_n); or the head's y [C]
//   ALL_HIDDEN  [T, D*H]  top layer's h at every step
//   FINAL_H, FINAL_C  [layers*D, H]  last h and c of every layer and direction, in PyTorch's order
//   with LENGTHS: OUTPUT [B, ..], FINAL_* [B, layers*D, H], ALL_HIDDEN [T, D*H] end to end like the input
//
// Which cells these are it does not know: only what their inputs and columns are called (below).
// Immutable after Create; any thread. Unfold costs O(B * layers), and O(T) to check tokens.
#ifndef CELLBATCH_CELLS_UNFOLD_CHAIN_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_CHAIN_UNFOLDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/model.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {

// Names that cells and requests meet by.
inline constexpr char kTokensInput[] = "TOKENS";
inline constexpr char kVectorsInput[] = "X";
inline constexpr char kLengthsInput[] = "LENGTHS";
inline constexpr char kOutput[] = "OUTPUT";
inline constexpr char kAllHidden[] = "ALL_HIDDEN";
inline constexpr char kFinalH[] = "FINAL_H";
inline constexpr char kFinalC[] = "FINAL_C";

// One layer: a chain type for each direction. Inputs beside the carry: the lowest layer has one, that
// reads the request's rows (or the embedding's); higher ones "x", or "forward" and "backward" above a layer of
// two directions. It leaves column "h", perhaps "c".
struct ChainLayerSpec {
  CellTypeId forward;
  CellTypeId backward;  // invalid: one direction
};

struct ChainSpec {
  TableId input;         // of the request: one column, INT32 [1] for tokens or FP32 [D] for vectors
  CellTypeId embedding;  // optional: made of every token; the lowest layer reads its column "x"
  std::vector<ChainLayerSpec> layers;
  CellTypeId head;  // optional: one node over the top layer's ends; OUTPUT is its column "y"
  int64_t vocabulary_size = 0;  // tokens: those accepted are below it
  int64_t max_sequence_length = 0;
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

  // For unfolders that go on where the layers end (encoder_decoder_unfolder.h): whether `rows`, of any name, is one
  // sequence that the layers take; and the layers over it, nothing returned. Answers the chains of each layer,
  // forward first.
  using Below = std::array<SubgraphId, 2>;  // what the layer above reads: forward, backward
  absl::Status CheckSequence(const InputTensor& rows) const;
  std::vector<Below> AddSequence(const InputTensor& rows, CellGraph& graph) const;
  int64_t num_chains() const { return num_chains_; }

 private:
  // How one chain type reads and what it leaves.
  struct Chain {
    CellTypeId type;
    InputId from_forward;   // the layer below, or the request's rows
    InputId from_backward;  // invalid: there is one direction below
    ColumnId h, c;          // c invalid: it has none
    int32_t width = 0;      // of h
  };
  struct Layer {
    std::vector<Chain> directions;  // forward first
  };
  struct Sequence {
    int64_t number = 0;  // in the message
    int32_t offset = 0, length = 0;
  };
  struct Asked;  // the numbers of the tensors that this request returns

  ChainUnfolder() = default;
  // Each reads the tables `below`: what the layer before leaves, forward first.
  absl::StatusOr<TableId> ReadSource(const ChainSpec& spec, const Model& model);
  absl::StatusOr<Chain> MakeChain(const Model& model, CellTypeId id,
                                  absl::Span<const TableId> below) const;
  absl::Status MakeHead(const Model& model, CellTypeId id, absl::Span<const TableId> below);
  void CountOutputs();

  absl::StatusOr<const InputTensor*> CheckInput(const RequestInput& input) const;
  absl::Status CheckRows(const InputTensor& rows) const;
  absl::Status CheckTokens(const InputTensor& tokens) const;
  absl::StatusOr<std::vector<Sequence>> Split(const RequestInput& input, int64_t steps) const;
  absl::StatusOr<Asked> AddTensors(const RequestInput& input, int64_t steps, int64_t sequences,
                                   CellGraph& graph) const;
  SubgraphId AddRows(const InputTensor& rows, CellGraph& graph) const;
  std::vector<Below> AddLayers(SubgraphId source, Sequence sequence, CellGraph& graph) const;
  static SubgraphId AddChain(const Chain& chain, bool backward, Below below, int32_t base,
                             int32_t length, CellGraph& graph);
  void ReturnTop(SubgraphId from, const Chain& chain, bool backward, Sequence sequence,
                 int64_t column_bytes, const Asked& asked, CellGraph& graph) const;
  void UnfoldSequence(SubgraphId source, Sequence sequence, const Asked& asked,
                      CellGraph& graph) const;

  TableId input_;
  bool tokens_ = false;
  int32_t input_width_ = 1;
  int64_t vocabulary_size_ = 0;
  int64_t max_sequence_length_ = 0;
  CellTypeId embedding_;
  std::vector<Layer> layers_;
  int64_t num_chains_ = 0;  // over all layers and directions
  CellTypeId head_;
  InputId head_forward_, head_backward_;
  ColumnId head_y_;
  int64_t output_width_ = 0;                // of OUTPUT
  int64_t top_width_ = 0;                   // of one row of ALL_HIDDEN
  bool final_h_ = false, final_c_ = false;  // every chain has h (c) of one width
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_CHAIN_UNFOLDER_H_

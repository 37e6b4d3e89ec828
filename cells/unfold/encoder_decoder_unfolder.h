// A sequence into a sequence: an encoder as a chain model has it, then a decoder that feeds itself.
//
//   SOURCE [S] --> layers of the encoder --> bridge B --> decoder D: one chain, up to max_decode_steps nodes
//
//     E0: 0 1 2 .. S-1 ---------+
//     E1: 0 1 2 .. S-1 ------+  |              D0 --word--> D1 --word--> D2 .. stops at end_of_sequence
//                            v  v              ^
//                            B: leaves what the decoder carries, `word` = the first word
//
// The decoder carries all of its state, its last word included: step t looks up, on the device, the word that step
// t - 1 left, and the host is never asked. So the chain is speculative: nobody knows where it ends before it is there
// (cell_graph.h, Stop). BatchMaker's Seq2Seq (section 2 of the paper), whose decoder is unfolded as outputs arrive.
//
//   OUTPUT   INT32 [L]  the words before the end of the sequence; L may be 0
//   LENGTH   INT32 [1]  L
//   STOPPED  INT32 [1]  1: the end came; 0: the cap cut the answer, or decode_steps asked for so many
//
// Request parameters: max_decode_steps, a cap below the model's; decode_steps, exactly so many words, the end of the
// sequence or not (as the paper measures: a decoder of random weights ends at once or never).
//
// Immutable after Create; any thread. Unfold costs O(layers), and O(S) to check words.
#ifndef CELLBATCH_CELLS_UNFOLD_ENCODER_DECODER_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_ENCODER_DECODER_UNFOLDER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {

// Names that cells and requests meet by.
inline constexpr char kSourceInput[] = "SOURCE";
inline constexpr char kLengthOutput[] = "LENGTH";
inline constexpr char kStoppedOutput[] = "STOPPED";
inline constexpr char kMaxDecodeSteps[] = "max_decode_steps";
inline constexpr char kDecodeSteps[] = "decode_steps";
inline constexpr char kWordColumn[] = "word";

// The name of the bridge's input that reads the end of layer `layer`: "layer0", "layer0_backward".
std::string BridgeInputName(size_t layer, bool backward);

struct EncoderDecoderSpec {
  ChainSpec encoder;  // over tokens, without a head
  CellTypeId
      bridge;  // optional: then there is one layer of one direction, whose end is what the decoder reads
  CellTypeId decoder;  // its only input is its carry; it leaves INT32 "word"
  int32_t end_of_sequence = 0;
  int32_t max_decode_steps = 100;
  int64_t max_nodes = 0;  // of one request, steps past its end included; 0: no limit
};

class EncoderDecoderUnfolder : public Unfolder {
 public:
  // Reads `model`'s types and tables (not kept). INVALID_ARGUMENT names the type and what it lacks.
  static absl::StatusOr<std::unique_ptr<EncoderDecoderUnfolder>> Create(
      const EncoderDecoderSpec& spec, const Model& model);

  Signature MakeSignature() const;

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  // The encoder's, the bridge, the decoder.
  int32_t phases() const override { return std::min(encoder_->next_phase() + 2, kMostPhases); }
  RequestDescription Describe() const override;

 private:
  // A layer's end that the bridge reads.
  struct BridgeRead {
    size_t layer = 0, direction = 0;
    InputId input;
  };
  // How far a request wants to decode.
  struct Steps {
    int32_t most = 0;
    bool exactly = false;
  };

  EncoderDecoderUnfolder() = default;
  absl::Status TakeBridge(const EncoderDecoderSpec& spec, const Model& model);
  absl::Status TakeDecoder(const EncoderDecoderSpec& spec, const Model& model);

  absl::StatusOr<const InputTensor*> CheckInput(const RequestInput& input) const;
  absl::StatusOr<Steps> StepsOf(const RequestInput& input) const;
  // Exact, but for steps that a stop leaves out.
  absl::Status CheckSize(int64_t source_words, int64_t steps) const;
  absl::StatusOr<StopTensors> AddTensors(const RequestInput& input, Steps steps,
                                         CellGraph& graph) const;

  std::unique_ptr<ChainUnfolder> encoder_;
  CellTypeId bridge_;
  std::vector<BridgeRead> bridge_reads_;
  CellTypeId decoder_;
  InputId decoder_carry_;
  ColumnId word_;
  int32_t end_of_sequence_ = 0;
  int32_t max_decode_steps_ = 0;
  int64_t max_nodes_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_ENCODER_DECODER_UNFOLDER_H_

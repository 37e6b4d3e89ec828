// Encoders with decoders (cells/unfold/encoder_decoder_unfolder.h).
#include <fmt/format.h>

#include "cells/unfold/encoder_decoder_unfolder.h"
#include "server/assemble/assembly.h"
#include "server/assemble/layers.h"

namespace cellbatch {
namespace {

constexpr char kWhat[] = "encoder_decoder";
constexpr int32_t kUsualDecodeSteps = 100;

// The ends of the layers, by the names of the bridge's inputs.
TypeRole OverEnds(const std::vector<ChainLayerSpec>& layers, const Model& model) {
  TypeRole role{.what = "encoder_decoder: bridge", .inputs = {}, .others = {}};
  for (size_t l = 0; l < layers.size(); ++l) {
    for (const bool backward : {false, true}) {
      const CellTypeId end = backward ? layers[l].backward : layers[l].forward;
      if (!end.valid()) continue;
      role.inputs.emplace_back(BridgeInputName(l, backward), InputSource::Of(model.type(end).out));
    }
  }
  return role;
}

bool MakeTypes(Assembly& a, EncoderDecoderSpec& spec) {
  const disk::EncoderDecoderUnfolder& config = a.config.encoder_decoder();
  for (const disk::ChainLayer& layer : config.layers()) {
    if (!layer.forward().empty()) continue;
    a.Problem("encoder_decoder: layers: one has no forward direction");
    return false;
  }
  const InputSource source = InputSource::Request(kSourceInput, ElementType::kInt32);
  const std::vector<TableId> top =
      MakeLayers(a, kWhat, source, config.embedding(), config.layers(), spec.encoder);
  if (top.empty()) return false;
  if (!config.bridge().empty()) {
    spec.bridge = a.types.Add(config.bridge(), OverEnds(spec.encoder.layers, a.model));
    if (!spec.bridge.valid()) return false;
  }
  // What it carries it leaves itself: there is nothing else to read.
  spec.decoder = a.types.Add(
      config.decoder(), TypeRole{.what = "encoder_decoder: decoder", .inputs = {}, .others = {}});
  return spec.decoder.valid();
}

}  // namespace

void AssembleEncoderDecoder(Assembly& a) {
  const disk::EncoderDecoderUnfolder& config = a.config.encoder_decoder();
  EncoderDecoderSpec spec;
  if (!a.Finish(MakeTypes(a, spec))) return;
  spec.encoder.input = a.types.RequestTable(kSourceInput);
  if (!spec.encoder.input.valid()) {
    a.Problem("encoder_decoder: no cell reads the request");
    return;
  }
  const std::optional<int64_t> words = a.VocabularySize(spec.encoder.input);
  if (!words) return;
  spec.encoder.vocabulary_size = *words;
  spec.encoder.max_sequence_length = a.MaxSequenceLength();
  spec.max_nodes = a.MaxNodes();
  spec.end_of_sequence = config.end_of_sequence();
  spec.max_decode_steps =
      config.max_decode_steps() == 0 ? kUsualDecodeSteps : config.max_decode_steps();
  auto unfolder = EncoderDecoderUnfolder::Create(spec, a.model);
  if (!unfolder.ok()) {
    a.Problem(std::string(unfolder.status().message()));
    return;
  }
  a.model.signature = (*unfolder)->MakeSignature();
  a.model.unfolder = *std::move(unfolder);
  a.ApplyVocabulary(*words);
  a.ListOutputs();
}

}  // namespace cellbatch

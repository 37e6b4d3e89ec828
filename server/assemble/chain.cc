// Stacked, optionally bidirectional chains (cells/unfold/chain_unfolder.h).
#include <fmt/format.h>

#include "cells/unfold/chain_unfolder.h"
#include "server/assemble/assembly.h"

namespace cellbatch {
namespace {

// What a cell reads from the layer below: one direction, or forward and backward.
TypeRole Over(const char* what, const std::vector<TableId>& below) {
  TypeRole role{.what = what, .inputs = {}, .others = InputSource::Of(below[0])};
  if (below.size() == 2) role.inputs.emplace_back("backward", InputSource::Of(below[1]));
  return role;
}

// Bottom to top, because a layer's sizes may follow from the one below. False: one is broken.
bool MakeTypes(Assembly& a, ChainSpec& spec) {
  const disk::ChainUnfolder& chain = a.config.chain();
  const InputSource request = chain.input() == disk::TOKENS
                                  ? InputSource::Request(kTokensInput, ElementType::kInt32)
                                  : InputSource::Request(kVectorsInput, ElementType::kFp32);
  TypeRole role{.what = "chain: embedding", .inputs = {}, .others = request};
  if (!chain.embedding().empty()) {
    spec.embedding = a.types.Add(chain.embedding(), role);
    if (!spec.embedding.valid()) return false;
    role = Over("chain: layers", {a.model.type(spec.embedding).out});
  }
  role.what = "chain: layers";
  std::vector<TableId> below;
  for (const disk::ChainLayer& layer : chain.layers()) {
    if (!below.empty()) role = Over("chain: layers", below);
    const bool both = !layer.backward().empty();
    ChainLayerSpec made{a.types.Add(layer.forward(), role), {}};
    if (both) made.backward = a.types.Add(layer.backward(), role);
    if (!made.forward.valid() || made.backward.valid() != both) return false;
    below = {a.model.type(made.forward).out};
    if (both) below.push_back(a.model.type(made.backward).out);
    spec.layers.push_back(made);
  }
  if (chain.head().empty() || below.empty()) return true;
  spec.head = a.types.Add(chain.head(), Over("chain: head", below));
  return spec.head.valid();
}

}  // namespace

void AssembleChain(Assembly& a) {
  const disk::ChainUnfolder& chain = a.config.chain();
  if (chain.input() != disk::TOKENS && chain.input() != disk::VECTORS) {
    a.Problem("chain: input is neither TOKENS nor VECTORS");
    return;
  }
  ChainSpec spec;
  if (!a.Finish(MakeTypes(a, spec))) return;
  const bool tokens = chain.input() == disk::TOKENS;
  spec.input = a.types.RequestTable(tokens ? kTokensInput : kVectorsInput);
  if (!spec.input.valid()) {
    a.Problem("chain: no cell reads the request");
    return;
  }
  const std::optional<int64_t> words = a.VocabularySize(spec.input);
  if (!words) return;
  spec.vocabulary_size = *words;
  spec.max_sequence_length = a.MaxSequenceLength();
  auto unfolder = ChainUnfolder::Create(spec, a.model);
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

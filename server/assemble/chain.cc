// Stacked, optionally bidirectional chains (cells/unfold/chain_unfolder.h).
#include <fmt/format.h>

#include "cells/unfold/chain_unfolder.h"
#include "server/assemble/assembly.h"
#include "server/assemble/layers.h"

namespace cellbatch {
namespace {

// False: one is broken.
bool MakeTypes(Assembly& a, ChainSpec& spec) {
  const disk::ChainUnfolder& chain = a.config.chain();
  const InputSource request = chain.input() == disk::TOKENS
                                  ? InputSource::Request(kTokensInput, ElementType::kInt32)
                                  : InputSource::Request(kVectorsInput, ElementType::kFp32);
  const std::vector<TableId> top =
      MakeLayers(a, "chain", request, chain.embedding(), chain.layers(), spec);
  if (top.empty()) return false;
  if (chain.head().empty()) return true;
  spec.head = a.types.Add(chain.head(), Over("chain: head", top));
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

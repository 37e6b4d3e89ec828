// Stacked, optionally bidirectional chains (cells/unfold/chain_unfolder.h).
#include <fmt/format.h>

#include <limits>

#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/utf8.h"
#include "server/assemble/assembly.h"
#include "server/assemble/layers.h"

namespace cellbatch {
namespace {

constexpr char kLabelsFile[] = "labels.txt";

// The chains over characters, and the cell that makes a word of their ends. False: one is broken.
bool MakeCharacterTypes(Assembly& a, CharacterSpec& spec) {
  const disk::CharacterWords& characters = a.config.chain().characters();
  const TypeRole chain{.what = "chain: characters",
                       .inputs = {},
                       .others = InputSource::Request(kCharIdsInput, ElementType::kInt32)};
  spec.forward = a.types.Add(characters.forward(), chain);
  spec.backward = a.types.Add(characters.backward(), chain);
  if (!spec.forward.valid() || !spec.backward.valid()) return false;
  const std::vector<TableId> ends = {a.model.type(spec.forward).out,
                                     a.model.type(spec.backward).out};
  spec.word = a.types.Add(characters.word(), Over("chain: characters", ends));
  return spec.word.valid();
}

// False: one is broken.
bool MakeTypes(Assembly& a, ChainSpec& spec) {
  const disk::ChainUnfolder& chain = a.config.chain();
  const InputSource request = chain.input() == disk::TOKENS
                                  ? InputSource::Request(kTokensInput, ElementType::kInt32)
                                  : InputSource::Request(kVectorsInput, ElementType::kFp32);
  const std::vector<TableId> top =
      MakeLayers(a, "chain", request, chain.embedding(), chain.layers(), spec);
  if (top.empty()) return false;
  if (chain.has_characters() && !MakeCharacterTypes(a, spec.characters)) return false;
  if (!chain.head().empty()) {
    spec.head = a.types.Add(chain.head(), Over("chain: head", top));
    if (!spec.head.valid()) return false;
  }
  if (chain.token_head().empty()) return true;
  TypeRole every_step = Over("chain: token_head", top);
  every_step.labels = spec.labels != nullptr;
  spec.token_head = a.types.Add(chain.token_head(), every_step);
  return spec.token_head.valid();
}

// Labels leave the server, in texts of JSON too, where bytes that are no UTF-8 would be replaced.
void ReadLabels(Assembly& a, ChainSpec& spec) {
  spec.labels = a.ReadNames(kLabelsFile, std::numeric_limits<int32_t>::max());
  for (int32_t id = 0; spec.labels != nullptr && id < spec.labels->size(); ++id) {
    if (IsUtf8(spec.labels->word(id))) continue;
    a.types.Problem(
        fmt::format("{}/{}: line {} is no UTF-8", a.model.version, kLabelsFile, id + 1));
    return;
  }
}

// The version folder's lists of words and characters.
void ReadTexts(Assembly& a, ChainSpec& spec) {
  spec.words = a.ReadNames("vocabulary.txt", spec.vocabulary_size);
  if (a.config.vocabulary().out_of_vocabulary() == disk::UNKNOWN_WORD) {
    spec.unknown_word = static_cast<int32_t>(a.config.vocabulary().unknown_id());
  }
  if (!spec.characters.word.valid()) return;
  spec.characters.input = a.types.RequestTable(kCharIdsInput);
  spec.characters.vocabulary_size = a.types.LookupRows(spec.characters.input);
  spec.spelling = a.ReadNames("chars.txt", spec.characters.vocabulary_size);
}

}  // namespace

void AssembleChain(Assembly& a) {
  const disk::ChainUnfolder& chain = a.config.chain();
  if (chain.input() != disk::TOKENS && chain.input() != disk::VECTORS) {
    a.Problem("chain: input is neither TOKENS nor VECTORS");
    return;
  }
  ChainSpec spec;
  // As many as the token head leaves numbers, which the unfolder checks.
  ReadLabels(a, spec);
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
  spec.max_nodes = a.MaxNodes();
  if (tokens) ReadTexts(a, spec);
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

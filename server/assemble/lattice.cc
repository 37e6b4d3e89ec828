// Lattices (cells/unfold/lattice_unfolder.h).
#include <fmt/format.h>

#include "cells/unfold/lattice_unfolder.h"
#include "server/assemble/assembly.h"

namespace cellbatch {
namespace {

// The character's cell first: states are what it leaves. False: one is broken.
bool MakeTypes(Assembly& a, LatticeSpec& spec) {
  const disk::LatticeUnfolder& lattice = a.config.lattice();
  spec.character = a.types.Add(lattice.character(),
                               {.what = "lattice: character",
                                .inputs = {{"before", InputSource::Own()}},
                                .others = InputSource::Request(kCharsInput, ElementType::kInt32)});
  if (!spec.character.valid()) return false;
  const InputSource state = InputSource::Of(a.model.type(spec.character).out);
  const auto add = [&](const std::string& name, TypeRole role, CellTypeId& id) {
    if (name.empty()) return true;
    id = a.types.Add(name, role);
    return id.valid();
  };
  bool all = add(lattice.word(),
                 {.what = "lattice: word",
                  .inputs = {{"before", state}},
                  .others = InputSource::Request(kWordsInput, ElementType::kInt32)},
                 spec.word);
  all =
      add(lattice.merge(), {.what = "lattice: merge", .inputs = {}, .others = state}, spec.merge) &&
      all;
  all = add(lattice.initial(), {.what = "lattice: initial", .inputs = {}, .others = {}},
            spec.initial) &&
        all;
  return add(lattice.output(), {.what = "lattice: output", .inputs = {}, .others = state},
             spec.output) &&
         all;
}

// What the ids of `name` may be. False: a problem was noted.
bool FindIds(Assembly& a, const char* name, const disk::Vocabulary& vocabulary, TableId& table,
             IdRange& known) {
  table = a.types.RequestTable(name);
  if (!table.valid()) {
    a.Problem(fmt::format("lattice: no cell reads the request's {}", name));
    return false;
  }
  const std::optional<IdRange> range = a.KnownIds(vocabulary, table, name);
  if (range) known = *range;
  return range.has_value();
}

}  // namespace

void AssembleLattice(Assembly& a) {
  const disk::LatticeUnfolder& lattice = a.config.lattice();
  LatticeSpec spec;
  if (!a.Finish(MakeTypes(a, spec))) return;
  bool known = FindIds(a, kCharsInput, lattice.character_vocabulary(), spec.characters,
                       spec.known_characters);
  if (spec.word.valid()) {
    known = FindIds(a, kWordsInput, a.config.vocabulary(), spec.words, spec.known_words) && known;
  }
  if (!known) return;
  spec.max_characters = a.MaxSequenceLength();
  spec.max_nodes = a.MaxNodes();
  auto unfolder = LatticeUnfolder::Create(spec, a.model);
  if (!unfolder.ok()) {
    a.Problem(std::string(unfolder.status().message()));
    return;
  }
  a.model.signature = (*unfolder)->MakeSignature();
  a.model.unfolder = *std::move(unfolder);
  a.ListOutputs();
}

}  // namespace cellbatch

// What a lattice model's cells must look like, checked once; requests are then unfolded without
// asking.
#include <fmt/format.h>

#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/lattice_unfolder.h"
#include "cells/unfold/type_check.h"

namespace cellbatch {
namespace {

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("lattice: {}", what));
}

// What cells that must leave states leave instead.
absl::Status NoState(const Model& model, const CellType& type, TableId states) {
  return Wrong(
      fmt::format("cell type \"{}\" leaves {}, a state is {}; all that make states leave the "
                  "same columns, in one order",
                  type.name, ColumnsText(type.definition->columns()),
                  ColumnsText(model.table(states).columns)));
}

// The type's only input, named and of that arity, reads `table`.
absl::Status CheckOnlyInput(const Model& model, const CellType& type, std::string_view name,
                            Arity arity, TableId table) {
  const absl::Span<const Input> inputs = type.definition->inputs();
  if (inputs.size() != 1 || (!name.empty() && inputs[0].name != name) || inputs[0].arity != arity) {
    return Wrong(fmt::format("cell type \"{}\" has {} inputs, expected is one{} that reads {}",
                             type.name, inputs.size(),
                             name.empty() ? "" : fmt::format(" \"{}\"", name),
                             arity == Arity::kSum ? "a sum" : "one state"));
  }
  if (type.in[0] == table) return absl::OkStatus();
  return Wrong(fmt::format("cell type \"{}\": input \"{}\" reads of {}, a state is {}", type.name,
                           inputs[0].name, ColumnsText(model.table(type.in[0]).columns),
                           ColumnsText(model.table(table).columns)));
}

absl::Status CheckIds(const Model& model, TableId id, std::string_view what, const IdRange& known) {
  if (!id.valid() || static_cast<size_t>(id.value()) >= model.tables.size()) {
    return Wrong(fmt::format("{} in table {} of {}", what, id.value(), model.tables.size()));
  }
  const TableSpec& table = model.table(id);
  const bool ids = table.columns.size() == 1 && table.columns[0].type == ElementType::kInt32 &&
                   table.columns[0].width == 1;
  if (!ids) {
    return Wrong(fmt::format("table \"{}\" of {} is not one INT32 of 1", table.name, what));
  }
  if (known.size < 1 || (known.unknown && !known.Has(*known.unknown))) {
    return Wrong(fmt::format("{} out of a vocabulary of {}, unknown ones as {}", what, known.size,
                             known.unknown.value_or(-1)));
  }
  return absl::OkStatus();
}

}  // namespace

// "before" reads the state, the other input an id.
absl::StatusOr<LatticeUnfolder::Arc> LatticeUnfolder::MakeArc(const Model& model, CellTypeId id,
                                                              TableId ids) const {
  const absl::StatusOr<const CellType*> found = TypeOf(model, id);
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  const absl::Span<const Input> inputs = type.definition->inputs();
  Arc arc{.type = id, .id = {}, .before = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool before = inputs[i].name == "before";
    (before ? arc.before : arc.id) = InputId(static_cast<int64_t>(i));
    const TableId reads = before ? state_ : ids;
    if (inputs[i].arity != Arity::kOne) {
      return Wrong(fmt::format("cell type \"{}\": input \"{}\" is a sum; it must read one node",
                               type.name, inputs[i].name));
    }
    if (type.in[i] == reads) continue;
    return Wrong(fmt::format("cell type \"{}\": input \"{}\" reads of {}, {} {}", type.name,
                             inputs[i].name, ColumnsText(model.table(type.in[i]).columns),
                             before ? "a state is" : "the request brings",
                             ColumnsText(model.table(reads).columns)));
  }
  if (inputs.size() != 2 || !arc.before.valid() || !arc.id.valid()) {
    return Wrong(fmt::format("cell type \"{}\" has {} inputs, expected are \"before\" and one more",
                             type.name, inputs.size()));
  }
  if (type.out != state_) return NoState(model, type, state_);
  const std::optional<InputId> carry = type.definition->carry();
  if (carry.has_value() && *carry != arc.before) {
    return Wrong(fmt::format("cell type \"{}\" carries \"{}\", not \"before\"", type.name,
                             inputs[static_cast<size_t>(carry->value())].name));
  }
  return arc;
}

absl::Status LatticeUnfolder::MakeMerge(const Model& model, const LatticeSpec& spec) {
  if (spec.word.valid() != spec.merge.valid()) {
    return Wrong(spec.word.valid() ? "words and no cell that merges them: merge names it"
                                   : "a cell that merges and no words: word names their cell");
  }
  if (!spec.word.valid()) return absl::OkStatus();
  if (absl::Status s = CheckIds(model, spec.words, "words", spec.known_words); !s.ok()) return s;
  const absl::StatusOr<Arc> word = MakeArc(model, spec.word, spec.words);
  if (!word.ok()) return word.status();
  word_ = *word;
  const absl::StatusOr<const CellType*> merge = TypeOf(model, spec.merge);
  if (!merge.ok()) return merge.status();
  if ((*merge)->out != state_) return NoState(model, **merge, state_);
  return CheckOnlyInput(model, **merge, "arcs", Arity::kSum, state_);
}

absl::Status LatticeUnfolder::MakeInitial(const Model& model, const LatticeSpec& spec) {
  if (!spec.initial.valid()) return absl::OkStatus();
  const absl::StatusOr<const CellType*> type = TypeOf(model, spec.initial);
  if (!type.ok()) return type.status();
  if ((*type)->out != state_) return NoState(model, **type, state_);
  if ((*type)->definition->inputs().empty()) return absl::OkStatus();
  return Wrong(fmt::format("cell type \"{}\" has {} inputs; what makes an initial state has none",
                           (*type)->name, (*type)->definition->inputs().size()));
}

absl::Status LatticeUnfolder::MakeOutput(const Model& model, const LatticeSpec& spec) {
  if (!spec.output.valid()) return absl::OkStatus();
  const absl::StatusOr<const CellType*> type = TypeOf(model, spec.output);
  if (!type.ok()) return type.status();
  if (absl::Status s = CheckOnlyInput(model, **type, "", Arity::kOne, state_); !s.ok()) return s;
  if ((*type)->definition->carry().has_value()) {
    return Wrong(fmt::format("output \"{}\" is a chain", (*type)->name));
  }
  y_ = ColumnNamed(**type, "y");
  if (!y_.valid()) {
    return Wrong(fmt::format("output \"{}\" leaves no FP32 column \"y\", but {}", (*type)->name,
                             ColumnsText((*type)->definition->columns())));
  }
  y_width_ = WidthOf(**type, y_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LatticeUnfolder>> LatticeUnfolder::Create(const LatticeSpec& spec,
                                                                         const Model& model) {
  if (spec.max_characters < 1 || spec.max_nodes < 1) {
    return Wrong(
        fmt::format("at most {} characters and {} cells", spec.max_characters, spec.max_nodes));
  }
  std::unique_ptr<LatticeUnfolder> made(new LatticeUnfolder);
  made->spec_ = spec;
  const absl::StatusOr<const CellType*> type = TypeOf(model, spec.character);
  if (!type.ok()) return type.status();
  made->state_ = (*type)->out;
  absl::Status s = CheckIds(model, spec.characters, "characters", spec.known_characters);
  if (!s.ok()) return s;
  const absl::StatusOr<Arc> character = made->MakeArc(model, spec.character, spec.characters);
  if (!character.ok()) return character.status();
  made->character_ = *character;
  made->chains_ = (*type)->definition->carry().has_value();
  made->h_ = ColumnNamed(**type, "h");
  made->c_ = ColumnNamed(**type, "c");
  if (!made->h_.valid()) {
    return Wrong(fmt::format("cell type \"{}\" leaves no FP32 column \"h\"", (*type)->name));
  }
  made->h_width_ = WidthOf(**type, made->h_);
  made->c_width_ = WidthOf(**type, made->c_);
  if (s = made->MakeMerge(model, spec); !s.ok()) return s;
  if (s = made->MakeInitial(model, spec); !s.ok()) return s;
  if (s = made->MakeOutput(model, spec); !s.ok()) return s;
  return made;
}

std::vector<std::string_view> LatticeUnfolder::OutputNames() const {
  std::vector<std::string_view> names = {kOutput, kAllHidden, kFinalH};
  if (c_.valid()) names.push_back(kFinalC);
  if (spec_.output.valid()) names.push_back(kNodeOutputs);
  return names;
}

Signature LatticeUnfolder::MakeSignature() const {
  Signature signature;
  signature.inputs.push_back({kCharsInput, WireType::kInt32, {-1}});
  if (word_.type.valid()) {
    signature.inputs.push_back({.name = kWordsInput,
                                .type = WireType::kInt32,
                                .dims = {-1, 3},
                                .optional = true,
                                .may_be_empty = true});
  }
  signature.inputs.push_back({kLengthsInput,
                              WireType::kInt32,
                              {-1},
                              /*optional=*/true,
                              /*on_request=*/false,
                              /*listed=*/false});
  for (const std::string_view name : OutputNames()) {
    const bool all = name == kAllHidden || name == kNodeOutputs;
    const bool y = name == kNodeOutputs || (name == kOutput && spec_.output.valid());
    std::vector<int64_t> dims = {name == kFinalC ? c_width_ : y ? y_width_ : h_width_};
    if (all) dims.insert(dims.begin(), -1);
    const bool first = name == kOutput;
    signature.outputs.push_back({std::string(name), WireType::kFp32, std::move(dims),
                                 /*optional=*/false, /*on_request=*/!first, /*listed=*/first});
  }
  // What is too long is said by Unfold: more words than characters is no mistake.
  signature.max_sequence_length = 0;
  return signature;
}

RequestDescription LatticeUnfolder::Describe() const {
  return {.inputs = {{.name = kCharsInput,
                      .num_ids = spec_.known_characters.size,
                      .max_rows = spec_.max_characters},
                     {.name = kWordsInput, .num_ids = spec_.known_words.size}},
          .max_nodes = spec_.max_nodes};
}

}  // namespace cellbatch

// What a chain model's cells must look like, checked once; requests are then unfolded without asking.
#include <fmt/format.h>

#include "cells/unfold/chain_unfolder.h"

namespace cellbatch {
namespace {

constexpr size_t kMaxLayers = 64;

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("chain: {}", what));
}

absl::StatusOr<const CellType*> TypeOf(const Model& model, CellTypeId id) {
  if (!id.valid() || static_cast<size_t>(id.value()) >= model.types.size()) {
    return Wrong(fmt::format("cell type {} of {}", id.value(), model.types.size()));
  }
  return &model.type(id);
}

InputId FindInput(const CellType& type, std::string_view name) {
  const absl::Span<const Input> inputs = type.definition->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) return InputId(static_cast<int64_t>(i));
  }
  return InputId();
}

int32_t Width(const CellType& type, ColumnId column) {
  return type.definition->columns()[static_cast<size_t>(column.value())].width;
}

TableId TableRead(const CellType& type, InputId input) {
  return type.in[static_cast<size_t>(input.value())];
}

// That each number which the head's own column "label" may hold has a name: it says where one of as many elements is largest.
absl::Status CheckLabel(const CellType& head, ColumnId label, int64_t labels) {
  const CellDefinition& cell = *head.definition;
  const auto column = static_cast<size_t>(label.value());
  const Op* maker = &cell.op(cell.outputs()[column].value);
  // Of a copy, what it copies.
  while ((maker->kind == OpKind::kSlice || maker->kind == OpKind::kTranspose) &&
         cell.op(maker->args[0]).shape.size() == 1) {
    maker = &cell.op(maker->args[0]);
  }
  std::string what;
  if (maker->kind != OpKind::kArgMax) {
    what = fmt::format("is made by {}, not by ArgMax over {} numbers", Name(maker->kind), labels);
  } else if (const int64_t over = cell.op(maker->args[0]).shape.size(); over != labels) {
    what = fmt::format("is an ArgMax over {} numbers", over);
  } else {
    return absl::OkStatus();
  }
  return Wrong(
      fmt::format("token_head \"{}\": its column \"{}\" {}, and there are {} labels; write the "
                  "ARGMAX of column \"y\", or leave \"{}\" out, then it is that",
                  head.name, kLabelColumn, what, labels, kLabelColumn));
}

// What a type reads beside its carry: one table by one input, or two directions by two.
struct Reads {
  InputId forward, backward;
};

// `below`: the tables of the layer below, forward first; or the one the request (or embedding) fills.
absl::StatusOr<Reads> FindReads(const CellType& type, absl::Span<const TableId> below,
                                bool lowest) {
  Reads reads;
  const size_t inputs = type.definition->inputs().size();
  const size_t carried = type.definition->carry().has_value() ? 1 : 0;
  if (inputs - carried != below.size()) {
    return Wrong(fmt::format(
        "cell type \"{}\" has {} inputs beside what it carries, below it are {}{}", type.name,
        inputs - carried, below.size(),
        below.size() == 2 ? "; reads { input: \"x\" through: \"pair\" } joins both directions"
                          : ""));
  }
  if (lowest) {
    for (size_t i = 0; i < inputs; ++i) {
      const InputId input(static_cast<int64_t>(i));
      if (type.definition->carry() != input) reads.forward = input;
    }
  } else if (below.size() == 1) {
    reads.forward = FindInput(type, "x");
  } else {
    reads = {FindInput(type, "forward"), FindInput(type, "backward")};
  }
  if (!reads.forward.valid() || reads.backward.valid() != (below.size() == 2)) {
    return Wrong(
        fmt::format("cell type \"{}\" has no {}", type.name,
                    below.size() == 1 ? "input \"x\"" : "inputs \"forward\" and \"backward\""));
  }
  for (size_t i = 0; i < below.size(); ++i) {
    const InputId input = i == 0 ? reads.forward : reads.backward;
    if (TableRead(type, input) == below[i]) continue;
    return Wrong(fmt::format("cell type \"{}\": input \"{}\" reads table {}, below it is table {}",
                             type.name,
                             type.definition->inputs()[static_cast<size_t>(input.value())].name,
                             TableRead(type, input).value(), below[i].value()));
  }
  return reads;
}

}  // namespace

absl::StatusOr<TableId> ChainUnfolder::ReadSource(const ChainSpec& spec, const Model& model) {
  if (!spec.input.valid() || static_cast<size_t>(spec.input.value()) >= model.tables.size()) {
    return Wrong(fmt::format("input table {} of {}", spec.input.value(), model.tables.size()));
  }
  const TableSpec& table = model.table(spec.input);
  if (table.columns.size() != 1) {
    return Wrong(fmt::format("input table \"{}\" has {} columns, a request fills 1", table.name,
                             table.columns.size()));
  }
  input_ = spec.input;
  tokens_ = table.columns[0].type == ElementType::kInt32;
  input_width_ = table.columns[0].width;
  if (tokens_ && (input_width_ != 1 || spec.vocabulary_size < 1)) {
    return Wrong(fmt::format("tokens of width {} out of a vocabulary of {}", input_width_,
                             spec.vocabulary_size));
  }
  if (spec.max_sequence_length < 1) {
    return Wrong(fmt::format("max_sequence_length is {}", spec.max_sequence_length));
  }
  reading_ = {.vocabulary_size = spec.vocabulary_size,
              .character_vocabulary_size = 0,
              .words = tokens_ ? spec.words : nullptr,
              .characters = spec.spelling,
              .unknown_word = spec.unknown_word};
  max_sequence_length_ = spec.max_sequence_length;
  max_nodes_ = spec.max_nodes;
  if (!spec.embedding.valid()) return spec.input;
  const absl::StatusOr<const CellType*> type = TypeOf(model, spec.embedding);
  if (!type.ok()) return type.status();
  if ((*type)->definition->carry().has_value()) {
    return Wrong(fmt::format("embedding \"{}\" is a chain", (*type)->name));
  }
  const absl::StatusOr<Reads> reads = FindReads(**type, {spec.input}, true);
  if (!reads.ok()) return reads.status();
  embedding_ = spec.embedding;
  return (*type)->out;
}

absl::StatusOr<ChainUnfolder::Chain> ChainUnfolder::MakeChain(const Model& model, CellTypeId id,
                                                              absl::Span<const TableId> below,
                                                              bool lowest) const {
  const absl::StatusOr<const CellType*> found = TypeOf(model, id);
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  if (!type.definition->carry().has_value()) {
    return Wrong(
        fmt::format("cell type \"{}\" carries nothing from step to step; a layer's cell says "
                    "carry: the input that reads the step before",
                    type.name));
  }
  const absl::StatusOr<Reads> reads = FindReads(type, below, lowest);
  if (!reads.ok()) return reads.status();
  Chain chain{.type = id,
              .from_forward = reads->forward,
              .from_backward = reads->backward,
              .carry = *type.definition->carry(),
              .h = FindFloats(type, "h")};
  if (!chain.h.valid())
    return Wrong(fmt::format("cell type \"{}\" leaves no FP32 column \"h\", but {}", type.name,
                             ColumnsText(type.definition->columns())));
  chain.width = Width(type, chain.h);
  return chain;
}

absl::Status ChainUnfolder::MakeHead(const Model& model, CellTypeId id,
                                     absl::Span<const TableId> below) {
  const absl::StatusOr<const CellType*> found = TypeOf(model, id);
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  if (type.definition->carry().has_value()) {
    return Wrong(fmt::format("head \"{}\" is a chain", type.name));
  }
  const absl::StatusOr<Reads> reads = FindReads(type, below, false);
  if (!reads.ok()) return reads.status();
  head_ = id;
  head_forward_ = reads->forward;
  head_backward_ = reads->backward;
  if (TopIsBackward()) std::swap(head_forward_, head_backward_);
  head_y_ = FindFloats(type, "y");
  if (!head_y_.valid())
    return Wrong(fmt::format("head \"{}\" leaves no FP32 column \"y\", but {}", type.name,
                             ColumnsText(type.definition->columns())));
  output_width_ = Width(type, head_y_);
  return absl::OkStatus();
}

// The chains over characters, and the cell over their ends.
absl::Status ChainUnfolder::ReadCharacters(const CharacterSpec& spec, const Model& model) {
  if (!spec.word.valid()) return absl::OkStatus();
  if (!embedding_.valid())
    return Wrong("words are spelled in the embedding's place, and there is none");
  const auto table = static_cast<size_t>(spec.input.value());
  const bool numbers = spec.input.valid() && table < model.tables.size() &&
                       model.tables[table].columns.size() == 1 &&
                       model.tables[table].columns[0].type == ElementType::kInt32 &&
                       model.tables[table].columns[0].width == 1;
  if (!numbers || spec.vocabulary_size < 1) {
    return Wrong(fmt::format("characters are table {} of {}, out of {}: numbers are expected",
                             spec.input.value(), model.tables.size(), spec.vocabulary_size));
  }
  std::array<TableId, 2> ends;
  for (size_t d = 0; d < 2; ++d) {
    const CellTypeId id = d == 0 ? spec.forward : spec.backward;
    const auto chain = MakeChain(model, id, {spec.input}, true);
    if (!chain.ok()) return chain.status();
    spell_[d] = *chain;
    ends[d] = model.type(id).out;
  }
  const absl::StatusOr<const CellType*> word = TypeOf(model, spec.word);
  if (!word.ok()) return word.status();
  if ((*word)->definition->carry().has_value()) {
    return Wrong(
        fmt::format("\"{}\", which makes a word of characters, is a chain", (*word)->name));
  }
  const absl::StatusOr<Reads> reads = FindReads(**word, ends, false);
  if (!reads.ok()) return reads.status();
  const CellType& embedding = model.type(embedding_);
  if ((*word)->out != embedding.out) {
    return Wrong(
        fmt::format("\"{}\" leaves {} for a word, \"{}\" {}: they must be the same, in one order",
                    (*word)->name, ColumnsText((*word)->definition->columns()), embedding.name,
                    ColumnsText(embedding.definition->columns())));
  }
  characters_ = spec.input;
  word_ = spec.word;
  word_forward_ = reads->forward;
  word_backward_ = reads->backward;
  reading_.character_vocabulary_size = spec.vocabulary_size;
  return absl::OkStatus();
}

// Numbers for the labels' names: the token head's column "label".
absl::Status ChainUnfolder::MakeLabels(const ChainSpec& spec, const Model& model) {
  if (spec.labels == nullptr) return absl::OkStatus();
  if (!spec.token_head.valid()) return Wrong("labels are for a token_head, and there is none");
  if (spec.labels->size() != output_width_) {
    return Wrong(
        fmt::format("{} labels, token_head leaves {} numbers", spec.labels->size(), output_width_));
  }
  const CellType& type = model.type(head_);
  const absl::Span<const Column> columns = type.definition->columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == Column{kLabelColumn, ElementType::kInt32, 1}) {
      head_label_ = ColumnId(static_cast<int64_t>(i));
    }
  }
  if (!head_label_.valid()) {
    return Wrong(
        fmt::format("token_head \"{}\" leaves no INT32 column \"{}\"", type.name, kLabelColumn));
  }
  labels_ = spec.labels;
  return CheckLabel(type, head_label_, labels_->size());
}

bool ChainUnfolder::TopIsBackward() const {
  return !layers_.empty() && layers_.back().directions[0].backward;
}

void ChainUnfolder::CountOutputs(const Model& model) {
  std::vector<CellTypeId> chains;
  for (const Layer& layer : layers_) {
    top_width_ = 0;
    for (const Chain& chain : layer.directions) {
      top_width_ += chain.width;
      chains.push_back(chain.type);
    }
  }
  num_chains_ = std::ssize(chains);
  states_ = ChainStates(model, chains);
  if (!head_.valid()) output_width_ = top_width_;
}

// Very deep stacks share the last one.
void ChainUnfolder::CountPhases() {
  int32_t phase = word_.valid() ? 2 : 0;
  size_t below = 1;
  for (const Layer& layer : layers_) {
    if (below > 1) phase = std::min(phase + 1, kMostPhases - 1);
    layer_phase_.push_back(phase);
    below = layer.directions.size();
  }
  head_phase_ = std::min(phase + 1, kMostPhases - 1);
}

absl::StatusOr<std::unique_ptr<ChainUnfolder>> ChainUnfolder::Create(const ChainSpec& spec,
                                                                     const Model& model) {
  if (spec.layers.empty() || spec.layers.size() > kMaxLayers) {
    return Wrong(fmt::format("{} layers, allowed are 1 to {}", spec.layers.size(), kMaxLayers));
  }
  std::unique_ptr<ChainUnfolder> made(new ChainUnfolder);
  const absl::StatusOr<TableId> source = made->ReadSource(spec, model);
  if (!source.ok()) return source.status();
  std::vector<TableId> below = {*source};
  for (const ChainLayerSpec& layer : spec.layers) {
    Layer directions;
    std::vector<TableId> leaves;
    for (const bool backward : {false, true}) {
      const CellTypeId id = backward ? layer.backward : layer.forward;
      if (!id.valid() && (backward || layer.backward.valid())) continue;
      absl::StatusOr<Chain> chain = made->MakeChain(model, id, below, made->layers_.empty());
      if (!chain.ok()) return chain.status();
      chain->backward = backward;
      if (made->TopIsBackward()) std::swap(chain->from_forward, chain->from_backward);
      leaves.push_back(model.type(id).out);
      directions.directions.push_back(*chain);
    }
    made->layers_.push_back(std::move(directions));
    below = std::move(leaves);
  }
  absl::Status s = made->ReadCharacters(spec.characters, model);
  if (s.ok() && spec.head.valid() && spec.token_head.valid())
    s = Wrong("head and token_head: one of them");
  made->head_at_every_step_ = spec.token_head.valid();
  const CellTypeId head = spec.token_head.valid() ? spec.token_head : spec.head;
  if (s.ok() && head.valid()) s = made->MakeHead(model, head, below);
  if (s.ok()) s = made->MakeLabels(spec, model);
  if (!s.ok()) return s;
  made->CountOutputs(model);
  made->CountPhases();
  made->NameTensors();
  return made;
}

// What a request may bring and ask for.
void ChainUnfolder::NameTensors() {
  input_names_ = {tokens_ ? kTokensInput : kVectorsInput, kLengthsInput};
  if (reading_.words != nullptr) input_names_.push_back(kWordsTextInput);
  if (reading_.spells()) {
    input_names_.insert(input_names_.end(), {kCharIdsInput, kCharLengthsInput});
  }
  output_names_ = {kOutput, kAllHidden};
  if (labels_ != nullptr) output_names_.push_back(kLabels);
  for (const ChainStates::Part& part : states_.parts()) {
    output_names_.push_back(part.final);
    if (part.carried && states_.may_be_brought()) input_names_.push_back(part.initial);
  }
}

Signature ChainUnfolder::MakeSignature() const {
  Signature signature;
  const auto take = [&](const char* name, WireType type, bool may_be_empty = false) {
    signature.inputs.push_back({.name = name,
                                .type = type,
                                .dims = {-1},
                                .optional = true,
                                .listed = false,
                                .may_be_empty = may_be_empty});
  };
  if (tokens_) {
    const bool alone = reading_.words == nullptr && !reading_.spells();
    signature.inputs.push_back({kTokensInput, WireType::kInt32, {-1}, /*optional=*/!alone});
  } else {
    signature.inputs.push_back({kVectorsInput, WireType::kFp32, {-1, input_width_}});
  }
  take(kLengthsInput, WireType::kInt32);
  if (reading_.words != nullptr) take(kWordsTextInput, WireType::kBytes);
  if (reading_.spells()) {
    take(kCharIdsInput, WireType::kInt32, /*may_be_empty=*/true);
    take(kCharLengthsInput, WireType::kInt32);
  }
  const auto offer = [&](std::string name, std::vector<int64_t> dims,
                         WireType type = WireType::kFp32) {
    signature.outputs.push_back({std::move(name), type, std::move(dims), /*optional=*/false,
                                 /*on_request=*/true, /*listed=*/false});
  };
  signature.outputs.push_back({kOutput, WireType::kFp32, {output_width_}});
  if (head_at_every_step_) signature.outputs.back().dims = {-1, output_width_};
  if (labels_ != nullptr) offer(kLabels, {-1}, WireType::kBytes);
  offer(kAllHidden, {-1, top_width_});
  for (const ChainStates::Part& part : states_.parts()) {
    offer(part.final, {num_chains_, part.width});
    if (!part.carried || !states_.may_be_brought()) continue;
    signature.state.push_back({part.initial, part.final, {num_chains_, part.width}});
    signature.inputs.push_back({.name = part.initial,
                                .type = WireType::kFp32,
                                .dims = {num_chains_, part.width},
                                .optional = true,
                                .listed = false,
                                .one_a_sequence = true});
  }
  signature.vocabulary_size = reading_.vocabulary_size;
  signature.max_sequence_length = max_sequence_length_;
  return signature;
}

RequestDescription ChainUnfolder::Describe() const {
  return {.inputs = {{.name = kTokensInput, .num_ids = reading_.vocabulary_size},
                     {.name = kCharIdsInput, .num_ids = reading_.character_vocabulary_size}},
          .max_nodes = max_nodes_};
}

}  // namespace cellbatch

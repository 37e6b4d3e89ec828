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

ColumnId FindColumn(const CellType& type, std::string_view name) {
  const absl::Span<const Column> columns = type.definition->columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name && columns[i].type == ElementType::kFp32) {
      return ColumnId(static_cast<int64_t>(i));
    }
  }
  return ColumnId();
}

int32_t Width(const CellType& type, ColumnId column) {
  return type.definition->columns()[static_cast<size_t>(column.value())].width;
}

TableId TableRead(const CellType& type, InputId input) {
  return type.in[static_cast<size_t>(input.value())];
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
    return Wrong(
        fmt::format("cell type \"{}\" has {} inputs beside what it carries, below it are {}",
                    type.name, inputs - carried, below.size()));
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
  vocabulary_size_ = spec.vocabulary_size;
  max_sequence_length_ = spec.max_sequence_length;
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

absl::StatusOr<ChainUnfolder::Chain> ChainUnfolder::MakeChain(
    const Model& model, CellTypeId id, absl::Span<const TableId> below) const {
  const absl::StatusOr<const CellType*> found = TypeOf(model, id);
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  if (!type.definition->carry().has_value()) {
    return Wrong(fmt::format("cell type \"{}\" carries nothing from step to step", type.name));
  }
  const absl::StatusOr<Reads> reads = FindReads(type, below, layers_.empty());
  if (!reads.ok()) return reads.status();
  Chain chain{.type = id,
              .from_forward = reads->forward,
              .from_backward = reads->backward,
              .h = FindColumn(type, "h"),
              .c = FindColumn(type, "c")};
  if (!chain.h.valid())
    return Wrong(fmt::format("cell type \"{}\" leaves no FP32 column \"h\"", type.name));
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
  head_y_ = FindColumn(type, "y");
  if (!head_y_.valid())
    return Wrong(fmt::format("head \"{}\" leaves no FP32 column \"y\"", type.name));
  output_width_ = Width(type, head_y_);
  return absl::OkStatus();
}

void ChainUnfolder::CountOutputs() {
  const int32_t width = layers_[0].directions[0].width;
  final_h_ = final_c_ = true;
  for (const Layer& layer : layers_) {
    top_width_ = 0;
    for (const Chain& chain : layer.directions) {
      top_width_ += chain.width;
      final_h_ = final_h_ && chain.width == width;
      final_c_ = final_c_ && chain.c.valid();
      ++num_chains_;
    }
  }
  final_c_ = final_c_ && final_h_;
  if (!head_.valid()) output_width_ = top_width_;
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
    for (const CellTypeId id : {layer.forward, layer.backward}) {
      if (!directions.directions.empty() && !id.valid()) continue;
      absl::StatusOr<Chain> chain = made->MakeChain(model, id, below);
      if (!chain.ok()) return chain.status();
      leaves.push_back(model.type(id).out);
      directions.directions.push_back(*chain);
    }
    made->layers_.push_back(std::move(directions));
    below = std::move(leaves);
  }
  if (spec.head.valid()) {
    if (absl::Status s = made->MakeHead(model, spec.head, below); !s.ok()) return s;
  }
  made->CountOutputs();
  return made;
}

Signature ChainUnfolder::MakeSignature() const {
  Signature signature;
  if (tokens_) {
    signature.inputs.push_back({kTokensInput, WireType::kInt32, {-1}});
  } else {
    signature.inputs.push_back({kVectorsInput, WireType::kFp32, {-1, input_width_}});
  }
  signature.inputs.push_back({kLengthsInput,
                              WireType::kInt32,
                              {-1},
                              /*optional=*/true,
                              /*on_request=*/false,
                              /*listed=*/false});
  signature.outputs.push_back({kOutput, WireType::kFp32, {output_width_}});
  const auto offer = [&](const char* name, std::vector<int64_t> dims) {
    signature.outputs.push_back({name, WireType::kFp32, std::move(dims), /*optional=*/false,
                                 /*on_request=*/true, /*listed=*/false});
  };
  const int64_t width = layers_[0].directions[0].width;
  offer(kAllHidden, {-1, top_width_});
  if (final_h_) offer(kFinalH, {num_chains_, width});
  if (final_c_) offer(kFinalC, {num_chains_, width});
  signature.vocabulary_size = vocabulary_size_;
  signature.max_sequence_length = max_sequence_length_;
  return signature;
}

}  // namespace cellbatch

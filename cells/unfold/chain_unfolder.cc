// From a request to a graph. What a model's cells look like was settled by Create
// (chain_unfolder_create.cc).
#include "cells/unfold/chain_unfolder.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Steps of one message: node and row numbers are 32 bits, and no message is larger.
constexpr int64_t kMaxSteps = int64_t{1} << 28;

absl::Status Wrong(std::string_view tensor, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("input {}: {}", tensor, what));
}

absl::Status CheckForm(const InputTensor& t, WireType type, size_t rank) {
  if (t.type != type) {
    return Wrong(t.name, fmt::format("datatype {}, expected {}", Name(t.type), Name(type)));
  }
  if (t.dims.size() != rank) {
    return Wrong(t.name, fmt::format("{} dimensions, expected {}", t.dims.size(), rank));
  }
  int64_t bytes = kFloat;
  for (const int64_t d : t.dims) {
    if (d < 1)
      return Wrong(t.name,
                   fmt::format("shape [{}] has a dimension below 1", fmt::join(t.dims, ", ")));
    if (d > kMaxSteps || bytes > std::numeric_limits<int64_t>::max() / d) {
      return Wrong(t.name, fmt::format("shape [{}] is too large", fmt::join(t.dims, ", ")));
    }
    bytes *= d;
  }
  if (static_cast<int64_t>(t.bytes.size()) == bytes) return absl::OkStatus();
  return Wrong(t.name, fmt::format("{} bytes, shape [{}] takes {}", t.bytes.size(),
                                   fmt::join(t.dims, ", "), bytes));
}

int32_t Int32At(const InputTensor& t, int64_t i) {
  int32_t value = 0;
  std::memcpy(&value, t.bytes.data() + static_cast<size_t>(i) * sizeof(value), sizeof(value));
  return value;
}

}  // namespace

// -1: not asked for.
struct ChainUnfolder::Asked {
  int32_t output = -1, all_hidden = -1, final_h = -1, final_c = -1;
};

absl::Status ChainUnfolder::CheckTokens(const InputTensor& tokens) const {
  for (int64_t i = 0; i < tokens.dims[0]; ++i) {
    const int32_t token = Int32At(tokens, i);
    if (token >= 0 && token < vocabulary_size_) continue;
    return Wrong(tokens.name, fmt::format("token {} is {}, the vocabulary ends at {}", i, token,
                                          vocabulary_size_ - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<const InputTensor*> ChainUnfolder::CheckInput(const RequestInput& input) const {
  const char* name = tokens_ ? kTokensInput : kVectorsInput;
  for (const InputTensor& t : input.tensors) {
    if (t.name == name || t.name == kLengthsInput) continue;
    return Wrong(t.name, fmt::format("the model has no such input, it takes {} and {}", name,
                                     kLengthsInput));
  }
  const InputTensor* source = input.Find(name);
  if (source == nullptr) return Wrong(name, "missing");
  if (absl::Status s = CheckRows(*source); !s.ok()) return s;
  return source;
}

absl::Status ChainUnfolder::CheckRows(const InputTensor& rows) const {
  absl::Status s = CheckForm(rows, tokens_ ? WireType::kInt32 : WireType::kFp32, tokens_ ? 1 : 2);
  if (!s.ok()) return s;
  if (tokens_) return CheckTokens(rows);
  if (rows.dims[1] == input_width_) return absl::OkStatus();
  return Wrong(rows.name, fmt::format("shape [{}], expected [-1, {}]", fmt::join(rows.dims, ", "),
                                      input_width_));
}

absl::Status ChainUnfolder::CheckSequence(const InputTensor& rows) const {
  if (absl::Status s = CheckRows(rows); !s.ok()) return s;
  if (rows.dims[0] <= max_sequence_length_) return absl::OkStatus();
  return Wrong(rows.name, fmt::format("a sequence of {} steps, the model takes {}", rows.dims[0],
                                      max_sequence_length_));
}

absl::StatusOr<std::vector<ChainUnfolder::Sequence>> ChainUnfolder::Split(const RequestInput& input,
                                                                          int64_t steps) const {
  const InputTensor* lengths = input.Find(kLengthsInput);
  const auto too_long = [this](std::string_view tensor, std::string what, int64_t length) {
    return Wrong(
        tensor, fmt::format("{} {} steps, the model takes {}", what, length, max_sequence_length_));
  };
  if (lengths == nullptr) {
    if (steps > max_sequence_length_) {
      return too_long(tokens_ ? kTokensInput : kVectorsInput, "a sequence of", steps);
    }
    return std::vector<Sequence>{{0, 0, static_cast<int32_t>(steps)}};
  }
  if (absl::Status s = CheckForm(*lengths, WireType::kInt32, 1); !s.ok()) return s;
  std::vector<Sequence> sequences;
  sequences.reserve(static_cast<size_t>(lengths->dims[0]));
  int64_t offset = 0;
  for (int64_t i = 0; i < lengths->dims[0]; ++i) {
    const int32_t length = Int32At(*lengths, i);
    if (length < 1)
      return Wrong(kLengthsInput, fmt::format("length {} is {}, the least is 1", i, length));
    if (length > max_sequence_length_) {
      return too_long(kLengthsInput, fmt::format("sequence {} has", i), length);
    }
    if (length > steps - offset) {
      return Wrong(kLengthsInput, fmt::format("sequences 0 to {} have {} steps, the input has {}",
                                              i, offset + length, steps));
    }
    sequences.push_back({i, static_cast<int32_t>(offset), length});
    offset += length;
  }
  if (offset == steps) return sequences;
  return Wrong(kLengthsInput,
               fmt::format("the sequences have {} steps, the input has {}", offset, steps));
}

absl::StatusOr<ChainUnfolder::Asked> ChainUnfolder::AddTensors(const RequestInput& input,
                                                               int64_t steps, int64_t sequences,
                                                               CellGraph& graph) const {
  const bool many = input.Find(kLengthsInput) != nullptr;
  const int64_t width = layers_[0].directions[0].width;
  Asked asked;
  const auto add = [&](std::string_view name) {
    int32_t* number = nullptr;
    std::vector<int64_t> dims;
    if (name == kOutput) {
      number = &asked.output;
      dims = {output_width_};
    } else if (name == kAllHidden) {
      number = &asked.all_hidden;
      dims = {steps, top_width_};
    } else if ((name == kFinalH && final_h_) || (name == kFinalC && final_c_)) {
      number = name == kFinalH ? &asked.final_h : &asked.final_c;
      dims = {num_chains_, width};
    } else {
      return absl::InvalidArgumentError(
          fmt::format("output {}: the model has no such output", name));
    }
    if (*number >= 0) {
      return absl::InvalidArgumentError(fmt::format("output {}: asked for twice", name));
    }
    if (many && name != kAllHidden) dims.insert(dims.begin(), sequences);
    *number = graph.AddTensor(name, WireType::kFp32, std::move(dims));
    return absl::OkStatus();
  };
  absl::Status s = input.outputs.empty() ? add(kOutput) : absl::OkStatus();
  for (const std::string_view name : input.outputs) {
    if (s.ok()) s = add(name);
  }
  if (!s.ok()) return s;
  return asked;
}

// One direction of one layer. `below` holds time step t at node t (its forward chain, or rows that start
// at node `base`) and at node last - t (its backward chain).
SubgraphId ChainUnfolder::AddChain(const Chain& chain, bool backward, Below below, int32_t base,
                                   int32_t length, CellGraph& graph) {
  const int32_t last = length - 1;
  const std::array<Link, 2> links = {
      Link{below[0], chain.from_forward, base + (backward ? last : 0), backward ? -1 : 1},
      Link{below[1], chain.from_backward, backward ? 0 : last, backward ? 1 : -1}};
  return graph.Add(chain.type, length,
                   absl::MakeConstSpan(links).first(chain.from_backward.valid() ? 2 : 1));
}

// What the top layer's direction answers; `column_bytes` is its place in a row of both directions.
void ChainUnfolder::ReturnTop(SubgraphId from, const Chain& chain, bool backward, Sequence sequence,
                              int64_t column_bytes, const Asked& asked, CellGraph& graph) const {
  const int32_t last = sequence.length - 1;
  const int64_t row_bytes = top_width_ * kFloat;
  if (asked.all_hidden >= 0) {
    const int64_t first = sequence.offset + (backward ? last : 0);
    graph.Return(
        from, chain.h, {0, sequence.length},
        {asked.all_hidden, first * row_bytes + column_bytes, backward ? -row_bytes : row_bytes});
  }
  if (asked.output >= 0 && !head_.valid()) {
    graph.Return(from, chain.h, {last, 1},
                 {asked.output, sequence.number * row_bytes + column_bytes, 0});
  }
}

// The request's rows, or what the embedding makes of them.
SubgraphId ChainUnfolder::AddRows(const InputTensor& rows, CellGraph& graph) const {
  const auto steps = static_cast<int32_t>(rows.dims[0]);
  const SubgraphId source = graph.AddInput(input_, steps, rows.bytes.data());
  if (!embedding_.valid()) return source;
  const Link link = {source, InputId(0), 0, 1};
  return graph.Add(embedding_, steps, {&link, 1});
}

std::vector<ChainUnfolder::Below> ChainUnfolder::AddLayers(SubgraphId source, Sequence sequence,
                                                           CellGraph& graph) const {
  std::vector<Below> made(layers_.size(), Below{kZeroSource, kZeroSource});
  Below below = {source, kZeroSource};
  int32_t base = sequence.offset;
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (size_t d = 0; d < layers_[l].directions.size(); ++d) {
      made[l][d] = AddChain(layers_[l].directions[d], d == 1, below, base, sequence.length, graph);
    }
    below = made[l];
    base = 0;
  }
  return made;
}

std::vector<ChainUnfolder::Below> ChainUnfolder::AddSequence(const InputTensor& rows,
                                                             CellGraph& graph) const {
  return AddLayers(AddRows(rows, graph), {0, 0, static_cast<int32_t>(rows.dims[0])}, graph);
}

void ChainUnfolder::UnfoldSequence(SubgraphId source, Sequence sequence, const Asked& asked,
                                   CellGraph& graph) const {
  const int32_t last = sequence.length - 1;
  const std::vector<Below> made = AddLayers(source, sequence, graph);
  int64_t final_row = sequence.number * num_chains_;
  for (size_t l = 0; l < layers_.size(); ++l) {
    int64_t column_bytes = 0;
    for (size_t d = 0; d < layers_[l].directions.size(); ++d, ++final_row) {
      const Chain& chain = layers_[l].directions[d];
      const int64_t at = final_row * chain.width * kFloat;
      if (asked.final_h >= 0) graph.Return(made[l][d], chain.h, {last, 1}, {asked.final_h, at, 0});
      if (asked.final_c >= 0) graph.Return(made[l][d], chain.c, {last, 1}, {asked.final_c, at, 0});
      if (l + 1 < layers_.size()) continue;
      ReturnTop(made[l][d], chain, d == 1, sequence, column_bytes, asked, graph);
      column_bytes += chain.width * kFloat;
    }
  }
  if (!head_.valid() || asked.output < 0) return;
  const std::array<Link, 2> links = {Link{made.back()[0], head_forward_, last, 0},
                                     Link{made.back()[1], head_backward_, last, 0}};
  const SubgraphId head =
      graph.Add(head_, 1, absl::MakeConstSpan(links).first(head_backward_.valid() ? 2 : 1));
  graph.Return(head, head_y_, {0, 1}, {asked.output, sequence.number * output_width_ * kFloat, 0});
}

absl::Status ChainUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  const absl::StatusOr<const InputTensor*> source = CheckInput(input);
  if (!source.ok()) return source.status();
  const int64_t steps = (*source)->dims[0];
  const absl::StatusOr<std::vector<Sequence>> sequences = Split(input, steps);
  if (!sequences.ok()) return sequences.status();
  const int64_t count = static_cast<int64_t>(sequences->size());
  if (count * (2 * num_chains_ + 4) > std::numeric_limits<int32_t>::max()) {
    return Wrong(kLengthsInput, fmt::format("{} sequences are too many for one message", count));
  }
  const int32_t per_sequence = static_cast<int32_t>(count * (num_chains_ + 1));
  graph.Reserve({.inputs = 1,
                 .subgraphs = per_sequence + 1,
                 .links = 2 * per_sequence + 1,
                 .returns = per_sequence * 2,
                 .tensors = 4});
  const absl::StatusOr<Asked> asked = AddTensors(input, steps, count, graph);
  if (!asked.ok()) return asked.status();
  const SubgraphId rows = AddRows(**source, graph);
  for (const Sequence& sequence : *sequences) UnfoldSequence(rows, sequence, *asked, graph);
  return absl::OkStatus();
}

}  // namespace cellbatch

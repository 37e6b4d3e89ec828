// From a request to a graph. What a model's cells look like was settled by Create
// (chain_unfolder_create.cc).
#include "cells/unfold/chain_unfolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

// -1: not asked for.
struct ChainUnfolder::Asked {
  int32_t output = -1, labels = -1, all_hidden = -1;
  absl::InlinedVector<int32_t, 2> finals;  // by part of the states
};

// The message, before it is cut into sequences.
struct ChainUnfolder::Source {
  std::string_view from;  // the tensor that says how many steps there are
  int32_t steps = 0;
  const std::byte* data = nullptr;  // a row a step; null: every word is spelled
  WordRows words;                   // of tokens
  int32_t num_spelled = 0;
  SubgraphId rows;  // `data`; read by every step, or by the embedding of those that are not spelled
  SubgraphId characters;  // invalid: no word is spelled
  bool states = false;    // to begin from
};

absl::StatusOr<ChainUnfolder::Source> ChainUnfolder::ReadSteps(const RequestInput& input,
                                                               CellGraph& graph) const {
  if (absl::Status s = CheckNames(input, input_names_); !s.ok()) return s;
  Source source;
  if (tokens_) {
    auto words = ReadWords(input, reading_, graph);
    if (!words.ok()) return words.status();
    source.words = *words;
    source.from = words->from;
    source.steps = words->count;
    source.data = words->tokens;
    source.num_spelled = static_cast<int32_t>(std::count_if(
        words->lengths.begin(), words->lengths.end(), [](int32_t length) { return length > 0; }));
    return source;
  }
  const InputTensor* vectors = input.Find(kVectorsInput);
  if (vectors == nullptr) return WrongInput(kVectorsInput, "missing");
  if (absl::Status s = CheckTensor(*vectors, WireType::kFp32, {-1, input_width_}); !s.ok())
    return s;
  source.from = kVectorsInput;
  source.steps = static_cast<int32_t>(vectors->dims[0]);
  source.data = vectors->bytes.data();
  return source;
}

absl::StatusOr<ChainUnfolder::Asked> ChainUnfolder::AddTensors(const RequestInput& input,
                                                               int64_t steps, int64_t sequences,
                                                               CellGraph& graph) const {
  const auto asked = AskedOutputs(input, output_names_);
  if (!asked.ok()) return asked.status();
  const bool many = input.Find(kLengthsInput) != nullptr;
  Asked numbers;
  numbers.finals.assign(states_.parts().size(), -1);
  const auto add = [&](std::string_view name, bool a_row_a_step, TensorDims dims) {
    if (a_row_a_step) {
      dims.insert(dims.begin(), steps);
    } else if (many) {
      dims.insert(dims.begin(), sequences);
    }
    return name == kLabels ? graph.AddTensor(name, WireType::kInt32, std::move(dims), labels_.get())
                           : graph.AddTensor(name, WireType::kFp32, std::move(dims));
  };
  constexpr std::string_view kUnasked[] = {kOutput};
  const absl::Span<const std::string_view> names =
      input.outputs.empty() ? kUnasked : absl::MakeConstSpan(input.outputs);
  for (const std::string_view name : names) {  // in the order asked for
    if (name == kOutput) numbers.output = add(name, head_at_every_step_, {output_width_});
    if (name == kLabels) numbers.labels = add(name, true, {});
    if (name == kAllHidden) numbers.all_hidden = add(name, true, {top_width_});
    for (size_t p = 0; p < numbers.finals.size(); ++p) {
      const ChainStates::Part& part = states_.parts()[p];
      if (name == part.final) numbers.finals[p] = add(name, false, {num_chains_, part.width});
    }
  }
  return numbers;
}

// Whether the head has nodes: nobody's are not made.
bool ChainUnfolder::AsksHead(const Asked& asked) const {
  return head_.valid() && (asked.output >= 0 || (head_at_every_step_ && asked.labels >= 0));
}

// One allocation each, for as much as there can be; what would be too much is refused before, where it is one node more
// than the model takes (exactly: these are all). A message that needs more than 32 bits is, too.
absl::Status ChainUnfolder::Reserve(const Source& source, int64_t sequences, const Asked& asked,
                                    size_t num_asked, CellGraph& graph) const {
  const int64_t by_number = embedding_.valid() ? source.steps - source.num_spelled : 0;
  const int64_t heads = !AsksHead(asked) ? 0 : head_at_every_step_ ? source.steps : sequences;
  const int64_t nodes = source.steps * num_chains_ + by_number + heads +
                        2 * int64_t{source.words.num_characters} + source.num_spelled;
  if (max_nodes_ > 0 && nodes > max_nodes_) {
    return WrongInput(source.from,
                      fmt::format("the message makes {} nodes of {} steps, the model takes {}",
                                  nodes, source.steps, max_nodes_));
  }
  const int64_t segments = 2 * int64_t{source.num_spelled} + sequences;
  const int64_t subgraphs = segments * (num_chains_ + 2) + 3 * int64_t{source.num_spelled};
  const int64_t returns = 4 * segments + sequences * static_cast<int64_t>(num_asked) * num_chains_;
  if (3 * subgraphs + returns > std::numeric_limits<int32_t>::max()) {
    return WrongInput(
        source.from, fmt::format("{} sequences with {} words to spell are too many for one message",
                                 sequences, source.num_spelled));
  }
  graph.Reserve({.inputs = 2 + (source.states ? static_cast<int32_t>(num_chains_) : 0),
                 .subgraphs = static_cast<int32_t>(subgraphs),
                 .links = static_cast<int32_t>(3 * subgraphs),
                 .returns = static_cast<int32_t>(returns),
                 .tensors = static_cast<int32_t>(std::max<size_t>(num_asked, 1))});
  return absl::OkStatus();
}

void ChainUnfolder::AddSources(Source& source, CellGraph& graph) const {
  if (source.num_spelled < source.steps) {
    source.rows = graph.AddInput(input_, source.steps, source.data);
  }
  if (source.num_spelled > 0) {
    source.characters =
        graph.AddInput(characters_, source.words.num_characters, source.words.characters);
  } else if (embedding_.valid()) {
    const Link link = {source.rows, InputId(0), 0, 1};
    source.rows = graph.Add(embedding_, source.steps, {&link, 1});
  }
}

// One word from its characters [first, first + length).
SubgraphId ChainUnfolder::Spell(const Source& source, int32_t first, int32_t length,
                                CellGraph& graph) const {
  const int32_t last = length - 1;
  const Link from_start = {source.characters, spell_[0].from_forward, first, 1};
  const Link from_end = {source.characters, spell_[1].from_forward, first + last, -1};
  const SubgraphId forward = graph.Add(spell_[0].type, length, {&from_start, 1});
  const SubgraphId backward = graph.Add(spell_[1].type, length, {&from_end, 1});
  const std::array<Link, 2> ends = {Link{forward, word_forward_, last, 0},
                                    Link{backward, word_backward_, last, 0}};
  graph.SetPhase(1);
  const SubgraphId word = graph.Add(word_, 1, ends);
  graph.SetPhase(0);
  return word;
}

// Each spelled word is a segment, and what lies between two of them. `character`: the first of this sequence's; then
// that of the next one's.
void ChainUnfolder::Cut(const Source& source, Sequence& sequence, int32_t& character,
                        CellGraph& graph) const {
  sequence.segments.clear();
  if (source.num_spelled == 0) {
    sequence.segments.push_back({0, sequence.length, source.rows, sequence.offset});
    return;
  }
  const absl::Span<const int32_t> lengths = source.words.lengths.subspan(
      static_cast<size_t>(sequence.offset), static_cast<size_t>(sequence.length));
  for (auto word = lengths.begin(); word != lengths.end();) {
    const auto begin = static_cast<int32_t>(word - lengths.begin());
    if (*word > 0) {
      sequence.segments.push_back({begin, 1, Spell(source, character, *word, graph), 0});
      character += *word++;
      continue;
    }
    word = std::find_if(word, lengths.end(), [](int32_t length) { return length > 0; });
    const auto length = static_cast<int32_t>(word - lengths.begin()) - begin;
    const Link link = {source.rows, InputId(0), sequence.offset + begin, 1};
    sequence.segments.push_back({begin, length, graph.Add(embedding_, length, {&link, 1}), 0});
  }
}

// One direction of one layer. Above the lowest, `below` holds step t of a segment at node t of its forward chain and at
// node last - t of its backward chain. `begin`: what its first step carries; null: zeros.
ChainUnfolder::Segments ChainUnfolder::AddChain(const Chain& chain, const Link* begin,
                                                const Directions* below,
                                                absl::Span<const Segment> segments,
                                                CellGraph& graph) {
  Segments made(segments.size());
  const bool backward = chain.backward;
  for (size_t i = 0; i < segments.size(); ++i) {
    const size_t k = backward ? segments.size() - 1 - i : i;
    const Segment& s = segments[k];
    const int32_t last = s.length - 1;
    absl::InlinedVector<Link, 3> links;
    if (chain.from_forward.valid()) {
      links.push_back({below == nullptr ? s.source : (*below)[0][k], chain.from_forward,
                       (below == nullptr ? s.base : 0) + (backward ? last : 0), backward ? -1 : 1});
    }
    if (chain.from_backward.valid()) {
      links.push_back(
          {(*below)[1][k], chain.from_backward, backward ? 0 : last, backward ? 1 : -1});
    }
    if (i > 0) {
      const size_t before = backward ? k + 1 : k - 1;
      links.push_back({made[before], chain.carry, segments[before].length - 1, 0});
    } else if (begin != nullptr) {
      links.push_back(*begin);
    }
    made[k] = graph.Add(chain.type, s.length, links);
  }
  return made;
}

// What the top layer's direction answers; `column_bytes` is its place in a row of both directions.
void ChainUnfolder::ReturnTop(const Segments& from, const Chain& chain, bool backward,
                              const Sequence& sequence, int64_t column_bytes, const Asked& asked,
                              CellGraph& graph) const {
  const int64_t row_bytes = top_width_ * kFloat;
  for (size_t k = 0; asked.all_hidden >= 0 && k < from.size(); ++k) {
    const Segment& s = sequence.segments[k];
    const int64_t first = sequence.offset + s.begin + (backward ? s.length - 1 : 0);
    graph.Return(
        from[k], chain.h, {0, s.length},
        {asked.all_hidden, first * row_bytes + column_bytes, backward ? -row_bytes : row_bytes});
  }
  if (asked.output >= 0 && !head_.valid()) {
    const size_t end = backward ? 0 : from.size() - 1;
    graph.Return(from[end], chain.h, {sequence.segments[end].length - 1, 1},
                 {asked.output, sequence.number * row_bytes + column_bytes, 0});
  }
}

void ChainUnfolder::AddHead(const Directions& below, const Sequence& sequence, const Asked& asked,
                            CellGraph& graph) const {
  absl::InlinedVector<Link, 2> links;
  if (head_forward_.valid()) {
    links.push_back({below[0].back(), head_forward_, sequence.segments.back().length - 1, 0});
  }
  if (head_backward_.valid()) {
    links.push_back({below[1].front(), head_backward_, sequence.segments.front().length - 1, 0});
  }
  const SubgraphId head = graph.Add(head_, 1, links);
  graph.Return(head, head_y_, {0, 1}, {asked.output, sequence.number * output_width_ * kFloat, 0});
}

void ChainUnfolder::AddTokenHead(const Directions& below, const Sequence& sequence,
                                 const Asked& asked, CellGraph& graph) const {
  for (size_t k = 0; k < sequence.segments.size(); ++k) {
    const Segment& s = sequence.segments[k];
    absl::InlinedVector<Link, 2> links;
    if (head_forward_.valid()) links.push_back({below[0][k], head_forward_, 0, 1});
    if (head_backward_.valid()) links.push_back({below[1][k], head_backward_, s.length - 1, -1});
    const SubgraphId head = graph.Add(head_, s.length, links);
    const int64_t row = sequence.offset + s.begin;
    if (asked.output >= 0) {
      const int64_t bytes = output_width_ * kFloat;
      graph.Return(head, head_y_, {0, s.length}, {asked.output, row * bytes, bytes});
    }
    if (asked.labels >= 0) {
      constexpr int64_t kBytes = sizeof(int32_t);
      graph.Return(head, head_label_, {0, s.length}, {asked.labels, row * kBytes, kBytes});
    }
  }
}

absl::InlinedVector<ChainUnfolder::Directions, 2> ChainUnfolder::AddLayers(const Sequence& sequence,
                                                                           CellGraph& graph) const {
  absl::InlinedVector<Directions, 2> made(layers_.size());
  size_t number = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    graph.SetPhase(layer_phase_[l]);
    const Directions* below = l == 0 ? nullptr : &made[l - 1];
    for (const Chain& chain : layers_[l].directions) {
      Link begin = {.input = chain.carry, .first = static_cast<int32_t>(sequence.number)};
      if (!sequence.begins.empty()) begin.from = sequence.begins[number++];
      made[l][chain.backward ? 1 : 0] = AddChain(chain, sequence.begins.empty() ? nullptr : &begin,
                                                 below, sequence.segments, graph);
    }
  }
  return made;
}

void ChainUnfolder::UnfoldSequence(const Sequence& sequence, const Asked& asked,
                                   CellGraph& graph) const {
  const absl::InlinedVector<Directions, 2> made = AddLayers(sequence, graph);
  int64_t number = 0;  // of the chain
  for (size_t l = 0; l < layers_.size(); ++l) {
    int64_t column_bytes = 0;
    for (const Chain& chain : layers_[l].directions) {
      const Segments& segments = made[l][chain.backward ? 1 : 0];
      const size_t end = chain.backward ? 0 : sequence.segments.size() - 1;
      const SubgraphId from = segments[end];
      const NodeRange last = {sequence.segments[end].length - 1, 1};
      for (size_t p = 0; p < asked.finals.size(); ++p) {
        if (asked.finals[p] < 0) continue;
        const ChainStates::Part& part = states_.parts()[p];
        const int64_t row = sequence.number * num_chains_ + number;
        graph.Return(from, part.columns[static_cast<size_t>(number)], last,
                     {asked.finals[p], row * part.width * kFloat, 0});
      }
      ++number;
      if (l + 1 < layers_.size()) continue;
      ReturnTop(segments, chain, chain.backward, sequence, column_bytes, asked, graph);
      column_bytes += chain.width * kFloat;
    }
  }
  if (!AsksHead(asked)) return;
  graph.SetPhase(head_phase_);
  if (head_at_every_step_) {
    AddTokenHead(made.back(), sequence, asked, graph);
  } else {
    AddHead(made.back(), sequence, asked, graph);
  }
}

absl::Status ChainUnfolder::CheckSequence(const InputTensor& rows) const {
  if (tokens_) {
    if (absl::Status s = CheckTensor(rows, WireType::kInt32, {-1}); !s.ok()) return s;
    // Only looked at: what is not known is refused, so nothing is kept.
    CellGraph unused;
    const auto known = KnownIds(rows, "token", {reading_.vocabulary_size, {}}, unused);
    if (!known.ok()) return known.status();
  } else if (absl::Status s = CheckTensor(rows, WireType::kFp32, {-1, input_width_}); !s.ok()) {
    return s;
  }
  return SplitByLengths(nullptr, rows.name, rows.dims[0], max_sequence_length_).status();
}

std::vector<ChainUnfolder::Below> ChainUnfolder::AddSequence(const InputTensor& rows,
                                                             CellGraph& graph) const {
  Source source;
  source.steps = static_cast<int32_t>(rows.dims[0]);
  source.data = rows.bytes.data();
  AddSources(source, graph);
  Sequence sequence;
  sequence.length = source.steps;
  int32_t character = 0;
  Cut(source, sequence, character, graph);
  std::vector<Below> layers;
  for (const Directions& made : AddLayers(sequence, graph)) {
    layers.push_back(
        {made[0].empty() ? kZeroSource : made[0][0], made[1].empty() ? kZeroSource : made[1][0]});
  }
  return layers;
}

absl::Status ChainUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  absl::StatusOr<Source> source = ReadSteps(input, graph);
  if (!source.ok()) return source.status();
  source->states = states_.Brings(input);
  const auto pieces =
      SplitByLengths(input.Find(kLengthsInput), source->from, source->steps, max_sequence_length_);
  if (!pieces.ok()) return pieces.status();
  const auto count = static_cast<int64_t>(pieces->size());
  const absl::StatusOr<Asked> asked = AddTensors(input, source->steps, count, graph);
  if (!asked.ok()) return asked.status();
  if (absl::Status s = Reserve(*source, count, *asked, input.outputs.size(), graph); !s.ok()) {
    return s;
  }
  const bool many = input.Find(kLengthsInput) != nullptr;
  const auto begins = states_.Read(input, many ? std::optional(count) : std::nullopt, graph);
  if (!begins.ok()) return begins.status();
  AddSources(*source, graph);
  Sequence sequence;
  sequence.begins = *begins;
  int32_t character = 0;
  for (const Piece& piece : *pieces) {
    sequence.offset = piece.offset;
    sequence.length = piece.length;
    graph.SetPhase(0);
    Cut(*source, sequence, character, graph);
    UnfoldSequence(sequence, *asked, graph);
    ++sequence.number;
  }
  return absl::OkStatus();
}

}  // namespace cellbatch

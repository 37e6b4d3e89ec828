// From a request to a graph. What a model's cells look like was settled by Create
// (lattice_unfolder_create.cc).
#include "cells/unfold/lattice_unfolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "cells/unfold/chain_unfolder.h"

namespace cellbatch {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kWordColumns = 3;  // start, end, id

absl::Status WrongWord(int64_t index, std::string_view what) {
  return WrongInput(kWordsInput, fmt::format("word {} {}", index, what));
}

}  // namespace

struct LatticeUnfolder::Rows {
  SubgraphId characters, words;  // words in the order in which they are unfolded
};

// -1: not asked for.
struct LatticeUnfolder::Answer {
  int32_t output = -1, node_outputs = -1, all_hidden = -1, final_h = -1, final_c = -1;
};

// Unfolds one lattice after the other into one graph.
class LatticeUnfolder::Builder {
 public:
  Builder(const LatticeUnfolder& unfolder, absl::Span<const Word> words, Rows rows, Answer answer,
          int32_t characters, CellGraph& graph)
      : u_(unfolder),
        words_(words),
        rows_(rows),
        answer_(answer),
        graph_(graph),
        states_(static_cast<size_t>(characters) + 1),
        word_starts_(static_cast<size_t>(characters) + 1, false) {
    for (const Word& word : words) word_starts_[static_cast<size_t>(word.start)] = true;
  }

  void Lattice(Piece piece, int64_t number) {
    const int32_t end = piece.offset + piece.length;
    begin_ = piece.offset;
    State last;  // of this lattice, so far
    if (u_.spec_.initial.valid()) last.from = graph_.Add(u_.spec_.initial, 1, {});
    for (int32_t at = piece.offset; at < end;) {
      At(at) = last;
      const int32_t run = RunLength(at, end);
      last = Run(at, run);
      at += run;
    }
    ReturnLast(last, number);
  }

 private:
  // States by how many characters lie before them, counted over the whole message. The last state of
  // one lattice and the first of the next share a number; nobody reads the former by it.
  State& At(int32_t position) { return states_[static_cast<size_t>(position)]; }

  // Characters from `at` up to the first state that a word starts from or ends in.
  int32_t RunLength(int32_t at, int32_t end) const {
    if (!u_.chains_) return 1;
    int32_t to = at + 1;
    const int32_t word_end = next_ < words_.size() ? words_[next_].end : end;
    while (to < end && to < word_end && !word_starts_[static_cast<size_t>(to)]) ++to;
    return to - at;
  }

  // The arcs of `run` characters and of the words that end behind them; the state there.
  State Run(int32_t at, int32_t run) {
    const std::array<Link, 2> links = {Link{rows_.characters, u_.character_.id, at, 1},
                                       Link{At(at).from, u_.character_.before, At(at).node, 0}};
    const SubgraphId chain = graph_.Add(u_.character_.type, run, links);
    graph_.SetPlace(chain, at - begin_);
    const int32_t end = at + run;
    arcs_.assign(1, Link{chain, InputId(0), run - 1, 0});
    for (; next_ < words_.size() && words_[next_].end == end; ++next_) {
      const State& from = At(words_[next_].start);
      const std::array<Link, 2> reads = {
          Link{rows_.words, u_.word_.id, static_cast<int32_t>(next_), 0},
          Link{from.from, u_.word_.before, from.node, 0}};
      arcs_.push_back({graph_.Add(u_.word_.type, 1, reads), InputId(0), 0, 0});
      graph_.SetPlace(arcs_.back().from, end - 1 - begin_);
    }
    if (arcs_.size() == 1) {
      ReturnStates(chain, at, run);
      return {chain, run - 1};
    }
    const SubgraphId merge = graph_.Add(u_.spec_.merge, 1, arcs_);
    graph_.SetPlace(merge, end - 1 - begin_);
    if (run > 1) ReturnStates(chain, at, run - 1);
    ReturnStates(merge, end - 1, 1);
    return {merge, 0};
  }

  // Nodes 0 .. count - 1 of `from` are the states behind characters `at` ..
  void ReturnStates(SubgraphId from, int32_t at, int32_t count) {
    if (answer_.all_hidden >= 0) {
      const int64_t row = u_.h_width_ * kFloat;
      graph_.Return(from, u_.h_, {0, count}, {answer_.all_hidden, at * row, row});
    }
    if (answer_.node_outputs < 0) return;
    AddOutputs({from, InputId(0), 0, 1}, count);
    const int64_t row = u_.y_width_ * kFloat;
    graph_.Return(last_output_, u_.y_, {0, count}, {answer_.node_outputs, at * row, row});
  }

  void AddOutputs(const Link& states, int32_t count) {
    graph_.SetPhase(1);
    last_output_ = graph_.Add(u_.spec_.output, count, {&states, 1});
    graph_.SetPhase(0);
    last_outputs_ = count;
  }

  void ReturnLast(State last, int64_t number) {
    const auto give = [&](int32_t tensor, ColumnId column, int32_t width) {
      if (tensor < 0) return;
      graph_.Return(last.from, column, {last.node, 1}, {tensor, number * width * kFloat, 0});
    };
    give(answer_.final_h, u_.h_, u_.h_width_);
    give(answer_.final_c, u_.c_, u_.c_width_);
    if (!u_.spec_.output.valid()) {
      give(answer_.output, u_.h_, u_.h_width_);
      return;
    }
    if (answer_.output < 0) return;
    if (answer_.node_outputs < 0) {
      AddOutputs({last.from, InputId(0), last.node, 0}, 1);
    }
    graph_.Return(last_output_, u_.y_, {last_outputs_ - 1, 1},
                  {answer_.output, number * u_.y_width_ * kFloat, 0});
  }

  const LatticeUnfolder& u_;
  const absl::Span<const Word> words_;
  const Rows rows_;
  const Answer answer_;
  CellGraph& graph_;
  std::vector<State> states_;
  std::vector<bool> word_starts_;
  int32_t begin_ = 0;       // of this lattice
  size_t next_ = 0;         // the first word that does not end yet
  std::vector<Link> arcs_;  // of one merge
  SubgraphId last_output_;  // of the output cell, and how many
  int32_t last_outputs_ = 0;
};

// By end, start and id, each inside one lattice.
absl::StatusOr<std::vector<LatticeUnfolder::Word>> LatticeUnfolder::ReadWords(
    const InputTensor& tensor, absl::Span<const Piece> lattices) const {
  const absl::Span<const int32_t> values = Int32s(tensor);
  const int64_t count = static_cast<int64_t>(values.size()) / kWordColumns;
  std::vector<Word> words;
  words.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const absl::Span<const int32_t> row = values.subspan(static_cast<size_t>(i * kWordColumns), 3);
    Word word{row[0], row[1], row[2], row[2], static_cast<int32_t>(i)};
    const int32_t end = lattices.back().offset + lattices.back().length;
    if (word.start < 0 || word.start >= word.end || word.end > end) {
      return WrongWord(i, fmt::format("is [{}, {}): 0 <= start < end <= {} is needed", word.start,
                                      word.end, end));
    }
    const auto after =
        std::upper_bound(lattices.begin(), lattices.end(), word.start,
                         [](int32_t start, const Piece& piece) { return start < piece.offset; });
    const Piece& in = *(after - 1);
    if (word.end > in.offset + in.length) {
      return WrongWord(i, fmt::format("is [{}, {}): lattice {} ends at {}", word.start, word.end,
                                      after - 1 - lattices.begin(), in.offset + in.length));
    }
    if (!spec_.known_words.Has(word.id)) {
      if (!spec_.known_words.unknown) {
        return WrongWord(i, fmt::format("has id {}, the vocabulary ends at {}", word.id,
                                        spec_.known_words.size - 1));
      }
      word.id = *spec_.known_words.unknown;
    }
    words.push_back(word);
  }
  const auto before = [](const Word& a, const Word& b) {
    return std::tie(a.end, a.start, a.id, a.given, a.index) <
           std::tie(b.end, b.start, b.id, b.given, b.index);
  };
  if (!std::is_sorted(words.begin(), words.end(), before)) {
    std::sort(words.begin(), words.end(), before);
  }
  for (size_t i = 1; i < words.size(); ++i) {
    const Word &a = words[i - 1], &b = words[i];
    if (a.start == b.start && a.end == b.end && a.given == b.given) {
      return WrongWord(b.index, fmt::format("is [{}, {}) with id {}, as word {} is", b.start, b.end,
                                            b.given, a.index));
    }
  }
  return words;
}

absl::Status LatticeUnfolder::CheckSize(int64_t characters, absl::Span<const Word> words,
                                        int64_t lattices, const Answer& answer) const {
  int64_t merges = 0, same_end = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    same_end = i > 0 && words[i].end == words[i - 1].end ? same_end + 1 : 1;
    if (same_end == 1) ++merges;
    if (same_end + 1 > kMaxSumLinks) {
      return WrongInput(kWordsInput, fmt::format("{} or more words end at {}, {} may", same_end,
                                                 words[i].end, kMaxSumLinks - 1));
    }
  }
  const int64_t count = static_cast<int64_t>(words.size());
  int64_t nodes = characters + count + merges;
  if (spec_.initial.valid()) nodes += lattices;
  if (spec_.output.valid()) {
    nodes += answer.node_outputs >= 0 ? characters : answer.output >= 0 ? lattices : 0;
  }
  if (nodes <= spec_.max_nodes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("inputs {} and {}: {} characters and {} words make {} cells, the model takes {}",
                  kCharsInput, kWordsInput, characters, count, nodes, spec_.max_nodes));
}

absl::StatusOr<LatticeUnfolder::Answer> LatticeUnfolder::AddTensors(const RequestInput& input,
                                                                    int64_t characters,
                                                                    int64_t lattices,
                                                                    CellGraph& graph) const {
  const bool many = input.Find(kLengthsInput) != nullptr;
  if (auto asked = AskedOutputs(input, OutputNames()); !asked.ok()) return asked.status();
  Answer answer;
  const auto add = [&](std::string_view name) {
    const bool nodes = name == kNodeOutputs || name == kAllHidden;
    const bool y = name == kNodeOutputs || (name == kOutput && spec_.output.valid());
    TensorDims dims = {name == kFinalC ? c_width_ : y ? y_width_ : h_width_};
    if (nodes) dims.insert(dims.begin(), characters);
    if (many && !nodes) dims.insert(dims.begin(), lattices);
    int32_t& number = name == kOutput        ? answer.output
                      : name == kNodeOutputs ? answer.node_outputs
                      : name == kAllHidden   ? answer.all_hidden
                      : name == kFinalH      ? answer.final_h
                                             : answer.final_c;
    number = graph.AddTensor(name, WireType::kFp32, std::move(dims));
  };
  if (input.outputs.empty()) add(kOutput);
  for (const std::string_view name : input.outputs) add(name);
  return answer;
}

absl::Status LatticeUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  absl::Status s = CheckNames(input, {kCharsInput, kWordsInput, kLengthsInput});
  if (!s.ok()) return s;
  const InputTensor* characters = input.Find(kCharsInput);
  if (characters == nullptr) return WrongInput(kCharsInput, "missing");
  if (s = CheckTensor(*characters, WireType::kInt32, {-1}); !s.ok()) return s;
  const int64_t total = characters->dims[0];
  const auto lattices =
      SplitByLengths(input.Find(kLengthsInput), kCharsInput, total, spec_.max_characters);
  if (!lattices.ok()) return lattices.status();
  const absl::StatusOr<const std::byte*> ids =
      KnownIds(*characters, "character", spec_.known_characters, graph);
  if (!ids.ok()) return ids.status();

  absl::StatusOr<std::vector<Word>> words = std::vector<Word>();
  if (const InputTensor* tensor = FindRows(input, kWordsInput)) {
    if (!word_.type.valid()) return WrongInput(kWordsInput, "the model has no words");
    if (s = CheckTensor(*tensor, WireType::kInt32, {-1, kWordColumns}); !s.ok()) return s;
    words = ReadWords(*tensor, *lattices);
    if (!words.ok()) return words.status();
  }
  const int64_t number = static_cast<int64_t>(lattices->size());
  const absl::StatusOr<Answer> answer = AddTensors(input, total, number, graph);
  if (!answer.ok()) return answer.status();
  s = CheckSize(total, *words, number, *answer);
  if (!s.ok()) return s;

  const int32_t m = static_cast<int32_t>(words->size());
  const int32_t runs = static_cast<int32_t>(std::min(total, 2 * int64_t{m} + number));
  const int32_t ends = static_cast<int32_t>(2 * number);
  // Each run: its chain, perhaps a merge, and an output cell behind either.
  const int32_t outputs = answer->node_outputs >= 0 ? 2 * runs : 0;
  const int32_t hidden = answer->all_hidden >= 0 ? 2 * runs : 0;
  graph.Reserve({.inputs = 2,
                 .subgraphs = 2 * runs + m + outputs + ends,
                 .links = 3 * runs + 3 * m + outputs + ends,
                 .returns = outputs + hidden + 2 * ends,
                 .tensors = 5});
  Rows rows{.characters = graph.AddInput(spec_.characters, static_cast<int32_t>(total), *ids),
            .words = kZeroSource};
  if (m > 0) {
    std::byte* kept = graph.Keep(m * int64_t{sizeof(int32_t)});
    for (size_t i = 0; i < words->size(); ++i) {
      std::memcpy(kept + i * sizeof(int32_t), &(*words)[i].id, sizeof(int32_t));
    }
    rows.words = graph.AddInput(spec_.words, m, kept);
  }
  Builder builder(*this, *words, rows, *answer, static_cast<int32_t>(total), graph);
  for (int64_t i = 0; i < number; ++i) builder.Lattice((*lattices)[static_cast<size_t>(i)], i);
  return absl::OkStatus();
}

}  // namespace cellbatch

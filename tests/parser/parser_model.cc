#include "tests/parser/parser_model.h"

#include <cstring>
#include <utility>

#include "cells/check.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_builder.h"

namespace cellbatch::parser {
namespace {

using testing::CellBuilder;

constexpr int32_t kMaxWords = 1000;
constexpr int64_t kFloat = sizeof(float);

CellDefinition ComposeCell(const Sizes& s) {
  CellBuilder b("compose");
  const ValueId head = b.Read("head", "x", s.embedding),
                dependent = b.Read("dependent", "x", s.embedding);
  const ValueId action = b.Read("action", "token", 1, ElementType::kInt32);
  const ValueId made =
      b.MatMul(b.Concat(head, dependent), b.Matrix("W", s.embedding, 2 * s.embedding));
  const ValueId of_action = b.Lookup(b.Matrix("A", kNumActions, s.embedding), action);
  b.Leave("x", b.Tanh(b.Add(made, of_action)));
  return b.Build();
}

CellDefinition ClassifyCell(const Sizes& s) {
  CellBuilder b("classify");
  const ValueId stack = b.Read("stack", "h", s.hidden), buffer = b.Read("buffer", "h", s.hidden),
                actions = b.Read("actions", "h", s.hidden);
  const ValueId all = b.Concat(stack, buffer, actions);
  const ValueId p =
      b.Tanh(b.Add(b.MatMul(all, b.Matrix("P", s.hidden, 3 * s.hidden)), b.Vector("p", s.hidden)));
  b.Leave("scores",
          b.Add(b.MatMul(p, b.Matrix("S", kNumActions, s.hidden)), b.Vector("s", kNumActions)));
  return b.Build();
}

// What is known of one sentence between pieces: where on the stack each word's representation and
// state are, and what the answer's next row is.
struct Parse final : Progress {
  explicit Parse(int32_t words)
      : transitions(words), x(static_cast<size_t>(words)), state(static_cast<size_t>(words)) {}

  Transitions transitions;
  std::vector<Link> x, state;  // by word: of its subtree so far; of the stack with it on top
  SubgraphId embedded, buffer, history = kZeroSource;
  int32_t taken = 0;  // actions
};

int32_t NumWords(const RequestInput& input) {
  return static_cast<int32_t>(input.Find("TOKENS")->dims[0]);
}

// Numbers of the answer's tensors, in the order they are added.
enum Tensor : int32_t { kActions, kHeads, kScores, kOutput };

// Adds pieces to one sentence's graph.
class Steps {
 public:
  Steps(const Cells& cells, CellGraph& graph)
      : cells_(cells), graph_(graph), parse_(static_cast<Parse&>(*graph.progress())) {}

  // Whatever must follow, then a question, or the end.
  void UntilAQuestion() {
    while (!parse_.transitions.done() && parse_.transitions.forced()) {
      Take(parse_.transitions.Best(nullptr));
    }
    if (parse_.transitions.done()) {
      End();
    } else {
      Ask();
    }
  }

  void Take(Action action) {
    Write(kActions, parse_.taken++, action);
    const SubgraphId row = ActionRow(action);
    const int32_t shifted = parse_.transitions.next();
    const Transitions::Arc arc = parse_.transitions.Take(action);
    if (action == kShift) {
      parse_.x[At(shifted)] = {parse_.embedded, kX, shifted, 0};
    } else {
      Link head = parse_.x[At(arc.head)], dependent = parse_.x[At(arc.dependent)];
      head.input = InputId(0);
      dependent.input = InputId(1);
      const SubgraphId made =
          graph_.Add(cells_.compose, 1, {{head, dependent, {row, InputId(2), 0, 0}}});
      parse_.x[At(arc.head)] = {made, kX, 0, 0};
    }
    Push();
    const SubgraphId before = std::exchange(parse_.history, kZeroSource);
    parse_.history = graph_.Add(cells_.actions, 1, {{{row, kX, 0, 0}, {before, kBefore, 0, 0}}});
  }

 private:
  static constexpr InputId kX{0}, kBefore{1};
  static size_t At(int32_t i) { return static_cast<size_t>(i); }

  void Write(Tensor tensor, int64_t at, int32_t value) {
    std::memcpy(graph_.tensors()[At(tensor)].bytes.data() + at * 4, &value, 4);
  }

  // A row that says which action it is: known here, not in the request.
  SubgraphId ActionRow(int32_t action) {
    std::byte* const bytes = graph_.Keep(sizeof(action));
    std::memcpy(bytes, &action, sizeof(action));
    return graph_.AddInput(cells_.tokens, 1, bytes);
  }

  // The word on top of the stack, over the state below it.
  void Push() {
    const std::vector<int32_t>& stack = parse_.transitions.stack();
    const int32_t top = stack.back();
    Link x = parse_.x[At(top)];
    x.input = kX;
    Link below{kZeroSource, kBefore};
    if (stack.size() >= 2) {
      below = parse_.state[At(stack[stack.size() - 2])];
      below.input = kBefore;
    }
    parse_.state[At(top)] = {graph_.Add(cells_.stack, 1, {{x, below}}), kX, 0, 0};
  }

  void Ask() {
    const int32_t words = parse_.transitions.words(), next = parse_.transitions.next();
    Link stack = parse_.state[At(parse_.transitions.stack().back())];
    stack.input = InputId(0);
    // The chain over the buffer runs from its end; when all are shifted it is as before the first.
    const Link buffer{next < words ? parse_.buffer : kZeroSource, InputId(1), words - 1 - next, 0};
    const Link history{parse_.history, InputId(2), 0, 0};
    const SubgraphId asked = graph_.Add(cells_.classify, 1, {{stack, buffer, history}});
    graph_.Return(asked, ColumnId(0), {},
                  {.tensor = kScores, .offset_bytes = parse_.taken * kNumActions * kFloat});
  }

  void End() {
    const int32_t root = parse_.transitions.stack().front();
    graph_.Return(parse_.state[At(root)].from, ColumnId(0), {}, {.tensor = kOutput});
    for (int32_t w = 0; w < parse_.transitions.words(); ++w) {
      Write(kHeads, w, parse_.transitions.heads()[At(w)]);
    }
    graph_.CloseGrowth();
  }

  const Cells& cells_;
  CellGraph& graph_;
  Parse& parse_;
};

}  // namespace

Action Transitions::Best(const double* scores) const {
  Action best = kNumActions;
  for (const Action action : {kShift, kLeft, kRight}) {
    if (!Allowed(action)) continue;
    if (best == kNumActions || (scores != nullptr && scores[action] > scores[best])) best = action;
  }
  Check(best != kNumActions, "a sentence that is parsed has no next action");
  return best;
}

Transitions::Arc Transitions::Take(Action action) {
  if (action == kShift) {
    stack_.push_back(next_++);
    return {};
  }
  const int32_t upper = stack_.back(), lower = stack_[stack_.size() - 2];
  const Arc arc = action == kLeft ? Arc{upper, lower} : Arc{lower, upper};
  stack_.pop_back();
  stack_.back() = arc.head;
  heads_[static_cast<size_t>(arc.dependent)] = arc.head;
  return arc;
}

absl::Status ParserUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  const InputTensor& tokens = *input.Find("TOKENS");
  const int32_t words = NumWords(input), actions = 2 * words - 1;
  if (words < 1 || words > kMaxWords) {
    return absl::InvalidArgumentError(
        fmt::format("input TOKENS: {} words, the model takes 1 to {}", words, kMaxWords));
  }
  Growth most;  // every action: its row, compose, stack, actions, classify
  most.pieces = actions;
  most.nodes = 4 * actions;
  const auto grow = [&most](TableId table, int32_t rows) {
    const auto at = static_cast<size_t>(table.value());
    if (most.rows.size() <= at) most.rows.resize(at + 1, 0);
    most.rows[at] = rows;
  };
  grow(cells_.tokens, actions);
  grow(cells_.x, words - 1);
  grow(cells_.state, 2 * actions);
  grow(cells_.scores, actions);
  auto parse = std::make_unique<Parse>(words);
  Parse& p = *parse;
  most.progress = std::move(parse);
  graph.Grow(std::move(most));

  graph.AddTensor("ACTIONS", WireType::kInt32, {actions});
  graph.AddTensor("HEADS", WireType::kInt32, {words});
  graph.AddTensor("SCORES", WireType::kFp32, {actions, kNumActions});
  graph.AddTensor("OUTPUT", WireType::kFp32, {sizes_.hidden});
  const SubgraphId rows = graph.AddInput(cells_.tokens, words, tokens.bytes.data());
  const Link each{rows, InputId(0), 0, 1};
  p.embedded = graph.Add(cells_.embed, words, {&each, 1});
  const Link backward{p.embedded, InputId(0), words - 1, -1};
  p.buffer = graph.Add(cells_.buffer, words, {&backward, 1});
  graph.KeepRows(p.buffer);
  return absl::OkStatus();
}

// Each piece but the first begins with what the scores of the one before say.
absl::Status ParserUnfolder::Extend(const RequestInput&, CellGraph& graph) const {
  const Parse& parse = static_cast<const Parse&>(*graph.progress());
  Steps steps(cells_, graph);
  if (parse.taken > 0) {
    std::array<float, kNumActions> scores;
    const std::byte* const all = graph.tensors()[kScores].bytes.data();
    std::memcpy(scores.data(), all + parse.taken * kNumActions * kFloat, sizeof(scores));
    const std::array<double, kNumActions> exact = {scores[0], scores[1], scores[2]};
    steps.Take(parse.transitions.Best(exact.data()));
  }
  steps.UntilAQuestion();
  return absl::OkStatus();
}

std::shared_ptr<const Model> MakeParser(ModelId id, const Sizes& sizes, uint64_t seed) {
  testing::ModelBuilder builder("parser");
  Cells cells;
  cells.embed = builder.Add(testing::EmbeddingCell(sizes.vocabulary, sizes.embedding), seed);
  cells.buffer = builder.Add(testing::LstmCell(sizes.embedding, sizes.hidden), seed + 1);
  cells.stack = builder.Add(testing::LstmCell(sizes.embedding, sizes.hidden), seed + 2);
  cells.actions =
      builder.Add(testing::TokenLstmCell(kNumActions, sizes.embedding, sizes.hidden), seed + 3);
  cells.compose = builder.Add(ComposeCell(sizes), seed + 4);
  cells.classify = builder.Add(ClassifyCell(sizes), seed + 5);
  for (const char* input : {"stack", "buffer", "actions"}) {
    builder.Connect(cells.classify, input, cells.stack);
  }
  std::shared_ptr<Model> model = builder.Build();
  model->id = id;
  for (CellType& type :
       model->types) {  // large enough that words decide, not the classifier's bias
    const uint64_t of_type = seed + static_cast<uint64_t>(type.id.value());
    type.weights = testing::RandomWeights(*type.definition, of_type, /*scale=*/3);
  }
  cells.tokens = testing::FindTable(*model, "token");
  cells.x = model->type(cells.embed).out;
  cells.state = model->type(cells.stack).out;
  cells.scores = model->type(cells.classify).out;
  Check(model->type(cells.buffer).out == cells.state && model->type(cells.compose).out == cells.x,
        "cells that leave the same share a table");
  model->signature.inputs = {{"TOKENS", WireType::kInt32, {-1}, false, false}};
  model->signature.outputs = {{"OUTPUT", WireType::kFp32, {sizes.hidden}, false, false},
                              {"ACTIONS", WireType::kInt32, {-1}, false, false},
                              {"HEADS", WireType::kInt32, {-1}, false, false},
                              {"SCORES", WireType::kFp32, {-1, kNumActions}, false, false}};
  model->signature.vocabulary_size = sizes.vocabulary;
  model->signature.max_sequence_length = kMaxWords;
  model->unfolder = std::make_shared<ParserUnfolder>(cells, sizes);
  return model;
}

}  // namespace cellbatch::parser

// lstm, bilstm_tagger, bilstm_tagger_char
#include <map>
#include <memory>

#include "tests/zoo/reference_chain.h"
#include "tests/zoo/workload_parts.h"

namespace cellbatch::zoo {
namespace {

// Words seen fewer times than this in the training text are spelled out.
constexpr int kRare = 5;

struct Sentence {
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> characters;  // of each word; empty: not spelled out
};

// Two layers in both directions; the first reads what `embedding` leaves, or tokens.
std::string TaggerLayers(bool reads_tokens) {
  std::string text;
  for (const char* cell : {"forward0", "backward0"}) {
    text += reads_tokens
                ? CellType(cell, "lstm", {{"x", "embed"}}, {"W", "U", "b", "embed/table=embedding"})
                : CellType(cell, "lstm", {}, {"W", "U", "b"});
  }
  for (const char* cell : {"forward1", "backward1"}) {
    text += CellType(cell, "lstm", {{"x", "pair"}}, {"W", "U", "b"});
  }
  return text + CellType("output", "tagger_output", {}, {"W_h", "b_h", "W_o", "b_o"});
}

constexpr const char* kTaggerChain = R"(
  input: TOKENS
  layers { forward: "forward0" backward: "backward0" }
  layers { forward: "forward1" backward: "backward1" }
  token_head: "output"
)";

void AddTagger(WeightSet& weights, const Sizes& sizes, int64_t width) {
  const int64_t h = sizes.hidden;
  weights.AddTable("embedding", sizes.vocabulary, width);
  for (const char* cell : {"forward0", "backward0"}) AddRecurrent(weights, cell, 4, width, h);
  for (const char* cell : {"forward1", "backward1"}) AddRecurrent(weights, cell, 4, 2 * h, h);
  weights.AddMatrix("output.W_h", h, 2 * h);
  weights.AddBias("output.b_h", h);
  weights.AddMatrix("output.W_o", sizes.classes, h, 2);
  weights.AddBias("output.b_o", sizes.classes);
}

// The characters' two LSTMs leave half a word's vector each.
void AddCharacters(ModelFolder& model, const Sizes& sizes, int64_t half) {
  model.config = CellType("words", "embed", {}, {"table=embedding"});
  for (const char* cell : {"char_forward", "char_backward"}) {
    AddRecurrent(model.weights, cell, 4, sizes.embedding, half);
    model.config +=
        CellType(cell, "lstm", {{"x", "embed"}}, {"W", "U", "b", "embed/table=characters"});
  }
  model.weights.AddTable("characters", sizes.characters, sizes.embedding);
  model.config += CellType("word", "word_from_chars", {}, {});
}

std::vector<Sentence> Sentences(const Sizes& sizes, const std::vector<Words>& items, bool spelled) {
  std::map<std::string, int> seen;
  if (spelled) {
    for (const Words& words : WikinerSentences().items) {
      for (const std::string& word : words) ++seen[word];
    }
  }
  std::vector<Sentence> sentences;
  for (const Words& words : items) {
    Sentence& sentence = sentences.emplace_back();
    sentence.tokens = WordIds(words, sizes.vocabulary);
    if (!spelled) continue;
    for (const std::string& word : words) {
      const bool rare = seen[word] < kRare;
      sentence.characters.push_back(rare ? corpus::Spelled(word, sizes.characters)
                                         : std::vector<int32_t>{});
    }
  }
  return sentences;
}

std::vector<Vec> WordVectors(const WeightSet& weights, const Sentence& sentence) {
  std::vector<Vec> x = Rows(weights.M("embedding"), sentence.tokens);
  for (size_t t = 0; t < sentence.characters.size(); ++t) {
    if (sentence.characters[t].empty()) continue;
    x[t] = WordFromCharacters(weights, Rows(weights.M("characters"), sentence.characters[t]));
  }
  return x;
}

}  // namespace

Workload Lstm(const Sizes& sizes, size_t items) {
  Workload made;
  WeightSet& weights = made.model.weights;
  weights.AddTable("embedding", sizes.vocabulary, sizes.embedding);
  AddRecurrent(weights, "layer", 4, sizes.embedding, sizes.hidden);
  made.model.config =
      CellType("layer", "lstm", {{"x", "embed"}}, {"W", "U", "b", "embed/table=embedding"}) +
      "chain {\n  input: TOKENS\n  layers { forward: \"layer\" }\n}\n";
  const Data<Translation> data = EuroparlPairs();
  made.source = data.source + ", English";
  std::vector<std::vector<Vec>> sentences;
  for (const Translation& pair :
       Some(data.items, items, [](const Translation& p) { return p.target.size(); })) {
    const std::vector<int32_t> tokens = WordIds(pair.target, sizes.vocabulary);
    made.requests.push_back({{IntsTensor("TOKENS", tokens)}, {"OUTPUT", "ALL_HIDDEN"}, {}});
    sentences.push_back(Rows(weights.M("embedding"), tokens));
  }
  made.paper_outputs = {"OUTPUT"};
  made.reference = [weights, sentences](size_t i, const Answer&) -> Answer {
    const std::vector<Vec> h = Forward(LstmEquations(weights, "layer"), sentences[i]);
    return {{"OUTPUT", h.back()}, {"ALL_HIDDEN", Joined(h)}};
  };
  return made;
}

Workload BilstmTagger(const Sizes& sizes, size_t items, bool spell_rare_words) {
  Workload made;
  const int64_t half = (sizes.embedding + 1) / 2;
  if (spell_rare_words) AddCharacters(made.model, sizes, half);
  AddTagger(made.model.weights, sizes, spell_rare_words ? 2 * half : sizes.embedding);
  made.model.config += TaggerLayers(/*reads_tokens=*/!spell_rare_words) + "chain {" + kTaggerChain;
  if (spell_rare_words) {
    made.model.config +=
        "  embedding: \"words\"\n"
        "  characters { forward: \"char_forward\" backward: \"char_backward\" word: \"word\" }\n";
  }
  made.model.config += "}\n";
  const Data<Words> data = WikigoldSentences();
  made.source = data.source;
  const std::vector<Sentence> sentences = Sentences(
      sizes, Some(data.items, items, [](const Words& w) { return w.size(); }), spell_rare_words);
  for (const Sentence& sentence : sentences) {
    Asked& asked = made.requests.emplace_back();
    asked.inputs = CharacterTensors(sentence.characters);
    asked.inputs.insert(asked.inputs.begin(), IntsTensor("TOKENS", sentence.tokens));
    asked.outputs = {"OUTPUT"};
  }
  made.paper_outputs = {"OUTPUT"};
  made.reference = [weights = made.model.weights, sentences](size_t i, const Answer&) -> Answer {
    return {{"OUTPUT", Joined(TaggerReference(weights, WordVectors(weights, sentences[i])))}};
  };
  return made;
}

}  // namespace cellbatch::zoo

#include "loadgen/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "client/json_request.h"
#include "loadgen/arrivals.h"
#include "loadgen/corpus/like.h"
#include "loadgen/corpus/shapes.h"
#include "loadgen/corpus/tensors.h"
#include "loadgen/lengths.h"
#include "loadgen/random_graph.h"

namespace cellbatch {
namespace {

using corpus::Words;

// What share of WikiGold's running words is seen fewer than five times in WikiNER: those that a tagger
// trained on the one meets spelled in the other.
constexpr double kSpelledShare = 0.23;
constexpr int64_t kMostBytes = int64_t{1} << 30;  // of all requests together

const char* TakesWhat(const ModelNeeds& needs) {
  switch (needs.form) {
    case RequestForm::kBinaryTree:
      return "binary trees";
    case RequestForm::kDependencyTree:
      return needs.binary_trees ? "dependency trees, binary trees" : "dependency trees";
    case RequestForm::kLattice:
      return "lattices";
    case RequestForm::kOther:
      return "requests";
    default:
      return "lengths, sentences, sentence pairs";
  }
}

bool IsSequence(RequestForm form) {
  return form == RequestForm::kVectors || form == RequestForm::kTokens ||
         form == RequestForm::kSpelledTokens || form == RequestForm::kSource ||
         form == RequestForm::kGraph;
}

// As every form of sequence can use it.
struct Sentence {
  Words words;  // empty: only the length is known
  int32_t length = 0;
  int32_t target = 0;    // words of its translation; 0: not known
  bool goes_on = false;  // from a state that an earlier piece left
};

Sentence SentenceOf(const corpus::Lengths& lengths, bool) {
  return {{}, lengths.source, lengths.target};
}
Sentence SentenceOf(const Words& words, bool) {
  return {words, static_cast<int32_t>(words.size()), 0};
}
// Who does not translate reads the target: in the papers, English.
Sentence SentenceOf(const corpus::Translation& pair, bool translates) {
  const Words& words = translates ? pair.source : pair.target;
  return {words, static_cast<int32_t>(words.size()),
          translates ? static_cast<int32_t>(pair.target.size()) : 0};
}

// The rarest words, as many as make up `share` of the running words.
std::set<std::string> RarestWords(const std::vector<Sentence>& sentences, double share) {
  std::map<std::string, int64_t> seen;
  int64_t running = 0;
  for (const Sentence& sentence : sentences) {
    for (const std::string& word : sentence.words) {
      ++seen[word];
      ++running;
    }
  }
  std::vector<std::pair<int64_t, std::string>> by_count;
  for (const auto& [word, count] : seen) {
    by_count.emplace_back(count, word);
  }
  std::sort(by_count.begin(), by_count.end());
  std::set<std::string> rarest;
  const double most = share * static_cast<double>(running);
  double taken = 0;
  for (const auto& [count, word] : by_count) {
    taken += static_cast<double>(count);
    if (taken > most) {
      break;
    }
    rarest.insert(word);
  }
  return rarest;
}

class ContentsMaker {
 public:
  ContentsMaker(const ModelNeeds& needs, const MixEntry& entry, uint64_t seed)
      : needs_(needs), entry_(entry), random_(seed) {}

  // Items of one kind, if the form takes them. False: it does not.
  template <typename Item>
  bool MakeSequences(const std::vector<Item>& items) {
    if (!IsSequence(needs_.form)) {
      return false;
    }
    std::vector<Sentence> sentences;
    for (const Item& item : items) {
      sentences.push_back(SentenceOf(item, needs_.form == RequestForm::kSource));
    }
    AddSentences(std::move(sentences));
    return true;
  }
  bool Make(const std::vector<corpus::Lengths>& items) { return MakeSequences(items); }
  bool Make(const std::vector<Words>& items) { return MakeSequences(items); }
  bool Make(const std::vector<corpus::Translation>& items) { return MakeSequences(items); }
  bool Make(const std::vector<corpus::BinaryTree>& items);
  bool Make(const std::vector<corpus::DependencyTree>& items);
  bool Make(const std::vector<corpus::Lattice>& items);
  bool Make(const std::vector<corpus::JsonRequest>& items);

  absl::StatusOr<ContentsList> Finish(const corpus::Corpus& corpus);

 private:
  void Add(std::vector<Tensor> inputs, size_t size,
           std::map<std::string, Parameter> parameters = {}, bool goes_on = false,
           std::vector<std::string> outputs = {}) {
    for (const Tensor& tensor : inputs) {
      bytes_ += static_cast<int64_t>(tensor.bytes.size());
    }
    if (bytes_ <= kMostBytes) {
      made_.requests.push_back({std::move(inputs), std::move(parameters),
                                static_cast<int32_t>(size), goes_on, std::move(outputs)});
    }
  }
  // Whether so many nodes are more than a request may have; counted.
  bool TooLarge(size_t nodes) {
    const bool large = needs_.most_nodes > 0 && static_cast<int64_t>(nodes) > needs_.most_nodes;
    left_out_ += large ? 1 : 0;
    return large;
  }
  void AddSentences(std::vector<Sentence> sentences);
  void AddSentence(const Sentence& sentence, const std::set<std::string>& spelled);
  void AddSource(const Sentence& sentence);
  void FillWords(std::vector<Sentence>& sentences);
  Tensor TokenTensor(const char* name, const Sentence& sentence);
  std::vector<float> RandomFloats(int64_t count);
  std::vector<Sentence> InPieces(const Sentence& whole) const;
  void AddPiece(std::vector<Tensor> inputs, const Sentence& sentence);
  void AddState(std::vector<Tensor>& inputs);

  const ModelNeeds& needs_;
  const MixEntry& entry_;
  std::mt19937_64 random_;
  ContentsList made_;
  int64_t bytes_ = 0;
  int cut_ = 0, decode_cut_ = 0, left_out_ = 0;
  absl::Status wrong_;
};

void ContentsMaker::AddSentences(std::vector<Sentence> sentences) {
  std::set<std::string> spelled;
  if (needs_.form == RequestForm::kSpelledTokens) {
    FillWords(sentences);
    spelled = RarestWords(sentences, entry_.spelled.value_or(kSpelledShare));
  }
  for (const Sentence& whole : sentences) {
    for (Sentence& sentence : InPieces(whole)) {
      if (needs_.most_steps > 0 && sentence.length > needs_.most_steps) {
        sentence.length = static_cast<int32_t>(needs_.most_steps);
        sentence.words.resize(std::min<size_t>(sentence.words.size(), sentence.length));
        ++cut_;
      }
      AddSentence(sentence, spelled);
    }
  }
}

std::vector<Sentence> ContentsMaker::InPieces(const Sentence& whole) const {
  if (entry_.piece == 0) {
    return {whole};
  }
  std::vector<Sentence> pieces;
  for (int64_t at = 0; at < whole.length; at += entry_.piece) {
    Sentence& piece = pieces.emplace_back();
    piece.length = static_cast<int32_t>(std::min(entry_.piece, whole.length - at));
    piece.goes_on = at > 0;
    const auto words = std::ssize(whole.words);
    piece.words.assign(whole.words.begin() + std::min(at, words),
                       whole.words.begin() + std::min(at + piece.length, words));
  }
  return pieces;
}

// With `streams` the server has the state that the piece goes on from.
void ContentsMaker::AddPiece(std::vector<Tensor> inputs, const Sentence& sentence) {
  if (sentence.goes_on && entry_.streams == 0) {
    AddState(inputs);
  }
  Add(std::move(inputs), static_cast<size_t>(sentence.length), {}, sentence.goes_on);
}

// Of numbers as a recurrent cell leaves them; which they are costs the server nothing.
void ContentsMaker::AddState(std::vector<Tensor>& inputs) {
  for (const StatePart& part : needs_.states) {
    int64_t elements = 1;
    for (const int64_t dim : part.dims) {
      elements *= dim;
    }
    inputs.push_back(FloatTensor(part.initial, part.dims, RandomFloats(elements)));
  }
}

// Those of which only the length is known get built-in words, one after the other.
void ContentsMaker::FillWords(std::vector<Sentence>& sentences) {
  Words words;
  for (const Words& sentence : corpus::SentencesLikeWikigold()) {
    words.insert(words.end(), sentence.begin(), sentence.end());
  }
  size_t next = 0;
  for (Sentence& sentence : sentences) {
    while (sentence.words.size() < static_cast<size_t>(sentence.length)) {
      sentence.words.push_back(words[next++ % words.size()]);
    }
  }
}

void ContentsMaker::AddSentence(const Sentence& sentence, const std::set<std::string>& spelled) {
  const auto length = static_cast<size_t>(sentence.length);
  switch (needs_.form) {
    case RequestForm::kVectors: {
      std::vector<Tensor> inputs = {
          FloatTensor("X", {sentence.length, needs_.width},
                      RandomFloats(int64_t{sentence.length} * needs_.width))};
      return AddPiece(std::move(inputs), sentence);
    }
    case RequestForm::kSource:
      return AddSource(sentence);
    case RequestForm::kGraph: {
      if (!TooLarge(length)) {
        std::vector<Tensor> graph = RandomGraph(needs_, sentence.length, random_);
        const auto nodes = static_cast<size_t>(graph[0].shape[0]);
        Add(std::move(graph), nodes);
      }
      return;
    }
    default:
      break;
  }
  std::vector<std::vector<int32_t>> characters;
  for (const std::string& word : sentence.words) {
    characters.push_back(spelled.count(word) > 0 ? corpus::Spelled(word, needs_.characters)
                                                 : std::vector<int32_t>());
  }
  std::vector<Tensor> inputs = corpus::CharacterTensors(characters);
  inputs.insert(inputs.begin(), TokenTensor("TOKENS", sentence));
  AddPiece(std::move(inputs), sentence);
}

void ContentsMaker::AddSource(const Sentence& sentence) {
  std::map<std::string, Parameter> parameters;
  int64_t steps = sentence.target > 0 ? sentence.target : sentence.length;
  if (needs_.most_decode_steps > 0 && steps > needs_.most_decode_steps) {
    steps = needs_.most_decode_steps;
    ++decode_cut_;
  }
  if (!entry_.free_decode) {
    parameters["decode_steps"] = steps;
  }
  Add({TokenTensor("SOURCE", sentence)}, static_cast<size_t>(sentence.length + steps),
      std::move(parameters));
}

Tensor ContentsMaker::TokenTensor(const char* name, const Sentence& sentence) {
  std::vector<int32_t> ids = corpus::WordIds(sentence.words, needs_.vocabulary);
  while (ids.size() < static_cast<size_t>(sentence.length)) {
    ids.push_back(static_cast<int32_t>(random_() % static_cast<uint64_t>(needs_.vocabulary)));
  }
  if (needs_.token_datatype == "INT32") {
    return corpus::IntsTensor(name, ids);
  }
  Tensor wide{name, "INT64", {sentence.length}, ""};
  for (const int64_t id : ids) {
    wide.bytes.append(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  return wide;
}

std::vector<float> ContentsMaker::RandomFloats(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(),
                [&] { return static_cast<float>(2 * UniformFrom(random_) - 1); });
  return values;
}

bool ContentsMaker::Make(const std::vector<corpus::BinaryTree>& items) {
  if (!needs_.binary_trees) {
    return false;
  }
  for (const corpus::BinaryTree& tree : items) {
    const size_t nodes = tree.words.size() + tree.children.size();
    if (TooLarge(nodes)) {
      continue;
    }
    std::vector<int32_t> types;
    for (size_t k = 0; k < tree.children.size() && needs_.internal_types > 1; ++k) {
      types.push_back(
          static_cast<int32_t>(random_() % static_cast<uint64_t>(needs_.internal_types)));
    }
    Add(corpus::TreeTensors(tree, corpus::WordIds(tree.words, needs_.vocabulary), types), nodes);
  }
  return true;
}

bool ContentsMaker::Make(const std::vector<corpus::DependencyTree>& items) {
  if (!needs_.dependency_trees) {
    return false;
  }
  for (const corpus::DependencyTree& tree : items) {
    if (needs_.most_children > 0 && corpus::MostChildren(tree) > needs_.most_children) {
      ++left_out_;
    } else if (!TooLarge(tree.words.size())) {
      Add(corpus::TreeTensors(tree, corpus::WordIds(tree.words, needs_.vocabulary)),
          tree.words.size());
    }
  }
  return true;
}

bool ContentsMaker::Make(const std::vector<corpus::Lattice>& items) {
  if (needs_.form != RequestForm::kLattice) {
    return false;
  }
  for (corpus::Lattice lattice : items) {
    if (!needs_.reads_words) {
      lattice.words.clear();
    }
    const size_t nodes = lattice.characters.size() + lattice.words.size();
    if (needs_.most_steps > 0 && std::ssize(lattice.characters) > needs_.most_steps) {
      ++left_out_;
    } else if (!TooLarge(nodes)) {
      Add(corpus::LatticeTensors(
              corpus::Folded(std::move(lattice), needs_.characters, needs_.vocabulary)),
          nodes);
    }
  }
  return true;
}

// Requests say by themselves what they are: any model.
bool ContentsMaker::Make(const std::vector<corpus::JsonRequest>& items) {
  if (entry_.piece > 0) {
    wrong_ = absl::FailedPreconditionError(fmt::format(
        "piece={}: requests in JSON are sent as data={} has them", entry_.piece, entry_.data));
  }
  for (size_t i = 0; i < items.size() && wrong_.ok(); ++i) {
    auto input = RequestFromJson(items[i].text);
    if (!input.ok()) {
      wrong_ = absl::InvalidArgumentError(fmt::format("data={}: request {}: {}", entry_.data, i + 1,
                                                      std::string(input.status().message())));
      break;
    }
    int64_t size = 1;
    for (const Tensor& tensor : input->inputs) {
      size = std::max(size, tensor.shape.empty() ? 0 : tensor.shape[0]);
    }
    Add(std::move(input->inputs), static_cast<size_t>(size), std::move(input->parameters), false,
        std::move(input->outputs));
  }
  return true;
}

absl::StatusOr<ContentsList> ContentsMaker::Finish(const corpus::Corpus& corpus) {
  const std::string what =
      entry_.lengths.empty() ? "data=" + entry_.data : "lengths=" + entry_.lengths;
  if (!wrong_.ok()) {
    return wrong_;
  }
  if (bytes_ > kMostBytes) {
    return absl::FailedPreconditionError(
        fmt::format("{}: requests of more than {} MiB in all; take fewer or shorter ones", what,
                    kMostBytes >> 20));
  }
  if (made_.requests.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: model \"{}\" takes {} nodes and {} steps a request, all {} items are larger", what,
        needs_.model, needs_.most_nodes, needs_.most_steps, corpus.size()));
  }
  made_.source = fmt::format("{} {} ({})", made_.requests.size(), corpus.kind(), corpus.source);
  if (entry_.piece > 0) {
    made_.source =
        fmt::format("{} pieces of {} steps or fewer of {} {} ({})", made_.requests.size(),
                    entry_.piece, corpus.size(), corpus.kind(), corpus.source);
  }
  if (cut_ > 0) {
    made_.source += fmt::format("; {} cut to the model's limit of {}", cut_, needs_.most_steps);
  }
  if (decode_cut_ > 0) {
    made_.source += fmt::format("; {} decode the model's {} steps at most", decode_cut_,
                                needs_.most_decode_steps);
  }
  if (left_out_ > 0) {
    made_.source += fmt::format("; {} left out, too large for the model", left_out_);
  }
  return std::move(made_);
}

template <typename Item>
corpus::Corpus BuiltIn(const char* source, std::vector<Item> items) {
  return {source, std::move(items)};
}

std::vector<corpus::Lengths> AsItems(const std::vector<int32_t>& lengths) {
  std::vector<corpus::Lengths> items;
  for (const int32_t length : lengths) {
    items.push_back({length, 0});
  }
  return items;
}

}  // namespace

absl::StatusOr<corpus::Corpus> BuiltInCorpus(const ModelNeeds& needs) {
  switch (needs.form) {
    case RequestForm::kVectors:
    case RequestForm::kTokens:
    case RequestForm::kGraph:
      return BuiltIn("built in, like Europarl's", AsItems(EuroparlLikeLengths()));
    case RequestForm::kSpelledTokens:
      return BuiltIn("built in, like WikiGold's", corpus::SentencesLikeWikigold());
    case RequestForm::kSource:
      return BuiltIn("built in, like Europarl's", corpus::PairsLikeEuroparl());
    case RequestForm::kBinaryTree:
      return BuiltIn("built in, like SST's", corpus::TreesLikeSst());
    case RequestForm::kDependencyTree:
      return BuiltIn("built in, like UD EWT's", corpus::TreesLikeEwt());
    case RequestForm::kLattice:
      return BuiltIn("built in, like Weibo's", corpus::LatticesLikeWeibo());
    case RequestForm::kOther:
      break;
  }
  return absl::FailedPreconditionError(
      fmt::format("model \"{}\" reads {}, which nothing built in looks like: data=FILE with a "
                  "request in KServe's JSON on each line",
                  needs.model, needs.inputs));
}

absl::StatusOr<corpus::Corpus> CorpusOf(const MixEntry& entry, const ModelNeeds& needs) {
  if (!entry.lengths.empty()) {
    auto lengths = LengthsFromFile(entry.lengths);
    if (!lengths.ok()) {
      return lengths.status();
    }
    return corpus::Corpus{entry.lengths.substr(entry.lengths.rfind('/') + 1), AsItems(*lengths)};
  }
  if (entry.data.empty()) {
    return BuiltInCorpus(needs);
  }
  auto read = corpus::ReadCorpus(entry.data);
  if (!read.ok()) {
    return absl::Status(read.status().code(),
                        fmt::format("data={}", std::string(read.status().message())));
  }
  return read;
}

absl::StatusOr<ContentsList> ContentsOf(const corpus::Corpus& corpus, const ModelNeeds& needs,
                                        const MixEntry& entry, uint64_t seed) {
  ContentsMaker maker(needs, entry, seed);
  if (!std::visit([&](const auto& items) { return maker.Make(items); }, corpus.items)) {
    return absl::FailedPreconditionError(
        fmt::format("{}={} ({}): model \"{}\" reads {}; it takes {}",
                    entry.lengths.empty() ? "data" : "lengths",
                    entry.lengths.empty() ? entry.data : entry.lengths, corpus.kind(), needs.model,
                    FormName(needs.form), TakesWhat(needs)));
  }
  return maker.Finish(corpus);
}

}  // namespace cellbatch

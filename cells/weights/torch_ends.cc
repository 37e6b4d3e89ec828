// What lies at the ends of a stack: the embedding below it, the linear layer above it. A matrix of the right width may be
// many things (an attention's, a gate's, a linear layer's before the stack), so it takes its place where its name says so,
// too, or says nothing and its shape fits no other; or where a flag does. Whatever is left over is a problem: without it
// answers would be wrong.
#include <algorithm>

#include "cells/weights/torch_reading.h"
#include "cells/weights/torch_words.h"

namespace cellbatch {
namespace {

using Entry = SafetensorsEntry;

std::string BiasOf(const std::string& weight) {
  constexpr std::string_view kWeight = "weight";
  if (!weight.ends_with(kWeight)) return "";
  return weight.substr(0, weight.size() - kWeight.size()) + "bias";
}

// Modules call theirs so. A parameter of the model itself (a learned first state, the query of an attention) may have the
// shape of a head, and be none.
bool IsModulesWeight(const std::string& name) {
  return name == "weight" || name.ends_with(".weight");
}

// The module itself, without those that it is a part of: "net.fc.weight" -> "fc".
std::string LastOf(const std::string& weight) {
  const size_t end = weight.rfind('.');
  if (end == std::string::npos) return "";
  const size_t begin = end == 0 ? std::string::npos : weight.rfind('.', end - 1);
  const size_t first = begin == std::string::npos ? 0 : begin + 1;
  return weight.substr(first, end - first);
}

std::string Quoted(const std::vector<const Entry*>& tensors) {
  std::vector<std::string> names;
  for (const Entry* t : tensors) names.push_back(t->name);
  return fmt::format("\"{}\"", fmt::join(names, "\" and \""));
}

class EndsReader {
 public:
  explicit EndsReader(TorchReading& reading)
      : reading_(reading), model_(reading.model), top_(reading.TopWidth()) {}

  void Read() {
    const TorchHints& hints = reading_.hints;
    if (const Entry* t = Choose(kEmbedding, hints.embedding, hints.head)) {
      reading_.used.insert(t->name);
      model_.embedding = t->name;
      model_.vocabulary = t->shape[0];
    }
    if (const Entry* t = Choose(kHead, hints.head, model_.embedding)) {
      reading_.used.insert(t->name);
      model_.head = t->name;
      model_.classes = t->shape[0];
      if (reading_.Find(BiasOf(t->name)) != nullptr) model_.head_bias = BiasOf(t->name);
      reading_.used.insert(model_.head_bias);
    }
    if (reading_.problems.empty()) NameTheRest();
  }

 private:
  enum End { kEmbedding, kHead };
  static const char* Called(End end) { return end == kEmbedding ? "embedding" : "head"; }
  int64_t Width(End end) const { return end == kEmbedding ? model_.input : top_; }

  bool Fits(End end, const Entry& t) const {
    if (!IsMatrix(t) || t.shape[0] < 1 || t.shape[1] != Width(end)) return false;
    const Entry* bias = reading_.Find(BiasOf(t.name));
    if (end == kEmbedding) return bias == nullptr;
    return bias == nullptr || bias->shape == std::vector<int64_t>{t.shape[0]};
  }

  // Whether the name says that it is something else.
  bool SaysOther(End end, const Entry& t) const {
    const std::string own = OwnName(t.name, model_.prefix);
    if (!IsModulesWeight(t.name) || SaysAside(own)) return true;
    if (end == kEmbedding) {
      return SaysEmbedding(own) == Saying::kNo && SaysHead(own) == Saying::kYes;
    }
    return SaysEmbedding(own) == Saying::kYes || SaysBefore(own);
  }

  // A linear layer that makes what the stack reads out of as many numbers as the end's matrix reads.
  bool MayLieBefore(const Entry& t) const {
    return t.shape[0] == model_.input && t.shape[1] == model_.input;
  }

  // Whether it is this and nothing else, as far as its name goes.
  bool Says(End end, const Entry& t) const {
    if (SaysOther(end, t)) return false;
    const std::string own = OwnName(t.name, model_.prefix);
    Saying saying = end == kEmbedding ? SaysEmbedding(own) : SaysHead(own);
    const int order = OrderInList(t.name, model_.prefix);
    // "output_embedding": which of the two, where it may be either.
    if (end == kEmbedding && Fits(kHead, t) && SaysHead(LastOf(own)) == Saying::kYes) return false;
    if (end == kHead && order > 0) saying = Saying::kYes;
    if (end == kHead && order < 0) saying = Saying::kNo;
    if (end == kEmbedding && order < 0) saying = std::max(saying, Saying::kMay);
    return saying == Saying::kYes || (saying == Saying::kMay && !MayLieBefore(t));
  }

  // Whether its shape leaves it no other place, where its name says nothing.
  bool IsForNothingElse(End end, const Entry& t) const {
    const bool embedding = end == kEmbedding;
    const std::string& hint = embedding ? reading_.hints.head : reading_.hints.embedding;
    const std::string& taken = embedding ? model_.head : model_.embedding;
    const bool other_is_free = hint != "none" && taken.empty();
    return !MayLieBefore(t) && !(other_is_free && Fits(embedding ? kHead : kEmbedding, t));
  }

  // The tensor that a flag names, checked.
  const Entry* Flagged(End end, const std::string& name) {
    const Entry* t = reading_.Find(name);
    if (t == nullptr) {
      reading_.Problem("--{} {}: no such tensor", Called(end), name);
    } else if (!Fits(end, *t)) {
      reading_.Problem("--{} {}: it is {} {}, expected floats [any, {}]", Called(end), name,
                       t->dtype, ShapeText(t->shape), Width(end));
      t = nullptr;
    }
    return t;
  }

  // The matrix of an end, or null: there is none, or several could be. `taken`: of the other end.
  const Entry* Choose(End end, const std::string& hint, const std::string& taken) {
    if (hint == "none") return nullptr;
    if (!hint.empty()) return Flagged(end, hint);
    std::vector<const Entry*> may, says;
    const End other = end == kEmbedding ? kHead : kEmbedding;
    for (const auto& [name, t] : reading_.by_name) {
      if (reading_.used.contains(name) || name == taken || !Fits(end, *t)) continue;
      if (SaysOther(end, *t)) continue;
      if (Says(end, *t)) {
        says.push_back(t);
      } else if (!Fits(other, *t) || !Says(other, *t)) {
        may.push_back(t);
      }
    }
    if (says.size() == 1) return says[0];
    if (says.empty() && may.size() == 1 && IsForNothingElse(end, *may[0])) return may[0];
    const std::vector<const Entry*>& all = says.empty() ? may : says;
    if (all.size() > 1) {
      reading_.Problem("{} could each be the {} [any, {}]: --{} NAME or none", Quoted(all),
                       Called(end), Width(end), Called(end));
    }
    return nullptr;
  }

  // Why what fits a place that is free did not take it.
  std::string Doubt(const Entry& t, bool head) const {
    const auto other = [&](End end) { return Fits(end, t) && SaysOther(end, t); };
    if (other(kEmbedding) || other(kHead)) return ", but for its name";
    const std::string own = OwnName(t.name, model_.prefix);
    if (!head || SaysHead(own) == Saying::kNo) return ", its name does not say";
    return fmt::format(", or a linear layer before \"{}\", which reads {} numbers and leaves {}",
                       model_.prefix, model_.input, top_);
  }

  // Notes a matrix that would fit a place that is free.
  bool NameDoubtful(const Entry& t) {
    std::vector<std::string> places, flags;
    const bool embedding =
        model_.embedding.empty() && reading_.hints.embedding.empty() && Fits(kEmbedding, t);
    const bool head = model_.head.empty() && reading_.hints.head.empty() && Fits(kHead, t);
    if (embedding) {
      places.push_back("an embedding");
      flags.push_back("--embedding " + t.name);
    }
    if (head) {
      places.push_back("a head");
      flags.push_back("--head " + t.name);
    }
    if (places.empty()) return false;
    reading_.Problem("\"{}\" {} {} could be {}{}: {} takes it, --ignore {} leaves it out", t.name,
                     t.dtype, ShapeText(t.shape), fmt::join(places, " or "), Doubt(t, head),
                     fmt::join(flags, " or "), t.name);
    return true;
  }

  // What `t` is told of an end that it did not become.
  std::string PlaceText(End end, const Entry& t) const {
    const char* place = Called(end);
    const TorchHints& hints = reading_.hints;
    const std::string& hint = end == kEmbedding ? hints.embedding : hints.head;
    const std::string& taken = end == kEmbedding ? model_.embedding : model_.head;
    if (hint == "none") return fmt::format("there is to be no {} (--{} none)", place, place);
    if (!taken.empty() && Fits(end, t)) return fmt::format("the {} is \"{}\"", place, taken);
    return fmt::format("the {} is [any, {}]", place, Width(end));
  }

  // The bias of a matrix that is named goes with it.
  bool IsBiasOfNamed(const std::string& name) const {
    constexpr std::string_view kBias = "bias";
    if (!name.ends_with(kBias)) return false;
    const Entry* weight = reading_.Find(name.substr(0, name.size() - kBias.size()) + "weight");
    return weight != nullptr && named_.contains(weight->name);
  }

  // Whatever is left over would be left out of the model, and its answers be wrong.
  void NameTheRest() {
    for (const auto& [name, t] : reading_.by_name) {
      if (reading_.used.contains(name) || !NameDoubtful(*t)) continue;
      named_.insert(name);
    }
    for (const auto& [name, t] : reading_.by_name) {
      if (reading_.problems.size() >= kMaxTorchProblems) return;
      if (reading_.used.contains(name) || named_.contains(name) || IsBiasOfNamed(name)) continue;
      reading_.Problem("\"{}\" {} {} fits no place: {}, {} (--ignore {} leaves it out)", name,
                       t->dtype, ShapeText(t->shape), PlaceText(kEmbedding, *t),
                       PlaceText(kHead, *t), name);
    }
  }

  TorchReading& reading_;
  TorchModel& model_;
  const int64_t top_;  // what the stack leaves
  std::set<std::string> named_;
};

}  // namespace

void FindEnds(TorchReading& reading) { EndsReader(reading).Read(); }

}  // namespace cellbatch

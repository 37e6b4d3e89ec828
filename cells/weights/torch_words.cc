#include "cells/weights/torch_words.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"

namespace cellbatch {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "net.fc_in2.weight" -> net, fc, in, weight.
std::set<std::string> WordsOf(const std::string& name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : Lower(name) + ".") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      words.insert(std::move(word));
      word.clear();
    }
  }
  return words;
}

bool HasPart(const std::string& name, std::initializer_list<const char*> parts) {
  const std::string text = Lower(name);
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

bool HasWord(const std::string& name, std::initializer_list<const char*> words) {
  const std::set<std::string> all = WordsOf(name);
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return all.contains(word); });
}

std::vector<std::string> PartsOf(const std::string& name) { return absl::StrSplit(name, '.'); }

// How many of their parts are the same, from the front.
size_t Common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(differ.first - a.begin());
}

std::optional<int> Number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Saying SaysEmbedding(const std::string& name) {
  if (HasPart(name, {"emb", "lookup", "glove", "fasttext"})) return Saying::kYes;
  if (HasWord(name, {"word", "words", "char", "chars", "character", "characters", "token", "tokens",
                     "wte", "lut"})) {
    return SaysHead(name) == Saying::kYes ? Saying::kNo : Saying::kYes;  // "token_classifier"
  }
  return HasWord(name, {"encoder", "enc"}) ? Saying::kMay : Saying::kNo;
}

Saying SaysHead(const std::string& name) {
  if (HasPart(name, {"head", "out", "decoder", "classif", "pred", "logit", "scor", "regress", "tag",
                     "label"}) ||
      HasWord(name, {"cls", "o", "generator", "softmax", "answer", "target"})) {
    return Saying::kYes;
  }
  const bool linear = HasPart(name, {"fc", "linear", "proj", "dense"}) ||
                      HasWord(name, {"lin", "mlp", "ffn", "ff", "final", "last"});
  return linear ? Saying::kMay : Saying::kNo;
}

bool SaysAside(const std::string& name) {
  return HasPart(name, {"attn", "attention", "multihead", "position"}) ||
         HasWord(name,
                 {"att",    "mha",      "query",  "key",     "value",   "q",       "k",
                  "v",      "pos",      "gate",   "gates",   "highway", "skip",    "shortcut",
                  "res",    "residual", "type",   "segment", "bridge",  "align",   "context",
                  "memory", "pool",     "pooler", "pooling", "crf",     "speaker", "transitions",
                  "init",   "initial",  "conv"});
}

bool SaysBefore(const std::string& name) {
  return HasWord(name, {"in", "input", "inputs", "pre", "prenet", "before", "bottom", "first",
                        "stem", "front", "frontend", "feature", "features"});
}

int OrderInList(const std::string& name, const std::string& module) {
  const std::vector<std::string> a = PartsOf(name), b = PartsOf(module);
  const size_t at = Common(a, b);
  if (at >= a.size() || at >= b.size()) return 0;
  const std::optional<int> own = Number(a[at]), others = Number(b[at]);
  if (!own || !others || *own == *others) return 0;
  return *own < *others ? -1 : 1;
}

std::string OwnName(const std::string& name, const std::string& module) {
  const std::vector<std::string> parts = PartsOf(name);
  const size_t shared = std::min(Common(parts, PartsOf(module)), parts.size() - 1);
  std::string own;
  for (size_t i = shared; i < parts.size(); ++i) own += (own.empty() ? "" : ".") + parts[i];
  return own;
}

}  // namespace cellbatch

#include "client/sentence.h"

#include <algorithm>
#include <array>

namespace cellbatch {
namespace {

// Cut off as words of their own. Beyond ASCII: curly quotes, guillemets, the ellipsis.
constexpr std::array<std::string_view, 13> kOpening = {"(", "[", "{", "\"", "``", "'", "“",
                                                       "‘", "«", "„", "¿",  "¡",  "<"};
constexpr std::array<std::string_view, 15> kClosing = {")", "]", "}", "\"", "''", "'", "”", "’",
                                                       "»", ",", ";", ":",  "!",  "?", "…"};
// Hang on a word, and are one.
constexpr std::array<std::string_view, 8> kClitics = {"'s",  "n't", "'re", "'ve",
                                                      "'ll", "'d",  "'m",  "’s"};

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

// The longest of `pieces` at that end of a text that is more than it; empty: none.
template <size_t kCount>
std::string_view Longest(const std::array<std::string_view, kCount>& pieces, std::string_view text,
                         bool at_end) {
  std::string_view longest;
  for (const std::string_view piece : pieces) {
    const bool there = at_end ? EndsWith(text, piece)
                              : text.size() > piece.size() && text.substr(0, piece.size()) == piece;
    if (there && piece.size() > longest.size()) longest = piece;
  }
  return longest;
}

// The words of one piece of text between white space.
void CutPiece(std::string_view text, bool last, std::vector<std::string>& words) {
  while (true) {
    const std::string_view opening = Longest(kOpening, text, false);
    // 's alone, as in a text that is cut already.
    if (opening.empty() || std::find(kClitics.begin(), kClitics.end(), text) != kClitics.end())
      break;
    words.emplace_back(opening);
    text.remove_prefix(opening.size());
  }
  std::vector<std::string_view> ends;  // backwards
  const auto cut = [&](std::string_view piece) {
    ends.push_back(piece);
    text.remove_suffix(piece.size());
  };
  while (true) {
    const std::string_view clitic = Longest(kClitics, text, true);
    const std::string_view closing = Longest(kClosing, text, true);
    const bool stop = last && EndsWith(text, ".") && std::count(text.begin(), text.end(), '.') == 1;
    if (!clitic.empty()) {
      cut(text.substr(text.size() - clitic.size()));
    } else if (!closing.empty()) {
      cut(text.substr(text.size() - closing.size()));
    } else if (stop) {
      cut(text.substr(text.size() - 1));
    } else {
      break;
    }
  }
  words.emplace_back(text);
  words.insert(words.end(), ends.rbegin(), ends.rend());
}

// Characters, not bytes: what follows the first byte of one begins with the bits 10.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

void Append(std::string_view text, size_t width, std::string& line) {
  line += text;
  line.append(width - Width(text), ' ');
}

std::string Trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::vector<std::string> WordsOf(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n\f\v";
  std::vector<std::string> words;
  size_t begin = text.find_first_not_of(kWhite);
  while (begin != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kWhite, begin), text.size());
    const size_t next = text.find_first_not_of(kWhite, end);
    CutPiece(text.substr(begin, end - begin), next == std::string_view::npos, words);
    begin = next;
  }
  return words;
}

std::string ToText(const TaggedSentence& sentence, size_t columns) {
  constexpr size_t kGap = 2;
  std::string text, words, labels;
  size_t used = 0;
  for (size_t i = 0; i < sentence.words.size(); ++i) {
    const size_t width = std::max(Width(sentence.words[i]), Width(sentence.labels[i])) + kGap;
    if (used > 0 && used + width - kGap > columns) {
      text += Trimmed(words) + Trimmed(labels) + "\n";
      words.clear();
      labels.clear();
      used = 0;
    }
    Append(sentence.words[i], width, words);
    Append(sentence.labels[i], width, labels);
    used += width;
  }
  return used == 0 ? text : text + Trimmed(words) + Trimmed(labels);
}

}  // namespace cellbatch

#include "server/names/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace cellbatch {
namespace {

constexpr size_t kMostLetters = 64;
constexpr size_t kMostNames = 20;  // that an error text lists

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Letters to insert, to leave out, to change, or to exchange with the next one.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1),
      row(b.size() + 1);  // of the table, rows of a's letters
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const bool same = Lower(a[i]) == Lower(b[j]);
      row[j + 1] = std::min({last[j] + (same ? 0 : 1), last[j + 1] + 1, row[j] + 1});
      const bool exchanged =
          i > 0 && j > 0 && Lower(a[i]) == Lower(b[j - 1]) && Lower(a[i - 1]) == Lower(b[j]);
      if (exchanged) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    before = std::exchange(last, row);
  }
  return last.back();
}

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& names) {
  if (name.empty() || name.size() > kMostLetters) return "";
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  std::string nearest;
  for (const std::string& other : names) {
    const size_t slash = other.rfind('/');  // "table" of "embed/table"
    if (slash != std::string::npos && other.substr(slash + 1) == name) return other;
    if (other.size() > kMostLetters) continue;
    const size_t distance = Distance(name, other);
    // A single letter that is another one is another name, unless only its case differs.
    if (distance >= least || distance >= std::max(name.size(), other.size())) continue;
    least = distance;
    nearest = other;
  }
  return nearest;
}

std::string MeantOrThere(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) return fmt::format("; did you mean \"{}\"?", nearest);
  if (names.empty()) return "";
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMostNames; ++i) {
    list += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", names[i]);
  }
  return fmt::format(" (there are {}{})", list, names.size() > kMostNames ? ", .." : "");
}

}  // namespace cellbatch

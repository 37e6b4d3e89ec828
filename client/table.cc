#include "client/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace cellbatch {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no room.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

bool LooksLikeNumber(const std::string& text) {
  return text.empty() || text == kNothing || (text[0] >= '0' && text[0] <= '9') || text[0] == '-' ||
         text[0] == '+';
}

}  // namespace

TextTable::TextTable(std::vector<std::string> head) : rows_{std::move(head)} {}

void TextTable::AddRow(std::vector<std::string> cells) {
  if (cells.size() != rows_[0].size()) {
    std::fprintf(stderr, "client/table: a row of %zu cells under a head of %zu\n", cells.size(),
                 rows_[0].size());
    std::abort();
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToText() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  std::vector<bool> right(rows_[0].size(), rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], Width(rows_[r][c]));
      right[c] = right[c] && (r == 0 || LooksLikeNumber(rows_[r][c]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string gap(widths[c] - Width(row[c]), ' ');
      line += (c == 0 ? "" : "  ") + (right[c] ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string FormatDuration(double ns) {
  const char* unit = "ns";
  double value = ns;
  // 999.5 would round to a fourth digit.
  for (const char* next : {"us", "ms", "s"}) {
    if (std::abs(value) < 999.5) {
      break;
    }
    value /= 1000;
    unit = next;
  }
  const double size = std::abs(value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, unit[0] == 'n' ? 0 : decimals, unit);
}

std::string FormatCount(uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(i, 1, ',');
  }
  return digits;
}

}  // namespace cellbatch

// Text for terminals: tables with aligned columns, numbers and times that read well. Pure
// functions.

#ifndef CELLBATCH_CLIENT_TABLE_H_
#define CELLBATCH_CLIENT_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

// Columns of text to the left, columns of numbers (every filled cell begins with a digit, a sign or
// a dash) to the right:
//
//   model      requests     p50      p99
//   sentiment     1,204  3.1 ms  9.72 ms
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head);
  void AddRow(std::vector<std::string> cells);  // as many as the head has
  std::string ToText() const;                   // ends with a newline

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Three significant digits in the unit that fits: "850 ns", "12.3 us", "4.07 ms", "1.2 s".
std::string FormatDuration(double ns);

// "12,345".
std::string FormatCount(uint64_t count);

// What a cell says where there is nothing to say.
inline constexpr char kNothing[] = "–";

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TABLE_H_

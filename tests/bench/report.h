// How every benchmark shows its figures (design.md §8): a readable table, JSON, and at the end one line per figure,
//
//   figure step.lstm_h1024_b64_fp32.vs_best = 1.08 x
//
// after the machine they were measured on. Names are stable: people compare them over time.
//
//   Report report("step");
//   Table table({"b", "ours µs", "best µs"});
//   table.Add({"64", Number(q.median, 1), ...});
//   report.Text(table.ToString());
//   report.Figure("step.lstm_h1024_b64_fp32.vs_best", ratio, "x");
//   return report.Finish(json_path) ? 0 : 1;
//
// Text goes to stdout as it is added; figures wait for Finish. One thread.
#ifndef CELLBATCH_TESTS_BENCH_REPORT_H_
#define CELLBATCH_TESTS_BENCH_REPORT_H_

#include <string>
#include <utility>
#include <vector>

namespace cellbatch {

// Lower quartile, median and upper quartile of samples (interpolated; all zero when there are none).
struct Quartiles {
  double low = 0.0, median = 0.0, high = 0.0;
};
Quartiles QuartilesOf(std::vector<double> samples);

// "12.3" with that many digits behind the point.
std::string Number(double value, int digits);
// "12.3 (12.1-12.9)"
std::string Number(const Quartiles& q, int digits);

// Columns as wide as their widest cell, numbers to the right, in plain text. Widths count code points.
class Table {
 public:
  explicit Table(std::vector<std::string> head);
  void Add(std::vector<std::string> row);
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the head
};

class Report {
 public:
  // Prints the benchmark's name and the machine: CPU, instruction sets, caches, cores, load.
  explicit Report(std::string benchmark);

  // Prints now.
  void Text(const std::string& text);
  // Prints "name: value" now, and keeps it as a fact in the JSON (library versions, probed ceilings).
  void Fact(const std::string& name, const std::string& value);
  // Kept for Finish. `quartiles` of the same value, where there are any, go to the JSON.
  void Figure(const std::string& name, double value, const std::string& unit,
              const Quartiles* quartiles = nullptr);

  // Prints the figure lines; writes JSON to `path` unless it is empty. False: the file could not be written.
  bool Finish(const std::string& json_path);

 private:
  struct Entry {
    std::string name, unit;
    double value;
    Quartiles quartiles;
    bool has_quartiles;
  };
  std::string benchmark_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<Entry> figures_;
};

// FILE of --json=FILE, for benchmarks that take nothing else; empty: not given. On --help and on anything else it
// prints the usage, and the program ends.
std::string JsonArgument(const std::string& benchmark, int argc, char** argv);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_REPORT_H_

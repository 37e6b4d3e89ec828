// Writes the Prometheus text format: families one after the other, each with its help and type once. A value is the shortest
// text that is read back as the same number; edges of histograms, which are names of series, have six digits.
#ifndef CELLBATCH_SERVER_HTTP_METRICS_TEXT_H_
#define CELLBATCH_SERVER_HTTP_METRICS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cellbatch {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Divided, the number is the one that a decimal of the same digits is read as, and printed with these.
inline double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

class MetricsText {
 public:
  // Starts a family; what follows belongs to it. `type`: "counter", "gauge", "histogram".
  void Family(std::string_view name, std::string_view type, std::string_view help);
  void Value(const Labels& labels, double value);
  void Value(const Labels& labels, int64_t value);
  // One histogram: upper edges and how many entries lie at or below each (cumulative), all of them,
  // and their sum.
  void Histogram(const Labels& labels, const std::vector<std::pair<double, int64_t>>& cumulative,
                 int64_t count, double sum);
  std::string Take() { return std::move(text_); }

 private:
  void Line(std::string_view suffix, const Labels& labels, std::string_view edge,
            std::string_view value);
  std::string text_;
  std::string family_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_METRICS_TEXT_H_

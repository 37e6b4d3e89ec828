#include "server/http/metrics_text.h"

#include "fmt/format.h"

namespace cellbatch {

namespace {

void AppendEscaped(std::string_view value, std::string& out) {
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
}

}  // namespace

void MetricsText::Family(std::string_view name, std::string_view type, std::string_view help) {
  family_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::Line(std::string_view suffix, const Labels& labels, std::string_view edge,
                       std::string_view value) {
  text_ += family_;
  text_ += suffix;
  if (!labels.empty() || !edge.empty()) {
    char before = '{';
    for (const auto& [name, label] : labels) {
      text_ += before;
      text_ += name;
      text_ += "=\"";
      AppendEscaped(label, text_);
      text_ += '"';
      before = ',';
    }
    if (!edge.empty()) {
      text_ += before;
      text_ += fmt::format("le=\"{}\"", edge);
    }
    text_ += '}';
  }
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

void MetricsText::Value(const Labels& labels, double value) {
  Line("", labels, "", fmt::format("{}", value));
}

void MetricsText::Value(const Labels& labels, int64_t value) {
  Line("", labels, "", fmt::format("{}", value));
}

void MetricsText::Histogram(const Labels& labels,
                            const std::vector<std::pair<double, int64_t>>& cumulative,
                            int64_t count, double sum) {
  for (const auto& [edge, below] : cumulative) {
    Line("_bucket", labels, fmt::format("{:.6g}", edge), fmt::format("{}", below));
  }
  Line("_bucket", labels, "+Inf", fmt::format("{}", count));
  Line("_sum", labels, "", fmt::format("{}", sum));
  Line("_count", labels, "", fmt::format("{}", count));
}

}  // namespace cellbatch

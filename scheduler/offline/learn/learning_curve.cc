#include "scheduler/offline/learn/learning_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cellbatch {
namespace {

constexpr double kWidth = 800, kHeight = 420, kLeft = 60, kRight = 230, kTop = 40, kBottom = 50;

// Tries on a logarithmic scale from 1 on, what is to be small from the least there is up.
class Axes {
 public:
  Axes(double most_tries, double least, double most)
      : tries_(std::log10(std::max(most_tries, 10.0))),
        least_(least),
        most_(std::max(most, least + 0.05)) {}
  double X(double tries) const {
    return kLeft + (kWidth - kLeft - kRight) * std::log10(std::max(tries, 1.0)) / tries_;
  }
  double Y(double value) const {
    const double part = (std::min(value, most_) - least_) / (most_ - least_);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  }
  std::string Grid() const {
    std::string svg;
    for (int i = 0; i <= 4; ++i) {
      const double value = least_ + (most_ - least_) * i / 4;
      svg += fmt::format(
          "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>"
          "<text x='{}' y='{:.1f}' text-anchor='end'>{:.2f}</text>\n",
          kLeft, kWidth - kRight, Y(value), Y(value), kLeft - 6, Y(value) + 4, value);
    }
    for (double tries = 1; std::log10(tries) <= tries_ + 1e-9; tries *= 10) {
      svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", X(tries),
                         kHeight - kBottom + 18, static_cast<int64_t>(tries));
    }
    return svg +
           fmt::format("<text x='{}' y='{}'>episodes, tables tried</text>\n", kLeft, kHeight - 12);
  }

 private:
  const double tries_, least_, most_;
};

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return escaped;
}

std::string Line(const OrderCandidate& c, const Axes& axes, bool published) {
  std::string points;
  for (const auto& [tries, batches] : c.curve) {
    points += fmt::format("{:.1f},{:.1f} ", axes.X(static_cast<double>(tries)), axes.Y(batches));
  }
  if (!c.curve.empty()) {  // it stays there
    points += fmt::format("{:.1f},{:.1f}", axes.X(static_cast<double>(c.episodes)),
                          axes.Y(c.curve.back().second));
  }
  return fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='{}'/>\n", points,
                     published ? "#c00" : "#789", published ? 3 : 1);
}

std::string Level(const OrderCandidate& c, const Axes& axes, const char* style) {
  return fmt::format(
      "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#333' {}/>"
      "<text x='{}' y='{:.1f}'>{} {:.3f}</text>\n",
      kLeft, kWidth - kRight, axes.Y(c.over_bound), axes.Y(c.over_bound), style,
      kWidth - kRight + 6, axes.Y(c.over_bound) + 4, Escaped(c.name.substr(0, 28)), c.over_bound);
}

}  // namespace

std::string LearningCurveSvg(const TrainingResult& result, std::string_view title) {
  return CurveSvg(result.candidates, result.table_is_best ? &result.published : nullptr,
                  std::string(title) + ": batches ÷ lower bound while learning", 1);
}

std::string CurveSvg(absl::Span<const OrderCandidate> candidates, const OrderCandidate* published,
                     std::string_view caption, double least) {
  double most_tries = 1, most = least;
  for (const OrderCandidate& c : candidates) {
    for (const auto& [tries, value] : c.curve) {
      most_tries = std::max(most_tries, static_cast<double>(std::max(tries, c.episodes)));
      most = std::max(most, value);
    }
    if (!c.is_table) most = std::max(most, c.over_bound);
  }
  const Axes axes(most_tries, least, most);
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='{}' font-family='sans-serif' "
      "font-size='12'>\n<text x='{}' y='20'>{}</text>\n",
      kWidth, kHeight, kLeft, Escaped(caption));
  svg += axes.Grid();
  for (const OrderCandidate& c : candidates) {
    if (c.is_table) {
      svg += Line(c, axes, /*published=*/false);
    } else {
      svg += Level(c, axes, "stroke-dasharray='5,4'");
    }
  }
  if (published != nullptr) svg += Line(*published, axes, /*published=*/true);
  return svg + "</svg>\n";
}

}  // namespace cellbatch

#include "server/http/status/page_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr double kWidth = 120, kHeight = 28, kPad = 1.5;
static_assert(kFewest <= kDrawn);
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

// From here on a number of three digits is one of four: "{:.3g}" would write it as "1e+03".
constexpr double kRoundsUp = 999.5;

std::string Digits(double n) {
  return n < kRoundsUp ? fmt::format("{:.3g}", n) : fmt::format("{:.0f}", n);
}

std::string ValueText(LineUnit unit, float value) {
  if (std::isnan(value)) return "–";
  switch (unit) {
    case LineUnit::kCount:
      return CountText(static_cast<double>(value));
    case LineUnit::kMilliseconds:
      return value == 0 ? "0 ms" : TimeText(static_cast<int64_t>(value * 1e6F));
    case LineUnit::kShare:
      return fmt::format("{:.0f} %", value * 100);
  }
  return "";
}

// kDrawn at most, each of as many seconds as the others; the last one ends at the last second.
std::vector<float> Fewer(const std::vector<float>& points, bool highest) {
  const int each = std::max(1, (static_cast<int>(points.size()) + kDrawn - 1) / kDrawn);
  std::vector<float> fewer;
  for (size_t begin = points.size() % static_cast<size_t>(each), at = 0; at < points.size();) {
    const size_t end = at == 0 && begin > 0 ? begin : at + static_cast<size_t>(each);
    float sum = 0, most = 0;
    int count = 0;
    for (; at < end; ++at) {
      if (std::isnan(points[at])) continue;
      sum += points[at];
      most = std::max(most, points[at]);
      ++count;
    }
    fewer.push_back(count == 0 ? kNone : highest ? most : sum / static_cast<float>(count));
  }
  return fewer;
}

// The line, broken where there are no points; one alone is a dot (a line to itself, with round ends).
std::string PathOf(const std::vector<float>& drawn, float highest) {
  std::string path;
  bool open = false;
  const double step = kWidth / (std::max(static_cast<double>(drawn.size()), double{kFewest}) - 1);
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (std::isnan(drawn[i])) {
      open = false;
      continue;
    }
    // The last second is at the right edge, whenever the first one was.
    const double x = kWidth - static_cast<double>(drawn.size() - 1 - i) * step;
    const double y =
        kHeight - kPad -
        static_cast<double>(highest > 0 ? drawn[i] / highest : 0) * (kHeight - 2 * kPad);
    const bool alone = !open && (i + 1 == drawn.size() || std::isnan(drawn[i + 1]));
    path += fmt::format("{}{:.1f} {:.1f}{}", open ? "L" : "M", x, y, alone ? "h0" : "");
    open = true;
  }
  return path;
}

}  // namespace

std::string TimeText(int64_t ns) {
  const double t = static_cast<double>(ns);
  if (ns <= 0) return "–";
  if (t < kRoundsUp * 1e3) return Digits(t / 1e3) + " µs";
  if (t < kRoundsUp * 1e6) return Digits(t / 1e6) + " ms";
  return Digits(t / 1e9) + " s";
}

std::string CountText(double n) {
  if (n < kRoundsUp) return Digits(n);
  if (n < kRoundsUp * 1e3) return Digits(n / 1e3) + " k";
  if (n < kRoundsUp * 1e6) return Digits(n / 1e6) + " M";
  return Digits(n / 1e9) + " G";
}

std::string BytesText(int64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (n < 1 << 20) return Digits(n / 1024) + " KiB";
  if (n < 1 << 30) return Digits(n / (1 << 20)) + " MiB";
  return Digits(n / (1 << 30)) + " GiB";
}

std::string UptimeText(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

std::string ShortText(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xc0) == 0x80) {
    --most_bytes;
  }
  return std::string(text.substr(0, most_bytes)) + "…";
}

std::string FactHtml(std::string_view name, std::string_view value, std::string_view beside) {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>", name, value,
                     beside.empty() ? "" : fmt::format(" <small>{}</small>", beside));
}

std::string LineHtml(std::string_view name, LineUnit unit, const std::vector<float>& points,
                     std::string_view beside) {
  const std::vector<float> drawn = Fewer(points, unit == LineUnit::kMilliseconds);
  float highest = 0;
  for (const float point : drawn) {
    if (!std::isnan(point)) highest = std::max(highest, point);
  }
  const float scale = unit == LineUnit::kShare ? 1.0F : highest;
  const std::string top = ValueText(unit, highest);
  const std::string path = PathOf(drawn, scale);
  return fmt::format(
      "<div class=\"line\"><dt>{0}{6}</dt><dd>{1} <small>max {2}</small>"
      "<svg viewBox=\"0 0 {3} {4}\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{0} over time, at most {2}\">"
      "<line class=\"rule\" x1=\"0\" x2=\"{3}\" y1=\"{4}\" y2=\"{4}\"/>{5}</svg></dd></div>",
      name, ValueText(unit, points.empty() ? kNone : points.back()), top, kWidth, kHeight,
      path.empty() ? "" : fmt::format("<path class=\"curve\" d=\"{}\"/>", path),
      beside.empty() ? "" : fmt::format(" <small>{}</small>", beside));
}

}  // namespace cellbatch
